//! What can go wrong while a place is made or taken away; each message ends with the way out.

use std::io;
use std::path::PathBuf;

use super::FsKind;

#[derive(Debug, thiserror::Error)]
pub enum PlaceError {
    #[error("unknown file system {word:?}: use one of ext4, xfs, btrfs, ext4-fast-commit")]
    UnknownFs { word: String },

    #[error(
        "--fs {fs} makes a scratch file system and needs root: run it with sudo, or measure in a \
            directory with --dir DIR"
    )]
    NotRoot { fs: FsKind },

    #[error(
        "cannot make a mount namespace of our own ({reason}): it needs the capability \
            CAP_SYS_ADMIN; \
         measure in a directory with --dir DIR"
    )]
    Namespace { reason: io::Error },

    #[error("--size {size_bytes} bytes is too small for {fs}: use at least {least}")]
    TooSmall { fs: FsKind, size_bytes: u64, least: &'static str },

    #[error("{tool} not found; install {package}")]
    NoTool { tool: &'static str, package: &'static str },

    #[error("{tool} failed: {message}")]
    Mkfs { tool: &'static str, message: String },

    #[error("cannot make the scratch file of {size_bytes} bytes in {}: {reason}; set TMPDIR to a \
        directory with more space, or give a smaller --size", dir.display())]
    Backing { dir: PathBuf, size_bytes: u64, reason: io::Error },

    #[error(
        "cannot set up a loop device ({step}): {reason}; measure in a directory with --dir DIR"
    )]
    Loop { step: String, reason: io::Error },

    #[error("cannot mount {fs} from {}: {reason}; does this kernel have {fs}? (modprobe \
        {fs})", device.display())]
    Mount { fs: FsKind, device: PathBuf, reason: io::Error },

    #[error("cannot work in {}: {reason}; give an existing, writable directory with --dir \
        DIR", dir.display())]
    Directory { dir: PathBuf, reason: io::Error },

    #[error(
        "--device {preset}: the emulated device cannot be made: {message}; leave --device out \
            for a loop device on a file"
    )]
    Flash { preset: &'static str, message: String },

    #[error("oneflush mount, for modes that are mounted: {message}")]
    OneflushMount { message: String },

    #[error("cannot take {} away: {reason}", path.display())]
    TakeAway { path: PathBuf, reason: io::Error },
}
