//! The log that QEMU's driver `blklogwrites` keeps of a disk, in the format of the device mapper's
//! target `log-writes` (Linux, Documentation/admin-guide/device-mapper/log-writes.rst).
//!
//! | offset, in little endian | what |
//! |---|---|
//! | 0 | superblock: magic (8 bytes), version (8), number of entries (8), sector size (4) |
//! | one sector on | entry: sector (8), sectors (8), flags (8), length of a mark (8); data |
//!
//! QEMU (7.2) appends an entry when its operation has ended. So a write that stands before a flush
//! ended before that flush did. Whether the flush covers it is not said: it is taken as covered.
//! The guest's application waits for its flush before it acknowledges.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use oneflush_crashlab::{Data, Op};

use crate::forced::Forced;
use crate::layout::{Layout, Part, SECTOR_BYTES};
use crate::notes::{self, Note};

/// The file system's partition is the one file of the simulated disk.
pub const FILE_SYSTEM: u32 = 1;

const MAGIC: u64 = 0x006a_7366_7773_6872;
const VERSION: u64 = 1;
const FLUSH: u64 = 1;
const FUA: u64 = 2;
const DISCARD: u64 = 4;
const MARK: u64 = 8;
const ENTRY_BYTES: usize = 32;

#[derive(Debug, thiserror::Error)]
pub enum LogError {
    #[error("{0}")]
    Read(#[from] io::Error),
    #[error("this is no log of written blocks: it does not begin with the magic number")]
    NoLog,
    #[error("the log has version {0}; version 1 is known")]
    Version(u64),
    #[error("the log has sectors of {0} bytes; powers of two from 512 to 65536 are known")]
    SectorSize(u64),
    #[error("entry {number} {what}")]
    Entry { number: u64, what: String },
    #[error("the guest's trace lacks the write of entry {number}: it has lost events")]
    NotTraced { number: u64 },
}

/// What a disk was asked to do, in order.
#[derive(Default)]
pub struct WriteLog {
    /// Writes to the file system's partition, and flushes.
    pub ops: Vec<Op>,
    /// Each note, and how many operations stand before it.
    pub notes: Vec<(usize, Note)>,
}

impl WriteLog {
    /// `forced`: by the guest's trace, which begins before the first note. Without it no write was.
    /// The trace ends before the guest unmounts. The log counts up to there.
    pub fn read(
        file: &File,
        layout: Layout,
        mut forced: Option<Forced>,
    ) -> Result<WriteLog, LogError> {
        let mut superblock = [0; 28];
        file.read_exact_at(&mut superblock, 0)?;
        let word =
            |at: usize| u64::from_le_bytes(superblock[at..at + 8].try_into().unwrap_or_default());
        if word(0) != MAGIC {
            return Err(LogError::NoLog);
        }
        if word(8) != VERSION {
            return Err(LogError::Version(word(8)));
        }
        let entries = word(16);
        let sector_bytes =
            u64::from(u32::from_le_bytes(superblock[24..28].try_into().unwrap_or_default()));
        if !sector_bytes.is_power_of_two() || !(512..=65_536).contains(&sector_bytes) {
            return Err(LogError::SectorSize(sector_bytes));
        }
        let mut log = WriteLog::default();
        let mut place = sector_bytes;
        let mut untraced = None;
        for number in 0..entries {
            let mut entry = [0; ENTRY_BYTES];
            file.read_exact_at(&mut entry, place)?;
            place += sector_bytes;
            let word =
                |at: usize| u64::from_le_bytes(entry[at..at + 8].try_into().unwrap_or_default());
            let (sector, sectors, flags) = (word(0), word(8), word(16));
            if flags & (DISCARD | MARK) != 0 || flags & !(FLUSH | FUA) != 0 {
                let what = format!("has flags {flags:#x}: only writes and flushes are known");
                return Err(LogError::Entry { number, what });
            }
            if flags & FLUSH != 0 {
                log.ops.push(Op::Sync { ino: FILE_SYSTEM, covers: None, forced: false });
            }
            if sectors == 0 {
                continue;
            }
            let mut data = vec![0; (sectors * sector_bytes) as usize];
            file.read_exact_at(&mut data, place)?;
            place += sectors * sector_bytes;
            let in_512 = sector_bytes / SECTOR_BYTES;
            let counts = !log.notes.is_empty() || layout.part(sector * sector_bytes) == Part::Notes;
            let traced = forced
                .as_mut()
                .filter(|_| counts)
                .map(|forced| forced.next(sector * in_512, sectors * in_512));
            if traced == Some(None) {
                untraced.get_or_insert((number, log.ops.len(), log.notes.len()));
            }
            let entered = log.enter(layout, sector * sector_bytes, data);
            entered.map_err(|what| LogError::Entry { number, what })?;
            if flags & FUA != 0 || traced == Some(Some(true)) {
                log.ops.push(Op::Sync { ino: FILE_SYSTEM, covers: None, forced: true });
            }
        }
        match untraced {
            Some((number, _, notes)) if notes < log.notes.len() => {
                Err(LogError::NotTraced { number })
            }
            Some((_, ops, _)) => {
                log.ops.truncate(ops);
                Ok(log)
            }
            None => Ok(log),
        }
    }

