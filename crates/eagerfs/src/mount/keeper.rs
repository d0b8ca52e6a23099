//! What happens without being asked for.
//!
//! | what | when |
//! |---|---|
//! | the log is told the time, and pending operations go out | every 5 s, if anything was done |
//! | an epoch ends and is released | it is 30 s old and not empty, or its lane is half full |
//! | objects are dropped that the kernel has forgotten | they are many |

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use oneflush_blocklog::messages;
use parking_lot::{Condvar, Mutex};

use super::file_system::Served;

const LOOKS_EVERY: Duration = Duration::from_millis(200);
const OPERATIONS_AFTER: Duration = Duration::from_secs(5);
const EPOCH_ENDS_AFTER: Duration = Duration::from_secs(30);
/// Fewer are not worth a walk over all objects.
const DROPS_FROM: usize = 1024;

#[derive(Debug)]
pub struct Keeper {
    end: Arc<(Mutex<bool>, Condvar)>,
    thread: Option<JoinHandle<()>>,
}

impl Keeper {
    pub fn start(served: Arc<Served>, lane_bytes_max: u64) -> io::Result<Keeper> {
        let end = Arc::new((Mutex::new(false), Condvar::new()));
        let its_end = Arc::clone(&end);
        let thread =
            thread::Builder::new().name("oneflush-keeper".to_owned()).spawn(move || {
                let keeps = || keep(&served, lane_bytes_max, &its_end);
                if catch_unwind(AssertUnwindSafe(keeps)).is_err() {
                    // Nobody ends epochs any more, or knows what is half done.
                    served.tree.poison();
                    let _ = served.place.note_failure();
                    messages::thread_has_panicked("oneflush-keeper");
                }
            })?;
        Ok(Keeper { end, thread: Some(thread) })
    }

    pub fn end(&mut self) {
        let (is_over, changed) = &*self.end;
        *is_over.lock() = true;
        changed.notify_all();
        if let Some(thread) = self.thread.take() {
            // A panic was shown when it happened.
            let _ = thread.join();
        }
    }
}

fn keep(served: &Served, lane_bytes_max: u64, end: &(Mutex<bool>, Condvar)) {
    let mut work = Work::new(served, lane_bytes_max);
    let (is_over, changed) = end;
    let mut over = is_over.lock();
    while !*over {
        changed.wait_for(&mut over, LOOKS_EVERY);
        if !*over {
            parking_lot::MutexGuard::unlocked(&mut over, || work.look());
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.end();
    }
}

struct Work<'a> {
    served: &'a Served,
    lane_bytes_max: u64,
    operations_at: Instant,
    epoch_at: Instant,
    /// Where the epoch stood behind its first record.
    epoch_begin: u64,
    is_failure_noted: bool,
}

impl Work<'_> {
    fn new(served: &Served, lane_bytes_max: u64) -> Work<'_> {
        let now = Instant::now();
        Work {
            served,
            lane_bytes_max,
            operations_at: now,
            epoch_at: now,
            epoch_begin: served.tree.log_state().0,
            is_failure_noted: false,
        }
    }

    /// A failure is the tree's: from then on it acknowledges nothing.
    fn look(&mut self) {
        if self.served.tree.is_poisoned() {
            if !self.is_failure_noted {
                self.is_failure_noted = self.served.place.note_failure().is_ok();
            }
            return;
        }
        let _ = self.send_operations();
        let _ = self.end_epoch();
        let nodes = &self.served.nodes;
        let forgotten = nodes.forgotten();
        if forgotten >= DROPS_FROM && forgotten * 4 >= self.served.tree.objects_known() {
            nodes.drop_forgotten(|ids| self.served.tree.drop_objects(ids));
        }
    }

    fn send_operations(&mut self) -> io::Result<()> {
        if self.operations_at.elapsed() >= OPERATIONS_AFTER {
            self.operations_at = Instant::now();
            self.served.tree.beat()?;
        }
        Ok(())
    }

    fn end_epoch(&mut self) -> io::Result<()> {
        let tree = &self.served.tree;
        let (position, waits) = tree.log_state();
        if waits {
            tree.release()?;
            return Ok(());
        }
        let is_old = self.epoch_at.elapsed() >= EPOCH_ENDS_AFTER && position > self.epoch_begin;
        if is_old || position > self.lane_bytes_max / 2 {
            tree.end_epoch()?;
            self.epoch_at = Instant::now();
            self.epoch_begin = tree.log_state().0;
            tree.release()?;
            // The release is a record of the new epoch.
            self.epoch_begin = self.epoch_begin.max(tree.log_state().0);
        }
        Ok(())
    }
}
