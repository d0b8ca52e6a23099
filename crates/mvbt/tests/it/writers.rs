//! Who may write, and who is told that another does.

use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use oneflush_mvbt::{
    Database, Error, Options, Read, ReadTransaction, Result, TreeId, WriteTransaction,
};

use crate::common::Memory;

fn with_tree() -> (Database, TreeId) {
    let db = Memory::default().create(Options::default()).unwrap();
    let mut txn = db.begin_write().unwrap();
    let tree = txn.create_tree(false).unwrap();
    txn.commit().unwrap();
    (db, tree)
}

fn is_busy<T>(answer: Result<T>) -> bool {
    matches!(answer, Err(Error::Busy { .. }))
}

/// Each of these waited for its own thread, for ever. One with a time waits that long: another
/// thread may end the transaction.
#[test]
fn a_thread_that_writes_does_not_wait_for_itself() {
    let (db, tree) = with_tree();
    let mut txn = db.begin_write().unwrap();
    assert!(is_busy(db.begin_write()));
    assert!(is_busy(db.try_begin_write()));
    assert!(is_busy(db.begin_write_within(Duration::from_millis(20))));
    assert!(is_busy(db.check(None)));
    assert!(is_busy(db.reclaim()));
    txn.insert(tree, 1, b"one").unwrap();
    txn.commit().unwrap();
    db.check(None).unwrap();
    db.begin_write().unwrap().rollback().unwrap();
}

#[test]
fn a_database_with_a_transaction_is_not_closed_and_the_transaction_goes_on() {
    let memory = Memory::default();
    let db = memory.create(Options::default()).unwrap();
    let mut txn = db.begin_write().unwrap();
    let tree = txn.create_tree(false).unwrap();
    assert!(is_busy(db.close()));
    txn.insert(tree, 1, b"one").unwrap();
    txn.commit().unwrap();
    let db = memory.open(Options::default()).unwrap();
    let reader = db.begin_read().unwrap();
    assert!(is_busy(db.close()));
    assert_eq!(reader.get(tree, 1).unwrap().as_deref(), Some(&b"one"[..]));
}

#[test]
fn another_thread_waits_and_then_writes() {
    let (db, tree) = with_tree();
    let mut txn = db.begin_write().unwrap();
    thread::scope(|scope| {
        let other = scope.spawn(|| {
            let mut txn = db.begin_write().unwrap();
            assert_eq!(txn.get(tree, 1).unwrap().as_deref(), Some(&b"one"[..]));
            txn.insert(tree, 2, b"two").unwrap();
            txn.commit().unwrap();
        });
        thread::sleep(Duration::from_millis(30));
        txn.insert(tree, 1, b"one").unwrap();
        txn.commit().unwrap();
        other.join().unwrap();
    });
    assert_eq!(db.begin_read().unwrap().get(tree, 2).unwrap().as_deref(), Some(&b"two"[..]));
}

#[test]
fn who_does_not_wait_or_not_long_is_told_that_another_writes() {
    let (db, _) = with_tree();
    let txn = db.begin_write().unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            assert!(is_busy(db.try_begin_write()));
            let (began, time) = (Instant::now(), Duration::from_millis(40));
            assert!(is_busy(db.begin_write_within(time)));
            assert!(began.elapsed() >= time);
        });
    });
    drop(txn);
    db.try_begin_write().unwrap().rollback().unwrap();
    db.begin_write_within(Duration::ZERO).unwrap().rollback().unwrap();
    db.begin_write_within(Duration::MAX).unwrap().rollback().unwrap();
}

#[test]
fn who_waits_for_some_time_gets_the_writer_within_it() {
    let (db, _) = with_tree();
    let txn = db.begin_write().unwrap();
    thread::scope(|scope| {
        let other = scope.spawn(|| db.begin_write_within(Duration::from_secs(60))?.rollback());
        thread::sleep(Duration::from_millis(20));
        drop(txn);
        other.join().unwrap().unwrap();
    });
}

#[test]
fn a_transaction_is_of_the_thread_that_has_used_it_last() {
    fn may_go_to_another_thread<T: Send>() {}
    may_go_to_another_thread::<WriteTransaction>();
    may_go_to_another_thread::<ReadTransaction>();
    let (db, tree) = with_tree();
    let mut txn = db.begin_write().unwrap();
    txn.insert(tree, 1, b"one").unwrap();
    let (is_used, used) = channel();
    let (ends, end) = channel();
    let same = &db;
    thread::scope(|scope| {
        let other = scope.spawn(move || {
            txn.insert(tree, 2, b"two").unwrap();
            is_used.send(()).unwrap();
            end.recv().unwrap();
            assert!(is_busy(same.begin_write()));
            txn.commit().unwrap();
        });
        used.recv().unwrap();
        // It is not ours any more: a wait for it ends.
        assert!(is_busy(db.begin_write_within(Duration::from_millis(5))));
        ends.send(()).unwrap();
        db.begin_write().unwrap().rollback().unwrap();
        other.join().unwrap();
    });
    assert_eq!(db.begin_read().unwrap().get(tree, 2).unwrap().as_deref(), Some(&b"two"[..]));
}

#[test]
fn transactions_outlive_their_database() {
    let (db, tree) = with_tree();
    let reader = db.begin_read().unwrap();
    let mut txn = db.begin_write().unwrap();
    drop(db);
    txn.insert(tree, 1, b"one").unwrap();
    txn.commit().unwrap();
    assert_eq!(reader.get(tree, 1).unwrap(), None);
}
