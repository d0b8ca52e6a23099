//! What a run found, and the forms in which it is told.
//!
//! Every form carries the environment, because no figure means anything without it.

mod csv;
mod figures;
mod format;
mod json;
mod markdown;
pub mod plot;
mod sentence;
mod table;

use std::collections::BTreeMap;

pub use figures::{Figures, LatencyFigures};
use serde::Serialize;

use crate::environment::Environment;
use crate::floor::Floor;
use crate::mode::Mode;
use crate::observe::Source;
use crate::run::latency::{Buckets, Latencies};
use crate::run::{ModeResults, Plan, Workers};

#[derive(Debug, Serialize)]
pub struct Report {
    pub environment: Environment,
    pub workload: String,
    pub rounds: u32,
    pub connections: u32,
    pub workers: Workers,
    /// Transactions a second that were asked for; none: as many as possible.
    pub rate: Option<f64>,
    /// Where bytes, writes and flushes were counted; none where nobody could.
    pub counted_at: Option<Source>,
    pub floor: FloorFigures,
    pub modes: Vec<ModeReport>,
    /// The result in one sentence.
    pub conclusion: String,
    /// What a reader must know to judge the figures.
    pub notes: Vec<String>,
}

/// 4 KiB overwrite + fdatasync.
#[derive(Clone, Debug, Serialize)]
pub struct FloorFigures {
    pub p50_ns: u64,
    pub p99_ns: u64,
    pub direct_io: bool,
}

#[derive(Debug, Serialize)]
pub struct ModeReport {
    pub mode: Mode,
    /// Each figure's median over the rounds; the maximum latency is that of all rounds.
    pub median: Figures,
    pub rounds: Vec<Figures>,
    /// Of all rounds together.
    pub latency_histogram_ns: Buckets,
    /// Failed statements of a replay in all rounds, by message.
    pub failed_statements: BTreeMap<String, u64>,
    /// Of a replay: whether all rounds ended in the same contents.
    pub same_contents_in_all_rounds: Option<bool>,
    /// Of a replay whose rounds did: a number for these contents, to compare modes by.
    pub contents_fingerprint: Option<String>,
}

impl Report {
    pub fn new(plan: &Plan, environment: Environment, floor: &Floor, results: Vec<ModeResults>) -> Report {
        let modes: Vec<ModeReport> = results.into_iter().map(ModeReport::new).collect();
        let floor =
            FloorFigures { p50_ns: floor.median_ns(), p99_ns: floor.quantile_ns(0.99), direct_io: floor.direct_io };
        let mut report = Report {
            environment,
            workload: plan.workload.describe(),
            rounds: modes.first().map_or(0, |mode| mode.rounds.len() as u32),
            connections: plan.connections,
            workers: plan.workers.clone(),
            rate: plan.rate,
            counted_at: modes.iter().find_map(|mode| mode.median.counted_at),
            floor,
            modes,
            conclusion: String::new(),
            notes: Vec::new(),
        };
        report.conclusion = sentence::conclusion(&report);
        report.notes = sentence::notes(&report);
        report
    }

    /// For a terminal of 80 columns.
    pub fn to_table(&self) -> String {
        table::render(self)
    }

    pub fn to_markdown(&self) -> String {
        markdown::render(self)
    }

    /// One line a mode and round, with the environment in every line.
    pub fn to_csv(&self) -> String {
        csv::render(self)
    }

    pub fn to_json(&self) -> String {
        json::render(self)
    }

    /// Mobibench's result line, one a mode.
    pub fn to_mobibench(&self) -> String {
        self.modes
            .iter()
            .map(|mode| {
                let seconds = mode.median.seconds;
                let micros = (seconds.fract() * 1e6) as u64;
                let rate = mode.median.transactions_per_s;
                let name = if self.modes.len() > 1 { format!("[MODE] :{}\n", mode.mode) } else { String::new() };
                format!("{name}[TIME] :{:8} sec {micros:06}us. \t{rate:.2} Transactions/sec\n", seconds as u64)
            })
            .collect()
    }

    /// The head of every form for people.
    fn headline(&self) -> String {
        let connections = match (self.connections, &self.workers) {
            (1, _) => "1 connection".to_owned(),
            (count, Workers::Threads) => format!("{count} connections (threads)"),
            (count, Workers::Processes { .. }) => format!("{count} connections (processes)"),
        };
        let rate = self.rate.map_or(String::new(), |rate| format!(", {rate} a second"));
        let rounds = if self.rounds == 1 { "1 round".to_owned() } else { format!("medians of {} rounds", self.rounds) };
        format!("{}, {connections}{rate}, {rounds}", self.workload)
    }

    fn floor_line(&self) -> String {
        format!(
            "floor: 4 KiB overwrite + fdatasync{}: p50 {} ms, p99 {} ms",
            if self.floor.direct_io { ", direct I/O" } else { ", buffered (direct I/O refused)" },
            format::millis(self.floor.p50_ns),
            format::millis(self.floor.p99_ns),
        )
    }
}

impl ModeReport {
    fn new(results: ModeResults) -> ModeReport {
        let mut latencies = Latencies::new();
        let mut failed_statements: BTreeMap<String, u64> = BTreeMap::new();
        for round in &results.rounds {
            latencies.merge(&round.latencies);
            for (message, count) in &round.failures {
                *failed_statements.entry(message.clone()).or_default() += count;
            }
        }
        let fingerprints: Vec<u64> = results.rounds.iter().filter_map(|round| round.fingerprint).collect();
        let same = fingerprints.windows(2).all(|pair| pair[0] == pair[1]);
        let rounds: Vec<Figures> = results.rounds.iter().map(Figures::of).collect();
        ModeReport {
            mode: results.mode,
            median: Figures::median(&rounds),
            rounds,
            latency_histogram_ns: latencies.buckets(),
            failed_statements,
            same_contents_in_all_rounds: (!fingerprints.is_empty()).then_some(same),
            contents_fingerprint: fingerprints.first().filter(|_| same).map(|number| format!("{number:016x}")),
        }
    }
}
