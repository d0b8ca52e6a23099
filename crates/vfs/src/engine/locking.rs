//! The locks of the WAL index: turns at the read lock, the write lock of group commit, the
//! checkpointer's way to it.
//!
//! A connection that waits here waits in SQLite's busy handler. The handler sleeps by `xSleep` of
//! this VFS. That sleep is the connection's place in the queue ([`sleep`]). A connection without a
//! handler does not wait. The handler's own time limit is the limit of every wait.
//!
//! | function | for | what it adds |
//! |---|---|---|
//! | `take_read_lock_to_write` | a read lock before a write | waits for the turn and at the gate |
//! | `take_write_lock` | the write lock | takes the turn, or a place in the queue |
//! | `take_write_lock_for_checkpoint` | the checkpointer | waits; never answers "busy" |
//! | `wait_for_readers` | the checkpointer | a short wait, with the writers kept out |
//! | `begin_checkpoint` | the checkpoint lock | waits for the background checkpoint |

use std::cell::RefCell;
use std::sync::Weak;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use super::checkpointer::{HeldOff, WRITE_LOCK_MAX};
use super::connection::{WalConnection, doing, pragmas, taken};
use super::gate::Gate;
use super::store::Store;
use super::turns::IDLE_MAX;
use crate::error::{Code, Error};
use crate::kill_point::KillPoint;
use crate::port::{ShmLock, WalIndex};
use crate::stats::clock;
use crate::sync::lock;

/// How often a connection that has its turn looks whether another process has released the write
/// lock.
const POLL: Duration = Duration::from_micros(100);

/// A read lock released this soon was not used for reading. SQLite found the WAL index changed and
/// tries again at once.
const RETRY: Duration = Duration::from_micros(5);

/// A connection that has read for this long before it wrote is expected to do so again. It takes
/// the process's turn at the gate only when it writes, so that others need not wait while it reads.
const LATE: Duration = Duration::from_micros(500);

/// About how long a connection that is expected to write waits for its turn before it may read.
pub(super) const READ_PATIENCE: Duration = Duration::from_millis(20);

/// How long a connection waits at the gate before it tries the write lock as SQLite would.
const GATE_PATIENCE: Duration = Duration::from_millis(200);

/// How long the checkpointer waits for a writer outside the queue before it gives up for now.
const CHECKPOINTER_PATIENCE: Duration = Duration::from_secs(1);

/// How often the checkpointer looks whether it is called off.
const CALL_OFF_POLL: Duration = Duration::from_millis(20);

/// How long the checkpointer keeps the writers out while it waits for readers.
const READERS_PATIENCE: Duration = Duration::from_millis(3);

thread_local! {
    /// The connection that was last told "busy" in this thread and may be about to sleep. The
    /// number is how many locks that connection had asked for then.
    static WAITING: RefCell<Option<(Weak<dyn Sleeps>, u64)>> = const { RefCell::new(None) };
}

/// A connection whose sleeps are its place in the queue.
trait Sleeps: Send + Sync {
    /// Waits for the turn instead of sleeping. True: the time is over, or the turn has come.
    ///
    /// `asked` is how many locks the connection had asked for when it was told "busy". False: it
    /// has asked for another since, so this sleep is not for that "busy".
    fn sleep(&self, asked: u64, at_most: Duration) -> bool;
}

impl<S: Store> WalConnection<S> {
    /// A call of `xShmLock` other than a reader's.
    pub(super) fn change_lock(&self, index: &dyn WalIndex, lock: ShmLock) -> Result<(), Error> {
        self.shares_index.store(true, Relaxed);
        if lock.acquire {
            self.waiter.ends_sleep();
        }
        let just_committed = lock.acquire
            && taken(&self.just_committed)
            && self.pragmas_before.load(Relaxed) == pragmas();
        match (lock.exclusive, lock.acquire) {
            (true, true) if lock.covers(ShmLock::WRITE) && self.is_checkpointer() => {
                self.take_write_lock_for_checkpoint(index, lock)
            }
            (true, true) if lock.covers(ShmLock::WRITE) => self.take_write_lock(index, lock),
            (true, false) if lock.covers(ShmLock::WRITE) => self.release_write_lock(index, lock),
            (true, true) if lock.covers(ShmLock::CHECKPOINT) => {
                self.begin_checkpoint(index, lock, just_committed)
            }
            (true, true) if self.is_checkpointer() && self.writing.load(Relaxed) => {
                self.wait_for_readers(index, lock)
            }
            (true, true)
                if self.checkpoint.automatic.load(Relaxed)
                    && (!self.checkpoint_is_due() || self.request_checkpoint()) =>
            {
                // The answer looks like a reader in the way. SQLite gives the checkpoint up and
                // reports no error.
                Err(Error::Below(Code::BUSY))
            }
            (true, false) if lock.covers(ShmLock::CHECKPOINT) => self.end_checkpoint(index, lock),
            _ => Ok(index.shm_lock(lock)?),
        }
    }

