//! Transactions that are written out, and a clock that the tests turn.

use std::sync::Arc;

use super::*;
use crate::identify::{Amount, Confidence, Outcome, Phases, Process, Reason, Traffic};
use crate::model::{Action, Actor, Flags};

const SECOND: u64 = 1_000_000_000;
const MS: u64 = 1_000_000;
/// When watching began.
const BEGIN: u64 = 1000 * SECOND;

fn database(name: &str) -> Database {
    Database::Named(Arc::from(name))
}

/// 24 KB, half of it the database's, and 2 flushes.
fn transaction(name: &str, end_ns: u64, latency_ns: u64) -> Transaction {
    let amount = |kb: u64| Amount { bytes: kb << 10, requests: 1 };
    Transaction {
        begin_ns: end_ns - latency_ns,
        end_ns,
        process: Process { process: 77, thread: 78, name: None },
        database: database(name),
        others: Vec::new(),
        journal_mode: JournalMode::Persist,
        synchronous: Synchronous::Full,
        outcome: Outcome::Committed,
        traffic: Traffic {
            db: amount(12),
            journal: amount(6),
            fs_journal: amount(4),
            metadata: amount(2),
        },
        flushes: 2,
        syncs: 0,
        segments: 1,
        phases: Phases::Rollback { log_ns: 0, db_ns: latency_ns, reset_ns: 0 },
        silent_ns: 0,
        confidence: Confidence { value: 1.0, reason: Reason::Whole },
        accesses: Vec::new(),
    }
}

/// `count` transactions a second, each of a millisecond, from `begin_ns` for so many seconds. Each
/// is told 100 ms after its end.
fn commits(table: &mut Table, name: &str, count: u64, begin_ns: u64, seconds: u64) {
    for n in 0..count * seconds {
        let end_ns = begin_ns + (n + 1) * SECOND / count;
        table.transaction(transaction(name, end_ns, MS), &Names::default(), end_ns + 100 * MS);
    }
}

fn close(one: f64, other: f64) -> bool {
    (one - other).abs() < 0.01 * other.abs().max(1.0)
}

#[test]
fn a_database_has_its_rate_and_what_a_transaction_costs() {
    let mut table = Table::new(BEGIN);
    commits(&mut table, "/d/a.db", 50, BEGIN, 20);
    let snapshot = table.snapshot(BEGIN + 20 * SECOND);
    let [row] = &snapshot.rows[..] else { panic!("{snapshot:?}") };
    assert!(row.is_current && close(row.rate, 50.0), "{}", row.rate);
    assert_eq!(
        (row.figures.bytes_each(), row.figures.flushes_each()),
        (Some(24.0 * 1024.0), Some(2.0))
    );
    assert_eq!(row.figures.journaling_share(), Some(0.5));
    assert_eq!((row.journal_mode, row.synchronous), (JournalMode::Persist, Synchronous::Full));
    assert_eq!((row.owner.id, row.figures.processes()), (Some(77), 1));
}

#[test]
fn at_the_begin_rates_are_over_the_time_that_was_watched() {
    let mut table = Table::new(BEGIN);
    commits(&mut table, "/d/a.db", 50, BEGIN, 2);
    let snapshot = table.snapshot(BEGIN + 2 * SECOND);
    assert_eq!(snapshot.seconds, 2.0);
    assert!(close(snapshot.total_rate, 50.0), "{}", snapshot.total_rate);
    assert_eq!(Table::new(BEGIN).snapshot(BEGIN).total_rate, 0.0);
}

#[test]
fn the_99th_percentile_is_of_the_last_ten_seconds() {
    let mut table = Table::new(BEGIN);
    let mut end_ns = BEGIN;
    for n in 0..200 {
        end_ns = BEGIN + 100 * MS * (n + 1);
        // Slow ones in the first 10 s, and 3 of 100 in the last.
        let latency_ns = if n < 100 { 80 * MS } else { [20, 1][usize::from(n % 33 != 0)] * MS };
        table.transaction(transaction("/d/a.db", end_ns, latency_ns), &Names::default(), end_ns);
    }
    let row = &table.snapshot(end_ns).rows[0];
    assert!(close(row.figures.p99_ms().unwrap(), 20.0), "{:?}", row.figures.p99_ms());
}

