//! Traces without file names. Journal and database are told apart by their sectors and the pattern
//! of the writes.

use oneflush_trace::identify::{Database, JournalMode, Landmark, Reason, Synchronous};
use oneflush_trace::model::{Event, Names};

use crate::identify_common::{DEVICE, PAGE, Pen, Show, identify, interleaved};

fn nameless(
    names: &mut Names,
    show: Show,
    number: u32,
    write: impl FnOnce(&mut Pen),
) -> Vec<Event> {
    let mut pen = Pen::new(names, show, number);
    pen.database = None;
    write(&mut pen);
    pen.events
}

fn known_by(landmark: Landmark, sector: u64) -> Database {
    Database::Sectors { device: DEVICE, landmark, sector }
}

#[test]
fn a_rewritten_header_gives_the_journal_away() {
    for show in [Show::Calls, Show::Flushes, Show::Waits] {
        for (mode, synchronous) in [
            (JournalMode::Persist, Synchronous::Full),
            (JournalMode::Persist, Synchronous::Normal),
            (JournalMode::Delete, Synchronous::Full),
        ] {
            let mut names = Names::default();
            let events = nameless(&mut names, show, 0, |pen| {
                for round in 0..5 {
                    pen.log(3 + round % 2);
                    if synchronous == Synchronous::Full {
                        pen.count();
                    }
                    pen.update(2 + round % 3);
                    if mode == JournalMode::Persist {
                        pen.zero();
                    }
                    pen.wait(3_000_000);
                }
            });
            let (found, _) = identify(&events, &names);
            assert_eq!(
                found.len(),
                5,
                "{show:?} {mode} {synchronous}: the first ones are not lost"
            );
            for (round, transaction) in found.iter().enumerate() {
                assert_eq!(transaction.database, known_by(Landmark::JournalHeader, 1_100_000));
                // Without sync calls or names, what is left of TRUNCATE looks like DELETE.
                assert_eq!(
                    (transaction.journal_mode, transaction.synchronous),
                    (mode, synchronous),
                    "{show:?}"
                );
                assert_eq!(transaction.traffic.db.bytes, (2 + round as u64 % 3) * PAGE);
                assert!(transaction.confidence.value < 0.9);
            }
        }
    }
}

#[test]
fn a_journal_that_moves_is_known_by_the_databases_first_page() {
    for show in [Show::Calls, Show::Flushes, Show::Waits] {
        let mut names = Names::default();
        let events = nameless(&mut names, show, 0, |pen| {
            for round in 0..6 {
                pen.log(3 + round % 2).count().update(1 + round % 3).wait(3_000_000);
                pen.journal_sector += 512;
            }
        });
        let (found, summary) = identify(&events, &names);
        assert_eq!(found.len(), 6, "{show:?}");
        for (round, transaction) in found.iter().enumerate() {
            assert_eq!(transaction.database, known_by(Landmark::FirstPage, 1_000_000));
            assert_eq!(transaction.synchronous, Synchronous::Full);
            assert_eq!(transaction.traffic.db.bytes, (1 + round as u64 % 3) * PAGE);
            assert_eq!(transaction.traffic.journal.bytes, (4 + round as u64 % 2) * PAGE);
        }
        assert_eq!(summary.other.bytes, 0);
    }
}

#[test]
fn the_reason_says_that_there_were_no_names() {
    let mut names = Names::default();
    let events = nameless(&mut names, Show::Flushes, 0, |pen| {
        for _ in 0..3 {
            pen.log(3).count().update(2).zero();
        }
    });
    assert!(
        identify(&events, &names).0.iter().all(|found| found.confidence.reason == Reason::NoNames)
    );
}

#[test]
fn two_threads_are_two_databases() {
    let mut names = Names::default();
    let write = |pen: &mut Pen| {
        for _ in 0..4 {
            pen.log(3).count().update(2).zero().wait(1_700_000);
        }
    };
    let first = nameless(&mut names, Show::Flushes, 0, write);
    let second = nameless(&mut names, Show::Flushes, 1, |pen| {
        pen.now_ns += 333_333;
        write(pen);
    });
    let (found, _) = identify(&interleaved(vec![first, second]), &names);
    assert_eq!(found.len(), 8);
    for header in [1_100_000, 2_100_000] {
        let of = known_by(Landmark::JournalHeader, header);
        assert_eq!(found.iter().filter(|found| found.database == of).count(), 4);
    }
}

#[test]
fn one_thread_may_have_two_databases() {
    let mut names = Names::default();
    let events = nameless(&mut names, Show::Flushes, 0, |pen| {
        for round in 0..10 {
            let shift = if round % 2 == 0 { 0 } else { 400_000 };
            (pen.db_sector, pen.journal_sector) = (1_000_000 + shift, 1_100_000 + shift);
            pen.log(3).count().update(2).zero().wait(1_000_000);
        }
    });
    let (found, _) = identify(&events, &names);
    assert_eq!(found.len(), 10);
    for header in [1_100_000, 1_500_000] {
        let of = known_by(Landmark::JournalHeader, header);
        assert_eq!(found.iter().filter(|found| found.database == of).count(), 5);
    }
}

#[test]
fn other_files_of_the_same_thread_are_not_its_database() {
    let mut names = Names::default();
    let events = nameless(&mut names, Show::Flushes, 0, |pen| {
        for round in 0..4 {
            pen.log(3).count().update(2).zero().wait(1_000_000);
            pen.write(None, &[(9_000_000 + round * 64, 4)]).flush().wait(1_000_000);
        }
    });
    let (found, _) = identify(&events, &names);
    assert_eq!(found.len(), 4);
    assert!(
        found
            .iter()
            .all(|found| found.traffic.db.bytes == 2 * PAGE
                && found.traffic.journal.bytes == 5 * PAGE)
    );
}

#[test]
fn a_program_that_only_appends_has_no_transactions() {
    let mut names = Names::default();
    let events = nameless(&mut names, Show::Flushes, 0, |pen| {
        for round in 0..50 {
            pen.write(None, &[(3_000_000 + round * 8, 2)]).flush().wait(1_000_000);
        }
    });
    assert_eq!(identify(&events, &names).0, []);
}
