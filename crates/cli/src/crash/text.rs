//! The result of a run for a terminal of 80 columns, and a failing case in words. What was not done
//! has no line.

use std::fmt::{Display, Write};

use oneflush_crashlab::{
    Case, Crash, Fault, Loss, Occurrence, Reading, Report, Tear, WorkloadReport,
};

const WIDTH: usize = 80;

/// `subject`: what ran on the disk.
pub fn table<C>(subject: &dyn Display, seed: u64, report: &Report<C>) -> String {
    let mut out = format!("{subject}; seed {seed}\n");
    let total = report.total();
    if total.cases > 0 || total.faults.cells > 0 {
        out.push('\n');
        workloads(&mut out, report, &total);
    }
    out.push('\n');
    let counts = &total.counts;
    line(&mut out, "moments", &[""], &[counts.moments]);
    line(&mut out, "reading", &Reading::ALL.map(Reading::name), &counts.by_reading);
    line(&mut out, "crash", &Tear::ALL.map(Tear::name), &counts.by_tear);
    line(&mut out, "depth", &["1:", "2:", "3:"], &counts.by_depth);
    let files: Vec<_> =
        counts.losses.iter().map(|(kind, lost)| (format!("in states *.db{kind}"), lost)).collect();
    let width = files.iter().map(|(name, _)| name.len()).max().unwrap_or_default();
    for (name, lost) in files {
        line(&mut out, &format!("{name:width$}"), &Loss::ALL.map(Loss::name), &lost);
    }
    let names = Occurrence::ALL.map(Occurrence::name);
    line(&mut out, "states in", &names, &counts.occurrences.counts());
    line(&mut out, "faults", &Fault::ALL.map(Fault::name), &total.faults.runs);
    let found = if report.violation.is_some() { "1 violation" } else { "no violation" };
    let seconds = report.elapsed.as_secs_f64();
    let _ = write!(out, "{found} in {seconds:.1} s");
    if counts.states > 0 {
        let _ = write!(out, ", {:.0} states/s", counts.states as f64 / seconds);
    }
    out.push('\n');
    out
}

fn workloads<C>(out: &mut String, report: &Report<C>, total: &WorkloadReport) {
    let name_width = report
        .workloads
        .keys()
        .map(|name| name.len())
        .max()
        .unwrap_or_default()
        .max("workload".len());
    let mut row = |name: &str, [cases, states, duplicates, faults, of, after]: [&str; 6]| {
        let _ = writeln!(
            out,
            "{name:name_width$} {cases:>7} {states:>10} {duplicates:>11} {faults:>10} {of:>9} \
                {after:>8}"
        );
    };
    row("workload", ["cases", "states", "duplicates", "faults run", "of", "states"]);
    for (name, report) in
        report.workloads.iter().map(|(name, report)| (*name, report)).chain([("all", total)])
    {
        let cells = [
            report.cases,
            report.counts.states,
            report.counts.duplicates,
            report.faults.runs.iter().sum::<u64>(),
            report.faults.cells,
            report.faults.states,
        ];
        if cells != [0; 6] {
            row(name, cells.map(|count| count.to_string()).each_ref().map(String::as_str));
        }
    }
}

/// The counts by their names, in as many lines as they need.
fn line(out: &mut String, title: &str, names: &[&str], counts: &[u64]) {
    if counts.iter().all(|count| *count == 0) {
        return;
    }
    let mut line = format!("{title:<9}");
    let indent = line.len();
    for (n, (name, count)) in names.iter().zip(counts).enumerate() {
        let part = format!("{name} {count}");
        if n > 0 {
            line.push(',');
        }
        if n > 0 && line.len() + 1 + part.len() >= WIDTH {
            let _ = writeln!(out, "{line}");
            line = " ".repeat(indent);
        }
        line.push(' ');
        line += part.trim_start();
    }
    let _ = writeln!(out, "{line}");
}

/// Where the power was lost, or what else failed, and what was found then.
pub fn crashes(case: &Case) -> String {
    let mut out = String::new();
    if let Some(cell) = &case.cell {
        let lasting = if cell.plan.lasting { "from then on" } else { "once" };
        let (fault, at) = (cell.plan.fault.name(), cell.plan.at + 1);
        let then = cell.then.name();
        let _ = writeln!(
            out,
            "  {fault} {lasting}, at the operation number {at} that it can strike; then: {then}"
        );
    }
    losses(&mut out, &case.crashes, &|depth| case.describe(depth));
    let _ = writeln!(out, "  {}", case.message);
    out
}

/// `describe`: what a crash does to the operations in flight.
pub fn losses(out: &mut String, crashes: &[Crash], describe: &dyn Fn(usize) -> String) {
    for (depth, crash) in crashes.iter().enumerate() {
        let place = if depth == 0 { "in the run" } else { "in the recovery" };
        let (after, what, reading) = (crash.after, describe(depth), crash.reading.name());
        let _ = writeln!(out, "  power lost {place} after operation {after}, {reading}, {what}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_and_numbers_keep_to_80_columns() {
        let mut out = String::new();
        line(&mut out, "crash", &Tear::ALL.map(Tear::name), &[u64::MAX; Tear::ALL.len()]);
        line(
            &mut out,
            "in states *.db-oneflush-wal",
            &Loss::ALL.map(Loss::name),
            &[99_999_999; Loss::ALL.len()],
        );
        line(&mut out, "faults", &Fault::ALL.map(Fault::name), &[0; Fault::ALL.len()]);
        assert_eq!(out.lines().count(), 4, "{out}");
        assert!(out.lines().all(|line| line.len() <= WIDTH), "{out}");
    }
}
