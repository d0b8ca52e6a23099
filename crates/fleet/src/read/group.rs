//! What is summed up of the rows of one group, and of each cluster in it.
//!
//! A cluster is a device, or a trace where no device is known. Transactions of one device resemble
//! each other, so that bounds come from how clusters differ (`crate::compare`).

use oneflush_trace::report::{Entry, Tally, Trace};

/// Entries that a page shows; of more, a sample.
const SHOWN_COUNT_MAX: usize = 20_000;

/// Sums over the transactions of one device or trace.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cluster {
    pub transactions: u64,
    pub bytes: u64,
    pub flushes: Known,
    pub latency_ns: Known,
}

/// A sum over those transactions of which the figure is known.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Known {
    pub transactions: u64,
    pub sum: u64,
}

impl Known {
    fn add(&mut self, figure: Option<u64>) {
        if let Some(figure) = figure {
            self.transactions += 1;
            self.sum += figure;
        }
    }
}

/// The rows of one value of the compared column, or all.
pub struct Group {
    /// The value; none where nothing is compared.
    pub value: Option<String>,
    /// Its `tally` has all; `entries` are a sample where there are very many.
    pub trace: Trace,
    /// One for each cluster that has rows in the group.
    pub clusters: Vec<Cluster>,
}

/// A group that still grows.
pub(super) struct Growing {
    pub(super) value: Option<String>,
    tally: Tally,
    shown: Vec<Entry>,
    is_shown: bool,
    /// By the number of the cluster.
    clusters: Vec<Cluster>,
    /// Numbers of traces with rows in it; rising.
    pub(super) traces: Vec<usize>,
    random: u64,
}

impl Growing {
    pub(super) fn new(value: Option<String>, is_shown: bool, exact_below: u64) -> Growing {
        Growing {
            value,
            tally: Tally::exact_below(exact_below),
            shown: Vec::new(),
            is_shown,
            clusters: Vec::new(),
            traces: Vec::new(),
            random: 0x9e37_79b9_7f4a_7c15,
        }
    }

    pub(super) fn count(&self) -> u64 {
        self.tally.count()
    }

    /// `flushes`: as far as they are known.
    pub(super) fn add(&mut self, entry: &Entry, flushes: Option<u64>, cluster: usize) {
        self.tally.add(entry);
        if self.clusters.len() <= cluster {
            self.clusters.resize(cluster + 1, Cluster::default());
        }
        let sums = &mut self.clusters[cluster];
        sums.transactions += 1;
        sums.bytes += entry.total_bytes();
        sums.flushes.add(flushes);
        sums.latency_ns.add(entry.has_latency.then_some(entry.latency_ns));
        if self.is_shown {
            self.show(entry);
        }
    }

    /// Each of the rows has the same chance to stay (Vitter's algorithm R).
    fn show(&mut self, entry: &Entry) {
        if self.shown.len() < SHOWN_COUNT_MAX {
            return self.shown.push(*entry);
        }
        let place = self.next_random() % self.tally.count();
        if let Some(shown) = self.shown.get_mut(place as usize) {
            *shown = *entry;
        }
    }

    /// Marsaglia's xorshift: the same page for the same data set.
    fn next_random(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }

    /// `databases`, `processes`: the names behind the entries' numbers.
    pub(super) fn end(mut self, databases: &[String], processes: &[String]) -> Group {
        self.tally.seal();
        self.shown.sort_by_key(|entry| entry.begin_ns);
        let begin_ns = self.shown.first().map_or(0, |first| first.begin_ns);
        let trace = Trace {
            tally: self.tally,
            begin_ns,
            end_ns: begin_ns,
            entries: self.shown,
            databases: databases.to_vec(),
            processes: processes.to_vec(),
            ..Trace::default()
        };
        let clusters: Vec<Cluster> =
            self.clusters.into_iter().filter(|cluster| cluster.transactions > 0).collect();
        Group { value: self.value, trace, clusters }
    }
}

impl Group {
    /// Transactions of traces of calls, which show no flush.
    pub fn flushless_count(&self) -> u64 {
        let known: u64 = self.clusters.iter().map(|cluster| cluster.flushes.transactions).sum();
        self.trace.tally.count() - known
    }
}
