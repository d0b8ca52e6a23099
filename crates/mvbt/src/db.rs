//! A database: one writer at a time, and readers of the versions at which they began.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use oneflush_blocklog::Storage;

use crate::backup::Backup;
use crate::check::{Check, Order, Report};
use crate::commons::Then;
use crate::commons::memory::Memory;
use crate::options::Options;
use crate::read::{Read, ReadTransaction};
use crate::shared::Shared;
use crate::store::Counters;
use crate::transaction::WriteTransaction;
use crate::writer_lock::{Wait, WriterGuard, WriterLock};
use crate::{Error, PageNo, Result, Version, closing, opening};

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

    /// Waits for another transaction that writes, in this process or another one. `Busy`: the
    /// calling thread has one itself. `ReadOnly`: the database was opened so.
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

    /// The last committed version, for as long as this lives. Does not wait for a writer.
    pub fn begin_read(&self) -> Result<ReadTransaction> {
        ReadTransaction::begin(&self.shared)
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
        let reader = self.begin_read()?;
        Check::run(&reader, order, self.free(&writer), self.shared.store.pages()?)
    }

    /// Pages that are at hand for those who write.
    fn free(&self, writer: &WriterGuard) -> Vec<PageNo> {
        writer.pool.all().chain(self.shared.board.left()).collect()
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
            count = self.reclaim_alone()?;
            Ok(Then::Stay)
        })?;
        Ok(count)
    }

    fn reclaim_alone(&self) -> Result<u64> {
        let mut writer = self.writer(Wait::ForEver)?;
        let Shared { store, board, .. } = &*self.shared;
        // The pages of a transaction that is durable, and that nobody has shown to readers, would
        // be taken for lost ones (P4).
        if board.is_begun() {
            writer.repair(store, board)?;
        }
        let reader = self.begin_read()?;
        let report = Check::run(&reader, None, self.free(&writer), self.shared.store.pages()?)?;
        // Pages of older readers would be taken for lost ones. A damaged tree hides pages.
        let may = self.shared.board.horizon() == reader.version() && report.faults.is_empty();
        let lost = if may { report.lost } else { Vec::new() };
        let count = lost.len() as u64;
        writer.pool.add(lost);
        Ok(count)
    }

    /// Begins a copy of the last committed version, in a file that must not exist. Writers go on
    /// meanwhile. The copy is compact, and keeps the numbers of trees and the meta words.
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

    /// Another transaction of this process may be open, but none of the caller.
    pub(crate) fn guard(&self) -> Result<WriterGuard> {
        self.writer(Wait::ForEver)
    }
}