    fn release_write_lock(&self, index: &dyn WalIndex, write: ShmLock) -> Result<(), Error> {
        KillPoint::Releasing.reached();
        // A commit has been written by now. What is still held back was rolled back.
        lock(&self.held).end_transaction();
        self.unchained.forget();
        self.store().releasing_write_lock(self);
        self.note_index(index);
        let result = index.shm_lock(write);
        self.writing.store(false, Relaxed);
        if self.is_checkpointer() {
            self.shared.checkpointer.writes(false);
        }
        if self.group_commit() {
            self.shared.leave(self.id);
        }
        Ok(result?)
    }

    /// `just_committed`: nothing came between a commit and this checkpoint.
    fn begin_checkpoint(
        &self,
        index: &dyn WalIndex,
        lock: ShmLock,
        just_committed: bool,
    ) -> Result<(), Error> {
        self.expects_automatic.store(false, Relaxed);
        if just_committed && !self.is_checkpointer() && self.shared.checkpointer.is_at_it() {
            return Err(Error::Below(Code::BUSY));
        }
        let just_committed = just_committed && !taken(&self.no_automatic);
        // SQLite would sort all frames before it meets the refusal in `change_lock`. Below SQLite's
        // default threshold it is not certain that the checkpoint is an automatic one.
        if just_committed && self.has_automatic_frames() && !self.checkpoint_is_due() {
            return Err(Error::Below(Code::BUSY));
        }
        // A checkpoint that was asked for waits for the background checkpoint instead of meeting
        // its lock.
        let held_off = (!self.is_checkpointer()).then(|| self.shared.checkpointer.hold_off());
        index.shm_lock(lock)?;
        let main = crate::sync::lock(&self.main).clone();
        let checked = self.check_before_checkpoint(main.as_deref()).and_then(|()| {
            // A recovery makes the index anew, and has the write lock.
            let recovers = lock.covers(ShmLock::RECOVER);
            if recovers { Ok(()) } else { self.check_index_before_checkpoint(index) }
        });
        if let Err(code) = checked {
            index.shm_lock(ShmLock { acquire: false, ..lock })?;
            return Err(Error::Below(code));
        }
        KillPoint::CheckpointLocked.reached();
        held_off.into_iter().for_each(HeldOff::keep);
        self.checkpoint.running.store(true, Relaxed);
        self.checkpoint.wal_unsynced.store(true, Relaxed);
        self.checkpoint.automatic.store(just_committed, Relaxed);
        self.checkpoint.prepared.store(false, Relaxed);
        Ok(())
    }

    fn end_checkpoint(&self, index: &dyn WalIndex, lock: ShmLock) -> Result<(), Error> {
        let _held_off = (!self.is_checkpointer()).then(|| self.shared.checkpointer.held_off());
        self.checkpoint.running.store(false, Relaxed);
        self.checkpoint.automatic.store(false, Relaxed);
        if taken(&self.checkpoint.copied_in_vain) {
            // Before the release: another process's checkpoint must not believe the old value.
            index.forget_backfill();
        }
        Ok(index.shm_lock(lock)?)
    }

    /// Takes the read lock of a transaction that is expected to write. The wait for the turn is
    /// here.
    #[inline(never)]
    pub(super) fn take_read_lock_to_write(
        &self,
        index: &dyn WalIndex,
        read: ShmLock,
    ) -> Result<(), Code> {
        // "Busy" is answered once. SQLite counts these answers, sleeps longer after each, and gives
        // up with `SQLITE_PROTOCOL` after 100. On a busy machine the turn may be over before SQLite
        // is here again.
        let looks_again = taken(&self.waiter.looks_again);
        if !looks_again && self.wait_for_turns() {
            // SQLite read the WAL index before the wait. "Busy" makes it read the index again, with
            // the turn in hand.
            self.waiter.looks_again.store(true, Relaxed);
            return Err(Code::BUSY);
        }
        index.shm_lock(read)?;
        KillPoint::ReadLocked.reached();
        self.doing.store(doing::READS, Relaxed);
        self.waiter.reads_since_ns.store(clock::now_ns(), Relaxed);
        Ok(())
    }

