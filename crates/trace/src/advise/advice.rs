//! One row a strategy for each database, and for all together.

use serde::Serialize;

use super::calibration::Calibration;
use super::choose::{self, Step};
use super::collect::{Load, Loads};
use super::cost::Cost;
use super::crowd::{self, Shares};
use super::estimate::{Estimate, Extent, InRecording, NotEstimated, Parts, Row, Strategy};
use super::steady::{self, Next};
use super::wal::Form;
use super::{eager, maw, tick, wal};
use crate::identify::{JournalMode, Synchronous};

const KB: f64 = 1024.0;
const DAY_SECONDS: f64 = 86_400.0;

#[derive(Clone, Debug, Serialize)]
pub struct DatabaseAdvice {
    pub database: String,
    /// The strategy that it was recorded with, if that shows. SQLite alone does not.
    pub recorded: Option<Strategy>,
    /// "PERSIST FULL", the most frequent first.
    pub modes: Vec<String>,
    pub transactions: u64,
    pub transactions_per_second: f64,
    pub page_bytes: u64,
    /// False: taken to be SQLite's default.
    pub page_bytes_known: bool,
    /// Threads and processes that commit.
    pub threads: u64,
    pub processes: u64,
    pub rows: Vec<Row>,
    /// What limits the estimate.
    pub notes: Vec<String>,
    /// The strategies in the order in which they fit.
    pub order: Vec<Step>,
}

#[derive(Clone, Debug, Serialize)]
pub struct Advice {
    pub seconds: f64,
    pub transactions: u64,
    /// Figures of devices; else those of system calls, with syncs in place of flushes.
    pub is_of_device: bool,
    pub databases: Vec<DatabaseAdvice>,
    /// All databases together. One without an estimate counts as recorded.
    pub total: Vec<Row>,
}

impl Advice {
    /// `delta_bytes`: how many bytes change in a page that a transaction changes, if that is known.
    pub fn new(loads: &Loads, delta_bytes: Option<f64>) -> Advice {
        let mut calibration = Calibration::get().clone();
        if let Some(bytes) = delta_bytes {
            calibration.delta_bytes = [bytes; 3];
        }
        Advice::calibrated(loads, &calibration)
    }

    /// By other numbers than those of the table.
    pub fn calibrated(loads: &Loads, calibration: &Calibration) -> Advice {
        let databases: Vec<DatabaseAdvice> =
            loads.databases.iter().map(|load| database(load, loads, calibration)).collect();
        let transactions = databases.iter().map(|database| database.transactions).sum();
        let total = Strategy::ALL
            .into_iter()
            .map(|strategy| total(strategy, &databases, transactions))
            .collect();
        Advice {
            seconds: loads.seconds,
            transactions,
            is_of_device: !loads.is_of_calls,
            databases,
            total,
        }
    }
}

fn total(strategy: Strategy, databases: &[DatabaseAdvice], transactions: u64) -> Row {
    let mut sum = Estimate::default();
    let mut some = false;
    for database in databases {
        let own = database.rows.iter().find(|row| row.strategy == strategy);
        let own = own.and_then(|row| row.estimate);
        some |= own.is_some();
        let Some(estimate) = own.or(database.rows[0].estimate) else { continue };
        let share = database.transactions as f64 / transactions as f64;
        sum.kb = sum.kb.plus(estimate.kb.times(share));
        sum.flushes = sum.flushes.plus(estimate.flushes.times(share));
        sum.gb_per_day = sum.gb_per_day.plus(estimate.gb_per_day);
        sum.flushes_per_day = sum.flushes_per_day.plus(estimate.flushes_per_day);
        sum.once_kb += estimate.once_kb;
        sum.once_flushes += estimate.once_flushes;
        sum.left_kb += estimate.left_kb;
        let own = estimate.in_recording;
        sum.in_recording.kb = sum.in_recording.kb.plus(own.kb.times(share));
        sum.in_recording.flushes = sum.in_recording.flushes.plus(own.flushes.times(share));
    }
    let first = databases.first().and_then(|database| {
        database.rows.iter().find(|row| row.strategy == strategy)?.not_estimated
    });
    Row {
        strategy,
        estimate: some.then_some(sum),
        not_estimated: if some { None } else { first.or(Some(NotEstimated::NoCommit)) },
    }
}

