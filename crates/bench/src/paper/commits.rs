//! Single commits, found in the recording of a run.
//!
//! The recording holds the set-up and the closing, too, which are the main thread's. Of the others
//! the worker makes most of the commits. A transaction of the set-up that another thread's sync
//! made durable comes before them. What the end of the run writes counts with the last commit, so
//! that one is left out. A checkpoint is no part of the commit that it follows.

use std::collections::BTreeMap;
use std::path::Path;

use oneflush_trace::identify::{Amount, Identifier, Layer, Phases, Traffic, Transaction};
use oneflush_trace::import::{self, ImportError};
use serde::Serialize;

use crate::report::median;

/// Four KiB, the block of the paper's file system and of ours.
const BLOCK_BYTES: u64 = 4096;

/// What the commits of one mode sent to the device, without checkpoints.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Commits {
    pub count: u64,
    pub requests_median: f64,
    pub bytes_median: f64,
    /// Commits that were one write request of one block and nothing else.
    pub one_request_count: u64,
    /// Commits that made the file system write its journal.
    pub fs_journal_count: u64,
}

pub type CommitsError = ImportError;

/// The commits of a worker that made `count`, to the database whose path ends in `database`. None
/// where fewer were found.
pub fn read(recording: &Path, database: &str, count: u64) -> Result<Option<Commits>, CommitsError> {
    let mut reader = import::open(recording)?;
    // The device with the file system. What the host makes of its writes is another matter.
    let mut identifier = Identifier::new().count_at(Layer::Highest);
    let mut found = Vec::new();
    while let Some(event) = reader.next()? {
        identifier.push(&event, reader.names());
        while let Some(transaction) = identifier.next_transaction() {
            found.push(transaction);
        }
    }
    let (rest, _) = identifier.finish(reader.names());
    found.extend(rest);
    found.retain(|one| one.database.to_string().ends_with(database));
    Ok(Commits::of_worker(found, count as usize))
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
    fn of_worker(mut found: Vec<Transaction>, count: usize) -> Option<Commits> {
        found.retain(|one| one.process.thread != one.process.process);
        let mut by_thread: BTreeMap<u32, usize> = BTreeMap::new();
        for one in &found {
            *by_thread.entry(one.process.thread).or_default() += 1;
        }
        let (worker, _) = by_thread.into_iter().max_by_key(|(_, commits)| *commits)?;
        found.retain(|one| one.process.thread == worker);
        found.sort_by_key(|one| one.begin_ns);
        let mut commits: Vec<Traffic> =
            found.iter().rev().take(count).map(without_checkpoint).collect();
        if commits.len() < count.max(2) {
            return None;
        }
        commits.remove(0);
        Some(Commits::of(&commits))
    }

    fn of(found: &[Traffic]) -> Commits {
        let middle =
            |of: fn(&Traffic) -> u64| median(found.iter().map(|one| of(one) as f64).collect());
        let count_of = |is: fn(&Traffic) -> bool| found.iter().filter(|one| is(one)).count() as u64;
        Commits {
            count: found.len() as u64,
            requests_median: middle(Traffic::requests),
            bytes_median: middle(Traffic::bytes),
            one_request_count: count_of(|one| one.requests() == 1 && one.bytes() == BLOCK_BYTES),
            fs_journal_count: count_of(|one| one.fs_journal.requests > 0),
        }
    }

    pub fn percent(&self, count: u64) -> f64 {
        count as f64 * 100.0 / self.count.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_request_is_one_block_and_nothing_else() {
        let amount = |bytes, requests| Amount { bytes, requests };
        let commit = |journal, fs_journal| Traffic { journal, fs_journal, ..Traffic::default() };
        let found = [
            commit(amount(4096, 1), amount(0, 0)),
            commit(amount(8192, 1), amount(0, 0)),
            commit(amount(4096, 1), amount(12_288, 2)),
        ];
        let commits = Commits::of(&found);
        assert_eq!((commits.count, commits.one_request_count, commits.fs_journal_count), (3, 1, 1));
        assert_eq!((commits.requests_median, commits.bytes_median), (1.0, 8192.0));
        assert!((commits.percent(commits.one_request_count) - 33.3).abs() < 0.1);
    }
}
