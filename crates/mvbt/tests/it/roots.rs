//! Roots that are full, long keys in inner pages, and readers of before.

use std::collections::BTreeSet;

use oneflush_mvbt::{Database, Options, Probe, Read, ReadTransaction, Result, TreeId};

use crate::common::Memory;
use crate::common::model::sound;

fn record(number: u32, length: usize) -> Vec<u8> {
    let mut record = number.to_be_bytes().to_vec();
    record.resize(length.max(4), 7);
    record
}

fn add(db: &Database, tree: TreeId, record: &[u8]) -> Result<()> {
    let mut txn = db.begin_write()?;
    txn.insert_record(tree, record, &|stored| stored.cmp(record))?;
    txn.commit().map(drop)
}

fn with_tree(page_bytes: usize) -> (Database, TreeId) {
    let mut options = Options::default();
    options.page_bytes = page_bytes;
    let db = Memory::default().create(options).unwrap();
    let mut txn = db.begin_write().unwrap();
    let tree = txn.create_tree(true).unwrap();
    txn.commit().unwrap();
    (db, tree)
}

fn numbers(reader: &ReadTransaction, tree: TreeId) -> Vec<u32> {
    let source = reader.source();
    let mut cursor = reader.cursor(tree).unwrap();
    cursor.seek(source, Probe::First).unwrap();
    let mut found = Vec::new();
    while let Some(record) = cursor.payload(source).unwrap() {
        found.push(u32::from_be_bytes(*record.first_chunk().unwrap()));
        cursor.next(source).unwrap();
    }
    found
}

#[test]
fn the_key_of_a_roots_first_child_takes_no_pages_that_nobody_frees() {
    for length in [100, 3000, 9000] {
        let (db, tree) = with_tree(512);
        for number in 0..200 {
            add(&db, tree, &record(number, length)).unwrap();
            assert_eq!(sound(&db, "after an insert"), 0, "{length} {number}");
        }
    }
}

#[test]
fn a_tree_of_large_records_can_be_cleared_and_emptied_while_it_is_read() {
    for page_bytes in [512, 4096] {
        for length in
            (page_bytes / 8..page_bytes / 2).step_by(if page_bytes > 512 { 61 } else { 5 })
        {
            for (clears, count) in [(true, 4), (true, 9), (false, 4), (false, 9)] {
                let about = format!("{page_bytes} {length} {clears} {count}");
                let (db, tree) = with_tree(page_bytes);
                for number in 0..count {
                    add(&db, tree, &record(number, length)).unwrap();
                }
                let early = db.begin_read().unwrap();
                add(&db, tree, &record(count, length)).unwrap();
                let late = db.begin_read().unwrap();
                let mut txn = db.begin_write().unwrap();
                if clears {
                    txn.clear_tree(tree).unwrap_or_else(|error| panic!("{about}: {error}"));
                }
                txn.commit().unwrap();
                for number in 0..=count {
                    let mut txn = db.begin_write().unwrap();
                    let record = record(number, length);
                    txn.delete_record(tree, &|stored| stored.cmp(&record[..]))
                        .unwrap_or_else(|error| panic!("{about}: {error}"));
                    txn.commit().unwrap();
                }
                assert_eq!(numbers(&early, tree), (0..count).collect::<Vec<_>>(), "{about}");
                assert_eq!(numbers(&late, tree), (0..=count).collect::<Vec<_>>(), "{about}");
                assert_eq!(numbers(&db.begin_read().unwrap(), tree), [0; 0], "{about}");
                add(&db, tree, &record(0, length)).unwrap_or_else(|e| panic!("{about}: {e}"));
            }
        }
    }
}

