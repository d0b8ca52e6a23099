//! `oneflush report DATASET`: the same of the transactions of many devices, and two groups of them
//! beside each other.

use std::io::{self, IsTerminal};
use std::path::Path;
use std::time::{Duration, Instant};

use indicatif::{HumanBytes, ProgressBar, ProgressDrawTarget, ProgressStyle};
use oneflush_fleet::{
    Answer, Compare, Comparison, Dataset, EXACT_BELOW, Filter, FleetError, Group, Question, Ratio,
    Watch, ask,
};
use oneflush_measure::interrupt;
use oneflush_trace::identify::Layer;
use oneflush_trace::report::{Finding, Report, Trace, page};
use serde::Serialize;

use super::files::{Files, Unwritten, end, write};
use super::options::Options;
use super::text;
use crate::failure::Failure;
use crate::identify::input;
use crate::layout::{grouped, plural, printable};

/// Work that is done sooner shows no progress.
const QUIET: Duration = Duration::from_secs(2);
/// Where no terminal is, a line each time.
const LINE_EVERY: Duration = Duration::from_secs(10);

pub fn main(options: &Options, dir: &Path) -> Result<(), Failure> {
    check(options).map_err(Failure::usage)?;
    let wrong = |error: FleetError| match error {
        FleetError::Io { .. } | FleetError::Parquet { .. } => Failure::failed(error),
        _ => Failure::usage(error.to_string()),
    };
    let question = Question {
        filter: Filter::parse(&options.wheres).map_err(wrong)?,
        compare: options.compare.as_deref().map(Compare::parse).transpose().map_err(wrong)?,
        is_shown: options.output.is_some(),
    };
    let dataset = Dataset::open(dir).map_err(wrong)?;
    interrupt::install().map_err(Failure::failed)?;
    let mut files = Files::open(options).map_err(Failure::failed)?;
    let mut progress = Progress::new();
    let answer = ask(&dataset, &question, &mut progress);
    progress.done();
    let answer = answer.map_err(wrong)?;
    let problems = answer.problems.clone();
    let was_stopped = answer.was_stopped;
    end(tell(options, dir, &question, answer, &mut files), files)?;
    for problem in &problems {
        eprintln!("oneflush: {}", printable(problem));
    }
    match (was_stopped, problems.len()) {
        (true, _) => Err(Failure::failed(format!(
            "{}: stopped by a signal; what was read until then is told",
            dir.display()
        ))),
        (false, 0) => Ok(()),
        (false, count) => Err(Failure::failed(format!(
            "{}: {} of the data set could not be read; the rest is told",
            dir.display(),
            plural(count as u64, "part")
        ))),
    }
}

/// What goes with traces only.
fn check(options: &Options) -> Result<(), String> {
    if options.traces.len() > 1 {
        return Err("a data set is reported alone; groups of it are compared with --compare".into());
    }
    if options.perfetto.is_some() {
        return Err("--perfetto: needs a trace's events, which a data set does not have".into());
    }
    if let Some(database) = &options.database {
        return Err(format!("--database: is for traces; give --where database={database}"));
    }
    if options.layer != Layer::Lowest {
        return Err("--layer: is for traces; it was chosen when they were identified".into());
    }
    Ok(())
}

/// The JSON of a data set: that of traces, and the comparison.
#[derive(Serialize)]
struct Json<'a> {
    #[serde(flatten)]
    report: &'a Report,
    comparison: Option<&'a Comparison>,
    problems: &'a [String],
}

fn tell(
    options: &Options,
    dir: &Path,
    question: &Question,
    answer: Answer,
    files: &mut Files,
) -> Result<(), Unwritten> {
    let Answer { groups, traces_count, has_devices, problems, .. } = answer;
    let comparison = match (&question.compare, groups.as_slice()) {
        (Some(compare), [first, second]) => {
            Some(Comparison::new(&compare.column, [first, second], has_devices))
        }
        _ => None,
    };
    let traces: Vec<Trace> = groups.into_iter().map(|group| named(group, dir, question)).collect();
    let report = Report::compared(&traces, comparison.iter().map(finding).collect());
    if let Some(file) = &mut files.page {
        write(file, &page(concat!("oneflush ", env!("CARGO_PKG_VERSION")), &report, &traces))?;
    }
    if options.json {
        let json = Json { report: &report, comparison: comparison.as_ref(), problems: &problems };
        let json = serde_json::to_string(&json).expect("numbers and texts are JSON");
        return write(&mut files.stdout, &json);
    }
    match &options.output {
        None => write(&mut files.stdout, text::tables(&report).trim_end()),
        Some(file) => {
            let file = file.display().to_string();
            write(&mut files.stdout, &text::written(&file, &report, traces_count))
        }
    }
}

