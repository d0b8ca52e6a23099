//! A connection that only reads, with a strategy that has a log. It can neither set the guard nor
//! take it away. It does not open the board, and it opens the log only where that is the WAL.
//!
//! | the database has | the connection reads |
//! |---|---|
//! | no guard | as SQLite alone does; SQLite's error log says once that no log is in force |
//! | the guard, and others use the log | the WAL, as any reader of one, with rights to read |
//! | the guard, and nobody uses the log | after a recovery, which needs rights to write; or not |
//!
//! - **When it is decided**: at the first shared lock of the database, and whenever SQLite opens
//!   its WAL. SQLite keeps the lock while the WAL is open. The guard is set and taken away under
//!   the exclusive lock, so the case cannot change. Where nobody uses the log when the WAL is
//!   opened, the database counts as locked, and the next lock recovers it.
//! - **With `maw`** there is no WAL. Each read transaction begins with a look at the board: the
//!   file has everything unless a writer has died in the middle of a commit.
//! - **Without the guard**, a process that wants to be the first with the strategy is refused
//!   meanwhile, as beside SQLite alone.
//! - **With the WAL**, which is the image of `eager` or the log of `waldio`, the connection keeps
//!   the log in use. So no process finds itself alone and builds the image anew.
//! - **With `waldio`** each read transaction begins with a look at the WAL's header. A writer may
//!   have begun the WAL anew, and frames are read by its salts ([`LoggedWal`]). While the
//!   transaction reads frames, the WAL does not begin anew.
//! - **The last to go** recovers what the others had to leave, if its process may write.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, LazyLock};

use oneflush_blocklog::{Error as LogError, Uuid};

use super::AttachError;
use crate::config::StrategyKind;
use crate::error::{Code, Error};
use crate::names::image_path;
use crate::port::{
    Below, BusyHandler, Deletion, DeviceCharacteristics, LockLevel, MainFile, ShmLock, SyncRequest,
    WalIndex,
};
use crate::role::Role;
use crate::strategy::guard;
use crate::strategy::log_files::{LogFile, LogFiles, LogInUse};
use crate::strategy::which_log::path_of_log;
use crate::strategy::{AbsorbsJournal, Stock, Strategy};
use crate::sync::{Mutex, lock, ranks};

/// Databases of which SQLite's error log says already that the strategy is not in force.
static SAID: LazyLock<Mutex<HashSet<String>>> = LazyLock::new(Mutex::default);

/// A WAL that is the log itself, opened to read it.
pub trait LoggedWal: Send + Sync {
    /// A read transaction begins. The WAL may have begun anew since the one before.
    fn begins_reading(&self) -> Result<(), Code>;
    /// The WAL as SQLite reads it.
    fn as_wal(self: Arc<Self>) -> Box<dyn Below>;
}

/// A connection that locks the database looks so often whether it is ready.
const LOOKS_MAX: u32 = 4;

/// Opens a log as a WAL.
pub type OpenLoggedWal = fn(LogFile) -> Result<Arc<dyn LoggedWal>, LogError>;

pub struct Onlooker {
    kind: StrategyKind,
    path: String,
    files: Arc<dyn LogFiles>,
    main: Mutex<Option<Arc<dyn Below>>>,
    /// Keeps the log in use while the WAL is open.
    in_use: Mutex<Option<LogInUse>>,
    /// The log, where it is the WAL.
    logged_wal: Mutex<Option<Arc<dyn LoggedWal>>, { ranks::LOOKS_ON }>,
    /// None: the log is not the WAL.
    open_logged_wal: Option<OpenLoggedWal>,
    /// A read transaction has begun, and its first look at the WAL comes.
    begins: AtomicBool,
    /// This connection has had the WAL open.
    was_beside: AtomicBool,
    /// The next shared lock looks whether the database is ready. With `maw` each one does.
    is_to_look: AtomicBool,
}

impl Onlooker {
    pub fn new(
        kind: StrategyKind,
        path: &str,
        files: Arc<dyn LogFiles>,
        open_logged_wal: Option<OpenLoggedWal>,
    ) -> Onlooker {
        Onlooker {
            kind,
            path: path.to_owned(),
            files,
            main: Mutex::default(),
            in_use: Mutex::default(),
            logged_wal: Mutex::default(),
            open_logged_wal,
            begins: AtomicBool::new(false),
            was_beside: AtomicBool::new(false),
            is_to_look: AtomicBool::new(true),
        }
    }

    fn wanted_log(&self) -> Result<Option<Uuid>, Code> {
        let main = lock(&self.main);
        match main.as_deref().map(guard::header) {
            None | Some(Err(Code::SHORT_READ)) => Ok(None),
            Some(header) => Ok(guard::of(&header?)),
        }
    }

