//! What a transaction writes (paper, figure 6b).

use std::sync::atomic::Ordering::Relaxed;

use oneflush_mvbt::{Options, Read};

use crate::common::Memory;

/// Pages, commit blocks and flushes an insert of 100 bytes, each in a transaction.
fn of_inserts(rows: u64, inserts: u64, options: Options, key: impl Fn(u64) -> i64) -> [f64; 3] {
    let memory = Memory::default();
    let db = memory.create(options).unwrap();
    let mut txn = db.begin_write().unwrap();
    let tree = txn.create_tree(false).unwrap();
    for row in 0..rows {
        txn.insert(tree, key(row), &[7; 100]).unwrap();
    }
    txn.commit().unwrap();
    let counters = db.counters();
    let counts = || {
        [&counters.pages, &counters.blocks, &counters.flushes].map(|counter| counter.load(Relaxed))
    };
    let before = counts();
    for row in rows..rows + inserts {
        let mut txn = db.begin_write().unwrap();
        txn.insert(tree, key(row), &[7; 100]).unwrap();
        txn.commit().unwrap();
    }
    let after = counts();
    let reader = db.begin_read().unwrap();
    assert_eq!(reader.get(tree, key(rows)).unwrap(), Some(vec![7; 100]));
    std::array::from_fn(|index| (after[index] - before[index]) as f64 / inserts as f64)
}

/// Each number below 2^20 once, in an order of its own.
fn shuffled(number: u64) -> i64 {
    (number.wrapping_mul(0x9e37_79b1) % (1 << 20)) as i64
}

#[test]
fn an_insert_writes_little_more_than_one_page() {
    // The first inserts behind a large transaction are in pages that it has filled.
    for (rows, inserts) in [(2_000, 20_000), (100_000, 4_000), (100_000, 20_000)] {
        let sequential = of_inserts(rows, inserts, Options::default(), |row| row as i64);
        let random = of_inserts(rows, inserts, Options::default(), shuffled);
        println!("{rows} rows: sequential {sequential:?}, random {random:?}");
        assert!(sequential[0] + sequential[1] <= 1.10, "{sequential:?}");
        assert!(random[0] + random[1] <= 1.15, "{random:?}");
        assert!(sequential[2] <= 1.01 && random[2] <= 1.01, "{sequential:?} {random:?}");
    }
}

/// Figure 12: what each element saves. Pages, blocks and anchors an insert.
#[test]
fn each_element_of_the_paper_saves_writes() {
    let with = |lazy_split: bool, metadata_embedding: bool| {
        let mut options = Options::default();
        options.lazy_split = lazy_split;
        options.metadata_embedding = metadata_embedding;
        let [pages, blocks, _] = of_inserts(2_000, 5_000, options, shuffled);
        pages + blocks
    };
    let bars = [with(false, false), with(false, true), with(true, false), with(true, true)];
    println!("MVBT, metadata embedding, lazy split, LS-MVBT: {bars:?}");
    let [mvbt, embedding, lazy, both] = bars;
    assert!(mvbt > embedding + 0.9 && lazy > both + 0.9, "the anchor is not written: {bars:?}");
    assert!(mvbt > lazy && embedding > both, "a split dirties less: {bars:?}");
}

/// Figure 11, and section 5.1: what the paper leaves out. Redistribution costs writes where pages
/// hold many rows, and saves splits where they hold few.
#[test]
fn what_the_paper_leaves_out_changes_what_is_written() {
    for page_bytes in [512, 1024, 4096, 8192] {
        let with = |redistribution: bool, lazy_collection: bool| {
            let mut options = Options::default();
            options.page_bytes = page_bytes;
            options.redistribution = redistribution;
            options.lazy_collection = lazy_collection;
            let [pages, blocks, _] = of_inserts(500, 2_000, options, shuffled);
            pages + blocks
        };
        let (plain, redistribution, eager) =
            (with(false, true), with(true, true), with(false, false));
        println!("{page_bytes}: {plain}, redistribution {redistribution}, eager {eager}");
        assert!((redistribution - plain).abs() > 0.001, "{page_bytes}: {redistribution} {plain}");
        assert!(eager > plain, "{page_bytes}: {eager} {plain}");
    }
}