    /// Waits for the connection's turn, then at the gate for the turn of the process.
    ///
    /// True: the connection waited and has its turn. It may only want to read after all. After
    /// [`READ_PATIENCE`] it goes on without the turn and keeps its place.
    fn wait_for_turns(&self) -> bool {
        let began = Instant::now();
        let (mut has_turn, mut waited) = self.wait_for_turn(began);
        if has_turn && self.uses_gate() && !self.waiter.writes_late.load(Relaxed) {
            let waits = !self.shared.store.gate().enter();
            waited |= waits;
            has_turn = !waits || self.wait_at_gate(began);
        }
        if waited {
            self.shared.waited(began);
        }
        has_turn && waited
    }

    /// Whether the connection has its turn now, and whether it had to wait.
    fn wait_for_turn(&self, began: Instant) -> (bool, bool) {
        let turns = &self.shared.turns;
        if turns.take(self.id) {
            return (true, false);
        }
        // Every connection waits for the checkpointer, with or without a busy handler, as it would
        // for SQLite's own checkpoint.
        let checkpointer = self.shared.checkpointer_id.load(Relaxed);
        while turns.holds(checkpointer) && began.elapsed() < WRITE_LOCK_MAX {
            if turns.wait(self.id, IDLE_MAX) {
                return (true, true);
            }
        }
        (self.wait_in_busy_handler(began, || turns.wait(self.id, Duration::ZERO)), true)
    }

    /// Waits for the turn of the process, with the connection's own turn in hand.
    fn wait_at_gate(&self, began: Instant) -> bool {
        self.shared.meets_outsiders();
        self.wait_in_busy_handler(began, || {
            let is_open = !self.uses_gate() || self.shared.store.gate().enter();
            self.waiter.waits_at_gate.store(!is_open, Relaxed);
            is_open
        })
    }

    fn wait_in_busy_handler(&self, began: Instant, has_come: impl Fn() -> bool) -> bool {
        let handler = lock(&self.busy_handler).clone();
        let Some(handler) = handler else {
            self.shared.leave(self.id);
            return false;
        };
        while !has_come() {
            if began.elapsed() >= READ_PATIENCE {
                return false;
            }
            self.about_to_sleep();
            if !handler.wait() {
                self.shared.leave(self.id);
                return false;
            }
        }
        true
    }

    /// True if the connection stands at the gate once it has its turn. A connection that never
    /// sleeps has no use for the gate.
    fn uses_gate(&self) -> bool {
        self.waiter.has_slept.load(Relaxed)
            && !self.waiter.passes_by_the_gate.load(Relaxed)
            && (S::Gate::IS_ALWAYS_USED || self.shared.knows_of_outsiders())
    }

    /// Predicts from what this transaction did whether the next one will write.
    #[inline(never)]
    pub(super) fn learn(&self, did: u8) {
        if self.writing.load(Relaxed) {
            // The transaction goes on. A writer that begins the WAL anew gives its read lock back
            // for a moment.
            return;
        }
        let prediction = self.waiter.prediction.load(Relaxed);
        if did == doing::WRITES {
            self.waiter.prediction.store((prediction + 1).min(2), Relaxed);
            return;
        }
        if prediction > 0 {
            let was_retry = self.waiter.read_for() < RETRY;
            if !was_retry && self.shared.turns.holds(self.id) {
                self.shared.counts.mispredicted.fetch_add(1, Relaxed);
            }
            self.shared.leave(self.id);
            if was_retry {
                return;
            }
        }
        // Two steps down for one up: a connection that reads and writes in turn should not queue in
        // order to read.
        self.waiter.prediction.store((prediction - 2).max(-1), Relaxed);
    }

