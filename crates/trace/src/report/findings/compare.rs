//! Traces beside the first one.

use super::finding::{Finding, TRANSACTIONS_COUNT_MIN, finding};
use crate::report::tables::Tables;
use crate::report::words::{amount, count, duration};

pub(super) fn findings(tables: &[Tables]) -> Vec<Finding> {
    let Some((first, others)) = tables.split_first() else { return Vec::new() };
    if first.transactions < TRANSACTIONS_COUNT_MIN {
        return Vec::new();
    }
    others
        .iter()
        .filter(|other| other.transactions >= TRANSACTIONS_COUNT_MIN)
        .map(|other| said(first, other))
        .collect()
}

fn said(first: &Tables, other: &Tables) -> Finding {
    let change = |before: f64, after: f64| match (after / before - 1.0) * 100.0 {
        percent if percent.is_finite() && percent.abs() >= 0.5 => format!(" ({percent:+.0} %)"),
        _ => String::new(),
    };
    let flushes = |tables: &Tables| Some(tables.flushes? as f64 / tables.transactions as f64);
    let flushes = match (flushes(other), flushes(first)) {
        (Some(after), Some(before)) => format!(", has {after:.1} flushes in place of {before:.1}"),
        _ => String::new(),
    };
    let (bytes, before_bytes) = (other.kb.average * 1024.0, first.kb.average * 1024.0);
    let (latency, before_latency) = (other.latency_ms.median, first.latency_ms.median);
    let latency = match latency.is_nan() || before_latency.is_nan() {
        true => String::new(),
        false => format!(
            ", and a median latency of {} in place of {}{}",
            duration(latency),
            duration(before_latency),
            change(before_latency, latency),
        ),
    };
    let text = format!(
        "Beside {}, a transaction writes {} in place of {}{}{flushes}{latency}.",
        first.trace,
        amount(bytes),
        amount(before_bytes),
        change(before_bytes, bytes),
    );
    let basis = format!(
        "averages of {} and {} transactions",
        count(other.transactions),
        count(first.transactions)
    );
    let action = "Find the databases that differ on a page of both: `oneflush report FIRST OTHER \
        -o report.html`.";
    finding("comparison", other, text, basis, action)
}
