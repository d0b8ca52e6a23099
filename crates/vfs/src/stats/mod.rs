//! What a database did to its files, and what its commits cost.
//!
//! Counters belong to one connection, so that connections share no cache lines while they count.
//! They are added up when somebody asks. When a connection closes, its counters are added to the
//! database's totals. Only syncs and commits read the clock. Their latencies wait in [`Samples`]
//! before they go to a histogram.

pub mod clock;
mod commit;
mod latency;
mod report;
mod samples;
mod tally;

pub use commit::CommitTracker;
pub use report::{Measured, Report, State};
pub use samples::{Sample, Samples};
pub use tally::{Counters, Tally, add, add_alone};
