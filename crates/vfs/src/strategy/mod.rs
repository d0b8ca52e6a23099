//! Strategies: what happens to a read, a write, a sync and a lock on its way to the VFS below.
//!
//! A strategy sees roles, offsets and bytes, never a SQLite pointer or flag.
//!
//! To add a strategy:
//!
//! - a folder here with what implements [`Strategy`] (for WAL mode, a `Store` of the engine);
//! - a word in [`StrategyKind`];
//! - a variant of [`Chosen`].

mod board;
mod chunk;
mod eager;
pub mod guard;
mod in_wal_mode;
mod log_files;
mod log_life;
mod maw;
mod page_one;
mod plain;
mod recover_error;
mod space;
mod stock;
mod tickets;
mod waldio;
mod which_log;

pub use board::{
    Common, Holder, Look as BoardLook, Private, Seat, WORDS, is_busy as board_is_busy,
    is_open as board_is_open, look as look_at_board, read_words as read_board,
};
pub use eager::building::build_of;
pub use eager::log::OpenLog as EagerOpenLog;
pub use eager::rebuilt::RebuiltPages;
pub use eager::recover::{check, write_image};
pub use in_wal_mode::{SharedWal, Site, StrategyReport};
pub use log_files::{IMAGE_MEMORY_BYTES, ImageMemory, LogFile, LogFiles, LogInUse};
pub use log_life::onlooker::{Onlooker, OpenLoggedWal};
pub use log_life::{AttachError, KeptLog, why_kept};
pub use maw::{
    Coordinator, FirstCommit, Follower, Look, Maw, MawLog, MawReport, Named, Need,
    OpenLog as MawOpenLog, Record as MawRecord, commit_together, find_linked,
    is_behind as is_log_behind, materialise_together, name_other_side, own_group,
};
pub use page_one::{DecodeGroup, page_one as page_one_of_log, page_one_of};
#[cfg(all(test, not(feature = "shuttle")))]
pub use plain::Door;
#[cfg(test)]
pub use plain::PlainStore;
pub use plain::{Plain, is_marked};
pub use recover_error::RecoverError;
pub use space::Room;
pub use stock::Stock;
pub use tickets::Tickets;
pub use waldio::{OpenLog as WaldioOpenLog, SlotCounts, SlotFile, count_slots};
pub use which_log::{WITH_A_LOG, path_of_log, strategy_of_log, uuid_of};

use std::sync::Arc;

use self::eager::Eager;
use self::waldio::Waldio;
use crate::config::{Atomic, Options, StrategyKind};
use crate::engine::InWalMode;
use crate::error::{Code, Error};
use crate::port::{
    Below, BusyHandler, Deletion, DeviceCharacteristics, LockLevel, MainFile, Purpose, ShmLock,
    SyncRequest, WalIndex,
};
use crate::role::Role;

