//! The kernel's lines on locks: those of `/proc/locks`, which `fdinfo` repeats for a descriptor.
//!
//! ```text
//! 3: POSIX  ADVISORY  WRITE 13309 fe:00:10141826 120 120
//! 3: -> POSIX  ADVISORY  WRITE 13311 fe:00:10141826 120 120
//! ```
//!
//! The second line is a process that waits for the first one's lock. The bytes are first and last,
//! or `EOF`. A lock of an open file (`OFDLCK`) has no process, and -1 stands for it.

use std::ops::Range;

use super::files::FileId;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Of a process: `F_SETLK`.
    Posix,
    /// Of an open file: `F_OFD_SETLK`.
    OpenFile,
    /// Of an open file, and of the whole of it.
    Flock,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockLine {
    pub class: Class,
    pub exclusive: bool,
    pub waits: bool,
    /// None: the line has no process.
    pub pid: Option<u32>,
    pub file: FileId,
    pub first: u64,
    pub last: u64,
}

impl LockLine {
    pub fn has(&self, byte: i64) -> bool {
        (self.first..=self.last).contains(&(byte as u64))
    }

    /// The lock is on this byte alone.
    pub fn is_at(&self, byte: i64) -> bool {
        (self.first, self.last) == (byte as u64, byte as u64)
    }

    pub fn begins_in(&self, bytes: Range<i64>) -> bool {
        i64::try_from(self.first).is_ok_and(|first| bytes.contains(&first))
    }
}

/// None: the line is of a lease or of another kind, or a later kernel writes it differently.
pub fn lock_line(line: &str) -> Option<LockLine> {
    let mut words = line.split_whitespace().skip(1).peekable();
    let waits = words.next_if_eq(&"->").is_some();
    let class = match words.next()? {
        "POSIX" => Class::Posix,
        "OFDLCK" => Class::OpenFile,
        "FLOCK" => Class::Flock,
        _ => return None,
    };
    let _advisory = words.next()?;
    let exclusive = match words.next()? {
        "WRITE" => true,
        "READ" => false,
        _ => return None,
    };
    let pid = words.next()?.parse().ok().filter(|&pid| pid > 0);
    let file = file_id(words.next()?)?;
    let first = words.next()?.parse().ok()?;
    let last = match words.next()? {
        "EOF" => u64::MAX,
        last => last.parse().ok()?,
    };
    Some(LockLine { class, exclusive, waits, pid, file, first, last })
}

/// Those of a whole list.
pub fn lock_lines(list: &str) -> Vec<LockLine> {
    list.lines().filter_map(lock_line).collect()
}

/// `fe:00:10141826`: the device in hexadecimal digits, the inode in decimal ones.
fn file_id(text: &str) -> Option<FileId> {
    let mut parts = text.split(':');
    let mut hexadecimal = || u32::from_str_radix(parts.next()?, 16).ok();
    let device = (hexadecimal()?, hexadecimal()?);
    Some(FileId { device, inode: parts.next()?.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Linux 6.18: a reader and a writer of stock SQLite, a board, a turn to close, a lease.
    const LIST: &str = "\
1: OFDLCK ADVISORY  READ -1 fe:00:10141827 1073742336 1073742336
2: FLOCK  ADVISORY  READ 13309 fe:00:10141827 0 EOF
3: POSIX  ADVISORY  WRITE 13309 fe:00:10141826 120 120
3: -> POSIX  ADVISORY  WRITE 13311 fe:00:10141826 120 120
4: POSIX  ADVISORY  READ 13309 fe:00:10141826 124 124
6: POSIX  ADVISORY  READ 13309 fe:00:10141824 1073741826 1073742335
7: LEASE  ACTIVE    READ  13309 fe:00:10141824 0 EOF
8: POSIX  ADVISORY  READ 0 00:2f:77 0 9223372036854775806
9: POSIX  ADVISORY  WRITE 6 <none>:0 0 EOF
";

    #[test]
    fn each_line_is_read_as_the_kernel_writes_it() {
        let lines = lock_lines(LIST);
        assert_eq!(lines.len(), 7, "{lines:?}");
        let of = |at: usize| {
            let line: LockLine = lines[at];
            (line.class, line.exclusive, line.waits, line.pid, line.first, line.last)
        };
        let shared = (0x4000_0002, 0x4000_01ff);
        assert_eq!(of(0), (Class::OpenFile, false, false, None, 0x4000_0200, 0x4000_0200));
        assert_eq!(of(1), (Class::Flock, false, false, Some(13309), 0, u64::MAX));
        assert_eq!(of(2), (Class::Posix, true, false, Some(13309), 120, 120));
        assert_eq!(of(3), (Class::Posix, true, true, Some(13311), 120, 120));
        assert_eq!(of(5), (Class::Posix, false, false, Some(13309), shared.0, shared.1));
        assert_eq!(lines[0].file, FileId { device: (0xfe, 0), inode: 10_141_827 });
        assert_eq!((lines[6].pid, lines[6].file.device), (None, (0, 0x2f)));
    }

    #[test]
    fn other_lines_are_left_out() {
        for line in
            ["", "1:", "1: POSIX", "1: POSIX ADVISORY WRITE x y", "1: ACCESS ADVISORY READ 1"]
        {
            assert_eq!(lock_line(line), None, "{line}");
        }
    }
}