/// Gives a group its name and notes.
fn named(group: Group, dir: &Path, question: &Question) -> Trace {
    let flushless = group.flushless_count();
    let Group { mut trace, value, .. } = group;
    let value = value.as_deref();
    trace.name = dir.display().to_string();
    trace.is_dataset = true;
    let of_value = question.compare.as_ref().zip(value);
    trace.label = match of_value {
        Some((compare, value)) => format!("{}={value}", compare.column),
        None => input::file_name(dir),
    };
    if let Some((compare, value)) = of_value {
        trace.name += &format!(", {}={value}", compare.column);
    }
    if !question.filter.is_empty() {
        trace.notes.push(format!("only rows with {}", question.filter.text()));
    }
    let count = trace.tally.count();
    let timeless = count - trace.tally.latencies_count();
    if timeless > 0 {
        trace.notes.push(format!(
            "{} have no latency, since their traces have no times; they are in no figure of it",
            plural(timeless, "transaction")
        ));
    }
    if flushless > 0 && flushless < count {
        trace.notes.push(format!(
            "{} are of traces of calls, which show no device: they count with no flush and no \
             bytes of the file system",
            plural(flushless, "transaction")
        ));
    }
    if count > EXACT_BELOW {
        trace.notes.push(
            "quantiles are within 0.1 %, those of single databases within 1.6 %, since there are \
             more than a million transactions"
                .to_owned(),
        );
    }
    let shown = trace.entries.len() as u64;
    if question.is_shown && shown < count {
        trace.notes.push(format!(
            "timeline and list show {} of {} transactions, drawn at random",
            grouped(shown),
            grouped(count)
        ));
    }
    trace
}

/// "build=B: A transaction writes 1.80 × (1.70 to 1.90) the bytes of one of build=A …"
fn finding(comparison: &Comparison) -> Finding {
    let Comparison { column, first, second, clusters_are, .. } = comparison;
    let times = |ratio: &Option<Ratio>| match ratio {
        None => "an unknown multiple of".to_owned(),
        Some(Ratio { value, bounds: None }) => format!("{value:.2} ×"),
        Some(Ratio { value, bounds: Some([low, high]) }) => {
            format!("{value:.2} × ({low:.2} to {high:.2})")
        }
    };
    let text = format!(
        "A transaction writes {} the bytes of one of {column}={first}, with {} the flushes and {} \
         the average latency.",
        times(&comparison.bytes),
        times(&comparison.flushes),
        times(&comparison.latency),
    );
    let [transactions, other_transactions] = comparison.transactions.map(grouped);
    let [clusters, other_clusters] = comparison.clusters;
    let bounds = match comparison.clusters.iter().min() {
        Some(0 | 1) => format!("no bounds: of one group there are no two {clusters_are}"),
        _ => format!(
            "bounds of {} %, from how {clusters_are} differ: {clusters} of {first}, \
             {other_clusters} of {second}",
            comparison.confidence_percent
        ),
    };
    Finding {
        kind: "comparison",
        trace: format!("{column}={second}"),
        text,
        basis: format!(
            "{transactions} transactions of {first}, {other_transactions} of {second}; {bounds}"
        ),
        action: format!(
            "Where bounds hold 1, nothing is shown: take more {clusters_are}. Compare the same \
             use: --where database=… or region=…."
        ),
    }
}

/// A bar on a terminal, lines elsewhere, once it takes a while.
struct Progress {
    bar: Option<ProgressBar>,
    begun: Instant,
    told: Instant,
    bytes: u64,
    all: u64,
}

impl Progress {
    fn new() -> Progress {
        let now = Instant::now();
        Progress { bar: None, begun: now, told: now, bytes: 0, all: 0 }
    }

    fn done(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

impl Watch for Progress {
    fn begin(&mut self, bytes: u64) {
        self.all = bytes;
        self.bar = io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::with_draw_target(Some(bytes), ProgressDrawTarget::hidden());
            let template = "{bar:30} {bytes} of {total_bytes}  {bytes_per_sec}, about {eta} left";
            // The template is constant; were it wrong, the default bar would do.
            if let Ok(style) = ProgressStyle::with_template(template) {
                bar.set_style(style);
            }
            bar
        });
    }

    fn goes_on(&mut self, bytes: u64) -> bool {
        self.bytes += bytes;
        match &self.bar {
            Some(bar) => {
                bar.inc(bytes);
                if bar.is_hidden() && self.begun.elapsed() > QUIET {
                    bar.set_draw_target(ProgressDrawTarget::stderr());
                }
            }
            None if self.told.elapsed() > LINE_EVERY => {
                self.told = Instant::now();
                let (bytes, all) = (HumanBytes(self.bytes), HumanBytes(self.all));
                eprintln!("oneflush report: {bytes} of {all} read");
            }
            None => {}
        }
        !interrupt::requested()
    }
}
