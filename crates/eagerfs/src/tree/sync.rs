//! Syncs: of a file, of what is pending, of everything.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use oneflush_blocklog::Storage;

use super::group::{self, Answer, Request};
use super::{Object, Tree};
use crate::entry::{ObjectId, Seq};
use crate::lower::{Kind, Lower};
use crate::mutant::{self, Mutant};

/// What a record took and did not write is lost to later ones (T8).
struct PoisonsInPanic<'a>(&'a AtomicBool);

impl Drop for PoisonsInPanic<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

impl<L: Lower, S: Storage> Tree<L, S> {
    /// What is written to the file, and every operation that was done, is durable on return.
    pub fn sync(&self, id: ObjectId) -> io::Result<()> {
        group::wait(|answer| self.sync_then(id, answer))
    }

    /// The same, told by `answer`: mostly by another thread, which writes for several. If that
    /// panics, `answer` is dropped.
    pub fn sync_then(&self, id: ObjectId, answer: Answer) {
        match self.request_of(id) {
            Ok(Some(request)) => self.ask_then(request, answer),
            Ok(None) => answer(Ok(())),
            Err(error) => answer(Err(error)),
        }
    }

    /// What the log must have for a sync of the object. `None`: nothing.
    fn request_of(&self, id: ObjectId) -> io::Result<Option<Request>> {
        self.sound()?;
        self.counts.syncs.add(1);
        let object = self.object(id)?;
        if object.kind != Kind::File {
            return Ok(Some(Request::Operations));
        }
        let needs_lower = {
            let mut state = object.state.lock();
            if state.at.is_empty() && self.lower.look(&object.node)?.names == 0 {
                // Nobody can find it after a loss of power, unless it gets a name.
                state.joins_when_named = !state.is_clean();
                return Ok(None);
            }
            state.needs_lower(self.options.threshold_bytes)
        };
        if !needs_lower {
            return Ok(Some(Request::Sync(id)));
        }
        let seq = self.sync_lower(&object, false)?;
        Ok(Some(Request::Settled(id, seq)))
    }

    /// Every operation that was done is durable on return.
    pub fn sync_operations(&self) -> io::Result<()> {
        self.sound()?;
        self.ask(Request::Operations)
    }

    /// Tells the log the time, if anything was done since the last call: so recovery can tell what
    /// others have changed since then. Pending operations go out with it.
    pub fn beat(&self) -> io::Result<()> {
        if !self.is_touched.swap(false, Ordering::AcqRel) {
            return Ok(());
        }
        self.sound()?;
        self.ask(Request::Beat)
    }

    /// All that was done is durable in the lower on return. What the log has from before it is
    /// released, or recovery would put older bytes over those that are durable now.
    pub fn sync_all(&self) -> io::Result<()> {
        // A cut that the next epoch had would be made again over bytes that are durable now.
        self.sync_operations()?;
        while !self.end_epoch()? {
            self.release()?;
        }
        self.release()?;
        Ok(())
    }

    /// The lower has everything durably, and needs the log no more. Nothing may be done any more.
    pub fn finish(&self) -> io::Result<()> {
        self.sound()?;
        self.or_poison(self.lower.set_mark(None))?;
        if mutant::is(Mutant::UnmountNotSynced) {
            return Ok(());
        }
        self.or_poison(self.lower.sync_all())
    }

    pub(super) fn ask(&self, request: Request) -> io::Result<()> {
        group::wait(|answer| self.ask_then(request, answer))
    }

    fn ask_then(&self, request: Request, answer: Answer) {
        self.group.ask(request, answer, |requests| {
            let panics = PoisonsInPanic(&self.poisoned);
            let written = self.write_record(requests);
            std::mem::forget(panics);
            written
        });
    }

    /// Syncs a file by the lower, and voids what the log has of it (T5). `stays_beyond`: what is
    /// done to the file next is beyond the log.
    pub(super) fn settle(
        &self,
        object: &Arc<Object<L::Node>>,
        stays_beyond: bool,
    ) -> io::Result<()> {
        let seq = self.sync_lower(object, stays_beyond)?;
        self.ask(Request::Settled(object.id, seq))
    }

    /// Answers the number up to which the lower has the file durably.
    pub(super) fn sync_lower(
        &self,
        object: &Object<L::Node>,
        stays_beyond: bool,
    ) -> io::Result<Seq> {
        let (seq, dirs) = {
            let order = self.order.lock();
            let mut state = object.state.lock();
            let dirty_bytes = state.dirty_bytes();
            self.counts.asked_bytes.add(dirty_bytes);
            self.counts.over_threshold.add((dirty_bytes > self.options.threshold_bytes).into());
            state.begin_settling();
            let is_new = std::mem::take(&mut state.is_new);
            let dirs: Vec<ObjectId> = state.at.iter().filter(|_| is_new).map(|at| at.dir).collect();
            (order.last, dirs)
        };
        let synced = self.sync_with_directories(object, &dirs);
        let mut state = object.state.lock();
        state.settling -= 1;
        state.is_beyond_log |= stays_beyond;
        drop(state);
        self.counts.settled.add(1);
        self.or_poison(synced)?;
        Ok(seq)
    }

    fn sync_with_directories(&self, object: &Object<L::Node>, dirs: &[ObjectId]) -> io::Result<()> {
        if !mutant::is(Mutant::FileNotSynced) {
            self.lower.sync(&object.node)?;
        }
        // ext4, XFS and btrfs have done it with the file. POSIX does not promise that.
        dirs.iter().try_for_each(|dir| self.lower.sync(&self.object(*dir)?.node))
    }
}
