//! Files with right checksums that no program of ours has written. Whatever they say, there is an
//! answer or an error: no panic, no endless work, and no memory that they have not earned.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use oneflush_mvbt::{Database, Error, Options, PageNo, Read, Result, TreeId};

use crate::common;
use crate::common::forge::{Directory, Forge, child_cell, leaf_cell, long_cell};

/// Fails if it takes longer than a minute.
fn in_time<R: Send + 'static>(work: impl FnOnce() -> R + Send + 'static) -> R {
    let (done, is_done) = std::sync::mpsc::channel();
    std::thread::spawn(move || done.send(work()));
    is_done.recv_timeout(Duration::from_secs(60)).expect("it panicked, or does not end")
}

fn fill(db: &Database, tree: TreeId, keys: std::ops::Range<i64>) -> Result<()> {
    let mut txn = db.begin_write()?;
    for key in keys {
        txn.insert(tree, key, &[7; 60])?;
    }
    txn.commit().map(drop)
}

/// The catalog with other entries: next tree, number of pages, and two trees.
fn put_catalog(forge: &mut Forge, next: u32, pages: u64, roots: [u64; 2]) {
    put_catalog_with(forge, Vec::new(), next, pages, roots);
}

/// The same, with entries before these.
fn put_catalog_with(
    forge: &mut Forge,
    mut cells: Vec<Vec<u8>>,
    next: u32,
    pages: u64,
    roots: [u64; 2],
) {
    let entry = |key: u8, payload: &[u8]| {
        let mut cell = leaf_cell(0, payload);
        cell[7] = key;
        cell
    };
    let tree = |id: TreeId, root: u64, is_record: u8| {
        let mut payload = root.to_le_bytes()[..6].to_vec();
        payload.push(is_record);
        entry(id.0 as u8 * 2, &payload)
    };
    cells.extend([
        entry(5, &next.to_le_bytes()),
        entry(1, &pages.to_le_bytes()),
        tree(forge.tree, roots[0], 0),
        tree(forge.records, roots[1], 1),
    ]);
    forge.put_all(1, 0, 0, &cells);
}

#[test]
fn a_root_of_the_greatest_height_cannot_grow() {
    let mut forge = Forge::new(512);
    let (tree, root) = (forge.tree, forge.root);
    let children: Vec<Vec<u8>> = (0..27).map(|n| child_cell(n, 10 + u64::from(n % 5))).collect();
    forge.put_all(root, tree.0, 255, &children);
    for no in 10..15 {
        forge.put_all(no, tree.0, 0, &[leaf_cell(no as u8, b"x")]);
    }
    assert!(matches!(fill(&forge.open(), tree, 26..500), Err(Error::Damaged { .. })));
}

#[test]
fn a_tree_whose_pages_are_reached_by_many_ways_is_not_dropped_for_ever() {
    for drops in [true, false] {
        let mut forge = Forge::new(512);
        let (tree, root) = (forge.tree, forge.root);
        for level in 0..8_u64 {
            let no = if level == 7 { root } else { 8 + level };
            let cells: Vec<Vec<u8>> = (0..20)
                .map(|n| if level == 0 { leaf_cell(n, b"x") } else { child_cell(n, 7 + level) })
                .collect();
            forge.put_all(no, tree.0, level as u8, &cells);
        }
        let done = in_time(move || {
            let db = forge.open();
            let counted = db.begin_read().unwrap().count(tree);
            assert!(matches!(counted, Err(Error::ReachedTwice { .. })), "{counted:?}");
            let folder = tempfile::tempdir().unwrap();
            let copied = db.vacuum_into(&folder.path().join("copy.mvbt"));
            assert!(matches!(copied, Err(Error::ReachedTwice { .. })), "{copied:?}");
            let mut txn = db.begin_write().unwrap();
            if drops { txn.drop_tree(tree) } else { txn.clear_tree(tree).map(drop) }
        });
        assert!(matches!(done, Err(Error::ReachedTwice { .. })), "{done:?}");
    }
}

