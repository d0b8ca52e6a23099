//! A WAL that nobody empties. Where no checkpoint copies pages of it, it only grows.
//!
//! Who is in the way does not show: a reader's lock is no event of the trace.

use super::finding::{Finding, finding};
use crate::report::collect::Trace;
use crate::report::databases::OTHER_DATABASES;
use crate::report::tables::Tables;
use crate::report::words::{amount, count};

/// Eight times what SQLite lets a WAL grow to by default: 1,000 pages of 4 KB.
const UNCHECKED_BYTES_MIN: u64 = 32 << 20;

pub(super) fn findings(trace: &Trace, tables: &Tables) -> Vec<Finding> {
    let names = trace.databases.iter().zip(&trace.tally.databases);
    let worst = names
        .filter(|(name, _)| *name != OTHER_DATABASES)
        .max_by_key(|(_, database)| database.wal.bytes_max);
    let Some((name, database)) =
        worst.filter(|(_, database)| database.wal.bytes_max >= UNCHECKED_BYTES_MIN)
    else {
        return Vec::new();
    };
    let text = format!(
        "{} went to the WAL of {name} in one go, and no checkpoint copied a page of it.",
        amount(database.wal.bytes_max as f64)
    );
    let basis = format!(
        "{} transactions of this database; SQLite checkpoints every 1,000 pages by default",
        count(database.volumes.count())
    );
    let action = "Ask a connection for PRAGMA wal_autocheckpoint: with 0 nobody checkpoints. Else \
        look for a connection that keeps a snapshot: a statement that is not reset, a \
        transaction that is left open. While one does, PRAGMA wal_checkpoint(TRUNCATE) answers \
        with busy=1.";
    vec![finding("unchecked wal", tables, text, basis, action)]
}
