//! The order of this crate's locks. A thread that holds one takes only locks below it in this
//! table.
//!
//! Each lock has its rank in its type. Builds with debug assertions, and so all tests, panic at a
//! breach.
//! A mutex without a rank is a [`LEAF`]: nothing is taken while it is held. What may be shared with
//! other processes is no mutex: a thread may wait for SQLite's locks, and for the board's, with
//! locks of this table held. Those waits have limits (`strategy/eager/waiting.rs`).
//!
//! | rank | what it is around | waits with it |
//! |---|---|---|
//! | [`SHIMS`] | the registered VFSs | |
//! | [`SUPER_JOURNAL`] | an absorbed super-journal | the commit of its databases |
//! | [`ASKED`] | the number of locks that a connection has asked for | |
//! | [`WAL`] | the WAL of a connection | a flush, for ever: see below |
//! | [`HELD`] | frames held back | |
//! | [`CLOSING`] | the last close | |
//! | [`MAIN`] | the database file of a connection | a flush of `eager`, with limits |
//! | [`TRANSACTION`] | frames of a transaction (`waldio`) | |
//! | [`ABSORBED`] | the transaction of a connection (`maw`); several | the board, with limits |
//! | [`MAW_LOG`] | the log of a database (`maw`); several | the board, with limits |
//! | [`LOG`] | the log of a database (`eager`, `waldio`) | |
//! | [`FRAMES`] | frames of a connection (`eager`) | |
//! | [`UNLOGGED`] | frames that wait for the log (`eager`) | |
//! | [`LOOKS_ON`] | the log of a database that is only read | a read |
//! | [`MENDING`] | a mend of a database's header | |
//! | [`DATABASES`] | the databases of this process | |
//! | [`MEASURED`] | what was measured of a database | |
//! | [`OPENED`] | files that a fork has to look after | |
//! | [`GROUP_WRITING`] | the writer of the groups (`waldio`) | a write |
//! | [`GROUP`] | the groups (`waldio`) | |
//! | [`SLOTS`] | how slots are written (`waldio`) | a write |
//! | [`AHEAD`] | frames read ahead (`waldio`) | a read |
//! | [`BELTS`] | the indexes whose locks are kept | |
//! | [`PASSES`] | the canary, while it is put back | |
//! | [`SEAT`] | the seat of a connection at an index | |
//! | [`FILES`] | a file of our own | |
//!
//! **Several at once.** A transaction over several databases takes those of all of them
//! (`strategy/maw/several.rs`). SQLite has them all locked exclusively, so nobody else waits for
//! one of them with another one in hand.
//!
//! **Another connection.** A log is left by another connection that is opened and closed meanwhile
//! ([`apart`](super::apart)). It has locks of another database, and begins with this table anew. It
//! waits for nobody who waits for the first one: whoever has these locks and waits for a log has
//! both databases locked exclusively, and this connection gets "busy" before.
//!
//! **The wait for ever.** A commit waits for its flush, or for another's, with [`WAL`] held. Only
//! the connection itself takes that mutex, and SQLite lets one thread at a time call it. The thread
//! that flushes has locks of its own connection, and those below.

pub const SHIMS: u8 = 5;
pub const SUPER_JOURNAL: u8 = 10;
pub const ASKED: u8 = 15;
pub const WAL: u8 = 20;
pub const HELD: u8 = 25;
pub const CLOSING: u8 = 30;
pub const MAIN: u8 = 35;
pub const TRANSACTION: u8 = 40;
pub const ABSORBED: u8 = 45;
pub const MAW_LOG: u8 = 50;
pub const LOG: u8 = 55;
pub const FRAMES: u8 = 60;
pub const UNLOGGED: u8 = 65;
pub const LOOKS_ON: u8 = 68;
pub const MENDING: u8 = 70;
pub const DATABASES: u8 = 75;
pub const MEASURED: u8 = 80;
pub const OPENED: u8 = 85;
pub const GROUP_WRITING: u8 = 90;
pub const GROUP: u8 = 95;
pub const SLOTS: u8 = 100;
pub const AHEAD: u8 = 105;
pub const BELTS: u8 = 110;
pub const PASSES: u8 = 115;
pub const SEAT: u8 = 120;
pub const FILES: u8 = 125;
/// Nothing is taken while it is held.
pub const LEAF: u8 = u8::MAX - 1;
/// What stands for the kernel in tests and in the model.
#[cfg(any(test, feature = "shuttle"))]
pub const STUB: u8 = u8::MAX;

/// Several locks of this rank may be held.
#[cfg(debug_assertions)]
pub(super) const fn may_be_several(rank: u8) -> bool {
    matches!(rank, ABSORBED | MAW_LOG) || rank > LEAF
}