    pub(super) fn take_write_lock(
        &self,
        index: &dyn WalIndex,
        write: ShmLock,
    ) -> Result<(), Error> {
        self.checkpoint.automatic.store(false, Relaxed);
        self.store().taking_write_lock(self);
        if !self.group_commit() {
            if self.store().is_stuck() {
                return Err(Error::Below(Code::BUSY));
            }
            self.try_write_lock(index, write)?;
            self.writing.store(true, Relaxed);
            return Ok(());
        }
        if self.reads_index() {
            index.shm_lock(write)?;
            self.writing.store(true, Relaxed);
            return Ok(());
        }
        if !self.checkpoint.running.load(Relaxed) {
            self.doing.store(doing::WRITES, Relaxed);
        }
        if taken(&self.waiter.bounced) && !self.waiter.has_slept.load(Relaxed) {
            // The connection was told "busy" and came back without a sleep here, and it has never
            // slept here. It must not stand in the queue while it does other things. Once is no
            // proof that it never sleeps. SQLite also asks for this lock to read a WAL index that
            // is being changed, and then tries again at once.
            self.waiter.sleeps.store(false, Relaxed);
            self.shared.leave(self.id);
        }
        self.waiter.writes_late.store(self.waiter.read_for() >= LATE, Relaxed);
        let has_turn = self.shared.turns.take(self.id);
        let tries = !has_turn || !self.uses_gate() || self.shared.store.gate().enter();
        if tries {
            // What this transaction writes could not become durable. SQLite can still be told so
            // here.
            let tried = if self.store().is_stuck() {
                Err(Code::BUSY)
            } else {
                self.try_write_lock(index, write)
            };
            match tried {
                Ok(()) => {
                    self.begins_writing(has_turn);
                    return Ok(());
                }
                Err(Code::BUSY) => {}
                Err(code) => return Err(code.into()),
            }
        }
        self.bounced(has_turn, tries);
        Err(Error::Below(Code::BUSY))
    }

    /// The connection has the write lock.
    fn begins_writing(&self, has_turn: bool) {
        if has_turn {
            self.shared.turns.begin_writing(self.id);
            self.shared.store.gate().begin_writing();
        }
        self.waiter.passes_by_the_gate.store(false, Relaxed);
        self.waiter.outside_holder.store(false, Relaxed);
        self.waiter.waits_at_gate.store(false, Relaxed);
        self.writing.store(true, Relaxed);
        KillPoint::WriteLocked.reached();
    }

    /// The connection is told "busy", and takes a place in the queue. `tried`: it was no gate that
    /// kept it out, but the write lock.
    fn bounced(&self, has_turn: bool, tried: bool) {
        self.waiter.prediction.store(2, Relaxed);
        self.waiter.outside_holder.store(has_turn && tried, Relaxed);
        self.waiter.waits_at_gate.store(has_turn, Relaxed);
        if has_turn {
            self.shared.meets_outsiders();
        }
        self.shared.counts.bounced.fetch_add(1, Relaxed);
        if self.waiter.sleeps.load(Relaxed) {
            // Takes the place only. The connection waits where SQLite sleeps.
            self.shared.turns.wait(self.id, Duration::ZERO);
            self.waiter.bounced.store(true, Relaxed);
            self.about_to_sleep();
        }
    }

    /// True if SQLite wants the write lock only to read the WAL index.
    ///
    /// Before the read lock, SQLite asks for the write lock if the index is being changed or has to
    /// be made anew. A connection that is not expected to write is a reader then and gets no place
    /// in the queue. In the queue it would wait for a commit, and this transaction and the next for
    /// their turn.
    fn reads_index(&self) -> bool {
        self.doing.load(Relaxed) == doing::NOTHING
            && !self.checkpoint.running.load(Relaxed)
            && self.waiter.prediction.load(Relaxed) <= 0
    }

    /// Takes the write lock. If the checkpointer of this process has it, waits for it.
    ///
    /// A connection without a busy handler must not meet the checkpointer's lock either.
    fn try_write_lock(&self, index: &dyn WalIndex, write: ShmLock) -> Result<(), Code> {
        loop {
            let writings = self.shared.checkpointer.writings();
            match index.shm_lock(write) {
                Err(Code::BUSY) if self.shared.checkpointer.gave_way(writings) => {}
                Ok(()) => {
                    return self.check_index(index).inspect_err(|_| {
                        let _ = index.shm_lock(ShmLock { acquire: false, ..write });
                    });
                }
                result => return result,
            }
        }
    }

