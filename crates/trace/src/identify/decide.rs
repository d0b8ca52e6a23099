//! Journal mode and synchronization of a database, from its consecutive transactions.
//!
//! Options are static (the paper, section 3.4): a process uses the same ones for the same database.
//! What one transaction shows for certain therefore counts for its neighbours that show less. The
//! first transaction waits for the second.

use std::collections::VecDeque;

use super::draft::{ByLock, Draft, Kind};
use super::transaction::{Confidence, JournalMode, Outcome, Reason, Synchronous};
use super::unsynced::Sign;

/// A journal that is made anew each time needs as much metadata as a new file. A commit of another
/// program just before may have paid for some of it, but seldom. If at least one in this number is
/// cheaper, the journal is an old file that was emptied.
const CHEAP_ONE_IN: u64 = 4;

/// The number of last transactions that decide. A change of the options shows after half of them.
const WINDOW_COUNT: usize = 8;

#[derive(Clone, Copy, Debug)]
struct Evidence {
    mode: (JournalMode, bool),
    synchronous: (Synchronous, bool),
}

#[derive(Debug)]
pub(super) struct Judged {
    pub draft: Draft,
    pub journal_mode: JournalMode,
    pub synchronous: Synchronous,
    pub confidence: Confidence,
}

#[derive(Debug, Default)]
pub(super) struct History {
    recent: VecDeque<Evidence>,
    waiting: Vec<Draft>,
    has_names: bool,
    /// Transactions that show what the file system logged for their journal: all, and the cheap
    /// ones.
    logged_count: u64,
    cheap_count: u64,
}

impl History {
    pub(super) fn new(has_names: bool) -> History {
        History { has_names, ..History::default() }
    }

    /// Takes a complete transaction. Returns those that are decided now.
    pub(super) fn push(&mut self, draft: Draft) -> Vec<Judged> {
        if draft.outcome == Outcome::Committed && draft.kind != Kind::Bare {
            if self.recent.len() == WINDOW_COUNT {
                self.recent.pop_front();
            }
            if let Some(is_cheap) = draft.logged_little() {
                self.logged_count += 1;
                self.cheap_count += u64::from(is_cheap);
            }
            self.recent.push_back(Evidence {
                mode: draft.journal_mode(),
                synchronous: draft.synchronous(),
            });
        }
        self.waiting.push(draft);
        if self.recent.len() < 2 && self.waiting.len() < WINDOW_COUNT {
            return Vec::new();
        }
        self.finish()
    }

    /// Decides the transactions that wait, with what is known.
    pub(super) fn finish(&mut self) -> Vec<Judged> {
        let waiting = std::mem::take(&mut self.waiting);
        waiting.into_iter().map(|draft| self.judge(draft)).collect()
    }

    /// Transactions over several databases of which a part waits here.
    pub(super) fn open_joints(&self) -> impl Iterator<Item = u64> {
        self.waiting.iter().filter_map(|draft| draft.joint)
    }

    /// The mode that the last transactions agree on.
    pub(super) fn mode(&self) -> Option<JournalMode> {
        (self.recent.len() >= 2)
            .then(|| majority(self.recent.iter().map(|evidence| evidence.mode)))
            .flatten()
            .map(|found| found.0)
    }

