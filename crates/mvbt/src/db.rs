//! A database: one writer at a time, and readers of the versions at which they began.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use oneflush_blocklog::{DirectFile, Storage, Uuid};
use parking_lot::{Mutex, MutexGuard};

use crate::anchor::{self, Anchor};
use crate::check::{Check, Order, Report};
use crate::cursor::Cursor;
use crate::layout::{self, BLOCK_BYTES};
use crate::mutant::{self, Mutant};
use crate::options::Options;
use crate::page::draft::Draft;
use crate::readers::Readers;
use crate::recovery;
use crate::search::{PageRef, Probe, Source, TreeRef};
use crate::store::{Counters, Store};
use crate::work::{self, META_WORDS, Pool, Work};
use crate::{Error, PageNo, Result, TreeId, Version, scrub};

pub struct Database {
    store: Store,
    options: Options,
    readers: Readers,
    writer: Mutex<Writer>,
}

/// What a writer keeps from transaction to transaction.
struct Writer {
    anchor: Anchor,
    /// This opening's anchor is in the file.
    is_begun: bool,
    /// The last version that was given to a transaction.
    last: Version,
    ring: u64,
    pool: Pool,
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
        let are_pages = before.pool.iter().all(|no| no.0 <= count);
        if before.is_closed && are_pages {
            database.writer.get_mut().pool = Pool::of(before.pool);
        }
        Ok(database)
    }

    fn with(store: Store, options: Options, anchor: Anchor, current: Version) -> Database {
        let readers = Readers::default();
        readers.publish(current);
        store.voids.write().set_newest(Version::MAX);
        let writer =
            Writer { anchor, is_begun: false, last: current, ring: 0, pool: Pool::default() };
        Database { store, options, readers, writer: Mutex::new(writer) }
    }

    /// Waits for the writer before.
    pub fn begin_write(&self) -> Result<WriteTransaction<'_>> {
        let mut writer = self.writer.lock();
        self.store.check_usable()?;
        writer.begin(&self.store)?;
        let version = writer.last.next();
        if version >= Version::MAX {
            return Err(Error::NoVersion);
        }
        if version > writer.anchor.reserved {
            let more = Anchor {
                sequence: writer.anchor.sequence + 1,
                reserved: recovery::reserved_above(writer.anchor.reserved),
                ..writer.anchor.clone()
            };
            self.store.write_anchor(&more)?;
            writer.anchor = more;
        }
        let pool = std::mem::take(&mut writer.pool);
        let backup = pool.clone();
        let horizon = self.readers.horizon();
        let work = Work::new(&self.store, &self.options, version, horizon, pool);
        Ok(WriteTransaction { database: self, writer, work: Some(work), backup, half_done: None })
    }

    pub fn begin_read(&self) -> ReadTransaction<'_> {
        ReadTransaction { database: self, version: self.readers.register() }
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
        let reader = self.begin_read();
        Check::run(&reader, order, writer.pool.all(), self.store.pages()?)
    }

    /// Finds pages that belong to nobody, since a crash, and uses them again. Answers how many.
    /// Reads the whole database, and keeps writers out meanwhile.
    pub fn reclaim(&self) -> Result<u64> {
        let mut writer = self.writer.lock();
        let reader = self.begin_read();
        let report = Check::run(&reader, None, writer.pool.all(), self.store.pages()?)?;
        // Pages of older readers would be taken for lost ones. A damaged tree hides pages.
        let may = self.readers.horizon() == reader.version() && report.faults.is_empty();
        let lost = if may { report.lost } else { Vec::new() };
        let count = lost.len() as u64;
        writer.pool.add(lost);
        Ok(count)
    }

    /// Puts free pages where the next opening finds them. Without it the next opening recovers.
    pub fn close(self) -> Result<()> {
        let mut txn = self.begin_write()?;
        txn.change(|work| work.deposit(true))?;
        txn.commit()?;
        let mut writer = self.writer.lock();
        let anchor = Anchor {
            sequence: writer.anchor.sequence + 1,
            reserved: writer.last,
            settled: writer.last,
            is_closed: true,
            pool: writer.pool.left(),
            ..writer.anchor.clone()
        };
        self.store.write_anchor(&anchor)?;
        writer.anchor = anchor;
        Ok(())
    }
}

impl Writer {
    /// Before the first transaction of this opening: the anchor that recovery asks for (I15).
    fn begin(&mut self, store: &Store) -> Result<()> {
        if self.is_begun {
            return Ok(());
        }
        if self.anchor.is_closed {
            self.anchor = recovery::reopened(&self.anchor);
        }
        if self.anchor.voids.len() > anchor::VOIDS_MAX / 2 {
            scrub::forget_void_directories(store, &self.anchor)?;
            self.anchor.voids.clear();
        }
        store.write_anchor(&self.anchor)?;
        *store.voids.write() = self.anchor.voids();
        store.voids.write().set_newest(Version::MAX);
        store.forget_all();
        self.is_begun = true;
        Ok(())
    }
}

