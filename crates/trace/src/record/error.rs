//! Why nothing can be recorded; each message says what and the way out.

use std::io;
use std::path::PathBuf;

use crate::kernel::KernelError;

#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    #[error("recording block I/O needs root (tracefs): run it with sudo")]
    NotRoot,

    #[error(
        "recording block I/O needs CAP_SYS_ADMIN (tracefs, mounts, fanotify), which this root has \
            not: a container? \
         Run it outside, or start the container with --cap-add SYS_ADMIN or --privileged"
    )]
    NotCapable,

    #[error("--dev {}: {reason}; name a block device, such as /dev/sda or sda1 (lsblk lists \
        them)", device.display())]
    Device { device: PathBuf, reason: String },

    #[error("--dir {}: {reason}; name an existing directory on a file system of a block \
        device", dir.display())]
    Directory { dir: PathBuf, reason: String },

    #[error("{} is on {file_system}, which has no block device of its own; name the device with \
        --dev DEV", dir.display())]
    NoDevice { dir: PathBuf, file_system: String },

    #[error("{one}; {other}: two subvolumes of one btrfs; record each by itself")]
    Subvolumes { one: String, other: String },

    #[error("--pid {pid}: no such process")]
    NoProcess { pid: u32 },

    #[error("cannot write the recording: {0}")]
    Output(io::Error),

    #[error(transparent)]
    Kernel(#[from] KernelError),
}
