//! Journal modes and synchronization options, told from written-out traces: the paper's Figures 8
//! to 14 and Table 1, and WAL.

use oneflush_trace::identify::{JournalMode, Outcome, Phases, Reason, Synchronous, Transaction};
use oneflush_trace::model::{Action, Names};

use crate::identify_common::{FLUSH_NS, PAGE, Pen, Show, identify};

const SHOWS: [Show; 3] = [Show::Calls, Show::Flushes, Show::Waits];

/// The transactions of one database.
fn found(show: Show, write: impl FnOnce(&mut Pen)) -> Vec<Transaction> {
    let mut names = Names::default();
    let mut pen = Pen::new(&mut names, show, 0);
    write(&mut pen);
    let events = pen.events;
    identify(&events, &names).0
}

fn all(transactions: &[Transaction], count: usize, mode: JournalMode, synchronous: Synchronous) {
    let options: Vec<_> =
        transactions.iter().map(|found| (found.journal_mode, found.synchronous)).collect();
    assert_eq!(options, vec![(mode, synchronous); count]);
}

#[test]
fn persist_full_is_log_count_update_zero() {
    for show in SHOWS {
        let found = found(show, |pen| {
            for _ in 0..3 {
                pen.log(3).count().update(2).zero().wait(2_000_000);
            }
        });
        all(&found, 3, JournalMode::Persist, Synchronous::Full);
        for transaction in &found {
            assert_eq!(transaction.traffic.journal.bytes, 5 * PAGE, "{show:?}");
            assert_eq!(transaction.traffic.db.bytes, 2 * PAGE);
            assert_eq!(transaction.flushes, if show == Show::Waits { 0 } else { 4 });
            assert_eq!(transaction.outcome, Outcome::Committed);
        }
    }
}

#[test]
fn persist_normal_is_log_update_zero() {
    for show in SHOWS {
        let found = found(show, |pen| {
            for _ in 0..3 {
                pen.log(3).update(2).zero().wait(2_000_000);
            }
        });
        all(&found, 3, JournalMode::Persist, Synchronous::Normal);
    }
}

#[test]
fn truncate_full_synchronizes_the_emptied_journal() {
    let found = found(Show::Calls, |pen| {
        pen.commit_pages = 4;
        for _ in 0..3 {
            pen.log(3).count().update(2).truncate().wait(2_000_000);
        }
    });
    all(&found, 3, JournalMode::Truncate, Synchronous::Full);
    assert!(found.iter().all(|found| found.confidence.reason == Reason::Whole));
    let Phases::Rollback { log_ns, db_ns, reset_ns } = found[0].phases else {
        panic!("{:?}", found[0].phases)
    };
    assert_eq!(log_ns + db_ns + reset_ns, found[0].latency_ns());
    assert!(reset_ns > FLUSH_NS && db_ns > FLUSH_NS && log_ns > 2 * FLUSH_NS);
}

#[test]
fn delete_full_synchronizes_nothing_behind_the_update() {
    let found = found(Show::Calls, |pen| {
        for _ in 0..3 {
            pen.log(3).count().update(2).wait(2_000_000);
            // The next journal is a new file, elsewhere.
            pen.journal_sector += 800;
        }
    });
    all(&found, 3, JournalMode::Delete, Synchronous::Full);
    assert!(found.iter().all(|found| found.confidence.reason == Reason::Whole));
}

#[test]
fn delete_extra_synchronizes_the_folder_behind_the_update() {
    let found = found(Show::Calls, |pen| {
        for _ in 0..3 {
            pen.log(3).count().update(2).delete_durably().wait(2_000_000);
        }
    });
    all(&found, 3, JournalMode::Delete, Synchronous::Extra);
}

#[test]
fn delete_and_truncate_with_normal_are_told_by_what_the_file_system_logs() {
    for (commit_pages, mode) in [(7, JournalMode::Delete), (4, JournalMode::Truncate)] {
        for show in [Show::Calls, Show::Flushes] {
            let found = found(show, |pen| {
                pen.commit_pages = commit_pages;
                for _ in 0..3 {
                    pen.log(3).update(2).wait(2_000_000);
                }
            });
            all(&found, 3, mode, Synchronous::Normal);
            assert!(found.iter().all(|found| found.confidence.reason == Reason::DeleteOrTruncate));
        }
    }
}

#[test]
fn a_trace_of_deletions_and_truncations_tells_delete_from_truncate() {
    for show in SHOWS {
        for logs_count in [1, 2] {
            for mode in [JournalMode::Delete, JournalMode::Truncate] {
                let found = found(show, |pen| {
                    for _ in 0..3 {
                        pen.log(3);
                        if logs_count == 2 {
                            pen.count();
                        }
                        pen.update(2);
                        if mode == JournalMode::Delete {
                            pen.remove(Action::FileDelete);
                        }
                        // Also at a deletion: the file system empties what it deletes.
                        pen.remove(Action::FileTruncate).wait(2_000_000);
                    }
                });
                all(
                    &found,
                    3,
                    mode,
                    if logs_count == 2 { Synchronous::Full } else { Synchronous::Normal },
                );
                assert!(found.iter().all(|found| found.confidence.reason == Reason::Whole));
            }
        }
    }
}

