//! Cursors beside an ordered map: they move, the tree changes under them, and they go back.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;

use oneflush_mvbt::{
    Cursor, Database, Error, Options, Probe, Read, Restored, TreeId, WriteTransaction,
};

use crate::common::{self, Memory};

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// Where a cursor must stand: at a key that may be gone, or on nothing.
#[derive(Clone, Debug, PartialEq)]
enum Place {
    Nowhere,
    At(Vec<u8>),
}

/// Keys of 8 bytes, in the order of the numbers.
fn name(key: i64) -> Vec<u8> {
    ((key as u64) ^ 1 << 63).to_be_bytes().to_vec()
}

fn number(name: &[u8]) -> i64 {
    (u64::from_be_bytes(*name.first_chunk().unwrap()) ^ 1 << 63) as i64
}

/// A tree, what it must hold, and what its cursor must say.
struct Run {
    txn: WriteTransaction,
    tree: TreeId,
    is_record: bool,
    map: Map,
    cursor: Cursor,
    place: Place,
}

fn by_key(one: &[u8], other: &[u8]) -> std::cmp::Ordering {
    one[..8].cmp(&other[..8])
}

impl Run {
    fn insert(&mut self, key: i64, payload: Vec<u8>) {
        match self.is_record {
            true => {
                let record = [name(key), payload.clone()].concat();
                let compare = |stored: &[u8]| by_key(stored, &record);
                self.txn.insert_record(self.tree, &record, &compare).unwrap();
            }
            false => drop(self.txn.insert(self.tree, key, &payload).unwrap()),
        }
        self.map.insert(name(key), payload);
    }

    fn delete(&mut self, key: i64) {
        let was_there = match self.is_record {
            true => self.txn.delete_record(self.tree, &|stored| by_key(stored, &name(key))),
            false => self.txn.delete(self.tree, key),
        };
        assert_eq!(was_there.unwrap(), self.map.remove(&name(key)).is_some());
    }

    /// The key on which the cursor really stands.
    fn found(&self) -> Option<Vec<u8>> {
        let source = self.txn.source();
        let payload = self.cursor.payload(source).unwrap()?;
        let with = self.cursor.with_payload(source, <[u8]>::to_vec).unwrap();
        assert_eq!(with.as_ref(), Some(&payload));
        let length = self.cursor.payload_length(source).unwrap().unwrap();
        assert_eq!(length, payload.len() as u64);
        let (key, payload) = match self.is_record {
            true => (payload[..8].to_vec(), payload[8..].to_vec()),
            false => (name(self.cursor.integer_key(source).unwrap().unwrap()), payload),
        };
        assert!(self.map[&key] == payload, "the payload of {}", number(&key));
        Some(key)
    }

    fn restore(&mut self) {
        let answer = self.cursor.restore(self.txn.source(), Some(&by_key)).unwrap();
        let Place::At(key) = &self.place else { return assert_eq!(answer, Restored::Nowhere) };
        let next = self.map.range(key.clone()..).next().map(|(key, _)| key.clone());
        let previous = self.map.range(..key.clone()).next_back().map(|(key, _)| key.clone());
        let (expected, stands) = match (next, previous) {
            (Some(next), _) if next == *key => (Restored::Same, Some(next)),
            (Some(next), _) => (Restored::Next, Some(next)),
            (None, Some(previous)) => (Restored::Previous, Some(previous)),
            (None, None) => (Restored::Nowhere, None),
        };
        assert_eq!((answer, self.found()), (expected, stands));
        if answer == Restored::Nowhere {
            self.place = Place::Nowhere;
        }
    }

    fn moves(&mut self, is_forward: bool) {
        self.restore();
        let source = self.txn.source();
        let moved = match is_forward {
            true => self.cursor.next(source),
            false => self.cursor.previous(source),
        };
        moved.unwrap();
        if let Place::At(key) = &self.place {
            let mut all = self.map.keys();
            let to = match is_forward {
                true => all.find(|one| *one > key),
                false => all.rfind(|one| *one < key),
            };
            self.place = to.cloned().map_or(Place::Nowhere, Place::At);
        }
        self.check();
    }

    fn check(&self) {
        let expected = match &self.place {
            Place::At(key) => Some(key.clone()),
            Place::Nowhere => None,
        };
        assert_eq!(self.found(), expected);
    }

