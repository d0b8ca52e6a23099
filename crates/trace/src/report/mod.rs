//! What transactions cost, over whole traces.
//!
//! The tables and figures are those of section 4 of "On the IO characteristics of the SQLite
//! transactions" (MobileSoft'16). There are also findings in words, and a page that shows all.
//!
//! ```text
//! transactions → entries    what is kept of each; the requests of a few  collect.rs, entry.rs,
//!                                                                        sample.rs
//!              → tally      sums, and numbers for quantiles               tally.rs, values.rs,
//!                                                                        by_class.rs
//!              → tables     quantiles, sums, shares, curves              tables.rs, quantiles.rs,
//!                                                                        databases.rs
//!              → findings   sentences with their numbers                 findings/, words.rs
//!              → page       one HTML file                                page.rs, columns.rs,
//!                                                                        ../../assets
//! events, transactions → lines of a trace for ui.perfetto.dev            perfetto.rs, depth.rs
//! ```
//!
//! Tables and findings come from the tally alone. So they can be had of more transactions than
//! memory holds (`crates/fleet`).
//!
//! Events are never kept. Of a transaction some 120 bytes are kept, and of a few of each database
//! the single requests.
//!
//! Differences to the paper:
//! - Metadata of the file system outside its journal is a class of its own.
//! - Rolled back transactions count, since they cost as well.
//! - A transaction over several databases counts for the one whose super-journal it has.

mod by_class;
mod collect;
mod columns;
mod databases;
mod depth;
mod entry;
mod findings;
mod page;
mod perfetto;
mod quantiles;
mod sample;
mod tables;
mod tally;
mod values;
mod words;

pub use by_class::ByClass;
pub use collect::{Collector, Trace};
pub use databases::{DatabaseRow, OTHER_DATABASES};
pub use entry::Entry;
pub use findings::Finding;
pub use page::{frame, page};
pub use perfetto::Perfetto;
pub use quantiles::{Curve, Quantiles, curve, quantile};
pub use sample::{Sample, Why};
pub use tables::Tables;
pub use tally::Tally;
pub use words::count as grouped;

use serde::Serialize;

/// The classes of bytes in the order of all arrays by class.
pub const CLASSES: [&str; 4] = ["db", "journal", "fs journal", "metadata"];

/// All that is said of some traces.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    pub traces: Vec<Tables>,
    pub findings: Vec<Finding>,
}

impl Report {
    /// Later traces are compared with the first one.
    pub fn new(traces: &[Trace]) -> Report {
        let tables: Vec<Tables> = traces.iter().map(Tables::new).collect();
        let mut findings = findings::compare(&tables);
        findings.extend(findings::each(traces, &tables));
        Report { traces: tables, findings }
    }

    /// The caller has compared the traces, and says what he found.
    pub fn compared(traces: &[Trace], compared: Vec<Finding>) -> Report {
        let tables: Vec<Tables> = traces.iter().map(Tables::new).collect();
        let mut findings = compared;
        findings.extend(findings::each(traces, &tables));
        Report { traces: tables, findings }
    }
}
