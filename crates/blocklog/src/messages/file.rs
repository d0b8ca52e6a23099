//! A file that gets the messages. It is opened for each message, so a log that was rotated away is
//! made anew.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, fchown};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::OFlags;

/// How much of a file is read to tell whether it is text.
const LOOK_BYTES: u64 = 512;

/// Checks that the file can be written, and that it is no database by mistake.
pub fn check(path: &Path) -> io::Result<()> {
    let is_regular = open(path)?.metadata()?.is_file();
    let mut begin = Vec::new();
    if is_regular {
        // A file that may only be written cannot be looked at.
        let _ = File::open(path).and_then(|file| file.take(LOOK_BYTES).read_to_end(&mut begin));
    }
    if begin.contains(&0) {
        return Err(io::Error::other("this is no text file; messages would damage it [OF-411]"));
    }
    Ok(())
}

pub fn write(path: &Path, line: &str) {
    // The clock may be set to before 1970, where the library panics.
    let time = humantime::format_rfc3339_millis(SystemTime::now().max(UNIX_EPOCH));
    // Nobody is left to tell of an error.
    let _ = open(path).and_then(|mut file| file.write_all(format!("{time} {line}").as_bytes()));
}

/// Opens the file, or makes it. A file made by root gets the owner of its directory. So the program
/// can write to it too when it runs as that user.
fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    // A pipe without a reader is an error and no wait. A terminal does not become the program's
    // own.
    options.append(true).custom_flags((OFlags::NONBLOCK | OFlags::NOCTTY).bits() as i32);
    match options.open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        opened => return opened,
    }
    let made = match options.create_new(true).mode(0o644).open(path) {
        // Another process was faster.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            return options.create_new(false).open(path);
        }
        made => made?,
    };
    let directory = path.parent().map_or_else(|| Path::new("/").metadata(), Path::metadata)?;
    if made.metadata()?.uid() == 0 && directory.uid() != 0 {
        fchown(&made, Some(directory.uid()), Some(directory.gid()))?;
    }
    Ok(made)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_appended_and_a_file_that_was_rotated_away_is_made_anew() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        check(&path).unwrap();
        write(&path, "one\n");
        write(&path, "two\n");
        std::fs::rename(&path, dir.path().join("log.1")).unwrap();
        write(&path, "three\n");
        let words = |name| {
            let text = std::fs::read_to_string(dir.path().join(name)).unwrap();
            text.lines().map(|line| line.split_once("Z ").unwrap().1.to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(
            (words("log.1"), words("log")),
            (vec!["one".into(), "two".into()], vec!["three".to_owned()])
        );
    }

    #[test]
    fn a_database_and_a_pipe_that_nobody_reads_are_refused_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let database = dir.path().join("a.db");
        std::fs::write(&database, b"SQLite format 3\0").unwrap();
        assert!(check(&database).unwrap_err().to_string().contains("no text file"));
        let pipe = dir.path().join("pipe");
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        assert!(check(&pipe).is_err());
        assert!(check(dir.path()).is_err(), "a directory");
    }

    #[test]
    fn made_by_root_it_belongs_to_the_owner_of_its_directory() {
        if !rustix_is_root() {
            oneflush_testing::skip("only root can make files for others");
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        std::os::unix::fs::chown(dir.path(), Some(1234), Some(1235)).unwrap();
        let path = dir.path().join("log");
        check(&path).unwrap();
        let owner = path.metadata().unwrap();
        assert_eq!((owner.uid(), owner.gid()), (1234, 1235));
    }

    fn rustix_is_root() -> bool {
        std::fs::metadata("/proc/self").is_ok_and(|me| me.uid() == 0)
    }
}