    fn seek(&mut self, key: i64) {
        let (source, sought) = (self.txn.source(), name(key));
        let compare = |stored: &[u8]| by_key(stored, &sought);
        let probe = if self.is_record { Probe::Record(&compare) } else { Probe::Integer(key) };
        let is_found = self.cursor.seek(source, probe).unwrap();
        assert_eq!(is_found, self.map.contains_key(&sought));
        let at = self.map.range(sought..).next().map(|(key, _)| key.clone());
        self.place = at.map_or(Place::Nowhere, Place::At);
        self.check();
    }

    fn at_its_cell(&mut self) -> Option<i64> {
        self.restore();
        match &self.place {
            Place::At(key) if self.map.contains_key(key) => Some(number(key)),
            _ => None,
        }
    }

    fn delete_at(&mut self) {
        match self.at_its_cell() {
            Some(key) => {
                self.txn.delete_at(&mut self.cursor, Some(&by_key)).unwrap();
                self.map.remove(&name(key)).unwrap();
            }
            None => {
                let refused = self.txn.delete_at(&mut self.cursor, Some(&by_key));
                assert!(matches!(refused, Err(Error::Misuse { .. })), "{refused:?}");
            }
        }
    }

    fn replace_at(&mut self, payload: Vec<u8>) {
        if let Some(key) = self.at_its_cell().filter(|_| !self.is_record) {
            self.txn.replace_at(&mut self.cursor, &payload).unwrap();
            self.map.insert(name(key), payload);
        }
    }

    fn overwrite(&mut self, rng: &mut fastrand::Rng) {
        let Some(key) = self.at_its_cell().filter(|_| !self.is_record) else { return };
        let payload = self.map.get_mut(&name(key)).unwrap();
        let from = rng.usize(..=payload.len());
        let to = rng.usize(from..=payload.len());
        let bytes: Vec<u8> = (from..to).map(|_| rng.u8(..)).collect();
        self.txn.overwrite(&mut self.cursor, from as u64, &bytes).unwrap();
        payload[from..to].copy_from_slice(&bytes);
    }

    /// Parts in any order, of a payload that is long or not.
    fn parts(&mut self, rng: &mut fastrand::Rng) {
        let Some(key) = self.at_its_cell() else { return };
        let mut all = if self.is_record { name(key) } else { Vec::new() };
        all.extend_from_slice(&self.map[&name(key)]);
        for _ in 0..8 {
            let from = rng.usize(..=all.len());
            let to = rng.usize(from..=all.len());
            let mut part = vec![0; to - from];
            let source = self.txn.source();
            self.cursor.payload_part(source, from as u64, &mut part).unwrap();
            assert!(part == all[from..to], "{from} to {to} of {}", all.len());
            let behind = self.cursor.payload_part(source, to as u64 + 1, &mut vec![0; all.len()]);
            assert!(matches!(behind, Err(Error::Misuse { .. })) || all.is_empty());
        }
    }

    fn change(&mut self, rng: &mut fastrand::Rng) {
        // Only what is saved can be restored.
        self.cursor.save(self.txn.source()).unwrap();
        for _ in 0..rng.usize(1..4) {
            let key = rng.i64(-100..100);
            match rng.u8(..5) {
                0 | 1 => self.delete(key),
                2 => {
                    // Its own cell, or the one behind it.
                    if let Place::At(key) = &self.place
                        && let Some((key, _)) = self.map.range(key.clone()..).next()
                    {
                        let key = number(key);
                        self.delete(key);
                    }
                }
                _ => {
                    let length =
                        if rng.u8(..12) == 0 { rng.usize(..9000) } else { rng.usize(..90) };
                    self.insert(key, (0..length).map(|_| rng.u8(..)).collect());
                }
            }
        }
    }
}

