//! A database: one writer at a time, and readers of the versions at which they began.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use oneflush_blocklog::Storage;

use crate::backup::Backup;
use crate::check::{Check, Order, Report};
use crate::commons::Then;
use crate::commons::memory::Memory;
use crate::history::{self, History, Horizon};
use crate::options::Options;
use crate::reach;
use crate::read::{Read, ReadTransaction};
use crate::shared::Shared;
use crate::store::Counters;
use crate::transaction::WriteTransaction;
use crate::writer_lock::{Wait, WriterGuard, WriterLock};
use crate::{Error, PageNo, Result, Version, closing, opening};

fn wait_for(time: Duration) -> Wait {
    Instant::now().checked_add(time).map_or(Wait::ForEver, Wait::Until)
}

/// An open file, which other processes may use at the same time. Its transactions keep it open when
/// this is dropped.
pub struct Database {
    pub(crate) shared: Arc<Shared>,
}

impl Database {
    /// Makes a new database in a file that must not exist.
    pub fn create(path: &Path, options: Options) -> Result<Database> {
        opening::create(path, &options)?;
        Database::open(path, options)
    }

    /// Opens a database. Processes that use it share a file of memory beside it, `NAME-shm`.
    pub fn open(path: &Path, options: Options) -> Result<Database> {
        opening::open(path, options).map(|shared| Database { shared })
    }

    /// Makes a new database on any storage. What it holds is overwritten.
    pub fn create_on(
        storage: Arc<dyn Storage>,
        path: PathBuf,
        options: Options,
    ) -> Result<Database> {
        opening::format(Arc::clone(&storage), path.clone(), &options)?;
        Database::open_on(storage, path, options)
    }

    /// Opens a database on any storage, which nobody else uses.
    pub fn open_on(storage: Arc<dyn Storage>, path: PathBuf, options: Options) -> Result<Database> {
        Database::join_on(storage, path, options, &Memory::new())
    }

    /// The same beside other handles of this process, which are given the same memory.
    #[doc(hidden)]
    pub fn join_on(
        storage: Arc<dyn Storage>,
        path: PathBuf,
        options: Options,
        memory: &Arc<Memory>,
    ) -> Result<Database> {
        let joined = memory
            .join(|commons, is_alone| opening::join(storage, path, options, commons, is_alone));
        joined.map(|shared| Database { shared })
    }

    /// The lock of writers, for what is no transaction too.
    pub(crate) fn writer(&self, wait: Wait) -> Result<WriterGuard> {
        WriterLock::take(&self.shared, wait)
    }

    fn begin(&self, wait: Wait) -> Result<WriteTransaction> {
        self.check_writable()?;
        let limit = self.shared.options.reader_limit_pages;
        WriteTransaction::begin(self.writer(wait)?, Some(limit))
    }

    pub(crate) fn check_writable(&self) -> Result<()> {
        match self.shared.options.read_only {
            true => Err(Error::ReadOnly { path: self.shared.store.path().to_owned() }),
            false => Ok(()),
        }
    }

    /// Waits for another transaction that writes, in this process or another one. `Busy`: the
    /// calling thread has one itself. `ReadOnly`: the database was opened so.
    pub fn begin_write(&self) -> Result<WriteTransaction> {
        self.begin(Wait::ForEver)
    }

    /// `Busy`, at once: a transaction writes.
    pub fn try_begin_write(&self) -> Result<WriteTransaction> {
        self.begin(Wait::Not)
    }

    /// `Busy`: after this time a transaction still writes. That of the calling thread is waited
    /// for, too: another thread may end it.
    pub fn begin_write_within(&self, time: Duration) -> Result<WriteTransaction> {
        self.begin(wait_for(time))
    }

    /// The last committed version, for as long as this lives. Does not wait for a writer.
    pub fn begin_read(&self) -> Result<ReadTransaction> {
        ReadTransaction::begin(&self.shared)
    }

    /// The database as it was at a version: with the newest transaction up to it. Of numbers that
    /// no transaction has had, the state is that of the version before. `NotKept`: the version is
    /// not kept any more, or not committed yet.
    pub fn begin_read_at(&self, version: Version) -> Result<ReadTransaction> {
        let newest = self.begin_read()?;
        let from = history::kept_from(&newest)?.unwrap_or(newest.version());
        if version >= from
            && let Some(reader) = ReadTransaction::begin_at(&self.shared, version)?
        {
            return Ok(reader);
        }
        // A writer may have given up more meanwhile.
        let from = from.max(self.shared.board.given_up());
        Err(Error::NotKept { asked: version, from, to: self.data_version() })
    }

    /// The database as it was at a time: with all transactions that were committed by then, and
    /// none that came later. Where the history has no mark (at most one a second), it may lack
    /// those of the last second before that time. `TimeNotKept`: the history begins later.
    /// `NoHistory`: the file keeps none.
    pub fn begin_read_at_time(&self, time: SystemTime) -> Result<ReadTransaction> {
        let newest = self.begin_read()?;
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
        let newest = self.begin_read()?;
        history::history(&newest, newest.version())
    }

    /// Gives up what is older than a version, in a transaction. Answers the oldest that is kept.
    /// `NoHistory`: the file keeps none.
    pub fn prune(&self, up_to: Version) -> Result<Version> {
        let mut txn = self.begin_write()?;
        let from = txn.change(|work| work.freeing(|work| work.prune(up_to)))?;
        txn.commit()?;
        Ok(from)
    }

