//! `oneflush report TRACE…|DATASET`: what the transactions of whole traces cost, in the terminal,
//! as JSON, as a page, as a trace for Perfetto.
//!
//! A signal ends the input, not the program. What was read until then is told, and the exit code is
//! 1.

#[cfg(feature = "laboratory")]
mod dataset;
pub mod read;
mod text;

use std::io;
use std::path::{Path, PathBuf};

use clap::Args;
use oneflush_measure::interrupt;
use oneflush_trace::identify::Layer;
use oneflush_trace::report::{Perfetto, Report, Trace, page};

use crate::Failure;
use crate::identify::input::{self, Input};
#[cfg(not(feature = "laboratory"))]
use crate::left_out::dataset;
use crate::output::Output;
use read::Reading;

const EXAMPLES: &str = "It reads what `oneflush identify` reads. Quantiles, classes and figures are
those of \"On the IO characteristics of the SQLite transactions\"
(MobileSoft'16); findings say what stands out, and what they rest on.

Examples:
  oneflush report trace.txt.gz                     tables and findings
  oneflush report before.txt after.txt             two traces side by side
  oneflush report trace.txt -o report.html         one page with charts, which
                                                   needs no network
  oneflush report trace.txt --json | jq .findings  for programs
  oneflush report trace.txt --perfetto trace.json  to open at ui.perfetto.dev
  oneflush report --database rmq.db phone.po       only this database
  oneflush report fleet                            a data set of many devices
  oneflush report fleet --where 'device=kiosk-7,day>=2026-11-01'
  oneflush report fleet --compare build=A,B        two builds, with bounds";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Options {
    /// Traces in any of the formats that `oneflush identify` reads; - is standard input. Or one
    /// data set, a folder that `oneflush identify --dataset` has made
    #[arg(value_name = "TRACE", required = true)]
    traces: Vec<PathBuf>,
    /// Write a page (HTML) to this file, which is replaced only when all is done
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print one JSON object with all figures in place of the tables
    #[arg(long)]
    json: bool,
    /// Write transactions, flushes and the devices' queues to this file, for ui.perfetto.dev
    #[arg(long, value_name = "FILE")]
    perfetto: Option<PathBuf>,
    /// Only transactions of databases whose path or place holds this text
    #[arg(long, value_name = "SUBSTRING")]
    database: Option<String>,
    /// Where devices lie on each other, count bytes, requests and flushes at this one: lowest,
    /// highest or MAJOR,MINOR
    #[arg(long, value_name = "LAYER", default_value = "lowest", value_parser = input::layer)]
    layer: Layer,
    /// Of a data set, only rows that meet all conditions: NAME, one of = != < <= > >=, VALUE; NAME
    /// is a label, day or a column. Can be given several times
    #[arg(long = "where", value_name = "CONDITION,…")]
    wheres: Vec<String>,
    /// Of a data set, two groups beside each other: a column that has two values, or a column and
    /// two of its values
    #[arg(long, value_name = "NAME[=A,B]")]
    compare: Option<String>,
}

pub fn main(options: &Options) -> Result<(), Failure> {
    if let Some(dir) = options.traces.iter().find(|path| path.is_dir()) {
        return dataset::main(options, dir);
    }
    if !options.wheres.is_empty() || options.compare.is_some() {
        return Err(Failure::usage(
            "--where and --compare are for a data set; `oneflush identify --dataset DIR` makes one",
        ));
    }
    let inputs = input::open_all(
        &options.traces,
        [("-o", &options.output), ("--perfetto", &options.perfetto)],
    )?;
    let mut files = Files::open(options).map_err(Failure::failed)?;
    let mut damaged = None;
    let told = tell(options, inputs, &mut files).map(|why| damaged = why);
    end(told, files)?;
    damaged.map_or(Ok(()), |why| Err(Failure::failed(why)))
}

/// All was told, or could not be written.
fn end(told: Result<(), Unwritten>, files: Files) -> Result<(), Failure> {
    match told {
        Ok(()) => files.finish().map_err(Failure::failed),
        // Whoever reads has seen enough (`| head`).
        Err((name, error))
            if error.kind() == io::ErrorKind::BrokenPipe && name == STANDARD_OUTPUT =>
        {
            files.finish_files().map_err(Failure::failed)
        }
        Err((name, error)) => Err(Failure::failed(format!("{name}: {error}"))),
    }
}

const STANDARD_OUTPUT: &str = "standard output";

/// Where the results go.
struct Files {
    stdout: Output,
    page: Option<Output>,
    perfetto: Option<Output>,
}

impl Files {
    fn open(options: &Options) -> Result<Files, String> {
        let file = |name: &str, path: &Option<PathBuf>| {
            path.as_deref().map(|path: &Path| Output::named(name, path)).transpose()
        };
        Ok(Files {
            page: file("-o", &options.output)?,
            perfetto: file("--perfetto", &options.perfetto)?,
            stdout: Output::stdout(),
        })
    }

    fn finish(self) -> Result<(), String> {
        self.stdout.finish()?;
        [self.page, self.perfetto].into_iter().flatten().try_for_each(Output::finish)
    }

    fn finish_files(self) -> Result<(), String> {
        [self.page, self.perfetto].into_iter().flatten().try_for_each(Output::finish)
    }
}

/// An error of writing, with the name of what was written.
type Unwritten = (String, io::Error);

fn write(output: &mut Output, text: &str) -> Result<(), Unwritten> {
    output.line(text).map_err(|error| (output.name(), error))
}

/// Reads all and tells all; gives back why not all could be read.
fn tell(
    options: &Options,
    inputs: Vec<Input>,
    files: &mut Files,
) -> Result<Option<String>, Unwritten> {
    let mut reading = Reading {
        wanted: options.database.as_deref(),
        keeps_accesses: files.page.is_some() || files.perfetto.is_some(),
        layer: options.layer,
        perfetto: Perfetto::default(),
        perfetto_file: files.perfetto.as_mut(),
    };
    let labels = read::labels(&inputs.iter().map(|input| input.name.as_str()).collect::<Vec<_>>());
    let mut traces: Vec<Trace> = Vec::new();
    let mut damaged = None;
    for (mut input, label) in inputs.into_iter().zip(labels) {
        let (trace, error) = reading.trace(&mut input, label)?;
        traces.push(trace);
        damaged =
            damaged.or(error.map(|error| format!("{error}; what was read until then is told")));
        if interrupt::requested() {
            damaged = Some(format!(
                "{}: stopped by a signal; what was read until then is told",
                input.name
            ));
            break;
        }
    }
    reading.finish()?;
    let report = Report::new(&traces);
    if let Some(file) = &mut files.page {
        write(file, &page(concat!("oneflush ", env!("CARGO_PKG_VERSION")), &report, &traces))?;
    }
    if options.json {
        let json = serde_json::to_string(&report).expect("numbers and texts are JSON");
        write(&mut files.stdout, &json)?;
    } else if options.output.is_none() && options.perfetto.is_none() {
        write(&mut files.stdout, text::tables(&report).trim_end())?;
    } else {
        for file in [&options.output, &options.perfetto].into_iter().flatten() {
            write(
                &mut files.stdout,
                &text::written(&file.display().to_string(), &report, traces.len()),
            )?;
        }
    }
    Ok(damaged)
}