fn database(load: &Load, loads: &Loads, calibration: &Calibration) -> DatabaseAdvice {
    let facts = choose::Facts::of(load);
    let rows: Vec<Row> = Strategy::ALL
        .into_iter()
        .map(|strategy| row(load, strategy, loads, &facts, calibration))
        .collect();
    let mut modes: Vec<_> = load.modes.iter().collect();
    modes.sort_by_key(|&(_, count)| std::cmp::Reverse(*count));
    DatabaseAdvice {
        database: load.database.clone(),
        recorded: facts.recorded,
        modes: modes
            .iter()
            .map(|((mode, synchronous), _)| format!("{mode} {synchronous}"))
            .collect(),
        transactions: load.transactions,
        transactions_per_second: rate(load.transactions as f64, loads.seconds),
        page_bytes: load.page_bytes,
        page_bytes_known: load.is_page_known,
        threads: facts.threads,
        processes: facts.processes,
        notes: notes(load, loads, &rows),
        order: choose::order(&facts, &rows),
        rows,
    }
}

/// Not a number if the seconds are not known.
fn rate(count: f64, seconds: f64) -> f64 {
    if seconds == 0.0 { 0.0 } else { count / seconds }
}

fn row(
    load: &Load,
    strategy: Strategy,
    loads: &Loads,
    facts: &choose::Facts,
    calibration: &Calibration,
) -> Row {
    let seconds = loads.seconds;
    let not = |why| Row { strategy, estimate: None, not_estimated: Some(why) };
    if strategy == Strategy::Stock {
        let mut cost = Cost {
            commit_bytes: load.recorded_bytes as f64,
            flushes: load.recorded_flushes as f64,
            ..Cost::default()
        };
        if facts.is_wal && !loads.is_of_calls {
            cost += tick::ticks(&load.commits, calibration);
        }
        let recorded = estimate(load, [cost; 3], [(cost, 1); 3], seconds);
        let estimate = Estimate { kb_parts: None, ..recorded };
        return Row { strategy, estimate: Some(estimate), not_estimated: None };
    }
    if load.commits.is_empty() {
        return not(match facts {
            choose::Facts { is_own_log: true, .. } => NotEstimated::OwnLog,
            choose::Facts { is_lsmvbt: true, .. } => NotEstimated::Lsmvbt,
            _ => NotEstimated::NoCommit,
        });
    }
    match strategy {
        Strategy::Waldio | Strategy::Eager if !facts.is_durable => {
            return not(NotEstimated::NotDurable);
        }
        Strategy::Maw if !facts.is_rollback => return not(NotEstimated::WalMode),
        _ => {}
    }
    const NEXT: [Next; 3] = [Next::Same, Next::Likely, Next::New];
    let once =
        [0, 1, 2].map(|at| cost(&steady::once(load, NEXT[at]), strategy, at, true, calibration));
    let continued = [0, 1, 2].map(|at| {
        let known_seconds = if seconds.is_nan() { 0.0 } else { seconds };
        let (load, stretches) = steady::continued(load, known_seconds, NEXT[at]);
        (cost(&load, strategy, at, false, calibration), stretches)
    });
    let estimate = estimate(load, once, continued, seconds);
    Row { strategy, estimate: Some(estimate), not_estimated: None }
}

/// `at`: 0 as little as can be, 1 as expected, 2 as much as can be. `is_new`: nothing was written
/// before.
fn cost(
    load: &Load,
    strategy: Strategy,
    at: usize,
    is_new: bool,
    calibration: &Calibration,
) -> Cost {
    let crowds = |shares: Shares| match at {
        // As if a faster strategy left nobody waiting.
        2 => vec![1.0; load.commits.len()],
        _ => crowd::crowds(&load.commits, &shares),
    };
    let threads = || crowds(Shares { threads: calibration.threads_share, processes: None });
    let of_page = calibration.of_page(at);
    match strategy {
        Strategy::Stock => Cost::default(),
        Strategy::Plain => {
            let all = Shares { threads: [1.0; 4], processes: Some(calibration.merged_share) };
            let merged = crowds(all);
            let merged = merged.iter().sum::<f64>() / merged.len().max(1) as f64;
            wal::cost(load, &threads(), merged, Form::Wal, !is_new, calibration)
        }
        Strategy::Waldio => wal::cost(load, &threads(), 1.0, Form::Slots, !is_new, calibration),
        Strategy::Eager => {
            let crowds = crowds(Shares {
                threads: calibration.eager_threads_share,
                processes: Some(calibration.eager_processes_share),
            });
            let hurried = crowd::hurried(load, &crowds);
            eager::cost(&hurried, &crowds, of_page, is_new, calibration)
        }
        Strategy::Maw => maw::cost(load, of_page, !is_new, calibration),
    }
}

