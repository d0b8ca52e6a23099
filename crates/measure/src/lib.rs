//! What a commit costs: places, workloads, runs, and what reaches the block device.

pub mod clock;
pub mod database;
pub mod environment;
pub mod floor;
pub mod handover;
pub mod interrupt;
pub mod mode;
pub mod observe;
pub mod place;
pub mod probe;
pub mod run;
pub mod trial;
pub mod workload;
pub mod written;

// The SQLite of the programs that stand on this has both B-trees.
use oneflush_sqlite as _;
