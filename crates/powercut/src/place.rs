//! A state of the disk as a mounted file system: a file in memory, a loop device of its own, and a
//! mount that only this process sees.
//!
//! A loop device may show what another file had in its place. So each state has a stamp behind its
//! file system, and the device must show it.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use oneflush_bench::place::{LoopDevice, PlaceError};
use oneflush_crashlab::Content;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use crate::layout::SECTOR_BYTES;

/// Where the guest has its file system, and the states have theirs. A super-journal holds the full
/// paths of its journals.
pub const MOUNT_POINT: &str = "/mnt";

/// States are in memory.
const MEMORY: &str = "/dev/shm";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileSystem {
    Ext4,
    Xfs,
    Btrfs,
}

impl FileSystem {
    pub const ALL: [FileSystem; 3] = [FileSystem::Ext4, FileSystem::Xfs, FileSystem::Btrfs];

    pub fn name(self) -> &'static str {
        match self {
            FileSystem::Ext4 => "ext4",
            FileSystem::Xfs => "xfs",
            FileSystem::Btrfs => "btrfs",
        }
    }

    /// XFS refuses a second file system with the same identity, as another run of this may have.
    fn mount_options(self) -> Option<&'static std::ffi::CStr> {
        match self {
            FileSystem::Xfs => Some(c"nouuid"),
            FileSystem::Ext4 | FileSystem::Btrfs => None,
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum StateError {
    #[error("{MEMORY}: {0}")]
    File(#[from] io::Error),
    #[error(transparent)]
    Loop(#[from] PlaceError),
    #[error("{device} shows what another file has")]
    Stale { device: String },
    #[error("the file system does not mount: {0}")]
    Mount(rustix::io::Errno),
}

/// A mounted state. It goes when this is dropped.
pub struct MountedState(());

impl MountedState {
    pub fn mount(
        partition: &Content,
        fs: FileSystem,
        stamp: u64,
    ) -> Result<MountedState, StateError> {
        let file = tempfile::tempfile_in(MEMORY)?;
        write(&file, partition, stamp)?;
        let device = LoopDevice::attach(file)?;
        let mut shown = [0; SECTOR_BYTES as usize];
        let end = partition.size() - SECTOR_BYTES;
        File::open(device.path())?.read_exact_at(&mut shown, end)?;
        if shown != block_of(stamp) {
            return Err(StateError::Stale { device: device.path().display().to_string() });
        }
        mount(device.path(), MOUNT_POINT, fs.name(), MountFlags::empty(), fs.mount_options())
            .map_err(StateError::Mount)?;
        Ok(MountedState(()))
    }

    pub fn path(&self) -> &'static Path {
        Path::new(MOUNT_POINT)
    }

    /// Takes it away, and says if that failed.
    pub fn unmount(self) -> Result<(), String> {
        let result = unmount(MOUNT_POINT, UnmountFlags::empty());
        if result.is_ok() {
            std::mem::forget(self);
        }
        result.map_err(|errno| format!("{MOUNT_POINT} cannot be unmounted: {errno}"))
    }
}

impl Drop for MountedState {
    fn drop(&mut self) {
        let _ = unmount(MOUNT_POINT, UnmountFlags::DETACH);
    }
}

/// Writes a partition with its stamp to a file that is empty.
pub fn write(file: &File, partition: &Content, stamp: u64) -> io::Result<()> {
    file.set_len(partition.size())?;
    for (offset, bytes) in partition.pieces() {
        file.write_all_at(bytes, offset)?;
    }
    file.write_all_at(&block_of(stamp), partition.size() - SECTOR_BYTES)
}

fn block_of(stamp: u64) -> [u8; SECTOR_BYTES as usize] {
    let mut block = [0x5a; SECTOR_BYTES as usize];
    block[..8].copy_from_slice(&stamp.to_le_bytes());
    block
}
