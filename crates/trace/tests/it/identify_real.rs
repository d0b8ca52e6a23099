//! Traces of phones, recorded by others. Skips, and says so, if the folder with the data is
//! missing.

use std::path::{Path, PathBuf};

use oneflush_trace::identify::{
    Database, Identifier, JournalMode, Summary, Synchronous, Traffic, Transaction,
};
use oneflush_trace::import;

fn data(name: &str) -> Option<PathBuf> {
    oneflush_testing::shared_data(&format!("traces/{name}"))
}

fn identify(path: &Path) -> (Vec<Transaction>, Summary) {
    let mut reader = import::open(path).expect("the trace is of a known format");
    let mut identifier = Identifier::new();
    let mut found = Vec::new();
    while let Some(event) = reader.next().expect("the trace can be read") {
        identifier.push(&event, reader.names());
        while let Some(transaction) = identifier.next_transaction() {
            found.push(transaction);
        }
    }
    let (rest, summary) = identifier.finish(reader.names());
    found.extend(rest);
    found.sort_by_key(|transaction| transaction.begin_ns);
    (found, summary)
}

fn of<'a>(found: &'a [Transaction], ending: &str) -> Vec<&'a Transaction> {
    let is = |transaction: &&Transaction| match &transaction.database {
        Database::Named(path) => path.ends_with(ending),
        _ => false,
    };
    found.iter().filter(is).collect()
}

fn all_persist_full(found: &[Transaction]) {
    for transaction in found {
        let options = (transaction.journal_mode, transaction.synchronous);
        assert_eq!(options, (JournalMode::Persist, Synchronous::Full), "{}", transaction.database);
        assert!(transaction.others.is_empty());
    }
}

/// Table 4: database, SQLite's journal, the file system's journal.
#[test]
fn a_phone_with_file_names_has_six_transactions_of_three_databases() {
    for name in ["most_result.po", "most_result3.po"] {
        let Some(path) = data(name) else { return };
        let (found, _) = identify(&path);
        assert_eq!(found.len(), 6, "{name}");
        all_persist_full(&found);
        let rmq = of(&found, "/rmq.db");
        assert_eq!(rmq.len(), 4);
        for transaction in rmq {
            assert_eq!((transaction.traffic.db.bytes, transaction.traffic.db.requests), (8192, 2));
            assert_eq!(
                (transaction.traffic.journal.bytes, transaction.traffic.journal.requests),
                (20_480, 4)
            );
            assert!(transaction.traffic.journaling_share() > 0.75);
            assert!(transaction.latency_ns() > 10_000_000 && transaction.latency_ns() < 30_000_000);
        }
        let sync_data = of(&found, "/SyncData.sqlite3");
        assert_eq!(sync_data.len(), 1);
        assert_eq!((sync_data[0].traffic.db.bytes, sync_data[0].traffic.db.requests), (40_960, 6));
        assert_eq!(
            (sync_data[0].traffic.journal.bytes, sync_data[0].traffic.journal.requests),
            (24_576, 4)
        );
        let storage = of(&found, ".localstorage");
        assert_eq!(storage.len(), 1);
        assert_eq!((storage[0].traffic.db.bytes, storage[0].traffic.journal.bytes), (4096, 12_288));
    }
}

#[test]
fn the_commits_between_log_and_count_are_the_transactions() {
    let Some(path) = data("most_result.po") else { return };
    let (found, _) = identify(&path);
    // The commit behind each transaction's log. What begins within the wait of another is not
    // theirs.
    let kib: Vec<u64> =
        of(&found, "/rmq.db").iter().map(|found| found.traffic.fs_journal.bytes / 1024).collect();
    assert_eq!(kib, [48, 44, 52, 60]);
    let sync_data = of(&found, "/SyncData.sqlite3")[0].traffic;
    assert_eq!((sync_data.fs_journal.bytes, sync_data.metadata.bytes), (45_056, 28_672));
}

#[test]
fn a_phone_without_file_names_has_448_transactions() {
    let Some(path) = data("phone_ycsb_a.ftrace.gz") else { return };
    let (found, summary) = identify(&path);
    assert!(found.len().abs_diff(448) <= 5, "{}", found.len());
    all_persist_full(&found);
    let mut total = Traffic::default();
    let mut flushes = 0;
    for transaction in &found {
        total += transaction.traffic;
        flushes += transaction.flushes;
    }
    let share = total.journaling_share();
    assert!((0.75..=0.85).contains(&share), "{share}");
    // 1,784 flushes and 451 commits, each with one, but for those outside of transactions.
    assert!((2230..=2235).contains(&flushes), "{flushes}");
    assert!(summary.flushes <= 10);
    let mut kib: Vec<u64> = found.iter().map(|found| found.traffic.db.bytes / 1024).collect();
    kib.sort_unstable();
    assert!(kib[kib.len() / 2] <= 12);
}
