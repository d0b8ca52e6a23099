//! What a run found, and the forms in which it is told.
//!
//! Every form carries the environment, because no figure means anything without it.

mod brief;
mod conclusion;
mod control;
mod csv;
mod figures;
mod format;
mod guests;
mod json;
mod laid_out;
mod markdown;
mod notes;
pub mod plot;
#[cfg(test)]
pub(crate) mod sample;
mod special;
mod table;
mod to_stock;
mod words;

use std::collections::BTreeMap;
use std::path::Path;

pub use control::{Spread, ToControl};
#[cfg(feature = "laboratory")]
pub(crate) use figures::median;
pub use figures::{CompanionFigures, Figures, FlashFigures, LatencyFigures, PhaseFigures};
#[cfg(feature = "laboratory")]
pub(crate) use format::significant;
pub use guests::MEANING;
pub use json::SavedError;
use serde::{Deserialize, Serialize};

use oneflush_measure::environment::Environment;
use oneflush_measure::floor::Floor;
use oneflush_measure::mode::{Mode, Strategy};
use oneflush_measure::observe::Source;
use oneflush_measure::run::latency::{Buckets, Latencies};
use oneflush_measure::run::timeline::TimelineFigures;
use oneflush_measure::run::vfs::RawStats;
use oneflush_measure::run::{Kept, ModeResults, Plan, RunResults, Workers};
use oneflush_measure::workload::Unit;

#[derive(Debug, Serialize, Deserialize)]
pub struct Report {
    pub environment: Environment,
    pub workload: String,
    /// What "transaction" means in the names of figures.
    pub unit: Unit,
    pub rounds: u32,
    /// The numbers of connections that every mode ran with.
    pub connections: Vec<u32>,
    pub workers: Workers,
    /// Transactions a second that were asked for; none: as many as possible.
    pub rate: Option<f64>,
    /// Loops that took processor time beside the workers, and beside the floor.
    pub busy_loops: u32,
    /// The modes of a round read in turns of some milliseconds.
    pub in_turns: bool,
    /// Where bytes, writes and flushes were counted; none where nobody could.
    pub counted_at: Option<Source>,
    pub floor: FloorFigures,
    pub modes: Vec<ModeReport>,
    /// Of all that reached the device, if it was to be kept.
    pub recording: Option<Kept>,
    /// The result in words: each mode beside stock SQLite, slower ones first.
    pub conclusion: String,
    /// What a reader must know to judge the figures.
    pub notes: Vec<String>,
}

/// 4 KiB overwrite + fdatasync.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FloorFigures {
    pub p50_ns: u64,
    pub p99_ns: u64,
    pub max_ns: u64,
    /// So many were measured.
    pub writes: usize,
    pub direct_io: bool,
}

impl FloorFigures {
    pub fn of(floor: &Floor) -> FloorFigures {
        FloorFigures {
            p50_ns: floor.median_ns(),
            p99_ns: floor.quantile_ns(0.99),
            max_ns: floor.quantile_ns(1.0),
            writes: floor.latencies_ns.len(),
            direct_io: floor.direct_io,
        }
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub struct ModeReport {
    pub mode: Mode,
    /// The file system of the guest that it ran in; none: it ran here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guest: Option<String>,
    pub connections: u32,
    /// Each figure's median over the rounds; the maximum latency is that of all rounds.
    pub median: Figures,
    pub rounds: Vec<Figures>,
    /// None for the control itself.
    pub to_control: Option<ToControl>,
    /// Of all rounds together.
    pub latency_histogram_ns: Buckets,
    /// Of the round with the longest commit.
    pub latency_timeline: TimelineFigures,
    /// One list a round with one entry a process and database; empty where SQLite works alone.
    pub vfs_stats: Vec<Vec<RawStats>>,
    /// Failed statements of a replay in all rounds, by message.
    pub failed_statements: BTreeMap<String, u64>,
    /// Of a replay: whether all rounds ended in the same contents.
    pub same_contents_in_all_rounds: Option<bool>,
    /// Of a replay whose rounds did: a number for these contents, to compare modes by.
    pub contents_fingerprint: Option<String>,
}

impl Report {
    pub fn new(plan: &Plan, results: RunResults) -> Report {
        let RunResults { environment, floor, modes, recording } = results;
        let mut modes: Vec<ModeReport> = modes.into_iter().map(ModeReport::new).collect();
        for (mode, to_control) in control::compare(&modes).into_iter().enumerate() {
            modes[mode].to_control = to_control;
        }
        let floor = FloorFigures::of(&floor);
        let mut report = Report {
            environment,
            workload: plan.workload.describe(),
            unit: plan.workload.unit(),
            rounds: modes.first().map_or(0, |mode| mode.rounds.len() as u32),
            connections: plan.connections.clone(),
            workers: plan.workers.clone(),
            rate: plan.rate,
            busy_loops: plan.busy.as_ref().map_or(0, |busy| busy.loops),
            in_turns: plan.in_turns,
            counted_at: modes.iter().find_map(|mode| mode.median.counted_at),
            floor,
            modes,
            recording,
            conclusion: String::new(),
            notes: Vec::new(),
        };
        report.conclusion = conclusion::conclusion(&report);
        report.notes = notes::notes(&report);
        report
    }

    /// For a terminal of 80 columns.
    pub fn to_table(&self) -> String {
        table::render(self)
    }

    /// A line a mode.
    pub fn to_brief(&self) -> String {
        brief::render(self)
    }

    pub fn to_markdown(&self) -> String {
        markdown::render(self)
    }

    /// One line a mode and round, with the environment in every line.
    pub fn to_csv(&self) -> String {
        csv::render(self)
    }

    /// What [`Report::to_json`] wrote to a file.
    pub fn from_json(path: &Path) -> Result<Report, SavedError> {
        json::read(path)
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
                let name = if self.modes.len() > 1 {
                    format!("[MODE] :{}\n", self.label(mode))
                } else {
                    String::new()
                };
                format!(
                    "{name}[TIME] :{:8} sec {micros:06}us. \t{rate:.2} Transactions/sec\n",
                    seconds as u64
                )
            })
            .collect()
    }

