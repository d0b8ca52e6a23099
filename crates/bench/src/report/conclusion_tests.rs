//! Sentences of runs whose figures are given.

use super::*;
use crate::report::sample::{self, mode, report};
use crate::report::{CompanionFigures, Figures, LatencyFigures, PhaseFigures};

fn latency(p50_us: f64, longest_ms: f64) -> LatencyFigures {
    sample::latency((p50_us * 1e3) as u64, (longest_ms * 1e6) as u64)
}

fn round(p50_us: f64, rate: f64, longest_ms: f64) -> Figures {
    sample::round(rate, latency(p50_us, longest_ms))
}

/// Three rounds that differ by a hundredth; with one connection the rate is what the time allows.
fn steady(name: &str, connections: u32, p50_us: f64, rate: f64, longest_ms: f64) -> ModeReport {
    let rounds = [0.99, 1.0, 1.01].map(|noise| round(p50_us * noise, rate / noise, longest_ms));
    mode(name, connections, rounds.to_vec())
}

fn sentences(modes: Vec<ModeReport>) -> String {
    conclusion(&report(modes))
}

#[test]
fn who_is_slower_than_stock_comes_first_in_words_and_the_slowest_before_the_others() {
    let text = sentences(vec![
        steady("wal", 1, 200.0, 4800.0, 3.0),
        steady("wal:plain", 1, 220.0, 4400.0, 3.5),
        steady("wal:eager", 1, 260.0, 3600.0, 3.2),
        steady("wal", 16, 220.0, 3500.0, 2700.0),
        steady("wal:plain", 16, 600.0, 22700.0, 2.8),
        steady("wal:eager", 16, 600.0, 23300.0, 3.2),
    ]);
    let expected = "WAL (eager) is 1.30 times SLOWER than stock SQLite with 1 connection: a commit \
        takes 0.260 ms, 1.73 times \
        the floor, there 0.200; in all 3600 commits/s, there 4800; the longest took 3.20 ms, there \
        3.00. \
        WAL (plain) is 1.10 times SLOWER than stock SQLite with 1 connection: a commit takes 0.220 \
        ms, 1.47 times the floor, \
        there 0.200; in all 4400 commits/s, there 4800; the longest took 3.50 ms, there 3.00. \
        With 16 connections WAL (eager) is 6.66 times as fast as stock SQLite: 23300 commits/s, \
        there 3500; the longest took \
        3.20 ms, there 2700. WAL (plain) is 6.49 times as fast as stock SQLite.";
    assert_eq!(text, expected);
}

#[test]
fn a_difference_within_the_rounds_is_no_difference() {
    let text = sentences(vec![
        mode("wal", 1, [200.0, 190.0, 205.0].map(|us| round(us, 1e6 / us, 3.0)).to_vec()),
        mode("wal:plain", 1, [198.0, 197.0, 201.0].map(|us| round(us, 1e6 / us, 3.1)).to_vec()),
    ]);
    let expected = "With 1 connection WAL (plain) is as fast as stock SQLite: a commit takes 0.198 \
        ms, 1.32 times the floor, \
        there 0.200 (0.98 to 1.04 times as long in 3 rounds); the longest took 3.10 ms, there \
        3.00.";
    assert_eq!(text, expected);
}

#[test]
fn a_commit_in_the_middle_that_is_faster_does_not_hide_that_all_of_them_are_slower() {
    let text = sentences(vec![
        steady("wal", 1, 200.0, 4800.0, 3.0),
        steady("wal:eager", 1, 150.0, 3200.0, 3.0),
    ]);
    let expected = "WAL (eager) is 1.50 times SLOWER than stock SQLite with 1 connection: 3200 \
        commits/s, there 4800; the middle \
        commit takes 0.150 ms, there 0.200; the longest took 3.00 ms, there 3.00.";
    assert_eq!(text, expected);
}

#[test]
fn a_longest_commit_that_is_much_longer_is_said_before_what_is_faster() {
    let text = sentences(vec![
        steady("wal", 16, 200.0, 3500.0, 3.0),
        steady("wal:plain", 16, 600.0, 7000.0, 12.0),
    ]);
    let expected = "WAL (plain) with 16 connections has a longest commit that is 4.00 times LONGER \
        than that of stock SQLite: \
        12.0 ms, there 3.00. \
        With 16 connections WAL (plain) is 2.00 times as fast as stock SQLite: 7000 commits/s, \
        there 3500; the longest took \
        12.0 ms, there 3.00.";
    assert_eq!(text, expected);
}

