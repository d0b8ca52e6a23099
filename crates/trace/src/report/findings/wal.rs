//! What a database with a rollback journal would write in WAL mode. It is an estimate on the high
//! side:
//! - Each page of a transaction goes once to the WAL, with the header of its frame.
//! - Each page also goes once to the database, as if a checkpoint wrote it anew per transaction.
//! - The append begins and ends within a block.
//!
//! Steady state is assumed: the WAL keeps its size, and the file system journals nothing for a
//! commit.

use std::collections::BTreeMap;

use super::{
    Finding, TRANSACTIONS_COUNT_MIN, amount, count, finding, keeps_old_pages, percent, share,
};
use crate::identify::{JournalMode, Outcome};
use crate::report::collect::Trace;
use crate::report::tables::Tables;

/// A block of the file system, and the page that SQLite has by default.
const BLOCK_BYTES: u64 = 4096;
const FRAME_HEADER_BYTES: u64 = 24;
/// A smaller saving is not worth a change.
const SAVED_SHARE_MIN: f64 = 0.1;
/// So many databases are named: those that save most.
const DATABASES_COUNT_MAX: usize = 2;

#[derive(Default)]
struct Sum {
    transactions: u64,
    bytes: u64,
    wal_bytes: u64,
    flushes: u64,
    modes: BTreeMap<JournalMode, u64>,
}

/// What such a transaction writes in WAL mode, with its part of a checkpoint.
pub(super) fn wal_bytes(db_bytes: u64) -> u64 {
    if db_bytes == 0 {
        return 0;
    }
    let frames = db_bytes.div_ceil(BLOCK_BYTES);
    let appended =
        (db_bytes + frames * FRAME_HEADER_BYTES).div_ceil(BLOCK_BYTES) * BLOCK_BYTES + BLOCK_BYTES;
    appended + db_bytes
}

pub(super) fn findings(trace: &Trace, tables: &Tables) -> Vec<Finding> {
    let mut sums: BTreeMap<u32, Sum> = BTreeMap::new();
    for entry in &trace.entries {
        if !keeps_old_pages(entry.journal_mode) || entry.outcome == Outcome::RolledBack {
            continue;
        }
        let sum = sums.entry(entry.database).or_default();
        sum.transactions += 1;
        sum.bytes += entry.total_bytes();
        sum.wal_bytes += wal_bytes(entry.bytes[0]);
        sum.flushes += entry.flushes;
        *sum.modes.entry(entry.journal_mode).or_default() += 1;
    }
    let saved = |sum: &Sum| sum.bytes.saturating_sub(sum.wal_bytes);
    let mut worth: Vec<(u32, Sum)> = sums
        .into_iter()
        .filter(|(_, sum)| {
            sum.transactions >= TRANSACTIONS_COUNT_MIN
                && share(saved(sum), sum.bytes) >= SAVED_SHARE_MIN
        })
        .collect();
    worth.sort_by_key(|(_, sum)| std::cmp::Reverse(saved(sum)));
    worth.truncate(DATABASES_COUNT_MAX);
    worth
        .into_iter()
        .map(|(database, sum)| said(&trace.databases[database as usize], &sum, tables))
        .collect()
}

fn said(database: &str, sum: &Sum, tables: &Tables) -> Finding {
    let each = |number: u64| number as f64 / sum.transactions as f64;
    let flushes = each(sum.flushes);
    let flushes = if flushes > 1.0 {
        format!(", with 1 flush in place of {flushes:.1}")
    } else {
        String::new()
    };
    let saved = sum.bytes.saturating_sub(sum.wal_bytes);
    let text = format!(
        "In WAL mode, {database} would write about {} a transaction or less in place of \
            {}{flushes}: {} less, {} of all bytes.",
        amount(each(sum.wal_bytes)),
        amount(each(sum.bytes)),
        percent(share(saved, sum.bytes)),
        percent(share(saved, tables.bytes.total())),
    );
    let mode = sum
        .modes
        .iter()
        .max_by_key(|(_, count)| **count)
        .map_or(JournalMode::Unknown, |(mode, _)| *mode);
    let basis = format!(
        "{} transactions with {mode}; an estimate on the high side: each page once to the WAL with \
            its frame's header, once to the database by a \
         checkpoint, and nothing for the file system's journal, as where the WAL keeps its size",
        count(sum.transactions),
    );
    let action = format!(
        "Set PRAGMA journal_mode=WAL once; the database keeps it. To see what it brings on your \
            device: `oneflush bench --dir DIR --modes {},wal`.",
        mode.to_string().to_lowercase()
    );
    finding("wal", tables, text, basis, action)
}
