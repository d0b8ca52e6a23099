//! A root that becomes a leaf, and an inner page again, while readers hold the versions of before
//! and of in between.

use oneflush_mvbt::{Database, Error, Options, Probe, Read, ReadTransaction, TreeId};

use crate::common::Memory;

fn rows(reader: &ReadTransaction, tree: TreeId) -> Result<Vec<i64>, Error> {
    let mut cursor = reader.cursor(tree)?;
    cursor.seek(reader.source(), Probe::First)?;
    let mut keys = Vec::new();
    while let Some(key) = cursor.integer_key(reader.source())? {
        keys.push(key);
        cursor.next(reader.source())?;
    }
    Ok(keys)
}

fn change(db: &Database, tree: TreeId, insert: &[i64], delete: &[i64]) {
    let mut txn = db.begin_write().unwrap();
    for &key in insert {
        txn.insert(tree, key, &[7; 40]).unwrap();
    }
    delete.iter().for_each(|&key| assert!(txn.delete(tree, key).unwrap()));
    txn.commit().unwrap();
}

/// `left`: the rows that the leaf keeps.
fn run(left: i64) {
    let mut options = Options::default();
    options.page_bytes = 512;
    let db = Memory::default().create(options).unwrap();
    let mut txn = db.begin_write().unwrap();
    let tree = txn.create_tree(false).unwrap();
    txn.commit().unwrap();
    let all: Vec<i64> = (1..=20).collect();
    change(&db, tree, &all, &[]);
    let of_before = db.begin_read().unwrap();
    change(&db, tree, &[], &all[left as usize..]);
    let of_between = db.begin_read().unwrap();
    // Each of these writes the root.
    for first in [100, 200, 300] {
        change(&db, tree, &(first..first + 30).collect::<Vec<i64>>(), &[]);
        assert_eq!(rows(&of_before, tree).unwrap(), all, "{left} left, from {first} on");
        let found = rows(&of_between, tree).unwrap();
        assert_eq!(found, all[..left as usize], "{left} left, from {first} on");
    }
}

#[test]
fn a_reader_of_a_lowered_root_sees_its_state() {
    (0..5).for_each(run);
}
