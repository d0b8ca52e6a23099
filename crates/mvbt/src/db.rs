//! A database: one writer at a time, and readers of the versions at which they began.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use oneflush_blocklog::{DirectFile, Storage, Uuid};
use parking_lot::Mutex;

use crate::anchor::{self, Anchor};
use crate::check::{Check, Order, Report};
use crate::history::{self, History, Horizon};
use crate::layout::{self, BLOCK_BYTES};
use crate::options::Options;
use crate::page::draft::Draft;
use crate::reach;
use crate::read::{Read, ReadTransaction};
use crate::readers::Readers;
use crate::recovery;
use crate::store::{Counters, Store};
use crate::transaction::WriteTransaction;
use crate::work::{self, Pool};
use crate::writer::Writer;
use crate::{Error, Result, TreeId, Version};

/// A close tries so often to leave no page to nobody.
const CLOSING_TRANSACTIONS: usize = 3;

pub struct Database {
    pub(crate) store: Store,
    pub(crate) options: Options,
    pub(crate) readers: Readers,
    pub(crate) writer: Mutex<Writer>,
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

    pub fn open(path: &Path, options: Options) -> Result<Database> {
        let file =
            DirectFile::open(path, false).map_err(|source| open_failed(path, "open it", source))?;
        Database::open_on(Arc::new(file), path.to_owned(), options)
    }

    /// The same on any storage. What it holds is overwritten.
    pub fn create_on(
        storage: Arc<dyn Storage>,
        path: PathBuf,
        options: Options,
    ) -> Result<Database> {
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
            kept: Vec::new(),
        };
        let store = Store::new(storage, path, options.page_bytes, uuid, options.cache_bytes);
        store.prepare()?;
        let roots = [(work::CATALOG, TreeId(0)), (work::FREE_PAGES, work::FREE)];
        for (no, tree) in roots {
            let mut draft = Draft::fresh(options.page_bytes, no, tree, false, 0, first);
            if no == work::CATALOG {
                for (index, cell) in work::first_cells(first, roots.len() as u64).iter().enumerate()
                {
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

    pub fn open_on(storage: Arc<dyn Storage>, path: PathBuf, options: Options) -> Result<Database> {
        let before = recovery::newest_anchor(&*storage, &path)?;
        if storage.alignment_bytes() > BLOCK_BYTES {
            return Err(Error::PageSize { bytes: storage.alignment_bytes() });
        }
        let (page_bytes, cache) = (before.page_bytes, options.cache_bytes);
        let store = Store::new(storage, path, page_bytes, before.uuid, cache);
        let recovered = recovery::recover(&store, &before)?;
        *store.voids.write() = recovered.anchor.voids();
        let mut database = Database::with(store, options, recovered.anchor, recovered.current);
        // A page behind the last one is none that a close has left.
        let count = database.begin_read().page_count().unwrap_or(0);
        let kept = before.kept.iter().map(|(no, _)| no);
        let are_pages = before.pool.iter().chain(kept).all(|no| no.0 <= count);
        if before.is_closed && are_pages {
            database.writer.get_mut().pool = Pool::of(before.pool, before.kept);
        }
        Ok(database)
    }

    fn with(store: Store, options: Options, anchor: Anchor, current: Version) -> Database {
        let readers = Readers::default();
        readers.publish(current);
        let writer = Mutex::new(Writer::new(anchor, current));
        Database { store, options, readers, writer }
    }

    /// Waits for the writer before.
    pub fn begin_write(&self) -> Result<WriteTransaction<'_>> {
        WriteTransaction::begin(self, self.writer.lock())
    }

    pub fn begin_read(&self) -> ReadTransaction<'_> {
        ReadTransaction::begin(self)
    }

    /// The database as it was at a version: with the newest transaction up to it. Of numbers that
    /// no transaction has had, the state is that of the version before.
    pub fn begin_read_at(&self, version: Version) -> Result<ReadTransaction<'_>> {
        let newest = self.begin_read();
        let from = history::kept_from(&newest)?.unwrap_or(newest.version());
        let kept = if version < from { None } else { ReadTransaction::begin_at(self, version) };
        kept.ok_or(Error::NotKept { asked: version, from, to: newest.version() })
    }

