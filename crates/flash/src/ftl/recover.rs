//! The table, built again from the array after a loss of power. Nothing is written for that.
//!
//! Each readable unit is asked for its out-of-band data; the largest sequence number wins (F2). Of
//! two copies with the same number, which garbage collection leaves, the first one does: they are
//! the same. Blocks that are partly filled are open again. A block that is half erased counts as
//! full with nothing valid, so that garbage collection erases it next.

use super::{Entry, Ftl, FtlError, Open, Use, trim};
use crate::geometry::{Block, Logical, Physical};
use crate::nand::{Kind, Nand, NandError, Oob};

impl<N: Nand> Ftl<N> {
    /// Takes an array as a loss of power has left it, or a new one.
    pub fn recover(nand: N) -> Result<Ftl<N>, FtlError> {
        let mut ftl = Ftl::empty(nand);
        let mut newest = vec![0_u64; ftl.geometry.logical_units as usize];
        for block in (0..ftl.geometry.blocks).map(Block) {
            let pages = ftl.nand.programmed_pages(block);
            if pages > 0 {
                ftl.adopt_block(block, pages);
                ftl.read_block(block, pages, &mut newest)?;
            }
        }
        ftl.count();
        Ok(ftl)
    }

    fn adopt_block(&mut self, block: Block, pages: u32) {
        self.free_blocks -= 1;
        let usage = &mut self.usage[block.0 as usize];
        usage.is = Use::Full;
        if pages == self.geometry.block_pages() {
            return;
        }
        let mut open = Open { block, next_page: pages };
        // Garbage collection gets the one with more room, or else it could take the last free
        // block.
        if self.collection.is_none_or(|other| other.next_page > pages) {
            usage.is = Use::Open;
            match self.collection.replace(open) {
                Some(other) => open = other,
                None => return,
            }
        }
        // More than two are never open, and a full one is right in any case.
        let is = if self.host.is_none() { Use::Open } else { Use::Full };
        self.usage[open.block.0 as usize].is = is;
        self.host.get_or_insert(open);
    }

    fn read_block(&mut self, block: Block, pages: u32, newest: &mut [u64]) -> Result<(), FtlError> {
        if self.nand.is_half_erased(block) {
            return Ok(());
        }
        let first = block.0 * self.geometry.block_units();
        for unit in (first..first + pages * self.geometry.page_units()).map(Physical) {
            let oob = match self.nand.oob(unit) {
                Ok(Some(oob)) => oob,
                Ok(None) | Err(NandError::Torn { .. }) => continue,
                Err(error) => return Err(error.into()),
            };
            self.sequence = self.sequence.max(oob.sequence);
            self.read_unit(unit, oob, newest)?;
        }
        Ok(())
    }

    fn read_unit(&mut self, unit: Physical, oob: Oob, newest: &mut [u64]) -> Result<(), FtlError> {
        let (ranges, entry) = match oob.kind {
            Kind::Padding => return Ok(()),
            Kind::Data => (vec![(oob.logical, 1)], Entry::At(unit)),
            Kind::Trim => {
                let bytes = self.nand.read(unit)?.unwrap_or_default();
                (trim::decode(&bytes), Entry::Trimmed(unit))
            }
        };
        for (first, length) in ranges {
            for logical in first.0..first.0.saturating_add(length) {
                // Out of range: not ours; nothing here writes such a number.
                let Some(seen) = newest.get_mut(logical as usize) else { break };
                if *seen < oob.sequence {
                    *seen = oob.sequence;
                    self.table.set(Logical(logical), entry);
                }
            }
        }
        Ok(())
    }

    fn count(&mut self) {
        for logical in (0..self.geometry.logical_units).map(Logical) {
            match self.table.get(logical) {
                Entry::Never => {}
                Entry::At(unit) => self.hold(unit),
                Entry::Trimmed(record) => *self.records.entry(record).or_insert(0) += 1,
            }
        }
        let records: Vec<Physical> = self.records.keys().copied().collect();
        for record in records {
            self.hold(record);
        }
    }
}