    /// The checkpointer's way to the write lock. The answer is never "busy".
    ///
    /// After "busy" SQLite would go on without the lock, and a writer could begin the WAL anew
    /// meanwhile. The WAL-reset bug needs exactly that.
    pub(super) fn take_write_lock_for_checkpoint(
        &self,
        index: &dyn WalIndex,
        write: ShmLock,
    ) -> Result<(), Error> {
        let began = Instant::now();
        while began.elapsed() < CHECKPOINTER_PATIENCE && !self.shared.checkpointer.is_called_off() {
            // With the checkpointer's turn, no queued writer of this process is between its read
            // lock and its write lock. A read lock held there would keep the WAL from beginning
            // anew.
            while !self.shared.turns.wait(self.id, CALL_OFF_POLL)
                && began.elapsed() < CHECKPOINTER_PATIENCE
                && !self.shared.checkpointer.is_called_off()
            {}
            self.shared.checkpointer.writes(true);
            match index.shm_lock(write) {
                Ok(()) if self.check_index(index).is_err() => {
                    index.shm_lock(ShmLock { acquire: false, ..write })?;
                    self.shared.checkpointer.writes(false);
                    break;
                }
                Ok(()) => {
                    self.shared.turns.begin_writing(self.id);
                    self.writing.store(true, Relaxed);
                    return Ok(());
                }
                Err(code) => {
                    self.shared.checkpointer.writes(false);
                    if code != Code::BUSY {
                        self.shared.leave(self.id);
                        return Err(code.into());
                    }
                }
            }
            std::thread::sleep(POLL);
            self.shared.turns.renew(self.id);
        }
        self.shared.leave(self.id);
        Err(Error::Below(Code::LOCKED))
    }

    /// Waits a moment for readers while the checkpointer holds the write lock.
    ///
    /// Commits that wait for their flush are readers too, and soon gone. A reader that stays longer
    /// must not stop the writers.
    pub(super) fn wait_for_readers(
        &self,
        index: &dyn WalIndex,
        lock: ShmLock,
    ) -> Result<(), Error> {
        let deadline = Instant::now() + READERS_PATIENCE;
        loop {
            match index.shm_lock(lock) {
                Err(Code::BUSY) if Instant::now() < deadline => std::thread::sleep(POLL / 4),
                result => return Ok(result?),
            }
        }
    }

    fn about_to_sleep(&self) {
        let asked = *lock(&self.waiter.asked);
        self.waiter.may_sleep.store(true, Relaxed);
        // During thread exit the note may be gone. Then the sleep is an ordinary one.
        let _ = WAITING
            .try_with(|waiting| *waiting.borrow_mut() = Some((Weak::clone(&self.me) as _, asked)));
    }

    /// True if another connection has the write lock.
    ///
    /// The check takes the lock and gives it back. A connection that holds the write lock must
    /// never do that. A connection that has asked for a lock since its "busy" may hold the write
    /// lock, or may be closed.
    fn finds_the_lock_taken(&self, asked: u64) -> bool {
        if self.store().is_stuck() {
            return true;
        }
        let asked_now = lock(&self.waiter.asked);
        let main = lock(&self.main);
        let Some(index) =
            main.as_deref().filter(|_| *asked_now == asked && !self.writing.load(Relaxed))
        else {
            return false;
        };
        match index.shm_lock(ShmLock::of_writer(true)) {
            Ok(()) => {
                let _ = index.shm_lock(ShmLock::of_writer(false));
                false
            }
            Err(code) => code == Code::BUSY,
        }
    }
}

impl<S: Store> Sleeps for WalConnection<S> {
    fn sleep(&self, asked: u64, at_most: Duration) -> bool {
        if *lock(&self.waiter.asked) != asked || self.writing.load(Relaxed) {
            return false;
        }
        self.waiter.bounced.store(false, Relaxed);
        self.waiter.has_slept.store(true, Relaxed);
        let deadline = Instant::now() + at_most;
        if !self.shared.turns.wait(self.id, at_most) || !self.waiter.waits_at_gate.load(Relaxed) {
            return true;
        }
        let began = Instant::now();
        while !self.shared.store.gate().wait(IDLE_MAX / 2) && began.elapsed() < GATE_PATIENCE {
            self.shared.turns.renew(self.id);
            if Instant::now() >= deadline {
                return true;
            }
        }
        self.waiter.passes_by_the_gate.store(began.elapsed() >= GATE_PATIENCE, Relaxed);
        self.waiter.waits_at_gate.store(false, Relaxed);
        // A holder that does not use the gate may still have the write lock.
        if !taken(&self.waiter.outside_holder) {
            return true;
        }
        while self.finds_the_lock_taken(asked) && Instant::now() < deadline {
            std::thread::sleep(POLL);
            // Keeps the turn: a wait for another process is not idleness.
            self.shared.turns.renew(self.id);
        }
        true
    }
}

/// `xSleep` of the VFS. True if the sleep was spent in a queue here, for as long as it had to be.
pub fn sleep(microseconds: u64) -> bool {
    let Ok(Some((waiting, asked))) = WAITING.try_with(RefCell::take) else { return false };
    let Some(connection) = waiting.upgrade() else { return false };
    connection.sleep(asked, Duration::from_micros(microseconds))
}
