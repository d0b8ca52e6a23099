//! Commits in two steps (I20).

use std::sync::atomic::Ordering::Relaxed;

use oneflush_mvbt::{Database, Error, Options, Prepared, Read, TreeId};

use crate::common::Memory;
use crate::common::model::sound;

/// A tree of two levels.
fn with_rows() -> (Memory, Database, TreeId) {
    let mut options = Options::default();
    options.page_bytes = 512;
    let memory = Memory::default();
    let db = memory.create(options).unwrap();
    let mut txn = db.begin_write().unwrap();
    let tree = txn.create_tree(false).unwrap();
    for key in 0..30 {
        txn.insert(tree, key, &[7; 20]).unwrap();
    }
    txn.commit().unwrap();
    (memory, db, tree)
}

/// Of one page, or of many.
fn prepared(db: &Database, tree: TreeId, is_single: bool) -> Prepared {
    let mut txn = db.begin_write().unwrap();
    for key in if is_single { 3..4 } else { 3..200 } {
        txn.insert(tree, key, b"new").unwrap();
    }
    txn.prepare().unwrap()
}

fn at_3(db: &Database, tree: TreeId) -> Vec<u8> {
    db.begin_read().unwrap().get(tree, 3).unwrap().unwrap()
}

#[test]
fn a_prepared_transaction_is_durable_and_not_seen_before_it_is_finished() {
    for is_single in [true, false] {
        let (memory, db, tree) = with_rows();
        let before = db.begin_read().unwrap();
        let prepared = prepared(&db, tree, is_single);
        assert_eq!(at_3(&db, tree), [7; 20]);
        assert!(matches!(db.begin_write(), Err(Error::Busy { .. })));
        let after_crash = memory.crash(|| false).open(Options::default()).unwrap();
        assert_eq!(at_3(&after_crash, tree), b"new");
        assert_eq!(prepared.finish(), db.data_version());
        assert_eq!(at_3(&db, tree), b"new");
        assert_eq!(before.get(tree, 3).unwrap().unwrap(), [7; 20]);
        sound(&db, "finished");
    }
}

#[test]
fn a_transaction_goes_on_as_a_reader_of_what_it_has_made() {
    let (_, db, tree) = with_rows();
    let (version, reader) = prepared(&db, tree, true).finish_and_read();
    let reader = reader.unwrap();
    assert_eq!(reader.version(), version);
    let mut txn = db.begin_write().unwrap();
    txn.insert(tree, 3, b"later").unwrap();
    txn.commit().unwrap();
    assert_eq!(reader.get(tree, 3).unwrap().unwrap(), b"new");
    assert_eq!(at_3(&db, tree), b"later");
}

#[test]
fn a_prepared_transaction_that_is_rolled_back_never_was() {
    for (is_single, drops) in [(true, true), (true, false), (false, true), (false, false)] {
        let (memory, db, tree) = with_rows();
        let before = db.begin_read().unwrap();
        let prepared = prepared(&db, tree, is_single);
        if drops {
            drop(prepared)
        } else {
            prepared.rollback().unwrap()
        }
        assert_eq!(at_3(&db, tree), [7; 20]);
        assert_eq!(before.get(tree, 3).unwrap().unwrap(), [7; 20]);
        let after_crash = memory.crash(|| false).open(Options::default()).unwrap();
        assert_eq!(at_3(&after_crash, tree), [7; 20]);
        // What comes later does not bring it back.
        for key in [4, 5] {
            let mut txn = db.begin_write().unwrap();
            txn.insert(tree, key, b"later").unwrap();
            txn.commit().unwrap();
        }
        sound(&db, "rolled back");
        drop((before, db));
        let db = memory.open(Options::default()).unwrap();
        assert_eq!(at_3(&db, tree), [7; 20]);
        assert_eq!(db.begin_read().unwrap().get(tree, 5).unwrap().unwrap(), b"later");
        sound(&db, "rolled back, and opened");
    }
}

#[test]
fn a_crash_in_such_a_rollback_leaves_all_or_nothing() {
    for is_single in [true, false] {
        for operations in 0..6 {
            for survives in [true, false] {
                let (memory, db, tree) = with_rows();
                let prepared = prepared(&db, tree, is_single);
                memory.fail_after(operations);
                let is_done = prepared.rollback().is_ok();
                if !is_done {
                    assert!(matches!(db.begin_write(), Err(Error::Poisoned)));
                }
                let db = memory.crash(|| survives).open(Options::default()).unwrap();
                let about = format!("{is_single} {operations} {survives}");
                let found = at_3(&db, tree);
                assert!(found == [7; 20] || !is_done && found == b"new", "{about}");
                let is_there = db.begin_read().unwrap().get(tree, 150).unwrap().is_some();
                assert_eq!(is_there, !is_single && found == b"new", "{about}");
                sound(&db, &about);
            }
        }
    }
}

#[test]
fn two_steps_write_no_more_than_one() {
    for is_one_step in [true, false] {
        let (_memory, db, tree) = with_rows();
        let counters = db.counters();
        let counts = || {
            [&counters.pages, &counters.blocks, &counters.flushes].map(|count| count.load(Relaxed))
        };
        let before = counts();
        let mut txn = db.begin_write().unwrap();
        txn.insert(tree, 3, b"new").unwrap();
        match is_one_step {
            true => txn.commit().unwrap(),
            false => txn.prepare().unwrap().finish(),
        };
        let after = counts();
        let written: Vec<u64> = after.iter().zip(before).map(|(after, one)| after - one).collect();
        assert_eq!(written, [1, 0, 1]);
    }
}

#[test]
fn a_transaction_without_changes_is_prepared_without_a_write() {
    let (_memory, db, _) = with_rows();
    let version = db.data_version();
    let before = db.counters().flushes.load(Relaxed);
    assert_eq!(db.begin_write().unwrap().prepare().unwrap().finish(), version);
    db.begin_write().unwrap().prepare().unwrap().rollback().unwrap();
    assert_eq!(db.counters().flushes.load(Relaxed), before);
}