#[test]
fn without_sync_calls_delete_and_truncate_are_uncertain() {
    for show in [Show::Flushes, Show::Waits] {
        let found = found(show, |pen| {
            for _ in 0..2 {
                pen.log(3).count().update(2).wait(2_000_000);
            }
        });
        all(&found, 2, JournalMode::Delete, Synchronous::Full);
        assert!(found.iter().all(|found| found.confidence.reason == Reason::DeleteOrTruncate
            && found.confidence.value < 0.7));
    }
}

/// Table 1: header and body of the journal share a page. Therefore only two transactions in a row
/// tell.
#[test]
fn one_page_journals_reach_the_final_states_of_table_1() {
    let pages = [
        (JournalMode::Persist, Synchronous::Full, 2, true),
        (JournalMode::Delete, Synchronous::Full, 2, false),
        (JournalMode::Persist, Synchronous::Normal, 1, true),
        (JournalMode::Delete, Synchronous::Normal, 1, false),
    ];
    for show in [Show::Calls, Show::Flushes] {
        for (mode, synchronous, logs_count, is_zeroed) in pages {
            let found = found(show, |pen| {
                for _ in 0..4 {
                    for _ in 0..logs_count {
                        pen.log(1);
                    }
                    pen.update(2);
                    if is_zeroed {
                        pen.zero();
                    }
                    pen.wait(2_000_000);
                }
            });
            all(&found, 4, mode, synchronous);
            let journal_pages = logs_count + u64::from(is_zeroed);
            assert!(
                found.iter().all(|found| found.traffic.journal.bytes == journal_pages * PAGE),
                "{mode} {synchronous}"
            );
        }
    }
}

#[test]
fn a_single_transaction_says_that_it_is_alone() {
    let found = found(Show::Flushes, |pen| {
        pen.log(3).count().update(2).zero();
    });
    all(&found, 1, JournalMode::Persist, Synchronous::Full);
    assert_eq!((found[0].confidence.value, found[0].confidence.reason), (0.9, Reason::Single));
}

#[test]
fn a_log_that_no_update_follows_was_rolled_back() {
    let found = found(Show::Calls, |pen| {
        pen.log(3).count().update(2).zero();
        pen.log(4);
        pen.log(3).count().update(2).zero();
    });
    all(&found, 3, JournalMode::Persist, Synchronous::Full);
    let outcomes: Vec<_> = found.iter().map(|found| found.outcome).collect();
    assert_eq!(outcomes, [Outcome::Committed, Outcome::RolledBack, Outcome::Committed]);
    assert_eq!(found[1].traffic.journal.bytes, 4 * PAGE);
}

#[test]
fn a_spilled_cache_makes_segments_of_one_transaction() {
    for (synchronous, show) in
        [(Synchronous::Full, Show::Calls), (Synchronous::Normal, Show::Flushes)]
    {
        let full = synchronous == Synchronous::Full;
        let found = found(show, |pen| {
            for _ in 0..2 {
                pen.log(9);
                if full {
                    pen.count();
                }
                for at in [20, 30] {
                    pen.segment(at, 9);
                    if full {
                        pen.count_at(at);
                    }
                }
                pen.update(20).zero();
            }
        });
        all(&found, 2, JournalMode::Persist, synchronous);
        assert!(found.iter().all(|found| found.segments == 3));
        assert!(
            found
                .iter()
                .all(|found| found.traffic.journal.bytes
                    == (27 + 1 + if full { 3 } else { 0 }) * PAGE)
        );
    }
}

#[test]
fn a_database_page_written_between_two_segments_is_a_spill_and_no_commit() {
    let found = found(Show::Calls, |pen| {
        for _ in 0..2 {
            pen.log(9).count();
            let (path, sector) = (pen.database.clone(), pen.db_sector + 800);
            pen.write(path.as_deref(), &[(sector, 1)]);
            pen.segment(20, 9).count_at(20).update(20).zero();
        }
    });
    all(&found, 2, JournalMode::Persist, Synchronous::Full);
    assert!(found.iter().all(|found| found.traffic.db.bytes == 21 * PAGE && found.segments == 2));
}

