//! A paper's tables and figures, measured again: theirs beside ours, and a verdict for each claim.
//!
//! ```text
//! description (maw.rs, …) ── measure ──▶ Measured ── judge ──▶ Verdict
//!   experiments, sheets,      one run of the             └─ render ─▶ markdown, JSON
//!   claims: data only         benchmark each
//! ```
//!
//! A description is data. A *sheet* is a table or figure of the paper: its rows, their numbers, and
//! which experiment gives ours. A *claim* is a ratio of such figures, with the rule by which it
//! holds. What nobody observed is missing, in a sheet as in a claim, and never 0.
//!
//! A *pattern* is the writes of one commit in their order. Rows that need another kernel's file
//! system run in a guest.
//!
//! Theirs are the numbers that the paper's text has. What only its pictures show is missing.

mod eager;
mod guests;
mod inputs;
mod io;
mod judge;
mod lsmvbt;
mod maw;
mod measure;
mod measured;
mod page;
mod pattern;
mod render;
mod short;
mod stores;
mod waldio;

pub use guests::Guests;
pub use inputs::{Inputs, InputsError};
pub use judge::{Judged, Verdict};
pub use measure::{PaperError, PaperPlan, measure};
pub use measured::{Measured, MeasuredMode};
pub use page::{Failed, Papers};
pub use render::PaperReport;

use pattern::PatternSheet;

use crate::kv;
use oneflush_measure::workload::{Files, Operation};

/// What is repeated of one paper.
pub struct Paper {
    /// The word of `--paper`.
    pub name: &'static str,
    pub title: &'static str,
    /// What their numbers were measured on.
    pub device: &'static str,
    /// What its experiments need of a scratch place.
    pub size_gib: u64,
    pub experiments: &'static [Experiment],
    pub sheets: &'static [Sheet],
    pub patterns: &'static [PatternSheet],
    pub claims: &'static [&'static [Claim]],
    /// What the paper says and no run of ours can show.
    pub unmeasured: &'static [Unmeasured],
    /// Claims on several workloads at once.
    pub across: &'static [Across],
    /// What a reader must know to compare the two.
    pub notes: &'static [&'static str],
}

pub const PAPERS: [&Paper; 5] =
    [&lsmvbt::LSMVBT, &eager::EAGER, &io::IO, &waldio::WALDIO, &maw::MAW];

impl Paper {
    fn claims(&self) -> impl Iterator<Item = &'static Claim> {
        self.claims.iter().copied().flatten()
    }

    pub fn find(name: &str) -> Option<&'static Paper> {
        PAPERS.into_iter().find(|paper| paper.name == name)
    }

    /// The modes of an experiment: those of all sheets that show it, each once.
    fn modes(&self, experiment: &Experiment) -> Vec<&'static str> {
        let shows = |sheet: &&Sheet| {
            sheet.columns.iter().any(|column| column.experiment == experiment.name)
        };
        let of_sheets =
            self.sheets.iter().filter(shows).flat_map(|sheet| sheet.rows).flat_map(Row::mode);
        let patterns = self.patterns.iter().filter(|sheet| sheet.experiment == experiment.name);
        let of_patterns = patterns.flat_map(|sheet| sheet.rows).map(|row| row.mode);
        let mut modes = Vec::new();
        for mode in of_sheets.chain(of_patterns) {
            if !modes.contains(&mode) {
                modes.push(mode);
            }
        }
        modes
    }
}

/// One run of the benchmark.
pub struct Experiment {
    pub name: &'static str,
    /// For progress.
    pub what: &'static str,
    pub work: Work,
    pub operations: u64,
    pub connections: u32,
    /// Each connection is a process.
    pub processes: bool,
    /// Each database is new: the mode `wal` stands for `wal-growing`.
    pub fresh: bool,
    pub how: How,
    pub on: On,
    /// It takes long whatever the number of operations is, so a short form is without it.
    pub is_long: bool,
}

