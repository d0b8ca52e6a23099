//! Where databases are: in files of the system, or where a program in Rust says.

use std::any::Any;
use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use mvbt::{Database, Error, Options, Result};
use rustix::fs::{FlockOperation, flock};

/// A file that nobody else may make a database of, as long as this lives.
pub struct Held {
    pub bytes: u64,
    pub owner: Owner,
    pub lock: Box<dyn Any>,
}

/// Whose a file is, and what others may do with it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Owner {
    pub permissions: u32,
    pub user: u32,
    pub group: u32,
}

/// Which file a path leads to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum FileId {
    /// Of the system, by device and inode.
    System(u64, u64),
    /// Elsewhere.
    Path(PathBuf),
}

/// What opening and making a database asks of where it is.
pub trait Place: Send + Sync {
    /// Takes the lock on a file. If there is none, it makes an empty one with these permissions.
    /// `None`: another file has come in its place meanwhile.
    fn hold(&self, path: &Path, permissions: u32) -> io::Result<Option<Held>>;
    /// None: there is no file.
    fn file_id(&self, path: &Path) -> Option<FileId>;
    /// Makes a database in a file that must not exist. Its name is durable when this returns. (Else
    /// it might be another file of this name, gone before, that is put into a place.)
    fn create(&self, path: &Path, options: Options) -> Result<Database>;
    fn open(&self, path: &Path, options: Options) -> Result<Database>;
    /// Puts a file into the place of another one. It is durable when this returns.
    fn replace(&self, from: &Path, to: &Path, owner: Owner) -> Result<()>;
    /// A file that is not there is right.
    fn remove(&self, path: &Path) -> io::Result<()>;
}

/// Says where the database of a path is. `None`: in a file.
pub type Finder = fn(&Path) -> Option<Box<dyn Place>>;

static FINDER: OnceLock<Finder> = OnceLock::new();

/// From now on databases are where this says. The first one counts. The crash simulator offers its
/// disk.
pub fn offer(finder: Finder) {
    FINDER.get_or_init(|| finder);
}

pub fn of(path: &Path) -> Box<dyn Place> {
    FINDER.get().and_then(|find| find(path)).unwrap_or(Box::new(Files))
}

/// Files of the system.
struct Files;

impl Place for Files {
    fn hold(&self, path: &Path, permissions: u32) -> io::Result<Option<Held>> {
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(false).mode(permissions);
        let file = options.open(path)?;
        while let Err(error) = flock(&file, FlockOperation::LockExclusive) {
            if error != rustix::io::Errno::INTR {
                return Err(error.into());
            }
        }
        let held = file.metadata()?;
        let there = match path.metadata() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            there => there?,
        };
        if (held.dev(), held.ino()) != (there.dev(), there.ino()) {
            return Ok(None);
        }
        let permissions = held.mode() & 0o7777;
        let owner = Owner { permissions, user: held.uid(), group: held.gid() };
        Ok(Some(Held { bytes: held.len(), owner, lock: Box::new(file) }))
    }

    fn file_id(&self, path: &Path) -> Option<FileId> {
        let there = path.metadata().ok()?;
        Some(FileId::System(there.dev(), there.ino()))
    }

    fn create(&self, path: &Path, options: Options) -> Result<Database> {
        Database::create(path, options)
    }

    fn open(&self, path: &Path, options: Options) -> Result<Database> {
        Database::open(path, options)
    }

    fn replace(&self, from: &Path, to: &Path, owner: Owner) -> Result<()> {
        let failed = |doing| move |source| Error::Io { path: to.to_owned(), doing, source };
        let made = from.metadata().map_err(failed("look at the new file"))?;
        if (made.uid(), made.gid()) != (owner.user, owner.group) {
            std::os::unix::fs::chown(from, Some(owner.user), Some(owner.group))
                .map_err(failed("give the new file its owner"))?;
        }
        std::fs::set_permissions(from, Permissions::from_mode(owner.permissions))
            .map_err(failed("set the new file's permissions"))?;
        std::fs::rename(from, to).map_err(failed("put the new file into its place"))?;
        oneflush_blocklog::sync_directory(to)
            .map_err(|error| failed("sync its directory")(io::Error::other(error)))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}