fn run(seed: u64) {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut options = Options::default();
    options.page_bytes = 512 << rng.u8(..2);
    options.spill_bytes = rng.choice([0, 10_000, 1 << 30]).unwrap();
    let db = Memory::default().create(options).unwrap();
    let mut txn = db.begin_write().unwrap();
    let is_record = rng.bool();
    let tree = txn.create_tree(is_record).unwrap();
    let cursor = txn.cursor(tree).unwrap();
    let (map, place) = (Map::new(), Place::Nowhere);
    let mut run = Run { txn, tree, is_record, map, cursor, place };
    for _ in 0..400 {
        match rng.u8(..14) {
            0..=3 => run.change(&mut rng),
            4..=6 => run.moves(true),
            7..=8 => run.moves(false),
            9 => run.seek(rng.i64(-110..110)),
            10 => run.delete_at(),
            11 => run.replace_at(vec![rng.u8(..); rng.usize(..2000)]),
            12 => run.overwrite(&mut rng),
            _ => run.parts(&mut rng),
        }
    }
    assert_eq!(run.txn.count(tree).unwrap(), run.map.len() as u64);
    // All of it, both ways.
    let source = run.txn.source();
    for is_forward in [true, false] {
        let mut found = Vec::new();
        let first = if is_forward { run.cursor.first(source) } else { run.cursor.last(source) };
        first.unwrap();
        while let Some(key) = run.found() {
            found.push(key);
            let moved = match is_forward {
                true => run.cursor.next(source),
                false => run.cursor.previous(source),
            };
            moved.unwrap();
        }
        let keys = run.map.keys().cloned();
        let expected: Vec<_> = if is_forward { keys.collect() } else { keys.rev().collect() };
        assert!(found == expected, "forward: {is_forward}");
    }
    run.txn.commit().unwrap();
    common::model::sound(&db, &format!("seed {seed}"));
}

#[test]
fn a_cursor_stands_where_an_ordered_map_says_after_any_changes() {
    let seeds = std::env::var("ONEFLUSH_TEST_SEEDS").ok().and_then(|seeds| seeds.parse().ok());
    for seed in 0..seeds.unwrap_or(60) {
        let done = std::panic::catch_unwind(|| run(seed));
        assert!(done.is_ok(), "seed {seed}");
    }
}

fn with_rows(rows: i64, payload: &[u8]) -> (Database, TreeId) {
    let db = Memory::default().create(Options::default()).unwrap();
    let mut txn = db.begin_write().unwrap();
    let tree = txn.create_tree(false).unwrap();
    for key in 0..rows {
        txn.insert(tree, key, payload).unwrap();
    }
    txn.commit().unwrap();
    (db, tree)
}

#[test]
fn a_change_of_another_tree_leaves_a_cursor_where_it_is() {
    let (db, tree) = with_rows(10, b"row");
    let mut txn = db.begin_write().unwrap();
    let other = txn.create_tree(false).unwrap();
    let mut cursor = txn.cursor(tree).unwrap();
    cursor.first(txn.source()).unwrap();
    for key in 0..10 {
        assert_eq!(cursor.integer_key(txn.source()).unwrap(), Some(key));
        for more in 0..200 {
            txn.insert(other, key * 1000 + more, &[7; 100]).unwrap();
        }
        cursor.next(txn.source()).unwrap();
    }
    assert!(!cursor.is_on_cell());
}

#[test]
fn a_cursor_that_was_not_saved_says_so() {
    let (db, tree) = with_rows(10, b"row");
    let mut txn = db.begin_write().unwrap();
    let mut cursor = txn.cursor(tree).unwrap();
    cursor.first(txn.source()).unwrap();
    txn.delete(tree, 0).unwrap();
    assert!(matches!(cursor.save(txn.source()), Err(Error::Misuse { .. })));
    assert!(matches!(cursor.restore(txn.source(), None), Err(Error::Misuse { .. })));
}

#[test]
fn what_was_saved_survives_a_restore_that_fails() {
    let db = Memory::default().create(Options::default()).unwrap();
    let mut txn = db.begin_write().unwrap();
    let tree = txn.create_tree(true).unwrap();
    let order = |one: &[u8], other: &[u8]| one.cmp(other);
    for word in [b"a", b"b", b"c"] {
        txn.insert_record(tree, word, &|stored| stored.cmp(word)).unwrap();
    }
    let mut cursor = txn.cursor(tree).unwrap();
    cursor.seek(txn.source(), Probe::Record(&|stored| stored.cmp(b"b"))).unwrap();
    let refused = txn.delete_at(&mut cursor, None);
    assert!(matches!(refused, Err(Error::Misuse { .. })), "{refused:?}");
    assert_eq!(txn.count(tree).unwrap(), 3);
    txn.delete_at(&mut cursor, Some(&order)).unwrap();
    for _ in 0..2 {
        let refused = cursor.restore(txn.source(), None);
        assert!(matches!(refused, Err(Error::Misuse { .. })), "{refused:?}");
    }
    assert_eq!(cursor.restore(txn.source(), Some(&order)).unwrap(), Restored::Next);
    assert_eq!(cursor.payload(txn.source()).unwrap().unwrap(), b"c");
}

