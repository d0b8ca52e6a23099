//! Single commits, found in the recording of a run.
//!
//! The recording holds the set-up and the closing, too, which are the main thread's. Of the others
//! the worker makes most of the commits. A transaction of the set-up that another thread's sync
//! made durable comes before them, and may have the worker's first commit with it. What the end of
//! the run writes counts with the last commit, so that one is left out. A checkpoint is no part of
//! the commit that it follows.

use std::collections::BTreeMap;
use std::path::Path;

use oneflush_trace::identify::{Access, Amount, Class, Phases, Traffic, Transaction};
use oneflush_trace::import::ImportError;
use serde::{Deserialize, Serialize};

use crate::report::median;
use crate::transactions;

/// Four KiB, the block of the paper's file system and of ours.
const BLOCK_BYTES: u64 = 4096;

/// What the commits of one mode sent to the device, without checkpoints.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Commits {
    pub count: u64,
    pub requests_median: f64,
    pub bytes_median: f64,
    /// Commits that were one write request of one block and nothing else.
    pub one_request_count: u64,
    /// Commits that made the file system write its journal.
    pub fs_journal_count: u64,
    /// The writes and flushes of most commits, in their order; `pattern` makes it. None where the
    /// recording has no commit whole.
    pub pattern: Option<String>,
}

pub type CommitsError = ImportError;

/// The commits of a worker that made `count`, to the database whose path ends in `database`. None
/// where more than one is missing.
pub fn read(recording: &Path, database: &str, count: u64) -> Result<Option<Commits>, CommitsError> {
    let found = transactions::identify(recording)?.transactions;
    Ok(Commits::of(&of_worker(found, database), count))
}

/// Of the transactions that a recording has, those of the worker on the database whose path ends
/// so, in their order.
pub fn of_worker(mut found: Vec<Transaction>, database: &str) -> Vec<Transaction> {
    found.retain(|one| one.database.to_string().ends_with(database));
    found.retain(|one| one.process.thread != one.process.process);
    let mut by_thread: BTreeMap<u32, usize> = BTreeMap::new();
    for one in &found {
        *by_thread.entry(one.process.thread).or_default() += 1;
    }
    let worker = by_thread.into_iter().max_by_key(|(_, commits)| *commits);
    found.retain(|one| worker.is_some_and(|(thread, _)| one.process.thread == thread));
    found.sort_by_key(|one| one.begin_ns);
    found
}

fn without_checkpoint(transaction: &Transaction) -> Traffic {
    let all = transaction.traffic;
    let Phases::Append { checkpoint, .. } = transaction.phases else { return all };
    let rest = |all: Amount, part: Amount| Amount {
        bytes: all.bytes.saturating_sub(part.bytes),
        requests: all.requests.saturating_sub(part.requests),
    };
    Traffic {
        db: rest(all.db, checkpoint.db),
        journal: rest(all.journal, checkpoint.journal),
        fs_journal: rest(all.fs_journal, checkpoint.fs_journal),
        metadata: rest(all.metadata, checkpoint.metadata),
    }
}

impl Commits {
    /// Of [`of_worker`]'s transactions, the last `count`.
    pub fn of(found: &[Transaction], count: u64) -> Option<Commits> {
        let count = count as usize;
        let mut commits: Vec<(Traffic, Option<String>)> = found
            .iter()
            .rev()
            .take(count)
            .map(|one| (without_checkpoint(one), whole_pattern(one)))
            .collect();
        if commits.len() + 1 < count || commits.len() < 2 {
            return None;
        }
        commits.remove(0);
        let (traffic, patterns): (Vec<Traffic>, Vec<_>) = commits.into_iter().unzip();
        let pattern = most_frequent(patterns.into_iter().flatten());
        Some(Commits { pattern, ..Commits::of_traffic(&traffic) })
    }

