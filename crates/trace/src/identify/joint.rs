//! Transactions over several databases.
//!
//! SQLite first writes a super-journal that names the journals of all, then commits each database as if alone, then deletes the
//! super-journal, which is the commit of all, then resets the journals. So the databases whose journals the same thread begins to
//! write behind a super-journal are parts of one transaction, which is handed out when no part is open any more.

use std::sync::Arc;

use super::requests::Request;
use super::transaction::{Amount, Class, Database, Phases, Traffic, Transaction};

/// Behind the last sign of life of its parts, nothing joins any more.
const SILENCE_NS_MAX: u64 = 1_000_000_000;

#[derive(Debug)]
struct Joint {
    number: u64,
    thread: u32,
    main: Arc<str>,
    begin_ns: u64,
    data_done_ns: u64,
    done_ns: u64,
    alive_ns: u64,
    traffic: Traffic,
    flushes: u64,
    parts: Vec<Transaction>,
}

/// So many super-journals may wait for their parts; the oldest without any is given up.
const JOINTS_COUNT_MAX: usize = 256;

#[derive(Debug, Default)]
pub(super) struct Joints {
    joints: Vec<Joint>,
    last_number: u64,
    /// Traffic and flushes of those given up.
    lonely: (Traffic, u64),
}

impl Joints {
    /// A super-journal of `main` is written; returns the number of its transaction.
    pub(super) fn write(&mut self, main: &str, request: &Request) -> u64 {
        let thread = request.actor.thread;
        let known = self.joints.iter_mut().rev().find(|joint| {
            joint.thread == thread && &*joint.main == main && joint.alive_ns == joint.done_ns && joint.parts.is_empty()
        });
        let amount = Amount { bytes: request.bytes, requests: request.requests };
        if let Some(joint) = known {
            joint.traffic.journal += amount;
            joint.data_done_ns = joint.data_done_ns.max(request.done_ns);
            joint.touch(request.done_ns);
            joint.alive_ns = joint.done_ns;
            return joint.number;
        }
        if self.joints.len() >= JOINTS_COUNT_MAX
            && let Some(oldest) = self.joints.iter().position(|joint| joint.parts.is_empty())
        {
            let joint = self.joints.remove(oldest);
            self.give_up(joint);
        }
        self.last_number += 1;
        let mut joint = Joint {
            number: self.last_number,
            thread,
            main: main.into(),
            begin_ns: request.begin_ns,
            data_done_ns: request.done_ns,
            done_ns: request.done_ns,
            alive_ns: request.done_ns,
            traffic: Traffic::default(),
            flushes: request.flushes,
            parts: Vec::new(),
        };
        joint.traffic.journal += amount;
        self.joints.push(joint);
        self.last_number
    }

    /// The transaction that a journal which `thread` begins to write at `time_ns` may be part of.
    pub(super) fn open(&self, thread: u32, time_ns: u64) -> Option<u64> {
        let newest = self.joints.iter().rev().find(|joint| joint.thread == thread)?;
        (newest.parts.is_empty() && time_ns <= newest.alive_ns + SILENCE_NS_MAX).then_some(newest.number)
    }

    /// When that super-journal's own writes and syncs were done.
    pub(super) fn done_ns(&self, number: u64) -> u64 {
        self.joints.iter().find(|joint| joint.number == number).map_or(0, |joint| joint.done_ns)
    }

    pub(super) fn alive(&mut self, number: u64, time_ns: u64) {
        if let Some(joint) = self.get(number) {
            joint.alive_ns = joint.alive_ns.max(time_ns);
        }
    }

    pub(super) fn attach(&mut self, number: u64, class: Class, request: &Request) {
        if let Some(joint) = self.get(number) {
            if request.bytes > 0 {
                *joint.traffic.class(class) += Amount { bytes: request.bytes, requests: request.requests };
            }
            joint.flushes += request.flushes;
            joint.touch(request.done_ns);
        }
    }

    /// Super-journals: number, until when their writer was busy, thread, and whether the writes were done at `time_ns`.
    pub(super) fn last_writers(&self, time_ns: u64) -> impl Iterator<Item = (u64, u64, u32, bool)> {
        self.joints.iter().map(move |joint| (joint.number, joint.done_ns, joint.thread, joint.data_done_ns <= time_ns))
    }

    pub(super) fn add(&mut self, number: u64, part: Transaction) {
        if let Some(joint) = self.get(number) {
            joint.parts.push(part);
        }
    }

    /// The transactions of which `is_open` says that no part is open.
    pub(super) fn take_complete(&mut self, is_open: impl Fn(u64) -> bool) -> Vec<Transaction> {
        let (complete, open) =
            self.joints.drain(..).partition(|joint: &Joint| !joint.parts.is_empty() && !is_open(joint.number));
        self.joints = open;
        complete.into_iter().filter_map(Joint::merge).collect()
    }

    /// All, at the end of the trace; and traffic and flushes of super-journals without a complete part.
    pub(super) fn finish(&mut self) -> (Vec<Transaction>, (Traffic, u64)) {
        let mut whole = Vec::new();
        for joint in std::mem::take(&mut self.joints) {
            if joint.parts.is_empty() {
                self.give_up(joint);
            } else {
                whole.extend(joint.merge());
            }
        }
        (whole, self.lonely)
    }

    fn give_up(&mut self, joint: Joint) {
        self.lonely.0 += joint.traffic;
        self.lonely.1 += joint.flushes;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.joints.is_empty()
    }

    fn get(&mut self, number: u64) -> Option<&mut Joint> {
        self.joints.iter_mut().find(|joint| joint.number == number)
    }
}

impl Joint {
    fn touch(&mut self, time_ns: u64) {
        self.done_ns = self.done_ns.max(time_ns);
    }

    fn merge(self) -> Option<Transaction> {
        let mut parts = self.parts;
        let is_main = |part: &Transaction| matches!(&part.database, Database::Named(path) if *path == self.main);
        let main = parts.iter().position(is_main).unwrap_or(0);
        if parts.is_empty() {
            return None;
        }
        let mut whole = parts.swap_remove(main);
        let (mut logs_ns, mut dbs_ns) = (0, 0);
        let mut add_phases = |phases: Phases| {
            if let Phases::Rollback { log_ns, db_ns, .. } = phases {
                logs_ns += log_ns;
                dbs_ns += db_ns;
            }
        };
        add_phases(whole.phases);
        for part in parts {
            add_phases(part.phases);
            whole.begin_ns = whole.begin_ns.min(part.begin_ns);
            whole.end_ns = whole.end_ns.max(part.end_ns);
            whole.traffic += part.traffic;
            whole.flushes += part.flushes;
            whole.segments += part.segments;
            whole.others.push(part.database);
            if part.confidence.value < whole.confidence.value {
                whole.confidence = part.confidence;
            }
        }
        whole.others.sort();
        let super_journal_ns = whole.begin_ns.saturating_sub(self.begin_ns);
        whole.begin_ns = whole.begin_ns.min(self.begin_ns);
        whole.traffic += self.traffic;
        whole.flushes += self.flushes;
        if let Phases::Rollback { log_ns, db_ns, reset_ns } = &mut whole.phases {
            *log_ns = logs_ns + super_journal_ns;
            *db_ns = dbs_ns;
            *reset_ns = (whole.end_ns - whole.begin_ns).saturating_sub(*log_ns + *db_ns);
        }
        Some(whole)
    }
}