    fn enter(&mut self, layout: Layout, offset: u64, data: Vec<u8>) -> Result<(), String> {
        match layout.part(offset) {
            Part::Table => Ok(()),
            Part::FileSystem(offset) => {
                self.ops.push(Op::Write { ino: FILE_SYSTEM, offset, data: Data(data.into()) });
                Ok(())
            }
            Part::Notes => {
                for block in data.chunks(notes::NOTE_BYTES) {
                    self.notes.push((self.ops.len(), notes::parse(block)?));
                }
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::MIB;

    fn entry(sector: u64, sectors: u64, flags: u64, data: &[u8]) -> Vec<u8> {
        let mut bytes: Vec<u8> =
            [sector, sectors, flags, 0].iter().flat_map(|word| word.to_le_bytes()).collect();
        bytes.resize(512, 0);
        bytes.extend_from_slice(data);
        bytes
    }

    fn log_of(magic: u64, entries: &[Vec<u8>]) -> Result<WriteLog, LogError> {
        traced_log_of(magic, entries, None)
    }

    fn traced_log_of(
        magic: u64,
        entries: &[Vec<u8>],
        forced: Option<Forced>,
    ) -> Result<WriteLog, LogError> {
        let mut bytes: Vec<u8> =
            [magic, 1, entries.len() as u64].iter().flat_map(|word| word.to_le_bytes()).collect();
        bytes.extend_from_slice(&512u32.to_le_bytes());
        bytes.resize(512, 0);
        entries.iter().for_each(|entry| bytes.extend_from_slice(entry));
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(&bytes, 0).unwrap();
        WriteLog::read(&file, Layout::of(MIB), forced)
    }

    #[test]
    fn writes_flushes_and_notes_keep_their_order() {
        let mark = oneflush_crashlab::Mark::Begun { file: 0, order: 1, digest: 2 };
        let note = Note::Mark { case: 3, mark };
        let mut block = serde_json::to_vec(&note).unwrap();
        block.resize(notes::NOTE_BYTES, 0);
        let fs = MIB / 512;
        let log = log_of(
            MAGIC,
            &[
                entry(0, 1, 0, &[9; 512]),
                entry(fs + 2, 1, 0, &[1; 512]),
                entry(0, 0, FLUSH, &[]),
                entry(3 * fs, 8, 0, &block),
                entry(fs, 1, FUA, &[2; 512]),
            ],
        )
        .unwrap();
        assert!(matches!(
            log.ops[..],
            [
                Op::Write { offset: 1024, .. },
                Op::Sync { forced: false, .. },
                Op::Write { offset: 0, .. },
                Op::Sync { forced: true, .. },
            ]
        ));
        assert_eq!(log.notes, [(2, note)]);
    }

    #[test]
    fn a_trace_says_what_was_forced_and_where_the_log_ends() {
        let mark = oneflush_crashlab::Mark::Begun { file: 0, order: 1, digest: 2 };
        let mut block = serde_json::to_vec(&Note::Mark { case: 3, mark }).unwrap();
        block.resize(notes::NOTE_BYTES, 0);
        let fs = MIB / 512;
        let note = entry(3 * fs, 8, 0, &block);
        let event = |flags: &str, sector: u64, sectors: u64| {
            format!("x [000] 1.0: block_rq_issue: 259,0 {flags} 0 () {sector} + {sectors} [x]\n")
        };
        let noted = event("WS", 3 * fs, 8);
        let trace = [noted.clone(), event("WFS", fs, 1), event("W", fs + 1, 1)].concat();
        let forced = || Some(Forced::parse(&trace, 3 * fs).unwrap());
        let writes = [1, 2, 3].map(|byte| entry(fs + byte - 1, 1, 0, &[byte as u8; 512]));
        let [first, second, third] = writes;
        let entries = [note.clone(), first, second, third.clone()];
        let log = traced_log_of(MAGIC, &entries, forced()).unwrap();
        assert!(matches!(
            log.ops[..],
            [Op::Write { .. }, Op::Sync { forced: true, .. }, Op::Write { offset: 512, .. }]
        ));
        let lost = traced_log_of(MAGIC, &[note.clone(), third, note], forced());
        assert!(matches!(lost, Err(LogError::NotTraced { number: 1 })));
    }

    #[test]
    fn what_is_not_known_is_refused() {
        assert!(matches!(log_of(1, &[]), Err(LogError::NoLog)));
        assert!(matches!(
            log_of(MAGIC, &[entry(0, 0, DISCARD, &[])]),
            Err(LogError::Entry { number: 0, .. })
        ));
        assert!(matches!(
            log_of(MAGIC, &[entry(3 * MIB / 512, 1, 0, &[1; 512])]),
            Err(LogError::Entry { .. })
        ));
    }
}
