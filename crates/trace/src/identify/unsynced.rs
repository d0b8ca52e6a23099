//! Transactions that their own thread does not synchronize: those with `synchronous=NORMAL`, and
//! with `FULL` those that another thread's synchronization has made durable.
//!
//! The device sees such transactions only when somebody else writes many at once. Two things show
//! each transaction: the lock for writing, and what the holder of the lock wrote ([`Sign`]).
//!
//! What a thread did between lock and unlock waits for two answers:
//! 1. Was it committed? The frames of a transaction that was rolled back are overwritten by the
//!    next. Of our own logs that does not show.
//! 2. Did the thread itself synchronize the log before it took the lock again? It does so with
//!    `FULL`, and for a checkpoint. What the device saw is then the transaction, and it is not told
//!    here.
//!
//! `eager` keeps its frames in memory, so only the lock shows its commits. A transaction that has
//! changed nothing takes the lock as well, and with `FULL` looks like a commit with `NORMAL`. So
//! these are told only where [`LONE_COUNT_MIN`] come in a row.
//!
//! Kept are the holder of the lock of each database, and the last transaction of each of
//! [`THREADS_COUNT_MAX`] threads.

use std::collections::HashMap;

use super::transaction::Process;

/// Limit of the threads that are waited for to take the lock of a database again.
const THREADS_COUNT_MAX: usize = 64;
/// So many that only the lock shows come in a row, and nobody has synchronized any of them.
const LONE_COUNT_MIN: usize = 8;

/// What shows that a thread has written while it had the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sign {
    /// Frames in a WAL.
    Frames,
    /// Writes to the log of `waldio`.
    Slots,
    /// Nothing but the lock, with `eager`.
    Lock,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Synced {
    No,
    /// The thread did so while it had the lock.
    Inside,
    /// The thread did so after it gave the lock back: for a checkpoint.
    Behind,
}

/// What one thread did while it had the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Held {
    pub process: Process,
    pub begin_ns: u64,
    pub end_ns: u64,
    pub sign: Sign,
    /// The thread that synchronized the log behind it, perhaps for both.
    synced_by: Option<u32>,
    synced: Synced,
    /// The thread was seen to write.
    has_written: bool,
    /// Offset of the first frame in the WAL.
    first: Option<u64>,
    /// The thread wrote the header of the WAL.
    restarts: bool,
    /// Whether the transaction was committed, as far as it shows.
    is_committed: Option<bool>,
    /// The thread has taken the lock again.
    is_over: bool,
}

impl Held {
    /// Another thread's synchronization has made it durable.
    pub(super) fn is_shared(&self) -> bool {
        self.synced_by.is_some()
    }
}

/// Those that only the lock shows, as they came in a row.
#[derive(Debug, Default)]
struct Lone {
    waiting: Vec<Held>,
    /// Since somebody synchronized the log.
    count: usize,
    are_told: bool,
}

/// By the numbers of databases.
#[derive(Debug, Default)]
pub(super) struct Unsynced {
    open: HashMap<usize, Held>,
    ended: HashMap<usize, Vec<Held>>,
    lone: HashMap<usize, Lone>,
}

impl Unsynced {
    /// The thread takes the lock. Returns what the thread did before, if it has synchronized that
    /// for a checkpoint.
    pub(super) fn lock(&mut self, index: usize, process: Process, time_ns: u64) -> Option<Held> {
        let held = Held {
            process,
            begin_ns: time_ns,
            end_ns: time_ns,
            sign: Sign::Frames,
            synced_by: None,
            synced: Synced::No,
            has_written: false,
            first: None,
            restarts: false,
            is_committed: None,
            is_over: false,
        };
        // A holder that never gave the lock back is dead.
        self.open.insert(index, held);
        let ended = self.ended.get_mut(&index)?;
        let at = ended.iter().position(|held| held.process.thread == process.thread)?;
        match (ended[at].synced, ended[at].sign) {
            (Synced::Behind, _) => Some(ended.remove(at)),
            (Synced::Inside, _) => {
                ended.remove(at);
                None
            }
            (Synced::No, Sign::Lock) => {
                let lone = self.lone.entry(index).or_default();
                lone.waiting.push(ended.remove(at));
                lone.count += 1;
                lone.are_told |= lone.count >= LONE_COUNT_MIN;
                None
            }
            (Synced::No, _) => {
                ended[at].is_over = true;
                None
            }
        }
    }

