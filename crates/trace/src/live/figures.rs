//! What several transactions cost together.

use std::collections::BTreeSet;
use std::ops::AddAssign;

use hdrhistogram::Histogram;

use crate::identify::{Process, Traffic, Transaction};

/// Limit of the processes that are told apart.
const PROCESSES_COUNT_MAX: usize = 64;

#[derive(Clone, Debug, Default)]
pub struct Figures {
    pub transactions: u64,
    pub traffic: Traffic,
    pub flushes: u64,
    /// Microseconds, with two digits; none without transactions.
    latency_us: Option<Histogram<u32>>,
    /// Numbers of the processes that committed.
    processes: BTreeSet<u32>,
}

impl Figures {
    pub(super) fn add(&mut self, transaction: &Transaction) {
        self.transactions += 1;
        self.traffic += transaction.traffic;
        self.flushes += transaction.flushes;
        let latency = self.latency_us.get_or_insert_with(|| {
            let mut latency = Histogram::new(2).expect("two digits are allowed");
            latency.auto(true);
            latency
        });
        latency.record(transaction.latency_ns() / 1000).expect("it grows by itself");
        self.add_processes(number(transaction.process));
    }

    fn add_processes(&mut self, numbers: impl IntoIterator<Item = u32>) {
        for number in numbers {
            if self.processes.len() < PROCESSES_COUNT_MAX {
                self.processes.insert(number);
            }
        }
    }

    pub(super) fn merge(&mut self, other: &Figures) {
        self.transactions += other.transactions;
        self.traffic += other.traffic;
        self.flushes += other.flushes;
        self.add_processes(other.processes.iter().copied());
        let Some(latency) = &other.latency_us else { return };
        match &mut self.latency_us {
            Some(all) => all.add(latency).expect("it grows by itself"),
            none => *none = Some(latency.clone()),
        }
    }

    /// None without transactions.
    pub fn bytes_each(&self) -> Option<f64> {
        self.each(self.traffic.bytes())
    }

    pub fn flushes_each(&self) -> Option<f64> {
        self.each(self.flushes)
    }

    fn each(&self, total: u64) -> Option<f64> {
        (self.transactions > 0).then(|| total as f64 / self.transactions as f64)
    }

    /// 99 % of the transactions took at most so long.
    pub fn p99_ms(&self) -> Option<f64> {
        self.latency_us.as_ref().map(|latency| latency.value_at_quantile(0.99) as f64 / 1000.0)
    }

    /// The share of the bytes that is not the database: SQLite's journal, and the file system's
    /// journal and metadata. `None` without bytes.
    pub fn journaling_share(&self) -> Option<f64> {
        let bytes = self.traffic.bytes();
        (bytes > 0).then(|| (bytes - self.traffic.db.bytes) as f64 / bytes as f64)
    }

    /// How many processes committed, up to 64.
    pub fn processes(&self) -> usize {
        self.processes.len()
    }
}

/// The number of the process, or of the thread if the trace has only threads. `None` for the
/// kernel's write-back.
pub(super) fn number(process: Process) -> Option<u32> {
    let number = if process.process != 0 { process.process } else { process.thread };
    (number != 0).then_some(number)
}

/// What a device has to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    pub bytes: u64,
    pub flushes: u64,
}

impl AddAssign for Load {
    fn add_assign(&mut self, other: Load) {
        self.bytes += other.bytes;
        self.flushes += other.flushes;
    }
}

impl Load {
    /// What the device got since `earlier`.
    pub(super) fn since(self, earlier: Load) -> Load {
        Load {
            bytes: self.bytes.saturating_sub(earlier.bytes),
            flushes: self.flushes.saturating_sub(earlier.flushes),
        }
    }
}
