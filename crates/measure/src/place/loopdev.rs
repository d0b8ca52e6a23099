//! A loop device over a file without a name.
//!
//! LOOP_CONFIGURE sets file and flags in one step, which losetup(8) does not. The device never
//! exists without autoclear, so a SIGKILL cannot leak it.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use oneflush_blocklog::AlignedBuffer;

use super::PlaceError;
use crate::interrupt;

// linux/loop.h
const LOOP_CTL_GET_FREE: libc::Ioctl = 0x4C82;
const LOOP_CONFIGURE: libc::Ioctl = 0x4C0A;
const LO_FLAGS_AUTOCLEAR: u32 = 4;
const LO_FLAGS_DIRECT_IO: u32 = 16;

#[repr(C)]
struct LoopInfo64 {
    device: u64,
    inode: u64,
    rdevice: u64,
    offset: u64,
    sizelimit: u64,
    number: u32,
    encrypt_type: u32,
    encrypt_key_size: u32,
    flags: u32,
    file_name: [u8; 64],
    crypt_name: [u8; 64],
    encrypt_key: [u8; 32],
    init: [u64; 2],
}

#[repr(C)]
struct LoopConfig {
    fd: u32,
    block_size: u32,
    info: LoopInfo64,
    reserved: [u64; 8],
}

const _: () = assert!(size_of::<LoopInfo64>() == 232);
const _: () = assert!(size_of::<LoopConfig>() == 304);

/// Another process may take the device that LOOP_CTL_GET_FREE named; then we ask again.
const ATTEMPTS: u32 = 64;

/// Zeros are written for at most this long; the rest of the file stays sparse.
const FILL_TIME_MAX: Duration = Duration::from_secs(5);
const FILL_CHUNK_BYTES: usize = 4 << 20;

/// Held open by us until the file system is mounted, then by the mount; the last one clears it.
#[derive(Debug)]
pub struct LoopDevice {
    path: PathBuf,
    name: String,
    major: u32,
    minor: u32,
    direct_io: bool,
    _held: OwnedFd,
}

impl LoopDevice {
    /// Attaches a file to a free device, which ends with the last that has it open or mounted.
    pub fn attach(backing: File) -> Result<LoopDevice, PlaceError> {
        let failed = |step: &str, reason| PlaceError::Loop { step: step.to_owned(), reason };
        let control = OpenOptions::new()
            .read(true)
            .write(true)
            .open("/dev/loop-control")
            .map_err(|reason| failed("/dev/loop-control; modprobe loop", reason))?;
        for _ in 0..ATTEMPTS {
            // SAFETY: the call takes no argument and returns a number.
            let number = unsafe { libc::ioctl(control.as_raw_fd(), LOOP_CTL_GET_FREE) };
            if number < 0 {
                return Err(failed("LOOP_CTL_GET_FREE", io::Error::last_os_error()));
            }
            let path = PathBuf::from(format!("/dev/loop{number}"));
            let device = match OpenOptions::new().read(true).write(true).open(&path) {
                Ok(device) => device,
                Err(reason) => return Err(failed(&path.display().to_string(), reason)),
            };
            match configure(&device, &backing) {
                Ok(()) => return LoopDevice::describe(path, device),
                Err(reason) if reason.raw_os_error() == Some(libc::EBUSY) => continue,
                Err(reason) => return Err(failed("LOOP_CONFIGURE", reason)),
            }
        }
        Err(failed("no free device", io::Error::from_raw_os_error(libc::EBUSY)))
    }

