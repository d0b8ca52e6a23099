//! Databases of the second B-tree on a simulated machine.
//!
//! SQLite's VFS is not asked: the engine opens a file itself. Here it gets one of the same disk,
//! and the connections to it share the memory that they would share in a file beside it.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use oneflush_blocklog::Storage;
use oneflush_mvbt::{Database, Error, Options, Result};
use oneflush_mvbt_c::place::{self, FileId, Held, Owner, Place};

use super::volume::Volume;
use crate::disk::{Disk, DiskError};
use crate::log::parent;
use crate::mvbt::storage::{ALIGNMENT_BYTES, BLOCK_BYTES, OpenFile};

/// A machine, and a name on its disk, which paths of it lead to.
struct OnMachine(Arc<Volume>);

/// From now on the engine finds the databases of machines.
pub fn offer() {
    place::offer(|path| {
        let (volume, _) = Volume::of_path(path.to_str()?)?;
        Some(Box::new(OnMachine(volume)))
    });
}

impl OnMachine {
    /// Every path that leads here is one of a machine.
    fn name(path: &Path) -> io::Result<&str> {
        let name = path.to_str().and_then(Volume::of_path).map(|(_, name)| name);
        name.ok_or(io::ErrorKind::NotFound.into())
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        let name = OnMachine::name(path)?;
        self.0.disk().sync_dir(parent(name)).map_err(io::Error::other)
    }

    fn file(&self, path: &Path, is_new: bool) -> io::Result<File> {
        let name = OnMachine::name(path)?;
        let mut disk = self.0.disk();
        let ino = match (is_new, disk.lookup(name)) {
            (true, _) => disk.create(name).map_err(io::Error::other)?,
            (false, there) => there.ok_or(io::ErrorKind::NotFound)?,
        };
        disk.use_directly(ino);
        drop(disk);
        let open = Mutex::new(OpenFile::new(ino));
        Ok(File { volume: Arc::clone(&self.0), open })
    }
}

fn failed(path: &Path, doing: &'static str) -> impl Fn(io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::Io { path: path.clone(), doing, source }
}

impl Place for OnMachine {
    fn hold(&self, path: &Path, _: u32) -> io::Result<Option<Held>> {
        let name = OnMachine::name(path)?;
        let Some(making) = self.0.begin_making() else {
            std::thread::yield_now();
            return Ok(None);
        };
        let mut disk = self.0.disk();
        let ino = match disk.lookup(name) {
            Some(ino) => ino,
            None => disk.create(name).map_err(io::Error::other)?,
        };
        let bytes = disk.size(ino);
        Ok(Some(Held { bytes, owner: Owner::default(), lock: Box::new(making) }))
    }

    /// Each process has its own path.
    fn file_id(&self, path: &Path) -> Option<FileId> {
        let name = OnMachine::name(path).ok()?;
        self.0.disk().lookup(name).map(|_| FileId::Path(path.to_owned()))
    }

    fn create(&self, path: &Path, options: Options) -> Result<Database> {
        let file = self.file(path, true).map_err(failed(path, "create it"))?;
        let made = Database::create_on(Arc::new(file), path.to_owned(), options)?;
        self.sync_directory(path).map_err(failed(path, "sync its directory"))?;
        Ok(made)
    }

    fn open(&self, path: &Path, options: Options) -> Result<Database> {
        let about = failed(path, "open it");
        let file = self.file(path, false).map_err(&about)?;
        let name = OnMachine::name(path).map_err(&about)?;
        let (shared, is_read_only) = (self.0.shared(name), options.read_only);
        let db = Database::join_on(Arc::new(file), PathBuf::from(path), options, &shared.memory)?;
        if db.is_as_made() && !is_read_only {
            self.sync_directory(path).map_err(about)?;
        }
        Ok(db)
    }

    fn replace(&self, from: &Path, to: &Path, _: Owner) -> Result<()> {
        let about = failed(to, "put the new file into its place");
        let names = OnMachine::name(from).and_then(|from| Ok((from, OnMachine::name(to)?)));
        let renamed =
            names.and_then(|(from, to)| self.0.disk().rename(from, to).map_err(io::Error::other));
        renamed.and_then(|()| self.sync_directory(to)).map_err(about)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        match self.0.disk().unlink(OnMachine::name(path)?) {
            Err(DiskError::NotFound) => Ok(()),
            removed => removed.map_err(io::Error::other),
        }
    }
}

/// An open file of a machine's disk.
struct File {
    volume: Arc<Volume>,
    open: Mutex<OpenFile>,
}

impl File {
    fn with<T>(&self, call: impl FnOnce(&mut OpenFile, &mut Disk) -> T) -> T {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        call(&mut open, &mut self.volume.disk())
    }
}

impl Storage for File {
    fn block_bytes(&self) -> usize {
        BLOCK_BYTES
    }

    fn alignment_bytes(&self) -> usize {
        ALIGNMENT_BYTES
    }

    fn size_bytes(&self) -> io::Result<u64> {
        Ok(self.with(|file, disk| file.size_bytes(disk)))
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.with(|file, disk| file.read(disk, buffer, offset))
    }

    fn write_durable(&self, blocks: &[u8], offset: u64) -> io::Result<()> {
        self.with(|file, disk| file.write_durable(disk, blocks, offset))
    }

    fn write(&self, blocks: &[u8], offset: u64) -> io::Result<()> {
        self.with(|file, disk| file.write(disk, blocks, offset))
    }

    fn flush(&self) -> io::Result<()> {
        let covers = self.volume.sync_begins();
        self.with(|file, disk| file.sync(disk, covers, false))
    }

    fn extend(&self, size_bytes: u64) -> io::Result<()> {
        self.with(|file, disk| file.extend(disk, size_bytes))
    }

    fn zero(&self, range: Range<u64>) -> io::Result<()> {
        self.with(|file, disk| file.zero(disk, range))
    }

    fn cut(&self, size_bytes: u64) -> io::Result<()> {
        self.with(|file, disk| file.cut(disk, size_bytes))
    }
}