#[test]
fn a_cursor_stands_on_no_cell_of_an_empty_leaf() {
    let mut forge = Forge::new(512);
    let (tree, root) = (forge.tree, forge.root);
    forge.put_all(root, tree.0, 1, &[child_cell(0, 10), child_cell(1, 11), child_cell(2, 12)]);
    forge.put_all(10, tree.0, 0, &[]);
    forge.put_all(11, tree.0, 0, &[leaf_cell(1, b"x")]);
    forge.put_all(12, tree.0, 0, &[]);
    let db = forge.open();
    let reader = db.begin_read().unwrap();
    for ends in [true, false] {
        let mut cursor = reader.cursor(tree).unwrap();
        let gone = if ends { cursor.last(reader.source()) } else { cursor.first(reader.source()) };
        gone.unwrap();
        for _ in 0..4 {
            let _ = cursor.integer_key(reader.source());
            let _ = cursor.payload(reader.source());
            let _ =
                if ends { cursor.previous(reader.source()) } else { cursor.next(reader.source()) };
        }
    }
}

#[test]
fn a_long_payload_that_is_a_ring_costs_no_more_than_its_pages() {
    let mut forge = Forge::new(512);
    let (tree, root) = (forge.tree, forge.root);
    let local = (512 - 80) / 8;
    forge.put_all(root, tree.0, 0, &[long_cell(1, (1 << 31) - 1, local, 10)]);
    forge.put_overflow(10, tree.0, &[7; 400], 11);
    forge.put_overflow(11, tree.0, &[7; 400], 12);
    forge.put_overflow(12, tree.0, &[7; 400], 11);
    let reads = in_time(move || {
        let db = forge.open();
        assert!(db.begin_read().unwrap().get(tree, 1).is_err());
        assert!(db.begin_write().unwrap().delete(tree, 1).is_err());
        db.counters().reads.load(Relaxed)
    });
    assert!(reads < 100, "{reads}");
}

#[test]
fn free_pages_that_are_none_are_an_error_or_damage_and_no_panic() {
    for free in [0_u64, 1, 2, 3, 4, 5, 6, 7, 1 << 20, (1 << 48) - 1] {
        // In the anchor that the close has left.
        let mut forge = Forge::new(512);
        forge.change_anchors(|anchor| {
            for index in 0..128 {
                let at = 2132 + 6 * index;
                anchor[at..at + 6].copy_from_slice(&free.to_le_bytes()[..6]);
            }
            anchor[2128] = 128;
        });
        let tree = forge.tree;
        let _ = in_time(move || fill(&forge.open(), tree, 0..300));
        // In the tree of free pages. No pages in the anchor, so that they are taken.
        let mut forge = Forge::new(512);
        forge.change_anchors(|anchor| anchor[2128] = 9);
        let mut cell = vec![1, 0, 0, 0, 0, 0, 0];
        let mut key = free * 2;
        while key >= 0x80 {
            cell.push(key as u8 | 0x80);
            key >>= 7;
        }
        cell.push(key as u8);
        forge.put_all(2, 1, 0, &[cell]);
        let _ = in_time(move || fill(&forge.open(), tree, 0..300));
    }
}

#[test]
fn a_number_of_pages_that_the_file_does_not_have_grows_no_file_and_takes_no_memory() {
    for pages in [1 << 22, 1 << 33, 1 << 40, u64::MAX] {
        let mut forge = Forge::new(512);
        let (tree, root, records_root) = (forge.tree, forge.root, forge.records_root);
        put_catalog(&mut forge, 9, pages, [root, records_root]);
        forge.change_anchors(|anchor| anchor[2128] = 0);
        let db = forge.open();
        assert!(matches!(fill(&db, tree, 0..300), Err(Error::Damaged { .. })), "{pages}");
        let report = db.check(None).unwrap();
        assert!(!report.faults.is_empty() && report.lost.len() < 10_000, "{pages}");
        // A page far behind the end of the file.
        put_catalog(&mut forge, 9, pages, [root, pages.min(1 << 48) - 1]);
        let report = forge.open().check(None).unwrap();
        assert!(!report.faults.is_empty() && report.lost.len() < 10_000, "{pages}");
    }
}

#[test]
fn the_next_tree_is_none_that_is_there() {
    for next in [0, 1, 2, 3] {
        let mut forge = Forge::new(512);
        let (root, records_root) = (forge.root, forge.records_root);
        put_catalog(&mut forge, next, 18, [root, records_root]);
        let db = forge.open();
        let mut txn = db.begin_write().unwrap();
        assert!(matches!(txn.create_tree(false), Err(Error::Damaged { .. })), "{next}");
    }
}

#[test]
fn a_directory_lists_no_more_bytes_than_its_page_has() {
    let mut forge = Forge::new(65_536);
    let (tree, root) = (forge.tree, forge.root);
    let one = Directory { version: 1, floor: 1, live: vec![0; 25_000], ..Directory::default() };
    forge.put(root, tree.0, &[leaf_cell(1, &[7; 100])], &[one]);
    assert!(matches!(forge.open().begin_read().unwrap().get(tree, 1), Err(Error::Damaged { .. })));
}

