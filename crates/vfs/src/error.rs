//! Errors of the VFS and the SQLite codes they become.

use std::ffi::c_int;

use libsqlite3_sys as sqlite;

use crate::config::OptionError;

/// A result code of SQLite or of the VFS below, extended codes included. Never `SQLITE_OK`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code(pub c_int);

impl Code {
    pub const BUSY: Code = Code(sqlite::SQLITE_BUSY);
    pub const LOCKED: Code = Code(sqlite::SQLITE_LOCKED);
    pub const SHORT_READ: Code = Code(sqlite::SQLITE_IOERR_SHORT_READ);
    pub const MISUSE: Code = Code(sqlite::SQLITE_MISUSE);
    pub const IOERR_READ: Code = Code(sqlite::SQLITE_IOERR_READ);
    pub const IOERR_WRITE: Code = Code(sqlite::SQLITE_IOERR_WRITE);
    pub const IOERR_LOCK: Code = Code(sqlite::SQLITE_IOERR_LOCK);
    pub const IOERR_FSYNC: Code = Code(sqlite::SQLITE_IOERR_FSYNC);
    pub const IOERR_BEGIN_ATOMIC: Code = Code(sqlite::SQLITE_IOERR_BEGIN_ATOMIC);
    pub const IOERR_COMMIT_ATOMIC: Code = Code(sqlite::SQLITE_IOERR_COMMIT_ATOMIC);
    /// A log was deleted or replaced while it was in use. ("Reserved for use by extensions".)
    pub const NAME_LOST: Code = Code(sqlite::SQLITE_IOERR_VNODE);
    /// A panic was stopped at a callback.
    pub const PANICKED: Code = Code(sqlite::SQLITE_IOERR);
    pub const FULL: Code = Code(sqlite::SQLITE_FULL);
    pub const READONLY: Code = Code(sqlite::SQLITE_READONLY);
    pub const CORRUPT: Code = Code(sqlite::SQLITE_CORRUPT);
    pub const NOTADB: Code = Code(sqlite::SQLITE_NOTADB);
    pub const CANTOPEN: Code = Code(sqlite::SQLITE_CANTOPEN);

    /// What others are told: a log without a name is a failed sync.
    pub fn told(self) -> Code {
        if self == Code::NAME_LOST { Code::IOERR_FSYNC } else { self }
    }

    /// What was written before may not be durable.
    pub fn is_of_sync(self) -> bool {
        matches!(self, Code::IOERR_FSYNC | Code::NAME_LOST)
    }
}

/// What can go wrong in a call of the VFS.
///
/// Every call returns one or none, so an error fits in two registers: the rare ones are boxed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An answer of the VFS below. Its code goes to SQLite as it is, `SQLITE_BUSY` and short reads
    /// included.
    #[error("the VFS below answered {}", .0.0)]
    Below(Code),
    /// An option of this open cannot be honoured.
    #[error("{}: {}", .0.path, .0.source)]
    Option(Box<RefusedOption>),
    /// SQLite passed an argument that its own contract excludes.
    #[error("{}: argument out of range: {} [OF-213]", .0.call, .0.value)]
    Argument(Box<BadArgument>),
    /// The VFS below lacks a method that SQLite called nevertheless.
    #[error("the VFS below has no {0} [OF-214]")]
    Missing(Box<&'static str>),
    /// A panic was stopped at the callback (invariant 3 of the crate).
    #[error("internal error in {}: {} [OF-212]", .0.call, .0.message)]
    Panic(Box<Caught>),
}

const _: () = assert!(size_of::<Result<(), Error>>() <= 16);

#[derive(Debug)]
pub struct RefusedOption {
    pub path: String,
    pub source: OptionError,
}

#[derive(Debug)]
pub struct BadArgument {
    pub call: &'static str,
    pub value: i64,
}

#[derive(Debug)]
pub struct Caught {
    pub call: &'static str,
    pub message: String,
}

impl Error {
    /// The code that SQLite gets.
    pub fn code(&self) -> c_int {
        match self {
            Error::Below(code) => code.0,
            Error::Option(_) => sqlite::SQLITE_CANTOPEN,
            Error::Argument(_) => sqlite::SQLITE_MISUSE,
            Error::Missing(_) => sqlite::SQLITE_IOERR,
            Error::Panic(_) => sqlite::SQLITE_IOERR,
        }
    }

    /// False for an answer of the VFS below: SQLite reports that itself.
    pub fn belongs_in_the_log(&self) -> bool {
        match self {
            Error::Below(_) => false,
            Error::Option(_) | Error::Argument(_) | Error::Missing(_) | Error::Panic(_) => true,
        }
    }
}

impl Error {
    #[cold]
    pub fn argument(call: &'static str, value: i64) -> Error {
        Error::Argument(Box::new(BadArgument { call, value }))
    }

    #[cold]
    pub fn missing(method: &'static str) -> Error {
        Error::Missing(Box::new(method))
    }

    #[cold]
    pub fn panic(call: &'static str, message: String) -> Error {
        Error::Panic(Box::new(Caught { call, message }))
    }
}

impl From<Code> for Error {
    fn from(code: Code) -> Error {
        Error::Below(code)
    }
}
