//! Standard error, as long as descriptor 2 is standard error.
//!
//! A daemon may have closed descriptor 2. The next file that it opens gets the number, and a
//! message would be written into that file. So the identity of descriptor 2 is noted when the VFS
//! is registered, and compared before each message.
//!
//! By then descriptor 2 may already be another file. `oneflush run` leaves a note of what it was.
//! Without that note, the contents of the file have to tell.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, OFlags, Stat, fcntl_getfl, fstat};
use rustix::net::{SendFlags, send};

/// How much of a file is read to tell whether it is text.
const LOOK_BYTES: usize = 512;

/// The variable with process, device and inode, as `oneflush run` has noted them.
const NOTE: &str = "ONEFLUSH_RUN_STDERR";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Identity(u64, u64, u64);

impl Identity {
    fn of(stat: &Stat) -> Identity {
        Identity(stat.st_dev, stat.st_ino, stat.st_rdev)
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Stderr(Identity);

impl Stderr {
    /// Descriptor 2, if it is open and may be standard error.
    pub fn now() -> Option<Stderr> {
        let stderr = io::stderr();
        Stderr::of(stderr.as_fd(), std::env::var(NOTE).ok().as_deref())
    }

    fn of(stderr: BorrowedFd<'_>, note: Option<&str>) -> Option<Stderr> {
        let stat = fstat(stderr).ok()?;
        let is_it = match FileType::from_raw_mode(stat.st_mode) {
            FileType::CharacterDevice | FileType::Fifo | FileType::Socket => true,
            FileType::RegularFile => match note.and_then(noted) {
                Some(noted) => is_log(stderr) || noted == (stat.st_dev, stat.st_ino),
                None => is_log(stderr) || is_text(stderr),
            },
            _ => false,
        };
        is_it.then(|| Stderr(Identity::of(&stat)))
    }

    pub fn write(self, line: &str) {
        let stderr = io::stderr();
        self.write_to(stderr.as_fd(), line);
    }

    fn write_to(self, stderr: BorrowedFd<'_>, line: &str) {
        let Ok(stat) = fstat(stderr) else { return };
        let kind = FileType::from_raw_mode(stat.st_mode);
        if Identity::of(&stat) != self.0 {
            // Either descriptor 2 was redirected: to a terminal, to `/dev/null`, or to a log that
            // was rotated. Or it is another file, which must stay as it is.
            let is_redirected = kind == FileType::CharacterDevice
                || kind == FileType::RegularFile && is_log(stderr);
            if !is_redirected {
                return;
            }
        }
        // A line is lost rather than waited for. A pipe without readers would end the process
        // (`SIGPIPE`).
        if !takes_a_line(stderr) {
            return;
        }
        let bytes = line.as_bytes();
        // Nobody is left to tell of an error.
        let _ = match kind {
            FileType::Socket => send(stderr, bytes, SendFlags::NOSIGNAL | SendFlags::DONTWAIT),
            _ => rustix::io::write(stderr, bytes),
        };
    }
}

/// What descriptor 2 was when this process began. None: the note is of another process, which may
/// have had another standard error.
fn noted(note: &str) -> Option<(u64, u64)> {
    let mut numbers = note.split(':').map(|number| number.parse::<u64>().ok());
    let (process, device, inode) = (numbers.next()??, numbers.next()??, numbers.next()??);
    (process == u64::from(std::process::id())).then_some((device, inode))
}

/// True if the file was opened only for appending, as logs are and databases never are.
fn is_log(file: BorrowedFd<'_>) -> bool {
    fcntl_getfl(file).is_ok_and(|flags| {
        flags & OFlags::RWMODE == OFlags::WRONLY && flags.contains(OFlags::APPEND)
    })
}

/// True if the file was opened for writing, and its beginning is text or cannot be read.
fn is_text(file: BorrowedFd<'_>) -> bool {
    let mut begin = [0; LOOK_BYTES];
    match fcntl_getfl(file).map(|flags| flags & OFlags::RWMODE) {
        Ok(OFlags::WRONLY) => true,
        Ok(OFlags::RDWR) => {
            rustix::io::pread(file, &mut begin[..], 0).is_ok_and(|read| !begin[..read].contains(&0))
        }
        _ => false,
    }
}

fn takes_a_line(file: BorrowedFd<'_>) -> bool {
    let mut polled = [PollFd::from_borrowed_fd(file, PollFlags::OUT)];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    matches!(poll(&mut polled, Some(&at_once)), Ok(1)) && polled[0].revents() == PollFlags::OUT
}

#[cfg(test)]
mod tests {
    use std::fs::{File, OpenOptions};
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    use super::*;

    fn options() -> OpenOptions {
        let mut options = File::options();
        options.create(true);
        options
    }

    /// A daemon had closed descriptor 2 and opened its data file, which became descriptor 2.
    #[test]
    fn a_file_that_has_taken_the_place_of_standard_error_stays_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let log = options().append(true).open(dir.path().join("log")).unwrap();
        let stderr = Stderr::of(log.as_fd(), None).unwrap();
        stderr.write_to(log.as_fd(), "one\n");
        let data =
            options().read(true).write(true).truncate(true).open(dir.path().join("data")).unwrap();
        stderr.write_to(data.as_fd(), "lost\n");
        let written_only =
            options().write(true).truncate(true).open(dir.path().join("other")).unwrap();
        stderr.write_to(written_only.as_fd(), "lost\n");
        let rotated = options().append(true).open(dir.path().join("log.new")).unwrap();
        stderr.write_to(rotated.as_fd(), "two\n");
        let read = |name| std::fs::read_to_string(dir.path().join(name)).unwrap();
        assert_eq!((read("log"), read("log.new")), ("one\n".to_owned(), "two\n".to_owned()));
        assert_eq!((read("data"), read("other")), (String::new(), String::new()));
    }

    #[test]
    fn a_database_or_a_directory_is_nobodys_standard_error() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.db");
        std::fs::write(&path, b"SQLite format 3\0").unwrap();
        let database = options().read(true).write(true).truncate(false).open(&path).unwrap();
        assert!(Stderr::of(database.as_fd(), None).is_none());
        assert!(Stderr::of(File::open(dir.path()).unwrap().as_fd(), None).is_none());
        assert!(Stderr::of(File::open(&path).unwrap().as_fd(), None).is_none(), "open for reading");
        std::fs::write(&path, b"").unwrap();
        assert!(
            Stderr::of(database.as_fd(), None).is_some(),
            "a new file, as test harnesses give it"
        );
    }

