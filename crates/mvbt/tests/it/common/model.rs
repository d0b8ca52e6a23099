//! What a database holds: ordered maps. Random operations on both.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use oneflush_mvbt::{
    Database, Error, Options, Probe, Read, ReadTransaction, Result, TreeId, WriteTransaction,
};

pub type Map = BTreeMap<i64, Vec<u8>>;
pub type Records = BTreeMap<Vec<u8>, ()>;

/// What the database holds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Model {
    pub integers: BTreeMap<TreeId, Map>,
    pub records: BTreeMap<TreeId, Records>,
}

/// Of a database with random operations.
pub fn drawn_options(rng: &mut fastrand::Rng) -> Options {
    let mut options = Options::default();
    options.page_bytes = 512 << rng.u8(..5);
    options.spill_bytes = rng.choice([0, 20_000, 1 << 30]).unwrap();
    options.cache_bytes = rng.choice([0, 1 << 20]).unwrap();
    options.lazy_split = rng.u8(..4) > 0;
    options.reserved_cells = rng.usize(..3);
    options.redistribution = rng.u8(..4) == 0;
    options.lazy_collection = rng.u8(..4) > 0;
    options.clock = super::clock::now;
    options
}

pub fn payload(rng: &mut fastrand::Rng) -> Vec<u8> {
    let length = match rng.u8(..20) {
        0 => rng.usize(..12_000),
        1..=3 => rng.usize(..1500),
        _ => rng.usize(..120),
    };
    (0..length).map(|_| rng.u8(..)).collect()
}

pub fn record(rng: &mut fastrand::Rng) -> Vec<u8> {
    let mut record = rng.u16(..300).to_be_bytes().to_vec();
    let length = if rng.u8(..30) == 0 { rng.usize(..6000) } else { 40 };
    record.resize(2 + length, 7);
    record
}

pub fn contents(read: &dyn Read, model: &Model) -> Result<Model> {
    let mut found = Model::default();
    let source = read.source();
    for &tree in model.integers.keys() {
        let map = found.integers.entry(tree).or_default();
        let mut cursor = read.cursor(tree)?;
        cursor.first(source)?;
        while let Some(key) = cursor.integer_key(source)? {
            map.insert(key, cursor.payload(source)?.unwrap());
            cursor.next(source)?;
        }
        let mut backwards = Vec::new();
        cursor.last(source)?;
        while let Some(key) = cursor.integer_key(source)? {
            backwards.push(key);
            cursor.previous(source)?;
        }
        backwards.reverse();
        assert_eq!(backwards, map.keys().copied().collect::<Vec<_>>());
    }
    for &tree in model.records.keys() {
        let map = found.records.entry(tree).or_default();
        let mut cursor = read.cursor(tree)?;
        cursor.seek(source, Probe::First)?;
        while cursor.is_on_cell() {
            map.insert(cursor.payload(source)?.unwrap(), ());
            cursor.next(source)?;
        }
    }
    Ok(found)
}

/// True if the database holds this, or something that cannot be read.
pub fn is_as(read: &dyn Read, model: &Model) -> bool {
    contents(read, model).is_ok_and(|found| found == *model)
}

/// Says where two differ, and not all of both.
pub fn check(read: &dyn Read, model: &Model, about: &str) {
    compare(&contents(read, model).unwrap_or_else(|e| panic!("{about}: {e}")), model, about);
}

/// What an old reader finds. `may_be_gone`: transactions have written pages early, and were rolled
/// back; then the reader may be told that its version is gone.
pub fn check_reader(
    reader: &ReadTransaction,
    model: &Model,
    may_be_gone: bool,
    about: &str,
) -> bool {
    match contents(reader, model) {
        Ok(found) => {
            compare(&found, model, about);
            true
        }
        Err(Error::SnapshotGone { .. }) if may_be_gone => false,
        Err(error) => panic!("{about}: {error}"),
    }
}

pub fn compare(found: &Model, model: &Model, about: &str) {
    for (tree, map) in &model.integers {
        let found = &found.integers[tree];
        let keys = |map: &Map| map.keys().copied().collect::<Vec<_>>();
        assert_eq!(keys(found), keys(map), "{about}: keys of tree {tree}");
        for (key, payload) in map {
            assert!(found[key] == *payload, "{about}: payload of {key} in tree {tree}");
        }
    }
    for (tree, map) in &model.records {
        let name = |map: &Records| -> Vec<_> {
            let first = |record: &Vec<u8>| u16::from_be_bytes([record[0], record[1]]);
            map.keys().map(|record| (first(record), record.len())).collect()
        };
        assert_eq!(name(&found.records[tree]), name(map), "{about}: records of tree {tree}");
    }
}

