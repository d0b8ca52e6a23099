//! Ends of epochs, and their release.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;

use oneflush_blocklog::{Epoch, Storage, invariant};

use super::group::Request;
use super::writer::Writer;
use super::{Object, Tree};
use crate::entry::ObjectId;
use crate::lower::Lower;
use crate::mutant::{self, Mutant};
use crate::records;

impl<L: Lower, S: Storage> Tree<L, S> {
    /// Begins an epoch, if the one before the last is released. Its release is then due.
    pub fn end_epoch(&self) -> io::Result<bool> {
        let _watch = self.sound()?;
        let mut writer = self.sound_writer()?;
        if writer.previous.is_some() {
            return Ok(false);
        }
        let cut = self.cut(&writer, &[Request::Operations]);
        self.or_poison(cut.and_then(|cut| self.begin_epoch(&mut writer, cut)))?;
        Ok(true)
    }

    /// Syncs the lower and releases the epoch before, if there is one (T6).
    pub fn release(&self) -> io::Result<bool> {
        let _watch = self.sound()?;
        let Some(previous) = self.writer().previous else { return Ok(false) };
        let covered = self.unsynced();
        if !mutant::is(Mutant::EarlyRelease) {
            self.or_poison(self.sync_all_of_lower())?;
        }
        let mut writer = self.sound_writer()?;
        if writer.previous == Some(previous) {
            self.or_poison(self.release_record(&mut writer, previous))?;
            self.note_durable(&covered, previous);
        }
        Ok(true)
    }

    /// Objects that wait for a sync and have none under way, and how often each was changed.
    fn unsynced(&self) -> Vec<(Arc<Object<L::Node>>, u64)> {
        let objects = self.objects.read();
        let unsynced = objects.by_id.values().filter_map(|object| {
            let state = self.state(object);
            (!state.is_clean() && state.settling == 0).then(|| (Arc::clone(object), state.changes))
        });
        unsynced.collect()
    }

    /// The lower was synced as a whole since these were looked at. What the live epoch does not
    /// name waits for no sync any more. (Of what it names it may have a cut that is to be made
    /// again.)
    fn note_durable(&self, covered: &[(Arc<Object<L::Node>>, u64)], released: Epoch) {
        let order = self.order();
        let mut named: BTreeSet<ObjectId> = order.joins.clone();
        named.extend(order.ops.iter().flat_map(|(_, op)| op.named()));
        for (object, changes) in covered.iter().filter(|(object, _)| !named.contains(&object.id)) {
            let mut state = self.state(object);
            let is_named = state.known.is_some_and(|known| known > released);
            if !is_named && state.changes == *changes && state.settling == 0 {
                state.wait_for_nothing();
                state.synced = state.synced.max(*changes);
                state.is_new = false;
            }
        }
    }

    /// While nothing can be written: the next epoch needs the lane.
    pub(super) fn release_epoch(&self, writer: &mut Writer, previous: Epoch) -> io::Result<()> {
        if !mutant::is(Mutant::EarlyReleaseWhenFull) {
            self.sync_all_of_lower()?;
        }
        self.release_record(writer, previous)
    }

    fn sync_all_of_lower(&self) -> io::Result<()> {
        let ended = self.ledger.ended();
        self.lower.sync_all()?;
        self.ledger.note_covered(ended);
        self.counts.lower_syncs.add(1);
        Ok(())
    }

    fn release_record(&self, writer: &mut Writer, previous: Epoch) -> io::Result<()> {
        invariant!(
            "T6",
            "an epoch is released when a `syncfs` that began after its end has returned",
            self.ledger.covered() >= previous
        );
        writer.head = records::release(&self.log, &writer.head).map_err(io::Error::other)?;
        writer.previous = None;
        self.counts.flushes.add(1);
        self.ledger.note_released(writer.bytes_of_previous);
        for object in self.objects.read().by_id.values() {
            let mut state = self.state(object);
            state.live = state.live.filter(|live| *live > previous);
        }
        Ok(())
    }

    /// How full the newest epoch is, in bytes, and whether an older one waits for its release.
    pub fn log_state(&self) -> (u64, bool) {
        let writer = self.writer();
        (writer.head.position, writer.previous.is_some())
    }
}
