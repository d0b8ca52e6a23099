//! Where things are on the guest's disk.
//!
//! | bytes | what |
//! |---|---|
//! | 0 | the partition table, which no state has |
//! | 1 MiB | the partition of the file system. Its last 512 bytes are never used |
//! | behind it | the partition of the notes, to the end of the disk |

use std::str::FromStr;

pub const MIB: u64 = 1 << 20;

/// What a device reads and writes at once.
pub const SECTOR_BYTES: u64 = 512;

/// Behind the file system, so that nothing of it is there: the stamp of a state.
pub const SLACK_BYTES: u64 = MIB;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Of the file system and the slack.
    pub fs_bytes: u64,
}

/// Where the partition of the file system begins.
const FS_START: u64 = MIB;

impl Layout {
    /// The layout for a file system of so many bytes.
    pub fn of(fs_bytes: u64) -> Layout {
        Layout { fs_bytes: fs_bytes + SLACK_BYTES }
    }

    pub fn notes_start(self) -> u64 {
        FS_START + self.fs_bytes
    }

    /// Bytes in the file system's partition, or in that of the notes.
    pub fn part(self, offset: u64) -> Part {
        if offset >= self.notes_start() {
            Part::Notes
        } else if offset >= FS_START {
            Part::FileSystem(offset - FS_START)
        } else {
            Part::Table
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    Table,
    /// So many bytes into the partition.
    FileSystem(u64),
    Notes,
}

/// The size of the file system in MiB.
impl FromStr for Layout {
    type Err = String;

    fn from_str(word: &str) -> Result<Layout, String> {
        match word.parse::<u64>() {
            Ok(mib @ 1..=65_536) => Ok(Layout::of(mib * MIB)),
            _ => Err(format!("\"{word}\" is no number of MiB from 1 to 65536")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_follow_one_another() {
        let layout: Layout = "64".parse().unwrap();
        assert_eq!(layout.part(MIB - 1), Part::Table);
        assert_eq!(layout.part(MIB), Part::FileSystem(0));
        assert_eq!(layout.part(66 * MIB - 1), Part::FileSystem(65 * MIB - 1));
        assert_eq!(layout.part(66 * MIB), Part::Notes);
        assert!("0".parse::<Layout>().is_err());
    }
}
