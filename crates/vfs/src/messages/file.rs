//! A file that gets the messages: opened for each of them, so a log that was rotated away is made anew.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, fchown};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::OFlags;

/// How much of a file tells whether it is text.
const LOOK_BYTES: u64 = 512;

/// The file can be written, and is no database by mistake.
pub fn check(path: &Path) -> io::Result<()> {
    let is_regular = open(path)?.metadata()?.is_file();
    let mut begin = Vec::new();
    if is_regular {
        // One that may only be written cannot be looked at.
        let _ = File::open(path).and_then(|file| file.take(LOOK_BYTES).read_to_end(&mut begin));
    }
    if begin.contains(&0) {
        return Err(io::Error::other("this is no text file; messages would damage it"));
    }
    Ok(())
}

pub fn write(path: &Path, line: &str) {
    let time = rfc_3339(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default());
    // Nobody is left to tell of an error.
    let _ = open(path).and_then(|mut file| file.write_all(format!("{time} {line}").as_bytes()));
}

/// Opens the file, or makes it. Made by root, it belongs to the owner of its directory, so that the program writes to it as well when it
/// runs as that user.
fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    // A pipe that nobody reads is an error and no wait; a terminal does not become the program's own.
    options.append(true).custom_flags((OFlags::NONBLOCK | OFlags::NOCTTY).bits() as i32);
    match options.open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        opened => return opened,
    }
    let made = match options.create_new(true).mode(0o644).open(path) {
        // Somebody else was faster.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return options.create_new(false).open(path),
        made => made?,
    };
    let directory = path.parent().map_or_else(|| Path::new("/").metadata(), Path::metadata)?;
    if made.metadata()?.uid() == 0 && directory.uid() != 0 {
        fchown(&made, Some(directory.uid()), Some(directory.gid()))?;
    }
    Ok(made)
}

/// UTC, with milliseconds.
fn rfc_3339(since_1970: Duration) -> String {
    let (days, seconds) = (since_1970.as_secs() / 86_400, since_1970.as_secs() % 86_400);
    // "days_from_civil" backwards (Hinnant): years begin in March, so that the leap day is the last of one.
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:03}Z", since_1970.subsec_millis())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_dates_of_the_calendar() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00.007Z"),
            (951_782_399, "2000-02-28T23:59:59.007Z"),
            (951_782_400, "2000-02-29T00:00:00.007Z"),
            (1_795_199_476, "2026-11-20T18:31:16.007Z"),
            (4_107_542_400, "2100-03-01T00:00:00.007Z"),
        ] {
            assert_eq!(rfc_3339(Duration::new(seconds, 7_000_000)), text);
        }
    }

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
        assert_eq!((words("log.1"), words("log")), (vec!["one".into(), "two".into()], vec!["three".to_owned()]));
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
