//! A state of the disk as a mounted file system.
//!
//! | on | the state is | for |
//! |---|---|---|
//! | a loop device of its own | a file in memory | a host whose kernel has the file system |
//! | a block device that all states share | written to it | a guest whose kernel has it |
//!
//! A device may show what another state had in its place. So each state has a stamp behind its file
//! system, and the device must show it.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use oneflush_bench::guest::GuestFs;
use oneflush_crashlab::Content;
use oneflush_measure::place::{LoopDevice, PlaceError};
use rustix::fs::{FallocateFlags, MemfdFlags, memfd_create};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use crate::layout::SECTOR_BYTES;
use crate::states::Kind;

/// Where the guest has its file system, and the states have theirs. A super-journal holds the full
/// paths of its journals.
pub const MOUNT_POINT: &str = "/mnt";

/// The name of a state's file, which has no path.
const IN_MEMORY: &str = "powercut-state";

/// What a loss of power can do to a file system. F2FS is for devices that write its blocks of 4 KiB
/// whole: its nodes have no checksum. Torn at 512 bytes, they are other nodes, and files do not
/// open.
pub fn kinds(fs: GuestFs) -> &'static [Kind] {
    match fs {
        GuestFs::F2fs => &Kind::ALL[..Kind::ALL.len() - 1],
        GuestFs::Ext4 | GuestFs::Xfs | GuestFs::Btrfs => &Kind::ALL,
    }
}

/// XFS refuses a second file system with the same identity, as another run of this may have.
fn mount_options(fs: GuestFs) -> Option<&'static std::ffi::CStr> {
    match fs {
        GuestFs::Xfs => Some(c"nouuid"),
        GuestFs::Ext4 | GuestFs::Btrfs | GuestFs::F2fs => None,
    }
}

#[derive(Debug, thiserror::Error)]
pub enum StateError {
    #[error("{path}: {reason}")]
    File { path: String, reason: io::Error },
    #[error(transparent)]
    Loop(#[from] PlaceError),
    #[error("{device} shows what another state had")]
    Stale { device: String },
    #[error("the file system does not mount: {0}")]
    Mount(rustix::io::Errno),
}

/// A mounted state. It goes when this is dropped.
pub struct MountedState(());

impl MountedState {
    /// `device`: the one that all states share. `None`: a loop device.
    pub fn mount(
        partition: &Content,
        fs: GuestFs,
        device: Option<&PathBuf>,
        stamp: u64,
    ) -> Result<MountedState, StateError> {
        match device {
            Some(device) => {
                fill(device, partition, stamp)
                    .map_err(|reason| StateError::File { path: named(device), reason })?;
                MountedState::of(device, fs, partition.size(), stamp)
            }
            None => {
                let failed = |reason| StateError::File { path: IN_MEMORY.to_owned(), reason };
                let file = memfd_create(IN_MEMORY, MemfdFlags::CLOEXEC)
                    .map_err(|errno| failed(errno.into()))?
                    .into();
                write(&file, partition, stamp).map_err(failed)?;
                // From here on the mount holds the device.
                let device = LoopDevice::attach(file)?;
                MountedState::of(device.path(), fs, partition.size(), stamp)
            }
        }
    }

    fn of(
        device: &Path,
        fs: GuestFs,
        size_bytes: u64,
        stamp: u64,
    ) -> Result<MountedState, StateError> {
        let mut shown = [0; SECTOR_BYTES as usize];
        File::open(device)
            .and_then(|file| file.read_exact_at(&mut shown, size_bytes - SECTOR_BYTES))
            .map_err(|reason| StateError::File { path: named(device), reason })?;
        if shown != block_of(stamp) {
            return Err(StateError::Stale { device: named(device) });
        }
        mount(device, MOUNT_POINT, fs.name(), MountFlags::empty(), mount_options(fs))
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

fn named(path: &Path) -> String {
    path.display().to_string()
}

/// Writes a partition with its stamp to a device that another state was on.
fn fill(device: &Path, partition: &Content, stamp: u64) -> io::Result<()> {
    let file = OpenOptions::new().write(true).open(device)?;
    let flags = FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE;
    rustix::fs::fallocate(&file, flags, 0, partition.size())?;
    write_pieces(&file, partition, stamp)?;
    file.sync_all()
}

/// Writes a partition with its stamp to a file that is empty.
pub fn write(file: &File, partition: &Content, stamp: u64) -> io::Result<()> {
    file.set_len(partition.size())?;
    write_pieces(file, partition, stamp)
}

fn write_pieces(file: &File, partition: &Content, stamp: u64) -> io::Result<()> {
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
