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
use super::waiters::{Busy, Owner, Waiters};

/// A cause comes so shortly before its effect.
const PROMPT_NS: u64 = 20_000_000;
/// Sync calls of so many threads are remembered, in case their ends were lost.
const WINDOWS_COUNT_MAX: usize = 4096;

/// What is synchronized by a call that has not ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    pub enter_ns: u64,
    pub owner: Option<Owner>,
    /// The file's role; `None`: a folder, or not SQLite's.
    pub role: Option<Role>,
    pub file: Option<NameId>,
}

#[derive(Debug, Default)]
pub(super) struct Attach {
    windows: HashMap<u32, Window>,
    waiters: Waiters,
    pub shows_calls: bool,
    pub shows_flushes: bool,
    /// Last end of a write to other files that somebody waits for.
    other_ns: Option<u64>,
}

impl Attach {
    /// The trace shows sync calls.
    pub(super) fn show_calls(&mut self) {
        self.shows_calls = true;
        self.waiters.show_calls();
    }

    pub(super) fn enter(&mut self, thread: u32, window: Window) {
        if self.windows.len() >= WINDOWS_COUNT_MAX {
            for (thread, window) in std::mem::take(&mut self.windows) {
                self.left(thread, window);
            }
        }
        if let Some(before) = self.windows.insert(thread, window) {
            self.left(thread, before);
        }
        if let Some(owner) = window.owner {
            self.waiters.enter_call(owner, window.enter_ns, thread);
        }
    }

    pub(super) fn exit(&mut self, thread: u32) -> Option<Window> {
        let window = self.windows.remove(&thread)?;
        self.left(thread, window);
        Some(window)
    }

    fn left(&mut self, thread: u32, window: Window) {
        if let Some(owner) = window.owner {
            self.waiters.exit_call(owner, window.enter_ns, thread);
        }
    }

    /// What `owner` does has changed; `None`: it is gone.
    pub(super) fn set_busy(&mut self, owner: Owner, busy: Option<Busy>) {
        self.waiters.set(owner, busy);
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

    /// Whose is what `thread` (`None`: one of the kernel's) sends at `time_ns`; `is_commit`: of the file system's journal, which no
    /// thread of a program sends.
    pub(super) fn owner(&mut self, time_ns: u64, thread: Option<u32>, is_commit: bool) -> Option<Owner> {
        if let Some(window) = thread.and_then(|thread| self.window(thread)) {
            return window.owner;
        }
        let (since_ns, owner) = match thread {
            // Outside of its calls, a thread waits for nothing.
            Some(_) if self.shows_calls => return None,
            // Among those who wait inside a sync call, the one whose writes were done last.
            None if self.shows_calls => return self.waiters.newest(time_ns, is_commit).map(|found| found.1),
            Some(thread) => self.waiters.newest_of_thread(thread)?,
            None => self.waiters.newest(time_ns, is_commit)?,
        };
        let is_prompt = time_ns <= since_ns + PROMPT_NS;
        let other_is_newer = self.other_ns.is_some_and(|other_ns| other_ns <= time_ns && other_ns > since_ns);
        (is_prompt && (thread.is_some() || !other_is_newer)).then_some(owner)
    }

    /// What in this folder `thread` was last busy with, and now waits for; and until when it was busy.
    pub(super) fn in_folder(&self, thread: u32, folder: u32, time_ns: u64) -> Option<(u64, Owner)> {
        self.waiters.newest_in_folder(thread, folder, time_ns)
    }
}
