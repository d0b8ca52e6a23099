//! The way through all files of a data set.

use std::collections::{BTreeMap, BTreeSet};

use arrow_array::RecordBatch;
use rustc_hash::FxHashMap;

use super::condition::{self, Condition, Filter};
use super::entries::{COLUMNS, Entries, Names, SHOWN};
use super::files::{self, OfFile};
use super::group::{Group, Growing};
use super::rows::{Rows, Texts, Wholes, reals};
use super::traces::{self, OfTrace};
use crate::dataset::Dataset;
use crate::error::FleetError;
use crate::schema::{DAY, DEVICE, Kind, TRACES};

/// Below so many transactions of a group, quantiles are exact.
pub const EXACT_BELOW: u64 = 1_000_000;
/// Values of a compared column that are told apart. Two are compared.
const VALUES_COUNT_MAX: usize = 12;
const DAY_US: i64 = 86_400_000_000;

/// Two values of a column whose rows are compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compare {
    pub column: String,
    /// None: the two that there are.
    pub values: Option<(String, String)>,
}

impl Compare {
    /// `build` or `build=A,B`.
    pub fn parse(text: &str) -> Result<Compare, FleetError> {
        let wrong = || {
            FleetError::Where(format!(
                "--compare {text}: give a column, or a column and two values: build=A,B"
            ))
        };
        match text.split_once('=') {
            None if !text.is_empty() => Ok(Compare { column: text.to_owned(), values: None }),
            None => Err(wrong()),
            Some((column, values)) => match values.split_once(',').map(trimmed) {
                Some((one, other))
                    if ![one, other].contains(&"") && !other.contains(',') && one != other =>
                {
                    let values = Some((one.to_owned(), other.to_owned()));
                    Ok(Compare { column: column.to_owned(), values })
                }
                _ => Err(wrong()),
            },
        }
    }
}

fn trimmed<'a>((one, other): (&'a str, &'a str)) -> (&'a str, &'a str) {
    (one.trim(), other.trim())
}

#[derive(Clone, Debug, Default)]
pub struct Question {
    pub filter: Filter,
    pub compare: Option<Compare>,
    /// A page shows single transactions.
    pub is_shown: bool,
}

/// Whoever waits for the answer.
pub trait Watch {
    /// All files have so many bytes.
    fn begin(&mut self, bytes: u64);
    /// So many more have been read. False ends it.
    fn goes_on(&mut self, bytes: u64) -> bool;
}

pub struct Answer {
    /// One, or the two that are compared.
    pub groups: Vec<Group>,
    /// Traces with rows in it.
    pub traces_count: usize,
    /// Whether clusters are devices; else traces.
    pub has_devices: bool,
    /// What could not be read, each in one line.
    pub problems: Vec<String>,
    pub was_stopped: bool,
}

struct Scan<'a> {
    question: &'a Question,
    known: &'a BTreeMap<String, OfTrace>,
    names: Names,
    groups: Vec<Growing>,
    clusters: FxHashMap<String, usize>,
    has_devices: bool,
    is_utc: bool,
}

pub fn ask(
    dataset: &Dataset,
    question: &Question,
    watch: &mut dyn Watch,
) -> Result<Answer, FleetError> {
    let mut problems = Vec::new();
    let known = traces::all(dataset, &mut problems);
    let files = files::all(dataset, &known, &mut problems);
    check_names(question, &known, &files)?;
    watch.begin(files.iter().map(|file| file.bytes).sum());
    let has_devices =
        files.iter().any(|file| matches!(file.shared(DEVICE, known.get(&file.id)), Some(Some(_))));
    let is_utc = known.values().all(|trace| trace.texts.contains_key("clock") || trace.events == 0);
    let mut scan = Scan {
        question,
        known: &known,
        names: Names::new(),
        groups: Vec::new(),
        clusters: FxHashMap::default(),
        has_devices,
        is_utc,
    };
    match &question.compare {
        None => scan.groups.push(scan.group(None)),
        Some(Compare { values: Some((one, other)), .. }) => {
            for value in [one, other] {
                scan.groups.push(scan.group(Some(value.clone())));
            }
        }
        Some(Compare { values: None, .. }) => {}
    }
    let ids: Vec<&str> =
        files.iter().map(|file| file.id.as_str()).collect::<BTreeSet<_>>().into_iter().collect();
    let mut was_stopped = false;
    for file in &files {
        let number = ids.binary_search(&file.id.as_str()).unwrap_or_default();
        if let Err(error) = scan.file(file, number) {
            match error {
                Stop::Unread(error) => problems.push(format!(
                    "{}: {error}; its other rows are in no figure",
                    file.path.display()
                )),
                Stop::Wrong(error) => return Err(error),
            }
        }
        if !watch.goes_on(file.bytes) {
            was_stopped = true;
            break;
        }
    }
    scan.end(&ids, problems, was_stopped)
}

