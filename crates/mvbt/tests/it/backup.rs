//! Copies of a snapshot in a new file, while writers go on.

use std::path::Path;

use oneflush_mvbt::{Database, Error, Options, Read, TreeId};

use crate::common::Memory;
use crate::common::model::{Model, check, drawn_options, record, sound, transaction};

fn names(folder: &Path) -> Vec<String> {
    let files = std::fs::read_dir(folder).unwrap();
    files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect()
}

fn with_rows(rows: i64) -> (Database, TreeId) {
    let db = Memory::default().create(Options::default()).unwrap();
    let mut txn = db.begin_write().unwrap();
    let tree = txn.create_tree(false).unwrap();
    for key in 0..rows {
        txn.insert(tree, key, &[7; 100]).unwrap();
    }
    txn.commit().unwrap();
    (db, tree)
}

/// The copy holds the snapshot, and can be changed like any database.
fn run(seed: u64) {
    let mut rng = fastrand::Rng::with_seed(seed);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("copy.mvbt");
    let mut options = drawn_options(&mut rng);
    // A rollback of pages in the file may take a snapshot away.
    options.spill_bytes = 1 << 30;
    let db = Memory::default().create(options.clone()).unwrap();
    let mut model = Model::default();
    let random = |rng: &mut fastrand::Rng, db: &Database, model: &mut Model| {
        transaction(rng, db, model, &mut false, false).unwrap();
    };
    for _ in 0..rng.usize(..100) {
        random(&mut rng, &db, &mut model);
    }
    let mut txn = db.begin_write().unwrap();
    txn.set_meta(3, seed as u32).unwrap();
    txn.set_meta(15, 5).unwrap();
    txn.commit().unwrap();
    let mut backup = db.backup(&path).unwrap();
    let mut then = model.clone();
    assert_eq!(backup.page_count(), db.begin_read().unwrap().page_count().unwrap());
    while !backup.step(rng.u64(1..40)).unwrap() {
        assert!(backup.remaining() > 0 && !path.exists());
        random(&mut rng, &db, &mut model);
    }
    assert_eq!(backup.remaining(), 0);
    assert!(backup.step(1).unwrap());
    drop(backup);
    assert_eq!(names(folder.path()), ["copy.mvbt"]);
    check(&db.begin_read().unwrap(), &model, &format!("seed {seed}: the source"));

    let about = format!("seed {seed}: the copy");
    let copy = Database::open(&path, options.clone()).unwrap();
    assert_eq!(copy.page_bytes(), db.page_bytes());
    let reader = copy.begin_read().unwrap();
    check(&reader, &then, &about);
    let all = then.integers.keys().chain(then.records.keys()).copied();
    let mut all: Vec<TreeId> = all.collect();
    all.sort_unstable();
    assert_eq!(reader.trees().unwrap(), all, "{about}");
    let meta = reader.meta().unwrap();
    assert_eq!((meta[3], meta[15], meta[0]), (seed as u32, 5, 0), "{about}");
    assert_eq!(sound(&copy, &about), 0, "{about}");
    drop(reader);
    for _ in 0..60 {
        random(&mut rng, &copy, &mut then);
    }
    check(&copy.begin_read().unwrap(), &then, &about);
    sound(&copy, &about);
    copy.close().unwrap();
    let copy = Database::open(&path, options).unwrap();
    check(&copy.begin_read().unwrap(), &then, &about);
}

#[test]
fn a_copy_holds_its_snapshot_and_is_a_database_like_any() {
    let seeds = std::env::var("ONEFLUSH_TEST_SEEDS").ok().and_then(|seeds| seeds.parse().ok());
    for seed in 0..seeds.unwrap_or(25) {
        run(seed);
    }
}

#[test]
fn a_tree_of_any_records_is_loaded() {
    for page_bytes in [512, 4096] {
        let mut rng = fastrand::Rng::with_seed(page_bytes as u64);
        let mut options = Options::default();
        options.page_bytes = page_bytes;
        let db = Memory::default().create(options).unwrap();
        let mut model = Model::default();
        let mut txn = db.begin_write().unwrap();
        for longest in [0, 3, 40, page_bytes / 3, page_bytes / 2, 3 * page_bytes] {
            let tree = txn.create_tree(true).unwrap();
            let map = model.records.entry(tree).or_default();
            for _ in 0..rng.usize(1..700) {
                let mut record = record(&mut rng);
                record.resize(2 + rng.usize(..=longest), 9);
                txn.insert_record(tree, &record, &|stored| stored.cmp(&record)).unwrap();
                map.insert(record, ());
            }
        }
        txn.commit().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("copy.mvbt");
        db.vacuum_into(&path).unwrap();
        let copy = Database::open(&path, Options::default()).unwrap();
        check(&copy.begin_read().unwrap(), &model, "the copy");
        assert_eq!(sound(&copy, "the copy"), 0);
    }
}

#[test]
fn a_copy_is_compact() {
    let (db, tree) = with_rows(20_000);
    let mut txn = db.begin_write().unwrap();
    for key in (0..20_000).filter(|key| key % 10 > 0) {
        txn.delete(tree, key).unwrap();
    }
    txn.commit().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("copy.mvbt");
    db.vacuum_into(&path).unwrap();
    let copy = Database::open(&path, Options::default()).unwrap();
    let pages = copy.begin_read().unwrap().page_count().unwrap();
    let report = copy.check(None).unwrap();
    // 34 rows a page, the page above them, catalog and free pages. The rest is a pool.
    assert_eq!(report.tree_pages, 2_000_u64.div_ceil(34) + 3);
    assert!(pages < report.tree_pages + 30, "{pages}");
    assert_eq!(copy.begin_read().unwrap().count(tree).unwrap(), 2_000);
}

#[test]
fn a_file_that_is_there_is_left_alone() {
    let (db, _) = with_rows(10);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("copy.mvbt");
    std::fs::write(&path, b"mine").unwrap();
    let error = db.vacuum_into(&path).unwrap_err();
    assert!(matches!(error, Error::Io { .. }) && error.to_string().contains("copy.mvbt"));
    assert_eq!(std::fs::read(&path).unwrap(), b"mine");
    assert_eq!(names(folder.path()), ["copy.mvbt"]);
    // One that someone makes while the copy is made.
    std::fs::remove_file(&path).unwrap();
    let mut backup = db.backup(&path).unwrap();
    std::fs::write(&path, b"mine").unwrap();
    assert!(backup.step(u64::MAX).is_err());
    assert!(matches!(backup.step(1), Err(Error::Misuse { .. })));
    drop(backup);
    assert_eq!(std::fs::read(&path).unwrap(), b"mine");
    assert_eq!(names(folder.path()), ["copy.mvbt"]);
}

#[test]
fn a_copy_that_is_not_finished_leaves_no_file() {
    let (db, _) = with_rows(5_000);
    let folder = tempfile::tempdir().unwrap();
    let mut backup = db.backup(&folder.path().join("copy.mvbt")).unwrap();
    assert!(!backup.step(10).unwrap());
    assert_eq!(names(folder.path()).len(), 1);
    drop(backup);
    assert_eq!(names(folder.path()), [""; 0]);
    let elsewhere = folder.path().join("none").join("copy.mvbt");
    assert!(matches!(db.vacuum_into(&elsewhere), Err(Error::Io { .. })));
}
