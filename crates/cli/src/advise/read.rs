//! Reads a trace to its end: its transactions into loads for the estimates.

use std::convert::Infallible;
use std::path::Path;

use oneflush_trace::advise::{Collector, Known, Loads};
use oneflush_trace::identify::{Layer, Observed, Transaction};
use oneflush_trace::import::{ImportError, Reader};
use oneflush_trace::model::Event;

use crate::identify::input::Input;
use crate::identify::reading::{Asked, Sink};
use crate::report::read;
use oneflush_measure::interrupt;

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
        let asked = Asked { layer: self.layer, database: self.wanted, keeps_accesses: true };
        let mut seen = Seen(Collector::default());
        let Ok(end) = asked.read(reader, &mut seen);
        let mut notes = read::notes(reader.skipped());
        notes.extend(end.shown.notes(end.count, reader.skipped()));
        if end.summary.partial_count > 0 {
            let count = end.summary.partial_count;
            notes.push(format!("{count} transactions cut off and not counted"));
        }
        if let Some(wanted) = self.wanted {
            notes.push(format!("only databases with \"{wanted}\" in their name"));
        }
        let known = |database: &str| Known {
            page_bytes: self.page_bytes.or_else(|| page_bytes_of(Path::new(database))),
            is_plain: end.shown.plain_databases.iter().any(|plain| plain == database),
        };
        let trace = Trace {
            name: name.to_owned(),
            format: reader.format().to_string(),
            loads: seen.0.finish(!end.shown.observed.device, known),
            notes,
            damage: None,
        };
        (trace, end.error)
    }
}

struct Seen(Collector);

impl Sink for Seen {
    type Stop = Infallible;

    fn event(&mut self, event: &Event) -> Result<(), Infallible> {
        self.0.event(event);
        Ok(())
    }

    fn transaction(
        &mut self,
        transaction: Transaction,
        _observed: Observed,
        reader: &Reader,
    ) -> Result<(), Infallible> {
        if !reader.has_times() {
            self.0.has_no_times();
        }
        self.0.transaction(transaction);
        Ok(())
    }
}

/// What a database's own file says of its pages, where it is on this machine.
fn page_bytes_of(database: &Path) -> Option<u64> {
    use std::io::Read;
    let mut head = [0; 18];
    oneflush_vfs::open_database(database).ok()?.read_exact(&mut head).ok()?;
    if !head.starts_with(b"SQLite format 3\0") {
        return None;
    }
    match u64::from(u16::from_be_bytes([head[16], head[17]])) {
        1 => Some(65_536),
        bytes => Some(bytes).filter(|bytes| bytes.is_power_of_two() && *bytes >= 512),
    }
}
