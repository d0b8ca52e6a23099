//! Syncs: of a file, of what is pending, of everything.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use oneflush_blocklog::Storage;

use super::group::{self, Answer, Request};
use super::{Object, Tree};
use crate::entry::{ObjectId, Seq};
use crate::lower::{Kind, Lower};
use crate::mutant::{self, Mutant};

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
        let _watch = self.sound()?;
        self.counts.syncs.add(1);
        let object = self.object(id)?;
        if object.kind != Kind::File {
            return Ok(Some(Request::Operations));
        }
        {
            let mut state = self.state(&object);
            if state.at.is_empty() && self.lower.look(&object.node)?.names == 0 {
                // Nobody can find it after a loss of power, unless it gets a name.
                state.joins_when_named = !state.is_clean();
                return Ok(None);
            }
        }
        self.request_of_contents(&object).map(Some)
    }

    fn request_of_contents(&self, object: &Object<L::Node>) -> io::Result<Request> {
        if !self.state(object).needs_lower(self.options.threshold_bytes) {
            return Ok(Request::Sync(object.id));
        }
        let seq = self.sync_lower(object, false)?;
        Ok(Request::Settled(object.id, seq))
    }

    /// The bytes of a file are durable on return, also while it has no name.
    pub(super) fn sync_contents(&self, object: &Object<L::Node>) -> io::Result<()> {
        self.counts.syncs.add(1);
        self.ask(self.request_of_contents(object)?)
    }

    /// Every operation that was done is durable on return.
    pub fn sync_operations(&self) -> io::Result<()> {
        let _watch = self.sound()?;
        self.ask(Request::Operations)
    }

    /// Tells the log the time, if anything was done since the last call: so recovery can tell what
    /// others have changed since then. Pending operations go out with it.
    pub fn beat(&self) -> io::Result<()> {
        if !self.is_touched.swap(false, Ordering::AcqRel) {
            return Ok(());
        }
        let _watch = self.sound()?;
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
        let _watch = self.sound()?;
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
            // What a record took and did not write is lost to later ones (T8).
            let _watch = self.poison.watch();
            self.write_record(requests)
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
        // The kernel tells an error once. Who comes later is told by the poison.
        let _one_at_a_time = object.settles.lock();
        let _watch = self.sound()?;
        let (seq, changes, dirs) = {
            let order = self.order();
            let mut state = self.state(object);
            let dirty_bytes = state.dirty_bytes();
            self.counts.asked_bytes.add(dirty_bytes);
            self.counts.over_threshold.add((dirty_bytes > self.options.threshold_bytes).into());
            state.begin_settling();
            let is_new = std::mem::take(&mut state.is_new);
            let dirs: Vec<ObjectId> = state.at.iter().filter(|_| is_new).map(|at| at.dir).collect();
            (order.last, state.changes, dirs)
        };
        // If it fails the bytes stay taken and not durable.
        self.or_poison(self.sync_with_directories(object, &dirs))?;
        let mut state = self.state(object);
        state.settling -= 1;
        state.is_beyond_log |= stays_beyond;
        state.in_lower = state.in_lower.max(seq);
        state.synced = state.synced.max(changes);
        self.counts.settled.add(1);
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