/// Where an experiment runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum On {
    /// Where the user wants it: by default a scratch ext4 on a loop device.
    Asked,
    /// A scratch ext4 with its feature `fast_commit`.
    FastCommit,
    /// A scratch ext4 on an emulated eMMC.
    Emmc,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// A row of one table by prepared statements; connections share the table.
    Table(Operation),
    /// As Mobibench does, with one table.
    Mobibench(Operation),
    /// Mobibench's inserts, their ids in random order.
    MobibenchRandom,
    /// A row in a table of each of so many databases, in one transaction.
    Attached(u32),
    /// Reads of single rows whose pages are in the WAL.
    ReadsInWal,
    /// Of a file, without SQLite.
    Files(Files),
    /// The recorded file operations of an app, which the user has: [`Inputs`].
    FileTrace(&'static str),
    /// The recorded SQL of an app, which the user has, one statement after the other.
    Sql(&'static str),
    /// Traces that the user has. The modes are their names.
    Traces,
    /// Keys and values, without SQL. The modes are words of [`kv::Subject`].
    Stores(kv::Work),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// In rounds, with bytes, writes and flushes.
    Rounds,
    /// In turns of some milliseconds with the floor, so that medians compare to it.
    Turns,
    /// Once for each mode, with a recording in which every commit is found.
    Recorded,
}

/// A table or figure of the paper.
pub struct Sheet {
    pub source: &'static str,
    pub title: &'static str,
    /// The heads of their numbers.
    pub theirs: &'static [&'static str],
    pub columns: &'static [Column],
    /// The mode of the row that ratios are to.
    pub control: &'static str,
    pub rows: &'static [Row],
}

/// A figure of ours for every row.
pub struct Column {
    pub head: &'static str,
    pub experiment: &'static str,
    pub figure: Figure,
    /// The ratio to the control's figure in this experiment follows.
    pub ratio_to: Option<&'static str>,
}

pub struct Row {
    pub label: &'static str,
    /// As many as the sheet has heads for.
    pub theirs: &'static [Option<f64>],
    pub ours: Ours,
}

pub enum Ours {
    /// "f2fs persist:sqlite" is that mode in a guest with F2FS.
    Mode(&'static str),
    /// Nothing of ours is this, and why.
    Nothing(&'static str),
    /// Theirs, in the columns of ours: one of several that theirs are of.
    Theirs(&'static [Option<f64>]),
}

impl Row {
    fn mode(&self) -> Option<&'static str> {
        match self.ours {
            Ours::Mode(mode) => Some(mode),
            Ours::Nothing(_) | Ours::Theirs(_) => None,
        }
    }
}

/// A figure of one mode in one experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figure {
    PerSecond,
    /// Of what the workload reads or writes, in 10⁶ bytes; without SQLite.
    MegabytesPerSecond,
    /// Bytes at the device in MB, as if for 1,000 operations.
    Megabytes,
    /// The same without the file system's journal.
    DataMegabytes,
    /// Bytes at the device in MB, of all operations.
    TotalMegabytes,
    Kilobytes,
    /// The same without the file system's journal.
    DataKilobytes,
    FsJournalKilobytes,
    /// Of SQLite's own files.
    SqliteKilobytes,
    /// Of the file system: its journal, nodes and other metadata.
    FsKilobytes,
    /// Of the database file: what is written in place.
    DbKilobytes,
    Writes,
    Flushes,
    /// Of SQLite, as our VFS saw them: writes, syncs, and KB that are written.
    WriteCalls,
    SyncCalls,
    CallKilobytes,
    /// Of a write request with data, in the mean.
    RequestSectors,
    /// Sectors in bursts longer than 128 sectors, percent of all.
    SequentialPercent,
    /// Of the processor, for a transaction, in microseconds.
    CpuMicros,
    /// Written by the transaction, as the store counts them: pages, and blocks that commit them.
    Pages,
    MeanMillis,
    MedianMillis,
    /// The median as a multiple of the floor's.
    MedianToFloor,
    /// Of a thousand, one takes longer.
    TailMillis,
    LongestMillis,
    /// The longest write of the floor in the same experiment: the device's own stalls.
    FloorLongestMillis,
    /// Of the commit in the middle, from the recording.
    CommitRequests,
    CommitKilobytes,
    /// Percent of the commits that were one write request of 4 KiB and nothing else.
    OneRequestPercent,
    /// Percent of the commits that made the file system write its journal.
    FsJournalPercent,
    /// Of an emulated flash device: what was programmed, and that for each byte which the host
    /// wrote; erases of a thousand operations; its life at one operation a second.
    ProgrammedKilobytes,
    WriteAmplification,
    Erases,
    LifeDays,
    /// Of the WAL at the end of the run.
    WalMegabytes,
    /// Of the transactions that a recording or a trace has.
    Each(Quantity, At),
    /// Bytes of a class in percent of all, of the same.
    SharePercent(Quantity),
    /// Percent of them that were found in this mode, such as "persist full".
    FoundPercent(&'static str),
    /// Percent of them that made the file system write its journal.
    WithFsJournalPercent,
    /// Percent of them whose rollback journal had one segment.
    OneSegmentPercent,
    /// Percent of the write requests that a thread waited for.
    SyncWritePercent,
}

/// What a transaction has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    Bytes,
    DbBytes,
    JournalBytes,
    FsJournalBytes,
    Latency,
    Requests,
    Flushes,
    /// Calls to synchronize the files and their folder.
    Syncs,
    Segments,
}

/// A place in a distribution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    Least,
    Median,
    Mean,
    /// Of four, one is above.
    P75,
    /// Of a hundred.
    P99,
    /// Of a thousand.
    P999,
    Most,
}

