//! Reads traces to their ends: transactions into a [`Trace`], and both events and transactions into
//! lines for Perfetto.

use oneflush_trace::identify::{Identifier, Layer, Transaction};
use oneflush_trace::import::{ImportError, Skipped};
use oneflush_trace::model::Names;
use oneflush_trace::report::{Collector, Perfetto, Trace};

use super::{Unwritten, write};
use crate::identify::input::Input;
use crate::identify::shown::{self, Shown};
use crate::identify::table::{grouped, plural};
use crate::output::Output;

pub struct Reading<'a> {
    /// A part of the name of the databases that are asked for.
    pub wanted: Option<&'a str>,
    /// The single requests are needed.
    pub keeps_accesses: bool,
    pub layer: Layer,
    pub perfetto: Perfetto,
    pub perfetto_file: Option<&'a mut Output>,
}

impl Reading<'_> {
    /// One trace. An error of reading ends it like its end, and is given back.
    pub fn trace(
        &mut self,
        input: &mut Input,
        label: String,
    ) -> Result<(Trace, Option<ImportError>), Unwritten> {
        let mut collector = Collector::default();
        let mut identifier = Identifier::new().count_at(self.layer);
        if self.keeps_accesses {
            identifier = identifier.keep_accesses();
        }
        if let Some(file) = &mut self.perfetto_file {
            self.perfetto.trace(&label).iter().try_for_each(|line| write(file, line))?;
        }
        let mut count = 0;
        let error = loop {
            match input.reader.next() {
                Ok(Some(event)) => {
                    collector.event(&event);
                    if let Some(file) = &mut self.perfetto_file
                        && let Some(line) = self.perfetto.event(&event)
                    {
                        write(file, &line)?;
                    }
                    identifier.push(&event, input.reader.names());
                }
                Ok(None) => break None,
                Err(error) => break Some(error),
            }
            while let Some(transaction) = identifier.next_transaction() {
                count += 1;
                self.take(transaction, input.reader.names(), &mut collector)?;
            }
        };
        let shown = Shown::of(&identifier, self.layer);
        let (rest, summary) = identifier.finish(input.reader.names());
        for transaction in rest {
            count += 1;
            self.take(transaction, input.reader.names(), &mut collector)?;
        }
        input.progress.done();
        let mut trace = collector.finish();
        trace.label = label;
        trace.name = input.name.clone();
        trace.format = input.reader.format().to_string();
        trace.partial_count = summary.partial_count;
        trace.is_of_calls = !shown.observed.device;
        trace.notes = notes(input.reader.skipped());
        trace.notes.extend(shown.notes(count, input.reader.skipped()));
        if let Some(wanted) = self.wanted {
            trace.notes.push(format!("only databases with \"{wanted}\" in their name"));
        }
        Ok((trace, error))
    }

    fn take(
        &mut self,
        transaction: Transaction,
        names: &Names,
        collector: &mut Collector,
    ) -> Result<(), Unwritten> {
        if let Some(wanted) = self.wanted {
            let mut databases = std::iter::once(&transaction.database).chain(&transaction.others);
            if !databases.any(|database| database.to_string().contains(wanted)) {
                return Ok(());
            }
        }
        if let Some(file) = &mut self.perfetto_file {
            self.perfetto
                .transaction(&transaction, names)
                .iter()
                .try_for_each(|line| write(file, line))?;
        }
        collector.transaction(transaction, names);
        Ok(())
    }

    /// All traces were read.
    pub fn finish(self) -> Result<(), Unwritten> {
        match self.perfetto_file {
            Some(file) => write(file, &self.perfetto.finish()),
            None => Ok(()),
        }
    }
}

/// Short names for traces, all different: the file's name. Where two are the same, its folder or at
/// last a number is added.
pub fn labels(names: &[&str]) -> Vec<String> {
    let parts = |name: &str, count: usize| {
        let parts: Vec<&str> = name.rsplit('/').take(count).collect();
        parts.into_iter().rev().collect::<Vec<_>>().join("/")
    };
    let mut labels: Vec<String> = Vec::new();
    for (number, name) in names.iter().enumerate() {
        let others = || names.iter().enumerate().filter(|(other, _)| *other != number);
        let is_alone =
            |count: &usize| others().all(|(_, other)| parts(other, *count) != parts(name, *count));
        let label = match [1, 2].iter().find(|count| is_alone(count)) {
            Some(&count) => parts(name, count),
            None => format!("{} ({})", parts(name, 1), number + 1),
        };
        labels.push(label);
    }
    labels
}

/// What a reader of the figures must know of the trace.
pub fn notes(skipped: &Skipped) -> Vec<String> {
    let mut notes = Vec::new();
    if skipped.lost > 0 {
        notes.push(format!("{} lost while recording", plural(skipped.lost, "event")));
    }
    if skipped.lost_uncounted > 0 {
        notes.push(format!("events lost at {} places", grouped(skipped.lost_uncounted)));
    }
    if skipped.disordered > 0 {
        notes.push(shown::disordered(skipped));
    }
    if let Some(why) = skipped.cut_off {
        notes.push(format!("the trace is cut off: {why}"));
    }
    notes.extend(shown::options(skipped));
    if skipped.count > 0 {
        notes.push(format!("{} not understood", plural(skipped.count, "line or record")));
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::labels;

    #[test]
    fn labels_are_short_and_different() {
        assert_eq!(labels(&["/a/x.txt", "y.txt"]), ["x.txt", "y.txt"]);
        assert_eq!(labels(&["/a/x.txt", "/b/x.txt"]), ["a/x.txt", "b/x.txt"]);
        assert_eq!(labels(&["/1/a/x.txt", "/2/a/x.txt"]), ["x.txt (1)", "x.txt (2)"]);
    }
}
