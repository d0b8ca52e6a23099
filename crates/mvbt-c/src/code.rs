//! What a call answers.

use std::ffi::c_char;

use mvbt::Error;

/// What a function answers. New codes may come; none changes its number.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(non_camel_case_types, reason = "these are the names in C")]
pub enum Code {
    /// Done.
    ONEFLUSH_MVBT_OK = 0,
    /// The system could not read, write or open the file. The message has its words.
    ONEFLUSH_MVBT_IO = 1,
    /// The file is no database of mvbt.
    ONEFLUSH_MVBT_OTHER_FORMAT = 2,
    /// A newer program has written the file. Use that one.
    ONEFLUSH_MVBT_NEWER_FORMAT = 3,
    /// What was read is damaged. oneflush_mvbt_check() says how much. Restore a backup.
    ONEFLUSH_MVBT_DAMAGED = 4,
    /// The version that is asked for is not kept any more.
    ONEFLUSH_MVBT_SNAPSHOT_GONE = 5,
    /// There is no such tree.
    ONEFLUSH_MVBT_NO_TREE = 6,
    /// The tree has integer keys and not records, or the other way round.
    ONEFLUSH_MVBT_WRONG_KIND = 7,
    /// The payload or record is too long.
    ONEFLUSH_MVBT_TOO_LONG = 8,
    /// The database would have more pages than its options allow, or the disk is full. Roll back.
    ONEFLUSH_MVBT_FULL = 9,
    /// An earlier write or flush has failed. Close the database, and open it anew.
    ONEFLUSH_MVBT_POISONED = 10,
    /// An earlier call of this transaction failed halfway. Roll back, or to a savepoint before it.
    ONEFLUSH_MVBT_HALF_DONE = 11,
    /// Someone else writes, or uses the handle just now. Try again.
    ONEFLUSH_MVBT_BUSY = 12,
    /// The call makes no sense: a null pointer, a place that is none, a transaction that has ended.
    ONEFLUSH_MVBT_MISUSE = 13,
    /// A fault of the library. Close the handle.
    ONEFLUSH_MVBT_INTERNAL = 14,
    /// The database was opened for reading only.
    ONEFLUSH_MVBT_READ_ONLY = 15,
}

use Code::*;

impl Code {
    pub fn of(error: &Error) -> Code {
        match error {
            error if error.is_full_disk() => ONEFLUSH_MVBT_FULL,
            Error::Io { .. } => ONEFLUSH_MVBT_IO,
            Error::OtherFormat { .. } => ONEFLUSH_MVBT_OTHER_FORMAT,
            Error::ReadOnly { .. } => ONEFLUSH_MVBT_READ_ONLY,
            Error::NewerFormat { .. } => ONEFLUSH_MVBT_NEWER_FORMAT,
            Error::AnchorsDamaged { .. } | Error::Damaged { .. } | Error::ReachedTwice { .. } => {
                ONEFLUSH_MVBT_DAMAGED
            }
            Error::SnapshotGone { .. }
            | Error::NotKept { .. }
            | Error::TimeNotKept { .. }
            | Error::NoHistory => ONEFLUSH_MVBT_SNAPSHOT_GONE,
            Error::NoTree { .. } => ONEFLUSH_MVBT_NO_TREE,
            Error::WrongKind { .. } => ONEFLUSH_MVBT_WRONG_KIND,
            Error::TooLong { .. } => ONEFLUSH_MVBT_TOO_LONG,
            Error::Full { .. } | Error::NoVersion => ONEFLUSH_MVBT_FULL,
            Error::Poisoned => ONEFLUSH_MVBT_POISONED,
            Error::HalfDone => ONEFLUSH_MVBT_HALF_DONE,
            Error::Busy { .. } | Error::StaleReader { .. } => ONEFLUSH_MVBT_BUSY,
            Error::PageSize { .. } | Error::Misuse { .. } => ONEFLUSH_MVBT_MISUSE,
            // The crate may get errors that this one does not know.
            _ => ONEFLUSH_MVBT_INTERNAL,
        }
    }
}

/// The name of a code: "ONEFLUSH_MVBT_OK". Null for a number that is none.
#[unsafe(no_mangle)]
pub extern "C" fn oneflush_mvbt_code_name(code: u32) -> *const c_char {
    let name = match code {
        0 => c"ONEFLUSH_MVBT_OK",
        1 => c"ONEFLUSH_MVBT_IO",
        2 => c"ONEFLUSH_MVBT_OTHER_FORMAT",
        3 => c"ONEFLUSH_MVBT_NEWER_FORMAT",
        4 => c"ONEFLUSH_MVBT_DAMAGED",
        5 => c"ONEFLUSH_MVBT_SNAPSHOT_GONE",
        6 => c"ONEFLUSH_MVBT_NO_TREE",
        7 => c"ONEFLUSH_MVBT_WRONG_KIND",
        8 => c"ONEFLUSH_MVBT_TOO_LONG",
        9 => c"ONEFLUSH_MVBT_FULL",
        10 => c"ONEFLUSH_MVBT_POISONED",
        11 => c"ONEFLUSH_MVBT_HALF_DONE",
        12 => c"ONEFLUSH_MVBT_BUSY",
        13 => c"ONEFLUSH_MVBT_MISUSE",
        14 => c"ONEFLUSH_MVBT_INTERNAL",
        15 => c"ONEFLUSH_MVBT_READ_ONLY",
        _ => return std::ptr::null(),
    };
    name.as_ptr()
}

/// The version of this library: "0.1.0".
#[unsafe(no_mangle)]
pub extern "C" fn oneflush_mvbt_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}
