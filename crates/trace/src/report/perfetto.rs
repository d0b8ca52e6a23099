//! A trace for ui.perfetto.dev, in Chrome's JSON trace format:
//!
//! | thing | there |
//! |---|---|
//! | trace | a process |
//! | database | a track of the process, with its transactions |
//! | phase, flush | within its transaction |
//! | device | a counter of its requests |
//!
//! Lines are handed out as they become known, so nothing is kept. The viewer sorts them by time.
//! Transactions and phases are async slices (`b`, `e`) of the same id. Flushes are async instants
//! (`n`). A database's transactions may overlap, which slices of a thread must not. Flushes are
//! those of [`Transaction::accesses`].
//!
//! Format: "Trace Event Format",
//! <https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU>.

use serde_json::{Value, json};

use super::depth::Depths;
use crate::identify::{Phases, Transaction};
use crate::model::{Event, Names};

/// The text before the first line, and behind the last.
const HEAD: &str = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[";
const TAIL: &str = "]}";

#[derive(Default)]
pub struct Perfetto {
    begun: bool,
    /// Of the trace, counted from 1.
    process: u32,
    transactions: u64,
    depths: Depths,
}

impl Perfetto {
    /// Another trace begins; must be called before the first one's events.
    pub fn trace(&mut self, label: &str) -> Vec<String> {
        self.process += 1;
        self.depths = Depths::default();
        let head = (!self.begun).then(|| HEAD.to_owned());
        let name = self.line(json!({
            "ph": "M", "name": "process_name", "pid": self.process, "args": {"name": label}
        }));
        head.into_iter().chain([name]).collect()
    }

    pub fn event(&mut self, event: &Event) -> Option<String> {
        let requests = self.depths.event(event)?;
        let name = format!("requests at {}:{}", event.device.major, event.device.minor);
        let args = json!({"requests": requests});
        Some(self.line(json!({
            "ph": "C", "name": name, "pid": self.process,
            "ts": microseconds(event.time_ns), "args": args
        })))
    }

    pub fn transaction(&mut self, transaction: &Transaction, names: &Names) -> Vec<String> {
        self.transactions += 1;
        let database = transaction.database.to_string();
        let (id, process) = (self.transactions, self.process);
        let event = |ph: &str, name: &str, time_ns: u64, args: Value| {
            json!({
                "ph": ph, "cat": "transaction", "id": id, "name": name, "pid": process,
                "tid": transaction.process.thread, "ts": microseconds(time_ns), "args": args
            })
        };
        let traffic = &transaction.traffic;
        let args = json!({
            "process": transaction.process.name.map(|name| names.text(name)),
            "mode": format!("{} {}", transaction.journal_mode, transaction.synchronous),
            "outcome": transaction.outcome.to_string(),
            "bytes": traffic.bytes(),
            "db bytes": traffic.db.bytes,
            "journal bytes": traffic.journal.bytes,
            "fs journal bytes": traffic.fs_journal.bytes,
            "metadata bytes": traffic.metadata.bytes,
            "flushes": transaction.flushes,
            "confidence": transaction.confidence.value,
        });
        let mut events = vec![event("b", &database, transaction.begin_ns, args)];
        for (phase, begin_ns, end_ns) in phases(transaction) {
            events.push(event("b", phase, begin_ns, json!({})));
            events.push(event("e", phase, end_ns, json!({})));
        }
        for access in transaction.accesses.iter().filter(|access| access.flushes > 0) {
            let at_ns = access.done_ns.clamp(transaction.begin_ns, transaction.end_ns);
            events.push(event("n", "flush", at_ns, json!({"flushes": access.flushes})));
        }
        events.push(event("e", &database, transaction.end_ns, json!({})));
        events.into_iter().map(|event| self.line(event)).collect()
    }

    /// The last line.
    pub fn finish(self) -> String {
        if self.begun { TAIL.to_owned() } else { format!("{HEAD}{TAIL}") }
    }

    fn line(&mut self, event: Value) -> String {
        let comma = if self.begun { "," } else { "" };
        self.begun = true;
        format!("{comma}{event}")
    }
}

/// The phases that took any time, within the transaction.
fn phases(transaction: &Transaction) -> Vec<(&'static str, u64, u64)> {
    let begin_ns = transaction.begin_ns;
    let mut phases = match transaction.phases {
        Phases::Rollback { log_ns, db_ns, .. } => {
            let (logged_ns, updated_ns) = (begin_ns + log_ns, begin_ns + log_ns + db_ns);
            vec![
                ("log", begin_ns, logged_ns),
                ("update", logged_ns, updated_ns),
                ("reset", updated_ns, transaction.end_ns),
            ]
        }
        Phases::Append { append_ns, .. } => vec![("append", begin_ns, begin_ns + append_ns)],
    };
    phases.iter_mut().for_each(|(_, begin_ns, end_ns)| {
        *end_ns = (*end_ns).min(transaction.end_ns);
        *begin_ns = (*begin_ns).min(*end_ns);
    });
    phases.retain(|(_, begin_ns, end_ns)| begin_ns < end_ns);
    phases
}

fn microseconds(ns: u64) -> f64 {
    ns as f64 / 1000.0
}