fn open_failed(path: &Path, doing: &'static str, source: oneflush_blocklog::Error) -> Error {
    Error::Io { path: path.to_owned(), doing, source: std::io::Error::other(source) }
}

/// A transaction that may change the database. Dropped, it is rolled back.
pub struct WriteTransaction<'db> {
    database: &'db Database,
    writer: MutexGuard<'db, Writer>,
    /// None: it has ended.
    work: Option<Work<'db>>,
    /// The pool as it was.
    backup: Pool,
    /// An operation has failed halfway. Some cells may be nowhere. So many savepoints were open.
    half_done: Option<usize>,
}

impl<'db> WriteTransaction<'db> {
    fn work_mut(&mut self) -> &mut Work<'db> {
        self.work.as_mut().expect("the transaction has not ended")
    }

    fn work(&self) -> &Work<'db> {
        self.work.as_ref().expect("the transaction has not ended")
    }

    /// Does something that may fail halfway, also by a panic of the caller's comparison.
    fn change<R>(&mut self, change: impl FnOnce(&mut Work<'db>) -> Result<R>) -> Result<R> {
        if self.half_done.is_some() {
            return Err(Error::HalfDone);
        }
        self.half_done = Some(self.work().savepoint_count());
        let changed = change(self.work_mut());
        if changed.as_ref().err().is_none_or(Error::is_refusal) {
            self.half_done = None;
        }
        changed
    }

    pub fn version(&self) -> Version {
        self.work().version
    }

    /// Durable when this returns.
    pub fn commit(mut self) -> Result<Version> {
        let deposited = self.change(|work| {
            work.release(0);
            work.deposit(false)
        });
        if let Err(error) = deposited {
            self.undo()?;
            return Err(error);
        }
        let Some(work) = self.work.take() else { return Err(Error::Poisoned) };
        let version = work.version;
        let committed = work.commit(self.writer.ring)?;
        self.writer.pool = committed.pool;
        if committed.wrote {
            self.writer.last = version;
            self.writer.ring += u64::from(committed.used_ring);
            self.database.readers.publish(version);
            if !self.database.options.metadata_embedding {
                let anchor = Anchor {
                    sequence: self.writer.anchor.sequence + 1,
                    ..self.writer.anchor.clone()
                };
                self.database.store.write_anchor(&anchor)?;
                self.writer.anchor = anchor;
            }
        }
        Ok(self.database.readers.current())
    }

    pub fn rollback(mut self) -> Result<()> {
        self.undo()
    }

    fn undo(&mut self) -> Result<()> {
        let Some(work) = self.work.take() else { return Ok(()) };
        self.writer.pool = std::mem::take(&mut self.backup);
        if !work.has_spilled() {
            return Ok(());
        }
        let voided = self.make_void(work.version);
        if voided.is_err() {
            // What it has written would count from now on.
            self.database.store.poison_all();
        }
        voided
    }

    /// I13: the version never was.
    fn make_void(&mut self, version: Version) -> Result<()> {
        let store = &self.database.store;
        self.writer.last = version;
        store.forget_all();
        let mut voids = self.writer.anchor.voids();
        voids.add(version, version);
        let mut anchor = Anchor {
            sequence: self.writer.anchor.sequence + 1,
            voids: voids.intervals().to_vec(),
            ..self.writer.anchor.clone()
        };
        if anchor.voids.len() > anchor::VOIDS_MAX / 2 {
            scrub::forget_void_directories(store, &anchor)?;
            anchor.voids.clear();
        }
        if mutant::is(Mutant::RollbackNotVoid) {
            anchor.voids.clone_from(&self.writer.anchor.voids);
        }
        store.write_anchor(&anchor)?;
        *store.voids.write() = anchor.voids();
        store.voids.write().set_newest(Version::MAX);
        store.forget_all();
        self.writer.anchor = anchor;
        Ok(())
    }

    pub fn create_tree(&mut self, is_record: bool) -> Result<TreeId> {
        self.change(|work| work.create_tree(is_record))
    }

    pub fn drop_tree(&mut self, id: TreeId) -> Result<()> {
        self.change(|work| work.drop_tree(id))
    }

    /// Answers how many cells the tree had.
    pub fn clear_tree(&mut self, id: TreeId) -> Result<u64> {
        self.change(|work| work.clear_tree(id))
    }

    /// True if something was there, and is replaced.
    pub fn insert(&mut self, id: TreeId, key: i64, payload: &[u8]) -> Result<bool> {
        let tree = self.tree_of_kind(id, false)?;
        self.change(|work| work.insert(&tree, Some(key), Probe::Integer(key), payload))
    }

    /// Puts a record where `compare` says: a stored record beside the new one.
    pub fn insert_record(
        &mut self,
        id: TreeId,
        record: &[u8],
        compare: &dyn Fn(&[u8]) -> std::cmp::Ordering,
    ) -> Result<bool> {
        let tree = self.tree_of_kind(id, true)?;
        self.change(|work| work.insert(&tree, None, Probe::Record(compare), record))
    }

    /// True if it was there.
    pub fn delete(&mut self, id: TreeId, key: i64) -> Result<bool> {
        let tree = self.tree_of_kind(id, false)?;
        self.change(|work| work.delete(&tree, Probe::Integer(key)))
    }

    pub fn delete_record(
        &mut self,
        id: TreeId,
        compare: &dyn Fn(&[u8]) -> std::cmp::Ordering,
    ) -> Result<bool> {
        let tree = self.tree_of_kind(id, true)?;
        self.change(|work| work.delete(&tree, Probe::Record(compare)))
    }

    fn tree_of_kind(&mut self, id: TreeId, is_record: bool) -> Result<TreeRef> {
        if id < work::FIRST_TREE {
            return Err(Error::Misuse {
                what: "catalog and free pages are changed by nobody else",
            });
        }
        let tree = self.work_mut().tree(id)?;
        if tree.is_record == is_record { Ok(tree) } else { Err(Error::WrongKind { tree: id }) }
    }

    pub fn set_meta(&mut self, index: usize, value: u32) -> Result<()> {
        self.change(|work| work.set_meta(index, value))
    }

    /// Opens a savepoint, and answers its number, from 1.
    pub fn savepoint(&mut self) -> usize {
        let work = self.work_mut();
        work.savepoint();
        work.savepoint_count()
    }

    /// Ends this savepoint and those in it. Their changes stay.
    pub fn release(&mut self, savepoint: usize) {
        self.work_mut().release(savepoint.saturating_sub(1));
        let left = self.work().savepoint_count();
        self.half_done = self.half_done.map(|open| open.min(left));
    }

    /// Undoes what was done since. The savepoint stays.
    pub fn roll_back_to(&mut self, savepoint: usize) -> Result<()> {
        if savepoint == 0 || savepoint > self.work().savepoint_count() {
            return Err(Error::Misuse { what: "there is no such savepoint" });
        }
        let undone = self.work_mut().roll_back_to(savepoint);
        self.half_done = match (&undone, self.half_done) {
            (Ok(()), Some(open)) if savepoint <= open => None,
            (Ok(()), half_done) => half_done,
            (Err(_), _) => Some(0),
        };
        undone
    }
}