#[test]
fn without_stock_sqlite_the_run_says_what_to_add() {
    let text = sentences(vec![
        steady("wal:normal:eager", 1, 150.0, 5000.0, 3.0),
        steady("wal:plain", 1, 200.0, 4800.0, 3.0),
    ]);
    assert!(
        text.starts_with("There is nothing to compare WAL (normal, eager) and WAL (plain) with, "),
        "{text}"
    );
    assert!(
        text.contains(
            ": add it, --modes wal:normal,wal,wal:normal:eager,wal:plain. WAL (plain) commits in "
        ),
        "{text}"
    );
}

#[test]
fn another_journal_of_stock_sqlite_stands_in_and_is_named() {
    let text = sentences(vec![
        steady("delete", 1, 1000.0, 900.0, 5.0),
        steady("wal:plain", 1, 250.0, 3800.0, 3.0),
    ]);
    assert!(
        text.starts_with(
            "With 1 connection WAL (plain) is 4.00 times as fast as stock SQLite in DELETE: "
        ),
        "{text}"
    );
    // What promises less is no measure.
    let text = sentences(vec![
        steady("wal:off", 1, 10.0, 90000.0, 1.0),
        steady("wal:plain", 1, 250.0, 3800.0, 3.0),
    ]);
    assert!(text.starts_with("There is nothing to compare WAL (plain) with, "), "{text}");
}

#[test]
fn sqlite_without_our_vfs_is_stock_before_the_strategy_that_changes_nothing() {
    let modes = || {
        vec![
            steady("wal", 1, 230.0, 4000.0, 3.0),
            steady("wal:plain", 1, 215.0, 4400.0, 3.0),
            steady("wal:sqlite", 1, 200.0, 4800.0, 3.0),
        ]
    };
    let text = sentences(modes());
    assert!(
        text.starts_with(
            "WAL (our VFS, stock) is 1.15 times SLOWER than stock SQLite with 1 connection: "
        ),
        "{text}"
    );
    assert!(
        text.contains(" WAL (plain) is 7.5 % SLOWER than stock SQLite with 1 connection: "),
        "{text}"
    );
}

#[test]
fn stock_sqlite_alone_is_compared_with_itself() {
    let text = sentences(vec![
        steady("delete", 1, 960.0, 1024.0, 5.0),
        steady("wal", 1, 220.0, 4400.0, 3.0),
        steady("memory", 1, 100.0, 9000.0, 3.0),
    ]);
    assert_eq!(
        text,
        "Stock SQLite: WAL commits in 0.220 ms, 4.36 times as fast as DELETE, 1.47 times the floor."
    );
    let text = sentences(vec![
        steady("wal", 4, 220.0, 4400.0, 9.0),
        steady("persist", 4, 900.0, 1100.0, 30.0),
    ]);
    let expected = "Stock SQLite: WAL with 4 connections makes 4400 commits/s, 4.00 times as fast \
        as PERSIST; the longest took \
        9.00 ms, there 30.0.";
    assert_eq!(text, expected);
    let text = sentences(vec![steady("wal:off", 1, 20.0, 40000.0, 1.0)]);
    assert!(
        text.ends_with("A power cut may take commits back in every mode of this run."),
        "{text}"
    );
}

#[test]
fn busy_loops_and_an_asked_rate_are_named_and_the_asked_rate_is_not_compared() {
    let modes =
        vec![steady("wal", 16, 200.0, 100.0, 3.0), steady("wal:plain", 16, 300.0, 100.0, 3.0)];
    let report = Report { busy_loops: 2, rate: Some(100.0), ..report(modes) };
    let expected = "WAL (plain) is 1.50 times SLOWER than stock SQLite with 16 connections beside \
        2 busy loops at 100 commits/s: \
        a commit takes 0.300 ms, there 0.200; the longest took 3.00 ms, there 3.00.";
    assert_eq!(conclusion(&report), expected);
}

#[test]
fn reads_and_the_writer_beside_them_are_compared() {
    let with_writer = |name, us, commits_per_s| {
        let mut mode = steady(name, 1, us, 1e6 / us, 1.0);
        let beside =
            CompanionFigures { commits: 100, commits_per_s, latency_ns: latency(300.0, 3.0) };
        mode.rounds.iter_mut().for_each(|round| round.beside = Some(beside.clone()));
        mode.median.beside = Some(beside);
        mode
    };
    let modes = vec![with_writer("wal:sqlite", 1.5, 2000.0), with_writer("wal:eager", 1.8, 1000.0)];
    let report = Report { unit: Unit::Read, ..report(modes) };
    let expected = "WAL (eager) is 1.20 times SLOWER than stock SQLite with 1 connection: a read \
        takes 1.80 µs, there 1.50; \
        the writer beside 1000 commits/s, there 2000.";
    assert_eq!(conclusion(&report), expected);
}

