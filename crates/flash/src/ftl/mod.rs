//! A page-mapped flash translation layer (FTL): each unit is written where there is room.
//!
//! The table says where the newest of each logical unit lies. It is in memory only; after a loss of
//! power it is built again from the out-of-band data ([`Ftl::recover`]). Host and garbage
//! collection have an open block each. The victim is the full block with the fewest valid units
//! (greedy), of those the one with the lowest number. A free block is taken by the fewest erases.
//!
//! **Invariants.**
//!
//! - **F1** *One holder.* A logical unit has at most one valid physical unit, and that one's
//!   out-of-band data name it. A trim record is valid as long as a unit of it is trimmed by it.
//! - **F2** *The holder is the newest.* No readable copy of a logical unit has a larger sequence
//!   number than its holder. Garbage collection keeps the numbers.
//! - **F3** *Copy before erase.* A block is erased when it has no valid unit.
//! - **F4** *Room.* Of the free blocks, the host leaves `RESERVE_BLOCKS` to garbage collection.
//!   Between two writes there is at least one.
//! - **F5** *A trim holds on until it is written.* The unit stays valid until a record says that it
//!   is trimmed. Otherwise its block could be erased, and an older copy would be the newest.
//! - **F6** *Counts.* The count of valid units of each block is right.

mod collect;
mod op;
mod recover;
mod trim;
mod write;

#[cfg(test)]
pub(crate) mod checks;
#[cfg(test)]
pub(crate) mod power;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use rustc_hash::FxHashMap;

use crate::geometry::{Block, Geometry, Logical, Page, Physical};
use crate::nand::{Kind, Nand, NandError, Payload};
pub use op::{Op, Reason};

#[derive(Debug, thiserror::Error)]
pub enum FtlError {
    #[error(transparent)]
    Nand(#[from] NandError),
    #[error(
        "no free block is left, and no block has an invalid unit: \
         take a larger spare_share (losses of power have used up the room)"
    )]
    Full,
}

/// What the host has for one unit of a page.
#[derive(Clone, Debug)]
pub enum Item {
    Data(Logical, Payload),
    /// Ranges of units that are trimmed: first and count.
    Trim(Vec<(Logical, u32)>),
}

/// Where the newest of a logical unit is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Entry {
    Never,
    At(Physical),
    /// By this record.
    Trimmed(Physical),
}

/// The table, of four bytes a unit. Physical units are below 2³⁰.
#[derive(Debug)]
struct Table(Vec<u32>);

impl Table {
    const NEVER: u32 = u32::MAX;
    const TRIMMED: u32 = 1 << 31;

    fn get(&self, logical: Logical) -> Entry {
        match self.0[logical.0 as usize] {
            Self::NEVER => Entry::Never,
            entry if entry & Self::TRIMMED != 0 => Entry::Trimmed(Physical(entry & !Self::TRIMMED)),
            entry => Entry::At(Physical(entry)),
        }
    }

    fn set(&mut self, logical: Logical, entry: Entry) {
        self.0[logical.0 as usize] = match entry {
            Entry::Never => Self::NEVER,
            Entry::At(unit) => unit.0,
            Entry::Trimmed(record) => record.0 | Self::TRIMMED,
        };
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    Free,
    Open,
    Full,
}

#[derive(Clone, Copy, Debug)]
struct Usage {
    is: Use,
    valid_units: u32,
}

/// A block that is being filled.
#[derive(Clone, Copy, Debug)]
struct Open {
    block: Block,
    next_page: u32,
}

/// A block whose valid units garbage collection copies.
#[derive(Clone, Copy, Debug)]
struct Victim {
    block: Block,
    /// Units before this one are done.
    next_unit: u32,
    /// When it was chosen.
    valid_units: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stream {
    Host,
    Collection,
}

/// What is broken on purpose, for tests of the tests.
#[cfg(test)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Flaw {
    #[default]
    None,
    /// F3.
    ErasesFirst,
    /// F5.
    ForgetsTrimmed,
    /// F2.
    CopiesAsNew,
    /// Of the device: a flush leaves its cache alone.
    KeepsCache,
}

#[derive(Debug)]
pub struct Ftl<N> {
    nand: N,
    geometry: Geometry,
    table: Table,
    usage: Vec<Usage>,
    free_blocks: u32,
    host: Option<Open>,
    collection: Option<Open>,
    victim: Option<Victim>,
    /// What garbage collection owes, see `collect`.
    debt: u64,
    sequence: u64,
    /// Valid trim records, with how many units are trimmed by each.
    records: FxHashMap<Physical, u32>,
    /// Trimmed, and not yet written (F5).
    trimming: BTreeSet<Logical>,
    ops: Vec<Op>,
    #[cfg(test)]
    pub(crate) flaw: Flaw,
}

impl<N: Nand> Ftl<N> {
    /// On an array that has nothing yet.
    fn empty(nand: N) -> Ftl<N> {
        let geometry = *nand.geometry();
        Ftl {
            geometry,
            nand,
            table: Table(vec![Table::NEVER; geometry.logical_units as usize]),
            usage: vec![Usage { is: Use::Free, valid_units: 0 }; geometry.blocks as usize],
            free_blocks: geometry.blocks,
            host: None,
            collection: None,
            victim: None,
            debt: 0,
            sequence: 1,
            records: FxHashMap::default(),
            trimming: BTreeSet::new(),
            ops: Vec::new(),
            #[cfg(test)]
            flaw: Flaw::None,
        }
    }

    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }
    pub fn nand(&self) -> &N {
        &self.nand
    }
    pub fn nand_mut(&mut self) -> &mut N {
        &mut self.nand
    }
    /// What a loss of power leaves.
    pub fn into_nand(self) -> N {
        self.nand
    }
    /// What was done to the array since the last call.
    pub fn take_ops(&mut self) -> Vec<Op> {
        std::mem::take(&mut self.ops)
    }

