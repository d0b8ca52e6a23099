//! A database: one writer at a time, and readers of the versions at which they began.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use oneflush_blocklog::{DirectFile, Storage, Uuid};

use crate::anchor::Anchor;
use crate::backup::Backup;
use crate::check::{Check, Order, Report};
use crate::layout::{self, BLOCK_BYTES};
use crate::options::Options;
use crate::page::draft::Draft;
use crate::read::{Read, ReadTransaction};
use crate::read_only::ReadOnly;
use crate::readers::Readers;
use crate::recovery;
use crate::shared::Shared;
use crate::store::{Counters, Store};
use crate::transaction::WriteTransaction;
use crate::work::{self, Pool};
use crate::writer::Writer;
use crate::writer_lock::{Wait, WriterGuard, WriterLock};
use crate::{Error, Result, TreeId, Version};

/// An open file. Its transactions keep it open when this is dropped.
pub struct Database {
    pub(crate) shared: Arc<Shared>,
}

impl Database {
    /// Makes a new database in a file that must not exist.
    pub fn create(path: &Path, options: Options) -> Result<Database> {
        let failed = |source| open_failed(path, "create it", source);
        let file = DirectFile::open(path, true).map_err(failed)?;
        let made = Database::create_on(Arc::new(file), path.to_owned(), options).and_then(|made| {
            oneflush_blocklog::sync_directory(path)
                .map_err(|source| open_failed(path, "sync its directory", source))?;
            Ok(made)
        });
        // Nobody has seen the file that this call made.
        made.inspect_err(|_| drop(std::fs::remove_file(path)))
    }

    /// Opens a file that is there, and recovers it.
    pub fn open(path: &Path, options: Options) -> Result<Database> {
        let file = match options.read_only {
            true => DirectFile::open_to_read(path),
            false => DirectFile::open(path, false),
        };
        let file = file.map_err(|source| open_failed(path, "open it", source))?;
        Database::open_on(Arc::new(file), path.to_owned(), options)
    }

    /// The same on any storage. What it holds is overwritten.
    pub fn create_on(
        storage: Arc<dyn Storage>,
        path: PathBuf,
        options: Options,
    ) -> Result<Database> {
        if options.read_only {
            return Err(Error::ReadOnly { path });
        }
        if !layout::is_page_size(options.page_bytes) {
            return Err(Error::PageSize { bytes: options.page_bytes });
        }
        let uuid = Uuid::random().map_err(|source| open_failed(&path, "draw a UUID", source))?;
        let store = Store::new(storage, path, options.page_bytes, uuid, options.cache_bytes);
        store.prepare()?;
        Database::begin_file(store, options, work::FREE_PAGES.0)
    }

