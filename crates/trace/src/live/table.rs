//! The table: each database's figures over the window, and the device's.
//!
//! A transaction counts at its end, but is known a little later: the identifier hands it out when
//! the next one of its database begins. A database's last transaction is therefore missing until
//! then. A database that commits seldom has no transaction in the window. Its figures are then
//! those of its last transaction, with a rate of 0.

use std::collections::HashMap;

use super::figures::{Figures, Load, number};
use super::window::{self, Window};
use crate::identify::{Counted, Database, JournalMode, Synchronous, Transaction};
use crate::model::{Event, Names};

/// A database of which nothing is seen for so long is forgotten.
pub const FORGET_NS: u64 = 600_000_000_000;

/// Limit of the databases that are kept. The one that was not seen for longest makes room.
const ROWS_COUNT_MAX: usize = 4096;

/// The process that committed last. `name`: if the kernel told one. `id`: the number of the
/// process, else of the thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Owner {
    pub name: Option<String>,
    pub id: Option<u32>,
}

#[derive(Clone, Debug)]
pub struct Row {
    pub database: Database,
    /// The mode of the last transaction.
    pub journal_mode: JournalMode,
    pub synchronous: Synchronous,
    pub owner: Owner,
    /// Transactions a second.
    pub rate: f64,
    /// Figures of the window. If the window has none, those of the last transaction.
    pub figures: Figures,
    /// False if the figures are of a transaction before the window.
    pub is_current: bool,
}

/// The table at one moment.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// By name.
    pub rows: Vec<Row>,
    /// Of all transactions in the window.
    pub total: Figures,
    pub total_rate: f64,
    /// What the device was sent in the window, and what of that belongs to no transaction.
    pub device: Load,
    pub no_transaction: Load,
    /// The length of the window. It is shorter as long as the watch is younger.
    pub seconds: f64,
    /// Events that were lost since the begin.
    pub lost: u64,
}

struct Known {
    last: Transaction,
    owner: Owner,
    seen_ns: u64,
    window: Window<Figures>,
}

#[derive(Default)]
pub struct Table {
    begin_ns: u64,
    rows: HashMap<Database, Known>,
    device: Window<Load>,
    no_transaction: Window<Load>,
    /// The load of no transaction, as told last.
    told: Load,
    lost: u64,
}

impl Table {
    pub fn new(begin_ns: u64) -> Table {
        Table { begin_ns, ..Table::default() }
    }

    /// Counts what the devices of a layer are sent: bytes as they are queued, flushes as they reach
    /// them.
    pub fn event(&mut self, event: &Event, counted: Counted, now_ns: u64) {
        let bytes = if counted.bytes && event.flags.write { event.bytes } else { 0 };
        let is_flush = counted.flush;
        if (bytes > 0 || is_flush)
            && let Some(slot) = self.device.at(event.time_ns, now_ns)
        {
            *slot += Load { bytes, flushes: u64::from(is_flush) };
        }
    }

    pub fn transaction(&mut self, transaction: Transaction, names: &Names, now_ns: u64) {
        let process = transaction.process;
        let owner = Owner {
            name: process.name.map(|name| names.text(name).to_owned()),
            id: number(process),
        };
        if self.rows.len() >= ROWS_COUNT_MAX && !self.rows.contains_key(&transaction.database) {
            self.make_room();
        }
        let known = self.rows.entry(transaction.database.clone()).or_insert_with(|| Known {
            last: transaction.clone(),
            owner: owner.clone(),
            seen_ns: now_ns,
            window: Window::default(),
        });
        known.seen_ns = now_ns;
        if let Some(figures) = known.window.at(transaction.end_ns, now_ns) {
            figures.add(&transaction);
        }
        if owner.id.is_some() {
            // The kernel's write-back is the work of no process. The last committer stays.
            known.owner = owner;
        }
        known.last = transaction;
    }

    /// `total`: of no transaction, since the begin. To be told often.
    pub fn no_transaction(&mut self, total: Load, now_ns: u64) {
        let new = total.since(self.told);
        self.told = total;
        if new != Load::default()
            && let Some(slot) = self.no_transaction.at(now_ns, now_ns)
        {
            *slot += new;
        }
    }

    /// `total`: since the begin.
    pub fn lost(&mut self, total: u64) {
        self.lost = total;
    }

    /// Forgets the databases of which nothing was seen for too long.
    pub fn expire(&mut self, now_ns: u64) {
        self.rows.retain(|_, known| {
            known.window.expire(now_ns);
            now_ns.saturating_sub(known.seen_ns) < FORGET_NS
        });
    }

    fn make_room(&mut self) {
        let oldest = self
            .rows
            .iter()
            .min_by_key(|(_, known)| known.seen_ns)
            .map(|(database, _)| database.clone());
        if let Some(oldest) = oldest {
            self.rows.remove(&oldest);
        }
    }

    pub fn snapshot(&self, now_ns: u64) -> Snapshot {
        let seconds = window::seconds(self.begin_ns, now_ns);
        let rate = |figures: &Figures| {
            if seconds > 0.0 { figures.transactions as f64 / seconds } else { 0.0 }
        };
        let sum = |window: &Window<Load>| {
            window.slots(now_ns).fold(Load::default(), |mut sum, slot| {
                sum += *slot;
                sum
            })
        };
        let mut total = Figures::default();
        let mut rows: Vec<Row> = Vec::with_capacity(self.rows.len());
        for (database, known) in &self.rows {
            if now_ns.saturating_sub(known.seen_ns) >= FORGET_NS {
                continue;
            }
            let mut figures = Figures::default();
            known.window.slots(now_ns).for_each(|slot| figures.merge(slot));
            total.merge(&figures);
            let (rate, is_current) = (rate(&figures), figures.transactions > 0);
            if !is_current {
                figures.add(&known.last);
            }
            let Transaction { journal_mode, synchronous, .. } = known.last;
            let owner = known.owner.clone();
            rows.push(Row {
                database: database.clone(),
                journal_mode,
                synchronous,
                owner,
                rate,
                figures,
                is_current,
            });
        }
        rows.sort_by(|one, other| one.database.cmp(&other.database));
        Snapshot {
            rows,
            total_rate: rate(&total),
            total,
            device: sum(&self.device),
            no_transaction: sum(&self.no_transaction),
            seconds,
            lost: self.lost,
        }
    }
}

#[cfg(test)]
mod tests;
