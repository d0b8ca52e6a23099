//! Where the time goes.

use super::{Finding, amount, count, duration, finding, percent, share};
use crate::report::collect::{Entry, Trace};
use crate::report::databases::is_rolled_back;
use crate::report::tables::Tables;

/// The paper's bound of an extremely long transaction.
const LONG_NS_MIN: u64 = 1_000_000_000;
/// The tail is told where it is so many medians long, and has so many transactions that the quantile means something.
const TAIL_MEDIANS_MIN: f64 = 5.0;
const TAIL_TRANSACTIONS_MIN: u64 = 1000;
const ROLLED_BACK_SHARE_MIN: f64 = 0.01;

pub(super) fn findings(trace: &Trace, tables: &Tables) -> Vec<Finding> {
    [long(trace, tables), tail(tables), rolled_back(trace, tables)].into_iter().flatten().collect()
}

fn long(trace: &Trace, tables: &Tables) -> Option<Finding> {
    let long: Vec<&Entry> = trace.entries.iter().filter(|entry| entry.latency_ns >= LONG_NS_MIN).collect();
    let silent = long.iter().filter(|entry| entry.silent_ns * 2 > entry.latency_ns).count() as u64;
    let number = long.len() as u64;
    (number > 0).then(|| {
        let why = match silent {
            0 => String::new(),
            _ => format!(
                " In {} of them nothing at all happened most of the time: the machine was suspended or idle.",
                count(silent)
            ),
        };
        let took = if number == 1 { "transaction took" } else { "transactions took" };
        let text = format!(
            "{} {took} a second or more ({}), the longest {}.{why}",
            count(number),
            percent(share(number, tables.transactions)),
            duration(tables.latency_ms.max),
        );
        finding("long transactions", tables, text, format!("{} transactions", count(tables.transactions)))
    })
}

fn tail(tables: &Tables) -> Option<Finding> {
    let latency = &tables.latency_ms;
    let medians = latency.q99 / latency.median.max(0.001);
    (tables.transactions >= TAIL_TRANSACTIONS_MIN && medians >= TAIL_MEDIANS_MIN).then(|| {
        let text = format!(
            "One transaction in a hundred takes {} or more, {medians:.0} times the median of {}.",
            duration(latency.q99),
            duration(latency.median),
        );
        finding("latency tail", tables, text, format!("{} transactions", count(tables.transactions)))
    })
}

fn rolled_back(trace: &Trace, tables: &Tables) -> Option<Finding> {
    let of_all = share(tables.rolled_back, tables.transactions);
    (of_all >= ROLLED_BACK_SHARE_MIN).then(|| {
        let bytes: u64 = trace.entries.iter().filter(|entry| is_rolled_back(entry)).map(Entry::total_bytes).sum();
        let text = format!(
            "{} of the transactions were rolled back, having written {}.",
            percent(of_all),
            amount(bytes as f64)
        );
        let basis = format!("{} of {} transactions", count(tables.rolled_back), count(tables.transactions));
        finding("rolled back", tables, text, basis)
    })
}
