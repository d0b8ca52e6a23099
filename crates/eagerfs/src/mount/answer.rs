//! What the kernel is told: error numbers and attributes.

use std::io;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{Errno, FileAttr, FileType, INodeNo};
use rustix::fs::{Statx, StatxTimestamp};

use crate::lower::Time;

/// How long the kernel keeps names and attributes. Everything that changes the directory goes
/// through the mount, so they stay right.
pub const TTL: Duration = Duration::from_secs(3600);

/// Errors of the lower have the kernel's numbers. Those of the tree are named only.
pub fn errno(error: &io::Error) -> Errno {
    if let Some(number) = error.raw_os_error() {
        return Errno::from_i32(number);
    }
    match error.kind() {
        io::ErrorKind::NotFound => Errno::ENOENT,
        io::ErrorKind::AlreadyExists => Errno::EEXIST,
        io::ErrorKind::IsADirectory => Errno::EISDIR,
        io::ErrorKind::NotADirectory => Errno::ENOTDIR,
        io::ErrorKind::DirectoryNotEmpty => Errno::ENOTEMPTY,
        io::ErrorKind::FileTooLarge => Errno::EFBIG,
        io::ErrorKind::StorageFull => Errno::ENOSPC,
        io::ErrorKind::QuotaExceeded => Errno::EDQUOT,
        io::ErrorKind::ReadOnlyFilesystem => Errno::EROFS,
        io::ErrorKind::PermissionDenied => Errno::EACCES,
        _ => Errno::EIO,
    }
}

pub fn refused<T>(number: i32) -> io::Result<T> {
    Err(io::Error::from_raw_os_error(number))
}

pub fn file_type(mode: u32) -> FileType {
    match mode & libc::S_IFMT {
        libc::S_IFDIR => FileType::Directory,
        libc::S_IFLNK => FileType::Symlink,
        libc::S_IFCHR => FileType::CharDevice,
        libc::S_IFBLK => FileType::BlockDevice,
        libc::S_IFIFO => FileType::NamedPipe,
        libc::S_IFSOCK => FileType::Socket,
        _ => FileType::RegularFile,
    }
}

pub fn attributes(number: INodeNo, stat: &Statx) -> FileAttr {
    FileAttr {
        ino: number,
        size: stat.stx_size,
        blocks: stat.stx_blocks,
        atime: system_time(&stat.stx_atime),
        mtime: system_time(&stat.stx_mtime),
        ctime: system_time(&stat.stx_ctime),
        crtime: UNIX_EPOCH,
        kind: file_type(u32::from(stat.stx_mode)),
        perm: stat.stx_mode & 0o7777,
        nlink: stat.stx_nlink,
        uid: stat.stx_uid,
        gid: stat.stx_gid,
        rdev: kernel_device(stat.stx_rdev_major, stat.stx_rdev_minor),
        blksize: stat.stx_blksize,
        flags: 0,
    }
}

/// The kernel's encoding of a device (`new_encode_dev`).
fn kernel_device(major: u32, minor: u32) -> u32 {
    minor & 0xff | major << 8 | (minor & !0xff) << 12
}

/// The C library's encoding of what the kernel has encoded.
pub fn device(encoded: u32) -> u64 {
    let major = (encoded & 0xf_ff00) >> 8;
    let minor = encoded & 0xff | encoded >> 12 & 0xf_ff00;
    libc::makedev(major, minor)
}

fn system_time(time: &StatxTimestamp) -> SystemTime {
    let seconds = Duration::from_secs(time.tv_sec.unsigned_abs());
    let whole = if time.tv_sec < 0 {
        UNIX_EPOCH.checked_sub(seconds)
    } else {
        UNIX_EPOCH.checked_add(seconds)
    };
    whole.unwrap_or(UNIX_EPOCH) + Duration::from_nanos(time.tv_nsec.into())
}

/// A time as `fuser` hands it on. Before 1970 it counts the nanoseconds backwards, other than where
/// it takes times.
pub fn time(time: SystemTime) -> Time {
    let (since, sign) = match time.duration_since(UNIX_EPOCH) {
        Ok(since) => (since, 1),
        Err(error) => (error.duration(), -1),
    };
    Time { seconds: sign * since.as_secs() as i64, nanoseconds: since.subsec_nanos() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_keep_their_numbers() {
        for (major, minor) in [(1, 3), (8, 300), (4095, 1_048_575)] {
            assert_eq!(device(kernel_device(major, minor)), libc::makedev(major, minor));
        }
    }
}
