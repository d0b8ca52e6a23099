//! The bytes of a database and its WAL index that stand for locks: SQLite's and ours.
//!
//! Who has which is told by `oneflush who`; the table is at the head of `who/held.rs`.

use std::ops::Range;

// Of the database, as os_unix.c has them.

pub const PENDING: i64 = 0x4000_0000;
pub const RESERVED: i64 = PENDING + 1;
pub const SHARED: Range<i64> = PENDING + 2..PENDING + 512;

// Of the database, ours.

/// The last byte of SQLite's shared lock: a connection here has the WAL.
pub const IN_USE: i64 = SHARED.end - 1;
/// SQLite's shared lock but for that byte. Connections of this process do not meet each other
/// there.
pub const SHARED_BUT_IN_USE: Range<i64> = SHARED.start..IN_USE;
/// Whose turn it is to close the database.
pub const TURN_TO_CLOSE: i64 = SHARED.end;
/// Who saves what is in a database that has lost its name.
pub const SAVES: i64 = TURN_TO_CLOSE + 1;
/// Each process draws one of these. No database is as long.
pub const CANARIES: Range<i64> = 1 << 48..1 << 56;

// Of a database of LS-MVBT (`crates/mvbt/src/commons/mapped.rs`).

/// Each user shares it. The first has it alone while it opens, the last while it closes.
pub const MVBT_USE: i64 = 1 << 62;
/// The user whose transaction is open.
pub const MVBT_WRITER: i64 = MVBT_USE + 1;

// Of the WAL index ("WAL-Index File Format"; os_unix.c, `UNIX_SHM_BASE` and `UNIX_SHM_DMS`).

pub const SLOTS: Range<i64> = 120..128;
/// Whoever has mapped the index.
pub const MAPPED: i64 = SLOTS.end;
