//! How far off the estimates of `oneflush advise` are: workloads of `oneflush bench` are recorded
//! with SQLite's own journals, advised, and then really measured with each strategy.
//!
//! A short one runs with the tests of every second commit. `ONEFLUSH_ADVISE_TEST=table` or `=fit`
//! asks for the others, as root:
//!
//! ```text
//! cargo test --release -p oneflush --test it advise_error -- --nocapture
//! ```
//!
//! `table` prints the table of `docs/results/advise.md`, `fit` a new
//! `crates/trace/src/advise/calibration.tsv`. Both take about an hour. `ONEFLUSH_ADVISE_RUNS` names
//! a folder that keeps recordings and measurements, and from which those that are there are taken.

mod cases;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use cases::{BRIEF, Case, FITTED, JUDGED};
use oneflush_trace::advise::{Advice, Calibration, Collector, Known, Loads, Strategy};
use oneflush_trace::identify::{Identifier, Transaction};
use oneflush_trace::import;
use serde_json::Value;

use crate::common::{Sandbox, skip_unless_root, stderr};

/// What the set-up of a benchmark writes at once. No transaction of these workloads does.
const SET_UP_BYTES_MIN: u64 = 2_000_000;
/// The set-up has no more transactions.
const SET_UP_COUNT_MAX: usize = 12;

/// Of a one-row insert into a table with AUTOINCREMENT.
const FRAMES_EACH: f64 = 2.0;
const FRAME_KB: f64 = 4120.0 / 1024.0;

/// Where recordings and measurements are.
struct Runs {
    folder: PathBuf,
    sandbox: Sandbox,
}

/// KB and flushes of a transaction.
#[derive(Clone, Copy, Debug)]
struct Cost {
    kb: f64,
    flushes: f64,
}

/// A recording, and what was measured of its workload.
struct Judged<'a> {
    case: &'a Case,
    mode: &'static str,
    loads: Loads,
    recorded: Cost,
    measured: BTreeMap<Strategy, Cost>,
}

/// One estimate beside what was measured.
struct Pair {
    strategy: Strategy,
    estimated: Cost,
    low_kb: f64,
    high_kb: f64,
    measured: Cost,
}

impl Pair {
    fn kb_error(&self) -> f64 {
        self.estimated.kb / self.measured.kb - 1.0
    }

    fn flush_error(&self) -> f64 {
        self.estimated.flushes / self.measured.flushes - 1.0
    }
}

impl Runs {
    fn new() -> Runs {
        let sandbox = Sandbox::new();
        let kept = std::env::var_os("ONEFLUSH_ADVISE_RUNS").map(PathBuf::from);
        let folder = kept.unwrap_or_else(|| sandbox.path().join("runs"));
        Runs { folder, sandbox }
    }

    /// `None`, and the test is skipped, where this machine cannot measure.
    fn judge<'a>(&self, case: &'a Case) -> Option<Vec<Judged<'a>>> {
        let mut measured = BTreeMap::new();
        for mode in case.strategies {
            let strategy = match mode.split(':').nth(1) {
                Some("plain") => Strategy::Plain,
                Some("eager") => Strategy::Eager,
                Some("waldio") => Strategy::Waldio,
                _ => Strategy::Maw,
            };
            measured.insert(strategy, self.bench(case, mode, case.measured, false)?);
        }
        let mut judged = Vec::new();
        for &mode in case.recorded {
            let recorded = self.bench(case, mode, case.transactions, true)?;
            let trace = self.file(case, mode, "zst");
            let loads = loads(&trace, case);
            judged.push(Judged { case, mode, loads, recorded, measured: measured.clone() });
        }
        Some(judged)
    }

    fn file(&self, case: &Case, mode: &str, kind: &str) -> PathBuf {
        self.folder.join(case.name).join(format!("{}.{kind}", mode.replace(':', "_")))
    }

    fn bench(&self, case: &Case, mode: &str, transactions: u64, records: bool) -> Option<Cost> {
        let result = self.file(case, mode, "json");
        if !result.exists() {
            fs::create_dir_all(result.parent().unwrap()).unwrap();
            let mode = if records { format!("{mode}:stock") } else { mode.to_owned() };
            let mut command = self.sandbox.oneflush();
            // The files of SQL need not outlive the run.
            let options = case.options(self.sandbox.path(), &mode, transactions);
            command.args(["bench", "--rounds", "1", "--modes", &mode, "--json"]).args(options);
            if records {
                command.arg("--keep-trace").arg(self.file(case, case_mode(&mode), "zst"));
            }
            let output = command.output().unwrap();
            let message = stderr(&output);
            if !output.status.success() && is_machines(&message) {
                oneflush_testing::skip(message.trim());
                return None;
            }
            assert!(output.status.success(), "{} {mode}: {message}", case.name);
            fs::write(&result, output.stdout).unwrap();
        }
        let report: Value = serde_json::from_slice(&fs::read(&result).unwrap()).unwrap();
        let median = &report["modes"][0]["median"];
        let number = |name: &str| median[name].as_f64();
        let (Some(bytes), Some(flushes)) =
            (number("bytes_per_transaction"), number("flushes_per_transaction"))
        else {
            oneflush_testing::skip("the benchmark has no bytes of a device here");
            return None;
        };
        // The estimate has a log's space in it.
        let laid_out = number("laid_out_bytes").unwrap_or_default();
        let each = laid_out / median["transactions"].as_f64().unwrap().max(1.0);
        Some(Cost { kb: (bytes + each) / 1024.0, flushes })
    }
}

