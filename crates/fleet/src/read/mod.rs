//! Reads a data set once, from its first file to its last, and sums up what was asked for.
//!
//! ```text
//! traces/        what each trace says of itself                    traces.rs
//! transactions/  files, with the values of their folders           files.rs
//!   → a file     is asked for as a whole, or row by row, or not    condition.rs
//!   → rows       arrays of the columns that are needed             rows.rs
//!   → entries    of each group, into its tally                     scan.rs, group.rs
//! ```
//!
//! A value that all rows of a file share comes from the folder's name or from the trace's row. Only
//! others are looked at row by row. A file that cannot be read is a line in
//! [`Answer::problems`], and the others go on.

mod condition;
mod entries;
mod files;
mod group;
mod guard;
mod rows;
mod scan;
mod traces;

pub use condition::Filter;
pub use group::{Cluster, Group, Known};
pub use scan::{Answer, Compare, EXACT_BELOW, Question, Watch, ask};
pub(crate) use traces::files_of_trace;
