//! The WAL index (`-shm`): how far each read mark is behind the newest frame.
//!
//! "WAL-mode File Format" of SQLite, section 2: `mxFrame` is at byte 16 of the header, `nBackfill`
//! at byte 96, and `aReadMark` at byte 100. The numbers are in the byte order of the machine.
//!
//! A process that uses the database with SQLite must not open the file: the close would take all
//! its locks away. It has the index mapped, and `/proc/self/mem` reads what is mapped.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::files::FileId;

pub const MARKS: usize = 5;
const BYTES: usize = 136;
const IS_INIT_AT: usize = 12;
const NEWEST_AT: usize = 16;
const COPIED_AT: usize = 96;
const MARKS_AT: usize = 100;
/// `READMARK_NOT_USED` of wal.c.
const NOT_USED: u32 = u32::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Index {
    newest: u32,
    copied: u32,
    marks: [u32; MARKS],
}

impl Index {
    /// None: the index has no content yet.
    fn of(bytes: &[u8; BYTES]) -> Option<Index> {
        let word = |at: usize| {
            u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        (bytes[IS_INIT_AT] != 0).then(|| Index {
            newest: word(NEWEST_AT),
            copied: word(COPIED_AT),
            marks: std::array::from_fn(|mark| word(MARKS_AT + 4 * mark)),
        })
    }

    /// Frames that no checkpoint has copied into the database file yet.
    pub fn not_copied(&self) -> u32 {
        self.newest.saturating_sub(self.copied)
    }

    /// By how many frames the mark is behind the newest one. None: it stands for no frame. Mark 0
    /// is that of a reader who needs no WAL.
    pub fn frames_behind(&self, mark: usize) -> Option<u64> {
        let frame = *self.marks.get(mark)?;
        (mark > 0 && frame != NOT_USED).then(|| self.newest.saturating_sub(frame).into())
    }
}

/// For a process that does not use the database with SQLite.
pub fn read(index: &Path) -> Option<Index> {
    let mut bytes = [0; BYTES];
    File::open(index).ok()?.read_exact(&mut bytes).ok()?;
    Index::of(&bytes)
}

/// From the memory of this process. None: the index is not mapped here.
pub fn read_mapped(ids: [FileId; 2]) -> Option<Index> {
    let maps = fs::read_to_string("/proc/self/maps").ok()?;
    let address = maps.lines().find_map(|line| address_of_map(line, ids))?;
    let mut bytes = [0; BYTES];
    File::open("/proc/self/mem").ok()?.read_exact_at(&mut bytes, address).ok()?;
    Index::of(&bytes)
}

/// Where the beginning of the file is mapped, in a line such as `7f25602-7f25604 rw-s 00000000
/// fe:00 10141826 /d/a.db-shm`.
fn address_of_map(line: &str, ids: [FileId; 2]) -> Option<u64> {
    let mut words = line.split_whitespace();
    let (from, _) = words.next()?.split_once('-')?;
    let (rights, offset) = (words.next()?, words.next()?);
    let (major, minor) = words.next()?.split_once(':')?;
    let hexadecimal = |text| u32::from_str_radix(text, 16).ok();
    let id = FileId {
        device: (hexadecimal(major)?, hexadecimal(minor)?),
        inode: words.next()?.parse().ok()?,
    };
    let is_it = rights.starts_with('r') && offset.trim_start_matches('0').is_empty();
    (is_it && ids.contains(&id)).then(|| u64::from_str_radix(from, 16).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: FileId = FileId { device: (0xfe, 0), inode: 10_141_826 };

    #[test]
    fn a_mark_is_behind_by_the_frames_after_it() {
        let mut bytes = [0; BYTES];
        assert_eq!(Index::of(&bytes), None);
        bytes[IS_INIT_AT] = 1;
        for (at, value) in
            [(NEWEST_AT, 40), (96, 30), (100, 0), (104, 40), (108, 12), (112, NOT_USED)]
        {
            bytes[at..at + 4].copy_from_slice(&u32::to_ne_bytes(value));
        }
        let index = Index::of(&bytes).unwrap();
        let behind: Vec<_> = (0..4).map(|mark| index.frames_behind(mark)).collect();
        assert_eq!(behind, [None, Some(0), Some(28), None]);
        assert_eq!((index.frames_behind(MARKS), index.not_copied()), (None, 10));
    }

    #[test]
    fn the_map_with_the_beginning_of_the_file_is_found() {
        let line = "7f256023c000-7f2560244000 rw-s 00000000 fe:00 10141826           /x/a.db-shm";
        assert_eq!(address_of_map(line, [ID, ID]), Some(0x7f25_6023_c000));
        for other in [
            line.replace("00000000", "00008000"),
            line.replace("10141826", "10141827"),
            line.replace("fe:00", "fe:01"),
            line.replace("rw-s", "-w-s"),
            "7f25-7f26 rw-p 00000000 00:00 0".to_owned(),
        ] {
            assert_eq!(address_of_map(&other, [ID, ID]), None, "{other}");
        }
    }
}
