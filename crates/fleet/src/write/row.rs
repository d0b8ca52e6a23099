//! The cells of one transaction, in the order of [`crate::schema::TRANSACTIONS`].
//!
//! A figure that nobody observed is null: without a device, flushes and what the file system wrote;
//! without times, how long anything took.

use std::borrow::Cow;

use oneflush_trace::identify::{Phases, Scope, Traffic, Transaction};
use oneflush_trace::model::Names;

use super::file::Cell;

/// What is the same for many rows.
pub(super) struct Around<'a> {
    pub(super) trace: &'a str,
    pub(super) file_system: Option<&'a str>,
    pub(super) device: Option<&'a str>,
    /// Time of the trace's first event, by its own clock.
    pub(super) first_ns: u64,
}

pub(super) fn cells<'a>(
    around: &Around<'a>,
    begin_us: Option<i64>,
    transaction: &Transaction,
    known: Scope,
    names: &'a Names,
) -> Vec<Cell<'a>> {
    let ns = |ns: u64| if known.has_times { whole(ns) } else { Cell::Null };
    let number = |id: u32| if id == 0 { Cell::Null } else { Cell::Whole(id.into()) };
    let time = |us: Option<i64>| us.map_or(Cell::Null, Cell::Time);
    let latency_us = (transaction.latency_ns() / 1000) as i64;
    let offset_us = (transaction.begin_ns as i64 - around.first_ns as i64).div_euclid(1000);
    let mut cells = Vec::with_capacity(crate::schema::TRANSACTIONS.len());
    cells.extend([
        text(around.trace),
        time(begin_us),
        time(begin_us.map(|begin_us| begin_us + latency_us)),
        Cell::Whole(offset_us),
        transaction.process.name.map_or(Cell::Null, |name| text(names.text(name))),
        number(transaction.process.process),
        number(transaction.process.thread),
        said(&transaction.database),
        Cell::Texts(transaction.others.iter().map(ToString::to_string).collect()),
        said(&transaction.journal_mode),
        said(&transaction.synchronous),
        said(&transaction.outcome),
        ns(transaction.latency_ns()),
    ]);
    let nothing = |count: usize| (0..count).map(|_| Cell::Null);
    match &transaction.phases {
        Phases::Rollback { log_ns, db_ns, reset_ns } => {
            cells.extend([log_ns, db_ns, reset_ns].map(|time| ns(*time)));
            cells.extend(nothing(6));
        }
        Phases::Append { append_ns, checkpoint_ns, checkpoint } => {
            cells.extend(nothing(3));
            cells.extend([append_ns, checkpoint_ns].map(|time| ns(*time)));
            cells.extend(classes(checkpoint, known, true));
        }
    }
    cells.extend([whole(transaction.silent_ns), Cell::Whole(transaction.segments.into())]);
    cells.push(if known.observed.device { whole(transaction.flushes) } else { Cell::Null });
    cells.push(if known.observed.syncs { whole(transaction.syncs) } else { Cell::Null });
    cells.extend(classes(&transaction.traffic, known, false));
    cells.extend(classes(&transaction.traffic, known, true));
    cells.extend([
        Cell::Real(transaction.confidence.value),
        said(&transaction.confidence.reason),
        around.file_system.map_or(Cell::Null, text),
        around.device.map_or(Cell::Null, text),
    ]);
    cells
}

/// Bytes or requests, by class.
fn classes<'a>(traffic: &Traffic, known: Scope, is_bytes: bool) -> [Cell<'a>; 4] {
    let Traffic { db, journal, fs_journal, metadata } = traffic;
    let [db, journal, fs_journal, metadata] = [db, journal, fs_journal, metadata]
        .map(|amount| whole(if is_bytes { amount.bytes } else { amount.requests }));
    match known.observed.device {
        true => [db, journal, fs_journal, metadata],
        false => [db, journal, Cell::Null, Cell::Null],
    }
}

/// No count comes near the bound.
fn whole<'a>(number: u64) -> Cell<'a> {
    Cell::Whole(i64::try_from(number).unwrap_or(i64::MAX))
}

pub(super) fn text(text: &str) -> Cell<'_> {
    Cell::Text(Cow::Borrowed(text))
}

fn said<'a>(thing: &impl ToString) -> Cell<'a> {
    Cell::Text(Cow::Owned(thing.to_string()))
}
