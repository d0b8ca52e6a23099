//! Transactions over several databases.
//!
//! SQLite's order:
//! 1. write a super-journal that names the journals of all databases;
//! 2. commit each database as if alone;
//! 3. delete the super-journal, which is the commit of all;
//! 4. reset the journals.
//!
//! Parts of one transaction are the databases whose journals a thread begins behind its
//! super-journal. The transaction is handed out as soon as no part is open any more.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::access::{ACCESSES_COUNT_MAX, Accesses};
use super::requests::Request;
use super::traffic::{Class, Traffic};
use super::transaction::{Database, Phases, Transaction};
use super::waiters::Busy;
use crate::model::DeviceId;

/// Nothing joins a transaction after so long a silence of its parts.
const SILENCE_NS_MAX: u64 = 1_000_000_000;

#[derive(Debug)]
struct Joint {
    thread: u32,
    /// The device of the super-journal.
    device: DeviceId,
    main: Arc<str>,
    begin_ns: u64,
    data_done_ns: u64,
    done_ns: u64,
    alive_ns: u64,
    traffic: Traffic,
    flushes: u64,
    parts: Vec<Transaction>,
    /// Numbers of the databases with a part that is not in `parts` yet.
    open: BTreeSet<usize>,
    accesses: Accesses,
}

/// So many super-journals may wait for their first part. Beyond that, the oldest is given up.
const JOINTS_COUNT_MAX: usize = 256;

#[derive(Debug, Default)]
pub(super) struct Joints {
    joints: BTreeMap<u64, Joint>,
    by_thread: BTreeSet<(u32, u64)>,
    /// The transactions without any part, at most [`JOINTS_COUNT_MAX`].
    empty: BTreeSet<u64>,
    /// The transactions that may have become complete.
    to_check: BTreeSet<u64>,
    last_number: u64,
    /// Traffic and flushes of the super-journals that were given up.
    lonely: (Traffic, u64),
    /// Somebody wants the single requests.
    pub keeps_accesses: bool,
}

impl Joints {
    /// A super-journal of `main` is written. Returns the number of its transaction. If another
    /// super-journal is given up for it, also returns the other's number and device.
    pub(super) fn write(
        &mut self,
        main: &str,
        request: &Request,
    ) -> (u64, Option<(u64, DeviceId)>) {
        let thread = request.actor.thread;
        let is_it = |joint: &Joint| {
            joint.thread == thread && &*joint.main == main && joint.alive_ns == joint.done_ns
        };
        let known = self
            .empty
            .iter()
            .rev()
            .copied()
            .find(|number| self.joints.get(number).is_some_and(is_it));
        let amount = request.amount();
        if let Some(number) = known
            && let Some(joint) = self.joints.get_mut(&number)
        {
            joint.traffic.journal += amount;
            joint.accesses.push(Class::Journal, request);
            joint.data_done_ns = joint.data_done_ns.max(request.done_ns);
            joint.touch(request.done_ns);
            joint.alive_ns = joint.done_ns;
            return (number, None);
        }
        let oldest = self.empty.first().copied().filter(|_| self.joints.len() >= JOINTS_COUNT_MAX);
        let mut given_up = None;
        if let Some(number) = oldest
            && let Some(joint) = self.remove(number)
        {
            given_up = Some((number, joint.device));
            self.give_up(joint);
        }
        self.last_number += 1;
        let mut joint = Joint {
            thread,
            device: request.device,
            main: main.into(),
            begin_ns: request.begin_ns,
            data_done_ns: request.done_ns,
            done_ns: request.done_ns,
            alive_ns: request.done_ns,
            traffic: Traffic::default(),
            flushes: request.flushes,
            parts: Vec::new(),
            open: BTreeSet::new(),
            accesses: Accesses::new(self.keeps_accesses),
        };
        joint.traffic.journal += amount;
        joint.accesses.push(Class::Journal, request);
        self.joints.insert(self.last_number, joint);
        self.by_thread.insert((thread, self.last_number));
        self.empty.insert(self.last_number);
        (self.last_number, given_up)
    }

    fn remove(&mut self, number: u64) -> Option<Joint> {
        let joint = self.joints.remove(&number)?;
        self.by_thread.remove(&(joint.thread, number));
        self.empty.remove(&number);
        Some(joint)
    }

