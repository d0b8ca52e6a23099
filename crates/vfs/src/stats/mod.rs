//! What a database did to its files, and what its commits cost.
//!
//! Counters belong to one connection, so that connections do not share cache lines on the way of a call; they are added
//! up when somebody asks, and folded into the database's totals when the connection closes. Only a sync and a commit
//! read the clock, and their latencies wait in [`Samples`] before they go to a histogram.

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