/// `once`: of the recording alone. `continued`: of so many stretches like it.
fn estimate(load: &Load, once: [Cost; 3], continued: [(Cost, u64); 3], seconds: f64) -> Estimate {
    let count = load.transactions.max(1) as f64;
    let each = |(cost, stretches): (Cost, u64), number: fn(&Cost) -> f64| {
        number(&cost) / stretches as f64 / count
    };
    let kb = Extent::of(continued.map(|cost| each(cost, Cost::bytes) / KB));
    let flushes = Extent::of(continued.map(|cost| each(cost, |cost| cost.flushes)));
    let per_day = rate(count, seconds) * DAY_SECONDS;
    let part = |number: fn(&Cost) -> f64| each(continued[1], number) / KB;
    let whole = |cost: Cost| cost.bytes() + cost.once_bytes + cost.pending_bytes;
    Estimate {
        kb,
        flushes,
        gb_per_day: kb.times(per_day * KB / 1e9),
        flushes_per_day: flushes.times(per_day),
        kb_parts: Some(Parts {
            commits: part(|cost| cost.commit_bytes),
            checkpoints: part(|cost| cost.checkpoint_bytes),
            write_back: part(|cost| cost.image_bytes),
            file_system: part(|cost| cost.fs_bytes),
        }),
        once_kb: continued[1].0.once_bytes / KB,
        once_flushes: continued[1].0.once_flushes,
        left_kb: continued[1].0.pending_bytes / KB,
        in_recording: InRecording {
            kb: Extent::of(once.map(|cost| whole(cost) / KB / count)),
            flushes: Extent::of(once.map(|cost| (cost.flushes + cost.once_flushes) / count)),
        },
    }
}

fn notes(load: &Load, loads: &Loads, rows: &[Row]) -> Vec<String> {
    let mut notes = Vec::new();
    if !load.is_page_known {
        notes.push(format!(
            "the trace does not say how long a page is; {} bytes are assumed (--page-size)",
            load.page_bytes
        ));
    }
    if load.unplaced > 0 && load.unplaced * 2 > load.commits.len() as u64 {
        notes.push(
            "most commits are behind the last checkpoint of the recording, so what checkpoints \
             write is a guess; record for longer"
                .to_owned(),
        );
    }
    if load.joint > 0 {
        notes.push(format!(
            "{} transactions are over several databases; WAL mode commits them one by one",
            load.joint
        ));
    }
    if load.cut > 0 {
        notes.push(format!("of {} very large transactions only a part is known", load.cut));
    }
    if loads.seconds.is_nan() {
        notes.push("the trace has no times, so nothing is said of a day".to_owned());
    }
    if loads.is_of_calls {
        notes.push(
            "of system calls: bytes are those that calls wrote, flushes are syncs, and nothing of \
             the file system counts"
                .to_owned(),
        );
    }
    let is_wide = rows.iter().filter_map(|row| row.estimate).any(|estimate| estimate.kb.is_range());
    if is_wide {
        notes.push(
            "a range is where the trace does not show how many bytes change in a page; --delta \
             says it"
                .to_owned(),
        );
    }
    notes
}

impl choose::Facts {
    fn of(load: &Load) -> choose::Facts {
        let rollback = |mode: JournalMode| {
            matches!(mode, JournalMode::Delete | JournalMode::Truncate | JournalMode::Persist)
        };
        let count = |is: &dyn Fn(JournalMode, Synchronous) -> bool| -> u64 {
            load.modes
                .iter()
                .filter(|((mode, synchronous), _)| is(*mode, *synchronous))
                .map(|(_, count)| count)
                .sum()
        };
        let mut threads: Vec<(u32, u32)> =
            load.commits.iter().map(|commit| (commit.process, commit.thread)).collect();
        threads.sort_unstable();
        threads.dedup();
        let mut processes: Vec<u32> = threads.iter().map(|thread| thread.0).collect();
        processes.dedup();
        let most = load.modes.iter().max_by_key(|(_, count)| **count).map(|((mode, _), _)| *mode);
        let durable = load.commits.iter().filter(|commit| commit.is_durable).count();
        choose::Facts {
            recorded: match most {
                Some(JournalMode::Eager) => Some(Strategy::Eager),
                Some(JournalMode::Waldio) => Some(Strategy::Waldio),
                Some(JournalMode::Maw) => Some(Strategy::Maw),
                Some(JournalMode::Wal) if load.is_plain => Some(Strategy::Plain),
                _ => None,
            },
            is_rollback: count(&|mode, _| rollback(mode)) * 2 > load.transactions,
            is_wal: count(&|mode, _| mode == JournalMode::Wal) * 2 > load.transactions,
            is_own_log: count(&|mode, _| {
                matches!(mode, JournalMode::Eager | JournalMode::Waldio | JournalMode::Maw)
            }) * 2
                > load.transactions,
            is_lsmvbt: count(&|mode, _| mode == JournalMode::Lsmvbt) * 2 > load.transactions,
            is_durable: durable * 2 > load.commits.len(),
            joint: load.joint,
            threads: threads.len() as u64,
            processes: processes.len() as u64,
        }
    }
}
