//! Writes the rows of one trace, and then the row of the trace itself.
//!
//! ```text
//! begin     nothing is to be seen
//! add …     rows into files under hidden names, one for each folder that they belong to
//! finish    in the trace's turn, five steps:
//!           a plan says which files come, and which go
//!           the files with rows get their names
//!           the trace's row gets its name
//!           files of an earlier run, in other folders, are removed
//!           the plan is removed
//! ```
//!
//! A writer that is dropped, or whose disk is full, leaves what was there before. Between the steps
//! of `finish` a reader may meet rows of both runs. A run that is repeated mends that, by the plan.
//! Each step is durable before the next one begins. So the same holds after a loss of power.

mod file;
mod plan;
mod row;
mod source;
mod turn;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Component, Path};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use oneflush_trace::identify::{Scope, Transaction};
use oneflush_trace::import::{Facts, Skipped};
use oneflush_trace::model::Names;
use oneflush_trace::utc::date;
use sha2::{Digest, Sha256};

pub use source::Source;

use crate::dataset::Dataset;
use crate::error::FleetError;
use crate::folders;
use crate::labels::Labels;
use crate::read;
use crate::schema::{Column, DAY, DEVICE, FILE_SYSTEM, KERNEL, TRACES, TRANSACTIONS, VERSION};
use file::{Cell, ParquetFile, Whole, made_by};
use row::{Around, text};

const DAY_US: i64 = 86_400_000_000;
/// Times of a trace from here on count from 1970; before, from anything else.
const SINCE_1970_NS_MIN: u64 = 1_000_000_000_000_000_000;

pub struct TraceWriter<'a> {
    dataset: &'a Dataset,
    source: Source,
    given: Labels,
    /// UTC of the first event.
    begin: Option<SystemTime>,
    is_by_day: bool,
    settled: Option<Settled>,
    /// The columns of a file of rows, with their places among all.
    columns: Vec<(usize, Column)>,
    /// By the day since 1970 of their rows' beginnings, where days divide the rows.
    files: BTreeMap<Option<i64>, ParquetFile>,
    rows: u64,
}

/// What is known as soon as the trace's head has been read.
struct Settled {
    id: String,
    labels: Labels,
    /// Of these labels, those with a column of their own in `transactions`.
    in_file: Vec<String>,
    clock: Option<Clock>,
    first_ns: u64,
    /// Labels of the recording that have no place here.
    left_out: Vec<String>,
}

#[derive(Clone, Copy)]
struct Clock {
    from: &'static str,
    /// Added to a time of the trace, it gives nanoseconds since 1970.
    offset_ns: i128,
}

/// What the reader of a trace knows at some moment.
#[derive(Clone, Copy)]
pub struct Moment<'a> {
    pub known: Scope,
    pub names: &'a Names,
    pub facts: &'a Facts,
    pub first_ns: u64,
}

/// What is told of a trace that was read to its end, or as far as it could be; nothing of one that
/// could not be read at all.
#[derive(Default)]
pub struct Told {
    /// None: it could not be read at all.
    pub format: Option<String>,
    pub facts: Facts,
    pub first_ns: u64,
    pub last_ns: u64,
    pub events: u64,
    pub transactions_cut: u64,
    pub has_device: bool,
    pub skipped: Skipped,
    pub notes: Vec<String>,
    pub error: Option<String>,
}

/// What `finish` has done.
#[derive(Debug, PartialEq, Eq)]
pub struct Written {
    pub id: String,
    pub rows: u64,
    /// Below the data set's folder.
    pub files: Vec<String>,
    pub device: Option<String>,
    /// The data set had the trace already.
    pub is_replaced: bool,
}

