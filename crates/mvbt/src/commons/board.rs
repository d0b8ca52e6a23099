//! The words that users of a database share: which version is current, who reads which one, what
//! has changed since.

use std::sync::Arc;
use std::time::Instant;

use oneflush_blocklog::{Uuid, invariant};

use super::{Commons, Then};
use crate::bytes::get_u64;
use crate::kill_point::KillPoint;
use crate::mutant::{self, Mutant};
use crate::{PageNo, Result, Version};

/// So many users at once.
pub const SLOTS: usize = 448;
/// So many changed pages are known. Who has missed more forgets all.
const CHANGED: usize = 4096;
/// So many free pages a user who goes can leave to the others.
pub const LEFT_MAX: usize = 256;

const FILE: [usize; 2] = [0, 1];
/// Rises with each recovery, and with each version that is made void.
const GENERATION: usize = 2;
/// The newest version that a reader may take.
const CURRENT: usize = 3;
/// The version that is being written; 0: none. A writer that died leaves it.
const WRITING: usize = 4;
/// Is there while the first user has judged the last transaction for itself alone.
const UNJUDGED: u64 = u64::MAX;
/// The last version that was given.
const LAST: usize = 5;
/// How many commit blocks were written since the opening.
const RING: usize = 6;
/// One more than the place of the newest commit block that was flushed; 0: none.
const LISTED: usize = 7;
/// The sequence of the newest anchor.
const ANCHOR: usize = 8;
/// One more than the slot of the user that has written last; 0: none.
const WRITER: usize = 9;
/// How many pages were ever changed: with those that are being entered, and without.
const BEGUN: usize = 10;
const ENTERED: usize = 11;
/// One more than the highest slot that was ever used.
const HIGHEST: usize = 12;
/// How many free pages a user has left.
const LEFT: usize = 13;
/// Readers that begin from now on get no older version: it may be gone.
const GIVEN_UP: usize = 14;
const SLOTS_AT: usize = 64;
const LEFT_AT: usize = SLOTS_AT + SLOTS;
const CHANGED_AT: usize = LEFT_AT + LEFT_MAX;
pub const WORDS: usize = CHANGED_AT + CHANGED;

/// Why a user cannot join others.
pub const ORPHANED: &str = "other processes use it, and the file of memory that they share was \
     deleted, or they know the database by another name, or may not write beside it. Close them \
     first";

/// Why nobody can open a file under a name that another file had.
pub const REPLACED: &str = "other processes use another database that had this name, and share the \
     file of memory beside it. Close them first";

pub struct Board(Arc<dyn Commons>);

/// What a cache has to do to be up to date.
#[derive(Debug, PartialEq, Eq)]
pub enum Missed {
    Pages(Vec<PageNo>),
    /// More than is known.
    All,
}

/// Up to where a user knows what has changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    pub generation: u64,
    pub changes: u64,
}

/// The state of a database that nobody else uses.
pub struct Opened {
    pub uuid: Uuid,
    pub current: Version,
    /// Sequence of the anchor in the file.
    pub anchor: u64,
}

impl Board {
    pub fn new(commons: Arc<dyn Commons>) -> Board {
        Board(commons)
    }

    fn load(&self, index: usize) -> u64 {
        self.0.load(index)
    }

    fn store(&self, index: usize, value: u64) {
        self.0.store(index, value);
    }

    // ---- opening ----

    /// The first user says what the others find. All words are 0 before, but that of an anchor
    /// which it has written.
    pub fn open(&self, opened: &Opened) {
        self.use_slot();
        self.store(CURRENT, opened.current.0);
        self.store(LAST, opened.current.0);
        self.store(ANCHOR, opened.anchor);
        for (part, index) in FILE.into_iter().enumerate() {
            self.store(index, get_u64(&opened.uuid.0, 8 * part));
        }
        // Last: a first user that dies before leaves a board that nobody takes for an open one.
        self.store(GENERATION, 1);
    }

    /// Another user has found a board. False: it is of another file, or of none.
    pub fn join(&self, uuid: Uuid) -> bool {
        let is_open = self.load(GENERATION) > 0;
        let is_ours = FILE
            .into_iter()
            .enumerate()
            .all(|(part, index)| self.load(index) == get_u64(&uuid.0, 8 * part));
        if is_open && is_ours {
            self.use_slot();
        }
        is_open && is_ours
    }

