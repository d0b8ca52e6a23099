//! Which processes have one of the files open, by `/proc/PID/fd`; and what a process is.
//!
//! A descriptor is compared by device and inode. So another name of the file, another root and
//! another mount do not matter. Nobody is asked for fresh attributes: a server that is away would
//! keep the answer back (`AT_STATX_DONT_SYNC`).

use std::collections::BTreeMap;
use std::fs;

use rustix::fs::{AtFlags, Dir, Mode, OFlags, StatxFlags, open, statx};
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
            None => scan.unseen += usize::from(!is_of_kernel(pid)),
        }
    }
    Ok(scan)
}

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
    for entry in Dir::read_from(&folder).ok()? {
        let entry = match entry {
            Ok(entry) => entry,
            Err(errno) if is_forbidden(errno) => return None,
            Err(_) => break,
        };
        let name = entry.file_name();
        if name.to_bytes().starts_with(b".") {
            continue;
        }
        let stat = match statx(&folder, name, AtFlags::STATX_DONT_SYNC, StatxFlags::INO) {
            Ok(stat) => stat,
            Err(errno) if is_forbidden(errno) => return None,
            // It has been closed meanwhile.
            Err(_) => continue,
        };
        let id = FileId { device: (stat.stx_dev_major, stat.stx_dev_minor), inode: stat.stx_ino };
        if let Some(file) = files.iter().position(|file| *file == id) {
            found.push(Open { descriptor: name.to_string_lossy().into_owned(), file });
        }
    }
    Some(found)
}

/// What `/proc/PID/stat` says, which everybody may read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    pub program: String,
    /// By a signal or a debugger.
    pub stopped: bool,
    /// Tells it from a later process with the same number.
    pub start_ticks: u64,
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
            is_of_kernel: number(9)? & OF_KERNEL != 0,
        })
    }
}

/// A thread of the kernel opens no files.
fn is_of_kernel(pid: u32) -> bool {
    Process::of(pid).is_some_and(|process| process.is_of_kernel)
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
