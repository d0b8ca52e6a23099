//! Garbage collection: valid units of a victim are copied, then the victim is erased.
//!
//! The host may take a free block when `RESERVE_BLOCKS` are left after it. It waits for that if it
//! must. So that it need not wait for whole blocks at once, garbage collection works ahead. When
//! fewer erased pages are left than `AHEAD_BLOCKS` have on top of what is needed, it copies after
//! each page of the host as much as this page will have cost. With `v` of `n` units
//! valid,
//! `v` copies win room for `n − v` units. A page of the host thus owes `v ÷ (n − v)` pages.
//!
//! A page of copies is always full: where a victim ends within it, the next victim goes on. Without
//! that, nearly full victims would be copied for padding, and nothing be won.

use super::{Entry, Ftl, FtlError, Op, Reason, Stream, Use, Victim};
use crate::geometry::{AHEAD_BLOCKS, Block, OPEN_BLOCKS, Physical, RESERVE_BLOCKS};
use crate::nand::{Cell, Kind, Nand};

impl<N: Nand> Ftl<N> {
    /// The host's next page has a block.
    pub(super) fn make_room(&mut self) -> Result<(), FtlError> {
        while self.host.is_none() && self.free_blocks <= RESERVE_BLOCKS {
            self.collect_page()?;
            self.debt = 0;
        }
        Ok(())
    }

    /// What the page that was just written owes.
    pub(super) fn pay_page(&mut self) -> Result<(), FtlError> {
        if self.has_enough() {
            self.debt = 0;
            return Ok(());
        }
        let Some(victim) = self.victim.or_else(|| self.choose_victim(&[])) else { return Ok(()) };
        let won = u64::from(self.geometry.block_units() - victim.valid_units);
        self.victim = Some(victim);
        self.debt += u64::from(victim.valid_units);
        // A block without valid units costs nothing but its erase.
        while !self.has_enough() && (self.debt >= won || victim.valid_units == 0) {
            self.debt = self.debt.saturating_sub(won);
            self.collect_page()?;
            if self.victim.is_none() {
                break;
            }
        }
        Ok(())
    }

    /// Counted are erased pages, in free blocks and in open ones. When the host's block is full,
    /// one free block must be there beyond the reserve; up to another one is in the block for
    /// copies. A victim gives its pages back only at its end, hence those that are ahead.
    fn has_enough(&self) -> bool {
        let block_pages = self.geometry.block_pages();
        let open = [self.host, self.collection].into_iter().flatten();
        let in_open: u32 = open.map(|open| block_pages - open.next_page).sum();
        let enough_blocks = RESERVE_BLOCKS + OPEN_BLOCKS + AHEAD_BLOCKS;
        self.free_blocks * block_pages + in_open >= enough_blocks * block_pages
    }

    /// Greedy: fewest valid units, then lowest number. A block that is all valid wins nothing.
    fn choose_victim(&self, but_not: &[Block]) -> Option<Victim> {
        let block_units = self.geometry.block_units();
        (0..self.geometry.blocks)
            .map(Block)
            .filter(|block| !but_not.contains(block))
            .map(|block| (block, self.usage[block.0 as usize]))
            .filter(|(_, usage)| usage.is == Use::Full && usage.valid_units < block_units)
            .min_by_key(|(_, usage)| usage.valid_units)
            .map(|(block, usage)| Victim { block, next_unit: 0, valid_units: usage.valid_units })
    }

    /// Copies up to a page, then erases what has nothing left (F3).
    fn collect_page(&mut self) -> Result<(), FtlError> {
        let page_units = self.geometry.page_units() as usize;
        let mut cells: Vec<Cell> = Vec::with_capacity(page_units);
        let mut from = Vec::with_capacity(page_units);
        let mut drained = Vec::new();
        while cells.len() < page_units {
            // Victims end one with the other, unless a page is begun.
            if self.victim.is_none() && cells.is_empty() && !drained.is_empty() {
                break;
            }
            let Some(mut victim) = self.victim.take().or_else(|| self.choose_victim(&drained))
            else {
                break;
            };
            match self.next_valid(&mut victim)? {
                Some(unit) => {
                    cells.push(self.copy(unit)?);
                    from.push(unit);
                    self.victim = Some(victim);
                }
                None => drained.push(victim.block),
            }
        }
        if cells.is_empty() && drained.is_empty() {
            return Err(FtlError::Full);
        }
        #[cfg(test)]
        if self.flaw == super::Flaw::ErasesFirst {
            self.erase_all(std::mem::take(&mut drained))?;
        }
        if !cells.is_empty() {
            self.program_copies(cells, &from)?;
        }
        self.erase_all(drained)
    }

    fn next_valid(&self, victim: &mut Victim) -> Result<Option<Physical>, FtlError> {
        let block_units = self.geometry.block_units();
        if self.usage[victim.block.0 as usize].valid_units == 0 {
            return Ok(None);
        }
        while victim.next_unit < block_units {
            let unit = Physical(victim.block.0 * block_units + victim.next_unit);
            victim.next_unit += 1;
            if self.is_valid(unit)? {
                return Ok(Some(unit));
            }
        }
        Ok(None)
    }

    fn copy(&mut self, unit: Physical) -> Result<Cell, FtlError> {
        let payload = self.nand.read(unit)?;
        self.note_read(unit, Reason::Collection);
        let oob = self.nand.oob(unit)?.ok_or(FtlError::Full)?;
        #[cfg(test)]
        let oob = match self.flaw {
            // As if the copy were what the host wrote last.
            super::Flaw::CopiesAsNew => {
                crate::nand::Oob { sequence: self.next_sequence() + 1000, ..oob }
            }
            _ => oob,
        };
        Ok(Cell { oob, payload })
    }

    fn program_copies(&mut self, cells: Vec<Cell>, from: &[Physical]) -> Result<(), FtlError> {
        let kinds: Vec<_> = cells.iter().map(|cell| (cell.oob.kind, cell.oob.logical)).collect();
        let page = self.next_page(Stream::Collection)?;
        self.program(page, cells, Reason::Collection)?;
        let first = self.geometry.first_unit(page);
        for (index, (&old, (kind, logical))) in from.iter().zip(kinds).enumerate() {
            let new = Physical(first.0 + index as u32);
            match kind {
                Kind::Data => {
                    self.supersede(logical, Entry::At(new));
                    self.hold(new);
                    self.ops.push(Op::Update { logical });
                }
                Kind::Trim => self.move_record(old, new)?,
                Kind::Padding => {}
            }
        }
        Ok(())
    }

    fn erase_all(&mut self, blocks: Vec<Block>) -> Result<(), FtlError> {
        for block in blocks {
            self.nand.erase(block)?;
            self.ops.push(Op::Erase);
            let usage = &mut self.usage[block.0 as usize];
            usage.is = Use::Free;
            self.free_blocks += 1;
        }
        Ok(())
    }
}
