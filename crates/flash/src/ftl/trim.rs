//! Trims: the host needs a unit no more. It reads as zeros from then on.
//!
//! | a loss of power | leaves of a trimmed unit |
//! |---|---|
//! | before the flush after it | what was there before the trim, or zeros |
//! | after that flush | zeros |
//!
//! The flush writes *records*: units of the array that list ranges. A record is valid as long as
//! one of its units is trimmed by it. Each valid record stands for a unit without data, so that
//! there are never more valid units than logical ones. A unit that was never written needs no
//! record.
//!
//! A record has the bytes `count`, then `count` × (`first`, `length`), each a `u32`, low byte
//! first.

use super::{Entry, Ftl, FtlError, Item, Op};
use crate::geometry::{Logical, Physical};
use crate::nand::Nand;

const RANGE_BYTES: usize = 8;
const COUNT_BYTES: usize = 4;

pub(super) fn encode(ranges: &[(Logical, u32)], unit_bytes: u32) -> Box<[u8]> {
    let mut bytes = Vec::with_capacity(unit_bytes as usize);
    bytes.extend((ranges.len() as u32).to_le_bytes());
    for (first, length) in ranges {
        bytes.extend(first.0.to_le_bytes());
        bytes.extend(length.to_le_bytes());
    }
    bytes.resize(unit_bytes as usize, 0);
    bytes.into()
}

pub(super) fn decode(bytes: &[u8]) -> Vec<(Logical, u32)> {
    let mut words =
        bytes.chunks_exact(4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]));
    let count = words.next().unwrap_or(0) as usize;
    let mut ranges = Vec::with_capacity(count.min(bytes.len() / RANGE_BYTES));
    while ranges.len() < count {
        let (Some(first), Some(length)) = (words.next(), words.next()) else { break };
        ranges.push((Logical(first), length));
    }
    ranges
}

fn units(ranges: &[(Logical, u32)]) -> impl Iterator<Item = Logical> + '_ {
    ranges.iter().flat_map(|&(first, length)| (first.0..first.0 + length).map(Logical))
}

impl<N: Nand> Ftl<N> {
    /// From now on the unit reads as zeros.
    pub fn trim(&mut self, logical: Logical) {
        if let Entry::At(_) = self.table.get(logical) {
            #[cfg(test)]
            if self.flaw == super::Flaw::ForgetsTrimmed {
                return self.supersede(logical, Entry::Never);
            }
            self.trimming.insert(logical);
        }
    }

    /// The host writes the unit. A trim that no record says yet is void, so that a record never
    /// says it of what is newer than the trim.
    pub fn keep(&mut self, logical: Logical) {
        self.trimming.remove(&logical);
    }

    /// Records of what was trimmed and is not yet written, for the next pages.
    pub fn trims_to_write(&self) -> Vec<Item> {
        let mut ranges: Vec<(Logical, u32)> = Vec::new();
        for &logical in &self.trimming {
            match ranges.last_mut() {
                Some((first, length)) if first.0 + *length == logical.0 => *length += 1,
                _ => ranges.push((logical, 1)),
            }
        }
        let of_record = (self.geometry.shape.unit_bytes as usize - COUNT_BYTES) / RANGE_BYTES;
        ranges.chunks(of_record).map(|chunk| Item::Trim(chunk.to_vec())).collect()
    }

    /// A record is programmed.
    pub(super) fn trimmed(&mut self, record: Physical, ranges: &[(Logical, u32)]) {
        let mut count = 0;
        for logical in units(ranges) {
            if self.trimming.remove(&logical) {
                self.supersede(logical, Entry::Trimmed(record));
                self.ops.push(Op::Update { logical });
                count += 1;
            }
        }
        if count > 0 {
            self.records.insert(record, count);
            self.hold(record);
        }
    }

    /// Garbage collection has copied a record.
    pub(super) fn move_record(&mut self, from: Physical, to: Physical) -> Result<(), FtlError> {
        let Some(count) = self.records.remove(&from) else { return Ok(()) };
        let ranges = decode(&self.nand.read(to)?.unwrap_or_default());
        for logical in units(&ranges) {
            if self.table.get(logical) == Entry::Trimmed(from) {
                self.table.set(logical, Entry::Trimmed(to));
            }
        }
        self.records.insert(to, count);
        self.invalidate(from);
        self.hold(to);
        Ok(())
    }
}
