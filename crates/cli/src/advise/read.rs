//! Reads a trace to its end: its transactions into loads for the estimates.

use std::path::Path;

use oneflush_trace::advise::{Collector, Known, Loads};
use oneflush_trace::identify::{Identifier, Layer, Transaction};
use oneflush_trace::import::{ImportError, Reader};

use super::page_bytes_of;
use crate::identify::input::Input;
use crate::identify::shown::Shown;
use crate::report::read;
use oneflush_bench::interrupt;

pub struct Reading<'a> {
    /// A part of the name of the databases that are asked for.
    pub wanted: Option<&'a str>,
    pub layer: Layer,
    pub page_bytes: Option<u64>,
}

/// A trace that was read.
pub struct Trace {
    pub name: String,
    pub format: String,
    pub loads: Loads,
    pub notes: Vec<String>,
    /// Why not all could be read.
    pub damage: Option<String>,
}

impl Reading<'_> {
    pub fn trace(&self, input: &mut Input) -> Trace {
        let (mut trace, error) = self.events(&input.name, &mut input.reader);
        input.progress.done();
        trace.damage = match error {
            Some(error) => Some(format!("{error}; what was read until then is told")),
            None if interrupt::requested() => Some(format!(
                "{}: stopped by a signal; what was read until then is told",
                input.name
            )),
            None => None,
        };
        trace
    }

    /// An error of reading ends the trace like its end, and is given back.
    pub fn events(&self, name: &str, reader: &mut Reader) -> (Trace, Option<ImportError>) {
        let mut collector = Collector::default();
        let mut identifier = Identifier::new().count_at(self.layer).keep_accesses();
        let mut count = 0;
        let mut take = |transaction: Transaction, collector: &mut Collector| {
            count += 1;
            if self.wants(&transaction) {
                collector.transaction(transaction);
            }
        };
        let error = loop {
            match reader.next() {
                Ok(Some(event)) => {
                    collector.event(&event);
                    identifier.push(&event, reader.names());
                }
                Ok(None) => break None,
                Err(error) => break Some(error),
            }
            while let Some(transaction) = identifier.next_transaction() {
                take(transaction, &mut collector);
            }
        };
        let shown = Shown::of(&identifier, self.layer);
        let (rest, summary) = identifier.finish(reader.names());
        rest.into_iter().for_each(|transaction| take(transaction, &mut collector));
        let mut notes = read::notes(reader.skipped());
        notes.extend(shown.notes(count, reader.skipped()));
        if summary.partial_count > 0 {
            notes.push(format!("{} transactions cut off and not counted", summary.partial_count));
        }
        if let Some(wanted) = self.wanted {
            notes.push(format!("only databases with \"{wanted}\" in their name"));
        }
        let known = |database: &str| Known {
            page_bytes: self.page_bytes.or_else(|| page_bytes_of(Path::new(database))),
        };
        let trace = Trace {
            name: name.to_owned(),
            format: reader.format().to_string(),
            loads: collector.finish(!shown.observed.device, known),
            notes,
            damage: None,
        };
        (trace, error)
    }

    fn wants(&self, transaction: &Transaction) -> bool {
        let Some(wanted) = self.wanted else { return true };
        std::iter::once(&transaction.database)
            .chain(&transaction.others)
            .any(|database| database.to_string().contains(wanted))
    }
}
