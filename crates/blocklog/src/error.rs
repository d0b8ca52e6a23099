//! What can go wrong with a log.

use std::io;
use std::path::PathBuf;

use crate::{Epoch, Lsn};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the log could not {doing}: {source} [OF-208]")]
    Io { doing: &'static str, source: io::Error },
    #[error("{}: could not {doing}: {source} [OF-135]", path.display())]
    File { path: PathBuf, doing: &'static str, source: io::Error },
    #[error("this is not a log of Oneflush [OF-307]")]
    NotALog,
    /// Every byte is zero, or there is none: a crash interrupted the log's creation, before it held
    /// anything. (Or someone emptied the file. The database's guard says whether commits can be
    /// missing.)
    #[error("the log was never finished; it is empty [OF-308]")]
    Unfinished,
    #[error(
        "the log has format {found}; this Oneflush knows formats up to {known}. Use the newer \
            Oneflush [OF-137]"
    )]
    NewerFormat { found: u32, known: u32 },
    #[error(
        "this is the log of a directory, not of a database. Mount the directory beside it with \
            oneflush mount, or run: oneflush recover --fs DIRECTORY [OF-143]"
    )]
    OfDirectory,
    #[error(
        "this is the log of a database, not of a directory. Open the database beside it with \
            Oneflush, or run: oneflush recover DATABASE [OF-144]"
    )]
    OfDatabase,
    #[error(
        "the first block of the log is damaged, so that its records cannot be checked. Restore it, \
            or a backup [OF-309]"
    )]
    HeaderDamaged,
    /// A log of slots is never shorter than when it was made.
    #[error(
        "the log is cut off: it has {found} bytes, and none has less than {least}. Restore it, or \
            a backup [OF-336]"
    )]
    Cut { found: u64, least: u64 },
    #[error(
        "the log has blocks of {log_bytes} bytes; here direct I/O needs blocks of {storage_bytes} \
            bytes. Copy the files to a device with smaller blocks [OF-136]"
    )]
    BlockSize { log_bytes: u32, storage_bytes: usize },
    /// This is no torn end, which is normal: what is lost here may have been acknowledged.
    #[error(
        "the log is damaged in record {lsn} (epoch {epoch}, position {position}): {what} [OF-310]"
    )]
    Damaged { epoch: Epoch, lsn: Lsn, position: u64, what: &'static str },
    #[error("the record needs {needed} bytes of the log, which has {free} free [OF-211]")]
    Full { needed: u64, free: u64 },
    #[error("a record holds at most {limit} bytes, not {length} [OF-215]")]
    TooLong { length: u64, limit: u64 },
    /// A mistake of the caller's, or overwritten shared memory. Nothing was written.
    #[error("no record can go to this place of the log: {what} [OF-216]")]
    BadHead { what: &'static str },
    #[error("no log can have this size: {what} [OF-217]")]
    BadSize { what: &'static str },
    #[error("a page's delta is damaged: {what} [OF-311]")]
    BadDelta { what: &'static str },
    #[error("a record's contents are damaged: {what} [OF-312]")]
    BadGroup { what: &'static str },
}
