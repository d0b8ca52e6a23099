//! A file beside a database gets the database's owner, group and mode, as SQLite does it for WAL,
//! index and journal.
//!
//! Root may work on a database of a service. Without this the service could not use the files that
//! root has made. Nor could it use the database while they are there.
//!
//! - A new file is handed over before anything else is written to it.
//! - A file that is there is handed over when it is opened for writing. Its maker may have died
//!   before that, or the database may have another owner now.
//! - Only root can give a file away. For others only the mode counts.
//! - What cannot be done is left out, as SQLite does. A file system without owners (FAT) has nobody
//!   to lock out.
//! - A link is never followed, and a file of several names is never handed over. Anyone who may
//!   write the directory could point it at a file of root's.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::{FileType, Gid, Mode, OFlags, Stat, Uid, fchmod, fchown, fstat, lstat, stat};

/// The mode of a new file where there is no database to follow.
const MODE_DEFAULT: u32 = 0o644;

/// Makes a file that must not exist, and hands it over.
pub fn create_beside(path: &Path, database: &Path) -> io::Result<File> {
    let mode = stat(database).map_or(MODE_DEFAULT, |database| database.st_mode & 0o777);
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).create_new(true).mode(mode).open(path)?;
    hand_over(&file, database);
    Ok(file)
}

/// Opens an existing file for reading and writing, and hands it over.
pub fn open_beside(path: &Path, database: &Path) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW.bits() as i32;
    let file = OpenOptions::new().read(true).write(true).custom_flags(flags).open(path);
    let file = file.map_err(|error| why_not(path, database, error))?;
    hand_over(&file, database);
    Ok(file)
}

/// Opens a file that several processes make and remove, or makes it. The caller finds out by a lock
/// whether it still has its name ([`is_at`]).
pub fn open_or_create_beside(path: &Path, database: &Path) -> io::Result<File> {
    loop {
        match open_beside(path, database) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            opened => return opened,
        }
        match create_beside(path, database) {
            // Another process has made it meanwhile, and may remove it again before it is opened.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            created => return created,
        }
    }
}

/// True if this open file is the one that has this name.
pub fn is_at(file: &File, path: impl AsRef<Path>) -> bool {
    let there = stat(path.as_ref()).map(|stat| (stat.st_dev, stat.st_ino));
    let ours = fstat(file).map(|stat| (stat.st_dev, stat.st_ino));
    there.is_ok() && there == ours
}

/// Gives an open file the database's owner, group and mode, as far as this process may. The umask
/// does not count.
pub fn hand_over(file: &File, database: &Path) {
    let (Ok(wanted), Ok(found)) = (stat(database), fstat(file)) else { return };
    if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile || found.st_nlink != 1 {
        return;
    }
    let mode = wanted.st_mode & 0o777;
    if found.st_mode & 0o777 != mode {
        let _ = fchmod(file, Mode::from_raw_mode(mode));
    }
    if (found.st_uid, found.st_gid) != (wanted.st_uid, wanted.st_gid) {
        let _ =
            fchown(file, Some(Uid::from_raw(wanted.st_uid)), Some(Gid::from_raw(wanted.st_gid)));
    }
}

/// True if [`create_beside`] would make the file as it is now, and the file has one name. A link is
/// no file.
pub fn is_as_made_beside(path: &Path, database: &Path) -> io::Result<bool> {
    let (found, wanted) = (lstat(path)?, stat(database)?);
    let belonging = |file: &Stat| (file.st_uid, file.st_gid, file.st_mode & 0o777);
    let is_one_file =
        FileType::from_raw_mode(found.st_mode) == FileType::RegularFile && found.st_nlink == 1;
    Ok(is_one_file && belonging(&found) == belonging(&wanted))
}

/// An error that names the owner of a file of another user, and the way out.
fn why_not(path: &Path, database: &Path, error: io::Error) -> io::Error {
    let (Ok(found), Ok(wanted)) = (stat(path), stat(database)) else { return error };
    if error.kind() != io::ErrorKind::PermissionDenied {
        return error;
    }
    // The text is short: SQLite's error log cuts a line at 210 bytes, and the names take some.
    io::Error::new(
        error.kind(),
        format!(
            "user {} may not: it belongs to user {} (mode {:04o}), the database to user {}; open \
                it once as root, or chown it [OF-138]",
            rustix::process::geteuid().as_raw(),
            found.st_uid,
            found.st_mode & 0o777,
            wanted.st_uid,
        ),
    )
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};

    use super::*;

    const SERVICE: (u32, u32) = (1001, 1002);

    fn of(path: &Path) -> (u32, u32, u32) {
        let found = fs::metadata(path).unwrap();
        (found.uid(), found.gid(), found.mode() & 0o777)
    }

    fn is_root() -> bool {
        let is = rustix::process::geteuid().is_root();
        if !is {
            oneflush_testing::skip("only root can give a file away");
        }
        is
    }

    fn database(dir: &Path, mode: u32) -> std::path::PathBuf {
        let path = dir.join("a.db");
        fs::write(&path, "").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        if rustix::process::geteuid().is_root() {
            chown(&path, Some(SERVICE.0), Some(SERVICE.1)).unwrap();
        }
        path
    }

    #[test]
    fn a_new_file_has_the_databases_mode_whatever_the_umask_says() {
        let dir = tempfile::tempdir().unwrap();
        for mode in [0o600, 0o640, 0o666] {
            let database = database(dir.path(), mode);
            let path = dir.path().join(format!("log-{mode:o}"));
            create_beside(&path, &database).unwrap();
            assert_eq!(of(&path).2, mode);
            assert_eq!(
                create_beside(&path, &database).unwrap_err().kind(),
                io::ErrorKind::AlreadyExists
            );
        }
    }

    #[test]
    fn what_root_makes_or_finds_belongs_to_the_databases_owner() {
        if !is_root() {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let database = database(dir.path(), 0o640);
        let (made, found) = (dir.path().join("made"), dir.path().join("found"));
        create_beside(&made, &database).unwrap();
        fs::write(&found, "of an earlier version").unwrap();
        open_beside(&found, &database).unwrap();
        let expected = (SERVICE.0, SERVICE.1, 0o640);
        assert_eq!((of(&made), of(&found)), (expected, expected));
    }

    /// With a link the owner of the directory could name any file of root's.
    #[test]
    fn a_link_to_another_file_is_not_handed_over() {
        if !is_root() {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let database = database(dir.path(), 0o666);
        let secret = dir.path().join("secret");
        fs::write(&secret, "").unwrap();
        fs::set_permissions(&secret, Permissions::from_mode(0o600)).unwrap();
        let (by_symlink, by_hard_link) = (dir.path().join("symlink"), dir.path().join("hard-link"));
        symlink(&secret, &by_symlink).unwrap();
        fs::hard_link(&secret, &by_hard_link).unwrap();
        open_beside(&by_symlink, &database).unwrap_err();
        open_beside(&by_hard_link, &database).unwrap();
        assert_eq!(of(&secret), (0, 0, 0o600));
    }
}
