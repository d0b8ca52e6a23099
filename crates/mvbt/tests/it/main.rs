//! The integration tests of this crate, in one program.
//!
//! `make units` runs each module in a process of its own: they share nothing that is process-wide.

mod anchors;
mod api;
mod backup;
mod cells_ahead;
mod common;
mod crash;
mod cursors;
mod damage;
mod errors;
mod example;
mod handles;
mod history;
mod hostile;
#[cfg(feature = "mutants")]
mod invariants;
#[cfg(feature = "kill-points")]
mod kills;
mod limits;
mod lowered;
mod model;
mod prepared;
mod races;
mod read_only;
mod roots;
mod shrink;
mod stats;
mod torn;
mod users;
mod writers;
mod writes;
