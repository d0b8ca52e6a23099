//! What the experiments found, and each figure of it in its unit.

use serde::Serialize;

use super::{At, Cell, Figure, Quantity};
use crate::commits::Commits;
use crate::guest::GuestFs;
use crate::report::{Figures, FloorFigures};
use crate::transactions::{Spread, Transactions, Writes};
use oneflush_measure::environment::Environment;
use oneflush_measure::observe::{Class, Source};

/// Operations that the figures of volume are told for, as in the papers.
const THOUSAND: f64 = 1000.0;

/// What was found.
#[derive(Debug, Serialize)]
pub struct Measured {
    /// None where nothing was run.
    pub environment: Option<Environment>,
    /// Of experiments that need another place.
    pub elsewhere: Vec<Environment>,
    /// Of the guests.
    pub guests: Vec<Environment>,
    pub experiments: Vec<MeasuredExperiment>,
    /// Experiments that ended with an error. Their modes are missing.
    pub failures: Vec<String>,
}

#[derive(Debug, Serialize)]
pub struct MeasuredExperiment {
    pub name: &'static str,
    pub workload: String,
    pub connections: u32,
    pub operations: u64,
    /// That an operation reads or writes, without SQLite.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_per_operation: Option<f64>,
    /// None where nothing was run.
    pub floor: Option<FloorFigures>,
    pub modes: Vec<MeasuredMode>,
    /// Modes that were not measured, and why.
    pub missing: Vec<Missing>,
}

#[derive(Debug, Serialize)]
pub struct MeasuredMode {
    /// As the description names it.
    #[serde(skip)]
    pub word: &'static str,
    /// It ran in a guest with this file system, emulated: its times mean nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guest: Option<GuestFs>,
    /// In full.
    pub mode: String,
    pub median: Figures,
    pub rounds: Vec<Figures>,
    /// That a transaction of a store wrote.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pages_per_transaction: Option<f64>,
    /// From a recording.
    pub commits: Option<Commits>,
    /// From the same, or from a trace of others, which has nothing else.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transactions: Option<Transactions>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub writes: Option<Writes>,
}

#[derive(Debug, Serialize)]
pub struct Missing {
    pub mode: &'static str,
    pub why: String,
}

impl Measured {
    /// Each place once, in the order of the experiments.
    pub(super) fn is_in(&mut self, environment: Environment) {
        match &self.environment {
            None => self.environment = Some(environment),
            Some(first) if first.place == environment.place => {}
            Some(_) if self.elsewhere.iter().any(|one| one.place == environment.place) => {}
            Some(_) => self.elsewhere.push(environment),
        }
    }

    /// Of all places but the guests.
    pub fn environments(&self) -> Vec<&Environment> {
        self.environment.iter().chain(&self.elsewhere).collect()
    }

    /// The figure, or why it is missing.
    pub fn value(&self, cell: &Cell) -> Result<f64, String> {
        let Cell { experiment, mode: word, figure } = *cell;
        let found = self
            .experiments
            .iter()
            .find(|found| found.name == experiment)
            .ok_or_else(|| format!("experiment {experiment} was not run"))?;
        if let Some(missing) = found.missing.iter().find(|missing| missing.mode == word) {
            return Err(missing.why.clone());
        }
        let mode = found
            .modes
            .iter()
            .find(|mode| mode.word == word)
            .ok_or_else(|| format!("{word} was not run in experiment {experiment}"))?;
        mode.value(figure, found).ok_or_else(|| match figure {
            _ if mode.guest.is_some() && figure.is_time() => {
                "in a guest, emulated, times and rates mean nothing".to_owned()
            }
            Figure::CommitRequests
            | Figure::CommitKilobytes
            | Figure::OneRequestPercent
            | Figure::FsJournalPercent => {
                format!("the recording of {word} does not show all commits")
            }
            Figure::Pages => format!("{word} does not say what it writes"),
            Figure::ProgrammedKilobytes
            | Figure::WriteAmplification
            | Figure::Erases
            | Figure::LifeDays => "it is not on an emulated flash device".to_owned(),
            Figure::WriteCalls | Figure::SyncCalls | Figure::CallKilobytes => {
                format!("{word} has no VFS of ours that could count calls")
            }
            _ => "bytes and writes are counted at a device of our own: run it as root, without \
                --dir"
                .to_owned(),
        })
    }

