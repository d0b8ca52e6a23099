//! The invariants of the FTL, as tests ask for them.

use std::collections::HashMap;

use super::{Entry, Ftl, Use};
use crate::geometry::{Block, Logical, Physical, RESERVE_BLOCKS};
use crate::nand::{Kind, Nand};

impl<N: Nand> Ftl<N> {
    /// F1, F2, F4, F5 and F6.
    pub fn check(&self) -> Result<(), String> {
        let mut valid = vec![0; self.geometry.blocks as usize];
        let mut of_record: HashMap<Physical, u32> = HashMap::new();
        for logical in (0..self.geometry.logical_units).map(Logical) {
            match self.table.get(logical) {
                Entry::Never => {}
                Entry::At(unit) => {
                    let oob = self.nand.oob(unit).map_err(|error| error.to_string())?;
                    let names = oob.map(|oob| (oob.kind, oob.logical));
                    if names != Some((Kind::Data, logical)) {
                        return Err(format!("F1: {unit:?} of {logical:?} says {oob:?}"));
                    }
                    valid[self.geometry.block_of(unit).0 as usize] += 1;
                }
                Entry::Trimmed(record) => *of_record.entry(record).or_default() += 1,
            }
            let is_at = matches!(self.table.get(logical), Entry::At(_));
            if self.trimming.contains(&logical) && !is_at {
                return Err(format!("F5: {logical:?} is to be trimmed and is on no unit"));
            }
        }
        for (&record, &count) in &of_record {
            if self.records.get(&record) != Some(&count) {
                return Err(format!("F1: {record:?} trims {count} units"));
            }
            valid[self.geometry.block_of(record).0 as usize] += 1;
        }
        if self.records.len() != of_record.len() {
            return Err(format!("F1: {} records, {of_record:?}", self.records.len()));
        }
        for block in (0..self.geometry.blocks).map(Block) {
            let usage = self.usage[block.0 as usize];
            if usage.valid_units != valid[block.0 as usize] {
                return Err(format!("F6: {block:?} {usage:?}, counted {valid:?}"));
            }
            let is_erased = self.nand.programmed_pages(block) == 0;
            if (usage.is == Use::Free) != is_erased {
                return Err(format!("F4: {block:?} is {usage:?}, erased: {is_erased}"));
            }
        }
        let free = self.usage.iter().filter(|usage| usage.is == Use::Free).count();
        if free != self.free_blocks as usize || free < RESERVE_BLOCKS as usize - 1 {
            return Err(format!("F4: {free} free blocks, counted {}", self.free_blocks));
        }
        self.check_newest()
    }

    /// F2.
    fn check_newest(&self) -> Result<(), String> {
        let sequence_of = |unit| self.nand.oob(unit).ok().flatten().map(|oob| oob.sequence);
        for unit in (0..self.geometry.physical_units()).map(Physical) {
            let Ok(Some(oob)) = self.nand.oob(unit) else { continue };
            if oob.kind != Kind::Data {
                continue;
            }
            let holder = match self.table.get(oob.logical) {
                Entry::Never => None,
                Entry::At(holder) | Entry::Trimmed(holder) => sequence_of(holder),
            };
            if holder.is_none_or(|holder| holder < oob.sequence) {
                return Err(format!("F2: {unit:?} {oob:?} is newer than its holder {holder:?}"));
            }
        }
        Ok(())
    }
}
