//! Who waits for one device, newest first, in a time that grows with the logarithm of their number.
//!
//! `known` holds every owner that has written. An owner that waits is also in one of three sets:
//!
//! | set | sorted by | holds an owner |
//! |---|---|---|
//! | `pending` | end of its writes | until the clock comes to that end |
//! | `waiting` | key | after that |
//! | `resets` | key | after that, if it waits for no commit and no calls are shown |
//!
//! The key is until when the owner was busy. Once the trace shows sync calls, only owners inside a
//! call wait. The key is then the later of that time and the call's beginning. Of equal keys, the
//! greater [`Owner`] is the newer.
//!
//! The clock is the latest time asked for. A trace that goes back in time is still answered right,
//! only more slowly. An owner in `waiting` whose writes were not done at that time is passed over.

use std::collections::{BTreeSet, HashMap};

use crate::model::DeviceId;

/// The owner of a request or a sync call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Owner {
    /// Number of a database.
    Track(usize),
    /// Number of a super-journal.
    Joint(u64),
    /// A thread whose files have no names, at a device.
    Thread(DeviceId, u32),
}

/// The greatest owner.
const LAST: Owner = Owner::Thread(DeviceId { major: u32::MAX, minor: u32::MAX }, u32::MAX);

/// An owner that has written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Busy {
    /// Until when the owner was busy.
    pub since_ns: u64,
    /// When the owner's writes were done, at the latest `since_ns`. From then on the owner waits.
    pub data_done_ns: u64,
    pub thread: Option<u32>,
    /// Number of the database's folder.
    pub folder: Option<u32>,
    /// The owner waits for the device, but for no commit of the file system.
    pub only_flush: bool,
    /// Nothing has made durable yet what a thread of a program wrote last.
    pub is_owed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Known {
    busy: Busy,
    /// `None`: the trace shows sync calls, and the owner is in none.
    key_ns: Option<u64>,
}

#[derive(Debug, Default)]
pub(super) struct Waiters {
    known: HashMap<Owner, Known>,
    pending: BTreeSet<(u64, Owner)>,
    waiting: BTreeSet<(u64, Owner)>,
    /// The owners that wait for no commit, before calls are shown.
    resets: BTreeSet<(u64, Owner)>,
    /// By thread, folder and the time until which they were busy. The folder is `None` until calls
    /// are shown.
    by_thread: BTreeSet<(u32, Option<u32>, u64, Owner)>,
    /// Calls that have not ended: owner, begin, thread.
    calls: BTreeSet<(Owner, u64, u32)>,
    clock_ns: u64,
    shows_calls: bool,
}

impl Waiters {
    /// From now on only owners inside a sync call wait.
    pub(super) fn show_calls(&mut self) {
        if self.shows_calls {
            return;
        }
        self.shows_calls = true;
        (self.pending, self.waiting, self.resets, self.by_thread) = Default::default();
        for (owner, known) in std::mem::take(&mut self.known) {
            self.set(owner, Some(known.busy));
        }
    }

    /// Sets what is known of `owner`. `None`: the owner has written nothing, or is gone.
    pub(super) fn set(&mut self, owner: Owner, busy: Option<Busy>) {
        let new = busy.map(|busy| Known { busy, key_ns: self.key_ns(owner, busy.since_ns) });
        let old = match new {
            Some(new) => self.known.insert(owner, new),
            None => self.known.remove(&owner),
        };
        if old == new {
            return;
        }
        if let Some(Known { busy, key_ns }) = old {
            if let Some(key_ns) = key_ns
                && !self.pending.remove(&(busy.data_done_ns, owner))
            {
                self.ready(busy).remove(&(key_ns, owner));
            }
            if let Some(thread) = busy.thread {
                self.by_thread.remove(&(thread, self.folder(busy), busy.since_ns, owner));
            }
        }
        if let Some(Known { busy, key_ns }) = new {
            if let Some(key_ns) = key_ns {
                if busy.data_done_ns > self.clock_ns {
                    self.pending.insert((busy.data_done_ns, owner));
                } else {
                    self.ready(busy).insert((key_ns, owner));
                }
            }
            if let Some(thread) = busy.thread {
                self.by_thread.insert((thread, self.folder(busy), busy.since_ns, owner));
            }
        }
    }

    pub(super) fn enter_call(&mut self, owner: Owner, enter_ns: u64, thread: u32) {
        self.calls.insert((owner, enter_ns, thread));
        self.set(owner, self.known.get(&owner).map(|known| known.busy));
    }

    pub(super) fn exit_call(&mut self, owner: Owner, enter_ns: u64, thread: u32) {
        self.calls.remove(&(owner, enter_ns, thread));
        self.set(owner, self.known.get(&owner).map(|known| known.busy));
    }

    /// Key and owner of the newest that waits at `time_ns`. `for_commit`: only owners that wait for
    /// a commit of the file system.
    pub(super) fn newest(&mut self, time_ns: u64, for_commit: bool) -> Option<(u64, Owner)> {
        self.clock_ns = self.clock_ns.max(time_ns);
        while let Some(&(done_ns, owner)) = self.pending.first()
            && done_ns <= self.clock_ns
        {
            self.pending.pop_first();
            if let Some(&Known { busy, key_ns: Some(key_ns) }) = self.known.get(&owner) {
                self.ready(busy).insert((key_ns, owner));
            }
        }
        let newest = |ready: &BTreeSet<(u64, Owner)>| {
            ready.iter().rev().find(|&(_, owner)| self.waits(*owner, time_ns)).copied()
        };
        let waiting = newest(&self.waiting);
        if for_commit { waiting } else { waiting.max(newest(&self.resets)) }
    }