impl<'a> TraceWriter<'a> {
    /// `given`: labels from outside, which win over those of the recording.
    pub fn begin(
        dataset: &'a Dataset,
        source: Source,
        given: Labels,
        begin: Option<SystemTime>,
    ) -> TraceWriter<'a> {
        let is_in_file = |column: &Column| !dataset.by.iter().any(|by| by == column.name);
        let columns =
            TRANSACTIONS.into_iter().enumerate().filter(|(_, column)| is_in_file(column)).collect();
        TraceWriter {
            dataset,
            source,
            given,
            begin,
            is_by_day: dataset.by.iter().any(|by| by == DAY),
            settled: None,
            columns,
            files: BTreeMap::new(),
            rows: 0,
        }
    }

    pub fn add(&mut self, transaction: &Transaction, moment: Moment) -> Result<(), FleetError> {
        let settled = match self.settled.take() {
            Some(settled) => settled,
            None => self.settle(moment.facts, moment.first_ns),
        };
        let added = self.add_settled(&settled, transaction, moment);
        self.settled = Some(settled);
        added
    }

    fn add_settled(
        &mut self,
        settled: &Settled,
        transaction: &Transaction,
        moment: Moment,
    ) -> Result<(), FleetError> {
        let begin_us = settled.clock.map(|clock| clock.us(transaction.begin_ns));
        let day = begin_us.filter(|_| self.is_by_day).map(|begin_us| begin_us.div_euclid(DAY_US));
        let file = match self.files.entry(day) {
            std::collections::btree_map::Entry::Occupied(known) => known.into_mut(),
            std::collections::btree_map::Entry::Vacant(new) => {
                let columns: Vec<Column> = self.columns.iter().map(|(_, column)| *column).collect();
                let writing = self.dataset.writing();
                let labels: Vec<&str> = settled.in_file.iter().map(String::as_str).collect();
                new.insert(ParquetFile::begin(&writing, &columns, &labels)?)
            }
        };
        let around = Around {
            trace: &settled.id,
            file_system: settled.labels.get(FILE_SYSTEM),
            device: settled.labels.get(DEVICE),
            first_ns: settled.first_ns,
        };
        let cells = row::cells(&around, begin_us, transaction, moment.known, moment.names);
        let mut places = self.columns.iter().map(|(place, _)| *place).peekable();
        let own = cells
            .into_iter()
            .enumerate()
            .filter_map(|(place, cell)| places.next_if_eq(&place).map(|_| cell));
        let labels = settled.in_file.iter().map(|name| label(&settled.labels, name));
        file.add(own.chain(labels))?;
        self.rows += 1;
        Ok(())
    }

    fn settle(&self, facts: &Facts, first_ns: u64) -> Settled {
        let mut labels = Labels::default();
        if let [file_system] = facts.file_systems.as_slice() {
            // A column that is always there takes any text.
            let _ = labels.set(FILE_SYSTEM, file_system);
        }
        if let Some(kernel) = &facts.kernel {
            let _ = labels.set(KERNEL, kernel);
        }
        let mut left_out = Vec::new();
        for (name, value) in &facts.labels {
            if labels.set(name, value).is_err() {
                left_out.push(name.clone());
            }
        }
        labels.extend(&self.given);
        let is_in_file = |name: &&str| !self.dataset.by.iter().any(|by| by == name);
        Settled {
            in_file: labels.own().filter(is_in_file).map(ToOwned::to_owned).collect(),
            id: id(&self.source.sha256, labels.get(DEVICE)),
            clock: self.clock(facts, first_ns),
            labels,
            first_ns,
            left_out,
        }
    }

    fn clock(&self, facts: &Facts, first_ns: u64) -> Option<Clock> {
        let since_1970 = |time: SystemTime| {
            time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_nanos() as i128
        };
        if let Some(begin) = self.begin {
            let offset_ns = since_1970(begin) - i128::from(first_ns);
            return Some(Clock { from: "given", offset_ns });
        }
        if let Some(clock) = facts.clock {
            let offset_ns = i128::from(clock.unix_ns) - i128::from(clock.at_ns);
            return Some(Clock { from: "recording", offset_ns });
        }
        (first_ns >= SINCE_1970_NS_MIN).then_some(Clock { from: "trace", offset_ns: 0 })
    }

    /// Puts all into its place.
    pub fn finish(mut self, mut told: Told) -> Result<Written, FleetError> {
        let settled = match self.settled.take() {
            Some(settled) => settled,
            None => self.settle(&told.facts, told.first_ns),
        };
        // Events that are not in order may come later, and be earlier.
        told.first_ns = settled.first_ns;
        told.notes.extend(settled.left_out.iter().map(|name| {
            format!("label {name} of the recording is left out: a data set has such a column")
        }));
        let mut whole: Vec<(String, Whole)> = Vec::new();
        for (day, file) in std::mem::take(&mut self.files) {
            let folder = self.dataset.partition(&self.values(&settled.labels, day))?;
            whole.push((format!("{folder}/{}.parquet", settled.id), file.end()?));
        }
        let files: Vec<String> = whole.iter().map(|(place, _)| place.clone()).collect();
        let place = format!("traces/{}.parquet", settled.id);
        let row = self.trace_row(&settled, &told, &files)?;
        let _turn = turn::wait(&self.dataset.writing(), &settled.id)?;
        let mut before = read::files_of_trace(self.dataset, &settled.id)?;
        let mut plans = plan::left(&self.dataset.writing(), &settled.id, &mut before)?;
        let all = files.iter().chain(&before);
        plans.push(plan::begin(&self.dataset.writing(), &settled.id, all)?);
        for (place, whole) in whole {
            whole.put(self.dataset, &place)?;
        }
        let is_replaced = row.put(self.dataset, &place)?;
        for left in before.iter().filter(|file| !files.contains(file)) {
            self.remove(left, &settled.id)?;
        }
        plan::done(plans)?;
        let device = settled.labels.get(DEVICE).map(ToOwned::to_owned);
        Ok(Written { id: settled.id, rows: self.rows, files, device, is_replaced })
    }

    /// What the names of the folders say.
    fn values(&self, labels: &Labels, day: Option<i64>) -> Vec<Option<String>> {
        let value = |by: &String| match by.as_str() {
            DAY => day.map(date),
            label => labels.get(label).map(ToOwned::to_owned),
        };
        self.dataset.by.iter().map(value).collect()
    }

    fn trace_row(
        &self,
        settled: &Settled,
        told: &Told,
        files: &[String],
    ) -> Result<Whole, FleetError> {
        let whole = |number: u64| Cell::Whole(i64::try_from(number).unwrap_or(i64::MAX));
        let maybe = |words: Option<&'a str>| words.map_or(Cell::Null, text);
        let owned = |words: &Option<String>| {
            words.clone().map_or(Cell::Null, |words| Cell::Text(words.into()))
        };
        // Without an event there is nothing that has a time.
        let time = |ns: u64| match settled.clock {
            Some(clock) if told.events > 0 => Cell::Time(clock.us(ns)),
            _ => Cell::Null,
        };
        let Skipped { lost, lost_uncounted, ignored, disordered, cut_off, count, .. } =
            &told.skipped;
        let labels: Vec<&str> = settled.labels.own().collect();
        let cells = [
            text(&settled.id),
            Cell::Text(self.source.name.as_str().into()),
            text(&self.source.sha256),
            whole(self.source.bytes),
            owned(&told.format),
            owned(&told.facts.recorder),
            label(&settled.labels, KERNEL),
            label(&settled.labels, FILE_SYSTEM),
            maybe(settled.clock.filter(|_| told.events > 0).map(|clock| clock.from)),
            time(told.first_ns),
            time(told.last_ns),
            whole(told.last_ns.saturating_sub(told.first_ns)),
            whole(told.events),
            whole(self.rows),
            whole(told.transactions_cut),
            whole(*count),
            whole(*ignored),
            whole(*disordered),
            whole(*lost),
            whole(*lost_uncounted),
            told.facts.own_bytes.map_or(Cell::Null, whole),
            Cell::Flag(told.has_device),
            maybe(*cut_off),
            Cell::Texts(told.notes.clone()),
            Cell::Texts(files.to_vec()),
            owned(&told.error),
            Cell::Text(made_by().into()),
            Cell::Whole(VERSION),
            label(&settled.labels, DEVICE),
        ];
        let mut file = ParquetFile::begin(&self.dataset.writing(), &TRACES, &labels)?;
        file.add(cells.into_iter().chain(labels.iter().map(|name| label(&settled.labels, name))))?;
        file.end()
    }

    /// A file that an earlier run of the trace has left, and nothing else.
    fn remove(&self, file: &str, id: &str) -> Result<(), FleetError> {
        let path = Path::new(file);
        let is_below = path.components().all(|part| matches!(part, Component::Normal(_)));
        if !is_below || path.file_name() != Some(format!("{id}.parquet").as_ref()) {
            return Ok(());
        }
        let path = self.dataset.dir.join(path);
        match fs::remove_file(&path) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(FleetError::io(path, "removing")(error)),
        }
        // Empty folders would stand for partitions without rows.
        let transactions = self.dataset.transactions();
        let is_below = |folder: &&Path| folder.starts_with(&transactions);
        for folder in path.ancestors().skip(1).take_while(is_below) {
            if folder != transactions && fs::remove_dir(folder).is_ok() {
                self.dataset.folders.removed(folder);
                continue;
            }
            match folders::sync(folder) {
                // Another writer has removed it, or it was only planned.
                Err(FleetError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {}
                synced => return synced,
            }
        }
        Ok(())
    }
}

impl Clock {
    fn us(self, ns: u64) -> i64 {
        let us = (i128::from(ns) + self.offset_ns).div_euclid(1000);
        i64::try_from(us).unwrap_or(i64::MAX)
    }
}

fn label<'a>(labels: &'a Labels, name: &str) -> Cell<'a> {
    labels.get(name).map_or(Cell::Null, text)
}

/// 16 digits of what the trace holds, 8 of whose it is.
fn id(sha256: &str, device: Option<&str>) -> String {
    let device = hex(&Sha256::digest(device.unwrap_or_default()));
    format!("{}-{}", &sha256[..16], &device[..8])
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
