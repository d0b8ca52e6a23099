//! Reads one trace to its end: each event, and each transaction once it is complete.
//!
//! An error of reading ends a trace like its end. What was found until then is told.

use oneflush_trace::identify::{Identifier, Layer, Observed, Summary, Transaction};
use oneflush_trace::import::{ImportError, Reader};
use oneflush_trace::model::Event;

use super::shown::Shown;

/// What is read of a trace.
#[derive(Clone, Copy)]
pub struct Asked<'a> {
    pub layer: Layer,
    /// A part of the name of the databases; none: all of them.
    pub database: Option<&'a str>,
    /// The single requests are needed.
    pub keeps_accesses: bool,
}

/// What is done with a trace, in its order.
pub trait Sink {
    /// Why no more is wanted.
    type Stop;

    fn event(&mut self, event: &Event) -> Result<(), Self::Stop>;

    /// `observed`: what the trace has shown so far.
    fn transaction(
        &mut self,
        transaction: Transaction,
        observed: Observed,
        reader: &Reader,
    ) -> Result<(), Self::Stop>;
}

/// A trace that was read.
pub struct End {
    pub shown: Shown,
    pub summary: Summary,
    /// All transactions, also those that were not asked for.
    pub count: u64,
    /// Transactions that were not asked for.
    pub left_out: u64,
    /// Why the rest could not be read.
    pub error: Option<ImportError>,
}

impl Asked<'_> {
    pub fn read<S: Sink>(&self, reader: &mut Reader, sink: &mut S) -> Result<End, S::Stop> {
        let mut identifier = Identifier::new().count_at(self.layer);
        if self.keeps_accesses {
            identifier = identifier.keep_accesses();
        }
        let (mut count, mut left_out) = (0, 0);
        let mut take = |transaction: Transaction, observed, reader: &Reader, sink: &mut S| {
            count += 1;
            if self.wants(&transaction) {
                return sink.transaction(transaction, observed, reader);
            }
            left_out += 1;
            Ok(())
        };
        let error = loop {
            match reader.next() {
                Ok(Some(event)) => {
                    sink.event(&event)?;
                    identifier.push(&event, reader.names());
                }
                Ok(None) => break None,
                Err(error) => break Some(error),
            }
            while let Some(transaction) = identifier.next_transaction() {
                take(transaction, identifier.observed(), reader, sink)?;
            }
        };
        let shown = Shown::of(&identifier, self.layer);
        let (rest, summary) = identifier.finish(reader.names());
        for transaction in rest {
            take(transaction, shown.observed, reader, sink)?;
        }
        Ok(End { shown, summary, count, left_out, error })
    }

    fn wants(&self, transaction: &Transaction) -> bool {
        let Some(wanted) = self.database else { return true };
        std::iter::once(&transaction.database)
            .chain(&transaction.others)
            .any(|database| database.to_string().contains(wanted))
    }
}