/// A name that nobody knows would be true of nothing, and nobody would notice.
fn check_names(
    question: &Question,
    known: &BTreeMap<String, OfTrace>,
    files: &[OfFile],
) -> Result<(), FleetError> {
    let mut labels: BTreeSet<&str> = BTreeSet::new();
    labels.extend(known.values().flat_map(|trace| trace.texts.keys().map(String::as_str)));
    labels.extend(files.iter().flat_map(OfFile::folder_names));
    let is_known = |name: &str| {
        let is_of_traces = || TRACES.iter().any(|column| column.name == name);
        labels.contains(name) || name == DAY || condition::kind(name).is_some() || is_of_traces()
    };
    let asked = question.filter.conditions.iter().map(|condition| ("--where", &condition.column));
    let compared = question.compare.iter().map(|compare| ("--compare", &compare.column));
    for (option, name) in asked.chain(compared) {
        if !is_known(name) && !files.is_empty() {
            let labels: Vec<&str> = labels.iter().copied().collect();
            return Err(FleetError::Where(format!(
                "{option} {name}: no trace has such a label or column; there are {} and the \
                 columns of transactions",
                labels.join(", ")
            )));
        }
    }
    if let Some(Compare { column, .. }) = &question.compare
        && column == DAY
        && !files.iter().any(|file| file.folder_names().any(|name| name == DAY))
    {
        return Err(FleetError::Where(
            "--compare day: days do not divide this data set; --by day does it in a new one"
                .to_owned(),
        ));
    }
    if let Some(Compare { column, .. }) = &question.compare
        && condition::kind(column).is_some_and(|kind| kind != Kind::Text)
    {
        return Err(FleetError::Where(format!(
            "--compare {column}: is no column of words; compare labels, or for example journal_mode"
        )));
    }
    Ok(())
}

enum Stop {
    Unread(String),
    Wrong(FleetError),
}

/// Where a row belongs, or that it was not asked for.
enum Choice<'a> {
    /// All rows of the file.
    One(usize),
    /// By their texts. For each key of the column its group, as soon as a row asks for it.
    ByKey(Texts<'a>, Vec<Option<Option<usize>>>),
}