    /// The writes of most commits.
    pub fn pattern(&self, experiment: &str, word: &str) -> Option<&str> {
        let found = self.experiments.iter().find(|found| found.name == experiment)?;
        let mode = found.modes.iter().find(|mode| mode.word == word)?;
        mode.commits.as_ref()?.pattern.as_deref()
    }
}

impl MeasuredMode {
    /// None: it is another kind of figure.
    fn of_transactions(&self, figure: Figure) -> Option<Option<f64>> {
        let all = self.transactions.as_ref();
        Some(match figure {
            Figure::Each(quantity, at) => all.map(|all| quantity.of(all, at)),
            Figure::SharePercent(quantity) => {
                all.map(|all| quantity.spread(all).sum / all.bytes.sum * 100.0)
            }
            Figure::FoundPercent(mode) => all.map(|all| all.mode_percent(mode)),
            Figure::WithFsJournalPercent => all.map(|all| all.percent(all.with_fs_journal_count)),
            Figure::OneSegmentPercent => all.map(|all| all.percent(all.one_segment_count)),
            Figure::SyncWritePercent => self
                .writes
                .filter(|writes| writes.count > 0)
                .map(|writes| writes.sync_count as f64 / writes.count as f64 * 100.0),
            _ => return None,
        })
    }

    fn value(&self, figure: Figure, found: &MeasuredExperiment) -> Option<f64> {
        let floor = found.floor.as_ref();
        if self.guest.is_some() && figure.is_time() {
            return None;
        }
        if let Some(value) = self.of_transactions(figure) {
            return value;
        }
        // A trace has nothing else.
        if self.rounds.is_empty() {
            return None;
        }
        let median = &self.median;
        let counts = (median.counted_at != Some(Source::Strategies)).then_some(median);
        let bytes = counts.and_then(Figures::all_bytes_per_transaction);
        let of_class = |class| {
            let split = &counts?.bytes_per_transaction_by_class;
            // A class that was never written is nothing; where there is no split, it is unknown.
            let known = (!split.is_empty()).then_some(0.0);
            let laid_out = match class {
                Class::Journal => median.laid_out_bytes.unwrap_or_default(),
                _ => 0.0,
            };
            let bytes = split.get(&class).copied().or(known)?;
            Some(bytes + laid_out / median.transactions.max(1) as f64)
        };
        let fs_journal = || of_class(Class::FsJournal);
        let kilobytes = |bytes: f64| bytes / 1024.0;
        let latency = &median.latency_ns;
        let flash = median.flash.as_ref();
        let commits = self.commits.as_ref();
        match figure {
            Figure::PerSecond => Some(median.transactions_per_s),
            Figure::MegabytesPerSecond => {
                Some(median.transactions_per_s * found.bytes_per_operation? / 1e6)
            }
            Figure::Megabytes => bytes.map(|bytes| bytes * THOUSAND / 1e6),
            Figure::TotalMegabytes => Some(bytes? * median.transactions as f64 / 1e6),
            Figure::DataMegabytes => Some((bytes? - fs_journal()?) * THOUSAND / 1e6),
            Figure::Kilobytes => bytes.map(kilobytes),
            Figure::DataKilobytes => Some(kilobytes(bytes? - fs_journal()?)),
            Figure::FsJournalKilobytes => fs_journal().map(kilobytes),
            Figure::SqliteKilobytes => {
                Some(kilobytes(of_class(Class::Db)? + of_class(Class::Journal)?))
            }
            Figure::FsKilobytes => Some(kilobytes(fs_journal()? + of_class(Class::Other)?)),
            Figure::DbKilobytes => of_class(Class::Db).map(kilobytes),
            Figure::Writes => counts.and_then(|median| median.writes_per_transaction),
            Figure::Flushes => counts.and_then(|median| median.flushes_per_transaction),
            Figure::WriteCalls => median.calls_per_transaction.as_ref().map(|calls| calls.writes),
            Figure::SyncCalls => median.calls_per_transaction.as_ref().map(|calls| calls.syncs),
            Figure::CallKilobytes => {
                median.calls_per_transaction.as_ref().map(|calls| kilobytes(calls.bytes))
            }
            Figure::RequestSectors => median.request_sectors_mean,
            Figure::SequentialPercent => median.sequential_ratio.map(|ratio| ratio * 100.0),
            Figure::ProgrammedKilobytes => {
                flash.map(|flash| kilobytes(flash.programmed_bytes_per_transaction))
            }
            Figure::WriteAmplification => flash.map(|flash| flash.write_amplification),
            Figure::Erases => flash.map(|flash| flash.erases_per_1000_transactions),
            Figure::LifeDays => flash.map(|flash| flash.life_days),
            Figure::WalMegabytes => median.wal_bytes_at_end.map(|bytes| bytes as f64 / 1e6),
            Figure::CpuMicros => Some(median.cpu_us_per_transaction),
            Figure::Pages => self.pages_per_transaction,
            Figure::MeanMillis => Some(latency.mean as f64 / 1e6),
            Figure::MedianMillis => Some(latency.p50 as f64 / 1e6),
            Figure::MedianToFloor => {
                let floor = floor.filter(|floor| floor.p50_ns > 0)?;
                Some(latency.p50 as f64 / floor.p50_ns as f64)
            }
            Figure::FloorLongestMillis => {
                floor.filter(|floor| floor.writes > 0).map(|floor| floor.max_ns as f64 / 1e6)
            }
            Figure::TailMillis => Some(latency.p999 as f64 / 1e6),
            Figure::LongestMillis => Some(latency.max as f64 / 1e6),
            Figure::CommitRequests => commits.map(|commits| commits.requests_median),
            Figure::CommitKilobytes => commits.map(|commits| commits.bytes_median / 1024.0),
            Figure::OneRequestPercent => {
                commits.map(|commits| commits.percent(commits.one_request_count))
            }
            Figure::FsJournalPercent => {
                commits.map(|commits| commits.percent(commits.fs_journal_count))
            }
            Figure::Each(..)
            | Figure::SharePercent(_)
            | Figure::FoundPercent(_)
            | Figure::WithFsJournalPercent
            | Figure::OneSegmentPercent
            | Figure::SyncWritePercent => None,
        }
    }
}

