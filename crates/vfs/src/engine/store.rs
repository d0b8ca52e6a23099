//! What makes the commits of a WAL durable: the part of a commit that differs between the strategies for WAL mode.
//!
//! The engine decides when something is written, synced, shared, put off or refused. A store carries it out: `plain` by SQLite's own
//! WAL file, `eager` by a log beside an image of the WAL. The engine takes nothing of a store for granted. Frames need not stand at
//! SQLite's offset in any file, and the size of the WAL need not be the size of a file: reads and writes of the WAL all come here,
//! also those of connections that only read.
//!
//! The calls of one commit, in their order:
//!
//! ```text
//! write lock    Gate::enter, Gate::begin_writing, Store::taking_write_lock
//! frames        Store::write_wal
//! sync          Store::write_held, Store::is_durable; then Store::flush, now or put off
//! publication   by SQLite
//! unlock        Store::releasing_write_lock, Gate::leave
//! phase two     Store::committed; then Store::flush, if it was put off
//! ```

use serde::Serialize;

use super::connection::WalConnection;
use super::gate::Gate;
use super::syncing::For;
use crate::config::{Options, StrategyKind};
use crate::error::{Code, Error};
use crate::port::{Below, Deletion, DeviceCharacteristics, MainFile, SyncRequest};
use crate::role::Role;
use crate::wal_file::FRAME_HEADER_BYTES;

/// A header of a frame, and its offset in the WAL.
pub type Header = (u64, [u8; FRAME_HEADER_BYTES]);

/// No method has a default: a store that forgot to sync would lose data silently.
pub trait Store: Sized + Send + Sync + 'static {
    const KIND: StrategyKind;
    /// While the database is in use plain SQLite must not open it, and a WAL that belongs to no connection for sure must not be written.
    const IS_GUARDED: bool;
    /// What a connection keeps for the store.
    type Own: Default + Send + Sync;
    type Gate: Gate;
    /// What the store adds to `PRAGMA oneflush_stats`.
    type Report: Serialize;

    // Commits.

    fn gate(&self) -> &Self::Gate;
    fn report(&self) -> Self::Report;
    /// The error after which the store acknowledges nothing any more.
    fn failure(&self) -> Option<Code>;
    /// A process that does not go on keeps commits from becoming durable.
    fn is_stuck(&self) -> bool;
    /// A connection is about to take the write lock: what its transaction before has left does not count any more.
    fn taking_write_lock(&self, connection: &WalConnection<Self>);
    fn write_wal(
        &self,
        connection: &WalConnection<Self>,
        wal: &dyn Below,
        data: &[u8],
        offset: u64,
    ) -> Result<(), Error>;
    /// Writes headers that SQLite has forgotten ([`unchained`](super::unchained)).
    fn write_headers(&self, connection: &WalConnection<Self>, wal: &dyn Below, headers: &[Header])
    -> Result<(), Error>;
    /// Writes what is held back, before anything else is done with the WAL.
    fn write_held(&self, connection: &WalConnection<Self>, wal: &dyn Below) -> Result<(), Error>;
    /// Before a sync of the WAL, of a commit or (`of_commit` is false) of something else. True: there is nothing to sync.
    fn is_durable(&self, connection: &WalConnection<Self>, wal: &dyn Below, of_commit: bool) -> Result<bool, Error>;
    /// Makes durable what was written before. False: somebody else had done so. `SQLITE_BUSY`: nothing was tried.
    fn flush(
        &self,
        connection: &WalConnection<Self>,
        wal: &dyn Below,
        request: SyncRequest,
        what: For,
    ) -> Result<bool, Code>;
    /// Where the last frame ends in the WAL, if [`Store::flush_failed`] is to know that.
    fn end_bytes(&self) -> Option<u64>;
    /// The flush of a commit that others may stand on has failed. The commit's connection still has its read lock.
    fn flush_failed(&self, wal: &dyn Below, end_bytes: Option<u64>);
    /// A connection is about to release the write lock.
    fn releasing_write_lock(&self, connection: &WalConnection<Self>);
    /// SQLite says that the commit succeeded.
    fn committed(&self, connection: &WalConnection<Self>);
    /// How many frames the WAL has, if the store says itself when a checkpoint is due; None: SQLite says so.
    fn frames(&self) -> Option<u32>;
    /// True if a checkpoint is worth it now.
    fn checkpoint_is_due(&self, options: &Options) -> bool;

    // The files: what stands for SQLite's WAL, how it comes and goes, and what a checkpoint may do with the database file.

    /// The file that stands for SQLite's WAL; None: the WAL.
    fn wal_path(&self) -> Option<String>;
    /// SQLite is to see no WAL, whatever lies beside the database.
    fn hides_wal(&self, main: &dyn MainFile) -> Result<bool, Error>;
    /// This process writes a WAL of this database whose directory entry is durable.
    fn has_durable_wal(&self) -> bool;
    /// This file is that WAL.
    fn knows_wal(&self, wal: &dyn Below) -> bool;
    /// Reads of this part of the database file may be served from mapped memory.
    fn maps(&self, offset: u64) -> bool;
    /// What is claimed of the database file while its WAL is open.
    fn claimed(&self, characteristics: DeviceCharacteristics) -> DeviceCharacteristics;

    /// A connection has opened the main database file.
    fn opened(&self, main: &dyn MainFile) -> Result<(), Error>;
    /// Before a connection opens the WAL. After each success [`Store::opened_wal`] or [`Store::closing_wal`] follows.
    fn opening_wal(&self, connection: &WalConnection<Self>) -> Result<(), Error>;
    fn opened_wal(&self, connection: &WalConnection<Self>, wal: &dyn Below) -> Result<(), Error>;
    /// A connection closes the WAL. None: the WAL could not be opened.
    fn closing_wal(&self, connection: &WalConnection<Self>, wal: Option<&dyn Below>);
    /// A connection has the database's exclusive lock, as at the last close. SQLite's checkpoint comes next.
    fn closing_last(&self, connection: &WalConnection<Self>, main: &dyn MainFile);
    /// SQLite is about to delete the WAL.
    fn deleting_wal(&self, connection: &WalConnection<Self>) -> Result<Deletion, Error>;
    /// A connection is closed.
    fn closing(&self, connection: &WalConnection<Self>);

    /// A read of any file of the connection.
    fn read(
        &self,
        connection: &WalConnection<Self>,
        below: &dyn Below,
        role: Role,
        buffer: &mut [u8],
        offset: u64,
    ) -> Result<(), Code>;
    /// The size of the WAL as SQLite is to see it.
    fn wal_size_bytes(&self, connection: &WalConnection<Self>, wal: &dyn Below) -> Result<u64, Code>;
    fn truncate_wal(&self, connection: &WalConnection<Self>, wal: &dyn Below, size_bytes: u64) -> Result<(), Error>;
    /// A checkpoint writes a page.
    fn write_page(
        &self,
        connection: &WalConnection<Self>,
        main: &dyn Below,
        page: &[u8],
        offset: u64,
    ) -> Result<(), Error>;
    /// A checkpoint cuts the database file to its size.
    fn truncate_database(
        &self,
        connection: &WalConnection<Self>,
        main: &dyn Below,
        size_bytes: u64,
    ) -> Result<(), Error>;
    /// The database file was synced.
    fn database_synced(&self);
}
