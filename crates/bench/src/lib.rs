//! `oneflush bench` and `oneflush try`: what a commit costs.

pub mod clock;
pub mod commits;
pub mod database;
pub mod environment;
pub mod floor;
pub mod guest;
pub mod handover;
pub mod interrupt;
pub mod kv;
pub mod mode;
pub mod observe;
pub mod paper;
pub mod place;
pub mod probe;
pub mod report;
pub mod run;
pub mod transactions;
pub mod trial;
pub mod workload;

// The SQLite of the programs that stand on this has both B-trees.
use oneflush_sqlite as _;
