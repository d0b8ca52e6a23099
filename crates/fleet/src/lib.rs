//! The transactions of many devices as a data set: a folder of Parquet files, whose columns,
//! folders and rules are defined by `docs/dataset.md`.
//!
//! ```text
//! transactions of one trace → rows → Parquet files → renamed into their places    write/
//! labels and times that a trace does not say itself                               labels.rs
//! data set → files → rows that were asked for → figures of each group             read/
//! two groups → ratios with their bounds                                           compare.rs
//! ```
//!
//! Invariants:
//! 1. A file that a reader may see is whole and synced. It is written under another name, in a
//!    folder whose name begins with a dot.
//! 2. The files of a trace carry its ID. Whoever writes a trace touches only files of that ID.
//! 3. Rows and their order depend on the trace, its labels and the given times alone. So writers of
//!    the same trace write the same bytes, and it does not matter who is last.
//! 4. The row in `traces` comes after the trace's transactions, and names all their files.
//! 5. Neither a writer nor a reader keeps more than some groups of rows. A reader keeps sums, and
//!    exact values below a million transactions.

mod compare;
mod dataset;
mod error;
mod folders;
mod labels;
mod read;
mod schema;
mod write;

pub use compare::{CONFIDENCE_PERCENT, Comparison, Ratio};
pub use dataset::Dataset;
pub use error::FleetError;
pub use labels::{Labels, LabelsFile, time};
pub use read::{Answer, Cluster, Compare, EXACT_BELOW, Filter, Group, Question, Watch, ask};
pub use schema::{Column, DAY, Kind, TRACES, TRANSACTIONS, VERSION};
pub use write::{Moment, Source, Told, TraceWriter, Written};
