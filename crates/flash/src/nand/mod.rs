//! The array: pages that are programmed once, in order, and blocks that are erased whole.
//!
//! Beside the bytes of a unit lie its out-of-band data ([`Oob`]): whose they are, and how new. From
//! them alone the table is built again after a loss of power.
//!
//! **Invariants.** A violation is an error, never a silent change.
//!
//! - **N1** *Erase before program.* A page is programmed once after each erase of its block.
//! - **N2** *In order.* The pages of a block are programmed from the first to the last.
//! - **N3** *Torn is unreadable.* A program or an erase that lost its power half-way leaves pages
//!   that answer with an error. They never answer with old or mixed bytes.
//! - **N4** *A torn page is used.* The block goes on with the page after it, or is erased.

mod array;
mod store;

pub use array::Array;
pub use store::Store;

use crate::geometry::{Block, Geometry, Logical, Page, Physical};

/// The bytes of a unit. `None`: zeros, which take no room.
pub type Payload = Option<Box<[u8]>>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Data,
    /// A list of ranges that were trimmed; the logical number means nothing.
    Trim,
    /// A page was programmed before it was full.
    Padding,
}

/// Out-of-band data of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Oob {
    pub kind: Kind,
    pub logical: Logical,
    /// The larger, the newer. A copy by garbage collection keeps it.
    pub sequence: u64,
}

/// A unit on its way to the array.
#[derive(Clone, Debug)]
pub struct Cell {
    pub oob: Oob,
    pub payload: Payload,
}

#[derive(Debug, thiserror::Error)]
pub enum NandError {
    #[error("page {page} is not erased: erase block {block} first (N1)")]
    NotErased { page: u32, block: u32 },
    #[error("page {page} of block {block} is not the next one, which is {next} (N2)")]
    OutOfOrder { page: u32, block: u32, next: u32 },
    #[error("unit {unit} is not programmed")]
    Erased { unit: u32 },
    #[error("unit {unit} is unreadable: power was lost while it was programmed or erased (N3)")]
    Torn { unit: u32 },
    #[error("a page takes {expected} units, not {given}")]
    Cells { expected: u32, given: usize },
    #[error("{number} is outside of the array")]
    Outside { number: u32 },
    #[error("power is off")]
    PowerOff,
    #[error("image of the flash: {0}")]
    Image(#[from] std::io::Error),
}

/// What an FTL may ask of an array.
pub trait Nand {
    fn geometry(&self) -> &Geometry;
    /// The bytes of a unit that is programmed.
    fn read(&mut self, unit: Physical) -> Result<Payload, NandError>;
    /// `None`: erased.
    fn oob(&self, unit: Physical) -> Result<Option<Oob>, NandError>;
    /// Programs a page whole.
    fn program(&mut self, page: Page, cells: &[Cell]) -> Result<(), NandError>;
    fn erase(&mut self, block: Block) -> Result<(), NandError>;
    /// Pages of the block that were begun to be programmed since its erase.
    fn programmed_pages(&self, block: Block) -> u32;
    /// The block was left half erased, and must be erased again.
    fn is_half_erased(&self, block: Block) -> bool;
    fn erases(&self, block: Block) -> u32;
    /// The array counts erases from 0 again.
    fn forget_wear(&mut self);
}