/// Two directories that do not belong together, the newer one above all readers.
#[test]
fn directories_that_contradict_each_other_are_no_panic() {
    let sizes = [1_usize, 3, 20];
    for (heights, flags) in [((0, 0), (0, 4)), ((0, 1), (0, 0)), ((1, 0), (0, 0)), ((3, 1), (0, 4))]
    {
        for (size, version) in
            sizes.into_iter().flat_map(|size| [3, 4, 5, 1 << 40].map(|v| (size, v)))
        {
            let mut forge = Forge::new(512);
            let (tree, root) = (forge.tree, forge.root);
            let count = 12;
            let cells: Vec<Vec<u8>> = (0..count)
                .map(|n| match heights.0 {
                    0 => leaf_cell(n, &[10; 20][..size]),
                    _ => child_cell(n, 10),
                })
                .collect();
            let base = Directory {
                version: 1,
                flags: flags.1,
                height: heights.1,
                floor: 1,
                live: (0..count as usize).collect(),
                dead: Vec::new(),
            };
            let active = Directory {
                version,
                flags: flags.0,
                height: heights.0,
                floor: version,
                live: vec![0, 1, 2],
                dead: Vec::new(),
            };
            forge.put(root, tree.0, &cells, &[base, active]);
            forge.put_all(10, tree.0, 0, &[leaf_cell(1, b"x")]);
            in_time(move || {
                let db = forge.open();
                let _old = db.begin_read().unwrap();
                for round in 0..4 {
                    let mut txn = db.begin_write().unwrap();
                    for key in 0..20 {
                        let _ = txn.delete(tree, key);
                        let _ = txn.insert(tree, key + round * 7, &[7; 60]);
                    }
                    let _ = txn.commit();
                    let mut txn = db.begin_write().unwrap();
                    let _ = txn.clear_tree(tree);
                    let _ = txn.commit();
                }
            });
        }
    }
}

#[test]
fn anchors_with_absurd_numbers_are_an_error_and_leave_the_file_as_it_is() {
    let largest = (1_u64 << 48) - 1;
    let last = |version: u64| (56, version);
    for (at, value) in [
        last(largest),
        last(largest - 1),
        last(largest - (1 << 20)),
        (40, u64::MAX),
        (40, u64::MAX - 1),
        (48, u64::MAX),
    ] {
        let mut forge = Forge::new(512);
        forge.change_anchors(|anchor| {
            // The other one is older.
            let sequence = u64::from_le_bytes(*anchor[40..].first_chunk().unwrap());
            if at != 40 || sequence % 2 == value % 2 {
                anchor[at..at + 8].copy_from_slice(&value.to_le_bytes());
            }
        });
        let tree = forge.tree;
        let memory = common::Memory::of(forge.bytes.clone());
        let Ok(db) = memory.open(Options::default()) else { continue };
        let _ = (0..3).map(|n| fill(&db, tree, n..n + 1)).collect::<Vec<_>>();
        drop(db);
        // It can be opened as before.
        let db = memory.open(Options::default()).unwrap();
        let _ = fill(&db, tree, 0..1);
        drop(db);
        memory.open(Options::default()).unwrap();
    }
}

#[test]
fn a_history_whose_pages_are_reached_by_many_ways_is_looked_at_once() {
    let mut forge = Forge::new(512);
    let (tree, root, records_root) = (forge.tree, forge.root, forge.records_root);
    let retained = {
        // 1,000 versions, from 1 on, with their marks in page 9.
        let mut entry = vec![1];
        entry.extend_from_slice(&1000_u64.to_le_bytes());
        entry.extend_from_slice(&1_u64.to_le_bytes()[..6]);
        entry.extend_from_slice(&9_u64.to_le_bytes()[..6]);
        let mut cell = leaf_cell(0, &entry);
        cell[7] = 7;
        cell
    };
    put_catalog_with(&mut forge, vec![retained], 5, 18, [root, records_root]);
    forge.put_all(9, u32::MAX, 0, &[]);
    for level in 0..8_u64 {
        let no = if level == 7 { root } else { 10 + level };
        let cells: Vec<Vec<u8>> = (0..20)
            .map(|n| if level == 0 { leaf_cell(n, b"x") } else { child_cell(n, 9 + level) })
            .collect();
        forge.put_all(no, tree.0, level as u8, &cells);
    }
    let reads = in_time(move || {
        let db = forge.open();
        let _ = db.history();
        let _ = db.reclaim();
        let report = db.check(None).unwrap();
        assert!(!report.faults.is_empty());
        db.counters().reads.load(Relaxed)
    });
    assert!(reads < 200, "{reads}");
}

