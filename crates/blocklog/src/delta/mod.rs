//! The difference between two versions of a page.
//!
//! A delta is a list of operations. Each is for the bytes behind those of the operation before:
//!
//! ```text
//! varint  skip * 2 + copy      so many bytes are as in the base
//! varint  length               of what follows; not 0
//! copy 0: length bytes         the page's
//! copy 1: varint shift         zigzag; the page has what the base has `shift` bytes further on
//! ```
//! What no operation names is as in the base. Equal pages have an empty delta. A reader must have
//! the base that the writer had; nothing in the delta tells.
//!
//! Copies are for two habits of SQLite's B-tree:
//!
//! - A new cell moves the two-byte pointers behind its own by two bytes, up to some hundred of
//!   them. [`encode()`] looks for just that.
//! - A page is laid out anew, or its cells go to other pages. [`Row`] looks for that.
//!
//! The pages of a record stand in a **row**, one behind the other. Where the record says so, a copy
//! may reach beyond its own page into the bases of the others.

mod apply;
mod encode;
mod moved;

pub use apply::{apply, apply_in_row, sources};
pub use encode::{encode, encode_from_zeros};
pub use moved::Row;

/// A record with more pages has no copies between them.
pub const ROW_PAGES_MAX: usize = 64;