    /// Makes a file a database of so many pages: writes catalog, tree of free pages, and anchor.
    pub(crate) fn begin_file(store: Store, options: Options, pages: u64) -> Result<Database> {
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
        };
        for (no, tree) in [(work::CATALOG, TreeId(0)), (work::FREE_PAGES, work::FREE)] {
            let mut draft = Draft::fresh(page_bytes, no, tree, false, 0, first);
            if no == work::CATALOG {
                for (index, cell) in work::first_cells(first, pages).iter().enumerate() {
                    assert!(draft.insert(index, cell, 0), "an empty page has room");
                }
            }
            let (bytes, _) = draft.finish(first, false, uuid);
            store.write_pages(&[(no, bytes)].into())?;
        }
        store.flush()?;
        // Now there is something that the anchor stands for.
        store.write_anchor(&anchor)?;
        Ok(Database::with(store, options, anchor, first))
    }

    /// The same on any storage.
    pub fn open_on(storage: Arc<dyn Storage>, path: PathBuf, options: Options) -> Result<Database> {
        let storage: Arc<dyn Storage> = match options.read_only {
            true => Arc::new(ReadOnly(storage)),
            false => storage,
        };
        let found = recovery::newest_anchor(&*storage, &path)?;
        let before = found.anchor.clone();
        if storage.alignment_bytes() > BLOCK_BYTES {
            return Err(Error::PageSize { bytes: storage.alignment_bytes() });
        }
        let (page_bytes, cache) = (before.page_bytes, options.cache_bytes);
        let store = Store::new(storage, path, page_bytes, before.uuid, cache);
        let recovered = recovery::recover(&store, &found)?;
        *store.voids.write() = recovered.anchor.voids();
        let database = Database::with(store, options, recovered.anchor, recovered.current);
        // A page behind the last one is none that a close has left.
        let count = database.begin_read().page_count().unwrap_or(0);
        let are_pages = before.pool.iter().all(|no| no.0 <= count);
        if before.is_closed && are_pages {
            database.writer(Wait::ForEver)?.pool = Pool::of(before.pool);
        }
        Ok(database)
    }

    fn with(store: Store, options: Options, anchor: Anchor, current: Version) -> Database {
        store.set_pages_max(options.pages_max);
        let readers = Readers::default();
        readers.publish(current);
        let writer = WriterLock::new(Writer::new(anchor, current));
        let (store, options) = (Arc::new(store), Arc::new(options));
        Database { shared: Arc::new(Shared { store, options, readers, writer }) }
    }

    fn writer(&self, wait: Wait) -> Result<WriterGuard> {
        WriterLock::take(&self.shared, wait)
    }

    fn begin(&self, wait: Wait) -> Result<WriteTransaction> {
        self.check_writable()?;
        WriteTransaction::begin(self.writer(wait)?)
    }

    fn check_writable(&self) -> Result<()> {
        match self.shared.options.read_only {
            true => Err(Error::ReadOnly { path: self.shared.store.path().to_owned() }),
            false => Ok(()),
        }
    }

    /// Waits for another thread's transaction. `Busy`: the calling thread has one itself.
    /// `ReadOnly`: the database was opened so.
    pub fn begin_write(&self) -> Result<WriteTransaction> {
        self.begin(Wait::ForEver)
    }

    /// `Busy`, at once: a transaction writes.
    pub fn try_begin_write(&self) -> Result<WriteTransaction> {
        self.begin(Wait::Not)
    }

    /// `Busy`: after this time another transaction still writes, or the calling thread has one
    /// itself.
    pub fn begin_write_within(&self, time: Duration) -> Result<WriteTransaction> {
        let wait = Instant::now().checked_add(time).map_or(Wait::ForEver, Wait::Until);
        self.begin(wait)
    }

    /// The last committed version, for as long as this lives.
    pub fn begin_read(&self) -> ReadTransaction {
        ReadTransaction::begin(&self.shared)
    }

    /// The database gets no more pages than this. Beside [`Read::page_count`].
    pub fn pages_max(&self) -> u64 {
        self.shared.store.pages_max()
    }

    /// Sets it, for this opening. It is never less than the pages that the database has. Answers
    /// what it is now. A transaction that writes meets it with its next page.
    pub fn set_pages_max(&self, pages: u64) -> Result<u64> {
        let pages = pages.max(self.begin_read().page_count()?);
        self.shared.store.set_pages_max(pages);
        Ok(pages)
    }

    /// Of each page, in bytes.
    pub fn page_bytes(&self) -> usize {
        self.shared.store.page_bytes
    }

    /// What was written and read since it was opened.
    pub fn counters(&self) -> &Counters {
        &self.shared.store.counters
    }

    /// Changes with each commit that changed something.
    pub fn data_version(&self) -> Version {
        self.shared.readers.current()
    }

    /// Looks at every page of the last committed version. `order` says how records are ordered.
    /// Keeps writers out meanwhile. `Busy`: the calling thread has a write transaction.
    pub fn check(&self, order: Option<Order<'_>>) -> Result<Report> {
        let writer = self.writer(Wait::ForEver)?;
        let reader = self.begin_read();
        Check::run(&reader, order, writer.pool.all(), self.shared.store.pages()?)
    }

    /// Finds pages that belong to nobody, since a crash, and uses them again. Answers how many.
    /// Reads the whole database, and keeps writers out meanwhile. `Busy`: the calling thread has a
    /// write transaction.
    pub fn reclaim(&self) -> Result<u64> {
        self.check_writable()?;
        let mut writer = self.writer(Wait::ForEver)?;
        let reader = self.begin_read();
        let report = Check::run(&reader, None, writer.pool.all(), self.shared.store.pages()?)?;
        // Pages of older readers would be taken for lost ones. A damaged tree hides pages.
        let may = self.shared.readers.horizon() == reader.version() && report.faults.is_empty();
        let lost = if may { report.lost } else { Vec::new() };
        let count = lost.len() as u64;
        writer.pool.add(lost);
        Ok(count)
    }

    /// Begins a copy of the last committed version, in a file that must not exist. Writers go on
    /// meanwhile. The copy is compact, and keeps the numbers of trees and the meta words.
    pub fn backup(&self, path: &Path) -> Result<Backup> {
        Backup::begin(self.begin_read(), self.page_bytes(), path)
    }

    /// Makes such a copy at once. It is durable when this returns.
    pub fn vacuum_into(&self, path: &Path) -> Result<()> {
        self.backup(path)?.run()
    }

    /// Puts free pages where the next opening finds them. Without it the next opening recovers.
    /// `Busy`: a transaction is open. It goes on; the file is closed when it ends, as by a crash.
    pub fn close(self) -> Result<()> {
        if Arc::strong_count(&self.shared) > 1 {
            return Err(Error::Busy { what: "a transaction is open" });
        }
        if self.shared.options.read_only {
            return Ok(());
        }
        let mut txn = self.begin_write()?;
        txn.change(|work| work.deposit(true))?;
        txn.commit()?;
        self.writer(Wait::ForEver)?.close(&self.shared.store)
    }
}

fn open_failed(path: &Path, doing: &'static str, source: oneflush_blocklog::Error) -> Error {
    Error::Io { path: path.to_owned(), doing, source: std::io::Error::other(source) }
}