    /// The owner written by `thread` that was busy last, whether it waits or not; and until when.
    /// Only before calls are shown.
    pub(super) fn newest_of_thread(&self, thread: u32) -> Option<(u64, Owner)> {
        self.newest_first(thread, None).next()
    }

    /// Of the databases in a folder that `thread` has written, the one that was busy last, and
    /// until when. The database waits at `time_ns`. Only once calls are shown.
    pub(super) fn newest_in_folder(
        &self,
        thread: u32,
        folder: u32,
        time_ns: u64,
    ) -> Option<(u64, Owner)> {
        self.newest_first(thread, Some(folder)).find(|&(_, owner)| self.waits(owner, time_ns))
    }

    /// Nothing has made durable yet what a thread of the owner's wrote last.
    pub(super) fn is_owed(&self, owner: Owner) -> bool {
        self.known.get(&owner).is_some_and(|known| known.busy.is_owed)
    }

    fn newest_first(&self, thread: u32, folder: Option<u32>) -> impl Iterator<Item = (u64, Owner)> {
        let first = (thread, folder, 0, Owner::Track(0));
        let last = (thread, folder, u64::MAX, LAST);
        self.by_thread.range(first..=last).rev().map(|&(_, _, since_ns, owner)| (since_ns, owner))
    }

    fn waits(&self, owner: Owner, time_ns: u64) -> bool {
        self.known.get(&owner).is_some_and(|known| known.busy.data_done_ns <= time_ns)
    }

    fn key_ns(&self, owner: Owner, since_ns: u64) -> Option<u64> {
        if !self.shows_calls {
            return Some(since_ns);
        }
        let calls = self.calls.range((owner, 0, 0)..=(owner, u64::MAX, u32::MAX));
        calls.last().map(|&(_, enter_ns, _)| since_ns.max(enter_ns))
    }

    /// Inside a call, every waiting owner may have caused a commit.
    fn ready(&mut self, busy: Busy) -> &mut BTreeSet<(u64, Owner)> {
        if busy.only_flush && !self.shows_calls { &mut self.resets } else { &mut self.waiting }
    }

    fn folder(&self, busy: Busy) -> Option<u32> {
        busy.folder.filter(|_| self.shows_calls)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn busy(data_done_ns: u64, since_ns: u64, thread: u32) -> Option<Busy> {
        Some(Busy {
            since_ns,
            data_done_ns,
            thread: Some(thread),
            folder: Some(1),
            only_flush: false,
            is_owed: false,
        })
    }

    #[test]
    fn only_those_whose_writes_are_done_wait_also_when_time_goes_back() {
        let mut waiters = Waiters::default();
        waiters.set(Owner::Track(0), busy(10, 15, 1));
        waiters.set(Owner::Track(1), busy(20, 20, 2));
        assert_eq!(waiters.newest(9, false), None);
        assert_eq!(waiters.newest(12, false), Some((15, Owner::Track(0))));
        assert_eq!(waiters.newest(25, false), Some((20, Owner::Track(1))));
        assert_eq!(waiters.newest(12, false), Some((15, Owner::Track(0))));
        waiters.set(Owner::Track(1), busy(30, 30, 2));
        assert_eq!(waiters.newest(25, false), Some((15, Owner::Track(0))));
        waiters.set(Owner::Track(0), None);
        assert_eq!(waiters.newest(25, false), None);
        assert_eq!(waiters.newest(30, false), Some((30, Owner::Track(1))));
    }

    #[test]
    fn a_reset_waits_for_a_flush_and_for_no_commit() {
        let mut waiters = Waiters::default();
        waiters.set(Owner::Track(0), busy(10, 10, 1));
        waiters.set(Owner::Track(1), busy(20, 20, 2).map(|busy| Busy { only_flush: true, ..busy }));
        assert_eq!(waiters.newest(25, false), Some((20, Owner::Track(1))));
        assert_eq!(waiters.newest(25, true), Some((10, Owner::Track(0))));
    }

    #[test]
    fn once_calls_are_shown_only_those_inside_one_wait() {
        let mut waiters = Waiters::default();
        waiters.set(Owner::Track(0), busy(10, 10, 1));
        waiters.set(Owner::Track(1), busy(20, 20, 1));
        assert_eq!(waiters.newest_of_thread(1), Some((20, Owner::Track(1))));
        waiters.show_calls();
        assert_eq!(waiters.newest(25, true), None);
        waiters.enter_call(Owner::Track(0), 24, 1);
        assert_eq!(waiters.newest(25, true), Some((24, Owner::Track(0))));
        assert_eq!(waiters.newest_in_folder(1, 1, 25), Some((20, Owner::Track(1))));
        assert_eq!(waiters.newest_in_folder(1, 1, 15), Some((10, Owner::Track(0))));
        assert_eq!(waiters.newest_in_folder(1, 2, 25), None);
        waiters.exit_call(Owner::Track(0), 24, 1);
        assert_eq!(waiters.newest(25, true), None);
    }
}
