//! Databases that are opened for reading only.

use std::path::Path;

use oneflush_mvbt::{Database, Error, Options, Read};

use crate::common::model::{Model, check, drawn_options, sound, transaction};
use crate::common::{self, Memory};

fn read_only() -> Options {
    let mut options = Options::default();
    options.read_only = true;
    options
}

/// Each write and each flush of the file fails.
fn without_writes(memory: &Memory) -> Database {
    memory.fail_after(0);
    memory.open(read_only()).unwrap()
}

#[test]
fn what_a_crash_has_left_is_recovered_in_memory_and_nothing_is_written() {
    for seed in 0..40 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let options = drawn_options(&mut rng);
        let memory = Memory::default();
        let db = memory.create(options.clone()).unwrap();
        let mut model = Model::default();
        memory.fail_after(rng.usize(..120));
        let (before, after) = loop {
            let (before, mut is_committing) = (model.clone(), false);
            if transaction(&mut rng, &db, &mut model, &mut is_committing, true).is_err() {
                break (before, Some(model).filter(|_| is_committing));
            }
        };
        drop(db);
        let memory = memory.crash(|| rng.bool());
        let bytes = memory.bytes();
        let about = format!("seed {seed}");
        for _ in 0..2 {
            let db = without_writes(&memory);
            let reader = db.begin_read().unwrap();
            let is_after = after.as_ref().is_some_and(|after| common::model::is_as(&reader, after));
            if !is_after {
                check(&reader, &before, &about);
            }
            sound(&db, &about);
            drop(reader);
            db.close().unwrap();
            assert!(memory.bytes() == bytes, "{about}: something was written");
        }
    }
}

#[test]
fn a_write_is_refused_and_the_error_names_the_file_and_the_way_out() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.mvbt");
    let db = Database::create(&path, Options::default()).unwrap();
    let mut txn = db.begin_write().unwrap();
    let tree = txn.create_tree(false).unwrap();
    txn.insert(tree, 1, b"one").unwrap();
    txn.commit().unwrap();
    drop(db);
    let bytes = std::fs::read(&path).unwrap();
    let db = Database::open(&path, read_only()).unwrap();
    assert_eq!(db.begin_read().unwrap().get(tree, 1).unwrap().as_deref(), Some(&b"one"[..]));
    let refused = [
        db.begin_write().map(drop),
        db.try_begin_write().map(drop),
        db.begin_write_within(std::time::Duration::ZERO).map(drop),
        db.reclaim().map(drop),
    ];
    for error in refused.map(Result::unwrap_err) {
        assert!(matches!(error, Error::ReadOnly { .. }), "{error}");
        let text = error.to_string();
        assert!(text.contains("a.mvbt") && text.contains("without `read_only`"), "{text}");
    }
    db.close().unwrap();
    assert!(std::fs::read(&path).unwrap() == bytes);
    let made = Database::create(Path::new("/none/b.mvbt"), read_only());
    assert!(made.is_err());
}
