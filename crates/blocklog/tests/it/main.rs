//! The integration tests of this crate, in one program.
//!
//! `make units` runs each module in a process of its own: they share nothing that is process-wide.

mod common;
mod delta;
mod direct_file;
mod directory;
mod epochs;
mod epochs_model;
mod epochs_torn;
mod group;
mod model;
mod page_cache;
mod torn;
mod validity;
mod writing;
