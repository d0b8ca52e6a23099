//! What recordings of real databases showed to be misread, written out: each test is one of them.

use oneflush_trace::identify::{JournalMode, Outcome, Synchronous, Transaction};
use oneflush_trace::model::{Action, Names};

use crate::identify_common::{Pen, Show, identify};

fn found(write: impl FnOnce(&mut Pen)) -> Vec<Transaction> {
    let mut names = Names::default();
    let mut pen = Pen::new(&mut names, Show::Calls, 0);
    write(&mut pen);
    let events = pen.events;
    identify(&events, &names).0
}

fn options(found: &[Transaction]) -> Vec<(JournalMode, Synchronous)> {
    found.iter().map(|found| (found.journal_mode, found.synchronous)).collect()
}

fn outcomes(found: &[Transaction]) -> Vec<Outcome> {
    found.iter().map(|found| found.outcome).collect()
}

fn plain(pen: &mut Pen) {
    pen.journal_sector += 800;
    pen.log(3).count().update(2).remove(Action::FileDelete).wait(2_000_000);
}

/// A cache that spills ends a segment of the journal in the middle of a page. The next segment, of
/// few records, begins in that page. Such a page was taken for the reset of the journal. The
/// transaction was taken for two: one rolled back, one of NORMAL.
#[test]
fn a_segment_that_begins_in_the_page_where_the_last_one_ended_goes_on_with_the_transaction() {
    let found = found(|pen| {
        plain(pen);
        pen.journal_sector += 800;
        // Pages 0, 4 and 5 of the journal. The second segment is page 5 again.
        pen.log(3)
            .count()
            .segment(5, 1)
            .count_at(5)
            .update(9)
            .remove(Action::FileDelete)
            .wait(2_000_000);
        plain(pen);
    });
    assert_eq!(options(&found), [(JournalMode::Delete, Synchronous::Full); 3]);
    assert_eq!(outcomes(&found), [Outcome::Committed; 3]);
    assert_eq!(found[1].segments, 2);
}

/// A transaction that spilled is rolled back. While the database is restored, the file system's
/// journal thread writes the part of the rollback journal that was never synchronized. The next
/// transaction was taken for a part of the first.
#[test]
fn a_journal_that_the_kernel_writes_while_the_database_is_restored_ends_with_its_deletion() {
    let found = found(|pen| {
        plain(pen);
        pen.journal_sector += 800;
        pen.log(3).count();
        let database = pen.database.clone();
        pen.sync(database.as_deref(), |pen| {
            pen.write(database.as_deref(), &[(pen.db_sector, 2)]);
            pen.written_by_kernel(6).flush();
        });
        pen.remove(Action::FileDelete).wait(2_000_000);
        plain(pen);
    });
    assert_eq!(found.len(), 3);
    assert_eq!(options(&found), [(JournalMode::Delete, Synchronous::Full); 3]);
}

/// The last page of a journal is written by the file system's journal thread only when the journal
/// has been deleted. The page was taken for the begin of the next transaction.
#[test]
fn a_journal_that_the_kernel_writes_after_its_deletion_is_of_the_transaction_that_it_ended() {
    for sync in [Synchronous::Full, Synchronous::Normal] {
        let mut next_ns = 0;
        let found = found(|pen| {
            for _ in 0..2 {
                next_ns = pen.now_ns;
                pen.journal_sector += 800;
                pen.log(3);
                if sync == Synchronous::Full {
                    pen.count();
                }
                pen.update(2)
                    .remove(Action::FileDelete)
                    .deleted_written_by_kernel(6)
                    .wait(2_000_000);
            }
        });
        assert_eq!(options(&found), [(JournalMode::Delete, sync); 2]);
        assert!(found[1].begin_ns >= next_ns);
        let journal_bytes = |found: &Transaction| found.traffic.journal.bytes;
        assert_eq!(journal_bytes(&found[0]), journal_bytes(&found[1]));
    }
}

