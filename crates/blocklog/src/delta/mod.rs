//! The difference between two versions of a page.
//!
//! A delta is a row of operations, each for the bytes behind those of the one before:
//!
//! ```text
//! varint  skip * 2 + copy      so many bytes are as in the base
//! varint  length               of what follows; not 0
//! copy 0: length bytes         the page's
//! copy 1: varint shift         zigzag; the page has here what the base has `shift` bytes further on
//! ```
//! What no operation names is as in the base; equal pages have an empty delta. A copy is there for the habits of SQLite's
//! B-tree: a new cell moves the two-byte pointers behind its own by two bytes, up to some hundred of them ([`encode`] looks for
//! just that); a page is laid out anew, or its cells go to other pages ([`Row`]). Who reads a delta must have the base that the
//! writer had; nothing in it tells.
//!
//! The pages of a record stand in a **row**, one behind the other, and a copy may reach beyond its own page into the bases of the
//! others, where the record says that it does.

mod apply;
mod encode;
mod moved;

pub use apply::{apply, apply_in_row, sources};
pub use encode::{encode, encode_from_zeros};
pub use moved::Row;

/// The pages of a record between which there may be copies, at most.
pub const ROW_PAGES_MAX: usize = 64;
