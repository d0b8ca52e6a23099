//! Sums up transactions as they come: all that tables and findings need, and no transaction itself.
//!
//! Up to a number of transactions that the caller chooses, quantiles are exact. Then each list of
//! numbers becomes a sketch ([`super::values`]): fine for all together, rough for each database.

use super::by_class::ByClass;
use super::entry::Entry;
use super::values::{Grain, Values};
use crate::identify::{JournalMode, Outcome, Reason, Synchronous};

/// The paper's bound of an extremely long transaction.
pub(super) const LONG_NS_MIN: u64 = 1_000_000_000;
/// Less sure is unsure; the reasons at [`Reason`].
pub(super) const CONFIDENCE_MIN: f64 = 0.7;
/// A block of the file system, and the page that SQLite has by default.
const BLOCK_BYTES: u64 = 4096;
const FRAME_HEADER_BYTES: u64 = 24;

#[derive(Clone, Debug)]
pub struct Tally {
    exact_max: u64,
    pub(super) count: u64,
    pub(super) flushes: u64,
    pub(super) bytes: ByClass<u64>,
    pub(super) latencies: Values,
    pub(super) volumes: Values,
    pub(super) by_class: [Values; 4],
    pub(super) rolled_back: Amount,
    /// Transactions that kept old pages in a rollback journal.
    pub(super) undo_count: u64,
    pub(super) long_count: u64,
    /// Of the long ones, those in which nothing at all happened most of the time.
    pub(super) long_silent_count: u64,
    /// Latencies of transactions with a checkpoint.
    pub(super) checkpointed: Values,
    pub(super) checkpoint_bytes: u64,
    pub(super) unsure: Vec<(Reason, u64)>,
    pub(super) largest: Option<Entry>,
    /// Transactions whose bytes are not their own.
    pub(super) sharing_count: u64,
    /// By the number of the database.
    pub(super) databases: Vec<OfDatabase>,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Amount {
    pub(super) count: u64,
    pub(super) bytes: u64,
}

#[derive(Clone, Debug, Default)]
pub(super) struct OfDatabase {
    pub(super) bytes: ByClass<u64>,
    pub(super) flushes: u64,
    pub(super) latencies: Values,
    pub(super) volumes: Values,
    pub(super) modes: Vec<((JournalMode, Synchronous), u64)>,
    pub(super) undo: Undo,
    pub(super) wal: Unchecked,
}

/// What went to a WAL since a checkpoint last copied pages of it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Unchecked {
    bytes: u64,
    pub(super) bytes_max: u64,
}

/// Committed transactions with a rollback journal, and what they would write in WAL mode.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Undo {
    pub(super) count: u64,
    pub(super) bytes: u64,
    pub(super) wal_bytes: u64,
    pub(super) flushes: u64,
}

impl Default for Tally {
    /// Exact, however many come.
    fn default() -> Tally {
        Tally::exact_below(u64::MAX)
    }
}

impl Tally {
    /// Quantiles are exact below so many transactions.
    pub fn exact_below(exact_max: u64) -> Tally {
        Tally {
            exact_max,
            count: 0,
            flushes: 0,
            bytes: ByClass::default(),
            latencies: Values::default(),
            volumes: Values::default(),
            by_class: Default::default(),
            rolled_back: Amount::default(),
            undo_count: 0,
            long_count: 0,
            long_silent_count: 0,
            checkpointed: Values::default(),
            checkpoint_bytes: 0,
            unsure: Vec::new(),
            largest: None,
            sharing_count: 0,
            databases: Vec::new(),
        }
    }

    pub fn count(&self) -> u64 {
        self.count
    }

    /// Of so many transactions single volumes mean nothing: only averages are right.
    pub(super) fn shares_bytes(&self) -> bool {
        self.sharing_count * 100 >= self.count.max(1)
    }

    /// The mode that most transactions had.
    pub(super) fn mode(&self) -> Option<JournalMode> {
        let mut counts: Vec<(JournalMode, u64)> = Vec::new();
        for ((mode, _), count) in self.databases.iter().flat_map(|database| &database.modes) {
            match counts.iter_mut().find(|(known, _)| known == mode) {
                Some((_, sum)) => *sum += count,
                None => counts.push((*mode, *count)),
            }
        }
        counts.into_iter().max_by_key(|(_, count)| *count).map(|(mode, _)| mode)
    }

    /// Transactions whose latency is known.
    pub fn latencies_count(&self) -> u64 {
        self.latencies.count()
    }