    /// The newest bytes; `None` are zeros.
    pub fn read(&mut self, logical: Logical) -> Result<Payload, FtlError> {
        self.ops.push(Op::Lookup { logical });
        match self.table.get(logical) {
            Entry::At(unit) if !self.trimming.contains(&logical) => {
                let payload = self.nand.read(unit)?;
                self.note_read(unit, Reason::Host);
                Ok(payload)
            }
            _ => Ok(None),
        }
    }

    /// One page read for all units in a row that are on the same page.
    fn note_read(&mut self, unit: Physical, reason: Reason) {
        let page = self.geometry.page_of(unit);
        let read = Op::Read { lane: self.geometry.lane_of(page), page, reason };
        let last = self.ops.iter().rev().find(|op| !matches!(op, Op::Lookup { .. }));
        if last != Some(&read) {
            self.ops.push(read);
        }
    }

    /// Whether a physical unit is what its logical unit, or a trimmed one, has for its newest.
    fn is_valid(&self, unit: Physical) -> Result<bool, FtlError> {
        Ok(match self.nand.oob(unit) {
            Ok(Some(oob)) => match oob.kind {
                Kind::Data => self.table.get(oob.logical) == Entry::At(unit),
                Kind::Trim => self.records.contains_key(&unit),
                Kind::Padding => false,
            },
            Ok(None) | Err(NandError::Torn { .. }) => false,
            Err(error) => return Err(error.into()),
        })
    }

    /// The logical unit has a new holder; the old one is invalid from here on.
    fn supersede(&mut self, logical: Logical, by: Entry) {
        match self.table.get(logical) {
            Entry::Never => {}
            Entry::At(unit) => self.invalidate(unit),
            Entry::Trimmed(record) => {
                if let Some(left) = self.records.get_mut(&record) {
                    *left -= 1;
                    if *left == 0 {
                        self.records.remove(&record);
                        self.invalidate(record);
                    }
                }
            }
        }
        self.table.set(logical, by);
    }

    fn invalidate(&mut self, unit: Physical) {
        let block = self.geometry.block_of(unit);
        self.usage[block.0 as usize].valid_units -= 1;
    }

    /// The next page of a stream, whose block is taken from the free ones if need be.
    fn next_page(&mut self, stream: Stream) -> Result<Page, FtlError> {
        let open = match stream {
            Stream::Host => self.host,
            Stream::Collection => self.collection,
        };
        let mut open = match open {
            Some(open) => open,
            None => Open { block: self.take_free()?, next_page: 0 },
        };
        let page = self.geometry.page(open.block, open.next_page);
        open.next_page += 1;
        let is_full = open.next_page == self.geometry.block_pages();
        if is_full {
            self.usage[open.block.0 as usize].is = Use::Full;
        }
        let open = (!is_full).then_some(open);
        match stream {
            Stream::Host => self.host = open,
            Stream::Collection => self.collection = open,
        }
        Ok(page)
    }

    /// The free block with the fewest erases, of those the first.
    fn take_free(&mut self) -> Result<Block, FtlError> {
        let free = (0..self.geometry.blocks)
            .map(Block)
            .filter(|block| self.usage[block.0 as usize].is == Use::Free)
            .min_by_key(|&block| self.nand.erases(block))
            .ok_or(FtlError::Full)?;
        self.usage[free.0 as usize].is = Use::Open;
        self.free_blocks -= 1;
        Ok(free)
    }

    fn next_sequence(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence
    }
}
