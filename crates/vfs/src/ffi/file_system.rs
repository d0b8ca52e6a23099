//! What the providers of `maw` ask of a file system before they try it: its type and its block.

use std::fs::{self, File};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use libsqlite3_sys as sqlite;
use rustix::fs::{CWD, Mode, OFlags, openat, statfs};
use rustix::io::Errno;

use super::api::Api;
use crate::error::Code;

// linux/magic.h. All are numbers of 32 bits, whatever the field has.
pub const F2FS: u32 = 0xF2F5_2010;
pub const XFS: u32 = 0x5846_5342;
const NAMES: [(u32, &str); 13] = [
    (0xEF53, "ext4"),
    (F2FS, "F2FS"),
    (XFS, "XFS"),
    (0x9123_683E, "btrfs"),
    (0x0102_1994, "tmpfs"),
    (0x8584_58F6, "ramfs"),
    (0x794C_7630, "overlayfs"),
    (0x2FC1_2FC1, "ZFS"),
    (0xCA45_1A4E, "bcachefs"),
    (0x6969, "NFS"),
    (0x6573_5546, "FUSE"),
    (0x0102_1997, "9p"),
    (0x2011_BAB0, "exFAT"),
];

pub struct FileSystem {
    kind: u32,
    pub block_bytes: u64,
}

impl FileSystem {
    pub fn of(path: &Path) -> Result<FileSystem, String> {
        let stat = statfs(path).map_err(|errno| format!("statfs: {errno}"))?;
        let block_bytes = u64::try_from(stat.f_bsize).unwrap_or_default();
        Ok(FileSystem { kind: stat.f_type as u32, block_bytes: block_bytes.max(512) })
    }

    /// Fails, with the name of the file system that it is instead.
    pub fn must_be(&self, wanted: u32, what: &str) -> Result<(), String> {
        if self.kind == wanted {
            return Ok(());
        }
        let name = |kind| NAMES.iter().find(|(magic, _)| *magic == kind).map(|(_, name)| *name);
        let here =
            name(self.kind).map_or_else(|| format!("of type {:#x}", self.kind), ToOwned::to_owned);
        let wanted = name(wanted).unwrap_or_default();
        Err(format!("the file system here is {here}, and only {wanted} has {what}"))
    }
}

/// A file without a name. It is gone when it is closed.
pub fn temporary_file(folder: &Path) -> Result<File, String> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    match openat(CWD, folder, flags, Mode::RUSR | Mode::WUSR) {
        Ok(file) => Ok(file.into()),
        Err(errno) => Err(format!("no temporary file can be made in its folder: {errno}")),
    }
}

/// A file that had a name when it was made. It is gone when it is closed.
pub fn unnamed_file(folder: &Path) -> Result<File, String> {
    static MADE: AtomicU32 = AtomicU32::new(0);
    let number = MADE.fetch_add(1, Ordering::Relaxed);
    let path = folder.join(format!(".oneflush-try-{}-{number}", std::process::id()));
    let opened = File::options().read(true).write(true).create_new(true).mode(0o600).open(&path);
    opened
        .and_then(|file| fs::remove_file(&path).map(|()| file))
        .map_err(|error| format!("no file can be made in its folder: {error}"))
}

/// Says that a commit has failed in a way that leaves its outcome open.
pub fn say_unknown(api: &Api, database: &str, file_system: &str) {
    let message = format!(
        "oneflush: {database}: {file_system} failed in the middle of a commit, and nobody knows \
            whether the commit is there; this connection commits nothing more [OF-337]"
    );
    api.log(sqlite::SQLITE_IOERR_FSYNC, &message);
}

/// The code that SQLite gets for an error of a write.
pub fn code_of(errno: Errno) -> Code {
    match errno {
        Errno::NOSPC | Errno::DQUOT | Errno::FBIG => Code::FULL,
        _ => Code::IOERR_WRITE,
    }
}

pub fn code_of_io(error: &std::io::Error) -> Code {
    Errno::from_io_error(error).map_or(Code::IOERR_WRITE, code_of)
}