#[test]
fn a_savepoint_that_takes_a_moved_root_back_leaves_a_cursor_that_can_seek() {
    let mut options = Options::default();
    options.page_bytes = 512;
    let db = Memory::default().create(options).unwrap();
    let mut txn = db.begin_write().unwrap();
    let tree = txn.create_tree(true).unwrap();
    let record = |number: u32| [&number.to_be_bytes()[..], &[7; 170]].concat();
    let add = |txn: &mut WriteTransaction, number: u32| {
        let record = record(number);
        txn.insert_record(tree, &record, &|stored| stored.cmp(&record)).unwrap();
    };
    add(&mut txn, 0);
    txn.commit().unwrap();
    let mut txn = db.begin_write().unwrap();
    let mut cursor = txn.cursor(tree).unwrap();
    cursor.first(txn.source()).unwrap();
    cursor.save(txn.source()).unwrap();
    let savepoint = txn.savepoint();
    (1..60).for_each(|number| add(&mut txn, number));
    let order = |one: &[u8], other: &[u8]| one.cmp(other);
    assert_eq!(cursor.restore(txn.source(), Some(&order)).unwrap(), Restored::Same);
    cursor.last(txn.source()).unwrap();
    assert_eq!(cursor.payload(txn.source()).unwrap(), Some(record(59)));
    txn.roll_back_to(savepoint).unwrap();
    cursor.last(txn.source()).unwrap();
    assert_eq!(cursor.payload(txn.source()).unwrap(), Some(record(0)));
}

/// Each part began at the first overflow page: a payload of 300 pages took 45,000 reads.
#[test]
fn a_long_payload_in_parts_is_read_once() {
    let payload: Vec<u8> = (0..1_200_000_u32).map(|byte| (byte / 7) as u8).collect();
    let (db, tree) = with_rows(1, &payload);
    let reader = db.begin_read().unwrap();
    let mut cursor = reader.cursor(tree).unwrap();
    cursor.first(reader.source()).unwrap();
    let before = db.counters().reads.load(Relaxed);
    for (index, bytes) in payload.chunks(1000).enumerate() {
        let mut part = vec![0; bytes.len()];
        cursor.payload_part(reader.source(), index as u64 * 1000, &mut part).unwrap();
        assert!(part == bytes, "part {index}");
    }
    let reads = db.counters().reads.load(Relaxed) - before;
    assert!(reads < 310, "{reads}");
}

#[test]
fn an_estimate_is_near_the_count() {
    for rows in [0, 1, 30, 5_000, 40_000] {
        let (db, tree) = with_rows(rows, &[7; 50]);
        let reader = db.begin_read().unwrap();
        assert_eq!(reader.count(tree).unwrap(), rows as u64);
        let mut cursor = reader.cursor(tree).unwrap();
        cursor.seek(reader.source(), Probe::Integer(rows / 2)).unwrap();
        let estimate = cursor.estimate(reader.source()).unwrap();
        let rows = rows as u64;
        assert!((rows / 3..=rows * 3).contains(&estimate), "{estimate} of {rows}");
    }
}

/// A root that gets another height shows older readers what it had through a page of its own. A
/// cursor's way, and a look at the catalog in two steps, would then lead elsewhere.
#[test]
fn a_cursor_of_a_snapshot_stays_on_its_cells_while_the_root_gets_other_heights() {
    let memory = Memory::default();
    let mut options = Options::default();
    options.page_bytes = 512;
    let db = memory.create(options).unwrap();
    let mut txn = db.begin_write().unwrap();
    let tree = txn.create_tree(false).unwrap();
    for key in 0..4 {
        txn.insert(tree, key, b"row").unwrap();
    }
    txn.commit().unwrap();
    let reader = db.begin_read().unwrap();
    let mut cursor = reader.cursor(tree).unwrap();
    cursor.first(reader.source()).unwrap();
    for round in 0..4 {
        assert_eq!(cursor.integer_key(reader.source()).unwrap(), Some(round));
        for key in 0..200 {
            let mut txn = db.begin_write().unwrap();
            txn.insert(tree, 10 + 1000 * round + key, &[7; 60]).unwrap();
            txn.commit().unwrap();
        }
        cursor.next(reader.source()).unwrap();
    }
    assert!(!cursor.is_on_cell());
}