fn case_mode(mode: &str) -> &str {
    mode.trim_end_matches(":stock")
}

/// No loop devices, no tracefs, no mkfs.
fn is_machines(message: &str) -> bool {
    ["loop", "tracefs", "trace instance", "mkfs", "namespace"]
        .iter()
        .any(|word| message.contains(word))
}

/// The transactions of a recording, without those of the set-up.
fn loads(trace: &Path, case: &Case) -> Loads {
    let mut reader = import::open(trace).unwrap();
    let mut identifier = Identifier::new().keep_accesses();
    let mut found: Vec<Transaction> = Vec::new();
    while let Some(event) = reader.next().unwrap() {
        identifier.push(&event, reader.names());
        found.extend(std::iter::from_fn(|| identifier.next_transaction()));
    }
    found.extend(identifier.finish(reader.names()).0);
    found.sort_by_key(|transaction| transaction.begin_ns);
    let is_set_up = |found: &Transaction| found.traffic.bytes() > SET_UP_BYTES_MIN;
    let set_up = found.iter().take(SET_UP_COUNT_MAX).rposition(is_set_up);
    // A file system without sync calls in its events may show one of the set-up as several.
    let more = found.len().saturating_sub(case.transactions as usize);
    found.drain(..set_up.map_or(0, |at| at + 1).max(more));
    let mut collector = Collector::default();
    for transaction in found {
        collector.time(transaction.begin_ns);
        collector.time(transaction.end_ns);
        collector.transaction(transaction);
    }
    collector.finish(false, |_| Known { page_bytes: Some(case.page_bytes()), is_plain: false })
}

impl Judged<'_> {
    fn pairs(&self, calibration: &Calibration) -> Vec<Pair> {
        let advice = Advice::calibrated(&self.loads, calibration);
        let is_long = self.case.measured > self.case.transactions;
        let pair = |(&strategy, &measured): (&Strategy, &Cost)| {
            let row = advice.total.iter().find(|row| row.strategy == strategy)?;
            let estimate = row.estimate.filter(|_| row.not_estimated.is_none())?;
            let (kb, flushes) = match is_long {
                true => (estimate.kb, estimate.flushes),
                false => (estimate.in_recording.kb, estimate.in_recording.flushes),
            };
            // A measurement begins with a new log and ends with a sync of the file system.
            let once_kb = match is_long {
                true => (estimate.once_kb + estimate.left_kb) / self.case.measured as f64,
                false => 0.0,
            };
            Some(Pair {
                strategy,
                estimated: Cost { kb: kb.likely + once_kb, flushes: flushes.likely },
                low_kb: kb.low + once_kb,
                high_kb: kb.high + once_kb,
                measured,
            })
        };
        self.measured.iter().filter_map(pair).collect()
    }
}

#[test]
fn estimates_for_plain_and_eager_are_near_what_is_measured() {
    if skip_unless_root("estimates_for_plain_and_eager_are_near_what_is_measured") {
        return;
    }
    match std::env::var("ONEFLUSH_ADVISE_TEST").as_deref() {
        Ok("table") => print_the_error_of_each_estimate(),
        Ok("fit") => print_numbers_that_fit(),
        Ok(other) => panic!("ONEFLUSH_ADVISE_TEST={other}: there are table and fit"),
        // In turns with the figures of all papers at a device (`bench_papers`): both take minutes.
        Err(_) if oneflush_testing::seed().is_multiple_of(2) => {
            oneflush_testing::skip("runs in every second commit, with ONEFLUSH_TEST_SEED=3 always")
        }
        Err(_) => short_workloads_are_estimated_well(),
    }
}

