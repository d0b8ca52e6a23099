//! Tables of the workloads that answer one question: what reads cost, and what a reader that does
//! not end does to writers.

use super::format::{megabytes, millis, option, significant};
use super::table::{Table, Titled, floors, speed, speed_head};
use super::{ModeReport, Report, Spread};

/// What a read takes; where a writer is beside the readers, its figures as well.
pub fn reads(report: &Report) -> Table {
    let micros = |ns: u64| significant(ns as f64 / 1e3);
    let beside = report.modes.iter().any(|mode| mode.median.beside.is_some());
    let row = |mode: &ModeReport| {
        let latency = &mode.median.latency_ns;
        let mut cells = vec![report.label(mode), format!("{:.0}", mode.median.transactions_per_s)];
        cells.extend(
            [latency.mean, latency.p50, latency.p99, latency.p999, latency.max].map(micros),
        );
        if beside {
            let writer = mode.median.beside.as_ref();
            cells.push(option(writer.map(|writer| writer.commits_per_s), |rate| {
                format!("{rate:.0}")
            }));
            cells.push(
                writer.map_or_else(|| "-".to_owned(), |writer| millis(writer.latency_ns.p99)),
            );
        }
        cells
    };
    let mut head = vec!["mode", report.unit.per_second(), "mean", "p50", "p99", "p99.9", "max"];
    if beside {
        head.extend(["commit/s", "p99"]);
    }
    Table { head, rows: report.modes.iter().map(row).collect() }
}

/// Commits of modes that worked in turns, where nobody can tell whose a byte is.
pub fn in_turns(report: &Report) -> Table {
    let row = |mode: &ModeReport| {
        let mut cells = speed(report, mode);
        cells.push(format!("{:.0}", mode.median.cpu_us_per_transaction));
        cells.push(format!("{:.3}", floors(report, mode)));
        cells
    };
    let mut head = speed_head(report);
    head.extend(["CPU µs", "p50/floor"]);
    Table { head, rows: report.modes.iter().map(row).collect() }
}

/// The time of a unit, divided by that of the control in the same round: the median of the rounds
/// with its bounds. Of few rounds: with the lowest and the highest.
pub fn ratios(report: &Report) -> Titled {
    let all = || report.modes.iter().filter_map(|mode| mode.to_control.as_ref());
    let bounded = all().all(|to_control| to_control.mean.bounds.is_some());
    let cells = |spread: &Spread| {
        let [low, high] = spread.bounds.unwrap_or([spread.lowest, spread.highest]);
        [format!("{:.3}", spread.median), format!("{low:.3}"), format!("{high:.3}")]
    };
    let row = |mode: &ModeReport| {
        let to_control = mode.to_control.as_ref()?;
        let mut row = vec![report.label(mode), to_control.control.clone()];
        row.extend(
            [&to_control.mean, &to_control.p50, &to_control.cpu].into_iter().flat_map(cells),
        );
        Some(row)
    };
    let title = if bounded {
        "To the control's of the same round; median of the rounds and its bounds (95 %):"
    } else {
        "To the control's of the same round; median, lowest and highest of the rounds:"
    };
    let table = Table {
        head: vec!["mode", "to", "mean", "low", "high", "p50", "low", "high", "CPU", "low", "high"],
        rows: report.modes.iter().filter_map(row).collect(),
    };
    Titled { title: title.to_owned(), table }
}

/// Rates and longest commits of a run's parts, and how large the WAL was at its end.
pub fn phases(report: &Report) -> Table {
    let row = |mode: &ModeReport| {
        let phases = &mode.median.phases;
        let mut cells = vec![report.label(mode)];
        cells.extend(phases.iter().map(|phase| format!("{:.0}", phase.transactions_per_s)));
        let rate = |at: usize| phases.get(at).map(|phase| phase.transactions_per_s);
        let kept = rate(1)
            .zip(rate(0))
            .filter(|(_, before)| *before > 0.0)
            .map(|(during, before)| during / before);
        cells.push(option(kept, |ratio| format!("{ratio:.2}")));
        cells.extend(phases.iter().map(|phase| millis(phase.latency_ns.max)));
        cells.push(option(mode.median.wal_bytes_at_end.map(|bytes| bytes as f64), megabytes));
        cells
    };
    Table {
        head: vec![
            "mode",
            "before",
            "while",
            "after",
            "while/before",
            "before",
            "while",
            "after",
            "WAL",
        ],
        rows: report.modes.iter().map(row).collect(),
    }
}
