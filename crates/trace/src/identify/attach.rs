//! Who caused it: flushes, commits of the file system's journal and metadata that a transaction waited for.
//!
//! Best known where the trace shows sync calls: what a thread sends inside its own call is the call's, and what the file system's
//! journal thread sends is the call's that waits meanwhile. Without them: a flush belongs to the thread that sent it; what the
//! kernel's threads send, to whoever has had all its writes done last and now waits, if that was just before. A writer of other files
//! may be that one; then it is nobody's here. Two databases that wait for the same commit both needed it; the one that waited last
//! gets its bytes, so that sums stay right.

use std::collections::HashMap;

use crate::model::NameId;

use super::files::Role;

/// A cause comes so shortly before its effect.
const PROMPT_NS: u64 = 20_000_000;
/// Sync calls of so many threads are remembered, in case their ends were lost.
const WINDOWS_COUNT_MAX: usize = 4096;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// Number of a database.
    Track(usize),
    /// Number of a super-journal.
    Joint(u64),
    /// A thread whose files have no names.
    Thread(u32),
}

/// What is synchronized by a call that has not ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    pub enter_ns: u64,
    pub owner: Option<Owner>,
    /// The file's role; `None`: a folder, or not SQLite's.
    pub role: Option<Role>,
    pub file: Option<NameId>,
}

/// Somebody who has written, and until when it was busy.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiter {
    pub owner: Owner,
    pub since_ns: u64,
    pub thread: Option<u32>,
    /// All its writes are done.
    pub waits: bool,
    /// Waits for the device, but for no commit of the file system.
    pub only_flush: bool,
}

#[derive(Debug, Default)]
pub(super) struct Attach {
    windows: HashMap<u32, Window>,
    pub shows_calls: bool,
    pub shows_flushes: bool,
    /// Last end of a write to other files that somebody waits for.
    other_ns: Option<u64>,
}

impl Attach {
    pub(super) fn enter(&mut self, thread: u32, window: Window) {
        self.shows_calls = true;
        if self.windows.len() >= WINDOWS_COUNT_MAX {
            self.windows.clear();
        }
        self.windows.insert(thread, window);
    }

    pub(super) fn exit(&mut self, thread: u32) -> Option<Window> {
        self.windows.remove(&thread)
    }

    pub(super) fn window(&self, thread: u32) -> Option<&Window> {
        self.windows.get(&thread)
    }

    pub(super) fn shows_syncs(&self) -> bool {
        self.shows_calls || self.shows_flushes
    }

    pub(super) fn other_wrote(&mut self, done_ns: u64) {
        self.other_ns = self.other_ns.max(Some(done_ns));
    }

    /// Whose is what `thread` (`None`: one of the kernel's) sends at `time_ns`; `is_commit`: of the file system's journal.
    pub(super) fn owner(
        &self,
        time_ns: u64,
        thread: Option<u32>,
        is_commit: bool,
        waiters: &[Waiter],
    ) -> Option<Owner> {
        if let Some(thread) = thread
            && let Some(window) = self.windows.get(&thread)
        {
            return window.owner;
        }
        if self.shows_calls {
            return self.latest_call(thread, waiters);
        }
        let of_thread = |waiter: &&Waiter| if thread.is_some() { waiter.thread == thread } else { waiter.waits };
        let newest = waiters
            .iter()
            .filter(of_thread)
            .filter(|waiter| !(is_commit && waiter.only_flush))
            .max_by_key(|waiter| waiter.since_ns)?;
        let is_prompt = time_ns <= newest.since_ns + PROMPT_NS;
        let other_is_newer = self.other_ns.is_some_and(|other_ns| other_ns <= time_ns && other_ns > newest.since_ns);
        (is_prompt && (thread.is_some() || !other_is_newer)).then_some(newest.owner)
    }

    /// Among those who wait inside a sync call, the one whose writes were done last.
    fn latest_call(&self, thread: Option<u32>, waiters: &[Waiter]) -> Option<Owner> {
        if thread.is_some() {
            return None;
        }
        let waits = |window: &&Window| waiters.iter().find(|waiter| waiter.waits && Some(waiter.owner) == window.owner);
        self.windows
            .values()
            .filter_map(|window| waits(&window).map(|waiter| (waiter.since_ns.max(window.enter_ns), waiter.owner)))
            .max_by_key(|found| found.0)
            .map(|found| found.1)
    }
}
