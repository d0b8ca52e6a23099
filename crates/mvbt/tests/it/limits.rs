//! A database that may get no more pages.

use oneflush_mvbt::{Database, Error, Options, Read, ReadTransaction, TreeId};

use crate::common::Memory;
use crate::common::model::sound;

/// Rows, each in a transaction, until the database is full.
fn full(pages_max: u64, bytes: usize) -> (Database, TreeId, i64) {
    let mut options = Options::default();
    options.page_bytes = 512;
    options.pages_max = pages_max;
    let db = Memory::default().create(options).unwrap();
    let mut txn = db.begin_write().unwrap();
    let tree = txn.create_tree(false).unwrap();
    txn.commit().unwrap();
    let rows = fill(&db, tree, 0, bytes);
    (db, tree, rows)
}

fn fill(db: &Database, tree: TreeId, from: i64, bytes: usize) -> i64 {
    for key in from.. {
        let mut txn = db.begin_write().unwrap();
        match txn.insert(tree, key, &vec![7; bytes]) {
            Ok(_) => drop(txn.commit().unwrap()),
            Err(Error::Full { limit }) => {
                assert_eq!(limit, db.pages_max());
                txn.rollback().unwrap();
                return key;
            }
            Err(error) => panic!("{error}"),
        }
    }
    unreachable!()
}

#[test]
fn the_limit_is_asked_and_changed_while_the_database_is_open() {
    let (db, tree, rows) = full(100, 60);
    let count = db.begin_read().unwrap().page_count().unwrap();
    assert!(count <= 100, "{count}");
    // Never less than there is.
    assert_eq!(db.set_pages_max(5).unwrap(), count);
    assert_eq!(db.set_pages_max(200).unwrap(), 200);
    assert_eq!(db.pages_max(), 200);
    let more = fill(&db, tree, rows, 60);
    assert!(more > rows * 3 / 2, "{more} and {rows}");
    assert!(db.begin_read().unwrap().page_count().unwrap() <= 200);
    sound(&db, "full again");
}

#[test]
fn a_transaction_that_met_the_limit_goes_on_after_its_savepoint() {
    let (db, tree, rows) = full(100, 60);
    let mut txn = db.begin_write().unwrap();
    let savepoint = txn.savepoint();
    let refused = (rows..rows + 50).find_map(|key| txn.insert(tree, key, &[7; 60]).err());
    assert!(matches!(refused, Some(Error::Full { .. })));
    txn.roll_back_to(savepoint).unwrap();
    assert!(txn.delete(tree, 0).unwrap());
    txn.commit().unwrap();
    assert_eq!(db.begin_read().unwrap().get(tree, 0).unwrap(), None);
    sound(&db, "after the limit");
}

/// Readers keep what is deleted, so pages get full and are split.
#[test]
fn deletes_work_at_the_limit_while_all_is_being_read() {
    for pages_max in [60, 100, 300] {
        let (db, tree, rows) = full(pages_max, 8);
        let mut readers: Vec<ReadTransaction> = Vec::new();
        let mut deleted = 0;
        // Each in a transaction.
        for key in (0..rows).take(60) {
            readers.push(db.begin_read().unwrap());
            let mut txn = db.begin_write().unwrap();
            match txn.delete(tree, key) {
                Ok(was_there) => assert!(was_there),
                Err(Error::Full { .. }) => break,
                Err(error) => panic!("{error}"),
            }
            txn.commit().unwrap();
            deleted += 1;
        }
        assert!(deleted >= 30, "{deleted} with {pages_max}");
        assert_eq!(readers[0].count(tree).unwrap(), rows as u64);
        drop(readers);
        // What was deleted makes room.
        let mut txn = db.begin_write().unwrap();
        txn.clear_tree(tree).unwrap();
        txn.commit().unwrap();
        assert!(fill(&db, tree, 0, 8) > rows / 2);
        sound(&db, &format!("{pages_max}"));
    }
}

#[test]
fn a_tree_can_be_dropped_at_the_limit() {
    let (db, tree, _) = full(100, 60);
    let reader = db.begin_read().unwrap();
    let mut txn = db.begin_write().unwrap();
    txn.drop_tree(tree).unwrap();
    txn.commit().unwrap();
    drop(reader);
    let mut txn = db.begin_write().unwrap();
    let tree = txn.create_tree(false).unwrap();
    txn.insert(tree, 1, &[7; 3000]).unwrap();
    txn.commit().unwrap();
    sound(&db, "dropped");
}

#[test]
fn deletes_work_on_a_full_disk() {
    let memory = Memory::default();
    let mut options = Options::default();
    options.page_bytes = 512;
    let db = memory.create(options).unwrap();
    let mut txn = db.begin_write().unwrap();
    let tree = txn.create_tree(false).unwrap();
    txn.commit().unwrap();
    memory.no_more_than(150_000);
    let is_full = |error: &Error| match error {
        Error::Io { source, .. } => source.kind() == std::io::ErrorKind::StorageFull,
        _ => false,
    };
    let insert = |key: i64| {
        let mut txn = db.begin_write()?;
        txn.insert(tree, key, &[7; 8])?;
        txn.commit()
    };
    let (rows, error) = (0..).find_map(|key| insert(key).err().map(|e| (key, e))).unwrap();
    assert!(is_full(&error), "{error}");
    let mut readers = Vec::new();
    for key in 0..40 {
        readers.push(db.begin_read().unwrap());
        let mut txn = db.begin_write().unwrap();
        assert!(txn.delete(tree, key).unwrap());
        txn.commit().unwrap();
    }
    assert_eq!(readers[0].count(tree).unwrap(), rows as u64);
    assert_eq!(db.begin_read().unwrap().count(tree).unwrap(), rows as u64 - 40);
    sound(&db, "on a full disk");
    let mut txn = db.begin_write().unwrap();
    txn.drop_tree(tree).unwrap();
    txn.commit().unwrap();
    assert_eq!(readers[0].count(tree).unwrap(), rows as u64);
    sound(&db, "dropped on a full disk");
}

/// Each opening after a crash begins with no page in the pool. To fill it splits pages of the
/// catalog now and then, which takes some of them: an insert was told that the database is full.
#[test]
fn a_database_that_may_grow_is_not_full() {
    for seed in 0..6 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut options = Options::default();
        options.page_bytes = 512;
        options.reserved_cells = 0;
        let memory = Memory::default();
        let mut db = memory.create(options.clone()).unwrap();
        let mut trees = Vec::new();
        for step in 0..150 {
            let mut txn = db.begin_write().unwrap();
            if rng.bool() {
                trees.push(txn.create_tree(false).unwrap());
            }
            for _ in 0..rng.usize(..60) {
                let Some(&tree) = rng.choice(&trees) else { break };
                let inserted = txn.insert(tree, rng.i64(..), &vec![7; rng.usize(..60)]);
                inserted.unwrap_or_else(|error| panic!("seed {seed}, step {step}: {error}"));
            }
            txn.commit().unwrap();
            if rng.bool() {
                drop(db);
                db = memory.open(options.clone()).unwrap();
            }
        }
        sound(&db, &format!("seed {seed}"));
    }
}
