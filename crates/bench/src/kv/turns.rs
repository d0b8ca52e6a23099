//! All engines in turns with the floor. Their stores are open at the same time, and each does some
//! transactions before the next. So a noisy machine hits all alike, and their medians compare.

use std::fs;
use std::path::Path;

use super::slice::{Counting, Measured, filled, sync};
use super::work::{Steps, Work};
use super::{Engine, KvError, Store};
use oneflush_measure::floor::{Floor, FloorFile};
use oneflush_measure::interrupt;

/// So many transactions are one turn, or overwrites of the floor.
const TURN: u32 = 20;

struct Member<'a> {
    engine: &'a dyn Engine,
    store: Box<dyn Store>,
    steps: Steps,
    counting: Counting,
}

/// The results of the engines in their order, and the floor.
pub fn in_turns(
    engines: &[&dyn Engine],
    work: Work,
    transactions: u64,
    place: &Path,
) -> Result<(Floor, Vec<Measured>), KvError> {
    let mut floor = FloorFile::new(place)?;
    let mut members = Vec::new();
    for (at, &engine) in engines.iter().enumerate() {
        let store = filled(engine, work, &place.join(format!("store{at}")))?;
        let counting = Counting::new(&*store);
        members.push(Member { engine, store, steps: work.steps(), counting });
    }
    sync(place).map_err(|source| KvError::Files { subject: "all engines".to_owned(), source })?;
    let mut order: Vec<usize> = (0..=members.len()).collect();
    let mut random = fastrand::Rng::with_seed(0);
    while members.iter().any(|member| member.counting.transactions < transactions) {
        random.shuffle(&mut order);
        for &at in &order {
            if interrupt::requested() {
                return Err(KvError::Interrupted);
            }
            match members.get_mut(at) {
                Some(member) => member.turn()?,
                None => floor.overwrite(TURN)?,
            }
        }
    }
    let mut results = Vec::new();
    for (at, Member { engine, store, counting, .. }) in members.into_iter().enumerate() {
        results.push(counting.finish(&*store));
        drop(store);
        fs::remove_dir_all(place.join(format!("store{at}")))
            .map_err(|source| KvError::files(engine, source))?;
    }
    Ok((floor.finish(), results))
}

impl Member<'_> {
    fn turn(&mut self) -> Result<(), KvError> {
        for _ in 0..TURN {
            self.counting
                .step(&mut *self.store, &mut self.steps)
                .map_err(|source| KvError::store(self.engine, source))?;
        }
        Ok(())
    }
}
