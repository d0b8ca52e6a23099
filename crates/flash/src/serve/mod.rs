//! The device as a block device, in real time.
//!
//! The kernel takes block devices from programs by ublk or NBD. Where it has neither, a FUSE file
//! system and a loop device do:
//!
//! ```text
//! file system ──▶ loop device, direct I/O ──▶ FUSE, file "disk" ──▶ Device ──▶ image
//!   write                write                   FUSE_WRITE            Write
//!   flush                fsync                   FUSE_FSYNC            Flush
//!   FUA                  write, then fsync       both                  both
//!   discard              punch a hole            FUSE_FALLOCATE        Trim
//! ```
//!
//! One thread takes the requests. It asks the model, under one lock, and moves the bytes at once.
//! The answer waits until the model says that it is done; so several requests may be in flight. The
//! time of a request is when it is taken from the kernel. Where the path is slower than the model,
//! the answer is late, and [`Late`] says how often and by how much.
//!
//! The file "counters" has the counters as JSON, as of the moment when it was opened.

mod answers;
mod disk;
mod file_system;
mod options;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use fuser::{Config, MountOption};

use crate::device::{Device, DeviceError};
use crate::nand::Store;
use answers::Answers;
pub use answers::Late;
use disk::Disk;
pub use disk::Report;
use file_system::FileSystem;
pub use options::{Options, Precondition};

#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error(transparent)]
    Device(#[from] DeviceError),
    #[error(
        "{at}: cannot mount the device here: {reason}; it needs root and /dev/fuse",
        at = at.display()
    )]
    Mount { at: PathBuf, reason: io::Error },
    #[error("cannot start the thread that answers: {0}")]
    Thread(io::Error),
}

/// Mounts the device and serves it until it is unmounted. `backing` becomes the image of the array.
///
/// It is there as soon as the file "disk" is. The calling thread and those that it starts later are
/// marked as I/O flushers, if the process may do that.
pub fn serve(mountpoint: &Path, options: Options, backing: File) -> Result<(), ServeError> {
    // The kernel may want to write dirty pages of the file systems above us to free memory. If it
    // did so to give us memory, it would wait for ourselves.
    let is_io_flusher = rustix::process::configure_io_flusher_behavior(true).is_ok();
    let mut device = Device::new(options.model, options.logical_bytes, Store::File(backing))?;
    if let Some(Precondition { share, overwrites }) = options.precondition {
        device.precondition(share, overwrites, options.seed)?;
    }
    let answers = Answers::start().map_err(ServeError::Thread)?;
    let disk = Disk::new(device, answers, is_io_flusher);
    let file_system = FileSystem::new(disk, options);
    let mut config = Config::default();
    config.mount_options = vec![MountOption::FSName("oneflush-flash".to_owned())];
    fuser::mount(file_system, mountpoint, &config)
        .map_err(|reason| ServeError::Mount { at: mountpoint.to_owned(), reason })
}
