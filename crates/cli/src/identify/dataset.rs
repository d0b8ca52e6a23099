//! `oneflush identify TRACE… --dataset DIR`: each trace becomes rows of a data set.
//!
//! A trace that cannot be read is one line on standard error and a row that says why. The other
//! traces go on, and the exit code is 1. A signal ends the run between traces: what is in the data
//! set by then is whole, and the trace that was being read is left out.

use std::collections::HashSet;
use std::path::Path;
use std::time::SystemTime;

use oneflush_fleet::{
    Dataset, FleetError, Labels, LabelsFile, Moment, Source, Told, TraceWriter, Written, time,
};
use oneflush_measure::interrupt;
use oneflush_trace::identify::{Layer, Observed, Scope, Transaction};
use oneflush_trace::import::{self, Reader};
use oneflush_trace::model::Event;

use super::input::{self, Input};
use super::options::Options;
use super::reading::{Asked, End, Sink};
use super::table::Heading;
use crate::failure::Failure;
use crate::layout::{plural, printable};
use crate::output::Output;
use crate::report::read::notes;

/// What came of all traces.
#[derive(Default)]
struct Sum {
    traces: u64,
    rows: u64,
    unread: u64,
    /// Traces of which nothing is in the data set.
    missing: u64,
    /// Of traces that are in it: the same one may have been given twice.
    ids: HashSet<String>,
}

/// A name that cannot steer the terminal.
fn said(path: &Path) -> String {
    printable(&path.display().to_string())
}

pub fn main(options: &Options, dir: &Path) -> Result<(), Failure> {
    let own = &options.dataset;
    let traces = input::distinct(&options.traces).map_err(Failure::usage)?;
    if traces.iter().any(|trace| input::is_standard_input(trace)) {
        return Err(Failure::usage(
            "-: a data set names a trace by its hash, before its first row: \
             write standard input to a file first",
        ));
    }
    let wrong = |error: FleetError| Failure::usage(error.to_string());
    let begin = own.begin.as_deref().map(time).transpose();
    let begin = begin.map_err(|error| Failure::usage(format!("--begin: {error}")))?;
    let mut given = Labels::default();
    for text in &own.label {
        given.extend(&Labels::parse(text).map_err(wrong)?);
    }
    let file = own.labels.as_deref().map(LabelsFile::read).transpose().map_err(wrong)?;
    let dataset = Dataset::open_or_make(dir, own.by.as_deref()).map_err(|error| match error {
        FleetError::Io { .. } => Failure::failed(error),
        _ => wrong(error),
    })?;
    interrupt::install().map_err(Failure::failed)?;
    let mut output = Output::stdout();
    let mut sum = Sum::default();
    for path in &traces {
        let done = one(options.layer, &dataset, path, (&given, file.as_ref()), begin);
        if interrupt::requested() && done.is_none() {
            return Err(Failure::failed(format!(
                "{}: stopped by a signal; {} of {} are in {}",
                path.display(),
                plural(sum.traces, "trace"),
                traces.len(),
                dir.display()
            )));
        }
        let line = sum.take(path, done);
        // Whoever reads may have seen enough (`| head`); the data set goes on.
        let _ = line.map_or(Ok(()), |line| output.line(&line));
    }
    let _ = output.line(&sum.said(dir));
    output.finish().map_err(Failure::failed)?;
    sum.end(dir)
}

/// `Err`: why a trace, or its end, is not in the data set.
type Done = Result<(Written, Option<String>), String>;

impl Sum {
    /// A line for standard output. What went wrong goes to standard error.
    fn take(&mut self, path: &Path, done: Option<Done>) -> Option<String> {
        match done? {
            Ok((written, error)) => {
                if self.ids.insert(written.id.clone()) {
                    self.traces += 1;
                    self.rows += written.rows;
                }
                if let Some(error) = error {
                    self.unread += 1;
                    eprintln!("oneflush: {}", printable(&error));
                }
                let of = written.device.map_or("no device".to_owned(), |name| format!("of {name}"));
                let again = if written.is_replaced { ", again" } else { "" };
                let rows = plural(written.rows, "transaction");
                Some(printable(&format!("{}: {rows} {of}{again}", path.display())))
            }
            Err(error) => {
                self.missing += 1;
                eprintln!("oneflush: {}", printable(&error));
                None
            }
        }
    }

    fn said(&self, dir: &Path) -> String {
        let traces = plural(self.traces, "trace");
        format!("{}: {} of {traces}", dir.display(), plural(self.rows, "transaction"))
    }

