//! Making a database, and opening it: alone, or beside others.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use oneflush_blocklog::{DirectFile, Storage, Uuid};

use crate::anchor::Anchor;
use crate::commons::board::{Board, ORPHANED, Seen};
use crate::commons::mapped::Mapped;
use crate::commons::{Commons, lone};
use crate::layout::{self, BLOCK_BYTES};
use crate::mutant::{self, Mutant};
use crate::options::Options;
use crate::page::draft::Draft;
use crate::read::{Read, ReadTransaction};
use crate::read_only::ReadOnly;
use crate::shared::Shared;
use crate::store::Store;
use crate::writer::Writer;
use crate::writer_lock::WriterLock;
use crate::{Error, Result, TreeId, Version, recovery, work};

/// Who makes a file may open it once, and write first cells.
const OPENING_OF_MAKER: u64 = 1;

/// Makes a file that must not exist.
pub fn create(path: &Path, options: &Options) -> Result<()> {
    check_writable(path, options)?;
    let failed = |source| open_failed(path, "create it", source);
    let file = DirectFile::open(path, true).map_err(failed)?;
    let made = format(Arc::new(file), path.to_owned(), options);
    let made = made.and_then(|()| sync_directory(path));
    // Nobody has seen the file that this call made.
    made.inspect_err(|_| drop(std::fs::remove_file(path)))
}

fn check_writable(path: &Path, options: &Options) -> Result<()> {
    match options.read_only {
        true => Err(Error::ReadOnly { path: path.to_owned() }),
        false => Ok(()),
    }
}

pub fn open(path: &Path, options: Options) -> Result<Arc<Shared>> {
    // Links lead to one memory.
    let found = path.canonicalize();
    let path =
        found.map_err(|source| Error::Io { path: path.to_owned(), doing: "open it", source })?;
    let opened = match options.read_only {
        true => DirectFile::open_to_read(&path),
        false => DirectFile::open(&path, false),
    };
    let storage = Arc::new(opened.map_err(|source| open_failed(&path, "open it", source))?);
    let writes = match options.read_only {
        true => None,
        false => Some(storage.of_same_open_file().map_err(|source| Error::Io {
            path: path.clone(),
            doing: "open it once more",
            source,
        })?),
    };
    // What is no database gets no file beside it.
    recovery::check_is_database(&*storage, &path)?;
    let joins = |commons, is_alone| {
        join(Arc::clone(&storage) as _, path.clone(), options.clone(), commons, is_alone)
    };
    let shared = match Mapped::join(&path, writes, joins) {
        Err(Error::Io { source, .. }) if options.read_only && is_forbidden(&source) => {
            lone::join(&path, |commons| join(storage, path.clone(), options.clone(), commons, true))
        }
        joined => joined,
    }?;
    // I22
    if shared.is_as_made && !options.read_only {
        shared.note_loose_name(true);
        if !mutant::is(Mutant::NameUnsynced) {
            sync_directory(&path)?;
            shared.note_loose_name(false);
        }
    }
    Ok(shared)
}

fn sync_directory(path: &Path) -> Result<()> {
    oneflush_blocklog::sync_directory(path)
        .map_err(|source| open_failed(path, "sync its directory", source))
}

/// This user may not write here.
fn is_forbidden(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem};
    [PermissionDenied, ReadOnlyFilesystem].contains(&error.kind())
}

pub fn join(
    storage: Arc<dyn Storage>,
    path: PathBuf,
    options: Options,
    commons: Arc<dyn Commons>,
    is_alone: bool,
) -> Result<Arc<Shared>> {
    let storage: Arc<dyn Storage> = match options.read_only {
        true => Arc::new(ReadOnly(storage)),
        false => storage,
    };
    let found = recovery::newest_anchor(&*storage, &path)?;
    if storage.alignment_bytes() > BLOCK_BYTES {
        return Err(Error::PageSize { bytes: storage.alignment_bytes() });
    }
    let (page_bytes, cache) = (found.anchor.page_bytes, options.cache_bytes);
    let store = Store::new(storage, path, page_bytes, found.anchor.uuid, cache);
    let board = Board::new(commons);
    let mut writer = Writer::new(found.anchor.clone());
    // The first look of one who joins others reads the anchor.
    let mut seen = Seen::default();
    if is_alone {
        writer.open(&store, &board, &found)?;
        seen = board.seen();
    } else if !board.join(store.uuid) {
        return Err(Error::Busy { what: ORPHANED });
    }
    let is_as_made = found.anchor.opening <= OPENING_OF_MAKER;
    let shared = Shared::new(store, options, board, WriterLock::new(writer), seen, is_as_made);
    let shared = Arc::new(shared);
    if is_alone {
        // A page behind the last one is none that a close has left.
        let count = ReadTransaction::begin(&shared)?.page_count().unwrap_or(0);
        let Anchor { is_closed, pool, .. } = found.anchor;
        if is_closed && pool.iter().all(|no| no.0 <= count) {
            shared.board.leave(&pool);
        }
    } else {
        shared.repair_what_the_dead_have_left()?;
    }
    Ok(shared)
}

/// Writes an empty database. What the file holds is overwritten.
pub fn format(storage: Arc<dyn Storage>, path: PathBuf, options: &Options) -> Result<()> {
    check_writable(&path, options)?;
    if !layout::is_page_size(options.page_bytes) {
        return Err(Error::PageSize { bytes: options.page_bytes });
    }
    let uuid = Uuid::random().map_err(|source| open_failed(&path, "draw a UUID", source))?;
    let store = Store::new(storage, path, options.page_bytes, uuid, options.cache_bytes);
    store.prepare()?;
    begin_file(&store, work::FREE_PAGES.0)
}

/// Makes a file a database of so many pages: writes catalog, tree of free pages, and anchor.
pub fn begin_file(store: &Store, pages: u64) -> Result<()> {
    let (first, page_bytes, uuid) = (Version(1), store.page_bytes, store.uuid);
    let anchor = Anchor {
        page_bytes,
        uuid,
        sequence: 0,
        opening: 0,
        reserved: first,
        settled: first,
        is_closed: true,
        voids: Vec::new(),
        pool: Vec::new(),
        kept: Vec::new(),
    };
    for (no, tree) in [(work::CATALOG, TreeId(0)), (work::FREE_PAGES, work::FREE)] {
        let mut draft = Draft::fresh(page_bytes, no, tree, false, 0, first);
        if no == work::CATALOG {
            for (index, cell) in work::first_cells(first, pages).iter().enumerate() {
                assert!(draft.insert(index, cell, 0), "an empty page has room");
            }
        }
        let (bytes, _) = draft.finish(first, false, uuid).expect("the page is fresh");
        store.write_pages(&[(no, bytes)].into())?;
    }
    store.flush()?;
    // Now there is something that the anchor stands for.
    store.write_anchor(&anchor)
}

fn open_failed(path: &Path, doing: &'static str, source: oneflush_blocklog::Error) -> Error {
    Error::Io { path: path.to_owned(), doing, source: std::io::Error::other(source) }
}
