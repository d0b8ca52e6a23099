//! `oneflush identify TRACE…`: the SQLite transactions in traces, as a table of the databases or
//! one line a transaction.
//!
//! A transaction is told when it is complete. Only one line of figures a database is kept, so a
//! trace of any length fits. A signal ends the input, not the program. What was found until then is
//! told in full, and the exit code is 1.

#[cfg(feature = "laboratory")]
mod dataset;
mod dataset_options;
pub mod input;
mod options;
#[cfg_attr(not(feature = "laboratory"), path = "left_out/parquet.rs")]
mod parquet;
pub mod reading;
mod record;
pub mod shown;
pub mod table;

use std::io;

use oneflush_measure::interrupt;
use oneflush_trace::identify::{Observed, Scope, Transaction};
use oneflush_trace::import::{ImportError, Reader};
use oneflush_trace::model::{Event, Names};

use crate::failure::Failure;
#[cfg(not(feature = "laboratory"))]
use crate::left_out::dataset;
use crate::output::Output;
use input::Input;
pub use options::Options;
use parquet::ParquetFile;
use reading::{Asked, End, Sink};
use table::{Heading, Table};

/// How the traces end up in the output.
enum Form {
    Table,
    Lines(fn(&str, &Transaction, Scope, &Names) -> String),
}

pub fn main(options: &Options) -> Result<(), Failure> {
    if let Some(dir) = &options.dataset.dataset {
        return dataset::main(options, dir);
    }
    // Said before anything is read.
    #[cfg(not(feature = "laboratory"))]
    if options.parquet.is_some() {
        return Err(Failure::usage(crate::left_out::message("Parquet files")));
    }
    let inputs = input::open_all(
        &options.traces,
        [("-o", &options.output), ("--parquet", &options.parquet)],
    )?;
    let lines = options
        .output
        .as_deref()
        .map_or_else(|| Ok(Output::stdout()), |path| Output::named("-o", path))
        .map_err(Failure::failed)?;
    let parquet =
        options.parquet.as_deref().map(ParquetFile::create).transpose().map_err(Failure::failed)?;
    let mut outputs = Outputs { lines, parquet };
    match tell(options, inputs, &mut outputs) {
        Ok(()) => outputs.finish().map_err(Failure::failed),
        // The reader of the lines has seen enough (`| head`). But half a Parquet file would look
        // like a whole one.
        Err(Stop::Lines(error))
            if error.kind() == io::ErrorKind::BrokenPipe && outputs.parquet.is_none() =>
        {
            Ok(())
        }
        Err(Stop::Lines(error)) => {
            Err(Failure::failed(format!("{}: {error}", outputs.lines.name())))
        }
        Err(Stop::Parquet(error)) => Err(Failure::failed(error)),
        Err(Stop::Input(error)) => {
            outputs.finish().map_err(Failure::failed)?;
            Err(Failure::failed(error))
        }
    }
}

/// Where the transactions go.
struct Outputs {
    lines: Output,
    parquet: Option<ParquetFile>,
}

impl Outputs {
    fn finish(self) -> Result<(), String> {
        self.lines.finish()?;
        self.parquet.map_or(Ok(()), ParquetFile::finish)
    }
}

/// Why not everything was told.
enum Stop {
    Lines(io::Error),
    Parquet(String),
    /// All that could be read was told.
    Input(String),
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Stop {
        Stop::Lines(error)
    }
}

fn tell(options: &Options, inputs: Vec<Input>, outputs: &mut Outputs) -> Result<(), Stop> {
    let form = match (options.json, options.csv) {
        (true, _) => Form::Lines(record::json_line),
        (_, true) => Form::Lines(record::csv_line),
        _ => Form::Table,
    };
    if options.csv {
        outputs.lines.line(&record::csv_head())?;
    }
    let mut damaged = None;
    for (n, mut input) in inputs.into_iter().enumerate() {
        if n > 0 && matches!(form, Form::Table) {
            outputs.lines.line("")?;
        }
        let error = trace(options, &form, &mut input, outputs)?;
        damaged = damaged.or(error.map(|error| error.to_string()));
        if interrupt::requested() {
            let message =
                format!("{}: stopped by a signal; what was read until then is told", input.name);
            return Err(Stop::Input(message));
        }
    }
    match damaged {
        Some(error) => Err(Stop::Input(format!("{error}; what was read until then is told"))),
        None => Ok(()),
    }
}

/// An error of reading ends the trace like its end, and is given back.
fn trace(
    options: &Options,
    form: &Form,
    input: &mut Input,
    outputs: &mut Outputs,
) -> Result<Option<ImportError>, Stop> {
    let database = options.database.as_deref();
    let asked = Asked { layer: options.layer, database, keeps_accesses: false };
    let (heading, table) = Default::default();
    let mut seen = Seen { form, name: &input.name, heading, table, outputs };
    let end = asked.read(&mut input.reader, &mut seen);
    input.progress.done();
    let end = end?;
    seen.end(database, &end, &input.reader)?;
    Ok(end.error)
}

/// What is done with one trace.
struct Seen<'a> {
    form: &'a Form,
    name: &'a str,
    heading: Heading,
    table: Table,
    outputs: &'a mut Outputs,
}

impl Sink for Seen<'_> {
    type Stop = Stop;

    fn event(&mut self, event: &Event) -> Result<(), Stop> {
        self.heading.event(event);
        Ok(())
    }

    fn transaction(
        &mut self,
        transaction: Transaction,
        observed: Observed,
        reader: &Reader,
    ) -> Result<(), Stop> {
        let known = Scope { observed, has_times: reader.has_times() };
        match self.form {
            Form::Table => self.table.add(&transaction),
            Form::Lines(line) => {
                let line = line(self.name, &transaction, known, reader.names());
                self.outputs.lines.line(&line)?;
            }
        }
        if let Some(file) = &mut self.outputs.parquet {
            file.add(self.name, &transaction, known, reader.names()).map_err(Stop::Parquet)?;
        }
        Ok(())
    }
}

impl Seen<'_> {
    fn end(&mut self, database: Option<&str>, end: &End, reader: &Reader) -> io::Result<()> {
        let notes = end.shown.notes(end.count, reader.skipped());
        match self.form {
            Form::Table => {
                let known = Scope { observed: end.shown.observed, has_times: reader.has_times() };
                let text = self.table.render(
                    &self.heading,
                    self.name,
                    reader,
                    &end.summary,
                    database.map(|wanted| (wanted, end.left_out)),
                    (known, &notes),
                );
                text.lines().try_for_each(|line| self.outputs.lines.line(line))
            }
            // Lines are for programs; what a reader of them must know of the trace goes beside.
            Form::Lines(_) => {
                for note in notes.iter().chain(&table::skipped(reader.skipped(), false)) {
                    eprintln!("{}: {}", self.name, note.trim_start());
                }
                Ok(())
            }
        }
    }
}
