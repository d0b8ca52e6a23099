//! Each finding on transactions that have it, with its numbers worked out by hand. Each finding is
//! silent where the transactions do not have it.

use oneflush_trace::identify::{
    Confidence, JournalMode, Outcome, Phases, Reason, Traffic, Transaction,
};
use oneflush_trace::report::{Finding, Report, Trace};

use crate::report_common::{KB, MS, trace, transaction};

fn findings(traces: &[Trace]) -> Vec<Finding> {
    Report::new(traces).findings
}

fn of_kind(transactions: impl IntoIterator<Item = Transaction>, kind: &str) -> Option<Finding> {
    findings(&[trace("t", transactions)]).into_iter().find(|finding| finding.kind == kind)
}

/// Transactions of one database, all the same, 20 ms apart.
fn alike(count: u64, ms: u64, kb: [u64; 4]) -> Vec<Transaction> {
    (0..count).map(|n| transaction("/a.db", n * 20, ms, kb)).collect()
}

#[test]
fn each_finding_ends_with_what_to_do() {
    let mut transactions = alike(1000, 10, [8, 24, 16, 0]);
    transactions.extend(
        (0..30).map(|n| transaction("/it's heavy.db", 90_000 + n * 2000, 1500, [400, 800, 0, 0])),
    );
    transactions.push(transaction("/it's heavy.db", 200_000, 900, [17_500, 100, 320, 0]));
    for transaction in transactions.iter_mut().take(200) {
        transaction.outcome = Outcome::RolledBack;
        transaction.confidence = Confidence { value: 0.3, reason: Reason::NoNames };
    }
    let traces = [trace("before", transactions.clone()), trace("after", transactions)];
    let found = findings(&traces);
    let kinds: std::collections::BTreeSet<&str> =
        found.iter().map(|finding| finding.kind).collect();
    assert!(kinds.len() >= 9, "{kinds:?}");
    for finding in &found {
        let names_something =
            ["`", "PRAGMA", "quantile"].iter().any(|word| finding.action.contains(word));
        assert!(
            names_something && finding.action.ends_with('.'),
            "{}: {}",
            finding.kind,
            finding.action
        );
    }
    let action = |kind: &str| {
        found.iter().find(|finding| finding.kind == kind).map(|finding| finding.action.as_str())
    };
    let heavy =
        "Look at it alone: `oneflush report --database 'it'\\''s heavy.db' TRACE -o report.html`.";
    assert_eq!(action("heavy database"), Some(heavy));
    assert_eq!(action("journaling"), Some("Set PRAGMA journal_mode=WAL; the database keeps it."));
    let wal = alike(100, 10, [4, 20, 2, 0])
        .into_iter()
        .map(|one| Transaction { journal_mode: JournalMode::Wal, ..one });
    let journaling = of_kind(wal, "journaling").unwrap();
    assert!(
        journaling.action.contains("BEGIN … COMMIT"),
        "who has WAL is not told to set it: {}",
        journaling.action
    );
}

#[test]
fn nothing_is_said_of_few_transactions() {
    assert_eq!(findings(&[trace("t", alike(29, 10, [12, 24, 16, 0]))]), []);
    assert!(!findings(&[trace("t", alike(30, 10, [12, 24, 16, 0]))]).is_empty());
}

#[test]
fn journaling_is_told_with_its_shares() {
    // 24 + 16 of 50 KB.
    let finding = of_kind(alike(40, 10, [10, 24, 16, 0]), "journaling").unwrap();
    let expected = "80 % of the bytes are journaling: SQLite's journal 48 %, the file system's 32 \
        %. The databases themselves \
                    are 20 %.";
    assert_eq!(
        (finding.text.as_str(), finding.basis.as_str()),
        (expected, "40 transactions, 2.0 MB")
    );
    assert_eq!(of_kind(alike(40, 10, [26, 24, 0, 0]), "journaling"), None);
}

#[test]
fn a_database_that_writes_most_is_named() {
    let mut transactions = alike(30, 10, [8, 8, 0, 0]);
    transactions.extend((0..10).map(|n| transaction("/heavy.db", 1000 + n, 10, [50, 94, 0, 0])));
    // 1,440 of 1,920 KB, 10 of 40 transactions.
    let finding = of_kind(transactions, "heavy database").unwrap();
    assert_eq!(
        finding.text,
        "/heavy.db alone writes 75 % of all bytes, with 25 % of the transactions."
    );
    assert_eq!(
        of_kind(alike(40, 10, [8, 8, 0, 0]), "heavy database"),
        None,
        "a single database is no finding"
    );
}

