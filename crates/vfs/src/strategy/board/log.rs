//! What a board says of the log: where the next record goes, and what may be unsure or has failed.

use std::sync::atomic::Ordering::SeqCst;

use oneflush_blocklog::{Epoch, Head, Lsn, invariant};

use super::Board;
use super::words::Word;
use crate::error::Code;
use crate::kill_point::KillPoint;
use crate::mutant::{self, Mutant};
use crate::port::{Below, SyncRequest};

/// What the board says of the log of `eager`.
pub struct Shown {
    pub head: Head,
    /// An epoch has begun for this generation of the image.
    pub begun: bool,
    /// The epoch stands on the synced image.
    pub on_image: bool,
    pub records_in_epoch: u64,
    /// How many pages the log has changes of in this epoch.
    pub pages: u64,
    pub logged: u32,
}

impl Board {
    pub fn is_guard_unsure(&self) -> bool {
        self.get(Word::GuardUnsure) != 0
    }

    pub fn set_guard_unsure(&self, unsure: bool) {
        self.set(Word::GuardUnsure, u64::from(unsure));
    }

    /// An append has failed, so the log may have its record or not.
    pub(super) fn has_failed_append(&self) -> bool {
        self.get(Word::Unsure) != 0
    }

    /// Records from this one on are unsure: the log may have them or not, durably or not. An append
    /// of them has failed, or a process died in it. None of them was acknowledged.
    pub fn unsure(&self) -> Option<Lsn> {
        let failed = Some(self.get(Word::Unsure)).filter(|&lsn| lsn != 0).map(Lsn);
        failed.or_else(|| (self.is_busy() && self.has_our_layout()).then(|| self.next_lsn()))
    }

    /// The record whose append had failed was written again.
    pub fn set_sure(&self) {
        self.set(Word::Unsure, 0);
    }

    pub fn is_busy(&self) -> bool {
        self.get(Word::Busy) != 0
    }

    pub fn set_busy(&self, busy: bool) {
        self.set(Word::Busy, u64::from(busy && !mutant::is(Mutant::BusyForgotten)));
    }

    pub fn failure(&self) -> Option<Code> {
        // The word holds a code.
        Some(self.get(Word::Failed) as i32).filter(|&code| code != 0).map(Code)
    }

    /// Ends the log for all processes (invariant 4).
    pub fn fail(&self, code: Code, unsure: Option<Lsn>) {
        debug_assert_ne!(code, Code(0), "invariant 4: `Failed` is set");
        self.set(Word::Unsure, unsure.map_or(0, |lsn| lsn.0));
        self.set(Word::Failed, code.0 as u64);
    }

    /// The next record goes to `head`.
    pub fn appends_at(&self, head: &Head) {
        invariant!(
            "B2",
            "a record is appended where the last process has left the log",
            (head.lsn, head.epoch.0, head.position)
                == (self.last_lsn(), self.get(Word::Epoch), self.get(Word::Position))
        );
    }

    /// The number of the record that the holder of the lock may be writing.
    pub fn next_lsn(&self) -> Lsn {
        Lsn(self.get(Word::Lsn) + 1)
    }

    pub fn since_ns(&self) -> u64 {
        self.get(Word::SinceNs)
    }

    pub fn set_since_ns(&self, now_ns: u64) {
        self.set(Word::SinceNs, now_ns);
    }

    pub fn set_database_unsynced(&self, unsynced: bool) {
        self.set(Word::DatabaseUnsynced, u64::from(unsynced));
    }

    /// Syncs the database file if it was written since its last sync. With `synchronous=OFF` SQLite
    /// does not sync what its checkpoint has written.
    pub fn sync_database(&self, main: &dyn Below) -> Result<(), Code> {
        if self.get(Word::DatabaseUnsynced) != 0 {
            main.sync(SyncRequest::ALL)?;
            self.set_database_unsynced(false);
        }
        Ok(())
    }

    /// The epoch stands on the synced image.
    pub fn is_on_image(&self) -> bool {
        self.get(Word::OnImage) != 0
    }

