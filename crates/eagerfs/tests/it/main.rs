//! The integration tests of this crate, in one program.
//!
//! `make units` runs each module in a process of its own: they share nothing that is process-wide.

#![cfg(feature = "mount")]

mod common;
mod directory;
mod lifecycle;
mod posix;
mod random;
mod syncs;