    fn of_traffic(found: &[Traffic]) -> Commits {
        let middle =
            |of: fn(&Traffic) -> u64| median(found.iter().map(|one| of(one) as f64).collect());
        let count_of = |is: fn(&Traffic) -> bool| found.iter().filter(|one| is(one)).count() as u64;
        Commits {
            count: found.len() as u64,
            requests_median: middle(Traffic::requests),
            bytes_median: middle(Traffic::bytes),
            one_request_count: count_of(|one| one.requests() == 1 && one.bytes() == BLOCK_BYTES),
            fs_journal_count: count_of(|one| one.fs_journal.requests > 0),
            pattern: None,
        }
    }

    pub fn percent(&self, count: u64) -> f64 {
        count as f64 * 100.0 / self.count.max(1) as f64
    }
}

/// A commit's writes in their order, each as a letter and its KiB, and `|` for each flush:
/// "J16 N4 | D12 N4 |". D is the database, J a journal, WAL or log, N the file system's journal or
/// nodes, M its other metadata.
fn pattern(accesses: &[Access]) -> String {
    let mut words = Vec::new();
    for access in accesses.iter().filter(|access| !access.is_call) {
        let letter = match access.class {
            Class::Db => "D",
            Class::Journal => "J",
            Class::FsJournal => "N",
            Class::Metadata => "M",
        };
        if access.bytes > 0 {
            words.push(format!("{letter}{}", access.bytes as f64 / 1024.0));
        }
        words.extend((0..access.flushes).map(|_| "|".to_owned()));
    }
    words.join(" ")
}

/// Of several that are as frequent, the first in the order of the alphabet.
fn most_frequent(patterns: impl Iterator<Item = String>) -> Option<String> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for pattern in patterns {
        *counts.entry(pattern).or_default() += 1;
    }
    let most = counts.into_iter().rev().max_by_key(|(_, count)| *count);
    most.map(|(pattern, _)| pattern)
}

/// None where the transaction caused more than its own requests show.
fn whole_pattern(transaction: &Transaction) -> Option<String> {
    let requests = transaction.accesses.iter().filter(|access| !access.is_call);
    let bytes: u64 = requests.map(|access| access.bytes).sum();
    (bytes == transaction.traffic.bytes()).then(|| pattern(&transaction.accesses))
}

#[cfg(test)]
mod tests {
    use oneflush_trace::model::DeviceId;

    use super::*;

    #[test]
    fn the_most_frequent_pattern_stands_for_all() {
        let of = |texts: &[&str]| most_frequent(texts.iter().map(|text| (*text).to_owned()));
        assert_eq!(of(&["J4 |", "D12 |", "J4 |"]).as_deref(), Some("J4 |"));
        assert_eq!(of(&["b", "a"]).as_deref(), Some("a"));
        assert_eq!(of(&[]), None);
    }

    #[test]
    fn a_pattern_has_writes_with_their_kib_and_a_bar_for_each_flush() {
        let access = |class, bytes, flushes| Access {
            begin_ns: 0,
            done_ns: 0,
            device: DeviceId::default(),
            sector: 0,
            bytes,
            class,
            flushes,
            is_call: false,
        };
        let of_a_commit = [
            access(Class::Journal, 16_384, 0),
            access(Class::FsJournal, 4096, 0),
            access(Class::Db, 0, 1),
            access(Class::Metadata, 512, 1),
        ];
        assert_eq!(pattern(&of_a_commit), "J16 N4 | M0.5 |");
    }

    #[test]
    fn one_request_is_one_block_and_nothing_else() {
        let amount = |bytes, requests| Amount { bytes, requests };
        let commit = |journal, fs_journal| Traffic { journal, fs_journal, ..Traffic::default() };
        let found = [
            commit(amount(4096, 1), amount(0, 0)),
            commit(amount(8192, 1), amount(0, 0)),
            commit(amount(4096, 1), amount(12_288, 2)),
        ];
        let commits = Commits::of_traffic(&found);
        assert_eq!((commits.count, commits.one_request_count, commits.fs_journal_count), (3, 1, 1));
        assert_eq!((commits.requests_median, commits.bytes_median), (1.0, 8192.0));
        assert!((commits.percent(commits.one_request_count) - 33.3).abs() < 0.1);
    }
}