    fn use_slot(&self) {
        if !mutant::is(Mutant::SlotUncounted) {
            self.0.raise(HIGHEST, self.own());
        }
        // The user that had this number before may have written last. What it held, this one does
        // not (P7). It does no harm if it is said of another one.
        if self.has_written_last() {
            self.store(WRITER, 0);
        }
        self.show_reader(None);
    }

    pub fn check_user(&self) -> Result<()> {
        self.0.check_user()
    }

    pub fn settle(&self, call: &mut dyn FnMut(bool) -> Result<Then>) -> Result<()> {
        self.0.settle(call)
    }

    // ---- readers ----

    pub fn current(&self) -> Version {
        Version(self.load(CURRENT))
    }

    /// The oldest version that this user reads. To be called before [`Board::current`] is asked
    /// for once more (P2).
    pub fn show_reader(&self, oldest: Option<Version>) {
        self.store(SLOTS_AT + self.0.slot(), oldest.map_or(0, |version| version.0));
    }

    /// What the others see of this user.
    pub fn shown(&self) -> Option<Version> {
        let shown = self.load(SLOTS_AT + self.0.slot());
        (shown != 0).then_some(Version(shown))
    }

    /// Who has shown an older version looks whether it is given up, and then may not read it (P9).
    pub fn given_up(&self) -> Version {
        Version(self.load(GIVEN_UP))
    }

    /// From now on nothing older is kept for readers that have not shown it yet. A writer says so
    /// before it asks for the horizon.
    pub fn give_up_before(&self, version: Version) {
        self.0.raise(GIVEN_UP, version.0);
    }

    /// The oldest version that any user reads, or the current one (P3). A writer asks for it after
    /// it has the lock.
    pub fn horizon(&self) -> Version {
        let mut horizon = self.load(CURRENT);
        let highest = self.load(HIGHEST);
        invariant!(
            "P3",
            "a writer asks all slots, and so its own, what they read",
            highest >= self.own(),
        );
        for slot in 0..(highest as usize).min(SLOTS) {
            let oldest = self.load(SLOTS_AT + slot);
            if oldest != 0 && oldest < horizon && self.0.is_held(slot) {
                horizon = oldest;
            }
        }
        Version(horizon)
    }

    // ---- what has changed ----

    pub fn seen(&self) -> Seen {
        // A change of generation is told after the changes that belong to it.
        let generation = self.load(GENERATION);
        Seen { generation, changes: self.load(ENTERED) }
    }

    /// The pages that were changed since, up to `now`.
    pub fn missed(&self, since: u64, now: u64) -> Missed {
        let known = now.checked_sub(since).filter(|&count| count <= CHANGED as u64);
        if known.is_none() {
            return Missed::All;
        }
        let place = |number: u64| CHANGED_AT + (number % CHANGED as u64) as usize;
        let pages = (since..now).map(|number| PageNo(self.load(place(number)))).collect();
        // A writer that has gone round has said so before it wrote over an entry.
        match self.load(BEGUN).saturating_sub(since) <= CHANGED as u64 {
            true => Missed::Pages(pages),
            false => Missed::All,
        }
    }

    // ---- the writer ----

    pub fn lock_writer(&self, until: Option<Instant>) -> Result<bool> {
        self.0.lock_writer(until)
    }