/// How one connection carries out SQLite's calls.
///
/// No method has a default. A strategy that forgot to sync, or to say what the device is, would
/// lose data silently.
pub trait Strategy: Send + Sync {
    fn kind(&self) -> StrategyKind;
    /// `None`: rollback journals are files.
    fn absorbs_journal(&self) -> Option<&dyn AbsorbsJournal>;
    fn read(
        &self,
        below: &dyn Below,
        role: Role,
        buffer: &mut [u8],
        offset: u64,
    ) -> Result<(), Error>;
    fn write(&self, below: &dyn Below, role: Role, data: &[u8], offset: u64) -> Result<(), Error>;
    fn truncate(&self, below: &dyn Below, role: Role, size_bytes: u64) -> Result<(), Error>;
    fn sync(&self, below: &dyn Below, role: Role, request: SyncRequest) -> Result<(), Error>;
    fn size_bytes(&self, below: &dyn Below, role: Role) -> Result<u64, Error>;
    fn lock(&self, below: &dyn Below, level: LockLevel) -> Result<(), Error>;
    fn unlock(&self, below: &dyn Below, level: LockLevel) -> Result<(), Error>;
    /// Takes a reader's lock: one shared slot from [`ShmLock::READ`] on.
    ///
    /// Each read makes this call and the next. Nothing else is between SQLite and its WAL index, so
    /// both calls are to be small.
    fn take_read_lock(&self, index: &dyn WalIndex, read: ShmLock) -> Result<(), Code>;
    fn release_read_lock(&self, index: &dyn WalIndex, read: ShmLock) -> Result<(), Code>;
    /// A panic was stopped at a callback of this connection. `released`: what the callback was to
    /// take or to release of the WAL index. Nobody has it now.
    fn panicked(&self, released: Option<ShmLock>);
    /// Any other lock of the WAL index.
    fn shm_lock(&self, index: &dyn WalIndex, lock: ShmLock) -> Result<(), Error>;
    /// The WAL index is about to be unmapped, and its locks with it.
    fn unmapping_index(&self);
    fn sector_size(&self, below: &dyn Below, role: Role) -> i32;
    fn device_characteristics(&self, below: &dyn Below, role: Role) -> DeviceCharacteristics;
    /// The main database file was opened. The file below stays usable until [`Strategy::closing`].
    fn opened(&self, main: Arc<dyn MainFile>) -> Result<(), Error>;
    fn closing(&self);
    /// Called before the WAL of this very connection is opened. After a success
    /// [`Strategy::opened_wal`] or [`Strategy::closing_wal`] follows.
    fn opening_wal(&self) -> Result<(), Error>;
    /// The WAL was opened. The file below stays usable until [`Strategy::closing_wal`], which
    /// follows even after an error.
    fn opened_wal(&self, wal: Box<dyn Below>) -> Result<(), Error>;
    fn closing_wal(&self);
    /// SQLite is about to delete its WAL.
    fn deleting_wal(&self) -> Result<Deletion, Error>;
    /// The path of the file that stands for SQLite's WAL. None: the WAL itself.
    fn wal_path(&self) -> Option<String>;
    /// The WAL of this connection, if it is no file of the VFS below.
    fn open_virtual(&self) -> Result<Option<Box<dyn Below>>, Error>;
    /// True if SQLite is to see no WAL, whatever lies beside the database.
    fn hides_wal(&self) -> Result<bool, Error>;
    /// True if reads of the database file may be served from mapped memory.
    fn maps(&self, offset: u64) -> bool;
    /// True if this process writes a WAL of this database whose directory entry is durable.
    fn has_durable_wal(&self) -> bool;
    /// True if `wal` is that WAL.
    fn knows_wal(&self, wal: &dyn Below) -> bool;
    /// SQLite asked whether the main database file has been moved (`SQLITE_FCNTL_HAS_MOVED`).
    fn asked_whether_moved(&self, has_moved: bool);
    /// SQLite asked whether the WAL is to stay (`SQLITE_FCNTL_PERSIST_WAL`).
    ///
    /// `stays` is the answer so far. SQLite gets what this returns.
    fn asked_whether_wal_stays(&self, stays: bool) -> bool;
    /// A PRAGMA is being prepared. The user may have asked for what comes next.
    fn asked_by_pragma(&self);
    /// `SQLITE_FCNTL_BUSYHANDLER`.
    fn busy_handler(&self, handler: Arc<dyn BusyHandler>);
    /// `SQLITE_FCNTL_COMMIT_PHASETWO`. An error fails the commit.
    fn commit_phase_two(&self) -> Result<(), Error>;
    /// `SQLITE_FCNTL_CKPT_START` and `SQLITE_FCNTL_CKPT_DONE`.
    fn checkpoint_announced(&self, running: bool) -> Result<(), Error>;
}

/// What a strategy does besides that keeps rollback journals in memory (`maw`).
pub trait AbsorbsJournal {
    /// This connection may create the journal: it has the database reserved. One connection at a
    /// time has.
    fn may_create_journal(&self) -> bool;

    /// True if its journal is absorbed, and SQLite may have closed it and open it again. After a
    /// commit that has failed, a connection that keeps its exclusive lock does so.
    fn may_play_back(&self) -> bool;

    /// True if SQLite may open a real journal to play it back. Then this connection has the
    /// database locked exclusively, so the journal is its own until it is closed.
    fn may_play_back_file(&self) -> bool;
    /// SQLite creates the journal. `Some`: a file that stands for it. `None`: SQLite gets a real
    /// one.
    fn opening_journal(&self) -> Result<Option<Box<dyn Below>>, Error>;
    /// SQLite has opened the journal of this connection: that file, or a real one.
    fn opened_journal(&self);
    /// SQLite closes it.
    fn closing_journal(&self);
    /// SQLite has a real journal open. It keeps one that it has played back, for a transaction
    /// under the same lock.
    fn has_journal_file(&self) -> bool;
    /// The journal has contents that SQLite has not ended yet.
    fn holds_journal(&self) -> bool;
    /// Its transaction can be committed by one record together with those of other databases.
    fn commits_together(&self) -> bool;
    /// The transaction will be an ordinary journaled one. SQLite has the database locked
    /// exclusively.
    fn before_ordinary(&self) -> Result<(), Error>;
    /// The next commits are in this database's own log. SQLite has the database reserved at least.
    fn leave_link(&self) -> Result<(), Error>;
    /// A transaction is kept in memory.
    fn is_absorbing(&self) -> bool;
    /// The last commits are in the log of another database.
    fn is_linked(&self) -> bool;
    /// SQLite deletes the journal, which ends it.
    fn deleting_journal(&self) -> Result<Deletion, Error>;
    /// `SQLITE_FCNTL_BEGIN_ATOMIC_WRITE` and its companions.
    fn atomic_step(&self, below: &dyn Below, step: AtomicStep) -> Result<(), Error>;
}