impl Figure {
    /// It depends on how fast the machine is.
    pub fn is_time(self) -> bool {
        matches!(
            self,
            Figure::PerSecond
                | Figure::MegabytesPerSecond
                | Figure::CpuMicros
                | Figure::MeanMillis
                | Figure::MedianMillis
                | Figure::MedianToFloor
                | Figure::TailMillis
                | Figure::LongestMillis
                | Figure::FloorLongestMillis
                | Figure::Each(Quantity::Latency, _)
        )
    }

    pub fn unit(self) -> &'static str {
        match self {
            Figure::PerSecond => "/s",
            Figure::MegabytesPerSecond => " MB/s",
            Figure::Megabytes
            | Figure::TotalMegabytes
            | Figure::DataMegabytes
            | Figure::WalMegabytes => " MB",
            Figure::Kilobytes
            | Figure::DataKilobytes
            | Figure::FsJournalKilobytes
            | Figure::SqliteKilobytes
            | Figure::FsKilobytes
            | Figure::DbKilobytes
            | Figure::CallKilobytes
            | Figure::ProgrammedKilobytes
            | Figure::CommitKilobytes => " KB",
            Figure::Writes => " writes",
            Figure::Flushes => " flushes",
            Figure::WriteCalls | Figure::SyncCalls => " calls",
            Figure::RequestSectors => " sectors",
            Figure::Pages => " pages",
            Figure::CpuMicros => " µs",
            Figure::MeanMillis
            | Figure::MedianMillis
            | Figure::TailMillis
            | Figure::LongestMillis
            | Figure::FloorLongestMillis => " ms",
            Figure::WriteAmplification => " times",
            Figure::Erases => " erases",
            Figure::LifeDays => " days",
            Figure::MedianToFloor => " floors",
            Figure::CommitRequests => " requests",
            Figure::Each(quantity, _) => quantity.unit(),
            Figure::SequentialPercent
            | Figure::OneRequestPercent
            | Figure::FsJournalPercent
            | Figure::SharePercent(_)
            | Figure::FoundPercent(_)
            | Figure::WithFsJournalPercent
            | Figure::OneSegmentPercent
            | Figure::SyncWritePercent => " %",
        }
    }
}

impl Quantity {
    fn unit(self) -> &'static str {
        match self {
            Quantity::Bytes
            | Quantity::DbBytes
            | Quantity::JournalBytes
            | Quantity::FsJournalBytes => " KB",
            Quantity::Latency => " ms",
            Quantity::Requests => " requests",
            Quantity::Flushes => " flushes",
            Quantity::Syncs => " syncs",
            Quantity::Segments => " segments",
        }
    }
}

/// A figure of a mode: what a claim is made of.
#[derive(Clone, Copy, Debug)]
pub struct Cell {
    pub experiment: &'static str,
    pub mode: &'static str,
    pub figure: Figure,
}

/// What the paper, or the goal of this project, says.
pub struct Claim {
    pub source: &'static str,
    pub says: &'static str,
    /// Their value; none where the paper has no number for it.
    pub theirs: Option<f64>,
    /// Ours is the product of these …
    pub over: &'static [Cell],
    /// … divided by the product of these.
    pub under: &'static [Cell],
    pub rule: Rule,
    /// What may be why it does not hold.
    pub unless: &'static str,
}

/// A claim on several workloads at once: the best of them, the worst, or the mean.
pub struct Across {
    pub source: &'static str,
    pub says: &'static str,
    pub theirs: Option<f64>,
    pub of: Of,
    /// A figure, and the one that it is compared with.
    pub pairs: &'static [(Cell, Cell)],
    pub rule: Rule,
    pub unless: &'static str,
}