    /// True if the database has no log, or its log is in use. With `maw`, none of its users is in
    /// the middle of a commit either: the database file has what the log has.
    fn is_ready(&self) -> Result<bool, AttachError> {
        let Some(wanted) = self.wanted_log()? else { return Ok(true) };
        if self.kind.is_for_rollback() {
            Ok(self.files.is_in_place(&self.path, wanted)?)
        } else {
            Ok(self.look_on(wanted)?.is_some())
        }
    }

    fn log_path(&self) -> String {
        path_of_log(self.kind, &self.path).unwrap_or_default()
    }

    /// Opens the log to read it, where it is the WAL.
    fn open_wal(&self) -> Result<Option<Arc<dyn LoggedWal>>, AttachError> {
        let Some(open) = self.open_logged_wal else { return Ok(None) };
        let file = self.files.open_log_to_read(&self.log_path())?;
        let file = file.ok_or(AttachError::LogMissing)?;
        Ok(Some(open(file)?))
    }

    fn look_on(&self, wanted: Uuid) -> Result<Option<LogInUse>, AttachError> {
        let Some(in_use) = self.files.look_on(&self.path, self.kind)? else {
            return Ok(None);
        };
        if in_use.uuid == wanted {
            Ok(Some(in_use))
        } else {
            Err(AttachError::OtherLog { wanted, found: in_use.uuid })
        }
    }

    /// The database was opened. Recovers what a crash has left, if this process may write. SQLite
    /// reads the header before it locks the database.
    fn prepare(&self) -> Result<(), AttachError> {
        let is_garbled = {
            let main = lock(&self.main);
            let header = main.as_deref().map(guard::header);
            header.is_some_and(|header| header.is_ok_and(|header| !guard::is_database(&header)))
        };
        if self.wanted_log()?.is_none() && (!is_garbled || !self.files.exists(&self.log_path())?) {
            if self.kind.is_for_rollback() && self.files.is_there(&self.log_path())? {
                // What a process has left that died while it made or retired the log.
                let _ = self.files.recover(&self.path, self.kind);
            }
            if lock(&SAID).insert(self.path.clone()) {
                self.files.warn(&format!(
                    "oneflush: {}: open for reading only, so strategy {} is not in force: it is \
                        read as with SQLite alone [OF-131]",
                    self.path, self.kind
                ));
            }
            return Ok(());
        }
        if is_garbled {
            // A file that is still no database after that is refused by SQLite.
            let _ = self.files.recover(&self.path, self.kind);
        }
        match self.make_ready(None) {
            // The first lock tries again, and the program's busy handler with it.
            Err(AttachError::Below(Code::BUSY)) => Ok(()),
            made => made,
        }
    }

    /// Recovers the database while it is not ready. `shared`: the database file, if the caller has
    /// the shared lock. A recovery needs the database for itself, so it goes without that lock.
    ///
    /// What is found may be of a moment between two steps of other processes. One retires the log
    /// that the guard named, or makes the next one, or leaves the log that was just recovered.
    fn make_ready(&self, shared: Option<&dyn Below>) -> Result<(), AttachError> {
        let mut recovered = Ok(true);
        for _ in 1..LOOKS_MAX {
            if let Ok(true) = self.is_ready() {
                return Ok(());
            }
            shared.map_or(Ok(()), |main| main.unlock(LockLevel::None))?;
            recovered = self.files.recover(&self.path, self.kind);
            shared.map_or(Ok(()), |main| main.lock(LockLevel::Shared))?;
        }
        if self.is_ready()? {
            return Ok(());
        }
        Err(match recovered {
            // Another process recovers it, or commits, or has died since. Or another database has
            // commits in this log, and is locked now.
            Ok(_) => AttachError::Below(Code::BUSY),
            Err(why) => AttachError::NeedsRecovery(why),
        })
    }

    fn refuse(&self, error: &AttachError) -> Error {
        if !matches!(error, AttachError::Below(Code::BUSY)) {
            self.files.warn(&format!("oneflush: {}: {error}", self.path));
        }
        Error::Below(error.code())
    }
}

impl Strategy for Onlooker {
    fn kind(&self) -> StrategyKind {
        self.kind
    }

    fn absorbs_journal(&self) -> Option<&dyn AbsorbsJournal> {
        None
    }

    fn read(
        &self,
        below: &dyn Below,
        role: Role,
        buffer: &mut [u8],
        offset: u64,
    ) -> Result<(), Error> {
        if role == Role::Wal
            && let Some(wal) = &*lock(&self.logged_wal)
            && self.begins.swap(false, Relaxed)
        {
            wal.begins_reading()?;
        }
        let result = match role {
            Role::Db => guard::read(below, buffer, offset),
            _ => below.read(buffer, offset),
        };
        Ok(result?)
    }

    fn opened(&self, main: Arc<dyn MainFile>) -> Result<(), Error> {
        *lock(&self.main) = Some(main);
        self.prepare().map_err(|error| self.refuse(&error))
    }