#[test]
fn wal_is_advised_with_what_it_would_write() {
    // 8 KB are two frames. With headers of 48 bytes they are rounded up to 12 KB. One block more
    // lies at an edge, and 8 KB at a checkpoint: 24 KB.
    let finding = of_kind(alike(100, 10, [8, 20, 20, 0]), "wal").unwrap();
    let expected = "In WAL mode, /a.db would write about 24.0 KB a transaction or less in place of \
        48.0 KB, with 1 flush in \
                    place of 4.0: 50 % less, 50 % of all bytes.";
    assert_eq!(finding.text, expected);
    assert!(
        finding.basis.starts_with("100 transactions with PERSIST; an estimate on the high side: "),
        "{}",
        finding.basis
    );
    assert!(
        finding.action.ends_with("`oneflush bench --dir DIR --modes persist,wal`."),
        "{}",
        finding.action
    );
    assert_eq!(
        of_kind(alike(100, 10, [8, 16, 2, 0]), "wal"),
        None,
        "2 of 26 KB is not worth a change"
    );
    let in_wal = alike(100, 10, [8, 20, 20, 0])
        .into_iter()
        .map(|transaction| Transaction { journal_mode: JournalMode::Wal, ..transaction });
    assert_eq!(of_kind(in_wal, "wal"), None);
}

#[test]
fn flushes_are_told_where_one_would_do() {
    let finding = of_kind(alike(50, 10, [8, 8, 0, 0]), "flushes").unwrap();
    assert_eq!(finding.basis, "200 flushes of 50 transactions");
    let single = alike(50, 10, [8, 8, 0, 0])
        .into_iter()
        .map(|transaction| Transaction { flushes: 1, ..transaction });
    assert_eq!(of_kind(single, "flushes"), None);
}

#[test]
fn checkpoints_are_told_where_they_write_much() {
    let mut transactions = alike(50, 10, [0, 8, 0, 0]);
    let mut checkpoint = Traffic::default();
    checkpoint.db.bytes = 100 * KB;
    transactions[49].traffic.db.bytes = 100 * KB;
    transactions[49].phases = Phases::Append { append_ns: MS, checkpoint_ns: MS, checkpoint };
    let finding = of_kind(transactions, "checkpoints").unwrap();
    assert_eq!(
        finding.text,
        "Checkpoints write 20 % of the bytes; 2.0 % of the transactions pay for one."
    );
    assert_eq!(of_kind(alike(50, 10, [0, 8, 0, 0]), "checkpoints"), None);
}

#[test]
fn a_transaction_of_many_medians_is_told() {
    let mut transactions = alike(99, 10, [16, 16, 0, 0]);
    transactions.push(transaction("/map.db", 9000, 900, [17_500, 100, 320, 0]));
    let finding = of_kind(transactions, "large transaction").unwrap();
    assert_eq!(
        finding.text,
        "One transaction of /map.db wrote 17.5 MB, as much as 560 median ones."
    );
    let mut transactions = alike(99, 10, [16, 16, 0, 0]);
    transactions.push(transaction("/map.db", 9000, 900, [2000, 0, 0, 0]));
    assert_eq!(of_kind(transactions, "large transaction"), None, "63 medians");
}

#[test]
fn long_transactions_are_told_with_the_silence_in_them() {
    let mut transactions = alike(998, 10, [8, 8, 0, 0]);
    transactions.push(transaction("/a.db", 30_000, 222_000, [8, 8, 0, 0]));
    transactions.push(transaction("/a.db", 300_000, 1000, [8, 8, 0, 0]));
    transactions[998].silent_ns = 220_000 * MS;
    let finding = of_kind(transactions, "long transactions").unwrap();
    let expected = "2 transactions took a second or more (0.20 %), the longest 222.0 s. In 1 of \
        them nothing at all happened \
                    most of the time: the machine was suspended or idle.";
    assert_eq!(finding.text, expected);
    assert_eq!(of_kind(alike(998, 999, [8, 8, 0, 0]), "long transactions"), None);
}

#[test]
fn the_tail_is_told_only_of_many_transactions() {
    let tailed = |count: u64| {
        let mut transactions = alike(count - count / 50, 10, [8, 8, 0, 0]);
        transactions.extend(alike(count / 50, 100, [8, 8, 0, 0]));
        transactions
    };
    let finding = of_kind(tailed(1000), "latency tail").unwrap();
    assert_eq!(
        finding.text,
        "One transaction in a hundred takes 100.0 ms or more, 10 times the median of 10.0 ms."
    );
    assert_eq!(of_kind(tailed(900), "latency tail"), None);
}

#[test]
fn rollbacks_are_told_with_what_they_wrote() {
    let mut transactions = alike(50, 10, [8, 8, 0, 0]);
    transactions[3].outcome = Outcome::RolledBack;
    let finding = of_kind(transactions, "rolled back").unwrap();
    assert_eq!(finding.text, "2.0 % of the transactions were rolled back, having written 16.0 KB.");
}

#[test]
fn doubt_is_told_with_its_most_frequent_reason() {
    let mut transactions = alike(50, 10, [8, 8, 0, 0]);
    for transaction in &mut transactions[..10] {
        transaction.confidence = Confidence { value: 0.6, reason: Reason::DeleteOrTruncate };
    }
    transactions[10].confidence = Confidence { value: 0.3, reason: Reason::Unsynced };
    let finding = of_kind(transactions, "doubt").unwrap();
    assert!(
        finding.text.starts_with("22 % of the transactions are not told apart for certain"),
        "{}",
        finding.text
    );
    assert!(finding.text.contains("DELETE and TRUNCATE"), "{}", finding.text);
    assert_eq!(
        finding.basis,
        "confidence below 0.7 in 11 of 50 transactions, for this reason in 10"
    );
}