    /// `entry.database` counts from 0, without holes.
    pub fn add(&mut self, entry: &Entry) {
        if self.count == self.exact_max {
            self.blur();
        }
        let bytes = entry.total_bytes();
        self.count += 1;
        self.flushes += entry.flushes;
        self.bytes.add(entry.bytes);
        if entry.has_latency {
            self.latencies.add(entry.latency_ns);
        }
        self.volumes.add(bytes);
        for (values, bytes) in self.by_class.iter_mut().zip(entry.bytes) {
            values.add(bytes);
        }
        if entry.outcome == Outcome::RolledBack {
            self.rolled_back.count += 1;
            self.rolled_back.bytes += bytes;
        }
        self.undo_count += u64::from(keeps_old_pages(entry.journal_mode));
        if entry.has_latency && entry.latency_ns >= LONG_NS_MIN {
            self.long_count += 1;
            self.long_silent_count += u64::from(entry.silent_ns * 2 > entry.latency_ns);
        }
        if entry.checkpoint_bytes > 0 {
            self.checkpointed.add(entry.latency_ns);
            self.checkpoint_bytes += entry.checkpoint_bytes;
        }
        if entry.confidence.value < CONFIDENCE_MIN {
            bump(&mut self.unsure, entry.confidence.reason);
        }
        if entry.shares_bytes() {
            self.sharing_count += 1;
        } else if self.largest.is_none_or(|largest| bytes >= largest.total_bytes()) {
            self.largest = Some(*entry);
        }
        self.add_to_database(entry, bytes);
    }

    fn add_to_database(&mut self, entry: &Entry, bytes: u64) {
        let number = entry.database as usize;
        let is_blurred = self.count > self.exact_max;
        while self.databases.len() <= number {
            let mut new = OfDatabase::default();
            if is_blurred {
                new.blur();
            }
            self.databases.push(new);
        }
        let database = &mut self.databases[number];
        database.bytes.add(entry.bytes);
        database.flushes += entry.flushes;
        if entry.has_latency {
            database.latencies.add(entry.latency_ns);
        }
        database.volumes.add(bytes);
        bump(&mut database.modes, (entry.journal_mode, entry.synchronous));
        if entry.journal_mode == JournalMode::Wal {
            let wal = &mut database.wal;
            wal.bytes = if entry.bytes[0] > 0 { 0 } else { wal.bytes + entry.bytes[1] };
            wal.bytes_max = wal.bytes_max.max(wal.bytes);
        }
        if keeps_old_pages(entry.journal_mode) && entry.outcome == Outcome::Committed {
            database.undo.count += 1;
            database.undo.bytes += bytes;
            database.undo.wal_bytes += wal_bytes(entry.bytes[0]);
            database.undo.flushes += entry.flushes;
        }
    }

    fn blur(&mut self) {
        let together = [&mut self.latencies, &mut self.volumes, &mut self.checkpointed];
        together.into_iter().chain(&mut self.by_class).for_each(|values| values.blur(Grain::Fine));
        self.databases.iter_mut().for_each(OfDatabase::blur);
    }

    /// No more come: the caller may ask.
    pub fn seal(&mut self) {
        let together = [&mut self.latencies, &mut self.volumes, &mut self.checkpointed];
        together.into_iter().chain(&mut self.by_class).for_each(Values::seal);
        for database in &mut self.databases {
            database.latencies.seal();
            database.volumes.seal();
        }
    }
}

impl OfDatabase {
    fn blur(&mut self) {
        self.latencies.blur(Grain::Rough);
        self.volumes.blur(Grain::Rough);
    }
}

pub(super) fn keeps_old_pages(mode: JournalMode) -> bool {
    matches!(mode, JournalMode::Delete | JournalMode::Truncate | JournalMode::Persist)
}

/// What such a transaction writes in WAL mode, with its part of a checkpoint
/// ([`super::findings`], `wal.rs`).
fn wal_bytes(db_bytes: u64) -> u64 {
    if db_bytes == 0 {
        return 0;
    }
    let frames = db_bytes.div_ceil(BLOCK_BYTES);
    let appended =
        (db_bytes + frames * FRAME_HEADER_BYTES).div_ceil(BLOCK_BYTES) * BLOCK_BYTES + BLOCK_BYTES;
    appended + db_bytes
}

fn bump<T: PartialEq>(counts: &mut Vec<(T, u64)>, thing: T) {
    match counts.iter_mut().find(|(known, _)| *known == thing) {
        Some((_, count)) => *count += 1,
        None => counts.push((thing, 1)),
    }
}