    fn closing(&self) {
        if (self.was_beside.load(Relaxed) || self.kind.is_for_rollback())
            && let Ok(Some(wanted)) = self.wanted_log()
            && let Ok(None) = self.look_on(wanted)
        {
            // If this process may not write, the next opener recovers the database.
            let _ = self.files.recover(&self.path, self.kind);
        }
        *lock(&self.main) = None;
    }

    fn opening_wal(&self) -> Result<(), Error> {
        let Some(wanted) = self.wanted_log()? else { return Ok(()) };
        // Nobody: the last user has left the log because this connection was about to read. The
        // next try recovers what it has left.
        let in_use =
            self.look_on(wanted).and_then(|in_use| in_use.ok_or(AttachError::Below(Code::BUSY)));
        self.is_to_look.store(in_use.is_err(), Relaxed);
        *lock(&self.in_use) = Some(in_use.map_err(|error| self.refuse(&error))?);
        match self.open_wal() {
            Ok(wal) => *lock(&self.logged_wal) = wal,
            Err(error) => {
                *lock(&self.in_use) = None;
                return Err(self.refuse(&error));
            }
        }
        self.was_beside.store(true, Relaxed);
        Ok(())
    }

    fn opened_wal(&self, _: Box<dyn Below>) -> Result<(), Error> {
        Ok(())
    }

    fn closing_wal(&self) {
        *lock(&self.logged_wal) = None;
        *lock(&self.in_use) = None;
    }

    fn deleting_wal(&self) -> Result<Deletion, Error> {
        Ok(Deletion::Delete)
    }

    fn wal_path(&self) -> Option<String> {
        self.wanted_log().ok().flatten()?;
        match self.open_logged_wal {
            Some(_) => Some(self.log_path()),
            None => Some(image_path(&self.path)),
        }
    }

    fn open_virtual(&self) -> Result<Option<Box<dyn Below>>, Error> {
        Ok(lock(&self.logged_wal).clone().map(LoggedWal::as_wal))
    }

    fn hides_wal(&self) -> Result<bool, Error> {
        Ok(false)
    }

    fn maps(&self, offset: u64) -> bool {
        // Page 1 may hold the guard.
        offset > 0
    }

    fn write(&self, below: &dyn Below, role: Role, data: &[u8], offset: u64) -> Result<(), Error> {
        Stock.write(below, role, data, offset)
    }

    fn truncate(&self, below: &dyn Below, role: Role, size_bytes: u64) -> Result<(), Error> {
        Stock.truncate(below, role, size_bytes)
    }

    fn sync(&self, below: &dyn Below, role: Role, request: SyncRequest) -> Result<(), Error> {
        Stock.sync(below, role, request)
    }

    fn size_bytes(&self, below: &dyn Below, role: Role) -> Result<u64, Error> {
        Stock.size_bytes(below, role)
    }

    fn lock(&self, below: &dyn Below, level: LockLevel) -> Result<(), Error> {
        Stock.lock(below, level)?;
        let looks = self.kind.is_for_rollback() || self.is_to_look.load(Relaxed);
        if level != LockLevel::Shared || !looks {
            return Ok(());
        }
        let ready = self.make_ready(Some(below));
        if ready.is_err() {
            Stock.unlock(below, LockLevel::None)?;
        }
        self.is_to_look.store(ready.is_err(), Relaxed);
        ready.map_err(|error| self.refuse(&error))
    }

    fn unlock(&self, below: &dyn Below, level: LockLevel) -> Result<(), Error> {
        Stock.unlock(below, level)
    }

    fn take_read_lock(&self, index: &dyn WalIndex, read: ShmLock) -> Result<(), Code> {
        self.begins.store(true, Relaxed);
        Stock.take_read_lock(index, read)
    }

    fn release_read_lock(&self, index: &dyn WalIndex, read: ShmLock) -> Result<(), Code> {
        Stock.release_read_lock(index, read)
    }

    fn shm_lock(&self, index: &dyn WalIndex, lock: ShmLock) -> Result<(), Error> {
        Stock.shm_lock(index, lock)
    }

    fn unmapping_index(&self) {}

    fn sector_size(&self, below: &dyn Below, role: Role) -> i32 {
        Stock.sector_size(below, role)
    }

    fn device_characteristics(&self, below: &dyn Below, role: Role) -> DeviceCharacteristics {
        Stock.device_characteristics(below, role)
    }

    fn has_durable_wal(&self) -> bool {
        false
    }

    fn knows_wal(&self, _: &dyn Below) -> bool {
        false
    }

    fn panicked(&self, _: Option<ShmLock>) {}

    fn asked_whether_moved(&self, _: bool) {}

    fn asked_whether_wal_stays(&self, stays: bool) -> bool {
        stays
    }

    fn asked_by_pragma(&self) {}

    fn busy_handler(&self, _: Arc<dyn BusyHandler>) {}

    fn commit_phase_two(&self) -> Result<(), Error> {
        Ok(())
    }

    fn checkpoint_announced(&self, _: bool) -> Result<(), Error> {
        Ok(())
    }
}