/// A step of SQLite's own batch of atomic writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtomicStep {
    Begin,
    Commit,
    Rollback,
}

/// A strategy in force.
///
/// It is an enum rather than a box: the compiler sees through it, so `stock` costs next to nothing.
pub enum Chosen {
    Stock(Stock),
    Plain(Arc<Plain>),
    Eager(Arc<Eager>),
    Waldio(Arc<Waldio>),
    Maw(Box<Maw>),
    Onlooker(Box<Onlooker>),
}

/// The strategy that the options of connection `id` ask for.
pub fn build(id: u64, options: &Options, site: &Site, purpose: Purpose) -> Chosen {
    match options.strategy {
        StrategyKind::Stock => Chosen::Stock(Stock),
        kind if kind.has_log() && purpose == Purpose::ReadOnly => {
            let open_logged_wal: Option<OpenLoggedWal> = match kind {
                StrategyKind::Waldio => Some(waldio::open_to_read),
                _ => None,
            };
            let files = Arc::clone(&site.files);
            Chosen::Onlooker(Box::new(Onlooker::new(kind, &site.path, files, open_logged_wal)))
        }
        StrategyKind::Plain => {
            let plain = in_wal_mode(id, options, site.plain(), purpose);
            // `auto`: the file stays a plain one at all times, as it does on F2FS with `maw`.
            let is_auto = !options.strategy_is_named && purpose == Purpose::ReadWrite;
            let is_asked_for = matches!(options.atomic, Atomic::Auto | Atomic::F2fs);
            match plain {
                Chosen::Plain(_)
                    if is_auto && is_asked_for && site.files.atomic_write(&site.path).is_ok() =>
                {
                    with_maw(options, site, plain, purpose)
                }
                plain => plain,
            }
        }
        StrategyKind::Eager => in_wal_mode(id, options, site.eager(), purpose),
        StrategyKind::Waldio => in_wal_mode(id, options, site.waldio(), purpose),
        StrategyKind::Maw => with_maw(options, site, Chosen::Stock(Stock), purpose),
    }
}

/// `maw` for the rollback modes. `inner` does everything else.
fn with_maw(options: &Options, site: &Site, inner: Chosen, purpose: Purpose) -> Chosen {
    let (files, log) = (Arc::clone(&site.files), Arc::clone(site.maw()));
    Chosen::Maw(Box::new(Maw::new(&site.path, options, files, log, inner, purpose)))
}

/// A connection with the strategy of the database's first connection. Two strategies for WAL mode
/// do not go together.
fn in_wal_mode(id: u64, options: &Options, shared: &SharedWal, purpose: Purpose) -> Chosen {
    match shared {
        SharedWal::Plain(shared) => {
            Chosen::Plain(Plain::new(id, options, Arc::clone(shared), purpose))
        }
        SharedWal::Eager(shared) => {
            Chosen::Eager(Eager::new(id, options, Arc::clone(shared), purpose))
        }
        SharedWal::Waldio(shared) => {
            Chosen::Waldio(Waldio::new(id, options, Arc::clone(shared), purpose))
        }
    }
}

impl Chosen {
    /// Calls the strategy.
    #[inline(always)]
    pub fn call<R>(&self, method: impl FnOnce(&dyn Strategy) -> R) -> R {
        match self {
            Chosen::Stock(stock) => method(stock),
            Chosen::Plain(plain) => method(plain.as_ref()),
            Chosen::Eager(eager) => method(eager.as_ref()),
            Chosen::Waldio(waldio) => method(waldio.as_ref()),
            Chosen::Maw(maw) => method(maw.as_ref()),
            Chosen::Onlooker(onlooker) => method(onlooker.as_ref()),
        }
    }

    pub fn maw(&self) -> Option<&Maw> {
        match self {
            Chosen::Maw(maw) => Some(maw),
            _ => None,
        }
    }

    /// What the strategy adds to `PRAGMA oneflush_stats`.
    pub fn report(&self, site: &Site) -> Option<StrategyReport> {
        match self {
            Chosen::Maw(maw) if maw.inner().in_wal_mode().is_none() => {
                Some(StrategyReport::Maw(maw.report()))
            }
            _ => self.in_wal_mode().and(site.shared()).map(SharedWal::report),
        }
    }

    /// The connection, if its strategy is one for WAL mode.
    pub(crate) fn in_wal_mode(&self) -> Option<&dyn InWalMode> {
        match self {
            Chosen::Stock(_) | Chosen::Onlooker(_) => None,
            Chosen::Plain(plain) => Some(plain.as_ref()),
            Chosen::Eager(eager) => Some(eager.as_ref()),
            Chosen::Waldio(waldio) => Some(waldio.as_ref()),
            Chosen::Maw(maw) => maw.inner().in_wal_mode(),
        }
    }
}
