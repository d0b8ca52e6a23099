//! `oneflush report TRACE…|DATASET`: what the transactions of whole traces cost, in the terminal,
//! as JSON, as a page, as a trace for Perfetto.
//!
//! A signal ends the input, not the program. What was read until then is told, and the exit code is
//! 1.

#[cfg(feature = "laboratory")]
mod dataset;
mod files;
mod options;
pub mod read;
mod text;

use oneflush_measure::interrupt;
use oneflush_trace::report::{Perfetto, Report, Trace, page};

use crate::failure::Failure;
use crate::identify::input::{self, Input};
#[cfg(not(feature = "laboratory"))]
use crate::left_out::dataset;
use files::{Files, Unwritten, end, write};
pub use options::Options;
use read::Reading;

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