fn short_workloads_are_estimated_well() {
    let runs = Runs::new();
    for case in BRIEF {
        let Some(all) = runs.judge(case) else { return };
        for judged in all {
            let pairs = judged.pairs(Calibration::get());
            assert_eq!(pairs.len(), case.strategies.len(), "each strategy has an estimate");
            for pair in pairs {
                let Pair { strategy, estimated, measured, .. } = &pair;
                eprintln!("{} {strategy:?}: {estimated:?}, measured {measured:?}", judged.mode);
                // How much of the image `eager` has in memory at the end of so short a run is
                // chance: at this rate up to what comes in 5 s, then it is cut.
                let chance_kb = match strategy {
                    Strategy::Plain => 0.0,
                    _ => {
                        let commits = case.rate.unwrap_or(0.0) * 5.0;
                        commits * FRAMES_EACH * FRAME_KB / 2.0 / case.measured as f64
                    }
                };
                let error_kb = (estimated.kb - measured.kb).abs();
                assert!(error_kb <= 0.1 * measured.kb + chance_kb, "{strategy:?}");
                assert!(pair.flush_error().abs() <= 0.1, "{strategy:?}");
                // What it stands against is much more, or the test would show nothing.
                assert!(judged.recorded.kb > 1.2 * measured.kb || judged.mode == "wal");
            }
        }
    }
}

/// The table of `docs/results/advise.md`.
fn print_the_error_of_each_estimate() {
    let runs = Runs::new();
    let mut errors: BTreeMap<Strategy, Vec<(f64, f64)>> = BTreeMap::new();
    println!(
        "| workload | recorded | KB, flushes | strategy | KB estimated | measured | error | \
         flushes estimated | measured | error |\n\
         |---|---|---:|---|---:|---:|---:|---:|---:|---:|"
    );
    for case in JUDGED {
        let Some(all) = runs.judge(case) else { return };
        for judged in all {
            for pair in judged.pairs(Calibration::get()) {
                let Pair { strategy, estimated, measured, .. } = &pair;
                let range = match pair.high_kb > pair.low_kb * 1.1 {
                    true => format!(" ({:.1} to {:.1})", pair.low_kb, pair.high_kb),
                    false => String::new(),
                };
                println!(
                    "| {} | {} | {:.1}, {:.2} | {} | {:.1}{range} | {:.1} | {:+.0} % | {:.2} | \
                     {:.2} | {:+.0} % |",
                    case.name,
                    judged.mode,
                    judged.recorded.kb,
                    judged.recorded.flushes,
                    strategy.name(),
                    estimated.kb,
                    measured.kb,
                    pair.kb_error() * 100.0,
                    estimated.flushes,
                    measured.flushes,
                    pair.flush_error() * 100.0,
                );
                errors.entry(*strategy).or_default().push((pair.kb_error(), pair.flush_error()));
            }
        }
    }
    for (strategy, errors) in errors {
        let count = errors.len();
        let within = |is: &dyn Fn(&(f64, f64)) -> f64| {
            errors.iter().filter(|error| is(error).abs() <= 0.1).count()
        };
        let median = |is: &dyn Fn(&(f64, f64)) -> f64| {
            let mut all: Vec<f64> = errors.iter().map(|error| is(error).abs()).collect();
            all.sort_by(f64::total_cmp);
            all[count / 2] * 100.0
        };
        println!(
            "{}: of {count}, KB within 10 %: {}, median {:.1} %; flushes within 10 %: {}, median \
             {:.1} %",
            strategy.name(),
            within(&|error| error.0),
            median(&|error| error.0),
            within(&|error| error.1),
            median(&|error| error.1),
        );
    }
}

/// Changes one number after the other as long as the errors become smaller.
/// A new `crates/trace/src/advise/calibration.tsv`.
fn print_numbers_that_fit() {
    let runs = Runs::new();
    let mut all = Vec::new();
    for case in FITTED {
        let Some(judged) = runs.judge(case) else { return };
        all.extend(judged);
    }
    let error = |calibration: &Calibration| -> f64 {
        let pairs = all.iter().flat_map(|judged| judged.pairs(calibration));
        pairs.map(|pair| pair.kb_error().powi(2) + pair.flush_error().powi(2)).sum()
    };
    let mut best = Calibration::get().clone();
    let mut least = error(&best);
    println!("# squared errors: {least:.4}");
    for step in [1.2, 1.08, 1.03] {
        let count = best.numbers().len();
        for at in 0..count {
            for factor in [step, 1.0 / step] {
                loop {
                    let mut tried = best.clone();
                    *tried.numbers()[at].1 *= factor;
                    let error = error(&tried);
                    if !is_sound(&mut tried) || error >= least * 0.9999 {
                        break;
                    }
                    (best, least) = (tried, error);
                }
            }
        }
        println!("# steps of {step}: {least:.4}");
    }
    println!("{best}");
}

/// A share is a share, and a number of commits is one at least.
fn is_sound(calibration: &mut Calibration) -> bool {
    let is_growing = |numbers: &[f64]| numbers.is_sorted() && numbers[0] >= 1.0;
    let Calibration { delta_bytes, growth_share, fill_share, .. } = &*calibration;
    [delta_bytes, growth_share, fill_share].iter().all(|range| range.is_sorted())
        && is_growing(&calibration.threads_share)
        && is_growing(&calibration.eager_threads_share)
        && is_growing(&calibration.eager_processes_share)
        && is_growing(&calibration.merged_share)
}
