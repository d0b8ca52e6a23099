//! Cells that a cursor lists where they stand, and steps over many of them at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use oneflush_mvbt::{Cursor, Database, Error, Options, Read, ReadTransaction, Source, TreeId};

use crate::common::Memory;

fn filled(page_bytes: usize) -> (Arc<Database>, TreeId) {
    let mut options = Options::default();
    options.page_bytes = page_bytes;
    let db = Memory::default().create(options).unwrap();
    let mut txn = db.begin_write().unwrap();
    let tree = txn.create_tree(false).unwrap();
    for key in 0..1000 {
        txn.insert(tree, key, &payload(key, 0)).unwrap();
    }
    txn.commit().unwrap();
    (Arc::new(db), tree)
}

fn payload(key: i64, turn: u8) -> Vec<u8> {
    vec![key as u8 ^ turn; 1 + key as usize % 60]
}

/// Key and payload of up to so many cells from the cursor on.
fn listed(cursor: &mut Cursor, source: &dyn Source, most: usize) -> Vec<(i64, Vec<u8>)> {
    let mut cells = Vec::new();
    cursor
        .with_cells(source, |cell| {
            assert_eq!(cell.length, cell.local.len() as u64);
            cells.push((cell.key, cell.local.to_vec()));
            cells.len() < most
        })
        .unwrap();
    cells
}

/// All cells, by steps of several lengths, both ways.
fn scan(reader: &ReadTransaction, tree: TreeId, turn: u8) {
    let source: &dyn Source = reader_source(reader);
    let mut cursor = reader.cursor(tree).unwrap();
    assert_eq!(listed(&mut cursor, source, 5), []);
    for most in [1, 2, 3, 7, 100] {
        cursor.first(source).unwrap();
        let mut next = 0;
        while cursor.is_on_cell() {
            let cells = listed(&mut cursor, source, most);
            for (key, found) in &cells {
                assert_eq!((*key, found), (next, &payload(next, turn)));
                next += 1;
            }
            let one = cursor.integer_key(source).unwrap();
            assert_eq!(one, Some(cells[0].0));
            cursor.advance(source, cells.len()).unwrap();
        }
        assert_eq!(next, 1000);
        cursor.last(source).unwrap();
        let mut last = 999;
        loop {
            let before = last;
            let moved = cursor.retreat(source, most).unwrap();
            last -= moved as i64;
            if moved == 0 {
                break;
            }
            let cells = listed(&mut cursor, source, moved);
            assert_eq!(cells.len(), moved, "what it has come by is listed");
            assert_eq!((cells[0].0, cells[moved - 1].0), (last, before - 1));
        }
        assert_eq!(last, 0);
    }
    cursor.first(source).unwrap();
    assert!(matches!(cursor.advance(source, 5000), Err(Error::Misuse { .. })));
    assert_eq!(cursor.integer_key(source).unwrap(), Some(0), "it has stayed");
}

fn reader_source(reader: &ReadTransaction) -> &dyn Source {
    reader
}

#[test]
fn cells_are_listed_and_stepped_over_both_ways() {
    for page_bytes in [512, 4096, 65_536] {
        let (db, tree) = filled(page_bytes);
        scan(&db.begin_read().unwrap(), tree, 0);
    }
}

#[test]
fn a_cursor_sees_its_snapshot_while_others_write_all_rows_anew() {
    let (db, tree) = filled(512);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writes = scope.spawn(|| {
            for turn in 1..=30_u8 {
                let mut txn = db.begin_write().unwrap();
                for key in 0..1000 {
                    txn.insert(tree, key, &payload(key, turn)).unwrap();
                }
                // Splits and roots of another height.
                for key in 1000..1000 + i64::from(turn % 5) * 400 {
                    txn.insert(tree, key, &[turn; 40]).unwrap();
                }
                for key in 1000..2600 {
                    txn.delete(tree, key).unwrap();
                }
                txn.commit().unwrap();
            }
            is_over.store(true, Relaxed);
        });
        while !is_over.load(Relaxed) {
            let reader = db.begin_read().unwrap();
            let first = reader.get(tree, 0).unwrap().unwrap()[0];
            scan(&reader, tree, first);
        }
        writes.join().unwrap();
    });
    let reader = db.begin_read().unwrap();
    scan(&reader, tree, 30);
}

#[test]
fn a_cursor_of_a_transaction_that_writes_sees_what_it_changes_after_it_has_sought_again() {
    let (db, tree) = filled(512);
    let mut txn = db.begin_write().unwrap();
    let mut cursor = txn.cursor(tree).unwrap();
    for turn in 1..50_u8 {
        let key = i64::from(turn) * 17;
        cursor.first(txn.source()).unwrap();
        assert_eq!(listed(&mut cursor, txn.source(), 1)[0].0, 0);
        txn.insert(tree, key, &[turn; 9]).unwrap();
        assert!(matches!(cursor.advance(txn.source(), 1), Err(Error::Misuse { .. })));
        cursor.seek(txn.source(), oneflush_mvbt::Probe::Integer(key)).unwrap();
        assert_eq!(listed(&mut cursor, txn.source(), 1), [(key, vec![turn; 9])]);
    }
}