    /// Those that only the lock shows, as far as they are told.
    pub(super) fn lone(&mut self, index: usize) -> Vec<Held> {
        let Some(lone) = self.lone.get_mut(&index) else { return Vec::new() };
        let are_told = lone.are_told;
        let (told, waiting) = lone.waiting.drain(..).partition(|held| are_told || held.is_shared());
        lone.waiting = waiting;
        told
    }

    /// A header of the WAL or a frame is written at `offset`, or the log of `waldio` at an unknown
    /// one. Returns the transactions of which everything is known now, in their order.
    pub(super) fn log_write(
        &mut self,
        index: usize,
        thread: u32,
        offset: Option<u64>,
    ) -> Vec<Held> {
        let Some(held) = self.open.get_mut(&index).filter(|held| held.process.thread == thread)
        else {
            return Vec::new();
        };
        if offset == Some(0) {
            held.restarts = true;
            return Vec::new();
        }
        let is_first = !held.has_written;
        held.has_written = true;
        held.first = held.first.map_or(offset, |first| offset.map(|offset| first.min(offset)));
        held.sign = if offset.is_some() { Sign::Frames } else { Sign::Slots };
        // The earlier synchronization did not contain this frame.
        held.synced = Synced::No;
        held.synced_by = None;
        let restarts = held.restarts;
        if !is_first {
            return Vec::new();
        }
        let ended = self.ended.entry(index).or_default();
        for before in ended.iter_mut().filter(|before| before.is_committed.is_none()) {
            // A WAL begins anew behind a checkpoint, which has synchronized it. It also begins anew
            // behind a first transaction that was rolled back.
            let is_synced = before.synced != Synced::No || before.is_shared();
            before.is_committed = Some(match (restarts, before.first, offset) {
                (true, ..) => is_synced,
                (false, Some(first), Some(offset)) => first < offset,
                (false, ..) => true,
            });
        }
        ended.retain(|before| before.is_committed != Some(false));
        // These threads never come again.
        let forgotten = ended.len().saturating_sub(THREADS_COUNT_MAX);
        ended[..forgotten].iter_mut().for_each(|before| before.is_over = true);
        let (mut known, waiting): (Vec<Held>, _) =
            ended.drain(..).partition(|before| before.is_over);
        *ended = waiting;
        known.sort_by_key(|held| held.begin_ns);
        known
    }

    /// When the thread took the lock that it holds.
    pub(super) fn lock_ns(&self, index: usize, thread: u32) -> Option<u64> {
        self.open.get(&index).filter(|held| held.process.thread == thread).map(|held| held.begin_ns)
    }

    /// `is_hidden`: what a thread writes does not show.
    pub(super) fn unlock(&mut self, index: usize, thread: u32, time_ns: u64, is_hidden: bool) {
        let Some(mut held) = self.open.remove(&index).filter(|held| held.process.thread == thread)
        else {
            return;
        };
        held.end_ns = time_ns;
        if held.has_written {
            self.ended.entry(index).or_default().push(held);
        } else if is_hidden {
            held.sign = Sign::Lock;
            held.is_committed = Some(true);
            self.ended.entry(index).or_default().push(held);
        }
        // Else the thread has changed nothing.
    }

    /// A thread begins to synchronize the log.
    pub(super) fn sync(&mut self, index: usize, thread: u32) {
        if let Some(lone) = self.lone.get_mut(&index) {
            // A row that was too short ends untold.
            lone.are_told &= lone.count >= LONE_COUNT_MIN;
            lone.waiting.clear();
            lone.count = 0;
        }
        let ended =
            self.ended.get_mut(&index).into_iter().flatten().map(|held| (held, Synced::Behind));
        let open = self.open.get_mut(&index).into_iter().map(|held| (held, Synced::Inside));
        for (held, synced) in ended.chain(open) {
            if held.process.thread != thread {
                held.synced_by = held.synced_by.or(Some(thread));
            } else if held.synced == Synced::No {
                held.synced = synced;
            }
        }
    }

    /// A thread has synchronized the log. What it did for others ends with that.
    pub(super) fn synced(&mut self, index: usize, thread: u32, time_ns: u64) {
        for held in self.ended.get_mut(&index).into_iter().flatten() {
            if held.synced_by == Some(thread) {
                held.end_ns = held.end_ns.max(time_ns);
                // Its next synchronization is for others.
                held.synced_by = Some(0);
            }
        }
    }

