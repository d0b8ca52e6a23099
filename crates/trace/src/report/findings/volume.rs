//! Where the bytes go.

use super::finding::{Finding, finding, share, transactions};
use crate::identify::JournalMode;
use crate::report::collect::Trace;
use crate::report::databases::OTHER_DATABASES;
use crate::report::entry::Entry;
use crate::report::tables::Tables;
use crate::report::tally::Tally;
use crate::report::words::{amount, count, percent};

/// A smaller share of journaling is nothing to speak of.
const JOURNALING_SHARE_MIN: f64 = 0.5;
/// A database with so much of all bytes is named.
const HEAVY_SHARE_MIN: f64 = 0.3;
/// A transaction is exceptionally large from so many medians on, and from so many bytes.
const LARGE_MEDIANS_MIN: f64 = 100.0;
const LARGE_BYTES_MIN: u64 = 1 << 20;
const CHECKPOINT_SHARE_MIN: f64 = 0.1;
const FLUSHES_MIN: f64 = 2.0;

/// What `eager` asks of others, wherever it is advised.
const GUARD: &str = "its guard keeps stock SQLite from opening the file meanwhile";

pub(super) fn findings(trace: &Trace, tables: &Tables) -> Vec<Finding> {
    [
        journaling(trace, tables),
        heavy(trace, tables),
        flushes(trace, tables),
        checkpoints(trace, tables),
        largest(trace, tables),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn journaling(trace: &Trace, tables: &Tables) -> Option<Finding> {
    let bytes = &tables.bytes;
    let of_all = |part| share(part, bytes.total());
    let journaling = of_all(bytes.journal + bytes.fs_journal);
    (journaling >= JOURNALING_SHARE_MIN).then(|| {
        let text = format!(
            "{} of the bytes are journaling: SQLite's journal {}, the file system's {}. The \
                databases themselves are {}.",
            percent(journaling),
            percent(of_all(bytes.journal)),
            percent(of_all(bytes.fs_journal)),
            percent(of_all(bytes.db)),
        );
        let action = if mostly_rollback(&trace.tally) {
            "Set PRAGMA journal_mode=WAL; the database keeps it.".to_owned()
        } else if bytes.fs_journal > bytes.journal && strategy(trace).is_none() {
            "Let the -wal file keep its size: keep one connection open, and leave PRAGMA \
                journal_size_limit at -1; or start \
             the program with `oneflush run -- CMD`, which makes the space ahead."
                .to_owned()
        } else {
            let rows = "Put more rows into a transaction (BEGIN … COMMIT).";
            match strategy(trace) {
                None | Some("plain") => format!(
                    "{rows} Fewer bytes for the same rows: `oneflush run --strategy eager -- CMD`; \
                     {GUARD}."
                ),
                Some(_) => rows.to_owned(),
            }
        };
        finding("journaling", tables, text, whole(tables), action)
    })
}

fn heavy(trace: &Trace, tables: &Tables) -> Option<Finding> {
    let databases = tables.databases.iter().filter(|row| row.database != OTHER_DATABASES);
    let row = databases.max_by_key(|row| row.bytes.total())?;
    (tables.databases.len() > 1 && row.share_of_bytes >= HEAVY_SHARE_MIN).then(|| {
        let text = format!(
            "{} alone writes {} of all bytes, with {} of the transactions.",
            row.database,
            percent(row.share_of_bytes),
            percent(row.share_of_transactions),
        );
        let basis = format!(
            "1 of {} databases; {} transactions, {}",
            count(tables.databases.len() as u64),
            count(row.transactions),
            amount(row.bytes.total() as f64)
        );
        let action = if trace.is_dataset {
            let condition = quoted(&format!("database={}", row.database));
            format!("Look at it alone: `oneflush report DATASET --where {condition}`.")
        } else {
            let name = quoted(tail(&row.database));
            format!("Look at it alone: `oneflush report --database {name} TRACE -o report.html`.")
        };
        finding("heavy database", tables, text, basis, action)
    })
}

fn flushes(trace: &Trace, tables: &Tables) -> Option<Finding> {
    let flushes = tables.flushes?;
    let each = flushes as f64 / tables.transactions as f64;
    (each >= FLUSHES_MIN).then(|| {
        let text = format!(
            "A transaction makes the device empty its cache {each:.1} times; one would do."
        );
        let basis = format!("{} flushes of {}", count(flushes), transactions(tables));
        let action = match strategy(trace) {
            _ if mostly_rollback(&trace.tally) => {
                "In WAL mode (PRAGMA journal_mode=WAL) a commit in a -wal file that keeps its size \
                    needs one flush."
            }
            None => {
                "Start the program with `oneflush run -- CMD`: the file grows ahead of commits, \
                    and writers who commit at once share a flush."
            }
            Some(_) => {
                "Keep one connection open: each first open and last close has flushes of its own, \
                    and few commits pay for them here."
            }
        };
        finding("flushes", tables, text, basis, action)
    })
}

/// The name without its directories, as `--database` finds it.
fn tail(database: &str) -> &str {
    database.rsplit('/').next().filter(|name| !name.is_empty()).unwrap_or(database)
}

/// Quoted if a shell would read it otherwise.
fn quoted(word: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "._-=/".contains(letter);
    if word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

fn checkpoints(trace: &Trace, tables: &Tables) -> Option<Finding> {
    let (with, bytes) = (trace.tally.checkpointed.count(), trace.tally.checkpoint_bytes);
    let of_all = share(bytes, tables.bytes.total());
    (of_all >= CHECKPOINT_SHARE_MIN).then(|| {
        let text = format!(
            "Checkpoints write {} of the bytes; {} of the transactions pay for one.",
            percent(of_all),
            percent(share(with, tables.transactions)),
        );
        let basis = format!("{} checkpoints, {}", count(with), amount(bytes as f64));
        let action = "Try a larger PRAGMA wal_autocheckpoint (default 1000 pages): a page that \
            many transactions change is \
                      then written to the database less often. The -wal file grows by as much.";
        finding("checkpoints", tables, text, basis, action)
    })
}

fn largest(trace: &Trace, tables: &Tables) -> Option<Finding> {
    if trace.tally.shares_bytes() {
        // The bytes of one are those of others.
        return None;
    }
    let entry = trace.tally.largest?;
    let bytes = entry.total_bytes();
    let medians = bytes as f64 / 1024.0 / tables.kb.median.max(0.5);
    (medians >= LARGE_MEDIANS_MIN && bytes >= LARGE_BYTES_MIN).then(|| {
        let text = format!(
            "One transaction of {} wrote {}, as much as {} median ones.",
            database(trace, &entry),
            amount(bytes as f64),
            count(medians.round() as u64),
        );
        let at = (entry.begin_ns - trace.begin_ns.min(entry.begin_ns)) as f64 / 1e9;
        let at = if trace.has_no_times { "–".to_owned() } else { format!("{at:.1}") };
        let median = amount(tables.kb.median * 1024.0);
        let basis = format!("it began at {at} s of the trace; the median is {median}");
        let action = "If it is a VACUUM, use PRAGMA auto_vacuum=INCREMENTAL with PRAGMA \
            incremental_vacuum(N); if a bulk load, \
                      COMMIT every some thousand rows.";
        finding("large transaction", tables, text, basis, action)
    })
}

/// The strategy of ours that most of the transactions had.
fn strategy(trace: &Trace) -> Option<&'static str> {
    match trace.tally.mode()? {
        JournalMode::Eager => Some("eager"),
        JournalMode::Waldio => Some("waldio"),
        JournalMode::Maw => Some("maw"),
        JournalMode::Wal if !trace.plain_databases.is_empty() => Some("plain"),
        _ => None,
    }
}

/// Whether most of the transactions keep old pages in a rollback journal.
fn mostly_rollback(tally: &Tally) -> bool {
    tally.undo_count * 2 > tally.count
}

/// "1,234 transactions, 56.1 MB"
fn whole(tables: &Tables) -> String {
    format!("{}, {}", transactions(tables), amount(tables.bytes.total() as f64))
}

/// The name of an entry's database.
fn database<'a>(trace: &'a Trace, entry: &Entry) -> &'a str {
    &trace.databases[entry.database as usize]
}
