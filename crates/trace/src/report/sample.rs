//! Keeps the single requests of a few transactions of each database, so that they can be looked at.
//! The transactions are the first, one near the median latency, the slowest, and the largest.
//!
//! The median is not known before the end. A bounded number of candidates is therefore kept, spread
//! over the whole trace. When the candidates are too many, every second one is dropped. From then
//! on, only every second transaction is a candidate.

use std::collections::BTreeMap;

use serde::Serialize;

use super::entry::Entry;
use crate::identify::Access;

/// Databases of which requests are kept; later ones have none.
const DATABASES_COUNT_MAX: usize = 64;
const CANDIDATES_COUNT_MAX: usize = 16;

/// Why this transaction is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Why {
    First,
    Median,
    Slowest,
    Largest,
}

/// A transaction with its single requests.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// Number in [`super::Trace::entries`].
    pub entry: usize,
    /// At least one, in the order of [`Why`].
    pub why: Vec<Why>,
    pub accesses: Vec<Access>,
}

#[derive(Default)]
pub(super) struct Sampler {
    databases: BTreeMap<u32, Kept>,
}

#[derive(Clone)]
struct Candidate {
    number: usize,
    latency_ns: u64,
    bytes: u64,
    accesses: Vec<Access>,
}

struct Kept {
    seen: usize,
    /// One in so many transactions is a candidate for the median.
    step: usize,
    first: Candidate,
    slowest: Candidate,
    largest: Candidate,
    spread: Vec<Candidate>,
}

impl Sampler {
    /// Transactions come as they are found. `number` counts them. A transaction without single
    /// requests has nothing to keep.
    pub(super) fn offer(&mut self, number: usize, entry: &Entry, accesses: Vec<Access>) {
        if accesses.is_empty() {
            return;
        }
        let has_room = self.databases.len() < DATABASES_COUNT_MAX;
        let new = Candidate {
            number,
            latency_ns: entry.latency_ns,
            bytes: entry.total_bytes(),
            accesses,
        };
        match self.databases.get_mut(&entry.database) {
            Some(kept) => kept.offer(new),
            None if has_room => {
                let [first, slowest, largest] = [new.clone(), new.clone(), new.clone()];
                let kept = Kept { seen: 1, step: 1, first, slowest, largest, spread: vec![new] };
                self.databases.insert(entry.database, kept);
            }
            None => {}
        }
    }

    /// `place`: the final place of each transaction in the trace's order.
    pub(super) fn finish(self, entries: &[Entry], place: &[usize]) -> Vec<Sample> {
        let mut latencies: BTreeMap<u32, Vec<u64>> =
            self.databases.keys().map(|&database| (database, Vec::new())).collect();
        for entry in entries {
            if let Some(of_database) = latencies.get_mut(&entry.database) {
                of_database.push(entry.latency_ns);
            }
        }
        let mut samples = Vec::new();
        for (database, kept) in self.databases {
            let mut of_database = latencies.remove(&database).unwrap_or_default();
            of_database.sort_unstable();
            let median_ns = super::quantile(&of_database, 0.5);
            let nearest =
                kept.spread.into_iter().min_by_key(|found| found.latency_ns.abs_diff(median_ns));
            let chosen = [
                (Why::First, Some(kept.first)),
                (Why::Median, nearest),
                (Why::Slowest, Some(kept.slowest)),
                (Why::Largest, Some(kept.largest)),
            ];
            let begin = samples.len();
            for (why, candidate) in chosen {
                let Some(candidate) = candidate else { continue };
                let entry = place[candidate.number];
                match samples[begin..].iter_mut().find(|sample: &&mut Sample| sample.entry == entry)
                {
                    Some(sample) => sample.why.push(why),
                    None => {
                        samples.push(Sample { entry, why: vec![why], accesses: candidate.accesses })
                    }
                }
            }
        }
        samples
    }
}

impl Kept {
    fn offer(&mut self, new: Candidate) {
        if new.latency_ns > self.slowest.latency_ns {
            self.slowest = new.clone();
        }
        if new.bytes > self.largest.bytes {
            self.largest = new.clone();
        }
        if self.seen.is_multiple_of(self.step) {
            if self.spread.len() == CANDIDATES_COUNT_MAX {
                let mut keeps = false;
                self.spread.retain(|_| {
                    keeps = !keeps;
                    keeps
                });
                self.step *= 2;
            }
            if self.seen.is_multiple_of(self.step) {
                self.spread.push(new);
            }
        }
        self.seen += 1;
    }
}
