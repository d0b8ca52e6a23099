//! The integration tests of this crate, in one program.
//!
//! `make units` runs each module in a process of its own: they share nothing that is process-wide.

mod common;
mod latency;
#[cfg(feature = "serve")]
mod serve;
mod write_amplification;
