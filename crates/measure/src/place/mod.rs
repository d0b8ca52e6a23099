//! Where a run happens: a scratch file system of our own, or a directory.
//!
//! A scratch place is a file without a name → a loop device (direct I/O, autoclear) → a file system
//! → a mount in a private mount namespace. Each of them is held only by the next. When the last
//! process of the run is gone, however it ended, the kernel drops the whole chain.
//!
//! A directory may have its disk to itself ([`Place::alone`]), as in a guest. Then the disk is
//! counted, too.
//!
//! The kernel does not drop an empty directory to mount on, or the subdirectory of a run with
//! `--dir`. `Drop` removes these or, if the process is killed, a [`Guard`].
//!
//! `Place` is taken away in this order: unmount, (the loop device clears itself), the emulated
//! flash device if there is one, directory.
//!
//! A directory of a place may be mounted by `oneflush mount` meanwhile ([`Mounted`]).

mod error;
#[cfg_attr(not(feature = "flash"), path = "no_flash.rs")]
pub mod flash;
mod flash_counts;
mod fs_kind;
mod loopdev;
mod mkfs;
mod mounted;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use oneflush_trace::kernel::Guard;
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use serde::Serialize;

pub use error::PlaceError;
pub use flash::{FlashDevice, FlashKind};
pub use flash_counts::FlashCounts;
pub use fs_kind::FsKind;
pub use loopdev::LoopDevice;
pub use mounted::Mounted;

use oneflush_trace::kernel::MountInfo;

/// Moves the calling thread into a private mount namespace, once; see
/// [`oneflush_trace::kernel::enter_private_namespace`].
pub fn enter_private_namespace() -> Result<(), PlaceError> {
    oneflush_trace::kernel::enter_private_namespace()
        .map_err(|reason| PlaceError::Namespace { reason })
}

/// Prefix of everything that is made in a directory, so that a user knows whose it is.
const NAME_PREFIX: &str = "oneflush-";

/// What is below a scratch file system.
#[derive(Clone, Debug)]
pub enum Storage {
    /// A loop device on a file.
    File,
    /// The same on an emulated flash device. `program` is the program `oneflush`, which serves it.
    Flash { kind: FlashKind, program: PathBuf },
}

impl FromStr for FsKind {
    type Err = PlaceError;

    fn from_str(word: &str) -> Result<FsKind, PlaceError> {
        FsKind::ALL
            .into_iter()
            .find(|fs| fs.name() == word)
            .ok_or_else(|| PlaceError::UnknownFs { word: word.to_owned() })
    }
}

/// A block device that carries nothing but this run, so that all its I/O is ours.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Device {
    /// As in `/sys/block`: `loop0`.
    pub name: String,
    pub major: u32,
    pub minor: u32,
    pub fs: FsKind,
    pub size_bytes: u64,
    /// Whether the loop device reads and writes its backing file with direct I/O.
    pub direct_io: bool,
}

/// A place for databases; everything it made is taken away when it is dropped or closed.
#[derive(Debug)]
pub struct Place {
    path: PathBuf,
    device: Option<Device>,
    /// Nothing else uses the disk.
    is_alone: bool,
    description: String,
    mounted: bool,
    /// Below the loop device.
    flash: Option<FlashDevice>,
    /// `None`: the place is taken away.
    guard: Option<Guard>,
}

impl Place {
    /// A scratch file system on a loop device, seen only by this process and its children. Root
    /// only.
    ///
    /// Call [`enter_private_namespace`] first, while the process has one thread. Threads that run
    /// before that call do not see the place.
    pub fn scratch(fs: FsKind, size_bytes: u64) -> Result<Place, PlaceError> {
        Place::scratch_on(&Storage::File, fs, size_bytes)
    }