#[test]
fn the_catalog_holds_any_trees_while_it_is_read() {
    for seed in 40..47 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut options = Options::default();
        options.page_bytes = 512;
        options.spill_bytes = rng.choice([0, 1 << 30]).unwrap();
        options.reserved_cells = rng.usize(..2);
        let memory = Memory::default();
        let mut db = memory.create(options.clone()).unwrap();
        let mut trees = BTreeSet::new();
        for round in 0..4 {
            let mut readers = Vec::new();
            for step in 0..60 {
                let about = format!("seed {seed}, round {round}, step {step}");
                if rng.u8(..8) == 0 {
                    readers.push((db.begin_read().unwrap(), trees.clone()));
                }
                if readers.len() > 3 || rng.u8(..20) == 0 && !readers.is_empty() {
                    readers.remove(0);
                }
                let mut txn = db.begin_write().unwrap();
                let grows = rng.u8(..10) < 2 + 6 * (step / 20 % 2);
                for _ in 0..rng.usize(1..40) {
                    let tree = rng.choice(trees.iter().copied());
                    match tree.filter(|_| !grows) {
                        Some(tree) => {
                            txn.drop_tree(tree).unwrap_or_else(|e| panic!("{about}: {e}"));
                            trees.remove(&tree);
                        }
                        None => {
                            let made = txn.create_tree(false);
                            trees.insert(made.unwrap_or_else(|e| panic!("{about}: {e}")));
                        }
                    }
                }
                txn.commit().unwrap_or_else(|e| panic!("{about}: {e}"));
                let listed = db.begin_read().unwrap().trees().unwrap();
                assert_eq!(listed, trees.iter().copied().collect::<Vec<_>>(), "{about}");
                for (reader, then) in &readers {
                    let listed = reader.trees().unwrap_or_else(|e| panic!("{about}: {e}"));
                    assert_eq!(listed, then.iter().copied().collect::<Vec<_>>(), "{about}");
                }
            }
            drop(readers);
            sound(&db, &format!("seed {seed}"));
            db.close().unwrap();
            db = memory.open(options.clone()).unwrap();
        }
    }
}

/// Each dead cell takes more of a directory than one that lives, so not all are in one page.
#[test]
fn what_older_readers_need_of_a_full_root_may_be_more_than_one_page() {
    for page_bytes in [512, 4096] {
        for (length, at_once) in (4..100).flat_map(|length| [1, 3, 1000].map(|n| (length, n))) {
            let (db, tree) = with_tree(page_bytes);
            let about = format!("{page_bytes} {length} {at_once}");
            let count = (page_bytes - 80) / (length + 20) + 1;
            let row = |number: u32| record(number, length);
            let change = |deletes: bool, range: std::ops::Range<u32>| {
                let mut txn = db.begin_write().unwrap();
                for number in range {
                    let row = row(number);
                    match deletes {
                        true => txn.delete_record(tree, &|stored| stored.cmp(&row)).map(drop),
                        false => {
                            txn.insert_record(tree, &row, &|stored| stored.cmp(&row)).map(drop)
                        }
                    }
                    .unwrap_or_else(|error| panic!("{about}, row {number}: {error}"));
                }
                txn.commit().unwrap();
            };
            let count = count as u32;
            change(false, 0..count);
            let mut readers = vec![(db.begin_read().unwrap(), (0..count).collect::<Vec<u32>>())];
            for from in (0..count).step_by(at_once) {
                let to = count.min(from + at_once as u32);
                change(true, from..to);
                readers.push((db.begin_read().unwrap(), (to..count).collect()));
            }
            change(false, 1000..1400);
            readers.push((db.begin_read().unwrap(), (1000..1400).collect()));
            for (reader, rows) in &readers {
                assert!(numbers(reader, tree) == *rows, "{about}, {}", reader.version());
            }
            sound(&db, &about);
        }
    }
}

/// An inner page takes several children, however long the records are.
#[test]
fn a_tree_of_long_records_stays_low() {
    for page_bytes in [512, 4096] {
        for (least, most) in [(1, 8), (1, 4), (2, 4)] {
            let (least, most) = (page_bytes / 8 * least, page_bytes / 8 * most);
            let (db, tree) = with_tree(page_bytes);
            let mut rng = fastrand::Rng::with_seed(page_bytes as u64);
            let mut rows: Vec<Vec<u8>> = Vec::new();
            let mut txn = db.begin_write().unwrap();
            for _ in 0..3000 {
                if rng.bool() || rows.len() < 10 {
                    let row = record(rng.u32(..), rng.usize(least..most));
                    if txn.insert_record(tree, &row, &|stored| stored.cmp(&row)).unwrap() {
                        continue;
                    }
                    rows.push(row);
                } else {
                    let row = rows.swap_remove(rng.usize(..rows.len()));
                    txn.delete_record(tree, &|stored| stored.cmp(&row)).unwrap();
                }
                let root = txn.tree(tree).unwrap().root;
                let height = txn.source().page(root).unwrap().view().unwrap().height;
                assert!(height < 8, "{page_bytes}, {least} to {most}: {height}");
            }
            txn.commit().unwrap();
            assert_eq!(db.begin_read().unwrap().count(tree).unwrap(), rows.len() as u64);
            assert_eq!(sound(&db, "after all"), 0);
        }
    }
}
