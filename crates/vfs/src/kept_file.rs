//! The file of a WAL that `plain` keeps over a close: `app.db-oneflush-kept`, which SQLite never
//! opens.
//!
//! After a clean close a database has no `-wal` beside it, so no `-wal` keeps anybody out. Anybody
//! who may use the database file may use the database. Its owner, group, mode or folder may have
//! changed meanwhile.
//!
//! | when | lock on the database | what |
//! |---|---|---|
//! | the last close | exclusive | `-wal` gets the kept name |
//! | the next open of the WAL | shared | the kept file gets the name `-wal` back |
//!
//! The first rename need not be durable: the WAL says nothing that the database file has not, under
//! either name. The second is durable before the first commit is acknowledged. "unix" syncs the
//! directory with the first sync of each WAL that it was told to create.
//!
//! Invariants:
//!
//! 1. The kept name is given under the exclusive lock, and taken away under a shared one. So only
//!    openers meet here, and the first rename wins.
//! 2. A kept file is taken back only if it is what SQLite would make there now. That is a regular
//!    file with one name, and with the database's owner, group and mode, which this process may
//!    write.
//! 3. Its frames say nothing new, even if a crash takes its mark away (`strategy/plain/kept.rs`).
//! 4. Any other kept file is removed, and the WAL is made anew. Nothing here is an error to SQLite.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use oneflush_blocklog::belonging::is_as_made_beside;
use rustix::fs::{CWD, OFlags, RenameFlags, renameat_with};
use rustix::io::Errno;

use crate::file_below::FileBelow;
use crate::names::{kept_path, wal_path};
use crate::port::Below;

/// Gives the WAL of a closed database the kept name. After an error SQLite is to delete the WAL.
pub fn keep(database: &str) -> io::Result<()> {
    let wal = wal_path(database);
    if !is_as_made_beside(Path::new(&wal), Path::new(database))? {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    std::fs::rename(wal, kept_path(database))
}

/// Renames the kept file back to the name of the WAL, if there is one and it fits. True: it has
/// that name now.
pub fn take_back(database: &str, says_nothing_new: &mut dyn FnMut(&dyn Below) -> bool) -> bool {
    let kept = kept_path(database);
    let fits = match open(Path::new(&kept), Path::new(database)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return false,
        Ok(Some(file)) => says_nothing_new(&file),
        Ok(None) | Err(_) => false,
    };
    // Another process may be first.
    let renamed = || renameat_with(CWD, &kept, CWD, wal_path(database), RenameFlags::NOREPLACE);
    if fits && matches!(renamed(), Ok(()) | Err(Errno::NOENT)) {
        return true;
    }
    // There is a WAL, or this file system cannot tell, or the file is no use. A file that may not
    // be removed is in nobody's way.
    let _ = std::fs::remove_file(kept);
    false
}

fn open(kept: &Path, database: &Path) -> io::Result<Option<FileBelow>> {
    if !is_as_made_beside(kept, database)? {
        return Ok(None);
    }
    // The name may lead elsewhere by now, or to a file whose opening would wait.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file =
        OpenOptions::new().read(true).write(true).custom_flags(flags.bits() as i32).open(kept)?;
    Ok(Some(FileBelow(Some(file))))
}