impl Scan<'_> {
    fn group(&self, value: Option<String>) -> Growing {
        Growing::new(value, self.question.is_shown, EXACT_BELOW)
    }

    fn file(&mut self, file: &OfFile, number: usize) -> Result<(), Stop> {
        let known = self.known;
        let trace = known.get(&file.id);
        let mut of_rows: Vec<&Condition> = Vec::new();
        for condition in &self.question.filter.conditions {
            match file.shared(&condition.column, trace) {
                Some(value) if condition.is_met_by_text(value) => {}
                Some(_) => return Ok(()),
                None => of_rows.push(condition),
            }
        }
        let compared = self.question.compare.as_ref().map(|compare| compare.column.clone());
        let shared = compared
            .as_deref()
            .map(|column| file.shared(column, trace).map(|value| value.map(ToOwned::to_owned)));
        let of_file = match shared {
            None => Some(0),
            Some(Some(None)) => return Ok(()),
            Some(Some(Some(value))) => match self.group_of(&value).map_err(Stop::Wrong)? {
                Some(group) => Some(group),
                None => return Ok(()),
            },
            Some(None) => None,
        };
        let device = file.shared(DEVICE, trace).flatten().filter(|_| self.has_devices);
        let cluster = device.unwrap_or(&file.id).to_owned();
        let next = self.clusters.len();
        let cluster = *self.clusters.entry(cluster).or_insert(next);

        let mut wanted: Vec<&str> = COLUMNS.to_vec();
        if self.question.is_shown {
            wanted.extend(SHOWN);
        }
        wanted.extend(of_rows.iter().map(|condition| condition.column.as_str()));
        wanted.extend(compared.as_deref().filter(|_| of_file.is_none()));
        let unread =
            |error: &dyn std::fmt::Display| Stop::Unread(format!("cannot be read: {error}"));
        let rows = Rows::open(&file.path, &wanted).map_err(|error| unread(&error))?;
        for needed in ["database", "latency_ns", "bytes_db"] {
            if !rows.columns.iter().any(|column| column == needed) {
                return Err(Stop::Unread(format!(
                    "has no column {needed}, so it is not oneflush's"
                )));
            }
        }
        for batch in rows {
            let batch = batch.map_err(|error| unread(&error))?;
            let mut choice = match (of_file, &compared) {
                (Some(group), _) => Choice::One(group),
                (None, Some(column)) => match Texts::of(&batch, column) {
                    Some(texts) => {
                        let groups = vec![None; texts.count()];
                        Choice::ByKey(texts, groups)
                    }
                    None => return Ok(()),
                },
                (None, None) => return Ok(()),
            };
            self.batch(&batch, &of_rows, &mut choice, (cluster, number)).map_err(Stop::Wrong)?;
        }
        Ok(())
    }

    /// The group of a value; none where it is not compared.
    fn group_of(&mut self, value: &str) -> Result<Option<usize>, FleetError> {
        let found = self.groups.iter().position(|group| group.value.as_deref() == Some(value));
        let is_fixed =
            self.question.compare.as_ref().is_some_and(|compare| compare.values.is_some());
        if found.is_some() || is_fixed {
            return Ok(found);
        }
        if self.groups.len() == VALUES_COUNT_MAX {
            return Err(self.not_two());
        }
        self.groups.push(self.group(Some(value.to_owned())));
        Ok(Some(self.groups.len() - 1))
    }

    fn not_two(&self) -> FleetError {
        let Some(Compare { column, .. }) = &self.question.compare else {
            return FleetError::Where("--compare: nothing is compared".to_owned());
        };
        let mut values: Vec<&str> =
            self.groups.iter().filter_map(|group| group.value.as_deref()).collect();
        values.sort_unstable();
        let more = if values.len() < VALUES_COUNT_MAX { "" } else { ", …" };
        let there = match values.as_slice() {
            [] => "no row has a value".to_owned(),
            [one] => format!("all rows have {one}"),
            _ => format!("there are {}{more}", values.join(", ")),
        };
        FleetError::Where(format!(
            "--compare {column}: two values are compared, and {there}; give --compare {column}=A,B"
        ))
    }

    fn batch(
        &mut self,
        batch: &RecordBatch,
        conditions: &[&Condition],
        choice: &mut Choice,
        (cluster, trace): (usize, usize),
    ) -> Result<(), FleetError> {
        let met = met(batch, conditions);
        let entries = Entries::of(batch, self.is_utc);
        for row in 0..batch.num_rows() {
            if met.as_ref().is_some_and(|met| !met[row]) {
                continue;
            }
            let group = match choice {
                Choice::One(group) => Some(*group),
                Choice::ByKey(texts, groups) => match texts.key(row) {
                    None => None,
                    Some(key) => match groups[key] {
                        Some(group) => group,
                        None => *groups[key].insert(self.group_of(texts.text(key))?),
                    },
                },
            };
            let Some(group) = group else { continue };
            let entry = entries.get(row, &mut self.names, self.question.is_shown);
            let group = &mut self.groups[group];
            group.add(&entry, entries.flushes(row), cluster);
            if group.traces.last() != Some(&trace) {
                group.traces.push(trace);
            }
        }
        Ok(())
    }

    fn end(
        mut self,
        ids: &[&str],
        problems: Vec<String>,
        was_stopped: bool,
    ) -> Result<Answer, FleetError> {
        if let Some(compare) = &self.question.compare {
            if compare.values.is_none() {
                // Values of files without a row that was asked for.
                self.groups.retain(|group| group.count() > 0);
            }
            let is_empty = self.groups.iter().any(|group| group.count() == 0);
            if self.groups.len() != 2 {
                return Err(self.not_two());
            }
            if is_empty && !was_stopped {
                let empty = self.groups.iter().find(|group| group.count() == 0);
                let value = empty.and_then(|group| group.value.as_deref()).unwrap_or_default();
                return Err(FleetError::Where(format!(
                    "--compare {}: no row that was asked for has {value}",
                    compare.column
                )));
            }
            if compare.values.is_none() {
                self.groups.sort_by(|one, other| one.value.cmp(&other.value));
            }
        }
        let mut of_all = BTreeSet::new();
        let mut groups = Vec::new();
        for mut group in self.groups {
            group.traces.sort_unstable();
            group.traces.dedup();
            of_all.extend(group.traces.iter().copied());
            let traces: Vec<&OfTrace> =
                group.traces.iter().filter_map(|number| self.known.get(ids[*number])).collect();
            let traces_count = group.traces.len();
            let mut group = group.end(&self.names.databases.names, &self.names.processes.names);
            let sum = |number: fn(&OfTrace) -> u64| traces.iter().map(|trace| number(trace)).sum();
            let trace = &mut group.trace;
            trace.events = sum(|trace| trace.events);
            let duration_ns: u64 = sum(|trace| trace.duration_ns);
            trace.end_ns = trace.begin_ns + duration_ns;
            trace.partial_count = sum(|trace| trace.transactions_cut);
            trace.is_of_calls = !traces.is_empty() && traces.iter().all(|trace| !trace.has_device);
            trace.format = match traces_count {
                1 => "data set of 1 trace".to_owned(),
                count => {
                    format!("data set of {} traces", oneflush_trace::report::grouped(count as u64))
                }
            };
            let lost: u64 = sum(|trace| trace.events_lost);
            let not_understood: u64 = sum(|trace| trace.lines_not_understood);
            let count = oneflush_trace::report::grouped;
            trace
                .notes
                .extend((lost > 0).then(|| format!("{} events lost while recording", count(lost))));
            trace.notes.extend(
                (not_understood > 0)
                    .then(|| format!("{} lines not understood", count(not_understood))),
            );
            groups.push(group);
        }
        Ok(Answer {
            groups,
            traces_count: of_all.len(),
            has_devices: self.has_devices,
            problems,
            was_stopped,
        })
    }
}