    #[test]
    fn a_file_is_standard_error_if_it_was_when_the_process_began() {
        let dir = tempfile::tempdir().unwrap();
        let file =
            options().read(true).write(true).truncate(true).open(dir.path().join("a")).unwrap();
        let stat = fstat(&file).unwrap();
        let note = |process, inode| format!("{process}:{}:{inode}", stat.st_dev);
        let is_it = |note: &str| Stderr::of(file.as_fd(), Some(note)).is_some();
        let (us, parent) = (std::process::id(), std::os::unix::process::parent_id());
        assert!(is_it(&note(us, stat.st_ino)) && !is_it(&note(us, stat.st_ino + 1)));
        assert!(is_it(&note(parent, stat.st_ino + 1)), "a child may have been given another");
        assert!(is_it("nonsense"));
    }

    #[test]
    fn a_full_pipe_and_one_without_readers_lose_the_line_and_nothing_else() {
        let (mut reader, writer) = std::io::pipe().unwrap();
        let stderr = Stderr::of(writer.as_fd(), None).unwrap();
        for _ in 0..100 {
            stderr.write_to(writer.as_fd(), &"x".repeat(2000));
        }
        let mut piece = [0; 1000];
        assert_eq!(reader.read(&mut piece).unwrap(), 1000);
        drop(reader);
        stderr.write_to(writer.as_fd(), "nobody reads\n");
    }

    #[test]
    fn a_socket_gets_the_line_and_one_that_is_closed_does_no_harm() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let stderr = Stderr::of(ours.as_fd(), None).unwrap();
        stderr.write_to(ours.as_fd(), "line\n");
        let mut line = [0; 5];
        theirs.read_exact(&mut line).unwrap();
        assert_eq!(&line, b"line\n");
        drop(theirs);
        stderr.write_to(ours.as_fd(), "nobody reads\n");
    }
}
