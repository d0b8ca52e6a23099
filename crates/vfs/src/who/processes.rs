//! Which processes have one of the files open, by `/proc/PID/fd`; and what a process is.
//!
//! A descriptor is compared by device and inode. So another name of the file, another root and
//! another mount do not matter. Nobody is asked for fresh attributes: a server that is away would
//! keep the answer back (`AT_STATX_DONT_SYNC`).

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::fs;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::{AtFlags, Mode, OFlags, RawDir, StatxFlags, open, statat, statx};
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

use super::files::FileId;

/// A descriptor of one of the files.
#[derive(Debug)]
pub struct Open {
    pub descriptor: String,
    /// Which of the files.
    pub file: usize,
}

/// All processes that were looked at.
#[derive(Debug, Default)]
pub struct Scan {
    /// Those that have a file open.
    pub users: BTreeMap<u32, Vec<Open>>,
    /// How many may not be looked at.
    pub unseen: usize,
}

pub fn scan(files: &[FileId]) -> std::io::Result<Scan> {
    let mut scan = Scan::default();
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse().ok()) else { continue };
        match descriptors(pid, files) {
            Some(found) if found.is_empty() => {}
            Some(found) => {
                scan.users.insert(pid, found);
            }
            None => scan.unseen += usize::from(may_have_files(pid)),
        }
    }
    Ok(scan)
}

/// So much of a folder is read at once.
const DIRECTORY_BYTES: usize = 8 << 10;

/// The process's descriptors of these files. None: it may not be looked at.
pub fn descriptors(pid: u32, files: &[FileId]) -> Option<Vec<Open>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let is_forbidden = |errno: Errno| matches!(errno, Errno::ACCESS | Errno::PERM);
    let folder = match open(format!("/proc/{pid}/fd"), flags, Mode::empty()) {
        Ok(folder) => folder,
        Err(errno) if is_forbidden(errno) => return None,
        // It has ended.
        Err(_) => return Some(Vec::new()),
    };
    let mut found = Vec::new();
    let (mut seen, mut forbidden) = (0, 0);
    let mut buffer = [MaybeUninit::uninit(); DIRECTORY_BYTES];
    let mut entries = RawDir::new(&folder, &mut buffer);
    while let Some(entry) = entries.next() {
        let entry = match entry {
            Ok(entry) => entry,
            Err(errno) if is_forbidden(errno) => return None,
            Err(_) => break,
        };
        let name = entry.file_name();
        if name.to_bytes().starts_with(b".") {
            continue;
        }
        let id = match identity(folder.as_fd(), name) {
            Ok(id) => id,
            // One alone is a file that its file system keeps from others, as FUSE does.
            Err(errno) if is_forbidden(errno) => {
                forbidden += 1;
                continue;
            }
            // It has been closed meanwhile.
            Err(_) => continue,
        };
        seen += 1;
        if let Some(file) = files.iter().position(|file| *file == id) {
            found.push(Open { descriptor: name.to_string_lossy().into_owned(), file });
        }
    }
    (seen > 0 || forbidden == 0).then_some(found)
}

fn identity(folder: BorrowedFd<'_>, name: &CStr) -> Result<FileId, Errno> {
    match statx(folder, name, AtFlags::STATX_DONT_SYNC, StatxFlags::INO) {
        Ok(stat) => {
            Ok(FileId { device: (stat.stx_dev_major, stat.stx_dev_minor), inode: stat.stx_ino })
        }
        // A sandbox may refuse the newer call.
        Err(Errno::NOSYS) => statat(folder, name, AtFlags::empty()).map(|stat| FileId {
            device: (rustix::fs::major(stat.st_dev), rustix::fs::minor(stat.st_dev)),
            inode: stat.st_ino,
        }),
        Err(errno) => Err(errno),
    }
}

/// What `/proc/PID/stat` says, which everybody may read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    pub program: String,
    /// By a signal or a debugger.
    pub stopped: bool,
    /// Tells it from a later process with the same number.
    pub start_ticks: u64,
    has_ended: bool,
    is_of_kernel: bool,
}

/// `PF_KTHREAD`.
const OF_KERNEL: u64 = 0x0020_0000;

impl Process {
    pub fn of(pid: u32) -> Option<Process> {
        let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
        Process::parse(&String::from_utf8_lossy(&stat))
    }

    /// The program's name is in parentheses, and may have some itself.
    fn parse(stat: &str) -> Option<Process> {
        let (program, rest) = stat.split_once('(')?.1.rsplit_once(") ")?;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        // The fields of proc(5) from the third on.
        let number = |field: usize| fields.get(field - 3).and_then(|text| text.parse().ok());
        Some(Process {
            program: program.replace(char::is_control, "?"),
            stopped: matches!(*fields.first()?, "T" | "t"),
            start_ticks: number(22)?,
            // Nobody has waited for it yet.
            has_ended: matches!(*fields.first()?, "Z" | "X"),
            is_of_kernel: number(9)? & OF_KERNEL != 0,
        })
    }
}

/// A thread of the kernel opens none, and a process that has ended has none. The kernel shows
/// neither to everybody.
fn may_have_files(pid: u32) -> bool {
    match Process::of(pid) {
        Some(process) => !process.is_of_kernel && !process.has_ended,
        None => is_alive(pid),
    }
}

/// Whether there is such a process, seen or not.
pub fn is_alive(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    pid.is_some_and(|pid| test_kill_process(pid) != Err(Errno::SRCH))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_read_whatever_its_name() {
        let rest = "1 2 3 0 -1 4194560 9 0 0 0 0 0 0 0 20 0 1 0 1308733 15 1 18446744073709551615";
        for (name, program, state, stopped) in [
            ("python3", "python3", "S", false),
            ("a) S (b", "a) S (b", "T", true),
            ("a\n\u{1b}[2J", "a??[2J", "t", true),
        ] {
            let process = Process::parse(&format!("77 ({name}) {state} {rest}\n")).unwrap();
            assert_eq!((process.program.as_str(), process.stopped), (program, stopped));
            assert_eq!((process.start_ticks, process.is_of_kernel), (1_308_733, false));
        }
        let of_kernel = "2 (kthreadd) S 0 0 0 0 -1 2129984 0 0 0 0 0 0 0 0 20 0 1 0 12 0 0\n";
        assert!(Process::parse(of_kernel).unwrap().is_of_kernel);
        assert_eq!(Process::parse("77 (x"), None);
    }

    #[test]
    fn a_child_that_has_ended_and_was_not_waited_for_has_no_files() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        oneflush_testing::wait_until("the child has ended", || {
            Process::of(child.id()).unwrap().has_ended
        });
        assert!(!may_have_files(child.id()) && may_have_files(std::process::id()));
        child.wait().unwrap();
        assert!(!may_have_files(child.id()));
    }

    #[test]
    fn this_process_is_found_with_what_it_has_open() {
        let file = tempfile::tempfile().unwrap();
        let id = FileId::of(&file.metadata().unwrap());
        let own = std::process::id();
        let users = scan(&[id]).unwrap().users;
        assert_eq!((users.len(), users[&own].len()), (1, 1), "{users:?}");
        assert!(is_alive(own) && !Process::of(own).unwrap().stopped);
        drop(file);
        assert!(descriptors(own, &[id]).unwrap().is_empty());
    }
}