    fn judge(&self, draft: Draft) -> Judged {
        let own_mode = draft.journal_mode();
        let own_sync = draft.synchronous();
        let neighbours = majority(self.recent.iter().map(|evidence| evidence.mode));
        let same_kind = |mode: JournalMode| forward(mode) == forward(own_mode.0);
        let (mode, is_certain) = match neighbours {
            _ if draft.kind == Kind::Bare => (JournalMode::Unknown, false),
            _ if draft.outcome == Outcome::RolledBack && neighbours.is_none() => {
                (JournalMode::Unknown, false)
            }
            Some(found) if !own_mode.1 && same_kind(found.0) => found,
            Some(found) if draft.outcome == Outcome::RolledBack && same_kind(found.0) => found,
            _ => own_mode,
        };
        let is_cheap = self.cheap_count > 0 && self.cheap_count * CHEAP_ONE_IN >= self.logged_count;
        let mode = if mode == JournalMode::Delete && !is_certain && is_cheap {
            JournalMode::Truncate
        } else {
            mode
        };
        let synchronous = match majority(self.recent.iter().map(|evidence| evidence.synchronous)) {
            _ if draft.kind == Kind::Bare => Synchronous::Unknown,
            // A rolled back transaction may never have come to its second synchronization.
            Some(found)
                if draft.outcome == Outcome::RolledBack || !own_sync.1 || self.recent.len() > 2 =>
            {
                found.0
            }
            _ => own_sync.0,
        };
        let differs =
            (own_mode.1 && mode != own_mode.0) || (own_sync.1 && synchronous != own_sync.0);
        let (value, reason) = match draft.kind {
            Kind::Bare => (0.3, Reason::NoJournal),
            _ if let Some(by_lock) = draft.by_lock => by_lock_alone(by_lock),
            _ if !draft.synced => (0.3, Reason::Unsynced),
            _ if draft.carries && synchronous == Synchronous::Normal => (0.9, Reason::Carries),
            Kind::Wal if synchronous == Synchronous::Normal && !draft.shows_locks => {
                (0.4, Reason::Batch)
            }
            Kind::Rollback if !is_certain && draft.joint.is_some() && draft.emptied => {
                (0.6, Reason::Joint)
            }
            Kind::Rollback
                if !is_certain && matches!(mode, JournalMode::Delete | JournalMode::Truncate) =>
            {
                (0.6, Reason::DeleteOrTruncate)
            }
            _ if differs && draft.outcome == Outcome::Committed => (0.7, Reason::Neighbours),
            Kind::Rollback if draft.is_one_page => (0.8, Reason::OnePageJournal),
            _ if !self.has_names => (0.85, Reason::NoNames),
            _ if self.recent.len() < 2 => (0.9, Reason::Single),
            _ => (1.0, Reason::Whole),
        };
        Judged { draft, journal_mode: mode, synchronous, confidence: Confidence { value, reason } }
    }
}

fn by_lock_alone(ByLock { sign, is_shared }: ByLock) -> (f64, Reason) {
    match (sign, is_shared) {
        (Sign::Lock, _) => (0.6, Reason::LockAlone),
        (_, true) => (0.9, Reason::Shared),
        (_, false) => (0.9, Reason::Lock),
    }
}

fn forward(mode: JournalMode) -> bool {
    matches!(
        mode,
        JournalMode::Wal
            | JournalMode::Eager
            | JournalMode::Waldio
            | JournalMode::Maw
            | JournalMode::Lsmvbt
    )
}

/// The value that most say. A certain word counts as four others. Of equals, the one said last.
fn majority<T: PartialEq + Copy>(
    said: impl DoubleEndedIterator<Item = (T, bool)> + Clone,
) -> Option<(T, bool)> {
    let weight = |value: T| -> u32 {
        said.clone()
            .filter(|&(other, _)| other == value)
            .map(|(_, certain)| if certain { 4 } else { 1 })
            .sum()
    };
    let mut best: Option<(T, u32)> = None;
    for (value, _) in said.clone().rev() {
        let weight = weight(value);
        if best.is_none_or(|(_, most)| weight > most) {
            best = Some((value, weight));
        }
    }
    best.map(|(value, _)| (value, said.clone().any(|(other, certain)| other == value && certain)))
}

#[cfg(test)]
mod tests {
    use super::majority;

    #[test]
    fn a_certain_word_outweighs_three_uncertain_ones() {
        assert_eq!(
            majority([(1, true), (2, false), (2, false), (2, false)].into_iter()),
            Some((1, true))
        );
    }

    #[test]
    fn of_equal_words_the_last_counts() {
        assert_eq!(majority([(1, true), (2, true)].into_iter()), Some((2, true)));
        assert_eq!(majority(std::iter::empty::<(u8, bool)>()), None);
    }
}
