//! The figures of one slice, and the median of several slices' figures.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use oneflush_measure::observe::{Class, ClassCounts, Source, WriteShape};
use oneflush_measure::place::FlashCounts;
use oneflush_measure::run::SliceResult;
use oneflush_measure::run::companion::CompanionResult;
use oneflush_measure::run::latency::Latencies;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Figures {
    pub transactions: u64,
    pub seconds: f64,
    pub transactions_per_s: f64,
    pub latency_ns: LatencyFigures,
    pub cpu_us_per_transaction: f64,
    pub counted_at: Option<Source>,
    /// Without what was laid out.
    pub bytes_per_transaction: Option<f64>,
    /// Once, in the whole of a round: zeros for the space of a WAL or a log, ahead of its use.
    /// None: nobody knows, and they are in the bytes of the transactions.
    #[serde(default)]
    pub laid_out_bytes: Option<f64>,
    pub writes_per_transaction: Option<f64>,
    pub flushes_per_transaction: Option<f64>,
    /// Empty where the totals could not be split.
    pub bytes_per_transaction_by_class: BTreeMap<Class, f64>,
    pub writes_per_transaction_by_class: BTreeMap<Class, f64>,
    /// Of a write request with data, in sectors of 512 bytes.
    #[serde(default)]
    pub request_sectors_mean: Option<f64>,
    /// Sectors in bursts longer than 128 sectors, as a part of all.
    #[serde(default)]
    pub sequential_ratio: Option<f64>,
    /// Of an emulated flash device.
    #[serde(default)]
    pub flash: Option<FlashFigures>,
    /// What SQLite asked our VFS for. None where SQLite works alone.
    #[serde(default)]
    pub calls_per_transaction: Option<CallFigures>,
    pub trace_events_lost: u64,
    /// Bytes that no rule gave to a class, as a part of all; they are in `other`.
    pub unattributed_ratio: f64,
    /// None in modes without WAL.
    pub wal_bytes_at_end: Option<u64>,
    /// The parts of a run that has some, in their order.
    pub phases: Vec<PhaseFigures>,
    /// Of the connection beside the measured ones.
    pub beside: Option<CompanionFigures>,
}

/// What an emulated flash device did.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FlashFigures {
    pub programmed_bytes_per_transaction: f64,
    /// Programmed bytes for each that the host wrote.
    pub write_amplification: f64,
    pub erases_per_1000_transactions: f64,
    /// Of the emulated device, at one transaction a second.
    pub life_days: f64,
    /// Of an answer, in the mean: by so much the emulation was slower than the device.
    pub late_us_mean: f64,
}

/// Calls of SQLite to files, without those to temporary files and folders.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CallFigures {
    pub writes: f64,
    pub syncs: f64,
    pub bytes: f64,
}

/// A part of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PhaseFigures {
    pub name: String,
    pub seconds: f64,
    pub transactions: u64,
    pub transactions_per_s: f64,
    pub latency_ns: LatencyFigures,
}

/// Before, while and after something: the one kind of parts that there is.
const PHASE_NAMES: [&str; 3] = ["before", "while", "after"];

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CompanionFigures {
    pub commits: u64,
    pub commits_per_s: f64,
    pub latency_ns: LatencyFigures,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LatencyFigures {
    pub mean: u64,
    pub p50: u64,
    pub p95: u64,
    pub p99: u64,
    pub p999: u64,
    pub max: u64,
}

impl LatencyFigures {
    fn of(latencies: &Latencies) -> LatencyFigures {
        LatencyFigures {
            mean: latencies.mean_ns().round() as u64,
            p50: latencies.at_quantile_ns(0.5),
            p95: latencies.at_quantile_ns(0.95),
            p99: latencies.at_quantile_ns(0.99),
            p999: latencies.at_quantile_ns(0.999),
            max: latencies.max_ns(),
        }
    }

    /// Each figure's median, but the longest of all.
    fn median<'a>(all: impl Iterator<Item = &'a LatencyFigures> + Clone) -> LatencyFigures {
        let of = |pick: fn(&LatencyFigures) -> u64| {
            median(all.clone().map(|one| pick(one) as f64).collect()) as u64
        };
        LatencyFigures {
            mean: of(|one| one.mean),
            p50: of(|one| one.p50),
            p95: of(|one| one.p95),
            p99: of(|one| one.p99),
            p999: of(|one| one.p999),
            max: all.clone().map(|one| one.max).max().unwrap_or(0),
        }
    }
}

impl PhaseFigures {
    fn of(slice: &SliceResult) -> Vec<PhaseFigures> {
        let named = PHASE_NAMES.into_iter().zip(&slice.phases);
        let figures =
            |(name, (length, latencies)): (&'static str, &(Duration, Latencies))| PhaseFigures {
                name: name.to_owned(),
                seconds: length.as_secs_f64(),
                transactions: latencies.count(),
                transactions_per_s: rate(latencies.count(), length.as_secs_f64()),
                latency_ns: LatencyFigures::of(latencies),
            };
        named.map(figures).collect()
    }

