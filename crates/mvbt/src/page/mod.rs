//! A page of a tree: two directories, and the cells that they list.
//!
//! ```text
//! | header 16 | slot 0 | slot 1 | … cells and directories, anywhere … |
//!                │        └──▶ directory of version 12: offsets of live cells, of dead ones
//!                └───────────▶ directory of version 9 (the fallback)
//! ```
//!
//! A write fills the slot that is not active, and adds cells and a directory in free space. So
//! the active directory, and all that it lists, is there however the write is torn by sectors.
//! The rules R1 to R5 and the invariants I2 to I6 are in docs/mvbt-format.md.
//!
//! | question | file |
//! |---|---|
//! | the bytes of a cell | `cell.rs` |
//! | what a slot says, and when a directory is valid | `slot.rs` |
//! | a page as it was read; what a reader of some version sees | `image.rs` |
//! | a page that a transaction changes | `draft.rs` |
//! | which bytes of it are free | `gaps.rs` |
//! | a part of a long payload | `overflow.rs` |

pub mod cell;
pub mod draft;
mod gaps;
pub mod image;
pub mod overflow;
pub mod slot;

/// Header and slots.
pub const HEADER_BYTES: usize = 80;
pub const PAGE_BYTES_MIN: usize = 512;
pub const PAGE_BYTES_MAX: usize = 65_536;
