//! What is acknowledged, and only in files that nobody finds any more, as a database of its own:
//! `app.db-orphan-0` and `app.db-orphan-0-wal`.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, Read as _, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use rustix::fs::statvfs;

use super::connection::WalConnection;
use super::store::Store;
use crate::error::Code;
use crate::port::{Below, LockLevel, MainFile};
use crate::role::Role;
use crate::sync::lock;
use crate::wal_file::{HEADER_BYTES, WalFile};

/// What is copied at once. A page is never longer.
const PIECE_BYTES: u64 = 64 << 10;

impl<S: Store> WalConnection<S> {
    /// Copies the open database file and its WAL, for SQLite alone to open.
    pub(super) fn save_orphan(
        &self,
        main: &dyn MainFile,
        wal: Option<&dyn Below>,
    ) -> io::Result<PathBuf> {
        let read_main = |buffer: &mut [u8], offset| {
            self.store()
                .read(self, main, Role::Db, buffer, offset)
                .map_err(|error| Code(error.code()))
        };
        let path = &self.shared.path;
        let Some(wal) = wal else {
            let level = *lock(&self.level);
            return while_whole(path, main, level, || save(path, main, &read_main, None));
        };
        let wal_bytes = self.published_bytes(wal).map_err(failed)?;
        save(path, main, &read_main, Some((wal, wal_bytes)))
    }

    /// Where the last published frame of the WAL ends.
    fn published_bytes(&self, wal: &dyn Below) -> Result<u64, Code> {
        // Without the index that all share, recovery finds the commits.
        let Some(frames) = self.published_frames() else {
            return wal.size_bytes();
        };
        if frames == 0 {
            return Ok(0);
        }
        let mut header = [0; HEADER_BYTES as usize];
        wal.read(&mut header, 0)?;
        match WalFile::header(&header) {
            Some((page_bytes, _)) => Ok(WalFile { file: wal, page_bytes }.offset_of(frames + 1)),
            None => wal.size_bytes(),
        }
    }
}

/// Runs `act` while nobody writes to this database of a rollback mode. `level` is the caller's
/// lock. An error: the file may have half a transaction.
pub(crate) fn while_whole<T>(
    database: &str,
    main: &dyn Below,
    level: LockLevel,
    act: impl FnOnce() -> io::Result<T>,
) -> io::Result<T> {
    let takes_lock = level == LockLevel::None;
    if takes_lock {
        main.lock(LockLevel::Shared).map_err(failed)?;
    }
    // "If the journal header is zeroed" it is not hot.
    let journal = File::open(format!("{database}-journal"));
    let is_hot = journal.is_ok_and(|mut file| {
        let mut first = [0];
        file.read_exact(&mut first).is_ok() && first != [0]
    });
    let done = match is_hot {
        true => Err(io::Error::other("a rollback journal lies beside it")),
        false => act(),
    };
    if takes_lock {
        let _ = main.unlock(LockLevel::None);
    }
    done
}

/// Copies a database file, by `read_main`, and so many bytes of its WAL.
pub(crate) fn save(
    database: &str,
    main: &dyn Below,
    read_main: Read<'_>,
    wal: Option<(&dyn Below, u64)>,
) -> io::Result<PathBuf> {
    let main_bytes = main.size_bytes().map_err(failed)?;
    let wal = wal.filter(|(_, bytes)| *bytes > 0);
    let folder = Path::new(database).parent().unwrap_or(Path::new("/"));
    let space = statvfs(folder)?;
    let wanted = main_bytes + wal.map_or(0, |(_, bytes)| bytes);
    if space.f_bavail.saturating_mul(space.f_frsize) < wanted {
        return Err(io::ErrorKind::StorageFull.into());
    }
    let (path, copy) = ORPHANS
        .map(|number| PathBuf::from(orphan_path(database, number)))
        .filter(|path| !wal_of(path).exists())
        .find_map(|path| match create_like(&path, main) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => None,
            created => Some(created.map(|file| (path, file))),
        })
        .ok_or(io::ErrorKind::AlreadyExists)??;
    copy_into(copy, main_bytes, read_main)?;
    if let Some((wal, bytes)) = wal {
        let copy = create_like(&wal_of(&path), main)?;
        copy_into(copy, bytes, &|buffer, offset| wal.read(buffer, offset))?;
    }
    File::open(folder)?.sync_all()?;
    Ok(path)
}

/// Reads at an offset.
type Read<'a> = &'a dyn Fn(&mut [u8], u64) -> Result<(), Code>;

fn failed(code: Code) -> io::Error {
    io::Error::other(format!("SQLite's code {}", code.0))
}

/// The numbers of orphans. One is taken if neither its database nor its WAL is there.
pub const ORPHANS: std::ops::Range<u32> = 0..100;

pub fn orphan_path(database: &str, number: u32) -> String {
    format!("{database}-orphan-{number}")
}

fn wal_of(orphan: &Path) -> PathBuf {
    PathBuf::from(format!("{}-wal", orphan.display()))
}

/// Makes a file that nobody may read who may not read the database.
fn create_like(path: &Path, database: &dyn Below) -> io::Result<File> {
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    if let Some((mode, user, group)) = database.owner() {
        // Who may not do that keeps the file to himself.
        let _ = fchown(&file, Some(user), Some(group));
        file.set_permissions(Permissions::from_mode(mode))?;
    }
    Ok(file)
}

fn copy_into(mut copy: File, bytes: u64, read: Read<'_>) -> io::Result<()> {
    let mut buffer = vec![0; PIECE_BYTES as usize];
    for offset in (0..bytes).step_by(PIECE_BYTES as usize) {
        let piece = &mut buffer[..(bytes - offset).min(PIECE_BYTES) as usize];
        read(piece, offset).map_err(failed)?;
        copy.write_all(piece)?;
    }
    copy.sync_all()
}
