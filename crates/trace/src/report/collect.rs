//! Keeps of each transaction what tables, findings and the page need, while a trace is read.

use std::collections::HashMap;
use std::hash::Hash;

use super::entry::Entry;
use super::sample::{Sample, Sampler};
use super::tally::Tally;
use crate::identify::{Class, Database, Phases, Process, Transaction};
use crate::model::{Event, Names};

/// A trace that was read to its end.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    /// Short, and different from all others'.
    pub label: String,
    /// As it was given.
    pub name: String,
    pub format: String,
    pub events: u64,
    /// Time of the first and the last event. Both are 0 without events.
    pub begin_ns: u64,
    pub end_ns: u64,
    /// What all its transactions cost. Sealed.
    pub tally: Tally,
    /// In the order of their beginnings: those that a page shows, of a trace that was read all of
    /// them.
    pub entries: Vec<Entry>,
    /// Each name once; also each process.
    pub databases: Vec<String>,
    pub processes: Vec<String>,
    pub samples: Vec<Sample>,
    /// Transactions of which the trace holds only a part. They are in no table.
    pub partial_count: u64,
    /// A trace of system calls: no device was observed. It has no flush, no journal of the file
    /// system and no metadata.
    pub is_of_calls: bool,
    /// Times of the trace are the numbers of its lines.
    pub has_no_times: bool,
    /// Databases that were written with the strategy `plain`. Of our other strategies the mode says
    /// it.
    pub plain_databases: Vec<String>,
    /// It is a group of a data set, so other options choose from it.
    pub is_dataset: bool,
    /// What a reader of the figures must know: events that were lost, lines that were not
    /// understood.
    pub notes: Vec<String>,
}

/// Fills a [`Trace`].
#[derive(Default)]
pub struct Collector {
    tally: Tally,
    entries: Vec<Entry>,
    databases: Numbers<Database>,
    processes: Numbers<Process>,
    process_names: Vec<String>,
    sampler: Sampler,
    events: u64,
    begin_ns: Option<u64>,
    end_ns: u64,
    has_no_times: bool,
}

impl Collector {
    /// Times are the numbers of lines.
    pub fn has_no_times(&mut self) {
        self.has_no_times = true;
    }

    pub fn event(&mut self, event: &Event) {
        if !event.has_time() {
            return;
        }
        self.events += 1;
        self.begin_ns =
            Some(self.begin_ns.map_or(event.time_ns, |begin_ns| begin_ns.min(event.time_ns)));
        self.end_ns = self.end_ns.max(event.time_ns);
    }

    pub fn transaction(&mut self, transaction: Transaction, names: &Names) {
        let process = self.processes.of(transaction.process);
        if process as usize == self.process_names.len() {
            self.process_names.push(said(&transaction.process, names));
        }
        let traffic = &transaction.traffic;
        let entry = Entry {
            begin_ns: transaction.begin_ns,
            latency_ns: transaction.latency_ns(),
            has_latency: !self.has_no_times,
            silent_ns: transaction.silent_ns,
            bytes: [traffic.db, traffic.journal, traffic.fs_journal, traffic.metadata]
                .map(|amount| amount.bytes),
            checkpoint_bytes: match transaction.phases {
                Phases::Append { checkpoint, .. } => checkpoint.bytes(),
                Phases::Rollback { .. } => 0,
            },
            requests: traffic.requests(),
            flushes: transaction.flushes,
            database: self.databases.of(transaction.database),
            process,
            journal_mode: transaction.journal_mode,
            synchronous: transaction.synchronous,
            outcome: transaction.outcome,
            confidence: transaction.confidence,
        };
        self.sampler.offer(self.entries.len(), &entry, transaction.accesses);
        self.tally.add(&entry);
        self.entries.push(entry);
    }

    /// The trace has ended. The caller fills in what it knows of it: `label`, `name`, `format`,
    /// `partial_count`, `notes`.
    pub fn finish(mut self) -> Trace {
        self.tally.seal();
        let mut order: Vec<usize> = (0..self.entries.len()).collect();
        order.sort_by_key(|&number| (self.entries[number].begin_ns, number));
        let entries: Vec<Entry> = order.iter().map(|&number| self.entries[number]).collect();
        let mut place = vec![0; order.len()];
        for (to, &from) in order.iter().enumerate() {
            place[from] = to;
        }
        Trace {
            samples: self.sampler.finish(&self.entries, &place),
            tally: self.tally,
            entries,
            databases: self.databases.into_vec().iter().map(ToString::to_string).collect(),
            processes: self.process_names,
            events: self.events,
            has_no_times: self.has_no_times,
            begin_ns: self.begin_ns.unwrap_or(0),
            end_ns: self.end_ns,
            ..Trace::default()
        }
    }
}

/// Gives each different thing a number, counted from 0.
struct Numbers<T>(HashMap<T, u32>);

impl<T> Default for Numbers<T> {
    fn default() -> Numbers<T> {
        Numbers(HashMap::new())
    }
}

impl<T: Eq + Hash> Numbers<T> {
    fn of(&mut self, thing: T) -> u32 {
        let next = self.0.len() as u32;
        *self.0.entry(thing).or_insert(next)
    }

    fn into_vec(self) -> Vec<T> {
        let mut numbered: Vec<(T, u32)> = self.0.into_iter().collect();
        numbered.sort_by_key(|numbered| numbered.1);
        numbered.into_iter().map(|numbered| numbered.0).collect()
    }
}

fn said(process: &Process, names: &Names) -> String {
    let id = if process.process != 0 { process.process } else { process.thread };
    match (process.name, id) {
        (None, 0) => "kernel write-back".to_owned(),
        (None, id) => format!("process {id}"),
        (Some(name), 0) => names.text(name).to_owned(),
        (Some(name), id) => format!("{} {id}", names.text(name)),
    }
}

/// Place of a class in arrays by class.
pub(super) fn class_number(class: Class) -> usize {
    match class {
        Class::Db => 0,
        Class::Journal => 1,
        Class::FsJournal => 2,
        Class::Metadata => 3,
    }
}