#[test]
fn a_second_trace_is_told_beside_the_first() {
    let after = alike(60, 3, [8, 6, 0, 0])
        .into_iter()
        .map(|transaction| Transaction { flushes: 1, ..transaction });
    let traces = [trace("before", alike(40, 12, [12, 24, 20, 0])), trace("after", after)];
    let finding =
        findings(&traces).into_iter().find(|finding| finding.kind == "comparison").unwrap();
    let expected = "Beside before, a transaction writes 14.0 KB in place of 56.0 KB (-75 %), has \
        1.0 flushes in place of 4.0, \
                    and a median latency of 3.00 ms in place of 12.0 ms (-75 %).";
    assert_eq!((finding.trace.as_str(), finding.text.as_str()), ("after", expected));
}

fn in_mode(mode: JournalMode, count: u64) -> Vec<Transaction> {
    let of_mode = |one| Transaction { journal_mode: mode, ..one };
    alike(count, 10, [4, 20, 2, 0]).into_iter().map(of_mode).collect()
}

/// A recording of `eager` was told to start the program with `eager`, and nobody was told of the
/// guard: stock SQLite cannot open the file meanwhile.
#[test]
fn eager_is_advised_with_its_guard_and_not_to_who_uses_it() {
    let action = |mode| of_kind(in_mode(mode, 100), "journaling").unwrap().action;
    for mode in [JournalMode::Eager, JournalMode::Waldio, JournalMode::Maw] {
        assert!(!action(mode).contains("eager"), "{}", action(mode));
    }
    let of_stock = action(JournalMode::Wal);
    assert!(of_stock.contains("--strategy eager") && of_stock.contains("guard"), "{of_stock}");
    // `plain` is known by its thread, and does not start the program with itself.
    let plain = || Trace {
        plain_databases: vec!["/a.db".to_owned()],
        ..trace("t", in_mode(JournalMode::Wal, 100))
    };
    for finding in findings(&[plain()]) {
        assert!(!finding.action.contains("oneflush run -- CMD"), "{finding:?}");
    }
}

/// With NORMAL a checkpoint's synchronization was "one transaction of 5.1 MB, as much as 10,456
/// median ones (0.0 KB)", and VACUUM and bulk loads were blamed.
#[test]
fn what_a_checkpoint_carries_is_no_large_transaction() {
    let with = |reason, one| Transaction {
        confidence: Confidence { value: 0.9, reason },
        journal_mode: JournalMode::Wal,
        ..one
    };
    let mut transactions: Vec<Transaction> =
        alike(1000, 1, [0; 4]).into_iter().map(|one| with(Reason::Lock, one)).collect();
    transactions.push(with(Reason::Carries, transaction("/a.db", 30_000, 9, [100, 5000, 0, 0])));
    let report = Report::new(&[trace("t", transactions)]);
    assert!(report.findings.iter().all(|finding| finding.kind != "large transaction"));
    let kb = report.traces[0].kb;
    assert!(kb.median.is_nan() && kb.max.is_nan());
    assert!((kb.average - 5100.0 / 1001.0).abs() < 0.001, "{kb:?}");
    assert!(report.traces[0].notes[0].contains("only the average is known"));
    assert!(serde_json::to_string(&report).unwrap().contains("\"median\":null"));
}

/// A reader that pinned the WAL was "one transaction wrote 549.9 MB".
#[test]
fn a_wal_that_no_checkpoint_empties_is_told() {
    let unchecked = |of_checkpoint: u64| {
        let transactions = (0..4000).map(|n| {
            let db = if n % 1000 == 999 { of_checkpoint } else { 0 };
            let one = transaction("/a.db", n * 20, 1, [db, 12, 0, 0]);
            Transaction { journal_mode: JournalMode::Wal, ..one }
        });
        of_kind(transactions, "unchecked wal")
    };
    let found = unchecked(0).unwrap();
    assert!(found.text.starts_with("46.9 MB went to the WAL of /a.db in one go"), "{found:?}");
    assert!(found.action.contains("wal_autocheckpoint") && !found.text.contains("reader"));
    assert_eq!(unchecked(400), None);
}

/// Latencies of a trace without times were those of its line numbers.
#[test]
fn without_times_no_latency_is_told() {
    let mut collector = oneflush_trace::report::Collector::default();
    collector.has_no_times();
    let names = oneflush_trace::model::Names::default();
    for one in alike(100, 1500, [4, 20, 2, 0]) {
        collector.transaction(one, &names);
    }
    let report = Report::new(&[collector.finish()]);
    let tables = &report.traces[0];
    assert!(tables.latency_ms.median.is_nan() && tables.seconds.is_nan());
    assert!(tables.databases[0].median_ms.is_nan());
    assert!(report.findings.iter().all(|finding| finding.kind != "long transactions"));
}