/// How the pairs of [`Across`] become one value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Of {
    LargestRatio,
    SmallestRatio,
    /// The geometric mean.
    MeanRatio,
    LargestDifference,
    SmallestDifference,
}

/// A claim that is not measured here.
pub struct Unmeasured {
    pub source: &'static str,
    pub says: &'static str,
    /// Their value; none where the paper has no number for it.
    pub theirs: Option<f64>,
    pub why: &'static str,
}

/// When a claim holds, and when it holds in part.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rule {
    AtMost { holds: f64, in_part: f64 },
    AtLeast { holds: f64, in_part: f64 },
    Between { holds: [f64; 2], in_part: [f64; 2] },
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// What a description names must be there, or its figures would be missing for ever.
    #[test]
    fn every_name_in_a_description_leads_somewhere() {
        for paper in PAPERS {
            let names: BTreeSet<_> = paper.experiments.iter().map(|one| one.name).collect();
            assert_eq!(names.len(), paper.experiments.len(), "{}: a name twice", paper.name);
            for sheet in paper.sheets {
                let place = format!("{} {}", paper.name, sheet.source);
                for column in sheet.columns {
                    for name in column.ratio_to.iter().chain([&column.experiment]) {
                        assert!(names.contains(name), "{place}: {name}");
                    }
                }
                let modes: Vec<_> = sheet.rows.iter().filter_map(Row::mode).collect();
                assert!(modes.contains(&sheet.control), "{place}: {}", sheet.control);
                for row in sheet.rows {
                    if let Ours::Theirs(values) = row.ours {
                        assert_eq!(values.len(), sheet.columns.len(), "{place}: {}", row.label);
                    }
                    assert_eq!(row.theirs.len(), sheet.theirs.len(), "{place}: {}", row.label);
                }
            }
            for sheet in paper.patterns {
                assert!(names.contains(sheet.experiment), "{}", sheet.experiment);
            }
            for experiment in paper.experiments {
                assert!(!paper.modes(experiment).is_empty(), "{}: no sheet", experiment.name);
            }
            let of_across = paper.across.iter().flat_map(|claim| claim.pairs);
            let of_across = of_across.flat_map(|(own, other)| [("", own), ("", other)]);
            let of_claims = paper.claims().flat_map(|claim| {
                claim.over.iter().chain(claim.under).map(|cell| (claim.says, cell))
            });
            {
                for (says, cell) in of_claims.chain(of_across) {
                    let mut all = paper.experiments.iter();
                    let experiment =
                        all.find(|one| one.name == cell.experiment).expect(cell.experiment);
                    let modes = paper.modes(experiment);
                    assert!(modes.contains(&cell.mode), "{says}: {}", cell.mode);
                }
            }
        }
    }

    #[test]
    fn every_mode_in_a_description_is_one() {
        for paper in PAPERS {
            for experiment in paper.experiments {
                for word in paper.modes(experiment) {
                    let error = match experiment.work {
                        // Names of files that others have.
                        Work::Traces => None,
                        Work::Stores(_) => {
                            word.parse::<kv::Subject>().err().map(|error| error.to_string())
                        }
                        _ => guests::mode_of(word, false).err().map(|error| error.to_string()),
                    };
                    if let Some(error) = error {
                        assert!(is_to_come(word), "{error}");
                    }
                }
            }
        }
    }

    fn is_to_come(mode: &str) -> bool {
        mode.contains(":waldio") && mode.contains("+group=")
    }

    #[test]
    fn in_part_is_weaker_than_holds() {
        let of_claims = PAPERS.iter().flat_map(|paper| paper.claims());
        let of_across = PAPERS.iter().flat_map(|paper| paper.across);
        let rules = of_claims
            .map(|claim| (claim.says, claim.rule))
            .chain(of_across.map(|claim| (claim.says, claim.rule)));
        for (says, rule) in rules {
            let ordered = match rule {
                Rule::AtMost { holds, in_part } => holds < in_part,
                Rule::AtLeast { holds, in_part } => holds > in_part,
                Rule::Between { holds: [low, high], in_part: [lower, higher] } => {
                    lower < low && low < high && high < higher
                }
            };
            assert!(ordered, "{says}");
        }
    }
}