    fn describe(path: PathBuf, device: File) -> Result<LoopDevice, PlaceError> {
        let failed = |reason| PlaceError::Loop { step: path.display().to_string(), reason };
        let rdev = device.metadata().map_err(failed)?.rdev();
        let name =
            path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        // The kernel falls back to buffered I/O without an error.
        let direct_io = fs::read_to_string(format!("/sys/block/{name}/loop/dio"))
            .is_ok_and(|text| text.trim() == "1");
        Ok(LoopDevice {
            name,
            major: rustix::fs::major(rdev),
            minor: rustix::fs::minor(rdev),
            direct_io,
            _held: device.into(),
            path,
        })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
    pub(super) fn name(&self) -> &str {
        &self.name
    }
    pub(super) fn major(&self) -> u32 {
        self.major
    }
    pub(super) fn minor(&self) -> u32 {
        self.minor
    }
    pub(super) fn direct_io(&self) -> bool {
        self.direct_io
    }
}

fn configure(device: &File, backing: &File) -> io::Result<()> {
    let config = LoopConfig {
        fd: backing.as_raw_fd() as u32,
        block_size: 0,
        info: LoopInfo64 {
            device: 0,
            inode: 0,
            rdevice: 0,
            offset: 0,
            sizelimit: 0,
            number: 0,
            encrypt_type: 0,
            encrypt_key_size: 0,
            flags: LO_FLAGS_AUTOCLEAR | LO_FLAGS_DIRECT_IO,
            file_name: [0; 64],
            crypt_name: [0; 64],
            encrypt_key: [0; 32],
            init: [0; 2],
        },
        reserved: [0; 8],
    };
    // SAFETY: both descriptors are open during the call. `config` is the struct that LOOP_CONFIGURE
    // reads.
    let result = unsafe { libc::ioctl(device.as_raw_fd(), LOOP_CONFIGURE, &raw const config) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// A file without a name, of `size_bytes`, filled with zeros so that the file system below does not
/// allocate (and journal) during the run.
pub(super) fn backing_file(size_bytes: u64) -> Result<File, PlaceError> {
    let dir = folder();
    let failed = |reason| PlaceError::Backing { dir: dir.clone(), size_bytes, reason };
    let free = rustix::fs::statvfs(&dir).map_err(|errno| failed(errno.into()))?;
    if free.f_bavail.saturating_mul(free.f_frsize) < size_bytes {
        // A sparse file would be made, and its loop device would fail in the middle of a run.
        return Err(failed(io::ErrorKind::StorageFull.into()));
    }
    let file = tempfile::tempfile_in(&dir).map_err(failed)?;
    file.set_len(size_bytes).map_err(failed)?;
    fill(&file, size_bytes).map_err(failed)?;
    Ok(file)
}

/// A tmpfs has no storage to measure; /var/tmp is the one that survives a reboot, so it has.
fn folder() -> PathBuf {
    let temp = std::env::temp_dir();
    if is_tmpfs(&temp) && !is_tmpfs(Path::new("/var/tmp")) {
        PathBuf::from("/var/tmp")
    } else {
        temp
    }
}

/// Sparse, for an image whose speed does not matter.
#[cfg(feature = "flash")]
pub(super) fn nameless_file() -> io::Result<File> {
    tempfile::tempfile_in(folder())
}

fn is_tmpfs(dir: &Path) -> bool {
    const TMPFS_MAGIC: rustix::fs::FsWord = 0x0102_1994;
    rustix::fs::statfs(dir).is_ok_and(|stat| stat.f_type == TMPFS_MAGIC)
}

fn fill(file: &File, size_bytes: u64) -> io::Result<()> {
    // A second descriptor of the same file, so that direct I/O keeps the zeros out of the page
    // cache.
    let direct = OpenOptions::new()
        .write(true)
        .custom_flags(libc::O_DIRECT)
        .open(format!("/proc/self/fd/{}", file.as_raw_fd()));
    let writer = direct.as_ref().unwrap_or(file);
    let zeros = AlignedBuffer::zeroed(FILL_CHUNK_BYTES);
    let started = Instant::now();
    let mut offset = 0;
    while offset < size_bytes && started.elapsed() < FILL_TIME_MAX && !interrupt::requested() {
        let length = (size_bytes - offset).min(FILL_CHUNK_BYTES as u64) as usize;
        match writer.write_at(&zeros[..length], offset) {
            Ok(written) => offset += written as u64,
            // A size that is no multiple of the block: the tail stays sparse.
            Err(reason) if reason.raw_os_error() == Some(libc::EINVAL) => break,
            Err(reason) => return Err(reason),
        }
    }
    file.sync_all()
}
