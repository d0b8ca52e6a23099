//! What a caller may do wrong without harm.

use oneflush_mvbt::{Database, Error, Options, Probe, Read, TreeId};

use crate::common::{self, Memory};

fn with_rows(rows: i64) -> (Database, TreeId) {
    let mut options = Options::default();
    options.page_bytes = 512;
    let db = Memory::default().create(options).unwrap();
    let mut txn = db.begin_write().unwrap();
    let tree = txn.create_tree(false).unwrap();
    for key in 0..rows {
        txn.insert(tree, key, &[7; 60]).unwrap();
    }
    txn.commit().unwrap();
    (db, tree)
}

#[test]
fn catalog_and_free_pages_are_changed_by_nobody_else() {
    let (db, tree) = with_rows(10);
    for id in [TreeId(0), TreeId(1)] {
        let mut txn = db.begin_write().unwrap();
        assert!(matches!(txn.insert(id, -1, b"none"), Err(Error::Misuse { .. })));
        assert!(matches!(txn.delete(id, -1), Err(Error::Misuse { .. })));
        assert!(matches!(txn.clear_tree(id), Err(Error::Misuse { .. })));
        assert!(matches!(txn.drop_tree(id), Err(Error::Misuse { .. })));
        txn.commit().unwrap();
    }
    assert!(db.begin_read().unwrap().get(tree, 1).unwrap().is_some());
    common::model::sound(&db, "after what was refused");
}

#[test]
fn a_cursor_of_a_transaction_says_that_its_place_has_changed() {
    for rows in [1, 5, 6, 40, 200] {
        for step in 0..8 {
            let (db, tree) = with_rows(rows);
            let mut txn = db.begin_write().unwrap();
            let mut cursor = txn.cursor(tree).unwrap();
            cursor.last(txn.source()).unwrap();
            for key in rows / 2..rows {
                txn.delete(tree, key).unwrap();
            }
            for key in if step < 4 { -100..-90 } else { -100..-99 } {
                txn.insert(tree, key, &[7; 60]).unwrap();
            }
            let source = txn.source();
            let _ = match step % 4 {
                0 => cursor.integer_key(source).map(drop),
                1 => cursor.payload(source).map(drop),
                2 => cursor.next(source),
                _ => cursor.previous(source),
            };
            // A wrong row would be worse than an error.
            assert!(matches!(cursor.integer_key(source), Err(Error::Misuse { .. })));
            let _ = cursor.payload_length(source);
            let _ = cursor.payload_part(source, 0, &mut [0; 4]);
            cursor.seek(source, Probe::First).unwrap();
            assert_eq!(cursor.integer_key(source).unwrap(), Some(-100));
        }
    }
}

#[test]
fn a_savepoint_that_is_not_open_is_refused() {
    let (db, tree) = with_rows(1);
    let mut txn = db.begin_write().unwrap();
    let savepoint = txn.savepoint();
    txn.insert(tree, 5, b"five").unwrap();
    assert!(matches!(txn.roll_back_to(0), Err(Error::Misuse { .. })));
    assert!(matches!(txn.roll_back_to(2), Err(Error::Misuse { .. })));
    txn.roll_back_to(savepoint).unwrap();
    assert_eq!(txn.get(tree, 5).unwrap(), None);
}