    pub fn unlock_writer(&self) {
        struct Unlocks<'a>(&'a Board);
        impl Drop for Unlocks<'_> {
            fn drop(&mut self) {
                self.0.0.unlock_writer();
            }
        }
        let _unlocks = Unlocks(self);
        KillPoint::Unlocking.reached();
    }

    /// A transaction is open, and a page may be half written. Where whoever has the writer's lock
    /// finds this, a writer has died, or its rollback failed. What it has written has to be judged
    /// (P4).
    pub fn is_begun(&self) -> bool {
        self.load(WRITING) != 0
    }

    /// A page may be half written just now. As long as nobody has judged what a crash has left,
    /// nobody writes a page.
    pub fn is_writing(&self) -> bool {
        let writing = self.load(WRITING);
        writing != 0 && writing != UNJUDGED && self.0.has_writer()
    }

    pub fn has_writer(&self) -> bool {
        self.0.has_writer()
    }

    /// Readers may take versions of which only the first user knows what is void: no anchor says so
    /// yet (P4).
    pub fn is_unjudged(&self) -> bool {
        self.load(WRITING) == UNJUDGED
    }

    pub fn leave_unjudged(&self) {
        self.store(WRITING, UNJUDGED);
    }

    pub fn begin_writing(&self, version: Version) {
        invariant!(
            "P4",
            "who writes has judged what the one before has left",
            self.load(WRITING) == 0,
        );
        self.store(WRITING, version.0);
    }

    /// The transaction has left nothing.
    pub fn end_writing(&self) {
        self.store(WRITING, 0);
    }

    pub fn last(&self) -> Version {
        Version(self.load(LAST))
    }

    pub fn ring(&self) -> u64 {
        self.load(RING)
    }

    /// Where the newest commit block stands that was flushed.
    pub fn listed(&self) -> Option<u64> {
        self.load(LISTED).checked_sub(1)
    }

    pub fn anchor(&self) -> u64 {
        self.load(ANCHOR)
    }

    pub fn note_anchor(&self, sequence: u64) {
        self.store(ANCHOR, sequence);
    }

    /// True if no other user has written since this one did.
    pub fn has_written_last(&self) -> bool {
        self.load(WRITER) == self.own()
    }

    fn own(&self) -> u64 {
        self.0.slot() as u64 + 1
    }

    /// A version is durable: says which pages it has changed, and then that readers may take it
    /// (P1). Answers how many changes there are now.
    pub fn publish(&self, version: Version, changed: &[PageNo], used_ring: bool) -> u64 {
        let begun = self.load(BEGUN);
        let now = begun + changed.len() as u64;
        self.store(BEGUN, now);
        if changed.len() <= CHANGED {
            for (number, no) in (begun..now).zip(changed) {
                self.store(CHANGED_AT + (number % CHANGED as u64) as usize, no.0);
            }
        }
        KillPoint::HalfEntered.reached();
        let is_late = mutant::is(Mutant::EnteredLate);
        if !is_late {
            self.store(ENTERED, now);
        }
        if used_ring {
            let ring = self.load(RING);
            self.store(LISTED, ring + 1);
            self.store(RING, ring + 1);
        }
        self.store(LAST, version.0);
        self.store(WRITER, self.own());
        KillPoint::Entered.reached();
        invariant!(
            "P1",
            "the pages of a version are entered before readers may take it",
            self.load(ENTERED) == now,
        );
        self.store(CURRENT, version.0);
        if is_late {
            self.store(ENTERED, now);
        }
        KillPoint::Published.reached();
        self.store(WRITING, 0);
        now
    }

    /// Versions up to `last` were given, and some of them are void now. Others read the anchor anew
    /// before they begin.
    pub fn make_void(&self, last: Version, current: Version) {
        self.store(LAST, last.0);
        self.store(WRITER, 0);
        self.0.add(GENERATION, 1);
        KillPoint::Regenerated.reached();
        self.store(CURRENT, current.0);
        self.store(WRITING, 0);
    }

    // ---- free pages that a user leaves to the others; the writer's lock is held ----

    pub fn leave(&self, pages: &[PageNo]) {
        let left = self.load(LEFT) as usize;
        let room = LEFT_MAX.saturating_sub(left);
        for (index, no) in pages.iter().take(room).enumerate() {
            self.store(LEFT_AT + left + index, no.0);
        }
        self.store(LEFT, (left + pages.len().min(room)) as u64);
    }

    pub fn left(&self) -> Vec<PageNo> {
        let left = (self.load(LEFT) as usize).min(LEFT_MAX);
        (0..left).map(|index| PageNo(self.load(LEFT_AT + index))).collect()
    }

    /// A user that dies now loses them.
    pub fn take_left(&self) -> Vec<PageNo> {
        let left = self.left();
        self.store(LEFT, 0);
        left
    }
}
