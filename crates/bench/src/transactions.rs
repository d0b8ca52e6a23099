//! What the transactions of a recording, or of a trace of others, wrote and took: sums, shares and
//! quantiles, as "On the IO characteristics of the SQLite transactions" tells them (MobileSoft'16,
//! section 4).

use std::collections::BTreeMap;
use std::path::Path;

use oneflush_trace::identify::{Identifier, Layer, Transaction};
use oneflush_trace::import::{self, ImportError};
use oneflush_trace::model::{Action, Event, SECTOR_BYTES};
use oneflush_trace::report::quantile;
use serde::{Deserialize, Serialize};

/// All that is found in a file.
pub struct Identified {
    pub transactions: Vec<Transaction>,
    pub writes: Writes,
}

/// Reads a recording or a trace to its end.
pub fn identify(path: &Path) -> Result<Identified, ImportError> {
    let mut reader = import::open(path)?;
    // The device with the file system. What the host makes of its writes is another matter.
    let mut identifier = Identifier::new().count_at(Layer::Highest).keep_accesses();
    let mut transactions = Vec::new();
    let mut counters = WriteCounters::default();
    while let Some(event) = reader.next()? {
        counters.event(&event);
        identifier.push(&event, reader.names());
        while let Some(transaction) = identifier.next_transaction() {
            transactions.push(transaction);
        }
    }
    let (rest, _) = identifier.finish(reader.names());
    transactions.extend(rest);
    Ok(Identified { transactions, writes: counters.finish() })
}

/// Write requests with data, of all that a trace has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Writes {
    pub count: u64,
    pub sectors: u64,
    /// Those that a thread waits for.
    pub sync_count: u64,
    /// Those of 4 KiB.
    pub block_count: u64,
}

/// One for each kind of event of a request's life. A trace need not have all.
#[derive(Default)]
struct WriteCounters {
    by_action: BTreeMap<Action, Writes>,
}

/// The first of these that a trace has is counted.
const COUNTED: [Action; 4] = [Action::Issue, Action::Insert, Action::Queue, Action::Complete];

impl WriteCounters {
    fn event(&mut self, event: &Event) {
        if !event.flags.write || event.bytes == 0 || !COUNTED.contains(&event.action) {
            return;
        }
        let writes = self.by_action.entry(event.action).or_default();
        writes.count += 1;
        writes.sectors += event.bytes / SECTOR_BYTES;
        writes.sync_count += u64::from(event.flags.sync);
        writes.block_count += u64::from(event.bytes == 4096);
    }

    fn finish(self) -> Writes {
        let first = COUNTED.iter().find_map(|action| self.by_action.get(action));
        first.copied().unwrap_or_default()
    }
}

/// Of many transactions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Transactions {
    pub count: u64,
    /// All bytes.
    pub bytes: Spread,
    pub db_bytes: Spread,
    pub journal_bytes: Spread,
    pub fs_journal_bytes: Spread,
    pub latency_ns: Spread,
    pub requests: Spread,
    pub flushes: Spread,
    pub syncs: Spread,
    pub segments: Spread,
    /// By "persist full" and the like.
    pub by_mode: BTreeMap<String, u64>,
    pub with_fs_journal_count: u64,
    pub one_segment_count: u64,
}

/// Of one quantity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    pub sum: f64,
    pub least: f64,
    pub median: f64,
    pub mean: f64,
    pub p75: f64,
    pub p99: f64,
    pub p999: f64,
    pub most: f64,
}

impl Spread {
    fn of(mut values: Vec<u64>) -> Spread {
        values.sort_unstable();
        let Some((least, most)) = values.first().zip(values.last()) else {
            return Spread::default();
        };
        let at = |share| quantile(&values, share) as f64;
        let sum = values.iter().map(|&value| value as f64).sum();
        Spread {
            sum,
            least: *least as f64,
            median: at(0.5),
            mean: sum / values.len() as f64,
            p75: at(0.75),
            p99: at(0.99),
            p999: at(0.999),
            most: *most as f64,
        }
    }
}

impl Transactions {
    /// None of none.
    pub fn of(found: &[Transaction]) -> Option<Transactions> {
        let spread = |of: fn(&Transaction) -> u64| Spread::of(found.iter().map(of).collect());
        let count_of =
            |is: fn(&Transaction) -> bool| found.iter().filter(|one| is(one)).count() as u64;
        let mut by_mode: BTreeMap<String, u64> = BTreeMap::new();
        for one in found {
            let mode = format!("{} {}", one.journal_mode, one.synchronous).to_lowercase();
            *by_mode.entry(mode).or_default() += 1;
        }
        (!found.is_empty()).then(|| Transactions {
            count: found.len() as u64,
            bytes: spread(|one| one.traffic.bytes()),
            db_bytes: spread(|one| one.traffic.db.bytes),
            journal_bytes: spread(|one| one.traffic.journal.bytes),
            fs_journal_bytes: spread(|one| one.traffic.fs_journal.bytes),
            latency_ns: spread(Transaction::latency_ns),
            requests: spread(|one| one.traffic.requests()),
            flushes: spread(|one| one.flushes),
            syncs: spread(|one| one.syncs),
            segments: spread(|one| u64::from(one.segments)),
            by_mode,
            with_fs_journal_count: count_of(|one| one.traffic.fs_journal.requests > 0),
            one_segment_count: count_of(|one| one.segments == 1),
        })
    }

    /// Of all, in percent.
    pub fn percent(&self, count: u64) -> f64 {
        count as f64 * 100.0 / self.count.max(1) as f64
    }

    /// Found with this mode, such as "persist full", in percent.
    pub fn mode_percent(&self, mode: &str) -> f64 {
        self.percent(self.by_mode.get(mode).copied().unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_values_that_occur() {
        let spread = Spread::of((1..=1000).collect());
        assert_eq!((spread.least, spread.median, spread.mean), (1.0, 500.0, 500.5));
        assert_eq!(
            (spread.p75, spread.p99, spread.p999, spread.most),
            (750.0, 990.0, 999.0, 1000.0)
        );
        assert_eq!(Spread::of(vec![7]).p999, 7.0);
        assert_eq!(Spread::of(Vec::new()), Spread::default());
    }
}
