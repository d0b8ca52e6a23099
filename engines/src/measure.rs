//! What is measured of each engine.
//!
//! A *life* is one table: filled, closed, read, updated, closed. Its space is told at each closing.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use oneflush_bench::kv::{
    self, Change, Counting, Engine, Keys, KvError, Slice, Steps, Store, StoreError, Task, Work,
};
use oneflush_bench::report::Figures;
use oneflush_measure::environment::{self, Environment};
use oneflush_measure::interrupt;
use oneflush_measure::observe::Observer;
use oneflush_measure::place::Place;
use oneflush_measure::run::PlaceChoice;

use crate::{Options, engine};

const VALUE_BYTES: usize = 100;
/// Rows in the table that durable transactions insert into.
const ROWS_BEFORE: u64 = 100_000;
/// Rows of a transaction that fills or updates a table.
const BATCH_ROWS: u64 = 100_000;
/// Another order of rows than the one they were inserted in: a prime.
const STRIDE: u64 = 611_953;
const SCANS: u64 = 3;

pub struct Found {
    pub environment: Environment,
    pub floor_p50_ns: u64,
    pub engines: Vec<OfEngine>,
}

pub struct OfEngine {
    pub name: String,
    /// A durable insert each.
    pub rising: Figures,
    pub random: Figures,
    /// In turns with the others and the floor, random keys.
    pub in_turns: Figures,
    pub life: Life,
}

pub struct Life {
    pub fill_seconds: f64,
    pub inserted_bytes: u64,
    pub gets_per_s: f64,
    pub rows_scanned_per_s: f64,
    pub update_seconds: f64,
    pub updated_bytes: u64,
}

pub fn measure(options: &Options, place: &PlaceChoice) -> Result<Found, StoreError> {
    let place = place.make()?;
    let environment = environment::collect(&place);
    let mut observer = place.is_alone().then(|| Observer::new(&place)).transpose()?;
    let engines = engine::all();
    let mut inserts = |engine: &dyn Engine, keys| {
        let mut rounds = Vec::new();
        for _ in 0..options.rounds {
            let (place, observer) = (place.path(), observer.as_mut());
            let (work, transactions) = (insert(keys), options.txns);
            let slice = Slice { engine, work, transactions, place, observer };
            rounds.push(Figures::of(&slice.measure()?.slice));
        }
        Ok::<Figures, KvError>(Figures::median(&rounds))
    };
    let mut costs = Vec::new();
    for engine in &engines {
        eprintln!("durable inserts: {}", engine.name());
        costs.push([inserts(&**engine, Keys::Sequential)?, inserts(&**engine, Keys::Random)?]);
    }
    eprintln!("durable inserts in turns");
    let borrowed: Vec<&dyn Engine> = engines.iter().map(|engine| &**engine).collect();
    let work = insert(Keys::Random);
    let (floor, turns) = kv::in_turns(&borrowed, work, options.txns, place.path())?;
    let mut found = Vec::new();
    for ((engine, [rising, random]), turns) in engines.iter().zip(costs).zip(turns) {
        eprintln!("reads and space: {}", engine.name());
        let life = life(&**engine, options.rows, &place)?;
        let in_turns = Figures::of(&turns.slice);
        found.push(OfEngine { name: engine.name(), rising, random, in_turns, life });
    }
    drop(observer);
    place.close()?;
    Ok(Found { environment, floor_p50_ns: floor.median_ns(), engines: found })
}

fn insert(keys: Keys) -> Work {
    Work { rows: ROWS_BEFORE, keys, value_bytes: VALUE_BYTES, task: Task::Insert }
}

fn life(engine: &dyn Engine, rows: u64, place: &Place) -> Result<Life, StoreError> {
    let directory = place.path().join("life");
    fs::create_dir(&directory)?;
    let mut store = engine.create(&directory)?;
    let work = |task| Work { rows, keys: Keys::Random, value_bytes: VALUE_BYTES, task };
    let fill_seconds = batches(&mut *store, rows, |row| row)?;
    store.close()?;
    let inserted_bytes = space_bytes(&directory)?;
    let mut store = engine.open(&directory)?;
    // What is read comes into memory.
    store.scan()?;
    let gets = steps(&mut *store, work(Task::Get).steps(), rows)?;
    let scans = steps(&mut *store, work(Task::Scan).steps(), rows * SCANS)?;
    let update_seconds = batches(&mut *store, rows, |row| row * STRIDE % rows)?;
    store.close()?;
    let updated_bytes = space_bytes(&directory)?;
    fs::remove_dir_all(&directory)?;
    Ok(Life {
        fill_seconds,
        inserted_bytes,
        gets_per_s: gets,
        rows_scanned_per_s: scans,
        update_seconds,
        updated_bytes,
    })
}

/// Puts every row once, many in a transaction; answers how many seconds that took.
fn batches(
    store: &mut dyn Store,
    rows: u64,
    order: impl Fn(u64) -> u64,
) -> Result<f64, StoreError> {
    let begun = std::time::Instant::now();
    for from in (0..rows).step_by(BATCH_ROWS as usize) {
        if interrupt::requested() {
            return Err(KvError::Interrupted.into());
        }
        let put = |row| Change::Put(Keys::Random.of(order(row)));
        let changes: Vec<Change> = (from..(from + BATCH_ROWS).min(rows)).map(put).collect();
        let mut value = [7; VALUE_BYTES];
        value[..8].copy_from_slice(&from.to_le_bytes());
        store.commit(&changes, &value)?;
    }
    Ok(begun.elapsed().as_secs_f64())
}

/// So many transactions; answers how many a second.
fn steps(store: &mut dyn Store, mut steps: Steps, count: u64) -> Result<f64, StoreError> {
    let mut counting = Counting::new(store);
    while counting.transactions < count {
        if interrupt::requested() {
            return Err(KvError::Interrupted.into());
        }
        counting.step(store, &mut steps)?;
    }
    Ok(Figures::of(&counting.result()).transactions_per_s)
}

/// What the files of a directory take on the disk.
fn space_bytes(directory: &Path) -> io::Result<u64> {
    const BLOCK_BYTES: u64 = 512;
    let mut bytes = 0;
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        bytes += if metadata.is_dir() {
            space_bytes(&entry.path())?
        } else {
            metadata.blocks() * BLOCK_BYTES
        };
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn updates_meet_every_row_once() {
        for rows in [1000, 10_000] {
            let met: BTreeSet<u64> = (0..rows).map(|row| row * STRIDE % rows).collect();
            assert_eq!(met.len() as u64, rows);
        }
    }

    #[test]
    fn a_life_is_measured_of_each_engine() {
        for engine in engine::all() {
            let place = Place::temporary().unwrap();
            let life = life(&*engine, 1000, &place).unwrap();
            assert!(life.inserted_bytes >= 1000 * VALUE_BYTES as u64, "{}", engine.name());
            assert!(life.gets_per_s > 0.0 && life.rows_scanned_per_s > 0.0);
        }
    }
}