pub fn step(rng: &mut fastrand::Rng, txn: &mut WriteTransaction, model: &mut Model) -> Result<()> {
    let trees: Vec<TreeId> = model.integers.keys().copied().collect();
    let record_trees: Vec<TreeId> = model.records.keys().copied().collect();
    match rng.u8(..100) {
        0..=1 if trees.len() < 4 => {
            model.integers.insert(txn.create_tree(false)?, Map::new());
        }
        2 if record_trees.len() < 3 => {
            model.records.insert(txn.create_tree(true)?, Records::new());
        }
        3 if trees.len() > 1 => {
            let tree = rng.choice(trees).unwrap();
            txn.drop_tree(tree)?;
            model.integers.remove(&tree);
        }
        4 if !trees.is_empty() && rng.u8(..4) == 0 => {
            let tree = rng.choice(trees).unwrap();
            let count = txn.clear_tree(tree)?;
            let map = model.integers.get_mut(&tree).unwrap();
            assert_eq!(count, map.len() as u64);
            map.clear();
        }
        5..=25 if !record_trees.is_empty() => {
            let tree = rng.choice(record_trees).unwrap();
            let record = record(rng);
            let map = model.records.get_mut(&tree).unwrap();
            let compare = |stored: &[u8]| stored.cmp(&record[..]);
            if rng.u8(..3) == 0 {
                let was_there = txn.delete_record(tree, &compare)?;
                assert_eq!(was_there, map.remove(&record).is_some());
            } else {
                let was_there = txn.insert_record(tree, &record, &compare)?;
                assert_eq!(was_there, map.insert(record, ()).is_some());
            }
        }
        26..=50 if !trees.is_empty() => {
            let tree = rng.choice(trees).unwrap();
            let map = model.integers.get_mut(&tree).unwrap();
            let key = match map.range(rng.i64(-500..500)..).next() {
                Some((&key, _)) if rng.bool() => key,
                _ => rng.i64(-500..500),
            };
            assert_eq!(txn.delete(tree, key)?, map.remove(&key).is_some());
        }
        51.. if !trees.is_empty() => {
            let tree = rng.choice(trees).unwrap();
            let map = model.integers.get_mut(&tree).unwrap();
            let key = match rng.u8(..4) {
                0 => map.keys().next_back().map_or(0, |key| key + 1),
                _ => rng.i64(-500..500),
            };
            let payload = payload(rng);
            let was_there = txn.insert(tree, key, &payload)?;
            assert_eq!(was_there, map.insert(key, payload).is_some());
        }
        _ => {}
    }
    Ok(())
}

/// Of all transactions.
pub static STEPS: AtomicU64 = AtomicU64::new(0);

/// True if the transaction was committed. An error may have come before the commit, or in it. Then
/// the database has this transaction, or it has not: the model is as it would be with it.
/// `may_void`: it may be rolled back after the commit's first step.
pub fn transaction(
    rng: &mut fastrand::Rng,
    db: &Database,
    model: &mut Model,
    is_committing: &mut bool,
    may_void: bool,
) -> Result<()> {
    *is_committing = false;
    let before = model.clone();
    let mut txn = db.begin_write()?;
    let mut savepoints: Vec<(usize, Model)> = Vec::new();
    let steps = if rng.u8(..10) == 0 { rng.usize(1..200) } else { rng.usize(1..6) };
    STEPS.fetch_add(steps as u64, Relaxed);
    for _ in 0..steps {
        match rng.u8(..30) {
            0 => savepoints.push((txn.savepoint(), model.clone())),
            1 if !savepoints.is_empty() => {
                savepoints.truncate(rng.usize(1..=savepoints.len()));
                let (savepoint, saved) = savepoints.last().unwrap();
                txn.roll_back_to(*savepoint)?;
                *model = saved.clone();
            }
            2 if !savepoints.is_empty() => {
                let (savepoint, _) = savepoints.pop().unwrap();
                txn.release(savepoint);
            }
            _ => step(rng, &mut txn, model)?,
        }
    }
    if rng.u8(..8) == 0 {
        compare(&contents(&txn, model)?, model, "in the transaction");
    }
    let ends = rng.u8(..12);
    *is_committing = ends >= 2 || ends == 1 && may_void;
    match ends {
        1 if may_void => {
            txn.prepare()?.rollback()?;
            *model = before;
        }
        0 | 1 => {
            *model = before;
            txn.rollback()?;
        }
        2 | 3 => drop(txn.prepare()?.finish()),
        _ => drop(txn.commit()?),
    }
    Ok(())
}

/// Every page is whole and belongs to one place. Answers how many pages are lost.
pub fn sound(db: &Database, about: &str) -> usize {
    let report = db.check(Some(&|one: &[u8], other: &[u8]| one.cmp(other))).unwrap();
    assert!(report.faults.is_empty(), "{about}: {:#?}", report.faults);
    report.lost.len()
}
