//! `/proc/PID/fdinfo/N`: what the kernel says of an open file, its locks among it.

use std::fs;

use super::files::FileId;
use super::lock_lines::{LockLine, lock_line};

/// What is needed of it here.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct FdInfo {
    pub mount: Option<u64>,
    /// Since Linux 5.14.
    pub inode: Option<u64>,
    /// The locks that were taken by this open file, for itself or for the process.
    pub locks: Vec<LockLine>,
}

pub fn fdinfo(text: &str) -> FdInfo {
    let mut info = FdInfo::default();
    for line in text.lines() {
        let Some((key, value)) = line.split_once(':') else { continue };
        match key {
            "mnt_id" => info.mount = value.trim().parse().ok(),
            "ino" => info.inode = value.trim().parse().ok(),
            "lock" => info.locks.extend(lock_line(value)),
            _ => {}
        }
    }
    info
}

/// None: the descriptor is closed again, or may not be looked at.
pub fn of_descriptor(pid: u32, descriptor: &str) -> Option<FdInfo> {
    fs::read_to_string(format!("/proc/{pid}/fdinfo/{descriptor}")).ok().map(|text| fdinfo(&text))
}

/// The numbers of the file in the kernel's lists: the device of its mount, and its inode there.
pub fn listed_as(pid: u32, info: &FdInfo, by_stat: FileId) -> Option<FileId> {
    let mounts = fs::read_to_string(format!("/proc/{pid}/mountinfo")).ok()?;
    let device = device_of_mount(&mounts, info.mount?)?;
    Some(FileId { device, inode: info.inode.unwrap_or(by_stat.inode) })
}

/// In `27 1 254:0 / / rw,relatime - ext4 /dev/root rw` the first word is the mount, and the third
/// its device in decimal digits.
fn device_of_mount(mounts: &str, mount: u64) -> Option<(u32, u32)> {
    let mount = mount.to_string();
    let line = mounts.lines().find(|line| line.split(' ').next() == Some(mount.as_str()))?;
    let (major, minor) = line.split(' ').nth(2)?.split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::who::lock_lines::Class;

    #[test]
    fn locks_of_the_open_file_and_of_the_process_are_found() {
        let of_database = "pos:\t0\nflags:\t02500002\nmnt_id:\t27\nino:\t10141824\n\
            lock:\t1: POSIX  ADVISORY  READ 13309 fe:00:10141824 1073741826 1073742335\n";
        let info = fdinfo(of_database);
        assert_eq!((info.mount, info.inode), (Some(27), Some(10_141_824)));
        assert_eq!((info.locks.len(), info.locks[0].class), (1, Class::Posix));
        let of_log = "pos:\t0\nflags:\t02100002\nmnt_id:\t27\nino:\t10141827\n\
            lock:\t1: FLOCK  ADVISORY  READ 13309 fe:00:10141827 0 EOF\n\
            lock:\t2: OFDLCK ADVISORY  READ -1 fe:00:10141827 0 0\n";
        let locks = fdinfo(of_log).locks;
        let seen: Vec<_> = locks.iter().map(|lock| (lock.class, lock.pid, lock.last)).collect();
        assert_eq!(seen, [(Class::Flock, Some(13309), u64::MAX), (Class::OpenFile, None, 0)]);
        assert_eq!(fdinfo("garbage\nlock:\tx\n"), FdInfo::default());
    }

    #[test]
    fn a_mount_has_the_device_that_is_in_the_lists() {
        let mounts = "27 1 254:0 / / rw,relatime - ext4 /dev/root rw\n\
            270 27 0:47 / /mnt/b rw shared:9 - btrfs /dev/loop0 rw,subvol=/\n";
        assert_eq!(device_of_mount(mounts, 27), Some((254, 0)));
        assert_eq!(device_of_mount(mounts, 270), Some((0, 47)));
        assert_eq!(device_of_mount(mounts, 2), None);
    }
}
