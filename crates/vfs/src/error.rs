//! Errors of the VFS and the SQLite codes they become.

use std::ffi::c_int;

use libsqlite3_sys as sqlite;

use crate::config::OptionError;

/// A result code of SQLite or of the VFS below, extended codes included; never `SQLITE_OK`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code(pub c_int);

/// What can go wrong in a call of the VFS.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The VFS below said so; its code goes to SQLite as it is (`SQLITE_BUSY` and short reads included).
    #[error("the VFS below answered {}", .0.0)]
    Below(Code),
    /// An option of this open cannot be honoured.
    #[error("{path}: {source}")]
    Option { path: String, source: OptionError },
    /// SQLite passed an argument that its own contract excludes.
    #[error("{call}: argument out of range: {value}")]
    Argument { call: &'static str, value: i64 },
    /// The VFS below lacks a method that SQLite called nevertheless.
    #[error("the VFS below has no {0}")]
    Missing(&'static str),
    /// A panic was stopped at the callback (invariant 3).
    #[error("internal error in {call}: {message}")]
    Panic { call: &'static str, message: String },
}

impl Error {
    /// The code that SQLite gets.
    pub fn code(&self) -> c_int {
        match self {
            Error::Below(code) => code.0,
            Error::Option { .. } => sqlite::SQLITE_CANTOPEN,
            Error::Argument { .. } => sqlite::SQLITE_MISUSE,
            Error::Missing(_) => sqlite::SQLITE_IOERR,
            Error::Panic { .. } => sqlite::SQLITE_IOERR,
        }
    }

    /// False for what the VFS below reported, which is SQLite's business to tell.
    pub fn belongs_in_the_log(&self) -> bool {
        match self {
            Error::Below(_) => false,
            Error::Option { .. } | Error::Argument { .. } | Error::Missing(_) | Error::Panic { .. } => true,
        }
    }
}

impl From<Code> for Error {
    fn from(code: Code) -> Error {
        Error::Below(code)
    }
}
