//! How many frames a commit appended to a WAL, and how many pages it kept in a journal, from what
//! reached the device.
//!
//! A frame is a header of 24 bytes and a page, so frames begin anywhere in a block, and a block
//! that two commits share is written twice. The bytes between the ends of two commits are whole
//! frames but for a part of a block, and the parts add up: the count is exact over many commits.

use crate::identify::Access;
use crate::model::{FRAME_HEADER_BYTES, SECTOR_BYTES, WAL_HEADER_BYTES};

use super::cost::BLOCK_BYTES;

const BLOCK_SECTORS: u64 = BLOCK_BYTES / SECTOR_BYTES;
/// SQLite's header of a journal takes a sector of its own, and a page there has its number and a
/// checksum.
const JOURNAL_HEADER_BYTES: u64 = 512;
const JOURNAL_RECORD_BYTES: u64 = 8;

/// Where a WAL ends.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct WalEnd {
    /// The sector behind the last block.
    sector: u64,
    /// Bytes and frames since the WAL began, as far as the trace shows it.
    bytes: u64,
    frames: u64,
}

impl WalEnd {
    /// Takes the writes of a commit to its WAL; gives how many frames they hold.
    pub fn append(&mut self, writes: &[Access], page_bytes: u64) -> u32 {
        let frame_bytes = page_bytes + FRAME_HEADER_BYTES;
        if writes.iter().any(|write| write.is_call) {
            // Calls say the very bytes. The header of the WAL is less than a frame.
            let bytes: u64 = writes.iter().map(|write| write.bytes).sum();
            return count(bytes / frame_bytes);
        }
        let mut writes: Vec<(u64, u64)> =
            writes.iter().map(|write| (write.sector, write.bytes)).collect();
        writes.sort_unstable();
        let Some(&(first, _)) = writes.first() else { return 0 };
        let goes_on = first < self.sector && first + BLOCK_SECTORS >= self.sector;
        if first != self.sector && !goes_on {
            // It begins anew, or goes on elsewhere on the device.
            *self = WalEnd::default();
        }
        if self.sector == 0 {
            // The header, or the part of a block that the commit before has left.
            self.bytes = 0u64.wrapping_sub(WAL_HEADER_BYTES);
        }
        let mut end = if goes_on { self.sector } else { first };
        for (sector, bytes) in writes {
            let behind = sector + bytes / SECTOR_BYTES;
            // A block that is written again counts once.
            let begin = if sector <= end { end } else { sector };
            self.bytes =
                self.bytes.wrapping_add(behind.saturating_sub(begin.min(behind)) * SECTOR_BYTES);
            end = end.max(behind);
        }
        self.sector = end;
        let bytes = self.bytes.cast_signed().max(0).cast_unsigned();
        let frames = (bytes / frame_bytes).max(self.frames);
        let appended = (frames - self.frames).max(1);
        self.frames += appended;
        count(appended)
    }
}

/// How many pages a rollback journal of so many bytes holds, without the rewriting of its header.
pub(super) fn journaled(bytes: u64, page_bytes: u64) -> u32 {
    count(bytes.saturating_sub(JOURNAL_HEADER_BYTES) / (page_bytes + JOURNAL_RECORD_BYTES))
}

fn count(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identify::Class;
    use crate::model::DeviceId;

    /// The writes of commits with so many frames each, to a WAL that lies at `sector`.
    fn commits(frames: &[u64], page_bytes: u64, sector: u64) -> Vec<Access> {
        let mut at = WAL_HEADER_BYTES;
        let mut writes = Vec::new();
        for (number, frames) in frames.iter().enumerate() {
            let begin = if number == 0 { 0 } else { at / BLOCK_BYTES * BLOCK_BYTES };
            at += frames * (page_bytes + FRAME_HEADER_BYTES);
            writes.push(Access {
                begin_ns: 0,
                done_ns: 0,
                device: DeviceId::default(),
                sector: sector + begin / SECTOR_BYTES,
                bytes: at.next_multiple_of(BLOCK_BYTES) - begin,
                class: Class::Journal,
                flushes: 0,
                is_call: false,
            });
        }
        writes
    }

    #[test]
    fn frames_are_counted_across_the_blocks_that_commits_share() {
        for page_bytes in [1024, 4096, 8192, 65_536] {
            let frames: Vec<u64> = (0..400).map(|number| 1 + number * 7 % 5).collect();
            let mut end = WalEnd::default();
            let mut found = 0;
            for write in commits(&frames, page_bytes, 8000) {
                found += u64::from(end.append(&[write], page_bytes));
            }
            let truth: u64 = frames.iter().sum();
            let error = found.abs_diff(truth);
            assert!(error <= 4, "{page_bytes}: {found} of {truth}");
        }
    }

    #[test]
    fn a_wal_that_begins_anew_is_counted_anew() {
        let mut end = WalEnd::default();
        for _ in 0..3 {
            let found: u32 = commits(&[2; 100], 4096, 8000)
                .into_iter()
                .map(|write| end.append(&[write], 4096))
                .sum();
            assert!((199..=201).contains(&found), "{found}");
        }
    }

    #[test]
    fn a_journal_holds_its_header_and_a_record_a_page() {
        assert_eq!(journaled(16_384, 4096), 3);
        assert_eq!(journaled(8192, 4096), 1);
        assert_eq!(journaled(0, 4096), 0);
    }
}