#[test]
fn a_scan_of_pages_that_are_reached_by_many_ways_ends() {
    let mut forge = Forge::new(512);
    let (tree, root) = (forge.tree, forge.root);
    for level in 0..12_u64 {
        let no = if level == 11 { root } else { 8 + level };
        let cells: Vec<Vec<u8>> = (0..20)
            .map(|n| if level == 0 { leaf_cell(n, b"x") } else { child_cell(n, 7 + level) })
            .collect();
        forge.put_all(no, tree.0, level as u8, &cells);
    }
    for is_forward in [true, false] {
        let db = forge.open();
        let outcome = in_time(move || -> Result<()> {
            let reader = db.begin_read().unwrap();
            let mut cursor = reader.cursor(tree)?;
            match is_forward {
                true => cursor.first(reader.source())?,
                false => cursor.last(reader.source())?,
            }
            while cursor.is_on_cell() {
                match is_forward {
                    true => cursor.next(reader.source())?,
                    false => cursor.previous(reader.source())?,
                }
            }
            Ok(())
        });
        assert!(matches!(outcome, Err(Error::ReachedTwice { .. })), "{outcome:?}");
    }
}

#[test]
fn a_cursor_that_goes_forth_and_back_does_so_for_ever() {
    let mut forge = Forge::new(512);
    let (tree, root) = (forge.tree, forge.root);
    forge.put_all(root, tree.0, 1, &[child_cell(0, 10), child_cell(1, 11)]);
    forge.put_all(10, tree.0, 0, &[leaf_cell(0, b"x")]);
    forge.put_all(11, tree.0, 0, &[leaf_cell(1, b"x")]);
    let db = forge.open();
    let reader = db.begin_read().unwrap();
    let mut cursor = reader.cursor(tree).unwrap();
    cursor.first(reader.source()).unwrap();
    for _ in 0..10_000 {
        cursor.next(reader.source()).unwrap();
        assert_eq!(cursor.integer_key(reader.source()).unwrap(), Some(1));
        cursor.previous(reader.source()).unwrap();
        assert_eq!(cursor.integer_key(reader.source()).unwrap(), Some(0));
    }
}

#[test]
fn long_payloads_that_share_their_pages_are_not_freed_twice() {
    let local = (512 - 80) / 8;
    let length = local as u64 + 400;
    for is_committed in [false, true] {
        let mut forge = Forge::new(512);
        let (tree, root) = (forge.tree, forge.root);
        forge.put_all(root, tree.0, 0, &[1, 2].map(|key| long_cell(key, length, local, 10)));
        forge.put_overflow(10, tree.0, &[7; 400], 0);
        // No page is free.
        forge.change_anchors(|anchor| anchor[2128] = 0);
        let db = forge.open();
        let mut txn = db.begin_write().unwrap();
        assert!(txn.delete(tree, 1).unwrap());
        if is_committed {
            txn.commit().unwrap();
            txn = db.begin_write().unwrap();
        }
        let second = txn.delete(tree, 2);
        assert!(matches!(second, Err(Error::ReachedTwice { page: PageNo(10) })), "{second:?}");
        assert!(matches!(txn.commit(), Err(Error::HalfDone)));
    }
}

#[test]
fn a_check_walks_a_chain_that_many_share_once() {
    let mut forge = Forge::new(512);
    let (tree, root) = (forge.tree, forge.root);
    let (local, chain) = ((512 - 80) / 8, 90);
    let length = local as u64 + chain * 400;
    forge.put_all(root, tree.0, 0, &[1, 2, 3, 4, 5].map(|key| long_cell(key, length, local, 10)));
    for no in 10..10 + chain {
        forge.put_overflow(no, tree.0, &[7; 400], if no == 9 + chain { 0 } else { no + 1 });
    }
    let db = forge.open();
    let before = db.counters().reads.load(Relaxed);
    let report = db.check(None).unwrap();
    let reads = db.counters().reads.load(Relaxed) - before;
    assert!(!report.faults.is_empty() && reads < 120, "{reads} {:?}", report.faults);
}