    /// The same on an emulated flash device.
    pub fn scratch_on(storage: &Storage, fs: FsKind, size_bytes: u64) -> Result<Place, PlaceError> {
        if !rustix::process::geteuid().is_root() {
            return Err(PlaceError::NotRoot { fs });
        }
        mkfs::check(fs, size_bytes)?;
        enter_private_namespace()?;
        // It is taken away behind the file system, also on an early return.
        let (flash, backing) = match storage {
            Storage::File => (None, loopdev::backing_file(size_bytes)?),
            Storage::Flash { kind, program } => {
                let flash = FlashDevice::begin(*kind, program, size_bytes)?;
                let disk = flash.open().map_err(|error| PlaceError::Flash {
                    preset: kind.name(),
                    message: error.to_string(),
                })?;
                (Some(flash), disk)
            }
        };
        let device = LoopDevice::attach(backing)?;
        mkfs::run(fs, device.path())?;

        // From here on `place` cleans up, also on an early return.
        let mut place = Place::fresh(&std::env::temp_dir())?;
        place.is_alone = true;
        place.flash = flash;
        // btrfs discards by default, and each discard punches a hole into the backing file.
        let options = (fs == FsKind::Btrfs).then_some(c"nodiscard");
        mount(device.path(), &place.path, fs.kernel_name(), MountFlags::empty(), options).map_err(
            |errno| PlaceError::Mount {
                fs,
                device: device.path().to_owned(),
                reason: errno.into(),
            },
        )?;
        place.mounted = true;
        let below = match storage {
            Storage::File => "loop device".to_owned(),
            Storage::Flash { kind, .. } => format!("emulated flash device ({kind})"),
        };
        place.description = format!(
            "{fs} on a {} {below}, {}",
            size_text(size_bytes),
            if device.direct_io() {
                "direct I/O"
            } else {
                "buffered I/O (the backing file refuses direct I/O)"
            },
        );
        place.device = Some(Device {
            name: device.name().to_owned(),
            major: device.major(),
            minor: device.minor(),
            fs,
            size_bytes,
            direct_io: device.direct_io(),
        });
        // The mount holds the device now; dropping ours lets autoclear free it with the mount.
        drop(device);
        Ok(place)
    }

    /// A fresh subdirectory of `dir`, which must exist and be writable. It is removed again with
    /// its contents.
    pub fn directory(dir: &Path) -> Result<Place, PlaceError> {
        let metadata = fs::metadata(dir)
            .map_err(|reason| PlaceError::Directory { dir: dir.to_owned(), reason })?;
        if !metadata.is_dir() {
            return Err(PlaceError::Directory {
                dir: dir.to_owned(),
                reason: Errno::NOTDIR.into(),
            });
        }
        // SQLite and the workers need a path that means the same after a chdir.
        let dir = fs::canonicalize(dir)
            .map_err(|reason| PlaceError::Directory { dir: dir.to_owned(), reason })?;
        let mut place = Place::fresh(&dir)?;
        let on = match MountInfo::of(&place.path) {
            Ok(info) => format!(" on {}", info.fs),
            Err(_) => String::new(),
        };
        place.description = format!("directory {}{on}", dir.display());
        Ok(place)
    }

    /// A fresh subdirectory of `parent`, not described yet.
    fn fresh(parent: &Path) -> Result<Place, PlaceError> {
        let (path, guard) = fresh_directory(parent)?;
        Ok(Place {
            path,
            device: None,
            is_alone: false,
            description: String::new(),
            mounted: false,
            flash: None,
            guard: Some(guard),
        })
    }

    /// The same on a disk that nothing else uses, so that what reaches the disk is this run's.
    pub fn alone(dir: &Path) -> Result<Place, PlaceError> {
        let mut place = Place::directory(dir)?;
        place.is_alone = true;
        Ok(place)
    }

    /// A directory in the system's temporary directory: for who is not root and asked for nothing.
    pub fn temporary() -> Result<Place, PlaceError> {
        Place::directory(&std::env::temp_dir())
    }

    /// Where databases are made.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The device, if it is our own.
    pub fn device(&self) -> Option<&Device> {
        self.device.as_ref()
    }

    /// The emulated flash device below it.
    pub fn flash(&self) -> Option<&FlashDevice> {
        self.flash.as_ref()
    }

    /// Whether all that reaches the disk is this run's.
    pub fn is_alone(&self) -> bool {
        self.is_alone
    }

    /// For a headline: "ext4 on a 1 GiB loop device, direct I/O".
    pub fn describe(&self) -> String {
        self.description.clone()
    }

    /// Takes everything away and says if that failed; `Drop` does the same in silence.
    pub fn close(mut self) -> Result<(), PlaceError> {
        self.take_away()
    }