impl Quantity {
    fn spread(self, all: &Transactions) -> &Spread {
        match self {
            Quantity::Bytes => &all.bytes,
            Quantity::DbBytes => &all.db_bytes,
            Quantity::JournalBytes => &all.journal_bytes,
            Quantity::FsJournalBytes => &all.fs_journal_bytes,
            Quantity::Latency => &all.latency_ns,
            Quantity::Requests => &all.requests,
            Quantity::Flushes => &all.flushes,
            Quantity::Syncs => &all.syncs,
            Quantity::Segments => &all.segments,
        }
    }

    /// In the unit of the figure.
    fn of(self, all: &Transactions, at: At) -> f64 {
        let spread = self.spread(all);
        let value = match at {
            At::Least => spread.least,
            At::Median => spread.median,
            At::Mean => spread.mean,
            At::P75 => spread.p75,
            At::P99 => spread.p99,
            At::P999 => spread.p999,
            At::Most => spread.most,
        };
        match self {
            Quantity::Bytes
            | Quantity::DbBytes
            | Quantity::JournalBytes
            | Quantity::FsJournalBytes => value / 1024.0,
            Quantity::Latency => value / 1e6,
            Quantity::Requests | Quantity::Flushes | Quantity::Syncs | Quantity::Segments => value,
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::paper::guests;
    use crate::report::sample;

    /// Experiments whose modes have a rate each, and nothing was counted.
    pub fn measured(rates: &[(&'static str, &'static str, f64)]) -> Measured {
        let mut experiments: Vec<MeasuredExperiment> = Vec::new();
        for (name, word, rate) in rates {
            if experiments.last().is_none_or(|last| last.name != *name) {
                experiments.push(MeasuredExperiment {
                    name,
                    workload: "insert".to_owned(),
                    connections: 1,
                    operations: 1000,
                    bytes_per_operation: None,
                    floor: None,
                    modes: Vec::new(),
                    missing: Vec::new(),
                });
            }
            let figures = sample::round(*rate, sample::latency(200_000, 300_000));
            experiments.last_mut().unwrap().modes.push(MeasuredMode {
                word,
                guest: guests::file_system(word),
                mode: (*word).to_owned(),
                median: figures.clone(),
                rounds: vec![figures],
                pages_per_transaction: None,
                commits: None,
                transactions: None,
                writes: None,
            });
        }
        Measured {
            environment: None,
            elsewhere: Vec::new(),
            guests: Vec::new(),
            experiments,
            failures: Vec::new(),
        }
    }

    fn of(figure: Figure) -> Cell {
        Cell { experiment: "x", mode: "wal:sqlite", figure }
    }

    #[test]
    fn what_nobody_counted_is_missing_and_says_the_way_out() {
        let found = measured(&[("x", "wal:sqlite", 100.0)]);
        assert_eq!(found.value(&of(Figure::PerSecond)), Ok(100.0));
        assert_eq!(found.value(&of(Figure::MedianMillis)), Ok(0.2));
        for figure in [Figure::Megabytes, Figure::DataMegabytes, Figure::Writes, Figure::Flushes] {
            assert!(found.value(&of(figure)).unwrap_err().contains("without --dir"));
        }
        assert!(found.value(&of(Figure::FsJournalPercent)).unwrap_err().contains("recording"));
        assert!(found.value(&of(Figure::MedianToFloor)).is_err());
    }

    #[test]
    fn of_a_guest_bytes_are_told_and_no_times() {
        let mut found = measured(&[("x", "f2fs wal:sqlite", 100.0)]);
        let figures = &mut found.experiments[0].modes[0].median;
        figures.counted_at = Some(Source::BlockDevice);
        figures.bytes_per_transaction = Some(16_384.0);
        figures.bytes_per_transaction_by_class =
            [(Class::Journal, 8192.0), (Class::FsJournal, 4096.0), (Class::Other, 4096.0)].into();
        let of = |figure| Cell { mode: "f2fs wal:sqlite", ..of(figure) };
        assert_eq!(found.value(&of(Figure::Kilobytes)), Ok(16.0));
        assert_eq!(found.value(&of(Figure::SqliteKilobytes)), Ok(8.0));
        assert_eq!(found.value(&of(Figure::FsKilobytes)), Ok(8.0));
        for figure in [Figure::PerSecond, Figure::MedianMillis, Figure::LongestMillis] {
            assert!(found.value(&of(figure)).unwrap_err().contains("emulated"));
        }
    }

    #[test]
    fn volumes_are_told_for_a_thousand_operations_and_split_off_the_fs_journal() {
        let mut found = measured(&[("x", "wal:sqlite", 100.0)]);
        let figures = &mut found.experiments[0].modes[0].median;
        figures.counted_at = Some(Source::BlockDevice);
        figures.bytes_per_transaction = Some(28_000.0);
        assert_eq!(found.value(&of(Figure::Megabytes)), Ok(28.0));
        assert!(found.value(&of(Figure::DataMegabytes)).is_err(), "no split is not no journal");
        let figures = &mut found.experiments[0].modes[0].median;
        figures.bytes_per_transaction_by_class =
            [(Class::Journal, 8_000.0), (Class::FsJournal, 20_000.0)].into();
        assert_eq!(found.value(&of(Figure::DataMegabytes)), Ok(8.0));
        // What a strategy wrote is not what reached the device.
        let figures = &mut found.experiments[0].modes[0].median;
        figures.counted_at = Some(Source::Strategies);
        assert!(found.value(&of(Figure::Megabytes)).is_err());
    }
}
