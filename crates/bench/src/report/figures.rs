//! The figures of one slice, and the median of several slices' figures.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::observe::{Class, ClassCounts, Source};
use crate::run::SliceResult;

#[derive(Clone, Debug, Serialize)]
pub struct Figures {
    pub transactions: u64,
    pub seconds: f64,
    pub transactions_per_s: f64,
    pub latency_ns: LatencyFigures,
    pub cpu_us_per_transaction: f64,
    pub counted_at: Option<Source>,
    pub bytes_per_transaction: Option<f64>,
    pub writes_per_transaction: Option<f64>,
    pub flushes_per_transaction: Option<f64>,
    /// Empty where the totals could not be split.
    pub bytes_per_transaction_by_class: BTreeMap<Class, f64>,
    pub writes_per_transaction_by_class: BTreeMap<Class, f64>,
    pub trace_events_lost: u64,
    /// Bytes that no rule gave to a class, as a part of all; they are in `other`.
    pub unattributed_ratio: f64,
}

#[derive(Clone, Debug, Serialize)]
pub struct LatencyFigures {
    pub p50: u64,
    pub p95: u64,
    pub p99: u64,
    pub p999: u64,
    pub max: u64,
}

impl Figures {
    pub fn of(slice: &SliceResult) -> Figures {
        let transactions = slice.transactions.max(1) as f64;
        let seconds = slice.elapsed_ns as f64 / 1e9;
        let counts = slice.counts.as_ref();
        let per_transaction = |total: u64| total as f64 / transactions;
        let by_class = |pick: fn(&ClassCounts) -> u64| {
            let all = counts.map(|counts| &counts.by_class).into_iter().flatten();
            all.map(|(class, of_class)| (*class, per_transaction(pick(of_class)))).collect()
        };
        Figures {
            transactions: slice.transactions,
            seconds,
            transactions_per_s: if seconds > 0.0 { slice.transactions as f64 / seconds } else { 0.0 },
            latency_ns: LatencyFigures {
                p50: slice.latencies.at_quantile_ns(0.5),
                p95: slice.latencies.at_quantile_ns(0.95),
                p99: slice.latencies.at_quantile_ns(0.99),
                p999: slice.latencies.at_quantile_ns(0.999),
                max: slice.latencies.max_ns(),
            },
            cpu_us_per_transaction: per_transaction(slice.cpu_ns) / 1e3,
            counted_at: counts.map(|counts| counts.source),
            bytes_per_transaction: counts.map(|counts| per_transaction(counts.bytes)),
            writes_per_transaction: counts.map(|counts| per_transaction(counts.writes)),
            flushes_per_transaction: counts.map(|counts| per_transaction(counts.flushes)),
            bytes_per_transaction_by_class: by_class(|counts| counts.bytes),
            writes_per_transaction_by_class: by_class(|counts| counts.writes),
            trace_events_lost: counts.map_or(0, |counts| counts.events_lost),
            unattributed_ratio: counts
                .map_or(0.0, |counts| counts.unattributed_bytes as f64 / counts.bytes.max(1) as f64),
        }
    }

    pub fn median(rounds: &[Figures]) -> Figures {
        let of = |pick: &dyn Fn(&Figures) -> f64| median(rounds.iter().map(pick).collect());
        let of_option = |pick: &dyn Fn(&Figures) -> Option<f64>| {
            let values: Vec<f64> = rounds.iter().filter_map(pick).collect();
            (!values.is_empty()).then(|| median(values))
        };
        let by_class = |pick: &dyn Fn(&Figures) -> &BTreeMap<Class, f64>| {
            let present = |class: &Class| rounds.iter().any(|round| pick(round).contains_key(class));
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
            latency_ns: LatencyFigures {
                p50: of(&|round| round.latency_ns.p50 as f64) as u64,
                p95: of(&|round| round.latency_ns.p95 as f64) as u64,
                p99: of(&|round| round.latency_ns.p99 as f64) as u64,
                p999: of(&|round| round.latency_ns.p999 as f64) as u64,
                max: rounds.iter().map(|round| round.latency_ns.max).max().unwrap_or(0),
            },
            cpu_us_per_transaction: of(&|round| round.cpu_us_per_transaction),
            counted_at: rounds.iter().find_map(|round| round.counted_at),
            bytes_per_transaction: of_option(&|round| round.bytes_per_transaction),
            writes_per_transaction: of_option(&|round| round.writes_per_transaction),
            flushes_per_transaction: of_option(&|round| round.flushes_per_transaction),
            bytes_per_transaction_by_class: by_class(&|round| &round.bytes_per_transaction_by_class),
            writes_per_transaction_by_class: by_class(&|round| &round.writes_per_transaction_by_class),
            trace_events_lost: rounds.iter().map(|round| round.trace_events_lost).sum(),
            unattributed_ratio: of(&|round| round.unattributed_ratio),
        }
    }
}

/// The middle value, or the mean of the two in the middle.
fn median(mut values: Vec<f64>) -> f64 {
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