    fn median(rounds: &[Figures]) -> Vec<PhaseFigures> {
        let names = rounds.first().map_or(0, |round| round.phases.len());
        let median_of = |at: usize| {
            let all = rounds.iter().filter_map(move |round| round.phases.get(at));
            let of = |pick: fn(&PhaseFigures) -> f64| median(all.clone().map(pick).collect());
            PhaseFigures {
                name: PHASE_NAMES[at].to_owned(),
                seconds: of(|phase| phase.seconds),
                transactions: of(|phase| phase.transactions as f64) as u64,
                transactions_per_s: of(|phase| phase.transactions_per_s),
                latency_ns: LatencyFigures::median(all.clone().map(|phase| &phase.latency_ns)),
            }
        };
        (0..names).map(median_of).collect()
    }
}

impl FlashFigures {
    fn of(flash: &FlashCounts, transactions: f64) -> FlashFigures {
        const SECONDS_PER_DAY: f64 = 86_400.0;
        let programmed = flash.programmed_bytes as f64;
        let each = programmed / transactions;
        FlashFigures {
            programmed_bytes_per_transaction: each,
            write_amplification: programmed / flash.host_bytes.max(1) as f64,
            erases_per_1000_transactions: flash.erases as f64 * 1000.0 / transactions,
            life_days: flash.life_bytes as f64 / (each * SECONDS_PER_DAY).max(1.0),
            late_us_mean: flash.late_us as f64 / flash.answers.max(1) as f64,
        }
    }

    fn median(rounds: &[Figures]) -> Option<FlashFigures> {
        let all = rounds.iter().filter_map(|round| round.flash.as_ref());
        let of = |pick: fn(&FlashFigures) -> f64| median(all.clone().map(pick).collect());
        all.clone().next().map(|_| FlashFigures {
            programmed_bytes_per_transaction: of(|one| one.programmed_bytes_per_transaction),
            write_amplification: of(|one| one.write_amplification),
            erases_per_1000_transactions: of(|one| one.erases_per_1000_transactions),
            life_days: of(|one| one.life_days),
            late_us_mean: of(|one| one.late_us_mean),
        })
    }
}

impl CallFigures {
    fn median(rounds: &[Figures]) -> Option<CallFigures> {
        let all = rounds.iter().filter_map(|round| round.calls_per_transaction.as_ref());
        let of = |pick: fn(&CallFigures) -> f64| median(all.clone().map(pick).collect());
        all.clone().next().map(|_| CallFigures {
            writes: of(|calls| calls.writes),
            syncs: of(|calls| calls.syncs),
            bytes: of(|calls| calls.bytes),
        })
    }
}

impl CompanionFigures {
    /// None for one that does not commit.
    fn of(companion: &CompanionResult) -> Option<CompanionFigures> {
        let commits = companion.latencies.count();
        (commits > 0).then(|| CompanionFigures {
            commits,
            commits_per_s: rate(commits, companion.elapsed_ns as f64 / 1e9),
            latency_ns: LatencyFigures::of(&companion.latencies),
        })
    }

    fn median(rounds: &[Figures]) -> Option<CompanionFigures> {
        let all = rounds.iter().filter_map(|round| round.beside.as_ref());
        let of = |pick: fn(&CompanionFigures) -> f64| median(all.clone().map(pick).collect());
        all.clone().next().map(|_| CompanionFigures {
            commits: of(|beside| beside.commits as f64) as u64,
            commits_per_s: of(|beside| beside.commits_per_s),
            latency_ns: LatencyFigures::median(all.clone().map(|beside| &beside.latency_ns)),
        })
    }
}

fn rate(count: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { count as f64 / seconds } else { 0.0 }
}

impl Figures {
    /// Nothing was measured.
    pub fn none() -> Figures {
        Figures::median(&[])
    }

