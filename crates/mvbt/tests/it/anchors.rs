//! The newest anchor is damaged (I21). The older one would count, and hide what came after it.

use oneflush_mvbt::{Database, Error, Options, Read, TreeId};

use crate::common::{self, Memory};

const BLOCK: usize = 4096;

fn rows(db: &Database, tree: TreeId, keys: std::ops::Range<i64>) {
    let mut txn = db.begin_write().unwrap();
    for key in keys {
        txn.insert(tree, key, &[7; 100]).unwrap();
    }
    txn.commit().unwrap();
}

/// The place of the newest anchor.
fn newest(bytes: &[u8]) -> usize {
    let sequence = |at: usize| u64::from_le_bytes(*bytes[at + 40..].first_chunk().unwrap());
    if sequence(0) > sequence(BLOCK) { 0 } else { BLOCK }
}

fn without_newest(memory: &Memory, at_byte: usize) -> Result<Database, Error> {
    let mut bytes = memory.bytes();
    let at = newest(&bytes) + at_byte;
    bytes[at] ^= 1;
    Memory::of(bytes).open(Options::default())
}

fn is_refused(opened: Result<Database, Error>) {
    let error = opened.err().expect("it was opened");
    assert!(matches!(error, Error::AnchorsDamaged { .. }), "{error}");
    let text = error.to_string();
    assert!(text.contains("a.mvbt") && text.contains("Restore a backup"), "{text}");
}

#[test]
fn a_commit_block_of_a_later_version_shows_that_the_newest_anchor_is_lost() {
    for closes in [false, true] {
        for at_byte in [0, 41, 57, 700] {
            let memory = Memory::default();
            let mut db = memory.create(Options::default()).unwrap();
            let mut txn = db.begin_write().unwrap();
            let tree = txn.create_tree(false).unwrap();
            txn.commit().unwrap();
            if closes {
                db.close().unwrap();
                db = memory.open(Options::default()).unwrap();
            }
            rows(&db, tree, 0..100);
            drop(db);
            is_refused(without_newest(&memory, at_byte));
        }
    }
}

#[test]
fn a_page_of_a_later_version_shows_that_the_newest_anchor_is_lost() {
    let memory = Memory::default();
    let db = memory.create(Options::default()).unwrap();
    db.close().unwrap();
    let db = memory.open(Options::default()).unwrap();
    // One page, and no commit block.
    let mut txn = db.begin_write().unwrap();
    txn.set_meta(3, 77).unwrap();
    txn.commit().unwrap();
    drop(db);
    is_refused(without_newest(&memory, 57));
}

#[test]
fn a_newest_anchor_behind_which_nothing_was_written_may_be_damaged() {
    let memory = Memory::default();
    let db = memory.create(Options::default()).unwrap();
    let mut txn = db.begin_write().unwrap();
    let tree = txn.create_tree(false).unwrap();
    txn.commit().unwrap();
    rows(&db, tree, 0..100);
    db.close().unwrap();
    let db = memory.open(Options::default()).unwrap();
    db.begin_write().unwrap().rollback().unwrap();
    drop(db);
    let db = without_newest(&memory, 57).unwrap();
    assert_eq!(db.begin_read().unwrap().count(tree).unwrap(), 100);
    common::model::sound(&db, "with the older anchor");
}

#[test]
fn both_anchors_damaged_are_an_error_that_says_so() {
    let memory = Memory::default();
    drop(memory.create(Options::default()).unwrap().begin_write().unwrap());
    let mut bytes = memory.bytes();
    bytes[50] ^= 1;
    bytes[BLOCK + 50] ^= 1;
    is_refused(Memory::of(bytes).open(Options::default()));
}