    /// The transaction over several databases that may own a journal. `thread` begins to write the
    /// journal at `time_ns`.
    pub(super) fn open(&self, thread: u32, time_ns: u64) -> Option<u64> {
        let &(_, number) = self.by_thread.range((thread, 0)..=(thread, u64::MAX)).next_back()?;
        let newest = self.joints.get(&number)?;
        (newest.parts.is_empty() && time_ns <= newest.alive_ns + SILENCE_NS_MAX).then_some(number)
    }

    /// When the super-journal's own writes and syncs were done.
    pub(super) fn done_ns(&self, number: u64) -> u64 {
        self.joints.get(&number).map_or(0, |joint| joint.done_ns)
    }

    /// The device at which the super-journal was written.
    pub(super) fn device(&self, number: u64) -> DeviceId {
        self.joints.get(&number).map(|joint| joint.device).unwrap_or_default()
    }

    pub(super) fn alive(&mut self, number: u64, time_ns: u64) {
        if let Some(joint) = self.joints.get_mut(&number) {
            joint.alive_ns = joint.alive_ns.max(time_ns);
        }
    }

    pub(super) fn attach(&mut self, number: u64, class: Class, request: &Request) {
        if let Some(joint) = self.joints.get_mut(&number) {
            joint.traffic.add_caused(class, request);
            joint.flushes += request.flushes;
            joint.accesses.push(class, request);
            joint.touch(request.done_ns);
        }
    }

    /// What the writer of the super-journal does, as far as others must know.
    pub(super) fn busy(&self, number: u64) -> Option<Busy> {
        let joint = self.joints.get(&number)?;
        let (since_ns, data_done_ns, thread) =
            (joint.done_ns, joint.data_done_ns, Some(joint.thread));
        Some(Busy { since_ns, data_done_ns, thread, ..Busy::default() })
    }

    /// A part of the transaction is open in the database of this number.
    pub(super) fn join(&mut self, number: u64, database: usize) {
        if let Some(joint) = self.joints.get_mut(&number) {
            joint.open.insert(database);
        }
    }

    /// No part of the transaction is open in that database any more.
    pub(super) fn let_go(&mut self, number: u64, database: usize) {
        if let Some(joint) = self.joints.get_mut(&number) {
            joint.open.remove(&database);
            self.to_check.insert(number);
        }
    }

    /// Adds a complete part. Returns the part if its super-journal was given up.
    pub(super) fn add(&mut self, number: u64, part: Transaction) -> Option<Transaction> {
        let Some(joint) = self.joints.get_mut(&number) else { return Some(part) };
        joint.parts.push(part);
        self.empty.remove(&number);
        self.to_check.insert(number);
        None
    }

    /// The transactions of which no part is open, with their numbers and devices.
    pub(super) fn take_complete(&mut self) -> Vec<(u64, DeviceId, Transaction)> {
        let mut complete = Vec::new();
        for number in std::mem::take(&mut self.to_check) {
            let is_complete = |joint: &Joint| !joint.parts.is_empty() && joint.open.is_empty();
            if self.joints.get(&number).is_some_and(is_complete) {
                let device = self.device(number);
                complete.extend(
                    self.remove(number).and_then(Joint::merge).map(|whole| (number, device, whole)),
                );
            }
        }
        complete
    }

    /// All transactions, at the end of the trace. Also traffic and flushes of the super-journals
    /// without a complete part.
    pub(super) fn finish(&mut self) -> (Vec<Transaction>, (Traffic, u64)) {
        let mut whole = Vec::new();
        for joint in std::mem::take(&mut self.joints).into_values() {
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
}

impl Joint {
    fn touch(&mut self, time_ns: u64) {
        self.done_ns = self.done_ns.max(time_ns);
    }

    fn merge(self) -> Option<Transaction> {
        let mut parts = self.parts;
        let is_main = |part: &Transaction| match &part.database {
            Database::Named(path) => *path == self.main,
            _ => false,
        };
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
            whole.syncs += part.syncs;
            whole.segments += part.segments;
            whole.others.push(part.database);
            whole.accesses.extend(part.accesses);
            if part.confidence.value < whole.confidence.value {
                whole.confidence = part.confidence;
            }
        }
        whole.others.sort();
        whole.accesses.extend(self.accesses.into_vec());
        whole.accesses.sort_by_key(|access| access.begin_ns);
        whole.accesses.truncate(ACCESSES_COUNT_MAX);
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
