//! The numbers of the paper's tables, on transactions that are written out.

use oneflush_trace::identify::{JournalMode, Outcome};
use oneflush_trace::report::{ByClass, Curve, Quantiles, Report, Tables};

use crate::report_common::{KB, trace, transaction};

/// Latencies of 1 to 1,000 ms, and a volume of as many KB, half of it the database's. They belong
/// to two databases.
fn thousand() -> Tables {
    let transactions = (1..=1000).rev().map(|n| {
        let database = if n % 4 == 0 { "/a.db" } else { "/b.db" };
        transaction(database, 5000 - n, n, [n / 2, n - n / 2, 0, 0])
    });
    Tables::new(&trace("t", transactions))
}

#[test]
fn latency_has_the_quantiles_of_table_2() {
    let expected = Quantiles {
        q25: 250.0,
        median: 500.0,
        average: 500.5,
        q75: 750.0,
        q99: 990.0,
        q999: 999.0,
        max: 1000.0,
    };
    assert_eq!(thousand().latency_ms, expected);
}

#[test]
fn volume_has_the_quantiles_of_table_3_and_its_classes_those_of_table_4() {
    let tables = thousand();
    assert_eq!(tables.kb, Quantiles { ..tables.latency_ms });
    let db = tables.kb_by_class.db;
    assert_eq!(
        [db.q25, db.median, db.average, db.q75, db.max],
        [125.0, 250.0, 250.0, 375.0, 500.0]
    );
    assert_eq!(tables.kb_by_class.journal.average, 250.5);
    assert_eq!(tables.kb_by_class.fs_journal, Quantiles::default());
}

#[test]
fn totals_are_those_of_table_5() {
    let transactions = [
        transaction("/a.db", 0, 10, [12, 24, 16, 0]),
        transaction("/a.db", 20, 10, [8, 20, 16, 4]),
        transaction("/b.db", 40, 10, [4, 0, 0, 0]),
    ];
    let tables = Tables::new(&trace("t", transactions));
    let expected =
        ByClass { db: 24, journal: 44, fs_journal: 32, metadata: 4 }.as_array().map(|kb| kb * KB);
    assert_eq!(tables.bytes.as_array().map(|bytes| *bytes), expected);
    assert_eq!(
        (tables.bytes.total(), tables.flushes, tables.transactions),
        (104 * KB, Some(12), 3)
    );
}

#[test]
fn databases_are_told_as_in_table_6() {
    let mut transactions: Vec<_> =
        (0..6).map(|n| transaction("/often.db", n * 20, 10, [4, 4, 4, 0])).collect();
    transactions
        .extend((0..3).map(|n| transaction("/large.db", n * 20 + 200, 30 + n, [100, 100, 40, 0])));
    transactions.push(transaction("/one.db", 1000, 5, [4, 0, 0, 0]));
    transactions[6].journal_mode = JournalMode::Delete;
    let tables = Tables::new(&trace("t", transactions));
    let [often, large, one] = &tables.databases[..] else { panic!("{:?}", tables.databases) };
    assert_eq!(
        (often.database.as_str(), often.transactions, often.share_of_transactions),
        ("/often.db", 6, 0.6)
    );
    assert_eq!(
        (often.bytes.total(), often.flushes, often.median_kb, often.median_ms),
        (72 * KB, Some(24), 12.0, 10.0)
    );
    assert_eq!(
        (large.database.as_str(), large.mode.as_str(), large.median_ms),
        ("/large.db", "PERSIST FULL", 31.0)
    );
    assert_eq!(large.share_of_bytes, 720.0 / 796.0);
    assert_eq!(one.database, "/one.db");
}

#[test]
fn curves_are_those_of_figures_18_20_and_22() {
    let transactions = [1, 1, 1, 2].map(|n| transaction("/a.db", n, n, [4 * n, 0, 8, 0]));
    let tables = Tables::new(&trace("t", transactions));
    let curve =
        |values: &[f64], shares: &[f64]| Curve { values: values.into(), shares: shares.into() };
    assert_eq!(tables.latency_curve, curve(&[1.0, 2.0], &[0.75, 1.0]));
    assert_eq!(tables.kb_curve, curve(&[12.0, 16.0], &[0.75, 1.0]));
    assert_eq!(tables.kb_by_class_curves.db, curve(&[4.0, 8.0], &[0.75, 1.0]));
    assert_eq!(tables.kb_by_class_curves.fs_journal, curve(&[8.0], &[1.0]));
    assert_eq!(tables.kb_by_class_curves.journal, curve(&[0.0], &[1.0]));
}

#[test]
fn a_rolled_back_transaction_counts_and_is_told() {
    let mut transactions =
        [transaction("/a.db", 0, 1, [4, 4, 0, 0]), transaction("/a.db", 9, 1, [0, 4, 0, 0])];
    transactions[1].outcome = Outcome::RolledBack;
    let tables = Tables::new(&trace("t", transactions));
    assert_eq!((tables.transactions, tables.rolled_back, tables.bytes.journal), (2, 1, 8 * KB));
}

#[test]
fn a_trace_without_transactions_has_tables_without_numbers() {
    let report = Report::new(&[trace("empty", [])]);
    let tables = &report.traces[0];
    assert_eq!(
        (tables.transactions, tables.latency_ms, tables.databases.len()),
        (0, Quantiles::default(), 0)
    );
    assert!(report.findings.is_empty() && tables.kb_curve.values.is_empty());
}

#[test]
fn transactions_stand_in_the_order_of_their_begins_whatever_the_order_in_which_they_end() {
    let trace =
        trace("t", [50, 10, 30].map(|begin_ms| transaction("/a.db", begin_ms, 1, [4, 0, 0, 0])));
    assert!(trace.entries.is_sorted_by_key(|entry| entry.begin_ns), "{:?}", trace.entries);
}
