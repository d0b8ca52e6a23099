//! The integration tests of this crate, in one program.
//!
//! `make units` runs each module in a process of its own: they share nothing that is process-wide.

mod controls;
mod eagerfs;
mod findings;
mod lsmvbt;
mod mending;
#[cfg(feature = "mutants")]
mod mutants;
mod mvbt;
mod share;
mod states;
mod workloads;