#[test]
fn a_silent_one_keeps_the_figures_of_its_last_transaction_and_is_forgotten_after_ten_minutes() {
    let mut table = Table::new(BEGIN);
    table.transaction(
        transaction("/d/a.db", BEGIN + SECOND, MS),
        &Names::default(),
        BEGIN + SECOND,
    );
    let later = BEGIN + 60 * SECOND;
    table.expire(later);
    let snapshot = table.snapshot(later);
    let row = &snapshot.rows[0];
    assert_eq!((row.rate, row.is_current, row.figures.flushes_each()), (0.0, false, Some(2.0)));
    assert_eq!(snapshot.total.transactions, 0, "the total is of the window");
    table.expire(BEGIN + SECOND + FORGET_NS - 1);
    assert_eq!(table.rows.len(), 1);
    assert!(table.snapshot(BEGIN + SECOND + FORGET_NS).rows.is_empty());
    table.expire(BEGIN + SECOND + FORGET_NS);
    assert!(table.rows.is_empty());
}

#[test]
fn a_transaction_that_is_told_after_its_window_is_seen_but_not_counted() {
    let mut table = Table::new(BEGIN);
    table.transaction(
        transaction("/d/a.db", BEGIN + SECOND, MS),
        &Names::default(),
        BEGIN + 30 * SECOND,
    );
    let row = &table.snapshot(BEGIN + 30 * SECOND).rows[0];
    assert_eq!((row.rate, row.is_current), (0.0, false));
}

#[test]
fn write_back_does_not_take_the_place_of_who_committed() {
    let mut table = Table::new(BEGIN);
    table.transaction(
        transaction("/d/a.db", BEGIN + SECOND, MS),
        &Names::default(),
        BEGIN + SECOND,
    );
    let written_back = Transaction {
        process: Process::default(),
        ..transaction("/d/a.db", BEGIN + 2 * SECOND, MS)
    };
    table.transaction(written_back, &Names::default(), BEGIN + 2 * SECOND);
    assert_eq!(table.snapshot(BEGIN + 2 * SECOND).rows[0].owner.id, Some(77));
}

#[test]
fn the_total_is_of_all_databases() {
    let mut table = Table::new(BEGIN);
    commits(&mut table, "/d/b.db", 20, BEGIN, 20);
    commits(&mut table, "/d/a.db", 30, BEGIN, 20);
    let snapshot = table.snapshot(BEGIN + 20 * SECOND);
    let names: Vec<String> = snapshot.rows.iter().map(|row| row.database.to_string()).collect();
    assert_eq!(names, ["/d/a.db", "/d/b.db"]);
    assert!(close(snapshot.total_rate, 50.0), "{}", snapshot.total_rate);
    assert_eq!(snapshot.total.flushes, 2 * snapshot.total.transactions);
}

#[test]
fn databases_are_kept_up_to_a_bound_and_the_longest_silent_one_goes() {
    let mut table = Table::new(BEGIN);
    for n in 0..ROWS_COUNT_MAX as u64 + 1 {
        let now_ns = BEGIN + SECOND + n;
        table.transaction(
            transaction(&format!("/d/{n}.db"), now_ns, MS),
            &Names::default(),
            now_ns,
        );
    }
    assert_eq!(table.rows.len(), ROWS_COUNT_MAX);
    assert!(
        !table.rows.contains_key(&database("/d/0.db"))
            && table.rows.contains_key(&database("/d/1.db"))
    );
}

fn event(bytes: u64, write: bool) -> Event {
    let actor = Actor { thread: 1, process: 1, name: None };
    let flags = Flags { write, preflush: !write, ..Flags::default() };
    Event { bytes, flags, ..Event::plain(BEGIN + SECOND, Action::Queue, actor) }
}

#[test]
fn the_devices_have_what_counts() {
    let mut table = Table::new(BEGIN);
    let now_ns = BEGIN + SECOND;
    for (bytes, write, counted) in [
        (4096, true, Counted { bytes: true, flush: false }),
        (4096, true, Counted { bytes: true, flush: true }),
        (4096, true, Counted::default()),
        (4096, false, Counted { bytes: true, flush: false }),
        (0, false, Counted { bytes: false, flush: true }),
    ] {
        table.event(&event(bytes, write), counted, now_ns);
    }
    assert_eq!(table.snapshot(now_ns).device, Load { bytes: 8192, flushes: 2 });
    assert_eq!(table.snapshot(now_ns + 11 * SECOND).device, Load::default());
}

#[test]
fn what_belongs_to_no_transaction_counts_when_it_is_told() {
    let mut table = Table::new(BEGIN);
    for second in 1..=20 {
        table.no_transaction(
            Load { bytes: 1000 * second, flushes: second },
            BEGIN + second * SECOND,
        );
    }
    // Of 11 s to 20 s: the window begins at 10.5 s.
    assert_eq!(
        table.snapshot(BEGIN + 20 * SECOND).no_transaction,
        Load { bytes: 10_000, flushes: 10 }
    );
    assert_eq!(table.snapshot(BEGIN + 40 * SECOND).no_transaction, Load::default());
}