    pub fn of(slice: &SliceResult) -> Figures {
        let transactions = slice.transactions.max(1) as f64;
        let seconds = slice.elapsed_ns as f64 / 1e9;
        let beside = slice.companion.as_ref().and_then(CompanionFigures::of);
        // Where another connection writes as well, nobody can say whose the bytes are.
        let counts = slice.counts.as_ref().filter(|_| beside.is_none());
        let shape = counts.and_then(|counts| counts.shape.as_ref());
        let per_transaction = |total: u64| total as f64 / transactions;
        // The zeros reached the device, or not at all: then they are not among the counts.
        let laid_out = counts.and(slice.laid_out_bytes);
        let apart = |bytes: u64| bytes.saturating_sub(laid_out.unwrap_or_default());
        let by_class = |pick: &dyn Fn(Class, &ClassCounts) -> u64| {
            let all = counts.map(|counts| &counts.by_class).into_iter().flatten();
            all.map(|(class, counts)| (*class, per_transaction(pick(*class, counts)))).collect()
        };
        let bytes_of = |class, counts: &ClassCounts| match class {
            Class::Journal => apart(counts.bytes),
            _ => counts.bytes,
        };
        let writes = counts.and_then(|counts| counts.writes);
        Figures {
            transactions: slice.transactions,
            seconds,
            transactions_per_s: rate(slice.transactions, seconds),
            latency_ns: LatencyFigures::of(&slice.latencies),
            cpu_us_per_transaction: per_transaction(slice.cpu_ns) / 1e3,
            counted_at: counts.map(|counts| counts.source),
            bytes_per_transaction: counts.map(|counts| per_transaction(apart(counts.bytes))),
            laid_out_bytes: laid_out.map(|bytes| bytes as f64),
            writes_per_transaction: writes.map(per_transaction),
            flushes_per_transaction: counts.map(|counts| per_transaction(counts.flushes)),
            bytes_per_transaction_by_class: by_class(&bytes_of),
            writes_per_transaction_by_class: match writes {
                Some(_) => by_class(&|_, counts| counts.writes),
                None => BTreeMap::new(),
            },
            request_sectors_mean: shape.and_then(WriteShape::request_sectors_mean),
            sequential_ratio: shape.and_then(WriteShape::sequential_ratio),
            flash: counts
                .and_then(|counts| counts.flash.as_ref())
                .map(|flash| FlashFigures::of(flash, transactions)),
            calls_per_transaction: slice.calls.as_ref().map(|calls| CallFigures {
                writes: per_transaction(calls.writes),
                syncs: per_transaction(calls.syncs),
                bytes: per_transaction(calls.bytes),
            }),
            trace_events_lost: counts.map_or(0, |counts| counts.events_lost),
            unattributed_ratio: counts.map_or(0.0, |counts| {
                counts.unattributed_bytes as f64 / counts.bytes.max(1) as f64
            }),
            wal_bytes_at_end: slice.wal_bytes_at_end,
            phases: PhaseFigures::of(slice),
            beside,
        }
    }

    /// With what was laid out.
    pub fn all_bytes_per_transaction(&self) -> Option<f64> {
        let laid_out = self.laid_out_bytes.unwrap_or_default();
        Some(self.bytes_per_transaction? + laid_out / self.transactions.max(1) as f64)
    }

    pub fn median(rounds: &[Figures]) -> Figures {
        let of = |pick: &dyn Fn(&Figures) -> f64| median(rounds.iter().map(pick).collect());
        let of_option = |pick: &dyn Fn(&Figures) -> Option<f64>| {
            let values: Vec<f64> = rounds.iter().filter_map(pick).collect();
            (!values.is_empty()).then(|| median(values))
        };
        let by_class = |pick: &dyn Fn(&Figures) -> &BTreeMap<Class, f64>| {
            let present =
                |class: &Class| rounds.iter().any(|round| pick(round).contains_key(class));
            Class::ALL
                .into_iter()
                .filter(present)
                .map(|class| (class, of(&|round| pick(round).get(&class).copied().unwrap_or(0.0))))
                .collect()
        };
        Figures {
            transactions: of(&|round| round.transactions as f64) as u64,
            seconds: of(&|round| round.seconds),
            transactions_per_s: of(&|round| round.transactions_per_s),
            latency_ns: LatencyFigures::median(rounds.iter().map(|round| &round.latency_ns)),
            cpu_us_per_transaction: of(&|round| round.cpu_us_per_transaction),
            counted_at: rounds.iter().find_map(|round| round.counted_at),
            bytes_per_transaction: of_option(&|round| round.bytes_per_transaction),
            laid_out_bytes: of_option(&|round| round.laid_out_bytes),
            writes_per_transaction: of_option(&|round| round.writes_per_transaction),
            flushes_per_transaction: of_option(&|round| round.flushes_per_transaction),
            bytes_per_transaction_by_class: by_class(&|round| {
                &round.bytes_per_transaction_by_class
            }),
            writes_per_transaction_by_class: by_class(&|round| {
                &round.writes_per_transaction_by_class
            }),
            request_sectors_mean: of_option(&|round| round.request_sectors_mean),
            sequential_ratio: of_option(&|round| round.sequential_ratio),
            flash: FlashFigures::median(rounds),
            calls_per_transaction: CallFigures::median(rounds),
            trace_events_lost: rounds.iter().map(|round| round.trace_events_lost).sum(),
            unattributed_ratio: of(&|round| round.unattributed_ratio),
            wal_bytes_at_end: of_option(&|round| round.wal_bytes_at_end.map(|bytes| bytes as f64))
                .map(|bytes| bytes as u64),
            phases: PhaseFigures::median(rounds),
            beside: CompanionFigures::median(rounds),
        }
    }
}

/// The middle value, or the mean of the two in the middle.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => 0.0,
        count if count % 2 == 1 => values[middle],
        _ => (values[middle - 1] + values[middle]) / 2.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_of_even_and_odd_counts() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!(median(vec![]), 0.0);
    }
}
