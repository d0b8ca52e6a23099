//! Who writes: one at a time.
//!
//! A lock of the standard kind belongs to the thread that took it, and waits for ever where that
//! thread asks again. A transaction may be handed to another thread. So this lock belongs to what
//! holds it, and notes which thread has used it last: that one does not wait for itself without an
//! end. Those who wait get it in the order in which they came. Behind it comes the lock among all
//! users of the database.

use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use crate::kill_point::KillPoint;
use crate::shared::Shared;
use crate::sync::{Condvar, Mutex, wait_until};
use crate::writer::Writer;
use crate::{Error, Result, Version};

pub struct WriterLock {
    queue: Mutex<Queue>,
    /// The thread that has used the writer last, while someone has it. 0: none.
    user: AtomicU64,
}

struct Queue {
    /// None: someone has it.
    writer: Option<Box<Writer>>,
    /// Each is told when it is its turn.
    waiting: VecDeque<Arc<Condvar>>,
}

impl Queue {
    fn is_first(&self, place: &Arc<Condvar>) -> bool {
        self.waiting.front().is_some_and(|first| Arc::ptr_eq(first, place))
    }

    fn leave(&mut self, place: &Arc<Condvar>) {
        self.waiting.retain(|other| !Arc::ptr_eq(other, place));
        self.wake_first();
    }

    fn wake_first(&self) {
        if self.writer.is_some()
            && let Some(first) = self.waiting.front()
        {
            first.notify_one();
        }
    }
}

/// How long to wait for the one before.
#[derive(Clone, Copy, Debug)]
pub enum Wait {
    ForEver,
    Until(Instant),
    Not,
}

/// The number of this thread, from 1. No other thread of the process ever has it.
fn this_thread() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    thread_local!(static NUMBER: u64 = LAST.fetch_add(1, Relaxed) + 1);
    NUMBER.with(|&number| number)
}

impl WriterLock {
    pub fn new(writer: Writer) -> WriterLock {
        let queue = Queue { writer: Some(Box::new(writer)), waiting: VecDeque::new() };
        WriterLock { queue: Mutex::new(queue), user: AtomicU64::new(0) }
    }

    /// True if this user has free pages at hand. Does not wait for the writers of others.
    pub fn has_pages(&self) -> bool {
        self.queue.lock().writer.as_ref().is_some_and(|writer| !writer.pool.is_empty())
    }

    pub fn take(shared: &Arc<Shared>, wait: Wait) -> Result<WriterGuard> {
        let writer = shared.writer.wait_for_turn(wait)?;
        WriterGuard::beside_others(shared, writer, wait)
    }

    fn wait_for_turn(&self, wait: Wait) -> Result<Box<Writer>> {
        const BUSY: Error = Error::Busy { what: "another transaction writes" };
        let mut queue = self.queue.lock();
        if (queue.waiting.is_empty() || matches!(wait, Wait::Not))
            && let Some(writer) = queue.writer.take()
        {
            self.user.store(this_thread(), Relaxed);
            return Ok(writer);
        }
        match wait {
            Wait::Not => return Err(BUSY),
            Wait::ForEver if queue.writer.is_none() && self.user.load(Relaxed) == this_thread() => {
                return Err(Error::Busy { what: "this thread has a write transaction itself" });
            }
            Wait::ForEver | Wait::Until(_) => {}
        }
        let place = Arc::new(Condvar::new());
        queue.waiting.push_back(Arc::clone(&place));
        loop {
            let until = if let Wait::Until(end) = wait { Some(end) } else { None };
            let is_late;
            (queue, is_late) = wait_until(&place, queue, until);
            let writer = if queue.is_first(&place) { queue.writer.take() } else { None };
            if let Some(writer) = writer {
                self.user.store(this_thread(), Relaxed);
                queue.leave(&place);
                return Ok(writer);
            }
            if is_late {
                queue.leave(&place);
                return Err(BUSY);
            }
        }
    }
}

/// The writer, until this is dropped.
pub struct WriterGuard {
    shared: Arc<Shared>,
    /// None: only while it is given back.
    writer: Option<Box<Writer>>,
    /// The lock among all users is taken.
    has_turn: bool,
    /// The transaction was rolled back. A panic of its user then leaves nothing half done.
    pub is_rolled_back: bool,
}

impl WriterGuard {
    fn beside_others(shared: &Arc<Shared>, writer: Box<Writer>, wait: Wait) -> Result<WriterGuard> {
        let shared = Arc::clone(shared);
        let writer = Some(writer);
        let mut guard = WriterGuard { shared, writer, has_turn: false, is_rolled_back: false };
        let until = match wait {
            Wait::ForEver => None,
            Wait::Until(end) => Some(end),
            Wait::Not => Some(Instant::now()),
        };
        guard.has_turn = guard.shared.board.lock_writer(until)?;
        KillPoint::Locked.reached();
        match guard.has_turn {
            true => Ok(guard),
            false => Err(Error::Busy { what: "another process writes" }),
        }
    }

    pub fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// I13. If that fails, what the version has written would count from now on: nothing more is
    /// written.
    pub fn make_void_or_poison(&mut self, version: Version) -> Result<()> {
        let shared = Arc::clone(&self.shared);
        self.make_void(&shared.store, &shared.board, version)
            .inspect_err(|_| shared.store.poison_all())
    }

    /// Called by whoever does something with the transaction: it may have come from another thread.
    pub fn note_user(&self) {
        let (user, thread) = (&self.shared.writer.user, this_thread());
        if user.load(Relaxed) != thread {
            user.store(thread, Relaxed);
        }
    }
}

impl Deref for WriterGuard {
    type Target = Writer;

    fn deref(&self) -> &Writer {
        self.writer.as_ref().expect("it is held")
    }
}

impl DerefMut for WriterGuard {
    fn deref_mut(&mut self) -> &mut Writer {
        self.writer.as_mut().expect("it is held")
    }
}

impl Drop for WriterGuard {
    fn drop(&mut self) {
        // In a child of a fork a thread that it does not have may hold the lock of the queue.
        if self.shared.board.check_user().is_err() {
            return;
        }
        let (writer, is_rolled_back) = (self.writer.take(), self.is_rolled_back);
        let _back = GivenBack { shared: &self.shared, writer, is_rolled_back };
        if self.has_turn {
            self.shared.board.unlock_writer();
        }
    }
}

/// Gives the writer to the next one, also if the unlock panics.
struct GivenBack<'a> {
    shared: &'a Shared,
    writer: Option<Box<Writer>>,
    is_rolled_back: bool,
}

impl Drop for GivenBack<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() && !self.is_rolled_back {
            // I17: nobody knows what is half done.
            self.shared.store.poison_all();
        }
        let lock = &self.shared.writer;
        let mut queue = lock.queue.lock();
        queue.writer = self.writer.take();
        lock.user.store(0, Relaxed);
        queue.wake_first();
    }
}
