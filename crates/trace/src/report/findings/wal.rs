//! What a database with a rollback journal would write in WAL mode. It is an estimate on the high
//! side:
//! - Each page of a transaction goes once to the WAL, with the header of its frame.
//! - Each page also goes once to the database, as if a checkpoint wrote it anew per transaction.
//! - The append begins and ends within a block.
//!
//! Steady state is assumed: the WAL keeps its size, and the file system journals nothing for a
//! commit.

use super::finding::{Finding, TRANSACTIONS_COUNT_MIN, finding, share};
use crate::identify::JournalMode;
use crate::report::collect::Trace;
use crate::report::databases::OTHER_DATABASES;
use crate::report::tables::Tables;
use crate::report::tally::{OfDatabase, Undo, keeps_old_pages};
use crate::report::words::{amount, count, percent};

/// A smaller saving is not worth a change.
const SAVED_SHARE_MIN: f64 = 0.1;
/// So many databases are named: those that save most.
const DATABASES_COUNT_MAX: usize = 2;

pub(super) fn findings(trace: &Trace, tables: &Tables) -> Vec<Finding> {
    let saved = |undo: &Undo| undo.bytes.saturating_sub(undo.wal_bytes);
    let mut worth: Vec<(usize, &OfDatabase)> = trace
        .tally
        .databases
        .iter()
        .enumerate()
        .filter(|(_, OfDatabase { undo, .. })| {
            undo.count >= TRANSACTIONS_COUNT_MIN
                && share(saved(undo), undo.bytes) >= SAVED_SHARE_MIN
        })
        .filter(|(number, _)| trace.databases[*number] != OTHER_DATABASES)
        .collect();
    worth.sort_by_key(|(_, database)| std::cmp::Reverse(saved(&database.undo)));
    worth.truncate(DATABASES_COUNT_MAX);
    worth
        .into_iter()
        .map(|(number, database)| said(&trace.databases[number], database, tables))
        .collect()
}

fn said(database: &str, of: &OfDatabase, tables: &Tables) -> Finding {
    let sum = &of.undo;
    let each = |number: u64| number as f64 / sum.count as f64;
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
    let mode = of
        .modes
        .iter()
        .filter(|((mode, _), _)| keeps_old_pages(*mode))
        .max_by_key(|(_, count)| *count)
        .map_or(JournalMode::Unknown, |((mode, _), _)| *mode);
    let basis = format!(
        "{} transactions with {mode}; an estimate on the high side: each page once to the WAL with \
            its frame's header, once to the database by a \
         checkpoint, and nothing for the file system's journal, as where the WAL keeps its size",
        count(sum.count),
    );
    let action = format!(
        "Set PRAGMA journal_mode=WAL once; the database keeps it. To see what it brings on your \
            device: `oneflush bench --dir DIR --modes {},wal`.",
        mode.to_string().to_lowercase()
    );
    finding("wal", tables, text, basis, action)
}