    /// The trace has ended. Returns what is left, with the numbers of the databases. The flag says
    /// whether the transaction was synchronized for a checkpoint.
    pub(super) fn finish(&mut self) -> Vec<(usize, Held, bool)> {
        let ended = std::mem::take(&mut self.ended).into_iter();
        let ended = ended.flat_map(|(index, held)| held.into_iter().map(move |held| (index, held)));
        let lone = std::mem::take(&mut self.lone);
        let is_told = |(index, held): &(usize, Held)| match held.sign {
            Sign::Lock => {
                let are_told = lone.get(index).is_some_and(|lone| lone.are_told);
                held.synced == Synced::No && (are_told || held.is_shared())
            }
            Sign::Frames | Sign::Slots => held.synced != Synced::Inside,
        };
        let mut left: Vec<_> = ended.filter(is_told).collect();
        left.sort_by_key(|(index, held)| (*index, held.begin_ns));
        left.into_iter().map(|(index, held)| (index, held, held.synced == Synced::Behind)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAME: u64 = 24 + 4096;

    fn process(thread: u32) -> Process {
        Process { process: 1, thread, name: None }
    }

    /// Runs lock, frames and unlock. Returns the threads whose transactions are known by it.
    fn held(unsynced: &mut Unsynced, thread: u32, time_ns: u64, frames: &[u64]) -> Vec<u64> {
        unsynced.lock(0, process(thread), time_ns);
        let known = frames
            .iter()
            .flat_map(|frame| unsynced.log_write(0, thread, Some(32 + frame * FRAME)))
            .collect::<Vec<_>>();
        unsynced.unlock(0, thread, time_ns + 5, false);
        known.iter().map(|held| held.begin_ns).collect()
    }

    #[test]
    fn one_is_told_when_the_next_has_written_behind_it() {
        let mut unsynced = Unsynced::default();
        assert!(held(&mut unsynced, 1, 10, &[0, 1]).is_empty());
        assert!(held(&mut unsynced, 1, 20, &[]).is_empty());
        assert_eq!(held(&mut unsynced, 1, 30, &[2]), [10]);
        assert_eq!(unsynced.finish().iter().map(|left| left.1.begin_ns).collect::<Vec<_>>(), [30]);
    }

    #[test]
    fn one_whose_frames_the_next_writes_over_was_rolled_back() {
        let mut unsynced = Unsynced::default();
        assert!(held(&mut unsynced, 1, 10, &[0, 1]).is_empty());
        assert_eq!(held(&mut unsynced, 1, 20, &[2, 3, 2]), [10]);
        assert!(held(&mut unsynced, 1, 30, &[2]).is_empty());
        assert_eq!(held(&mut unsynced, 1, 40, &[3]), [30]);
    }

    #[test]
    fn one_that_its_thread_synchronizes_is_not_told() {
        let mut unsynced = Unsynced::default();
        unsynced.lock(0, process(1), 10);
        unsynced.log_write(0, 1, Some(32));
        unsynced.sync(0, 1);
        unsynced.unlock(0, 1, 15, false);
        // For a checkpoint.
        assert!(held(&mut unsynced, 1, 20, &[1]).is_empty());
        unsynced.sync(0, 1);
        assert_eq!(unsynced.lock(0, process(1), 30).map(|held| held.begin_ns), Some(20));
        assert!(unsynced.finish().is_empty());
    }

    #[test]
    fn a_header_that_is_synchronized_before_the_frames_is_no_commit() {
        let mut unsynced = Unsynced::default();
        unsynced.lock(0, process(1), 10);
        unsynced.log_write(0, 1, Some(0));
        unsynced.sync(0, 1);
        unsynced.log_write(0, 1, Some(32));
        unsynced.unlock(0, 1, 15, false);
        assert_eq!(held(&mut unsynced, 1, 20, &[1]), [10]);
    }

    #[test]
    fn threads_that_never_come_again_are_not_waited_for_without_end() {
        let mut unsynced = Unsynced::default();
        let told: Vec<u64> = (0..100)
            .flat_map(|n| held(&mut unsynced, n, 10 * u64::from(n), &[u64::from(n)]))
            .collect();
        assert_eq!(told, (0..35).map(|n| 10 * n).collect::<Vec<u64>>());
        assert_eq!(unsynced.finish().len(), 65);
    }

    #[test]
    fn each_thread_is_waited_for_until_it_comes_again() {
        let mut unsynced = Unsynced::default();
        assert!(held(&mut unsynced, 1, 10, &[0]).is_empty());
        assert!(held(&mut unsynced, 2, 20, &[1]).is_empty());
        unsynced.sync(0, 2);
        assert_eq!(held(&mut unsynced, 1, 30, &[2]), [10]);
        let left = unsynced.finish();
        assert_eq!(
            left.iter().map(|left| (left.1.begin_ns, left.2)).collect::<Vec<_>>(),
            [(20, true), (30, false)]
        );
    }
}
