//! The integration tests of this crate, in one program.
//!
//! `make laboratory` runs each module in a process of its own.

mod usage;