    fn take_away(&mut self) -> Result<(), PlaceError> {
        let Some(guard) = self.guard.take() else { return Ok(()) };
        let mut result = Ok(());
        if self.mounted {
            // A thread that has a file open keeps the file system alive. A detached one goes with
            // that thread.
            result = unmount(&self.path, UnmountFlags::empty())
                .or_else(|_| unmount(&self.path, UnmountFlags::DETACH))
                .map_err(|errno| PlaceError::TakeAway {
                    path: self.path.clone(),
                    reason: errno.into(),
                });
        }
        if let Some(mut flash) = self.flash.take() {
            result = result.and(flash.take_away());
        }
        // A file system that is still mounted is never descended into. An error there is better
        // than surprises.
        let removed =
            if self.mounted { fs::remove_dir(&self.path) } else { fs::remove_dir_all(&self.path) };
        match removed {
            Err(reason) if reason.kind() != io::ErrorKind::NotFound => {
                result = result.and(Err(PlaceError::TakeAway { path: self.path.clone(), reason }));
            }
            _ => {}
        }
        guard.dismiss();
        result
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // Nobody is left to tell; the guard tries once more.
        let _ = self.take_away();
    }
}

/// Makes `parent/oneflush-XXXXXX`, mode 0700. A guard removes it if this process is killed.
fn fresh_directory(parent: &Path) -> Result<(PathBuf, Guard), PlaceError> {
    let at = |reason| PlaceError::Directory { dir: parent.to_owned(), reason };
    let made = tempfile::Builder::new().prefix(NAME_PREFIX).tempdir_in(parent).map_err(at)?;
    let guard = Guard::of_directory(made.path()).map_err(at)?;
    Ok((made.keep(), guard))
}

/// "1 GiB", "512 MiB", "1234567 bytes".
fn size_text(bytes: u64) -> String {
    const GIB: u64 = 1 << 30;
    const MIB: u64 = 1 << 20;
    if bytes >= GIB && bytes.is_multiple_of(GIB) {
        format!("{} GiB", bytes / GIB)
    } else if bytes.is_multiple_of(MIB) {
        format!("{} MiB", bytes / MIB)
    } else {
        format!("{bytes} bytes")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fs_kind_reads_what_it_prints() {
        for fs in FsKind::ALL {
            assert_eq!(fs.to_string().parse::<FsKind>().unwrap(), fs);
        }
        let message = "zfs".parse::<FsKind>().unwrap_err().to_string();
        assert!(message.contains("zfs") && message.contains("ext4, xfs, btrfs"), "{message}");
    }

    #[test]
    fn sizes_are_said_in_the_largest_whole_unit() {
        assert_eq!(size_text(1 << 30), "1 GiB");
        assert_eq!(size_text(1536 << 20), "1536 MiB");
        assert_eq!(size_text(1000), "1000 bytes");
    }

    #[test]
    fn directory_place_is_removed_with_its_contents() {
        let parent = tempfile::tempdir().unwrap();
        let place = Place::directory(parent.path()).unwrap();
        assert!(place.path().starts_with(fs::canonicalize(parent.path()).unwrap()));
        fs::create_dir(place.path().join("d")).unwrap();
        fs::write(place.path().join("d/f"), b"x").unwrap();
        place.close().unwrap();
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
    }

    #[test]
    fn directory_place_is_removed_after_a_panic() {
        let parent = tempfile::tempdir().unwrap();
        let dir = parent.path().to_owned();
        let thread = std::thread::spawn(move || {
            let _place = Place::directory(&dir).unwrap();
            std::panic::resume_unwind(Box::new("on purpose"));
        });
        assert!(thread.join().is_err());
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
    }

    #[test]
    fn missing_directory_and_file_are_refused_by_name() {
        let parent = tempfile::tempdir().unwrap();
        let missing = parent.path().join("missing");
        let message = Place::directory(&missing).unwrap_err().to_string();
        assert!(message.contains(&missing.display().to_string()), "{message}");
        let file = parent.path().join("file");
        fs::write(&file, b"").unwrap();
        let message = Place::directory(&file).unwrap_err().to_string();
        assert!(message.contains("Not a directory"), "{message}");
    }
}
