//! Older versions: how far back they are kept, and transactions that read them.

use std::time::{Duration, SystemTime};

use mvbt::{Retain, Version};

use crate::call::{self, Failure, Out, fill, misuse};
use crate::code::Code;
use crate::database::{DatabaseHandle, with_database};
use crate::transaction::{Transaction, TransactionHandle, with_transaction};

/// How a file counts what it keeps.
#[repr(C)]
#[derive(Clone, Copy)]
#[allow(non_camel_case_types, reason = "these are the names in C")]
pub enum RetainKind {
    /// Nothing is kept for readers that have not begun.
    ONEFLUSH_MVBT_RETAIN_OFF = 0,
    /// At least the newest so many versions, and at most those of a second more.
    ONEFLUSH_MVBT_RETAIN_VERSIONS = 1,
    /// The states of so many milliseconds before the newest transaction.
    ONEFLUSH_MVBT_RETAIN_MS = 2,
}

use RetainKind::*;

/// When a version was committed.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Mark {
    /// The first version of this time. Those behind it, up to the next mark, came within a second.
    pub version: u64,
    /// In milliseconds since 1970. It is never less than that of the mark before.
    pub time_ms: u64,
    /// So many versions were committed up to this one, since the history was begun. Some may be
    /// missing: the last ones of an opening, or those before a rollback.
    pub number: u64,
}

impl Mark {
    fn of(mark: &mvbt::Mark) -> Mark {
        Mark { version: mark.version.0, time_ms: mark.time_ms, number: mark.number }
    }
}

/// What can be read.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct History {
    /// What the file keeps, and how much of it.
    pub retain: RetainKind,
    pub retain_count: u64,
    /// The oldest version that can be read.
    pub from: u64,
    /// The newest one.
    pub to: u64,
    /// How many marks there are: those since `from`, and the one that has its time.
    pub marks: usize,
}

/// Begins a transaction that reads the database as it was at a version: with the newest transaction
/// up to it. ONEFLUSH_MVBT_SNAPSHOT_GONE: the version is not kept any more, or not committed yet.
/// After a failure `*txn` is null, and the message is the database's.
///
/// # Safety
/// `db` is null or a handle, and `txn` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oneflush_mvbt_begin_read_at(
    db: *const DatabaseHandle,
    version: u64,
    txn: *mut *mut TransactionHandle,
) -> Code {
    let begin = |db: &DatabaseHandle| {
        let reader = db.database().begin_read_at(Version(version))?;
        Ok(TransactionHandle::new(Transaction::Read(reader)))
    };
    // SAFETY: by the contract of this function.
    unsafe { call::make(db, txn, begin) }
}

/// The same at a time, in milliseconds since 1970: with all transactions that were committed by
/// then, and none that came later. Those of the last second before it may be missing, where the
/// history has no mark. ONEFLUSH_MVBT_SNAPSHOT_GONE: the history begins later, or there is none.
///
/// # Safety
/// As oneflush_mvbt_begin_read_at().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oneflush_mvbt_begin_read_at_time(
    db: *const DatabaseHandle,
    time_ms: u64,
    txn: *mut *mut TransactionHandle,
) -> Code {
    let begin = |db: &DatabaseHandle| {
        let time = SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(time_ms));
        let time = time.ok_or_else(|| misuse("there is no such time"))?;
        let reader = db.database().begin_read_at_time(time)?;
        Ok(TransactionHandle::new(Transaction::Read(reader)))
    };
    // SAFETY: by the contract of this function.
    unsafe { call::make(db, txn, begin) }
}

/// What can be read, and the times of it. `history->marks` is how many marks there are. If that is
/// more than `capacity`, `marks` has the oldest ones. It may be null if `capacity` is 0.
///
/// # Safety
/// `db` is null or a handle, `marks` has room for `capacity` marks, and `history` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oneflush_mvbt_history_list(
    db: *const DatabaseHandle,
    marks: *mut Mark,
    capacity: usize,
    history: *mut History,
) -> Code {
    // SAFETY: by the contract of this function.
    unsafe {
        with_database(db, Out::Needed(history), |database| {
            let found = database.history()?;
            let (retain, retain_count) = counted(found.retain);
            let marks = fill(marks, capacity, found.marks.iter().map(Mark::of))?;
            Ok(History { retain, retain_count, from: found.from.0, to: found.to.0, marks })
        })
    }
}

/// From this transaction on, the file keeps so much for readers of older versions. `kind` is one of
/// oneflush_mvbt_retain_kind. `count` is of versions or milliseconds.
///
/// # Safety
/// `txn` is null or a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oneflush_mvbt_set_retain(
    txn: *mut TransactionHandle,
    kind: u32,
    count: u64,
) -> Code {
    let set = |transaction: &mut Transaction| {
        Ok(transaction.writer()?.set_retain(retain(kind, count)?)?)
    };
    // SAFETY: by the contract of this function.
    unsafe { with_transaction(txn, Out::NOTHING, set) }
}

fn counted(retain: Retain) -> (RetainKind, u64) {
    match retain {
        Retain::Off => (ONEFLUSH_MVBT_RETAIN_OFF, 0),
        Retain::Versions(count) => (ONEFLUSH_MVBT_RETAIN_VERSIONS, count),
        Retain::Duration(kept) => {
            (ONEFLUSH_MVBT_RETAIN_MS, u64::try_from(kept.as_millis()).unwrap_or(u64::MAX))
        }
    }
}

fn retain(kind: u32, count: u64) -> Result<Retain, Failure> {
    const OFF: u32 = ONEFLUSH_MVBT_RETAIN_OFF as u32;
    const VERSIONS: u32 = ONEFLUSH_MVBT_RETAIN_VERSIONS as u32;
    const MS: u32 = ONEFLUSH_MVBT_RETAIN_MS as u32;
    match kind {
        OFF => Ok(Retain::Off),
        VERSIONS => Ok(Retain::Versions(count)),
        MS => Ok(Retain::Duration(Duration::from_millis(count))),
        _ => Err(misuse("a history is off, or of versions, or of milliseconds")),
    }
}

/// Gives up what is older than a version, in a transaction of its own, which waits for who writes.
/// `from` may be null; it gets the oldest version that is kept. ONEFLUSH_MVBT_SNAPSHOT_GONE: the
/// file keeps no history.
///
/// # Safety
/// `db` is null or a handle, and `from` null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn oneflush_mvbt_prune(
    db: *const DatabaseHandle,
    up_to: u64,
    from: *mut u64,
) -> Code {
    let prune = |database: &mvbt::Database| Ok(database.prune(Version(up_to))?.0);
    // SAFETY: by the contract of this function.
    unsafe { with_database(db, Out::IfAsked(from), prune) }
}