    /// The database gets no more pages than this. Beside [`Read::page_count`].
    pub fn pages_max(&self) -> u64 {
        self.shared.store.pages_max()
    }

    /// Sets it, for this opening. It is never less than the pages that the database has. Answers
    /// what it is now. A transaction that writes meets it with its next page.
    pub fn set_pages_max(&self, pages: u64) -> Result<u64> {
        let pages = pages.max(self.begin_read()?.page_count()?);
        self.shared.store.set_pages_max(pages);
        Ok(pages)
    }

    /// No write and no flush has failed since it was opened.
    #[doc(hidden)]
    pub fn is_usable(&self) -> bool {
        self.shared.store.check_usable().is_ok()
    }

    /// Nobody had written when it was opened, but who made it. Its name may be in flight (I22).
    #[doc(hidden)]
    pub fn is_as_made(&self) -> bool {
        self.shared.is_as_made
    }

    /// Sets how much memory pages that were read may have, for this opening: 64 pages at least.
    pub fn set_cache_bytes(&self, bytes: usize) {
        self.shared.store.set_cache_bytes(bytes);
    }

    /// Of each page, in bytes.
    pub fn page_bytes(&self) -> usize {
        self.shared.store.page_bytes
    }

    /// What was written and read since it was opened.
    pub fn counters(&self) -> &Counters {
        &self.shared.store.counters
    }

    /// Changes with each commit that changed something, of any process.
    pub fn data_version(&self) -> Version {
        self.shared.board.current()
    }

    /// Looks at every page of the last committed version. `order` says how records are ordered.
    /// Keeps writers out meanwhile. Free pages that other processes have at hand count as lost.
    /// `Busy`: the calling thread has a write transaction.
    pub fn check(&self, order: Option<Order<'_>>) -> Result<Report> {
        let writer = self.writer(Wait::ForEver)?;
        self.checked(order, &writer).map(|(report, _)| report)
    }

    /// The same. `Busy`: after this time a transaction still writes.
    pub fn check_within(&self, time: Duration, order: Option<Order<'_>>) -> Result<Report> {
        let writer = self.writer(wait_for(time))?;
        self.checked(order, &writer).map(|(report, _)| report)
    }

    /// The report, and up to where it has looked back.
    fn checked(&self, order: Option<Order<'_>>, writer: &WriterGuard) -> Result<(Report, Horizon)> {
        let reader = self.begin_read()?;
        let horizon = self.shared.horizon()?;
        let store = &self.shared.store;
        let older = |pages| match horizon.version < reader.version() {
            true => reach::reach(store, horizon.version, pages),
            false => (Vec::new(), Vec::new()),
        };
        let report = Check::run(&reader, order, self.free(writer), older, store.pages()?)?;
        Ok((report, horizon))
    }

    /// Pages that are at hand for those who write.
    fn free(&self, writer: &WriterGuard) -> Vec<PageNo> {
        let board = &self.shared.board;
        let kept = writer.kept(board).into_iter().map(|(no, _)| no);
        writer.pool.all().chain(board.left()).chain(kept).collect()
    }

    /// Finds pages that belong to nobody, since a crash, and uses them again. Answers how many.
    /// Reads the whole database, and keeps writers out meanwhile. `Busy`: the calling thread has a
    /// write transaction, or another process uses the database.
    pub fn reclaim(&self) -> Result<u64> {
        self.check_writable()?;
        let mut count = 0;
        self.shared.board.settle(&mut |is_alone| {
            // Pages that others have at hand would be taken for lost ones.
            if !is_alone {
                return Err(Error::Busy { what: "other processes use it. Close them first" });
            }
            count = self.find_lost(&mut self.writer(Wait::ForEver)?)?;
            Ok(Then::Stay)
        })?;
        Ok(count)
    }

    /// Puts pages that belong to nobody into the pool. No other process uses the database.
    pub(crate) fn find_lost(&self, writer: &mut WriterGuard) -> Result<u64> {
        let Shared { store, board, .. } = &*self.shared;
        // The pages of a transaction that is durable, and that nobody has shown to readers, would
        // be taken for lost ones (P4).
        if board.is_begun() {
            writer.repair(store, board)?;
        }
        let (report, horizon) = self.checked(None, writer)?;
        // What readers have that began before the history is not looked at. A damaged tree hides
        // pages.
        let newest = self.data_version();
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

    /// Begins a copy of the last committed version, in a file that must not exist. Writers go on
    /// meanwhile. The copy is compact, and keeps the numbers of trees and the meta words. It has no
    /// history, and keeps none.
    pub fn backup(&self, path: &Path) -> Result<Backup> {
        Backup::begin(self.begin_read()?, self.page_bytes(), path)
    }

    /// Makes such a copy at once. It is durable when this returns.
    pub fn vacuum_into(&self, path: &Path) -> Result<()> {
        self.backup(path)?.run()
    }

    /// Puts free pages where the next opening finds them, or leaves them to the other users.
    /// Without it the next opening recovers, and they belong to nobody. `Busy`: a transaction is
    /// open. It goes on; the file is closed when it ends, as by a crash.
    pub fn close(self) -> Result<()> {
        if Arc::strong_count(&self.shared) > 1 {
            return Err(Error::Busy { what: "a transaction is open" });
        }
        closing::close(&self)
    }
}