#[test]
fn commits_while_a_reader_keeps_its_snapshot_are_compared_by_themselves() {
    let held = |name, during: f64| {
        let mut mode = steady(name, 16, 200.0, 5000.0, 3.0);
        let phase = |name, transactions_per_s| PhaseFigures {
            name,
            seconds: 1.0,
            transactions: 1000,
            transactions_per_s,
            latency_ns: latency(200.0, 3.0),
        };
        let phases = vec![
            phase("before".to_owned(), 5000.0),
            phase("while".to_owned(), during),
            phase("after".to_owned(), 5000.0),
        ];
        mode.rounds.iter_mut().for_each(|round| round.phases = phases.clone());
        mode.median.phases = phases;
        mode
    };
    let text = sentences(vec![held("wal", 4000.0), held("wal:plain", 1000.0)]);
    let expected = "WAL (plain) is 4.00 times SLOWER than stock SQLite with 16 connections while a \
        reader keeps its snapshot: \
        1000 commits/s, there 4000; the longest took 3.00 ms, there 3.00. \
        With 16 connections WAL (plain) is as fast as stock SQLite: 5000 commits/s, there 5000 \
        (1.00 to 1.00 times as long in \
        3 rounds); the longest took 3.00 ms, there 3.00.";
    assert_eq!(text, expected);
}

#[test]
fn a_cycle_is_a_cycle() {
    let modes =
        vec![steady("wal", 1, 2000.0, 490.0, 5.0), steady("wal:eager", 1, 4000.0, 240.0, 9.0)];
    let report = Report { unit: Unit::Cycle, ..report(modes) };
    let text = conclusion(&report);
    assert!(text.contains(
        "connection: to open, commit three times and close takes 4.00 ms, 26.7 times the \
                floor, there 2.00"
    ));
    assert!(
        text.starts_with("WAL (eager) is 2.00 times SLOWER")
            && text.contains("; in all 240 cycles/s, there 490"),
        "{text}"
    );
}

#[test]
fn what_is_mounted_is_beside_the_same_that_is_not() {
    let text = sentences(vec![
        steady("delete", 1, 900.0, 1000.0, 3.0),
        steady("delete:mounted", 1, 450.0, 2000.0, 3.0),
        steady("wal:sqlite", 1, 200.0, 4000.0, 3.0),
        steady("wal:sqlite:mounted", 1, 250.0, 3200.0, 3.0),
    ]);
    assert!(
        text.starts_with(
            "WAL (sqlite, mounted) is 1.25 times SLOWER than stock SQLite with 1 connection: a \
                commit takes 0.250 ms"
        ),
        "{text}"
    );
    let faster = "With 1 connection DELETE (mounted) is 2.00 times as fast as stock SQLite: ";
    assert!(text.contains(faster), "{text}");
    let alone = sentences(vec![steady("delete:mounted", 1, 450.0, 2000.0, 3.0)]);
    assert!(alone.contains("add it, --modes delete,delete:mounted."), "{alone}");
}

#[test]
fn files_without_sqlite_have_syncs_and_rates_in_megabytes() {
    let modes = |us| {
        vec![
            steady("files", 1, us, 1e6 / us, 5.0),
            steady("files:mounted", 1, 2.0 * us, 5e5 / us, 9.0),
        ]
    };
    let text = conclusion(&Report { unit: Unit::Sync, ..report(modes(200.0)) });
    let expected = "files (mounted) is 2.00 times SLOWER than the file system alone with 1 \
        connection: a sync takes 0.400 ms, 2.67 times the floor, there 0.200; in all 2500 syncs/s, \
        there 5000; the longest took 9.00 ms, there 5.00.";
    assert_eq!(text, expected);
    let text = conclusion(&Report { unit: Unit::Piece, ..report(modes(100.0)) });
    let expected = "files (mounted) is 2.00 times SLOWER than the file system alone with 1 \
        connection: 1250 MB/s, there 2500.";
    assert_eq!(text, expected);
    let alone = vec![steady("files:mounted", 1, 200.0, 5000.0, 5.0)];
    let text = conclusion(&Report { unit: Unit::Sync, ..report(alone) });
    assert!(text.contains("nothing that is not mounted") && text.contains("syncs in"), "{text}");
}

#[test]
fn nothing_done_is_said() {
    let mut empty = steady("wal", 1, 200.0, 4800.0, 3.0);
    empty.median.transactions = 0;
    assert_eq!(sentences(vec![empty]), "No transaction was committed.");
}