    /// The head of every form for people.
    fn headline(&self) -> String {
        let counts: Vec<String> = self.connections.iter().map(u32::to_string).collect();
        let connections = match (self.connections.as_slice(), &self.workers) {
            ([1], _) => "1 connection".to_owned(),
            (_, Workers::Threads) => format!("{} connections (threads)", counts.join(" and ")),
            (_, Workers::Processes { .. }) => {
                format!("{} connections (processes)", counts.join(" and "))
            }
        };
        let in_turns = if self.in_turns { ", all modes in turns" } else { "" };
        let rate = self.rate.map_or(String::new(), |rate| format!(", {rate} a second"));
        let busy = self.beside_loops().map_or(String::new(), |beside| format!(", {beside}"));
        let rounds = if self.rounds == 1 {
            "1 round".to_owned()
        } else {
            format!("medians of {} rounds", self.rounds)
        };
        format!("{}, {connections}{rate}{busy}{in_turns}, {rounds}", self.workload)
    }

    /// "beside 2 busy loops"
    fn beside_loops(&self) -> Option<String> {
        match self.busy_loops {
            0 => None,
            1 => Some("beside a busy loop".to_owned()),
            loops => Some(format!("beside {loops} busy loops")),
        }
    }

    /// A row's name: the mode, and the number of connections where it tells rows apart.
    fn label(&self, mode: &ModeReport) -> String {
        if self.connections.len() == 1 {
            mode.name()
        } else {
            format!("{} ×{}", mode.name(), mode.connections)
        }
    }

    /// What the counts of flushes are, and where all counts are from.
    fn counting(&self) -> (&'static str, &'static str) {
        match self.counted_at {
            Some(Source::Strategies) => ("syncs", "by the strategies' own counters"),
            _ => ("flushes", "at the block device"),
        }
    }

    fn floor_line(&self) -> String {
        format!(
            "floor: 4 KiB overwrite + fdatasync{}: p50 {} ms,\n       p99 {} ms, longest of {} {} \
                ms",
            if self.floor.direct_io { ", direct I/O" } else { ", buffered (direct I/O refused)" },
            format::millis(self.floor.p50_ns),
            format::millis(self.floor.p99_ns),
            self.floor.writes,
            format::millis(self.floor.max_ns),
        )
    }
}

impl ModeReport {
    /// The mode, behind the file system of its guest.
    fn name(&self) -> String {
        match &self.guest {
            Some(fs) => format!("{fs} {}", self.mode),
            None => self.mode.to_string(),
        }
    }

    fn new(results: ModeResults) -> ModeReport {
        let mut latencies = Latencies::new();
        let mut failed_statements: BTreeMap<String, u64> = BTreeMap::new();
        for round in &results.rounds {
            latencies.merge(&round.latencies);
            for (message, count) in &round.failures {
                *failed_statements.entry(message.clone()).or_default() += count;
            }
        }
        let fingerprints: Vec<u64> =
            results.rounds.iter().filter_map(|round| round.fingerprint).collect();
        let same = fingerprints.windows(2).all(|pair| pair[0] == pair[1]);
        let rounds: Vec<Figures> = results.rounds.iter().map(Figures::of).collect();
        let longest = results.rounds.iter().max_by_key(|round| round.latencies.max_ns());
        ModeReport {
            connections: results.connections,
            guest: None,
            to_control: None,
            latency_timeline: longest.map(|round| round.timeline.figures()).unwrap_or_default(),
            vfs_stats: if results.mode.strategy == Strategy::Sqlite {
                Vec::new()
            } else {
                results.rounds.iter().map(|round| round.vfs_stats.clone()).collect()
            },
            median: Figures::median(&rounds),
            rounds,
            latency_histogram_ns: latencies.buckets(),
            failed_statements,
            same_contents_in_all_rounds: (!fingerprints.is_empty()).then_some(same),
            contents_fingerprint: fingerprints
                .first()
                .filter(|_| same)
                .map(|number| format!("{number:016x}")),
            mode: results.mode,
        }
    }
}