/// For each row whether it meets all conditions; none where there are no conditions.
fn met(batch: &RecordBatch, conditions: &[&Condition]) -> Option<Vec<bool>> {
    if conditions.is_empty() {
        return None;
    }
    let mut met = vec![true; batch.num_rows()];
    let mut narrow = |is_met: &dyn Fn(usize) -> bool| {
        for (row, met) in met.iter_mut().enumerate() {
            *met = *met && is_met(row);
        }
    };
    for condition in conditions {
        let column = condition.column.as_str();
        match condition::kind(column) {
            Some(Kind::Whole | Kind::Time) => {
                let wholes = Wholes::of(batch, column);
                narrow(&|row| {
                    wholes.get(row).is_some_and(|whole| condition.is_met_by_whole(whole))
                });
            }
            Some(Kind::Real) => {
                let reals = reals(batch, column);
                narrow(&|row| reals.is_some_and(|reals| condition.is_met_by_real(reals[row])));
            }
            _ if column == DAY => {
                let begins = Wholes::of(batch, "begin");
                narrow(&|row| {
                    let day = begins
                        .get(row)
                        .map(|begin_us| oneflush_trace::utc::date(begin_us.div_euclid(DAY_US)));
                    condition.is_met_by_text(day.as_deref())
                });
            }
            _ => match Texts::of(batch, column) {
                Some(texts) => {
                    let keys = texts.each(|text| condition.is_met_by_text(Some(text)));
                    narrow(&|row| texts.key(row).is_some_and(|key| keys[key]));
                }
                None => narrow(&|_| false),
            },
        }
    }
    Some(met)
}
