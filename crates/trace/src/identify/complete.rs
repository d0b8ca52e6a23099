//! The way of a database's complete groups to transactions that are handed out. It leads through
//! the decision, the transactions over several databases, and the figures.

use super::decide::Judged;
use super::draft::Kind;
use super::transaction::{Database, Phases, Transaction};
use super::waiters::Owner;
use super::{Identifier, Known};

impl Identifier {
    /// Takes the complete transactions of a database to their decision.
    pub(super) fn collect(&mut self, index: usize) {
        let Known { track, history, .. } = &mut self.databases[index];
        if track.finished.is_empty() {
            return self.follow_joints(index);
        }
        let drafts = std::mem::take(&mut track.finished);
        let judged: Vec<Judged> =
            drafts.into_iter().flat_map(|draft| history.push(draft)).collect();
        track.mode = history.mode();
        self.hand_out(index, judged);
    }

    pub(super) fn hand_out(&mut self, index: usize, judged: Vec<Judged>) {
        for judged in judged {
            let joint = judged.draft.joint;
            let transaction = self.transaction(&self.databases[index].track.database, judged);
            let alone = match joint {
                Some(number) => self.joints.add(number, transaction),
                None => Some(transaction),
            };
            self.ready.extend(alone);
        }
        self.follow_joints(index);
        for (number, device, transaction) in self.joints.take_complete() {
            self.attach.set_busy(device, Owner::Joint(number), None);
            self.ready.push_back(transaction);
        }
    }

    /// Tells `joints` which transactions over several databases have gained or lost an open part
    /// here.
    fn follow_joints(&mut self, index: usize) {
        let Known { track, history, joints, .. } = &mut self.databases[index];
        let open = || track.open_joints().chain(history.open_joints());
        joints.retain(|&number| {
            let is_open = open().any(|other| other == number);
            if !is_open {
                self.joints.let_go(number, index);
            }
            is_open
        });
        for number in open() {
            if !joints.contains(&number) {
                joints.push(number);
                self.joints.join(number, index);
            }
        }
    }

    fn transaction(&self, database: &Database, judged: Judged) -> Transaction {
        let Judged { draft, journal_mode, synchronous, confidence } = judged;
        let latency_ns = draft.end_ns - draft.begin_ns;
        let phases = match draft.kind {
            Kind::Rollback | Kind::Bare => {
                let since = |time_ns: Option<u64>| {
                    time_ns.map_or(latency_ns, |time_ns| time_ns.saturating_sub(draft.begin_ns))
                };
                let reset_at = since(draft.reset_begin_ns).min(latency_ns);
                let db_at = since(draft.db_begin_ns).min(reset_at);
                Phases::Rollback {
                    log_ns: db_at,
                    db_ns: reset_at - db_at,
                    reset_ns: latency_ns - reset_at,
                }
            }
            Kind::Wal | Kind::Eager | Kind::Waldio | Kind::Maw | Kind::Lsmvbt => Phases::Append {
                append_ns: draft.append_end_ns.saturating_sub(draft.begin_ns),
                checkpoint_ns: draft.checkpoint_ns,
                checkpoint: draft.checkpoint,
            },
        };
        Transaction {
            begin_ns: draft.begin_ns,
            end_ns: draft.end_ns,
            process: draft.process.unwrap_or_default(),
            database: database.clone(),
            others: Vec::new(),
            journal_mode,
            synchronous,
            outcome: draft.outcome,
            traffic: draft.traffic,
            flushes: draft.flushes,
            syncs: draft.syncs,
            segments: draft.segments,
            phases,
            silent_ns: self.silences.within_ns(draft.begin_ns, draft.end_ns),
            confidence,
            accesses: draft.accesses.into_vec(),
        }
    }
}
