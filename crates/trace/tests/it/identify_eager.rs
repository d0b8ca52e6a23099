//! Which records of the strategy `eager` are commits, by SQLite's lock for writing. `eager` writes
//! to its log for more than commits.
//!
//! The trace is `eager/two_opens.ftrace` (ext4, Linux 6.18, without the events that nothing here
//! needs). A database is opened, gets three inserts and is closed, then the same with two.
//! `identify` said 15 transactions, one of 1 MB. Each open makes the log by three writes. Each
//! close logs the pages of its checkpoint and page 1.

use oneflush_trace::identify::{
    Identifier, JournalMode, Phases, Summary, Synchronous, Transaction,
};
use oneflush_trace::import;
use oneflush_trace::model::{Action, Actor, Flags, Names};

use crate::identify_common::{PAGE, Pen, Show, identify};

fn recorded() -> (Vec<Transaction>, Summary) {
    let mut reader = import::open("tests/eager/two_opens.ftrace".as_ref())
        .expect("the trace is of a known format");
    let mut identifier = Identifier::new();
    while let Some(event) = reader.next().expect("the trace can be read") {
        identifier.push(&event, reader.names());
    }
    identifier.finish(reader.names())
}

#[test]
fn what_makes_and_ends_a_log_is_no_transaction() {
    let (found, summary) = recorded();
    assert_eq!(found.len(), 5);
    let own: Vec<u64> = found
        .iter()
        .map(|found| {
            assert_eq!(
                (found.journal_mode, found.synchronous),
                (JournalMode::Eager, Synchronous::Full)
            );
            match found.phases {
                Phases::Append { checkpoint, .. } => {
                    found.traffic.journal.bytes - checkpoint.journal.bytes
                }
                other => panic!("{other:?}"),
            }
        })
        .collect();
    assert_eq!(own, [PAGE; 5]);
    // The last transaction of each opening has the checkpoint of the close. The checkpoint has its
    // images, page 1, and both writes to the database.
    let whole: Vec<u64> = found.iter().map(|found| found.traffic.journal.bytes).collect();
    assert_eq!(whole, [PAGE, PAGE, 3 * PAGE, PAGE, 3 * PAGE]);
    assert!(found[2].traffic.db.bytes > 0 && found[4].traffic.db.bytes > 0);
    // Twice: the zeros with the place of the header, the header, the first record; and the guard.
    assert_eq!(summary.partial.journal.bytes, 2 * ((1 << 20) + 3 * PAGE));
    assert_eq!(summary.partial.db.bytes, 2 * PAGE);
    assert_eq!(summary.partial_count, 0);
}

#[test]
fn no_byte_and_no_flush_is_lost() {
    let (found, summary) = recorded();
    let mut total = summary.partial;
    let mut flushes = summary.flushes;
    for found in &found {
        total += found.traffic;
        flushes += found.flushes;
    }
    // As many as when each record was a transaction.
    assert_eq!(
        (total.db.bytes, total.journal.bytes, total.fs_journal.bytes),
        (24_576, 2_158_592, 196_608)
    );
    assert_eq!(flushes, 31);
}

fn found(write: impl FnOnce(&mut Pen)) -> Vec<Transaction> {
    let mut names = Names::default();
    let mut pen = Pen::new(&mut names, Show::Calls, 0);
    write(&mut pen);
    let events = pen.events;
    identify(&events, &names).0
}

const LOG: &str = "-oneflush";

fn commit(pen: &mut Pen) {
    pen.lock(Action::WriteLock).record(LOG).lock(Action::WriteUnlock).wait(1_000_000);
}

fn checkpoint_journal_bytes(found: &[Transaction]) -> Vec<u64> {
    let of = |found: &Transaction| match found.phases {
        Phases::Append { checkpoint, .. } => checkpoint.journal.bytes,
        other => panic!("{other:?}"),
    };
    found.iter().map(of).collect()
}

#[test]
fn a_checkpoint_of_another_thread_begins_with_records_that_are_no_commits() {
    for has_lock in [false, true] {
        let found = found(|pen| {
            commit(pen);
            let writer = std::mem::replace(&mut pen.thread, 200);
            if has_lock {
                pen.lock(Action::WriteLock);
            }
            pen.record(LOG).update(4);
            if has_lock {
                pen.lock(Action::WriteUnlock);
            }
            pen.thread = writer;
            commit(pen);
        });
        assert_eq!(checkpoint_journal_bytes(&found), [PAGE, 0], "{has_lock}");
    }
}