    fn end(&self, dir: &Path) -> Result<(), Failure> {
        let mut said = Vec::new();
        if self.unread > 0 {
            let traces = plural(self.unread, "trace");
            said.push(format!(
                "{traces} not read to the end (column error in {}/traces)",
                dir.display()
            ));
        }
        if self.missing > 0 {
            said.push(format!("{} not in it", plural(self.missing, "trace")));
        }
        if said.is_empty() { Ok(()) } else { Err(Failure::failed(said.join("; "))) }
    }
}

/// One trace. `None`: a signal came, and nothing of it was written.
fn one(
    layer: Layer,
    dataset: &Dataset,
    path: &Path,
    (given, file): (&Labels, Option<&LabelsFile>),
    begin: Option<SystemTime>,
) -> Option<Done> {
    if interrupt::requested() {
        return None;
    }
    let begun = || -> Result<(TraceWriter, Source), FleetError> {
        let source = Source::of(path, &import::parts(path), &|| !interrupt::requested())?;
        let of_file = file.map(|file| file.of(path)).transpose()?.flatten();
        if file.is_some() && of_file.is_none() {
            eprintln!("oneflush: {}: the file of --labels has no line for it", said(path));
        }
        let (mut labels, own_begin) =
            of_file.map_or((Labels::default(), None), |(labels, begin)| (labels.clone(), begin));
        labels.extend(given);
        let writer = TraceWriter::begin(dataset, source.clone(), labels, begin.or(own_begin));
        Ok((writer, source))
    };
    let (writer, source) = match begun() {
        Ok(begun) => begun,
        Err(_) if interrupt::requested() => return None,
        Err(error) => return Some(Err(error.to_string())),
    };
    let of_dataset =
        |error: FleetError| format!("{}: not in the data set: {error}", path.display());
    match Input::open(path) {
        Ok(input) => {
            let done = rows(layer, writer, input).map(|done| done.map_err(of_dataset));
            if source.has_changed() {
                eprintln!(
                    "oneflush: {}: has changed while it was read; identify it when it is whole, \
                     and remove what is there now by its ID",
                    said(path)
                );
            }
            done
        }
        Err(error) => {
            let error = error.to_string();
            let told = Told { error: Some(error.clone()), ..Told::default() };
            Some(writer.finish(told).map(|written| (written, Some(error))).map_err(of_dataset))
        }
    }
}

/// The rows of one trace.
struct Rows<'a> {
    writer: TraceWriter<'a>,
    heading: Heading,
}

impl Sink for Rows<'_> {
    type Stop = FleetError;

    fn event(&mut self, event: &Event) -> Result<(), FleetError> {
        self.heading.event(event);
        Ok(())
    }

    fn transaction(
        &mut self,
        transaction: Transaction,
        observed: Observed,
        reader: &Reader,
    ) -> Result<(), FleetError> {
        let moment = Moment {
            known: Scope { observed, has_times: reader.has_times() },
            names: reader.names(),
            facts: reader.facts(),
            first_ns: self.heading.span().0,
        };
        self.writer.add(&transaction, moment)
    }
}

type Identified = Result<(Written, Option<String>), FleetError>;

fn rows(layer: Layer, writer: TraceWriter, mut input: Input) -> Option<Identified> {
    let mut rows = Rows { writer, heading: Heading::default() };
    let asked = Asked { layer, database: None, keeps_accesses: false };
    let end = asked.read(&mut input.reader, &mut rows);
    input.progress.done();
    // A signal has ended the input before its end.
    if interrupt::requested() {
        return None;
    }
    Some(end.and_then(|end| rows.finish(&end, &input.reader)))
}

impl Rows<'_> {
    fn finish(self, end: &End, reader: &Reader) -> Identified {
        let skipped = reader.skipped();
        let mut notes = notes(skipped);
        notes.extend(end.shown.notes(end.count, skipped));
        let (first_ns, last_ns) = self.heading.span();
        let error = end.error.as_ref().map(ToString::to_string);
        let told = Told {
            format: Some(reader.format().to_string()),
            facts: reader.facts().clone(),
            first_ns,
            last_ns,
            events: self.heading.events(),
            transactions_cut: end.summary.partial_count,
            has_device: end.shown.observed.device,
            skipped: skipped.clone(),
            notes,
            error: error.clone(),
        };
        self.writer.finish(told).map(|written| (written, error))
    }
}
