//! The integration tests of this crate, in one program.
//!
//! `make units` runs each module in a process of its own: they share nothing that is process-wide.

#![cfg(feature = "mount")]

mod common;
mod directory;
#[cfg(feature = "mutants")]
mod invariants;
mod lifecycle;
mod panics;
mod posix;
mod races;
mod random;
mod syncs;
