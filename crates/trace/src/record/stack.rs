//! Which devices a device lies on, as the kernel knows it now.
//!
//! - The device mapper, md and bcache name theirs in `/sys/block/*/slaves`.
//! - A loop device lies on the device of the file system that its file is on. `LOOP_GET_STATUS64`
//!   says the number, also of a file that has no name any more.

use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use crate::kernel::MountInfo;

/// `linux/loop.h`.
const LOOP_GET_STATUS64: libc::Ioctl = 0x4C05;
/// `struct loop_info64`. Its first fields are the numbers of the file's device and of its inode.
const LOOP_INFO64_WORDS: usize = 29;

type Number = (u32, u32);

/// Where a loop device's file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Backing {
    /// The device of the file system that the file is on.
    pub(super) device: Number,
    pub(super) inode: u64,
}

/// The devices to which a whole disk hands its requests on.
pub(super) fn mapped(disk: Number) -> Vec<Number> {
    let slaves = fs::read_dir(node(disk).join("slaves")).into_iter().flatten().flatten();
    let mut mapped: Vec<Number> =
        slaves.filter_map(|slave| number(&slave.path().join("dev"))).collect();
    mapped.sort_unstable();
    mapped
}

/// The disk hands its requests on to others.
pub(super) fn is_mapped(disk: Number) -> bool {
    !mapped(disk).is_empty()
}

/// The folder in which sysfs tells of a disk or partition.
pub(super) fn node((major, minor): Number) -> PathBuf {
    PathBuf::from(format!("/sys/dev/block/{major}:{minor}"))
}

/// `file`: sysfs's `dev`.
pub(super) fn number(file: &Path) -> Option<Number> {
    let text = fs::read_to_string(file).ok()?;
    let (major, minor) = text.trim().split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// `None` if the disk is no loop device, or its file is on no device.
pub(super) fn backing(disk: Number) -> Option<Backing> {
    let node = node(disk);
    let file = fs::read_to_string(node.join("loop/backing_file")).ok()?;
    let name = fs::canonicalize(node).ok()?.file_name()?.to_owned();
    let device = File::open(Path::new("/dev").join(name)).ok()?;
    let mut info = [0u64; LOOP_INFO64_WORDS];
    // SAFETY: the descriptor is open during the call. `info` is as long as the `struct loop_info64`
    // that the call fills.
    let result = unsafe { libc::ioctl(device.as_raw_fd(), LOOP_GET_STATUS64, info.as_mut_ptr()) };
    if result < 0 {
        return None;
    }
    let [device, inode, ..] = info;
    let device = match (rustix::fs::major(device), rustix::fs::minor(device)) {
        // btrfs gives its files a number of no device; tmpfs and overlay have none.
        (0, _) => MountInfo::of(Path::new(file.trim_end())).ok()?.device()?,
        number => number,
    };
    Some(Backing { device, inode })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_that_is_not_there_lies_on_nothing() {
        assert_eq!((mapped((4095, 1_048_575)), backing((4095, 1_048_575))), (Vec::new(), None));
        assert!(!is_mapped((4095, 1_048_575)));
    }
}
