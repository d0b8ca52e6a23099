//! The power fails at any write or flush, also in recoveries. Sectors in flight are there or not.

use oneflush_mvbt::{Database, Options, Read};

use crate::common::model::{Model, check, drawn_options, transaction};
use crate::common::{self, Memory};

/// Opens what is left, with power failures on the way.
fn open_at_last(
    rng: &mut fastrand::Rng,
    mut memory: Memory,
    options: &Options,
) -> (Memory, Database) {
    loop {
        let fails = rng.u8(..3) == 0;
        if fails {
            memory.fail_after(rng.usize(..4));
        }
        let opened = memory.open(options.clone()).and_then(|db| {
            // The first transaction writes the anchor.
            db.begin_write()?.rollback()?;
            Ok(db)
        });
        match opened {
            Ok(db) => return (memory, db),
            Err(_) if fails => memory = lose_power(rng, &memory),
            Err(error) => panic!("{error}"),
        }
    }
}

fn lose_power(rng: &mut fastrand::Rng, memory: &Memory) -> Memory {
    let kept = rng.choice([0, 10, 50, 90, 100]).unwrap();
    memory.crash(|| rng.u8(..100) < kept)
}

fn run(seed: u64, crashes: usize) {
    let mut rng = fastrand::Rng::with_seed(seed);
    let options = drawn_options(&mut rng);
    let mut memory = Memory::default();
    let mut db = memory.create(options.clone()).unwrap();
    let mut model = Model::default();
    for crash in 0..crashes {
        memory.fail_after(rng.usize(..60));
        let (before, after) = loop {
            let before = model.clone();
            let mut is_committing = false;
            match transaction(&mut rng, &db, &mut model, &mut is_committing, true) {
                Ok(()) => {}
                Err(_) if is_committing => break (before, Some(model)),
                Err(_) => break (before, None),
            }
        };
        drop(db);
        let left = lose_power(&mut rng, &memory);
        (memory, db) = open_at_last(&mut rng, left, &options);
        let found = db.begin_read().unwrap();
        let about = format!("seed {seed}, crash {crash}, {options:?}");
        model = match after {
            Some(after) if common::model::is_as(&found, &after) => after,
            _ => before,
        };
        check(&found, &model, &about);
        drop(found);
        common::model::sound(&db, &about);
        if rng.u8(..3) == 0 {
            db.reclaim().unwrap();
        }
    }
}

#[test]
fn after_a_loss_of_power_the_last_transaction_is_whole_or_not_there() {
    let seeds = std::env::var("ONEFLUSH_TEST_SEEDS").ok().and_then(|seeds| seeds.parse().ok());
    for seed in 0..seeds.unwrap_or(60) {
        run(seed, 40);
    }
}

/// I15: what is void is in memory until somebody writes, and in the file from then on.
#[test]
fn an_opening_after_a_crash_writes_nothing_before_the_first_transaction_does() {
    let memory = Memory::default();
    let mut options = Options::default();
    options.spill_bytes = 0;
    let db = memory.create(options.clone()).unwrap();
    let mut txn = db.begin_write().unwrap();
    let tree = txn.create_tree(false).unwrap();
    for key in 0..100 {
        txn.insert(tree, key, &[1; 100]).unwrap();
    }
    txn.commit().unwrap();
    let mut txn = db.begin_write().unwrap();
    for key in 100..500 {
        txn.insert(tree, key, &[2; 100]).unwrap();
    }
    let left = Memory::of(memory.bytes());
    txn.rollback().unwrap();
    let before = left.bytes();
    for _ in 0..2 {
        let db = left.open(options.clone()).unwrap();
        assert_eq!(db.begin_read().unwrap().count(tree).unwrap(), 100);
        assert_eq!(db.begin_read().unwrap().get(tree, 100).unwrap(), None);
        drop(db);
        assert!(left.bytes() == before, "the opening has written");
    }
    let db = left.open(options.clone()).unwrap();
    let reader = db.begin_read().unwrap();
    let mut txn = db.begin_write().unwrap();
    assert_eq!(txn.count(tree).unwrap(), 100);
    txn.insert(tree, 7, &[3; 100]).unwrap();
    txn.commit().unwrap();
    assert_eq!(reader.get(tree, 7).unwrap().unwrap(), [1; 100]);
    drop(reader);
    common::model::sound(&db, "after the first transaction");
    drop(db);
    let db = left.open(options).unwrap();
    let reader = db.begin_read().unwrap();
    assert_eq!((reader.count(tree).unwrap(), reader.get(tree, 100).unwrap()), (100, None));
    assert_eq!(reader.get(tree, 7).unwrap().unwrap(), [3; 100]);
}
