//! Reads traces to their ends: transactions into a [`Trace`], and both events and transactions into
//! lines for Perfetto.

use oneflush_trace::identify::{Layer, Observed, Transaction};
use oneflush_trace::import::{ImportError, Reader, Skipped};
use oneflush_trace::model::Event;
use oneflush_trace::report::{Collector, Perfetto, Trace};

use super::files::{Unwritten, write};
use crate::identify::input::Input;
use crate::identify::reading::{Asked, Sink};
use crate::identify::shown;
use crate::layout::{grouped, plural};
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
        if let Some(file) = &mut self.perfetto_file {
            self.perfetto.trace(&label).iter().try_for_each(|line| write(file, line))?;
        }
        let asked =
            Asked { layer: self.layer, database: self.wanted, keeps_accesses: self.keeps_accesses };
        let mut seen = Seen { reading: self, collector: Collector::default() };
        let end = asked.read(&mut input.reader, &mut seen);
        input.progress.done();
        let (end, mut trace) = (end?, seen.collector.finish());
        let skipped = input.reader.skipped();
        trace.label = label;
        trace.name = input.name.clone();
        trace.format = input.reader.format().to_string();
        trace.partial_count = end.summary.partial_count;
        trace.is_of_calls = !end.shown.observed.device;
        trace.plain_databases = end.shown.plain_databases.clone();
        trace.notes = notes(skipped);
        trace.notes.extend(end.shown.notes(end.count, skipped));
        if let Some(wanted) = self.wanted {
            trace.notes.push(format!("only databases with \"{wanted}\" in their name"));
        }
        Ok((trace, end.error))
    }

    /// All traces were read.
    pub fn finish(self) -> Result<(), Unwritten> {
        match self.perfetto_file {
            Some(file) => write(file, &self.perfetto.finish()),
            None => Ok(()),
        }
    }
}

/// One trace, into both.
struct Seen<'a, 'b> {
    reading: &'a mut Reading<'b>,
    collector: Collector,
}

impl Sink for Seen<'_, '_> {
    type Stop = Unwritten;

    fn event(&mut self, event: &Event) -> Result<(), Unwritten> {
        self.collector.event(event);
        if let Some(file) = &mut self.reading.perfetto_file
            && let Some(line) = self.reading.perfetto.event(event)
        {
            write(file, &line)?;
        }
        Ok(())
    }

    fn transaction(
        &mut self,
        transaction: Transaction,
        _observed: Observed,
        reader: &Reader,
    ) -> Result<(), Unwritten> {
        if let Some(file) = &mut self.reading.perfetto_file {
            self.reading
                .perfetto
                .transaction(&transaction, reader.names())
                .iter()
                .try_for_each(|line| write(file, line))?;
        }
        if !reader.has_times() {
            self.collector.has_no_times();
        }
        self.collector.transaction(transaction, reader.names());
        Ok(())
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