    /// Used bytes of the lane in use.
    pub fn used_bytes(&self) -> u64 {
        if self.get(Word::Begun) != 0 { self.get(Word::Position) } else { 0 }
    }

    pub fn lane_bytes(&self) -> u64 {
        self.get(Word::LaneBytes)
    }

    /// Where the next record goes, as the last holder of the lock left it.
    pub fn shown(&self) -> Shown {
        let words = self.0.words();
        let get = |word: Word| words[word as usize].load(SeqCst);
        let head = Head {
            epoch: Epoch(get(Word::Epoch)),
            position: get(Word::Position),
            lsn: Lsn(get(Word::Lsn)),
            previous: get(Word::Previous) as u32,
            lane_bytes: get(Word::LaneBytes),
        };
        Shown {
            head,
            begun: get(Word::Begun) != 0,
            on_image: get(Word::OnImage) != 0,
            records_in_epoch: get(Word::RecordsInEpoch),
            pages: get(Word::Pages),
            logged: get(Word::Logged) as u32,
        }
    }

    /// Puts on the board where the next record goes. `Logged` comes last (invariant 3).
    pub fn show(&self, shown: &Shown) {
        self.changes();
        let words = self.0.words();
        let Head { epoch, position, lsn, previous, lane_bytes } = shown.head;
        for (at, (word, value)) in [
            (Word::Epoch, epoch.0),
            (Word::Position, position),
            (Word::Lsn, lsn.0),
            (Word::Previous, u64::from(previous)),
            (Word::LaneBytes, lane_bytes),
            (Word::Begun, u64::from(shown.begun)),
            (Word::OnImage, u64::from(shown.on_image)),
            (Word::RecordsInEpoch, shown.records_in_epoch),
            (Word::Pages, shown.pages),
            (Word::Logged, u64::from(shown.logged)),
        ]
        .into_iter()
        .enumerate()
        {
            if at == 4 {
                KillPoint::HalfShown.reached();
            }
            words[word as usize].store(value, SeqCst);
        }
    }

    /// With `maw`: the LSN up to which the database file has everything, durably.
    pub fn synced_lsn(&self) -> Lsn {
        Lsn(self.get(Word::SyncedLsn))
    }

    pub fn note_synced(&self, lsn: Lsn) {
        self.word(Word::SyncedLsn).fetch_max(lsn.0, SeqCst);
    }

    /// With `maw`: the LSN of another log, behind which the commits are. `None`: they are in this
    /// one.
    pub fn linked_behind(&self) -> Option<Lsn> {
        self.get(Word::Linked).checked_sub(1).map(Lsn)
    }

    pub fn set_linked(&self, behind: Option<Lsn>) {
        self.set(Word::Linked, behind.map_or(0, |behind| behind.0 + 1));
    }

    /// With `maw`: this epoch has commits of other databases.
    pub fn has_others(&self, epoch: Epoch) -> bool {
        self.get(Word::TogetherEpoch) == epoch.0
    }

    pub fn note_others(&self, epoch: Epoch) {
        self.set(Word::TogetherEpoch, epoch.0);
    }

    /// With `maw`: the change counter that the last commit has left in the database file. `None`:
    /// it is not known.
    pub fn change_counter(&self) -> Option<u32> {
        // One more than a number of 32 bits.
        self.get(Word::Counter).checked_sub(1).map(|counter| counter as u32)
    }

    pub fn note_change_counter(&self, counter: Option<u32>) {
        self.set(Word::Counter, counter.map_or(0, |counter| u64::from(counter) + 1));
    }

    /// The database file is written again, with what the log has.
    pub fn note_unsynced(&self) {
        self.set(Word::SyncedLsn, 0);
    }

    /// The last record.
    pub fn last_lsn(&self) -> Lsn {
        Lsn(self.get(Word::Lsn))
    }

    /// Bytes of the pages that a checkpoint would write.
    pub fn changed_bytes(&self) -> u64 {
        self.get(Word::Pages) * self.get(Word::PageBytes)
    }
}
