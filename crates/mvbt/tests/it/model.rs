//! Random operations beside ordered maps, one a version.

use std::sync::atomic::Ordering::Relaxed;

use oneflush_mvbt::{ReadTransaction, Version};

use crate::common::Memory;
use crate::common::model::{Model, STEPS, check, check_reader, drawn_options, sound, transaction};

fn run(seed: u64, transactions: usize) {
    let mut rng = fastrand::Rng::with_seed(seed);
    let options = drawn_options(&mut rng);
    let spills = options.spill_bytes < 1 << 30;
    // Of old readers: gone, and found as they were.
    let mut looks = [0, 0];
    let memory = Memory::default();
    let mut db = memory.create(options.clone()).unwrap();
    let mut model = Model::default();
    for round in 0..5 {
        let mut readers: Vec<(ReadTransaction, Model)> = Vec::new();
        for number in 0..transactions / 5 {
            if rng.u8(..12) == 0 {
                readers.push((db.begin_read().unwrap(), model.clone()));
            }
            transaction(&mut rng, &db, &mut model, &mut false, spills).unwrap();
            if rng.u8(..10) == 0 {
                let about = format!("seed {seed}, round {round}, transaction {number}");
                check(&db.begin_read().unwrap(), &model, &about);
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
        let about = format!("seed {seed}, round {round}");
        let lost = sound(&db, &about);
        assert!(lost == 0 || round > 0, "{about}: {lost} pages are lost");
        if rng.bool() {
            assert_eq!(db.reclaim().unwrap(), lost as u64);
            assert_eq!(sound(&db, &about), 0, "{about}");
        }
        match rng.u8(..3) {
            0 => db.close().unwrap(),
            // The process ends without a close.
            _ => drop(db),
        }
        db = memory.open(options.clone()).unwrap();
        check(&db.begin_read().unwrap(), &model, &format!("seed {seed}, after an open"));
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
    println!("{} operations", STEPS.load(Relaxed));
}
