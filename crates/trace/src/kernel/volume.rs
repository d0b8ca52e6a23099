//! A block device and the file system on it, by name and number.

use std::fs::File;
use std::path::PathBuf;

/// A file system, as far as it makes a difference here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileSystem {
    Ext4,
    Xfs,
    Btrfs,
    F2fs,
    Other,
}

impl FileSystem {
    /// By the name that mount(2) knows.
    pub fn named(name: &str) -> FileSystem {
        match name {
            "ext4" => FileSystem::Ext4,
            "xfs" => FileSystem::Xfs,
            "btrfs" => FileSystem::Btrfs,
            "f2fs" => FileSystem::F2fs,
            _ => FileSystem::Other,
        }
    }
}

/// A block device and the file system on it.
#[derive(Clone, Debug)]
pub struct Volume {
    /// As in `/dev`: `loop0`, `sda1`.
    pub name: String,
    /// The number of the disk, in which requests are counted. `partition` is the partition's own
    /// number.
    pub disk: (u32, u32),
    pub partition: Option<(u32, u32)>,
    /// Where the partition begins on the disk; 0 for a whole disk.
    pub start_bytes: u64,
    pub file_system: FileSystem,
    pub mount_point: PathBuf,
    /// The device number that the file system's inodes carry. At btrfs it is not the device's.
    pub inode_dev: (u32, u32),
}

impl Volume {
    pub(super) fn path(&self) -> PathBuf {
        PathBuf::from(format!("/dev/{}", self.name))
    }

    /// A container may see a device and not be allowed to open it.
    pub(crate) fn is_readable(&self) -> bool {
        File::open(self.path()).is_ok()
    }
}
