//! A database: one writer at a time, and readers of the versions at which they began.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use oneflush_blocklog::{DirectFile, Storage, Uuid};
use parking_lot::Mutex;

use crate::anchor::Anchor;
use crate::check::{Check, Order, Report};
use crate::commons::board::{self, Board, Missed, Seen};
use crate::commons::mapped::Mapped;
use crate::commons::memory::Memory;
use crate::commons::{Commons, Then};
use crate::kill_point::KillPoint;
use crate::layout::{self, BLOCK_BYTES};
use crate::options::Options;
use crate::page::draft::Draft;
use crate::read::{Read, ReadTransaction};
use crate::readers::Readers;
use crate::recovery;
use crate::store::{Counters, Store};
use crate::transaction::WriteTransaction;
use crate::work;
use crate::writer::{Turn, Writer};
use crate::{Error, PageNo, Result, TreeId, Version};

pub struct Database {
    pub(crate) store: Store,
    pub(crate) options: Options,
    pub(crate) board: Arc<Board>,
    pub(crate) readers: Readers,
    pub(crate) writer: Mutex<Writer>,
    /// Up to where the cache knows what other users have changed.
    pub(crate) seen: Mutex<Seen>,
}

impl Database {
    /// Makes a new database in a file that must not exist.
    pub fn create(path: &Path, options: Options) -> Result<Database> {
        let failed = |source| open_failed(path, "create it", source);
        let file = DirectFile::open(path, true).map_err(failed)?;
        let made = format(Arc::new(file), path.to_owned(), &options).and_then(|_| {
            oneflush_blocklog::sync_directory(path)
                .map_err(|source| open_failed(path, "sync its directory", source))
        });
        // Nobody has seen the file that this call made.
        made.inspect_err(|_| drop(std::fs::remove_file(path)))?;
        Database::open(path, options)
    }

    /// Opens a database that other processes may use at the same time.
    pub fn open(path: &Path, options: Options) -> Result<Database> {
        let failed = |source| open_failed(path, "open it", source);
        let path = &path.canonicalize().map_err(|source| Error::Io {
            path: path.to_owned(),
            doing: "open it",
            source,
        })?;
        let storage = Arc::new(DirectFile::open(path, false).map_err(failed)?);
        // What is no database gets no file beside it.
        recovery::newest_anchor(&*storage, path)?;
        Mapped::join(path, |commons, is_alone| {
            Database::join(storage, path.to_owned(), options, commons, is_alone)
        })
    }

    /// The same on any storage. What it holds is overwritten.
    pub fn create_on(
        storage: Arc<dyn Storage>,
        path: PathBuf,
        options: Options,
    ) -> Result<Database> {
        format(Arc::clone(&storage), path.clone(), &options)?;
        Database::open_on(storage, path, options)
    }

    /// The same on any storage, which nobody else uses.
    pub fn open_on(storage: Arc<dyn Storage>, path: PathBuf, options: Options) -> Result<Database> {
        Database::join_on(storage, path, options, &Memory::new())
    }

    /// The same beside other handles of this process, which have the same memory.
    pub fn join_on(
        storage: Arc<dyn Storage>,
        path: PathBuf,
        options: Options,
        memory: &Arc<Memory>,
    ) -> Result<Database> {
        memory.join(|commons, is_alone| Database::join(storage, path, options, commons, is_alone))
    }

    fn join(
        storage: Arc<dyn Storage>,
        path: PathBuf,
        options: Options,
        commons: Arc<dyn Commons>,
        is_alone: bool,
    ) -> Result<Database> {
        let anchor = recovery::newest_anchor(&*storage, &path)?;
        if storage.alignment_bytes() > BLOCK_BYTES {
            return Err(Error::PageSize { bytes: storage.alignment_bytes() });
        }
        let (page_bytes, cache) = (anchor.page_bytes, options.cache_bytes);
        let store = Store::new(storage, path, page_bytes, anchor.uuid, cache);
        let board = Arc::new(Board::new(commons));
        let mut writer = Writer::new(anchor);
        if is_alone {
            writer.open(&store, &board)?;
        } else if !board.join(store.uuid) {
            return Err(Error::Busy { what: board::ORPHANED });
        }
        let readers = Readers::new(Arc::clone(&board));
        // The first look reads the anchor: it may be newer than the one above.
        let (writer, seen) = (Mutex::new(writer), Mutex::default());
        let mut database = Database { store, options, board, readers, writer, seen };
        // A page behind the last one is none that a close has left.
        let count = database.begin_read()?.page_count().unwrap_or(0);
        database.writer.get_mut().pool.keep_up_to(PageNo(count));
        Ok(database)
    }

