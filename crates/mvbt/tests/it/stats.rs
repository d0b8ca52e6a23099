//! What a database counts.

use oneflush_mvbt::{Database, Options, Probe, Read, TreeId, Version};

use crate::common::Memory;

#[test]
fn commits_splits_and_freed_pages_are_counted_and_nothing_is_counted_for_a_rollback() {
    let db = Memory::default().create(Options::default()).unwrap();
    let before = db.stats().unwrap();
    assert_eq!((before.commits, before.splits, before.freed), (0, 0, 0));
    let mut txn = db.begin_write().unwrap();
    let tree = txn.create_tree(false).unwrap();
    for key in 0..1000 {
        txn.insert(tree, key, &[7; 100]).unwrap();
    }
    txn.commit().unwrap();
    let filled = db.stats().unwrap();
    assert_eq!(filled.commits, 1);
    assert!(filled.splits >= 20 && filled.pages_written >= 25, "{filled:?}");
    assert!(filled.pages >= 25 && filled.flushes > before.flushes, "{filled:?}");
    assert_eq!((filled.from, filled.to), (db.data_version(), db.data_version()));

    let mut txn = db.begin_write().unwrap();
    txn.drop_tree(tree).unwrap();
    txn.rollback().unwrap();
    assert_eq!(db.stats().unwrap().commits, 1);
    let mut txn = db.begin_write().unwrap();
    txn.drop_tree(tree).unwrap();
    txn.commit().unwrap();
    let dropped = db.stats().unwrap();
    assert_eq!(dropped.commits, 2);
    assert!(dropped.freed >= 25, "{dropped:?}");
    assert!(dropped.free_pages <= dropped.pages && dropped.to > Version(1), "{dropped:?}");
}

#[test]
fn stats_are_there_while_others_write() {
    let db = Memory::default().create(Options::default()).unwrap();
    std::thread::scope(|scope| {
        let writes = scope.spawn(|| {
            for turn in 0..100_u8 {
                let mut txn = db.begin_write().unwrap();
                let tree = txn.create_tree(false).unwrap();
                for key in 0..200 {
                    txn.insert(tree, key, &[turn; 100]).unwrap();
                }
                txn.commit().unwrap();
                let mut txn = db.begin_write().unwrap();
                txn.drop_tree(tree).unwrap();
                txn.commit().unwrap();
            }
        });
        while !writes.is_finished() {
            let stats = db.stats().unwrap();
            assert!(stats.free_pages <= stats.pages, "{stats:?}");
        }
    });
    assert_eq!(db.stats().unwrap().commits, 200);
}

#[test]
fn a_cache_that_is_made_smaller_keeps_less_and_gets_larger_again() {
    let db = Memory::default().create(Options::default()).unwrap();
    let mut txn = db.begin_write().unwrap();
    let tree = txn.create_tree(false).unwrap();
    for key in 0..500 {
        txn.insert(tree, key, &[7; 1500]).unwrap();
    }
    txn.commit().unwrap();
    let reads_of_two_scans = || {
        let reads = || {
            let reader = db.begin_read().unwrap();
            assert_eq!(reader.count(tree).unwrap(), 500);
            db.stats().unwrap().pages_read
        };
        reads();
        let before = reads();
        reads() - before
    };
    assert_eq!(reads_of_two_scans(), 0);
    db.set_cache_bytes(0);
    assert!(reads_of_two_scans() > 100);
    db.set_cache_bytes(8 << 20);
    assert_eq!(reads_of_two_scans(), 0);
}

/// Each leaf was a read of its own: a process that had just begun counted 20 times as long as with
/// SQLite alone.
#[test]
fn who_scans_reads_many_pages_at_once_and_who_seeks_only_those_of_its_way() {
    const KEYS: i64 = 3000;
    let file = Memory::default();
    let db = file.create(Options::default()).unwrap();
    let mut txn = db.begin_write().unwrap();
    let tree = txn.create_tree(false).unwrap();
    for key in 0..KEYS {
        txn.insert(tree, key, &[7; 1000]).unwrap();
    }
    txn.commit().unwrap();
    db.close().unwrap();
    let reads = |work: &dyn Fn(&Database, TreeId)| {
        let db = file.open(Options::default()).unwrap();
        let before = file.reads();
        work(&db, tree);
        file.reads() - before
    };
    let count = |db: &Database, tree| {
        assert_eq!(db.begin_read().unwrap().count(tree).unwrap(), KEYS as u64);
    };
    let scan = |db: &Database, tree, is_forward: bool| {
        let reader = db.begin_read().unwrap();
        let (source, mut cursor) = (reader.source(), reader.cursor(tree).unwrap());
        if is_forward { cursor.first(source) } else { cursor.last(source) }.unwrap();
        let mut keys = 0..KEYS;
        while let Some(key) = cursor.integer_key(source).unwrap() {
            assert_eq!(Some(key), if is_forward { keys.next() } else { keys.next_back() });
            if is_forward { cursor.next(source) } else { cursor.previous(source) }.unwrap();
        }
        assert!(keys.is_empty());
    };
    let seek = |db: &Database, tree| {
        let reader = db.begin_read().unwrap();
        let mut cursor = reader.cursor(tree).unwrap();
        assert!(cursor.seek(reader.source(), Probe::Integer(KEYS / 2)).unwrap());
        cursor.next(reader.source()).unwrap();
    };
    // Of some 1,000 leaves.
    assert!(reads(&count) < 60, "{}", reads(&count));
    for is_forward in [true, false] {
        let scanned = reads(&|db, tree| scan(db, tree, is_forward));
        assert!(scanned < 80, "{scanned}");
    }
    assert!(reads(&seek) < 10, "{}", reads(&seek));
}