/// The same behind the update. The page was taken for the begin of the next transaction.
#[test]
fn a_journal_that_the_kernel_writes_between_update_and_deletion_is_no_transaction() {
    for removal in [Action::FileDelete, Action::FileTruncate] {
        let found = found(|pen| {
            for kernel_writes in [false, false, false, true, false] {
                pen.journal_sector += 800;
                pen.log(3).update(2);
                if kernel_writes {
                    pen.written_by_kernel(6);
                }
                pen.remove(removal).wait(2_000_000);
            }
        });
        assert_eq!(found.len(), 5, "{removal:?}");
        assert_eq!(outcomes(&found), [Outcome::Committed; 5]);
        assert!(
            found.windows(2).all(|pair| pair[1].begin_ns >= pair[0].end_ns + 2_000_000),
            "{removal:?}"
        );
    }
}

/// A program that truncates its journal writes, on ext4, what it cuts off of a page that was never
/// synchronized. That was taken for the begin of a transaction. The transaction before it was taken
/// for DELETE: its journal had neither been emptied nor synchronized again.
#[test]
fn a_journal_of_which_its_truncation_writes_a_page_is_no_transaction() {
    let found = found(|pen| {
        for cuts_off in [false, false, true, false] {
            pen.journal_sector += 800;
            pen.log(3).count().update(2);
            if cuts_off {
                pen.written_unsynced(2);
            }
            pen.remove(Action::FileTruncate).wait(2_000_000);
        }
    });
    assert_eq!(options(&found), [(JournalMode::Truncate, Synchronous::Full); 4]);
    assert_eq!(outcomes(&found), [Outcome::Committed; 4]);
    assert_eq!(found[2].traffic.journal.requests, found[1].traffic.journal.requests + 1);
}

/// A busy machine writes back what a cache has spilled, and the part of the journal that came after
/// its synchronization. While the database is not durable, both belong to the same transaction.
/// They were taken for the log of the next transaction, and the transaction for two.
#[test]
fn what_is_written_back_of_a_spilled_transaction_is_no_transaction() {
    let found = found(|pen| {
        plain(pen);
        pen.journal_sector += 800;
        pen.log(3).database_written_back(2).written_by_kernel(0).written_by_kernel(6).update(9);
        pen.remove(Action::FileDelete).wait(2_000_000);
        plain(pen);
    });
    assert_eq!(found.len(), 3);
    assert_eq!(outcomes(&found), [Outcome::Committed; 3]);
    // Two requests in the place of the count.
    assert_eq!(found[1].traffic.journal.requests, found[0].traffic.journal.requests + 1);
}

/// The file system's journal thread may write the log of the next transaction before that
/// transaction synchronizes it.
#[test]
fn a_log_whose_begin_the_kernel_has_written_is_the_next_transactions() {
    let found = found(|pen| {
        plain(pen);
        pen.journal_sector += 800;
        pen.written_by_kernel(0);
        pen.segment(4, 2).count().update(2).remove(Action::FileDelete).wait(2_000_000);
        plain(pen);
    });
    assert_eq!(options(&found), [(JournalMode::Delete, Synchronous::Full); 3]);
    assert_eq!(found[1].traffic.journal.requests, 3);
}

/// A rolled back transaction that had spilled leaves a page that was never synchronized. With
/// PERSIST, the page is written with the reset. That was taken for a transaction that begins, and
/// is rolled back, behind each of them.
#[test]
fn a_reset_with_what_was_never_synchronized_of_the_log_begins_no_transaction() {
    let found = found(|pen| {
        for spilled in [false, true, false] {
            pen.log(3).count().update(2);
            if spilled {
                let runs = [(pen.journal_sector, 1), (pen.journal_sector + 40, 1)];
                pen.durable("-journal", &runs, 0);
            } else {
                pen.zero();
            }
            pen.wait(2_000_000);
        }
    });
    assert_eq!(options(&found), [(JournalMode::Persist, Synchronous::Full); 3]);
}

/// With NORMAL, a WAL that begins anew has its header synchronized before any frame. Each
/// checkpoint looked like a commit of FULL.
#[test]
fn a_synchronized_header_of_a_wal_is_no_synchronized_commit() {
    let found = found(|pen| {
        for _ in 0..4 {
            pen.wal_header().append(50).update(9).wait(2_000_000);
        }
    });
    assert_eq!(options(&found), [(JournalMode::Wal, Synchronous::Normal); 4]);
    assert!(found.iter().all(|found| found.confidence.value <= 0.4));
}
