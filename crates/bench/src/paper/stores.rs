//! Experiments with keys and values, without SQL: ours beside stock SQLite with one table.

use std::fmt::Display;

use super::measure::{PaperError, PaperPlan, Whole};
use super::measured::{MeasuredExperiment, MeasuredMode, Missing};
use super::{Experiment, How};
use crate::kv::{
    self, Crashes, Engine, KvError, Measured, Slice, Subject, SubjectError, Task, Work,
};
use crate::report::{Figures, FloorFigures, median};
use oneflush_measure::environment::{self, Environment};
use oneflush_measure::floor::{self, Floor};
use oneflush_measure::observe::Observer;
use oneflush_measure::place::Place;
use oneflush_measure::run::{FLOOR_WRITES, Progress};

/// For pages, of each store. Ours reads past the kernel's page cache, and SQLite through it.
const MEMORY_BYTES: u64 = 256 << 20;

/// Those that this version has, and the others.
pub fn split(words: Vec<&'static str>) -> (Vec<&'static str>, Vec<Missing>) {
    let (mut known, mut missing) = (Vec::new(), Vec::new());
    for word in words {
        match word.parse::<Subject>() {
            Ok(_) => known.push(word),
            Err(error) => missing.push(Missing { mode: word, why: error.to_string() }),
        }
    }
    (known, missing)
}

pub fn measure(
    plan: &PaperPlan,
    experiment: &'static Experiment,
    work: Work,
    words: &[&'static str],
    mut found: MeasuredExperiment,
    progress: &mut Whole<'_>,
) -> Result<(Option<Environment>, MeasuredExperiment), PaperError> {
    let failed = |source| PaperError::Stores { what: experiment.what, source };
    // What cannot run was told before.
    let choice = plan.place_of(experiment).unwrap_or_else(|_| plan.place.clone());
    let place = choice.make().map_err(|error| failed(error.into()))?;
    let environment = environment::collect(&place);
    let (floor, rounds) =
        rounds(plan, experiment, work, words, &place, progress).map_err(failed)?;
    place.close().map_err(|error| failed(error.into()))?;
    for (at, &word) in words.iter().enumerate() {
        let of_word: Vec<&Measured> = rounds.iter().map(|round| &round[at]).collect();
        let figures: Vec<Figures> = of_word.iter().map(|one| Figures::of(&one.slice)).collect();
        let pages: Vec<f64> = of_word.iter().filter_map(|one| pages_each(one)).collect();
        found.modes.push(MeasuredMode {
            word,
            guest: None,
            mode: word.to_owned(),
            median: Figures::median(&figures),
            rounds: figures,
            pages_per_transaction: (!pages.is_empty()).then(|| median(pages)),
            commits: None,
            transactions: None,
            writes: None,
        });
    }
    found.floor = Some(FloorFigures::of(&floor));
    Ok((Some(environment), found))
}

fn pages_each(measured: &Measured) -> Option<f64> {
    Some(measured.pages? as f64 / measured.slice.transactions.max(1) as f64)
}

/// Each round has one entry a word, in their order.
fn rounds(
    plan: &PaperPlan,
    experiment: &Experiment,
    work: Work,
    words: &[&'static str],
    place: &Place,
    progress: &mut Whole<'_>,
) -> Result<(Floor, Vec<Vec<Measured>>), KvError> {
    let is_recovery = matches!(work.task, Task::Recover { .. });
    // Recoveries have what each takes by default.
    let memory = (!is_recovery).then_some(MEMORY_BYTES);
    let engines = words.iter().map(|word| engine(word, memory));
    let engines = engines.collect::<Result<Vec<_>, KvError>>()?;
    let engines: Vec<&dyn Crashes> = engines.iter().map(|engine| &**engine).collect();
    let mut observer = place.is_alone().then(|| Observer::new(place)).transpose()?;
    let transactions = plan.operations.unwrap_or(experiment.operations);
    let mut floor = Floor::default();
    let mut rounds = Vec::new();
    let count = words.len();
    for round in 0..plan.rounds {
        let mut tell = |turn: usize, what: &dyn Display| {
            progress.slice(round * count as u32 + turn as u32 + 1, 0, round + 1, what);
        };
        let of_round = if is_recovery {
            tell(0, &"in turns");
            let slices = kv::recoveries(&engines, work, transactions, place.path())?;
            slices.into_iter().map(|slice| Measured { slice, pages: None }).collect()
        } else if experiment.how == How::Turns {
            tell(0, &"in turns");
            let engines: Vec<_> = engines.iter().map(|engine| *engine as &dyn Engine).collect();
            let (of_round, measured) = kv::in_turns(&engines, work, transactions, place.path())?;
            floor.merge(&of_round);
            measured
        } else {
            // Another one begins each round.
            let first = round as usize % count.max(1);
            let mut measured = Vec::new();
            for turn in 0..count {
                let at = (turn + first) % count;
                tell(turn, &words[at]);
                floor.merge(&floor::measure(place.path(), FLOOR_WRITES)?);
                let (engine, observer, place) = (engines[at], observer.as_mut(), place.path());
                let slice = Slice { engine, work, transactions, place, observer };
                measured.push(slice.measure()?);
            }
            measured.rotate_right(first);
            measured
        };
        rounds.push(of_round);
    }
    Ok((floor, rounds))
}

fn engine(word: &str, memory: Option<u64>) -> Result<Box<dyn Crashes>, KvError> {
    let subject: Subject = word.parse().map_err(|source: SubjectError| KvError::Wrong {
        subject: word.to_owned(),
        what: source.to_string(),
    })?;
    Ok(subject.engine(word, memory))
}
