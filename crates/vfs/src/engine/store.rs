//! What makes the commits of a WAL durable: the part of a commit that differs between the
//! strategies for WAL mode.
//!
//! The engine decides when something is written, synced, shared, put off or refused. A store
//! carries it out: `plain` by SQLite's own WAL file, `eager` by a log beside an image of the WAL.
//!
//! All of SQLite's reads and writes of the WAL come here, also those of connections that only read.
//! The engine takes one thing for granted. Once [`Store::write_held`] has succeeded, the file that
//! stands for the WAL has its frames, at SQLite's offsets.
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

use std::time::Duration;

use serde::Serialize;

use super::connection::WalConnection;
use super::gate::Gate;
use super::syncing::For;
use crate::config::{Options, StrategyKind};
use crate::error::{Code, Error};
use crate::port::{Below, Deletion, DeviceCharacteristics, MainFile, SyncRequest};
use crate::role::Role;
use crate::wal_file::FRAME_HEADER_BYTES;

/// The offset of a frame's header in the WAL, and the header.
pub type Header = (u64, [u8; FRAME_HEADER_BYTES]);

/// No method has a default: a store that forgot to sync would lose data silently.
pub trait Store: Sized + Send + Sync + 'static {
    const KIND: StrategyKind;
    /// Plain SQLite must not open the database while it is in use: page 1 may hold a guard, which
    /// [`Store::read`] hides. A WAL that cannot be assigned to one connection must not be written.
    const IS_GUARDED: bool;
    /// What a connection keeps for the store.
    type Own: Default + Send + Sync;
    type Gate: Gate;
    /// What the store adds to `PRAGMA oneflush_stats`.
    type Report: Serialize;

    // Commits.

    fn gate(&self) -> &Self::Gate;
    fn report(&self) -> Self::Report;
    /// The error after which the store acknowledges no commit any more.
    fn failure(&self) -> Option<Code>;
    /// True while a process that does not go on keeps commits from becoming durable.
    fn is_stuck(&self) -> bool;
    /// A connection is about to take the write lock. What is left of its last transaction no longer
    /// counts.
    fn taking_write_lock(&self, connection: &WalConnection<Self>);
    fn write_wal(
        &self,
        connection: &WalConnection<Self>,
        wal: &dyn Below,
        data: &[u8],
        offset: u64,
    ) -> Result<(), Error>;
    /// Writes headers that SQLite has forgotten ([`unchained`](super::unchained)).
    fn write_headers(
        &self,
        connection: &WalConnection<Self>,
        wal: &dyn Below,
        headers: &[Header],
    ) -> Result<(), Error>;
    /// Writes the frames that are held back, before anything else is done with the WAL but a read
    /// ([`Store::read`]).
    fn write_held(&self, connection: &WalConnection<Self>, wal: &dyn Below) -> Result<(), Error>;
    /// Called before a sync of the WAL. `of_commit`: the sync is a commit's. True: there is nothing
    /// to sync.
    fn is_durable(
        &self,
        connection: &WalConnection<Self>,
        wal: &dyn Below,
        of_commit: bool,
    ) -> Result<bool, Error>;
    /// Makes durable what was written before.
    ///
    /// False: another process had already done so. `SQLITE_BUSY`: nothing was tried.
    fn flush(
        &self,
        connection: &WalConnection<Self>,
        wal: &dyn Below,
        request: SyncRequest,
        what: For,
    ) -> Result<bool, Code>;
    /// Where the last frame ends in the WAL, if [`Store::flush_failed`] needs it.
    fn end_bytes(&self) -> Option<u64>;
    /// The flush of a commit that other commits may stand on has failed. The commit's connection
    /// still has its read lock.
    fn flush_failed(&self, wal: &dyn Below, end_bytes: Option<u64>);
    /// A connection is about to release the write lock.
    fn releasing_write_lock(&self, connection: &WalConnection<Self>);
    /// SQLite says that the commit succeeded.
    fn committed(&self, connection: &WalConnection<Self>);
    /// The number of frames in the WAL, if the store decides when a checkpoint is due. None: SQLite
    /// decides.
    fn frames(&self) -> Option<u32>;
    /// True if a checkpoint is worth it now.
    fn checkpoint_is_due(&self, options: &Options) -> bool;

    // The files: what stands for SQLite's WAL, how it comes and goes, and what a checkpoint may do
    // with the database file.

    /// The path of the file that stands for SQLite's WAL. None: the WAL itself.
    fn wal_path(&self) -> Option<String>;
    /// The WAL of this connection, if it is no file of the VFS below. It has the place of the file
    /// at [`Store::wal_path`]. The connection has called [`Store::opening_wal`].
    fn open_virtual(&self, connection: &WalConnection<Self>) -> Option<Box<dyn Below>>;
    /// True if SQLite is to see no WAL, whatever lies beside the database.
    fn hides_wal(&self, main: &dyn MainFile) -> Result<bool, Error>;
    /// True if this process writes a WAL of this database whose directory entry is durable.
    fn has_durable_wal(&self) -> bool;
    /// True if `wal` is that WAL.
    fn knows_wal(&self, wal: &dyn Below) -> bool;
    /// The device characteristics that are claimed of the database file while its WAL is open.
    fn claimed(&self, characteristics: DeviceCharacteristics) -> DeviceCharacteristics;

    /// A connection has opened the main database file.
    fn opened(&self, main: &dyn MainFile) -> Result<(), Error>;
    /// Called before a connection opens the WAL. After each success [`Store::opened_wal`] or
    /// [`Store::closing_wal`] follows.
    fn opening_wal(&self, connection: &WalConnection<Self>) -> Result<(), Error>;
    fn opened_wal(&self, connection: &WalConnection<Self>, wal: &dyn Below) -> Result<(), Error>;
    /// A connection closes the WAL. None: the WAL could not be opened.
    fn closing_wal(&self, connection: &WalConnection<Self>, wal: Option<&dyn Below>);
    /// How long a connection that would close last waits for another one to come: about as long as
    /// this close and the next open take. Zero: the two cost little.
    fn patience_at_last_close(&self) -> Duration;
    /// A connection has the database's exclusive lock, as at the last close. SQLite's checkpoint
    /// comes next.
    fn closing_last(&self, connection: &WalConnection<Self>, main: &dyn MainFile);
    /// SQLite is about to delete the WAL.
    fn deleting_wal(&self, connection: &WalConnection<Self>) -> Result<Deletion, Error>;
    /// A connection is closed.
    fn closing(&self, connection: &WalConnection<Self>);

    /// A read of any file of the connection. Frames that are held back are seen.
    fn read(
        &self,
        connection: &WalConnection<Self>,
        below: &dyn Below,
        role: Role,
        buffer: &mut [u8],
        offset: u64,
    ) -> Result<(), Error>;
    fn truncate_wal(
        &self,
        connection: &WalConnection<Self>,
        wal: &dyn Below,
        size_bytes: u64,
    ) -> Result<(), Error>;
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
    /// A panic has ended the commits of this process.
    fn panicked(&self) {}
}