/// The kernel may join a lock with that of a checkpoint of the same process. It then shows one lock
/// for both, which is not SQLite's for writing.
#[test]
fn a_record_of_who_gives_back_a_lock_that_nobody_saw_him_take_is_a_commit() {
    let found = found(|pen| {
        commit(pen);
        pen.record(LOG).lock(Action::WriteUnlock).wait(1_000_000);
        // The thread gave the lock back before the record had to be durable.
        pen.lock(Action::WriteUnlock).record(LOG).wait(1_000_000);
        pen.record(LOG).update(4);
    });
    assert_eq!(checkpoint_journal_bytes(&found), [0, 0, PAGE]);
}

#[test]
fn a_log_that_grows_for_a_commit_is_that_commits() {
    let found = found(|pen| {
        commit(pen);
        pen.lock(Action::WriteLock).zeros(LOG, 128).record(LOG).lock(Action::WriteUnlock);
        commit(pen);
    });
    let bytes: Vec<u64> = found.iter().map(|found| found.traffic.journal.bytes).collect();
    assert_eq!(bytes, [PAGE, 129 * PAGE, PAGE]);
    assert_eq!(checkpoint_journal_bytes(&found), [0; 3]);
}

#[test]
fn an_image_that_is_synchronized_for_a_large_transaction_is_that_transactions() {
    let found = found(|pen| {
        commit(pen);
        pen.lock(Action::WriteLock).durable("-oneflush-wal", &[(9_000_000, 2000)], 0);
        pen.record(LOG).lock(Action::WriteUnlock);
        commit(pen);
    });
    let bytes: Vec<u64> = found.iter().map(|found| found.traffic.journal.bytes).collect();
    assert_eq!(bytes, [PAGE, 2001 * PAGE, PAGE]);
}

/// `plain` makes a new WAL longer ahead, in its first commit. That was a transaction of its own.
#[test]
fn what_is_synchronized_of_a_wal_under_one_lock_is_one_transaction() {
    let found = found(|pen| {
        pen.lock(Action::WriteLock)
            .wal_header()
            .zeros("-wal", 256)
            .append(2)
            .lock(Action::WriteUnlock);
        pen.lock(Action::WriteLock).append(2).lock(Action::WriteUnlock);
    });
    assert_eq!(found.len(), 2);
    assert_eq!(found[0].traffic.journal.bytes, (1 + 256 + 3) * PAGE);
}

/// In exclusive locking mode, and in traces of others.
#[test]
fn without_locks_each_record_is_a_transaction() {
    let found = found(|pen| {
        for _ in 0..20 {
            pen.record(LOG).wait(1_000_000);
        }
    });
    assert_eq!(found.len(), 20);
}

/// The first four records are taken for a checkpoint's.
#[test]
fn a_connection_that_takes_no_more_locks_is_told_again_after_a_few_records() {
    let found = found(|pen| {
        commit(pen);
        for _ in 0..20 {
            pen.record(LOG).wait(1_000_000);
        }
    });
    assert_eq!(found.len(), 17);
    assert_eq!(checkpoint_journal_bytes(&found)[0], 4 * PAGE);
}

/// SQLite alone used the database before, and ended with a checkpoint. The checkpoint takes the
/// lock unseen.
#[test]
fn a_log_that_is_made_after_others_have_closed_the_database_is_no_transaction() {
    let found = found(|pen| {
        pen.lock(Action::WriteLock).append(2).lock(Action::WriteUnlock).lock(Action::WriteUnlock);
        let index = format!("{}-shm", pen.database.clone().unwrap_or_default());
        let actor = Actor { thread: pen.thread, process: pen.thread, name: None };
        pen.push(Action::FileDelete, 0, 0, Flags::default(), actor, Some(&index));
        pen.zeros(LOG, 257).record(LOG).record(LOG).update(1);
        commit(pen);
        commit(pen);
    });
    let modes: Vec<JournalMode> = found.iter().map(|found| found.journal_mode).collect();
    assert_eq!(modes, [JournalMode::Wal, JournalMode::Eager, JournalMode::Eager]);
}

#[test]
fn a_trace_that_begins_within_a_commit_has_it() {
    let found = found(|pen| {
        pen.record(LOG).lock(Action::WriteUnlock);
        commit(pen);
    });
    assert_eq!(found.len(), 2);
}
