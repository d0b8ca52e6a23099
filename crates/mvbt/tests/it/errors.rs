//! What a transaction may do after an error.

use std::collections::BTreeMap;

use oneflush_mvbt::{Database, Error, Options, Read, TreeId};

use crate::common::{self, Memory};

/// Rows until an insert fails for want of pages.
fn until_full(
    seed: u64,
    mut insert: impl FnMut(i64, &[u8]) -> oneflush_mvbt::Result<bool>,
) -> BTreeMap<i64, Vec<u8>> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut rows = BTreeMap::new();
    loop {
        let key = rng.i64(..10_000);
        let length = if rng.u8(..10) == 0 { 3000 } else { rng.usize(1..100) };
        let payload = vec![rng.u8(..); length];
        match insert(key, &payload) {
            Ok(_) => drop(rows.insert(key, payload)),
            Err(Error::Full { .. }) => return rows,
            Err(error) => panic!("{error}"),
        }
    }
}

fn rows(read: &dyn Read, tree: TreeId) -> BTreeMap<i64, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut cursor = read.cursor(tree).unwrap();
    cursor.first(read.source()).unwrap();
    while let Some(key) = cursor.integer_key(read.source()).unwrap() {
        found.insert(key, cursor.payload(read.source()).unwrap().unwrap());
        cursor.next(read.source()).unwrap();
    }
    found
}

/// A database of few pages. By each second seed pages are written early.
fn with_tree(seed: u64) -> (Database, TreeId) {
    let mut options = Options::default();
    options.page_bytes = 512;
    options.pages_max = 120;
    options.spill_bytes = if seed.is_multiple_of(2) { 0 } else { 1 << 30 };
    let db = Memory::default().create(options).unwrap();
    let mut txn = db.begin_write().unwrap();
    let tree = txn.create_tree(false).unwrap();
    txn.commit().unwrap();
    (db, tree)
}

#[test]
fn a_transaction_with_an_operation_that_failed_halfway_cannot_be_committed() {
    for seed in 0..40 {
        let (db, tree) = with_tree(seed);
        let mut txn = db.begin_write().unwrap();
        let _ = until_full(seed, |key, payload| txn.insert(tree, key, payload));
        assert!(txn.commit().is_err(), "seed {seed}");
        // All of it is undone, and the next transaction is not in its way.
        assert_eq!(rows(&db.begin_read().unwrap(), tree), BTreeMap::new(), "seed {seed}");
        let mut txn = db.begin_write().unwrap();
        txn.insert(tree, 1, b"one").unwrap();
        txn.commit().unwrap();
        assert_eq!(db.begin_read().unwrap().get(tree, 1).unwrap().as_deref(), Some(&b"one"[..]));
        common::model::sound(&db, &format!("seed {seed}"));
    }
}

#[test]
fn a_savepoint_undoes_an_operation_that_failed_halfway() {
    for seed in 0..40 {
        let (db, tree) = with_tree(seed);
        let mut txn = db.begin_write().unwrap();
        let expected = until_full(seed, |key, payload| {
            let savepoint = txn.savepoint();
            let inserted = txn.insert(tree, key, payload);
            if inserted.is_err() {
                txn.roll_back_to(savepoint).unwrap();
            }
            txn.release(savepoint);
            inserted
        });
        txn.commit().unwrap();
        assert!(rows(&db.begin_read().unwrap(), tree) == expected, "seed {seed}");
        common::model::sound(&db, &format!("seed {seed}"));
    }
}
