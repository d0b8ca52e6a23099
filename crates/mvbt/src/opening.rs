//! Making a database, and opening it: alone, or beside others.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use oneflush_blocklog::{DirectFile, Storage, Uuid};

use crate::anchor::Anchor;
use crate::commons::Commons;
use crate::commons::board::{Board, ORPHANED};
use crate::commons::mapped::Mapped;
use crate::layout::{self, BLOCK_BYTES};
use crate::options::Options;
use crate::page::draft::Draft;
use crate::read::{Read, ReadTransaction};
use crate::shared::Shared;
use crate::store::Store;
use crate::writer::Writer;
use crate::writer_lock::{Wait, WriterLock};
use crate::{Error, PageNo, Result, TreeId, Version, recovery, work};

/// Makes a file that must not exist.
pub fn create(path: &Path, options: &Options) -> Result<()> {
    let failed = |source| open_failed(path, "create it", source);
    let file = DirectFile::open(path, true).map_err(failed)?;
    let made = format(Arc::new(file), path.to_owned(), options).and_then(|()| {
        oneflush_blocklog::sync_directory(path)
            .map_err(|source| open_failed(path, "sync its directory", source))
    });
    // Nobody has seen the file that this call made.
    made.inspect_err(|_| drop(std::fs::remove_file(path)))
}

pub fn open(path: &Path, options: Options) -> Result<Arc<Shared>> {
    // Links lead to one memory.
    let found = path.canonicalize();
    let path =
        found.map_err(|source| Error::Io { path: path.to_owned(), doing: "open it", source })?;
    let opened = DirectFile::open(&path, false);
    let storage = Arc::new(opened.map_err(|source| open_failed(&path, "open it", source))?);
    // What is no database gets no file beside it.
    recovery::newest_anchor(&*storage, &path)?;
    Mapped::join(&path, |commons, is_alone| join(storage, path.clone(), options, commons, is_alone))
}

pub fn join(
    storage: Arc<dyn Storage>,
    path: PathBuf,
    options: Options,
    commons: Arc<dyn Commons>,
    is_alone: bool,
) -> Result<Arc<Shared>> {
    let anchor = recovery::newest_anchor(&*storage, &path)?;
    if storage.alignment_bytes() > BLOCK_BYTES {
        return Err(Error::PageSize { bytes: storage.alignment_bytes() });
    }
    let (page_bytes, cache) = (anchor.page_bytes, options.cache_bytes);
    let store = Store::new(storage, path, page_bytes, anchor.uuid, cache);
    let board = Board::new(commons);
    let mut writer = Writer::new(anchor);
    if is_alone {
        writer.open(&store, &board)?;
    } else if !board.join(store.uuid) {
        return Err(Error::Busy { what: ORPHANED });
    }
    let shared = Arc::new(Shared::new(store, options, board, WriterLock::new(writer)));
    if is_alone {
        // A page behind the last one is none that a close has left.
        let count = ReadTransaction::begin(&shared)?.page_count().unwrap_or(0);
        WriterLock::take(&shared, Wait::ForEver)?.pool.keep_up_to(PageNo(count));
    }
    Ok(shared)
}

/// Writes an empty database. What the file holds is overwritten.
pub fn format(storage: Arc<dyn Storage>, path: PathBuf, options: &Options) -> Result<()> {
    if !layout::is_page_size(options.page_bytes) {
        return Err(Error::PageSize { bytes: options.page_bytes });
    }
    let uuid = Uuid::random().map_err(|source| open_failed(&path, "draw a UUID", source))?;
    let first = Version(1);
    let anchor = Anchor {
        page_bytes: options.page_bytes,
        uuid,
        sequence: 0,
        opening: 0,
        reserved: first,
        settled: first,
        is_closed: true,
        voids: Vec::new(),
        pool: Vec::new(),
    };
    let store = Store::new(storage, path, options.page_bytes, uuid, options.cache_bytes);
    store.prepare()?;
    let roots = [(work::CATALOG, TreeId(0)), (work::FREE_PAGES, work::FREE)];
    for (no, tree) in roots {
        let mut draft = Draft::fresh(options.page_bytes, no, tree, false, 0, first);
        if no == work::CATALOG {
            for (index, cell) in work::first_cells(first, roots.len() as u64).iter().enumerate() {
                assert!(draft.insert(index, cell, 0), "an empty page has room");
            }
        }
        let (bytes, _) = draft.finish(first, false, uuid);
        store.write_pages(&[(no, bytes)].into())?;
    }
    store.flush()?;
    // Now there is something that the anchor stands for.
    store.write_anchor(&anchor)
}

fn open_failed(path: &Path, doing: &'static str, source: oneflush_blocklog::Error) -> Error {
    Error::Io { path: path.to_owned(), doing, source: std::io::Error::other(source) }
}
