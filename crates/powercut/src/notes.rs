//! What the guest's application knows about its commits, written to the same disk as they are.
//!
//! So the disk's own log has commits and notes in one order. The note of an acknowledged commit is
//! written after COMMIT returned. A cut behind that note must leave the commit.
//!
//! Each note has a block of its own, as JSON with zeros behind. It is written by direct I/O.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Mutex;

use oneflush_blocklog::AlignedBuffer;
use oneflush_crashlab::{Mark, Setting, Workload};
use serde::{Deserialize, Serialize};

/// What each note has. Devices with sectors of 4 KiB take it, too.
pub const NOTE_BYTES: usize = 4096;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Note {
    /// A run of one workload begins, in a directory of its own.
    Case {
        case: usize,
        workload: Workload,
        seed: u64,
        setting: Setting,
    },
    Mark {
        case: usize,
        mark: Mark,
    },
    /// Processes with plain files begin (`files`).
    Files {
        seed: u64,
    },
    /// One of these begins a step, or has done it.
    Step {
        process: usize,
        step: usize,
        is_done: bool,
    },
}

pub fn directory_of(case: usize) -> String {
    format!("case{case}")
}

pub struct Notes {
    file: File,
    next: Mutex<(u64, AlignedBuffer)>,
}

impl Notes {
    /// `start`: where the notes of this process begin.
    pub fn open(path: &Path, start: u64) -> io::Result<Notes> {
        let file = OpenOptions::new().write(true).custom_flags(libc::O_DIRECT).open(path)?;
        Ok(Notes { file, next: Mutex::new((start, AlignedBuffer::zeroed(NOTE_BYTES))) })
    }

    /// Writes a note behind those before.
    pub fn write(&self, note: &Note) -> io::Result<()> {
        let text = serde_json::to_vec(note)?;
        if text.len() > NOTE_BYTES {
            return Err(io::Error::other(format!("a note of {} bytes", text.len())));
        }
        let mut next = self.next.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let (place, block) = &mut *next;
        block.fill(0);
        block[..text.len()].copy_from_slice(&text);
        self.file.write_all_at(block, *place)?;
        *place += NOTE_BYTES as u64;
        Ok(())
    }
}

/// Reads a block that [`Notes::write`] has written.
pub fn parse(block: &[u8]) -> Result<Note, String> {
    let end = block.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    serde_json::from_slice(&block[..end]).map_err(|error| format!("a note: {error}"))
}

/// Notes as text, a line each.
pub fn to_lines<'a>(notes: impl Iterator<Item = &'a Note>) -> Result<String, String> {
    notes
        .map(|note| Ok(serde_json::to_string(note).map_err(|error| error.to_string())? + "\n"))
        .collect()
}

pub fn parse_lines(text: &str) -> Result<Vec<Note>, String> {
    text.lines().map(|line| parse(line.as_bytes())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_read_as_it_was_written() {
        let dir = tempfile::tempdir_in("/var/tmp").unwrap();
        let path = dir.path().join("notes");
        File::create(&path).unwrap();
        let notes = Notes::open(&path, 0).unwrap();
        let setting = Setting::of("eager");
        let wanted = [
            Note::Case { case: 0, workload: Workload::One, seed: 7, setting },
            Note::Mark { case: 0, mark: Mark::Begun { file: 0, order: 1, digest: u64::MAX } },
        ];
        wanted.iter().for_each(|note| notes.write(note).unwrap());
        let bytes = std::fs::read(&path).unwrap();
        let found: Vec<Note> =
            bytes.chunks(NOTE_BYTES).map(|block| parse(block).unwrap()).collect();
        assert_eq!(found, wanted);
        assert_eq!(parse_lines(&to_lines(wanted.iter()).unwrap()).unwrap(), wanted);
        assert!(parse(&[0; NOTE_BYTES]).is_err());
    }
}
