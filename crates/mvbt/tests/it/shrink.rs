//! Files that give their free pages back.

use oneflush_mvbt::{Database, Error, Options, Read, Retain, Shrunk, TreeId};

use crate::common::Memory;
use crate::common::model::sound;

const ROWS: i64 = 4000;

fn filled(options: &Options) -> (Memory, Database, TreeId) {
    let memory = Memory::default();
    let db = memory.create(options.clone()).unwrap();
    let mut txn = db.begin_write().unwrap();
    let tree = txn.create_tree(false).unwrap();
    for key in 0..ROWS {
        txn.insert(tree, key, &[7; 300]).unwrap();
    }
    txn.commit().unwrap();
    (memory, db, tree)
}

fn cut(db: &Database) -> Result<Shrunk, Error> {
    db.shrink(db.data_version(), true)
}

fn options() -> Options {
    let mut options = Options::default();
    options.page_bytes = 512;
    options
}

/// Keeps each n-th row.
fn thin(db: &Database, tree: TreeId, n: i64) {
    let mut txn = db.begin_write().unwrap();
    for key in (0..ROWS).filter(|key| key % n != 0) {
        txn.delete(tree, key).unwrap();
    }
    txn.commit().unwrap();
}

/// Puts the rows into a new tree, and drops the old one.
fn rewrite(db: &Database, tree: TreeId) -> TreeId {
    let rows = rows(db, tree);
    let mut txn = db.begin_write().unwrap();
    let new = txn.create_tree(false).unwrap();
    for (key, payload) in rows {
        txn.insert(new, key, &payload).unwrap();
    }
    txn.drop_tree(tree).unwrap();
    txn.commit().unwrap();
    new
}

fn rows(db: &Database, tree: TreeId) -> Vec<(i64, Vec<u8>)> {
    let reader = db.begin_read().unwrap();
    (0..ROWS).filter_map(|key| Some((key, reader.get(tree, key).unwrap()?))).collect()
}

#[test]
fn a_file_gives_back_what_a_copy_of_its_rows_does_not_need() {
    for embeds in [true, false] {
        let mut options = options();
        options.metadata_embedding = embeds;
        let (memory, db, tree) = filled(&options);
        let full = memory.bytes().len();
        thin(&db, tree, 10);
        let tree = rewrite(&db, tree);
        let first = cut(&db).unwrap();
        assert!(first.free > first.pages / 8, "{first:?}");
        let kept = rows(&db, tree);
        let tree = rewrite(&db, tree);
        let second = cut(&db).unwrap();
        assert!(second.free <= second.pages / 8, "{second:?}");
        assert!(memory.bytes().len() < full / 5, "{} of {full}", memory.bytes().len());
        assert_eq!((rows(&db, tree), kept.len()), (kept, 400));
        assert_eq!(sound(&db, "cut"), 0);
        db.close().unwrap();

        // It grows again, from what the close has left and behind the end.
        let db = memory.open(options).unwrap();
        assert_eq!(sound(&db, "opened again"), 0);
        let mut txn = db.begin_write().unwrap();
        for key in 0..ROWS {
            txn.insert(tree, key, &[8; 300]).unwrap();
        }
        txn.commit().unwrap();
        assert_eq!(rows(&db, tree).len() as i64, ROWS);
        assert_eq!(sound(&db, "grown"), 0);
    }
}

/// The newest commit block lists pages that were cut off. Without the anchor its transaction, and
/// all after it, would be void.
#[test]
fn a_cut_file_that_was_not_closed_has_all_commits() {
    let (memory, db, tree) = filled(&options());
    thin(&db, tree, 10);
    let tree = rewrite(&db, tree);
    cut(&db).unwrap();
    let tree = rewrite(&db, tree);
    cut(&db).unwrap();
    let kept = rows(&db, tree);
    let left = memory.crash(|| true).open(options()).unwrap();
    assert_eq!(rows(&left, tree), kept);
    sound(&left, "after a crash");
}

#[test]
fn power_that_fails_at_any_operation_of_a_cut_takes_no_row() {
    let mut is_over = false;
    for operations in 0.. {
        for survive in [0_u8, 50, 100] {
            let (memory, db, tree) = filled(&options());
            thin(&db, tree, 10);
            let tree = rewrite(&db, tree);
            let kept = rows(&db, tree);
            memory.fail_after(operations);
            let done = cut(&db);
            is_over |= done.is_ok();
            let mut rng = fastrand::Rng::with_seed(operations as u64);
            let left = memory.crash(|| rng.u8(..100) < survive);
            let left = left.open(options()).unwrap();
            assert_eq!(rows(&left, tree), kept, "{operations} {survive}");
            sound(&left, &format!("{operations} {survive}"));
            thin(&left, tree, 20);
            cut(&left).unwrap();
            assert_eq!(rows(&left, tree).len() as i64, ROWS / 20);
            sound(&left, "cut again");
        }
        if is_over {
            break;
        }
    }
}

#[test]
fn what_a_reader_or_the_history_needs_stays() {
    let (memory, db, tree) = filled(&options());
    let all = rows(&db, tree);
    let reader = db.begin_read().unwrap();
    thin(&db, tree, 10);
    let new = rewrite(&db, tree);
    cut(&db).unwrap();
    for (key, payload) in &all {
        assert_eq!(reader.get(tree, *key).unwrap().as_ref(), Some(payload));
    }
    drop(reader);
    let mut txn = db.begin_write().unwrap();
    txn.set_retain(Retain::Versions(3)).unwrap();
    txn.commit().unwrap();
    let version = db.data_version();
    let newest = rewrite(&db, new);
    cut(&db).unwrap();
    let before = db.begin_read_at(version).unwrap();
    let found = (0..ROWS).filter(|&key| before.get(new, key).unwrap().is_some()).count();
    assert_eq!((found, rows(&db, newest).len()), (400, 400));
    drop(before);
    assert!(memory.bytes().len() > 1 << 16);
    sound(&db, "with a history");
}

#[test]
fn others_who_use_the_file_are_not_cut_off() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.mvbt");
    let db = Database::create(&path, options()).unwrap();
    let other = Database::open(&path, options()).unwrap();
    assert!(matches!(cut(&db), Err(Error::Busy { .. })));
    drop(other);
    let txn = db.begin_write().unwrap();
    assert!(matches!(cut(&db), Err(Error::Busy { .. })));
    drop(txn);
    let before = db.data_version();
    let mut txn = db.begin_write().unwrap();
    txn.create_tree(false).unwrap();
    txn.commit().unwrap();
    assert!(
        matches!(db.shrink(before, false), Err(Error::Busy { .. })),
        "somebody has committed since"
    );
    let version = cut(&db).unwrap().version;
    assert_eq!(db.data_version(), version);
}

/// Pages of a process that was killed are at the end, and in no list.
#[test]
fn what_a_killed_process_has_left_to_nobody_is_cut_off() {
    let (memory, db, tree) = filled(&options());
    thin(&db, tree, 10);
    let tree = rewrite(&db, tree);
    let size = memory.bytes().len();
    let left = memory.crash(|| true);
    drop(db);
    let db = left.open(options()).unwrap();
    cut(&db).unwrap();
    let tree = rewrite(&db, tree);
    cut(&db).unwrap();
    assert!(left.bytes().len() < size / 4, "{} of {size}", left.bytes().len());
    assert_eq!(rows(&db, tree).len(), 400);
    assert_eq!(sound(&db, "cut"), 0);
}
