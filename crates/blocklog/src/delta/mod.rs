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
//! What no operation names is as in the base; equal pages have an empty delta. A copy is there for one habit of SQLite's
//! B-tree: a new cell moves the two-byte pointers behind its own by two bytes, up to some hundred of them. Who reads a delta
//! must have the base that the writer had; nothing in it tells.

mod apply;
mod encode;

pub use apply::apply;
pub use encode::{encode, encode_from_zeros};