    /// The database as it was at a time: with all transactions that were committed by then, and
    /// none that came later. Where the history has no mark (at most one a second), it may lack
    /// those of the last second before that time.
    pub fn begin_read_at_time(&self, time: SystemTime) -> Result<ReadTransaction<'_>> {
        let newest = self.begin_read();
        let asked_ms = history::milliseconds(time);
        let version = history::version_at(&newest, newest.version(), asked_ms)?;
        let history = match version.map(|version| self.begin_read_at(version)) {
            Some(Err(Error::NotKept { .. })) | None => self.history()?,
            Some(begun) => return begun,
        };
        let first = history.marks.iter().find(|mark| mark.version >= history.from);
        let from_ms = first.or(history.marks.last()).ok_or(Error::NoHistory)?.time_ms;
        Err(Error::TimeNotKept { asked_ms, from_ms })
    }

    /// What can be read, and the times of it.
    pub fn history(&self) -> Result<History> {
        let newest = self.begin_read();
        history::history(&newest, newest.version())
    }

    /// Gives up what is older than a version, in a transaction. Answers the oldest that is kept.
    pub fn prune(&self, up_to: Version) -> Result<Version> {
        let mut txn = self.begin_write()?;
        let from = txn.change(|work| work.prune(up_to))?;
        txn.commit()?;
        Ok(from)
    }

    /// What a writer must keep: the least that a reader has, or that the file retains. Called with
    /// the writer's lock. Readers of what was given up are refused before the others are counted.
    pub(crate) fn horizon(&self) -> Result<Horizon> {
        let newest = self.begin_read();
        let kept = history::kept_from(&newest)?;
        let limit = kept.unwrap_or(newest.version());
        drop(newest);
        self.readers.give_up_before(limit);
        let version = self.readers.horizon().min(limit);
        Ok(Horizon { version, kept })
    }

    pub fn page_bytes(&self) -> usize {
        self.store.page_bytes
    }

    pub fn counters(&self) -> &Counters {
        &self.store.counters
    }

    /// Changes with each commit that changed something.
    pub fn data_version(&self) -> Version {
        self.readers.current()
    }

    /// Looks at every page of the last committed version. `order` says how records are ordered.
    pub fn check(&self, order: Option<Order<'_>>) -> Result<Report> {
        let writer = self.writer.lock();
        self.checked(order, &writer.pool, self.horizon()?)
    }

    fn checked(&self, order: Option<Order<'_>>, pool: &Pool, horizon: Horizon) -> Result<Report> {
        let older = |pages| match horizon.version < self.readers.current() {
            true => reach::reach(&self.store, horizon.version, pages),
            false => (Vec::new(), Vec::new()),
        };
        Check::run(&self.begin_read(), order, pool.all(), older, self.store.pages()?)
    }

    /// Finds pages that belong to nobody, since a crash, and uses them again. Answers how many.
    /// Reads the whole database, and keeps writers out meanwhile.
    pub fn reclaim(&self) -> Result<u64> {
        let mut writer = self.writer.lock();
        let horizon = self.horizon()?;
        let report = self.checked(None, &writer.pool, horizon)?;
        // What readers have that began before the history is not looked at. A damaged tree hides
        // pages.
        let newest = self.readers.current();
        if horizon.version < horizon.kept.unwrap_or(newest) || !report.faults.is_empty() {
            return Ok(0);
        }
        let lost = report.lost;
        let count = lost.len() as u64;
        // The newest version does not reach them.
        writer.pool.add_freed(newest, report.unlisted);
        writer.pool.add(lost);
        Ok(count)
    }

    /// Puts free pages where the next opening finds them. Without it the next opening recovers.
    pub fn close(self) -> Result<()> {
        // What the transaction itself frees may be too many pages for the anchor.
        for _ in 0..CLOSING_TRANSACTIONS {
            let mut txn = self.begin_write()?;
            txn.change(|work| work.deposit(true))?;
            txn.commit()?;
            if self.writer.lock().pool.freed_count() <= anchor::KEPT_MAX {
                break;
            }
        }
        self.writer.lock().close(&self.store)
    }
}

fn open_failed(path: &Path, doing: &'static str, source: oneflush_blocklog::Error) -> Error {
    Error::Io { path: path.to_owned(), doing, source: std::io::Error::other(source) }
}