#[test]
fn a_rollback_after_a_spill_leaves_the_last_segment_beside_the_zeroed_header() {
    let found = found(Show::Calls, |pen| {
        pen.log(9).count().segment(20, 9).count_at(20).update(20).zero();
        pen.log(9).count().segment(20, 9).count_at(20).update(16);
        let sector = pen.journal_sector;
        pen.durable("-journal", &[(sector, 1), (sector + 30 * 8, 5)], 0);
        pen.log(9).count().update(5).zero();
    });
    all(&found, 3, JournalMode::Persist, Synchronous::Full);
    let outcomes: Vec<_> = found.iter().map(|found| found.outcome).collect();
    assert_eq!(outcomes, [Outcome::Committed, Outcome::RolledBack, Outcome::Committed]);
}

#[test]
fn wal_full_synchronizes_each_append() {
    for show in [Show::Calls, Show::Flushes] {
        let found = found(show, |pen| {
            for _ in 0..4 {
                pen.append(2).wait(1_000_000);
            }
        });
        all(&found, 4, JournalMode::Wal, Synchronous::Full);
        assert!(
            found.iter().all(|found| found.flushes == 1 && found.traffic.journal.bytes == 3 * PAGE)
        );
    }
}

#[test]
fn the_header_of_a_restarted_wal_is_no_transaction() {
    let found = found(Show::Calls, |pen| {
        pen.wal_header().append(2).append(1).append(1).update(3);
        pen.wal_header().append(2).append(1);
    });
    all(&found, 5, JournalMode::Wal, Synchronous::Full);
    assert_eq!(found[0].traffic.journal.bytes, 4 * PAGE);
    assert_eq!(found[3].traffic.journal.bytes, 4 * PAGE);
}

#[test]
fn a_checkpoint_is_the_share_of_the_transaction_that_made_it() {
    let found = found(Show::Calls, |pen| {
        pen.append(2).append(2).update(6).append(2);
    });
    all(&found, 3, JournalMode::Wal, Synchronous::Full);
    let shares: Vec<u64> = found
        .iter()
        .map(|found| match found.phases {
            Phases::Append { checkpoint, .. } => checkpoint.db.bytes,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(shares, [0, 6 * PAGE, 0]);
    assert!(found[1].latency_ns() > found[0].latency_ns() + FLUSH_NS);
}

#[test]
fn wal_normal_is_synchronized_for_checkpoints_only() {
    let found = found(Show::Calls, |pen| {
        for _ in 0..3 {
            pen.append(12).update(2).restart_wal().wait(2_000_000);
        }
    });
    all(&found, 3, JournalMode::Wal, Synchronous::Normal);
    assert!(
        found
            .iter()
            .all(|found| found.confidence.reason == Reason::Batch && found.confidence.value < 0.5)
    );
}

#[test]
fn records_of_our_own_logs_are_transactions() {
    for (ending, mode) in [
        ("-oneflush", JournalMode::Eager),
        ("-waldio", JournalMode::Waldio),
        ("-maw", JournalMode::Maw),
    ] {
        let found = found(Show::Flushes, |pen| {
            pen.record(ending).record(ending).update(4).record(ending);
        });
        all(&found, 3, mode, Synchronous::Full);
        assert_eq!(found[0].traffic.journal.bytes, PAGE);
        assert_eq!(found[1].traffic.db.bytes, 4 * PAGE, "the checkpoint");
    }
}

#[test]
fn a_database_without_any_journal_is_reported_with_little_confidence() {
    let found = found(Show::Calls, |pen| {
        pen.update(2).wait(1_000_000).update(2);
    });
    all(&found, 2, JournalMode::Unknown, Synchronous::Unknown);
    assert!(found.iter().all(|found| found.confidence.reason == Reason::NoJournal));
}

#[test]
fn a_change_of_mode_shows_in_the_transactions_behind_it() {
    let found = found(Show::Calls, |pen| {
        for _ in 0..12 {
            pen.log(3).count().update(2).zero();
        }
        for _ in 0..12 {
            pen.append(2);
        }
    });
    all(&found[..12], 12, JournalMode::Persist, Synchronous::Full);
    all(&found[12..], 12, JournalMode::Wal, Synchronous::Full);
}

/// A large transaction, one over several databases, or another program: SQLite's own journal.
#[test]
fn an_ordinary_transaction_between_records_of_maw_is_one_of_its_journal() {
    let found = found(Show::Calls, |pen| {
        for _ in 0..3 {
            pen.record("-maw").wait(1_000_000);
        }
        for _ in 0..3 {
            pen.log(3).count().update(2).zero().wait(1_000_000);
        }
        for _ in 0..3 {
            pen.record("-maw").wait(1_000_000);
        }
    });
    all(&found[..3], 3, JournalMode::Maw, Synchronous::Full);
    all(&found[3..6], 3, JournalMode::Persist, Synchronous::Full);
    all(&found[6..], 3, JournalMode::Maw, Synchronous::Full);
    assert!(found[..3].iter().all(|found| found.traffic.journal.bytes == PAGE));
}
