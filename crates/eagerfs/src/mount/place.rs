//! Where a directory is mounted and where its log is: what must hold before anything is done.
//!
//! - **P1** The log lies beside the directory, in `NAME-oneflush/log`, or where it was asked for.
//!   It never lies inside. It holds contents of files, so only its owner may read it.
//! - **P2** One directory is mounted once: its own inode is locked (`flock`), wherever the log is.
//!   The lock goes with the daemon. Who waits for the daemon's end waits for the lock.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use oneflush_blocklog::sync_directory;
use rustix::fs::{FlockOperation, StatVfsMountFlags, flock, statvfs};
use rustix::io::Errno;

use super::error::{MountError, failed};
use super::mounts;
use super::unmount::{detach, is_dead};

const FUSE: &str = "/dev/fuse";
/// Says that the log must be replayed, also in the boot that it is of.
const FAILED: &str = "failed";

/// What a mount is to have.
#[derive(Debug)]
pub struct Place {
    /// The directory, without links in its path.
    pub lower: PathBuf,
    pub log: PathBuf,
    /// The log has a directory of its own, which goes with it.
    has_directory: bool,
    /// P2.
    _lock: File,
}

impl Place {
    pub fn of(lower: &Path, log: Option<&Path>) -> Result<Place, MountError> {
        let lower = directory(lower)?;
        let (log, has_directory) = match log {
            Some(log) => (absolute(log)?, false),
            None => (beside(&lower)?, true),
        };
        if log.starts_with(&lower) {
            return Err(MountError::LogInside { log, lower });
        }
        let stat = statvfs(&lower).map_err(|error| error.into());
        let stat = stat.map_err(failed("look at the file system of", &lower))?;
        if stat.f_flag.contains(StatVfsMountFlags::RDONLY) {
            return Err(MountError::ReadOnly(lower));
        }
        let lock = File::open(&lower).map_err(failed("open", &lower))?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => {
                let at = mounts::of(&lower).map(|seen| seen.at);
                return Err(MountError::Mounted { lower, at });
            }
            Err(error) => return Err(failed("lock", &lower)(error.into())),
        }
        let place = Place { lower, log, has_directory, _lock: lock };
        place.make_directory()?;
        Ok(place)
    }

    fn make_directory(&self) -> Result<(), MountError> {
        let Some(dir) = self.own_directory() else { return Ok(()) };
        match fs::DirBuilder::new().mode(0o700).create(dir) {
            Ok(()) => sync_directory(dir).map_err(|source| self.log_error(source))?,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(failed("make", &dir)(error)),
        }
        let stat = fs::symlink_metadata(dir).map_err(failed("look at", &dir))?;
        if !stat.is_dir() || stat.uid() != rustix::process::geteuid().as_raw() {
            return Err(MountError::BadPlace(dir.to_owned()));
        }
        let mode = fs::Permissions::from_mode(0o700);
        fs::set_permissions(dir, mode).map_err(failed("change the mode of", &dir))
    }

    fn own_directory(&self) -> Option<&Path> {
        self.log.parent().filter(|_| self.has_directory)
    }

    /// An empty file that nobody else may read. Its name is durable.
    pub fn make_log(&self) -> Result<(), MountError> {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o600);
        options.open(&self.log).map_err(failed("make", &self.log))?;
        sync_directory(&self.log).map_err(|source| self.log_error(source))
    }

    /// The log is gone, durably, with what is beside it.
    pub fn remove_log(&self) -> Result<(), MountError> {
        for path in [self.log.clone(), self.failed()] {
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(failed("remove", &path)(error));
                }
                _ => {}
            }
        }
        sync_directory(&self.log).map_err(|source| self.log_error(source))
    }

    /// The log's directory goes, unless somebody has put something into it.
    pub fn remove_directory(&self) -> Result<(), MountError> {
        let Some(dir) = self.own_directory() else { return Ok(()) };
        match fs::remove_dir(dir) {
            Ok(()) => sync_directory(dir).map_err(|source| self.log_error(source)),
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(()),
            Err(error) => Err(failed("remove", &dir)(error)),
        }
    }

    fn failed(&self) -> PathBuf {
        let mut path = self.log.clone().into_os_string();
        path.push("-");
        path.push(FAILED);
        path.into()
    }

    /// The next mount replays the log.
    pub fn note_failure(&self) -> io::Result<()> {
        File::create(self.failed())?.sync_all()?;
        sync_directory(&self.log).map_err(io::Error::other)
    }

    pub fn has_failed(&self) -> bool {
        self.failed().exists()
    }

    pub fn log_error(&self, source: oneflush_blocklog::Error) -> MountError {
        MountError::Log { log: self.log.clone(), source }
    }
}

fn directory(path: &Path) -> Result<PathBuf, MountError> {
    let path_there = path.canonicalize().map_err(failed("find", &path))?;
    if !path_there.is_dir() {
        return Err(MountError::NotADirectory(path_there));
    }
    Ok(path_there)
}

/// A file in a directory that is there.
fn absolute(log: &Path) -> Result<PathBuf, MountError> {
    if let Ok(log) = log.canonicalize() {
        return Ok(log);
    }
    let (Some(name), Some(dir)) = (log.file_name(), log.parent()) else {
        return Err(MountError::NoPlace(log.to_owned()));
    };
    let dir = if dir.as_os_str().is_empty() { Path::new(".") } else { dir };
    Ok(directory(dir)?.join(name))
}

fn beside(lower: &Path) -> Result<PathBuf, MountError> {
    let (Some(name), Some(dir)) = (lower.file_name(), lower.parent()) else {
        return Err(MountError::NoPlace(lower.to_owned()));
    };
    let mut own = name.to_os_string();
    own.push("-oneflush");
    Ok(dir.join(own).join("log"))
}

/// Looks whether this can be a mount point for the directory.
pub fn check_mountpoint(
    mountpoint: &Path,
    lower: &Path,
    may_hide: bool,
) -> Result<PathBuf, MountError> {
    if let Err(error) = File::options().read(true).write(true).open(FUSE) {
        return Err(match error.kind() {
            io::ErrorKind::NotFound => MountError::NoFuse,
            _ => failed("open", &Path::new(FUSE))(error),
        });
    }
    if is_dead(mountpoint) {
        // The daemon that was here is gone, and nobody can do anything with what it has left.
        detach(mountpoint)?;
    }
    let mountpoint = directory(mountpoint)?;
    let lower = directory(lower)?;
    if mountpoint.starts_with(&lower) || lower.starts_with(&mountpoint) {
        return Err(MountError::Nested { lower, mountpoint });
    }
    let mut names = fs::read_dir(&mountpoint).map_err(failed("list", &mountpoint))?;
    let mounted = mounts::at(&mountpoint);
    if !may_hide && (mounted.is_some() || names.next().is_some()) {
        return Err(MountError::Taken { mountpoint, mounted });
    }
    Ok(mountpoint)
}
