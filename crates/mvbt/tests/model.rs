//! Random operations beside ordered maps, one a version.

mod common;

use std::collections::BTreeMap;

use common::Memory;
use oneflush_mvbt::{
    Database, Error, Options, Probe, Read, ReadTransaction, Result, TreeId, Version,
};

type Map = BTreeMap<i64, Vec<u8>>;
type Records = BTreeMap<Vec<u8>, ()>;

/// What the database holds.
#[derive(Clone, Debug, Default, PartialEq)]
struct Model {
    integers: BTreeMap<TreeId, Map>,
    records: BTreeMap<TreeId, Records>,
}

fn payload(rng: &mut fastrand::Rng) -> Vec<u8> {
    let length = match rng.u8(..20) {
        0 => rng.usize(..12_000),
        1..=3 => rng.usize(..1500),
        _ => rng.usize(..120),
    };
    (0..length).map(|_| rng.u8(..)).collect()
}

fn record(rng: &mut fastrand::Rng) -> Vec<u8> {
    let mut record = rng.u16(..300).to_be_bytes().to_vec();
    let length = if rng.u8(..30) == 0 { rng.usize(..6000) } else { 40 };
    record.resize(2 + length, 7);
    record
}

fn contents(read: &dyn Read, model: &Model) -> Result<Model> {
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

/// Says where two differ, and not all of both.
fn check(read: &dyn Read, model: &Model, about: &str) {
    compare(&contents(read, model).unwrap(), model, about);
}

/// What an old reader finds. `may_be_gone`: transactions have written pages early, and were rolled
/// back; then the reader may be told that its version is gone.
fn check_reader(
    reader: &ReadTransaction<'_>,
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

fn compare(found: &Model, model: &Model, about: &str) {
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

fn step(rng: &mut fastrand::Rng, txn: &mut oneflush_mvbt::WriteTransaction<'_>, model: &mut Model) {
    let trees: Vec<TreeId> = model.integers.keys().copied().collect();
    let record_trees: Vec<TreeId> = model.records.keys().copied().collect();
    match rng.u8(..100) {
        0..=1 if trees.len() < 4 => {
            model.integers.insert(txn.create_tree(false).unwrap(), Map::new());
        }
        2 if record_trees.len() < 3 => {
            model.records.insert(txn.create_tree(true).unwrap(), Records::new());
        }
        3 if trees.len() > 1 => {
            let tree = rng.choice(trees).unwrap();
            txn.drop_tree(tree).unwrap();
            model.integers.remove(&tree);
        }
        4 if !trees.is_empty() && rng.u8(..4) == 0 => {
            let tree = rng.choice(trees).unwrap();
            let count = txn.clear_tree(tree).unwrap();
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
                let was_there = txn.delete_record(tree, &compare).unwrap();
                assert_eq!(was_there, map.remove(&record).is_some());
            } else {
                let was_there = txn.insert_record(tree, &record, &compare).unwrap();
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
            assert_eq!(txn.delete(tree, key).unwrap(), map.remove(&key).is_some());
        }
        51.. if !trees.is_empty() => {
            let tree = rng.choice(trees).unwrap();
            let map = model.integers.get_mut(&tree).unwrap();
            let key = match rng.u8(..4) {
                0 => map.keys().next_back().map_or(0, |key| key + 1),
                _ => rng.i64(-500..500),
            };
            let payload = payload(rng);
            let was_there = txn.insert(tree, key, &payload).unwrap();
            assert_eq!(was_there, map.insert(key, payload).is_some());
        }
        _ => {}
    }
}

fn transaction(rng: &mut fastrand::Rng, db: &Database, model: &mut Model) {
    let before = model.clone();
    let mut txn = db.begin_write().unwrap();
    let mut savepoints: Vec<(usize, Model)> = Vec::new();
    let steps = if rng.u8(..10) == 0 { rng.usize(1..200) } else { rng.usize(1..6) };
    for _ in 0..steps {
        match rng.u8(..30) {
            0 => savepoints.push((txn.savepoint(), model.clone())),
            1 if !savepoints.is_empty() => {
                savepoints.truncate(rng.usize(1..=savepoints.len()));
                let (savepoint, saved) = savepoints.last().unwrap();
                txn.roll_back_to(*savepoint).unwrap();
                *model = saved.clone();
            }
            2 if !savepoints.is_empty() => {
                let (savepoint, _) = savepoints.pop().unwrap();
                txn.release(savepoint);
            }
            _ => step(rng, &mut txn, model),
        }
    }
    if rng.u8(..8) == 0 {
        check(&txn, model, "in the transaction");
    }
    if rng.u8(..6) == 0 {
        txn.rollback().unwrap();
        *model = before;
    } else {
        txn.commit().unwrap();
    }
}

fn run(seed: u64, transactions: usize) {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut options = Options::default();
    options.page_bytes = 512 << rng.u8(..5);
    options.spill_bytes = rng.choice([0, 20_000, 1 << 30]).unwrap();
    options.cache_bytes = rng.choice([0, 1 << 20]).unwrap();
    options.lazy_split = rng.u8(..4) > 0;
    options.reserved_cells = rng.usize(..3);
    let spills = options.spill_bytes < 1 << 30;
    // Of old readers: gone, and found as they were.
    let mut looks = [0, 0];
    let memory = Memory::default();
    let mut db = memory.create(options.clone()).unwrap();
    let mut model = Model::default();
    for round in 0..5 {
        let mut readers: Vec<(ReadTransaction<'_>, Model)> = Vec::new();
        for number in 0..transactions / 5 {
            if rng.u8(..12) == 0 {
                readers.push((db.begin_read(), model.clone()));
            }
            transaction(&mut rng, &db, &mut model);
            if rng.u8(..10) == 0 {
                let about = format!("seed {seed}, round {round}, transaction {number}");
                check(&db.begin_read(), &model, &about);
                if !readers.is_empty() {
                    let (reader, then) = &readers[rng.usize(..readers.len())];
                    let about = format!("{about}, a reader of {}", reader.version());
                    looks[usize::from(check_reader(reader, then, spills, &about))] += 1;
                }
            }
            if readers.len() > 4 {
                let (reader, then) = readers.swap_remove(rng.usize(..readers.len()));
                check_reader(&reader, &then, spills, &format!("seed {seed}: a reader's last look"));
            }
        }
        drop(readers);
        match rng.u8(..3) {
            0 => db.close().unwrap(),
            // The process ends without a close.
            _ => drop(db),
        }
        db = memory.open(options.clone()).unwrap();
        check(&db.begin_read(), &model, &format!("seed {seed}, after an open"));
    }
    assert!(db.data_version() > Version(1));
    println!("seed {seed}: {looks:?} {options:?}");
}

#[test]
fn a_database_holds_what_ordered_maps_hold_in_every_version() {
    let seeds = std::env::var("ONEFLUSH_TEST_SEEDS").ok().and_then(|seeds| seeds.parse().ok());
    for seed in 0..seeds.unwrap_or(40) {
        run(seed, 200);
    }
}