impl Drop for WriteTransaction<'_> {
    fn drop(&mut self) {
        // A failure has poisoned the store, and the next call says so.
        let _ = self.undo();
    }
}

/// The database as it was when this began.
pub struct ReadTransaction<'db> {
    database: &'db Database,
    version: Version,
}

impl ReadTransaction<'_> {
    pub fn version(&self) -> Version {
        self.version
    }
}

impl Drop for ReadTransaction<'_> {
    fn drop(&mut self) {
        self.database.readers.unregister(self.version);
    }
}

/// What readers and writers can ask.
pub trait Read {
    #[doc(hidden)]
    fn source(&self) -> &dyn Source;

    fn tree(&self, id: TreeId) -> Result<TreeRef> {
        work::tree(self.source(), id)
    }

    fn cursor(&self, id: TreeId) -> Result<Cursor> {
        self.tree(id).map(Cursor::new)
    }

    /// The payload at a key.
    fn get(&self, id: TreeId, key: i64) -> Result<Option<Vec<u8>>> {
        let mut cursor = self.cursor(id)?;
        match cursor.seek(self.source(), Probe::Integer(key))? {
            true => cursor.payload(self.source()),
            false => Ok(None),
        }
    }

    fn meta(&self) -> Result<[u32; META_WORDS]> {
        work::meta(self.source())
    }

    fn page_count(&self) -> Result<u64> {
        work::page_count(self.source())
    }

    fn trees(&self) -> Result<Vec<TreeId>> {
        work::trees(self.source())
    }
}

impl Read for WriteTransaction<'_> {
    fn source(&self) -> &dyn Source {
        self.work()
    }
}

impl Read for ReadTransaction<'_> {
    fn source(&self) -> &dyn Source {
        self
    }
}

impl Source for ReadTransaction<'_> {
    fn page(&self, no: PageNo) -> Result<PageRef<'_>> {
        Ok(PageRef::At(self.database.store.page(no)?, self.version))
    }

    fn overflow(&self, no: PageNo) -> Result<(Vec<u8>, Option<PageNo>)> {
        let store = &self.database.store;
        let bytes = store.read_raw(no)?;
        let page = crate::page::overflow::decode(&bytes, no, store.uuid)?;
        Ok((page.payload.to_vec(), page.next))
    }
}
