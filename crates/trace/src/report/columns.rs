//! Transactions and requests as columns of numbers: the page gets them as columns, because they are
//! short as JSON and become typed arrays at once.
//!
//! Times are whole microseconds since the trace's first event. Beginnings are differences to the
//! one before. Words are numbers in lists beside the columns.

use std::collections::HashMap;

use serde::Serialize;

use super::collect::{Trace, class_number};
use super::sample::{Sample, Why};
use crate::identify::Access;

#[derive(Default, Serialize)]
pub(super) struct Columns {
    databases: Vec<String>,
    processes: Vec<String>,
    modes: Vec<String>,
    outcomes: Vec<String>,
    reasons: Vec<String>,
    trace: Vec<u32>,
    begin_us: Vec<u64>,
    latency_us: Vec<u64>,
    silent_ms: Vec<u64>,
    bytes: [Vec<u64>; 4],
    requests: Vec<u64>,
    flushes: Vec<u64>,
    database: Vec<u32>,
    process: Vec<u32>,
    mode: Vec<u32>,
    outcome: Vec<u32>,
    reason: Vec<u32>,
    /// Percent.
    confidence: Vec<u32>,
}

/// The requests of one transaction.
#[derive(Serialize)]
pub(super) struct Picture {
    /// Number of the transaction.
    transaction: usize,
    why: Vec<Why>,
    devices: Vec<String>,
    /// Since the transaction's beginning.
    begin_us: Vec<i64>,
    length_us: Vec<u64>,
    /// On the device, or in the file if `devices` is empty; null if unknown.
    sector: Vec<Option<u64>>,
    bytes: Vec<u64>,
    class: Vec<usize>,
    flushes: Vec<u64>,
    device: Vec<u32>,
}

impl Columns {
    pub(super) fn new(traces: &[Trace]) -> Columns {
        let mut columns = Columns::default();
        let (mut known_databases, mut known_processes) = (HashMap::new(), HashMap::new());
        for (number, trace) in traces.iter().enumerate() {
            let mut before_us = 0;
            for entry in &trace.entries {
                let begin_us = entry.begin_ns.saturating_sub(trace.begin_ns) / 1000;
                columns.trace.push(number as u32);
                columns.begin_us.push(begin_us - before_us);
                before_us = begin_us;
                columns.latency_us.push(entry.latency_ns / 1000);
                columns.silent_ms.push(entry.silent_ns / 1_000_000);
                for (column, bytes) in columns.bytes.iter_mut().zip(entry.bytes) {
                    column.push(bytes);
                }
                columns.requests.push(entry.requests);
                columns.flushes.push(entry.flushes);
                let database = &trace.databases[entry.database as usize];
                let process = &trace.processes[entry.process as usize];
                columns.database.push(numbered(
                    &mut columns.databases,
                    &mut known_databases,
                    database,
                ));
                columns.process.push(numbered(
                    &mut columns.processes,
                    &mut known_processes,
                    process,
                ));
                let mode = format!("{} {}", entry.journal_mode, entry.synchronous);
                columns.mode.push(short(&mut columns.modes, &mode));
                columns.outcome.push(short(&mut columns.outcomes, &entry.outcome.to_string()));
                columns
                    .reason
                    .push(short(&mut columns.reasons, &entry.confidence.reason.to_string()));
                columns.confidence.push((entry.confidence.value * 100.0).round() as u32);
            }
        }
        columns
    }
}

/// The number of a name in the list that all traces share.
fn numbered<'a>(list: &mut Vec<String>, known: &mut HashMap<&'a str, u32>, name: &'a str) -> u32 {
    *known.entry(name).or_insert_with(|| {
        list.push(name.to_owned());
        list.len() as u32 - 1
    })
}

/// The number of a word in a short list.
fn short(list: &mut Vec<String>, word: &str) -> u32 {
    let known = list.iter().position(|known| known == word);
    known.unwrap_or_else(|| {
        list.push(word.to_owned());
        list.len() - 1
    }) as u32
}

pub(super) fn pictures(traces: &[Trace]) -> Vec<Picture> {
    let mut first = 0;
    let mut pictures = Vec::new();
    for trace in traces {
        pictures.extend(trace.samples.iter().map(|sample| picture(trace, sample, first)));
        first += trace.entries.len();
    }
    pictures
}

fn picture(trace: &Trace, sample: &Sample, first: usize) -> Picture {
    let begin_ns = trace.entries[sample.entry].begin_ns;
    let mut picture = Picture {
        transaction: first + sample.entry,
        why: sample.why.clone(),
        devices: Vec::new(),
        begin_us: Vec::new(),
        length_us: Vec::new(),
        sector: Vec::new(),
        bytes: Vec::new(),
        class: Vec::new(),
        flushes: Vec::new(),
        device: Vec::new(),
    };
    for access in &sample.accesses {
        picture.begin_us.push((access.begin_ns as i64 - begin_ns as i64) / 1000);
        picture.length_us.push(access.done_ns.saturating_sub(access.begin_ns) / 1000);
        picture.sector.push(place(access));
        picture.bytes.push(access.bytes);
        picture.class.push(class_number(access.class));
        picture.flushes.push(access.flushes);
        let device = match access.is_call {
            true => "in the file".to_owned(),
            false => format!("{}:{}", access.device.major, access.device.minor),
        };
        picture.device.push(short(&mut picture.devices, &device));
    }
    picture
}

/// In sectors, also of a call's offset.
fn place(access: &Access) -> Option<u64> {
    match (access.is_call, access.sector) {
        (true, u64::MAX) => None,
        (true, offset) => Some(offset / crate::model::SECTOR_BYTES),
        (false, sector) => (access.bytes > 0).then_some(sector),
    }
}