    /// Has the cache and the void intervals up to date with what other users have done.
    pub(crate) fn catch_up(&self) -> Result<()> {
        let mut seen = self.seen.lock();
        let now = self.board.seen();
        if now.generation != seen.generation {
            let anchor = self.store.newest_anchor()?;
            *self.store.voids.write() = anchor.voids();
            self.store.forget_all();
        } else if now.changes != seen.changes {
            match self.board.missed(seen.changes, now.changes) {
                Missed::Pages(pages) => pages.into_iter().for_each(|no| self.store.forget(no)),
                Missed::All => self.store.forget_all(),
            }
        }
        *seen = now;
        Ok(())
    }

    /// Waits for the writer before.
    pub fn begin_write(&self) -> Result<WriteTransaction<'_>> {
        WriteTransaction::begin(self, self.writer.lock())
    }

    pub fn begin_read(&self) -> Result<ReadTransaction<'_>> {
        ReadTransaction::begin(self)
    }

    pub fn page_bytes(&self) -> usize {
        self.store.page_bytes
    }

    pub fn counters(&self) -> &Counters {
        &self.store.counters
    }

    /// Changes with each commit that changed something.
    pub fn data_version(&self) -> Version {
        self.board.current()
    }

    /// Looks at every page of the last committed version. `order` says how records are ordered.
    pub fn check(&self, order: Option<Order<'_>>) -> Result<Report> {
        let writer = self.writer.lock();
        let reader = self.begin_read()?;
        Check::run(&reader, order, writer.pool.all(), self.store.pages()?)
    }

    /// Finds pages that belong to nobody, since a crash, and uses them again. Answers how many.
    /// Reads the whole database, and keeps writers out meanwhile.
    pub fn reclaim(&self) -> Result<u64> {
        let mut writer = self.writer.lock();
        let reader = self.begin_read()?;
        let report = Check::run(&reader, None, writer.pool.all(), self.store.pages()?)?;
        // Pages of older readers would be taken for lost ones. A damaged tree hides pages.
        let may = self.readers.horizon() == reader.version() && report.faults.is_empty();
        let lost = if may { report.lost } else { Vec::new() };
        let count = lost.len() as u64;
        writer.pool.add(lost);
        Ok(count)
    }

    /// Puts free pages where the next opening finds them, or leaves them to the other users.
    /// Without it the next opening recovers, and they belong to nobody.
    pub fn close(self) -> Result<()> {
        let mut has_left = false;
        while !has_left {
            self.hand_over()?;
            KillPoint::Deposited.reached();
            self.board.settle(&mut |is_alone| {
                if is_alone {
                    self.end()?;
                } else if !self.writer.lock().pool.is_empty() {
                    // Somebody has come since.
                    return Ok(Then::Stay);
                }
                has_left = true;
                Ok(Then::Leave)
            })?;
        }
        Ok(())
    }

    /// Leaves the free pages of this user to the others.
    fn hand_over(&self) -> Result<()> {
        let mut is_alone = false;
        let mut look = |alone| {
            is_alone = alone;
            Ok(Then::Stay)
        };
        self.board.settle(&mut look)?;
        if is_alone || self.writer.lock().pool.is_empty() {
            return Ok(());
        }
        self.deposit()?;
        let mut writer = self.writer.lock();
        let _turn = Turn::take(&self.board, None)?;
        self.board.leave(&writer.pool.take_fresh());
        Ok(())
    }

    fn deposit(&self) -> Result<()> {
        let mut txn = self.begin_write()?;
        txn.change(|work| work.deposit(true))?;
        txn.commit().map(drop)
    }

    /// Nobody else uses the database.
    fn end(&self) -> Result<()> {
        if self.writer.lock().is_closed(&self.board) {
            return Ok(());
        }
        self.deposit()?;
        self.writer.lock().close(&self.store, &self.board)
    }
}

/// Writes an empty database. What the file holds is overwritten.
fn format(storage: Arc<dyn Storage>, path: PathBuf, options: &Options) -> Result<()> {
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
