//! Where the time goes.

use super::finding::{Finding, finding, share, transactions};
use crate::report::collect::Trace;
use crate::report::tables::Tables;
use crate::report::words::{amount, count, duration, percent};

/// The tail is told if it is so many medians long. It also needs so many transactions that the
/// quantile means something.
const TAIL_MEDIANS_MIN: f64 = 5.0;
const TAIL_TRANSACTIONS_MIN: u64 = 1000;
const ROLLED_BACK_SHARE_MIN: f64 = 0.01;

pub(super) fn findings(trace: &Trace, tables: &Tables) -> Vec<Finding> {
    [long(trace, tables), tail(trace, tables), rolled_back(trace, tables)]
        .into_iter()
        .flatten()
        .collect()
}

fn long(trace: &Trace, tables: &Tables) -> Option<Finding> {
    let (number, silent) = (trace.tally.long_count, trace.tally.long_silent_count);
    (number > 0).then(|| {
        let why = match silent {
            0 => String::new(),
            _ => format!(
                " In {} of them nothing at all happened most of the time: the machine was \
                    suspended or idle.",
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
        let action = if silent == number {
            "Nothing in SQLite: judge the device by the 99 % quantile."
        } else {
            "Choose the slowest in the list of `oneflush report TRACE -o report.html`: its block \
                accesses show what it waited \
             for. `oneflush probe DIR` says whether the device or the file system is slow."
        };
        finding("long transactions", tables, text, transactions(tables), action)
    })
}

fn tail(trace: &Trace, tables: &Tables) -> Option<Finding> {
    let latency = &tables.latency_ms;
    // Without times the latencies are no numbers, and nothing is said.
    let medians = latency.q99 / latency.median.max(0.001);
    (tables.transactions >= TAIL_TRANSACTIONS_MIN && medians >= TAIL_MEDIANS_MIN).then(|| {
        let text = format!(
            "One transaction in a hundred takes {} or more, {medians:.0} times the median of {}.",
            duration(latency.q99),
            duration(latency.median),
        );
        let tally = &trace.tally;
        let slow_ns = tally.latencies.quantile(0.99);
        let [slow, checkpoints] =
            [&tally.latencies, &tally.checkpointed].map(|values| values.count_from(slow_ns));
        let action = if checkpoints * 2 > slow {
            "Most of the slow ones do a checkpoint. Set PRAGMA wal_autocheckpoint=0, and run \
                PRAGMA wal_checkpoint(PASSIVE) on \
             a connection of its own."
        } else {
            "Choose slow ones in the list of `oneflush report TRACE -o report.html`: their block \
                accesses show what they waited \
             for. `oneflush bench --plot-latency FILE.svg` shows the device without the program."
        };
        finding("latency tail", tables, text, transactions(tables), action)
    })
}

fn rolled_back(trace: &Trace, tables: &Tables) -> Option<Finding> {
    let of_all = share(tables.rolled_back, tables.transactions);
    (of_all >= ROLLED_BACK_SHARE_MIN).then(|| {
        let bytes = trace.tally.rolled_back.bytes;
        let text = format!(
            "{} of the transactions were rolled back, having written {}.",
            percent(of_all),
            amount(bytes as f64)
        );
        let basis = format!("{} of {}", count(tables.rolled_back), transactions(tables));
        let action = "Where the reason is a lock that another connection has: BEGIN IMMEDIATE \
            before the first statement, and \
                      PRAGMA busy_timeout. Where they are long: a larger PRAGMA cache_size writes \
                      nothing before COMMIT.";
        finding("rolled back", tables, text, basis, action)
    })
}
