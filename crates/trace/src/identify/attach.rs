//! Who caused what a transaction waited for: flushes, commits of the file system's journal,
//! metadata.
//!
//! | the trace shows | sent by | the cause |
//! |---|---|---|
//! | sync calls | a thread inside its own call | that call |
//! | sync calls | the thread of the file system's journal | the call that waits meanwhile |
//! | no sync calls | a thread, a flush | that thread |
//! | no sync calls | a kernel thread | the waiter whose writes were done last, if just before |
//!
//! "Just before" is longer where the waiter's writes are not durable yet: on a busy machine the
//! flush comes late, and two transactions must not become one.
//!
//! A writer of other files may be that waiter. The cause is then unknown here. Two databases that
//! wait for the same commit both needed it. The database that waited last gets its bytes, so that
//! sums stay right.
//!
//! A trace may hold several devices, so time and thread alone say nothing. Invariants:
//! 1. What is sent to a device is caused only by an owner that has written to that device. What has
//!    no cause there is of no transaction.
//! 2. Each device has its own answer to what shows a synchronization: sync calls, flushes, or only
//!    waiting. One file system has events for its calls, another has not.
//! 3. A call counts for the device of its file system. The device's number may be a partition's. It
//!    becomes the disk's as soon as a request of that number shows it, or a write of data inside
//!    the call.
//! 4. A device is the one at which the file system stands, whatever lies below it
//!    (`requests/layers.rs`).
//!
//! Therefore nobody here owns the journal of a file system that is on another device than its data.

use std::collections::HashMap;

use crate::model::{DeviceId, NameId};

use super::files::Role;
use super::waiters::{Busy, Owner, Waiters};

/// A cause comes at most so long before its effect.
const PROMPT_NS: u64 = 20_000_000;
/// The same where the effect makes durable what the cause wrote, and nothing else has yet. Whoever
/// sends it may have to wait for a processor.
const OWED_NS: u64 = 1_000_000_000;
/// The sync calls of so many threads are remembered. The ends of calls may be lost.
const WINDOWS_COUNT_MAX: usize = 4096;

/// Why the file system writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// A commit or a checkpoint. The cause is this thread if it is in a sync call, else a waiter.
    Commit(Option<u32>),
    /// This thread asked for it. `None`: a kernel thread, for nobody.
    Thread(Option<u32>),
}

/// The target of a sync call that has not ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    pub enter_ns: u64,
    /// The device of the file system.
    pub device: DeviceId,
    pub owner: Option<Owner>,
    /// The file's role; `None`: a folder, or not SQLite's.
    pub role: Option<Role>,
    pub file: Option<NameId>,
}

#[derive(Debug, Default)]
pub(super) struct Attach {
    windows: HashMap<u32, Window>,
    devices: HashMap<DeviceId, OfDevice>,
}

#[derive(Debug, Default)]
struct OfDevice {
    waiters: Waiters,
    shows_calls: bool,
    shows_flushes: bool,
    /// Last end of a write to other files that a thread waits for.
    other_ns: Option<u64>,
}

impl Attach {
    fn of(&mut self, device: DeviceId) -> &mut OfDevice {
        self.devices.entry(device).or_default()
    }

    /// The trace shows sync calls of the file system at the device.
    pub(super) fn show_calls(&mut self, device: DeviceId) {
        let of = self.of(device);
        of.shows_calls = true;
        of.waiters.show_calls();
    }

    pub(super) fn show_flushes(&mut self, device: DeviceId) {
        self.of(device).shows_flushes = true;
    }

    pub(super) fn shows_calls(&self, device: DeviceId) -> bool {
        self.devices.get(&device).is_some_and(|of| of.shows_calls)
    }

    pub(super) fn shows_syncs(&self, device: DeviceId) -> bool {
        self.devices.get(&device).is_some_and(|of| of.shows_calls || of.shows_flushes)
    }

    /// `device` is another name of `to`.
    pub(super) fn rename(&mut self, device: DeviceId, to: DeviceId) {
        let Some(known) = self.devices.remove(&device) else { return };
        self.of(to).shows_flushes |= known.shows_flushes;
        if known.shows_calls {
            self.show_calls(to);
        }
        let Attach { windows, devices } = self;
        for (&thread, window) in windows.iter_mut().filter(|(_, window)| window.device == device) {
            window.device = to;
            if let Some(owner) = window.owner {
                devices.entry(to).or_default().waiters.enter_call(owner, window.enter_ns, thread);
            }
        }
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
            self.of(window.device).waiters.enter_call(owner, window.enter_ns, thread);
        }
    }

    pub(super) fn exit(&mut self, thread: u32) -> Option<Window> {
        let window = self.windows.remove(&thread)?;
        self.left(thread, window);
        Some(window)
    }

    fn left(&mut self, thread: u32, window: Window) {
        if let Some(owner) = window.owner {
            self.of(window.device).waiters.exit_call(owner, window.enter_ns, thread);
        }
    }

    /// What `owner` does at the device has changed; `None`: it is gone.
    pub(super) fn set_busy(&mut self, device: DeviceId, owner: Owner, busy: Option<Busy>) {
        self.of(device).waiters.set(owner, busy);
    }

    /// The call that the thread is in, whatever device it is for.
    pub(super) fn window(&self, thread: u32) -> Option<&Window> {
        self.windows.get(&thread)
    }

    pub(super) fn other_wrote(&mut self, device: DeviceId, done_ns: u64) {
        let of = self.of(device);
        of.other_ns = of.other_ns.max(Some(done_ns));
    }

    /// The owner of what `thread` sends to `device` at `time_ns`, outside of the thread's calls. No
    /// thread: a kernel thread sends it. `is_commit`: it is of the file system's journal, which no
    /// program's thread sends.
    pub(super) fn owner(
        &mut self,
        device: DeviceId,
        time_ns: u64,
        thread: Option<u32>,
        is_commit: bool,
    ) -> Option<Owner> {
        let OfDevice { waiters, shows_calls, other_ns, .. } = self.devices.get_mut(&device)?;
        let (since_ns, owner) = match thread {
            // Outside of its calls, a thread waits for nothing.
            Some(_) if *shows_calls => return None,
            // The waiters are inside a sync call. Of these, the newest.
            None if *shows_calls => return waiters.newest(time_ns, is_commit).map(|found| found.1),
            Some(thread) => waiters.newest_of_thread(thread)?,
            None => waiters.newest(time_ns, is_commit)?,
        };
        let limit_ns = if waiters.is_owed(owner) { OWED_NS } else { PROMPT_NS };
        let is_prompt = time_ns <= since_ns + limit_ns;
        let other_is_newer =
            other_ns.is_some_and(|other_ns| other_ns <= time_ns && other_ns > since_ns);
        (is_prompt && (thread.is_some() || !other_is_newer)).then_some(owner)
    }

    /// The owner in this folder with which `thread` was last busy, and for which it now waits. Also
    /// until when it was busy.
    pub(super) fn in_folder(
        &self,
        device: DeviceId,
        thread: u32,
        folder: u32,
        time_ns: u64,
    ) -> Option<(u64, Owner)> {
        self.devices.get(&device)?.waiters.newest_in_folder(thread, folder, time_ns)
    }
}
