//! Records, epochs and their release.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;

use oneflush_blocklog::{Epoch, Error, Head, Log, Storage};
use parking_lot::{Mutex, MutexGuard, RwLock};

use super::group::{Group, Request};
use super::mounted::named_by;
use super::object::State;
use super::pending::{Isets, Pending};
use super::{Counts, Object, Options, Tree, root_objects};
use crate::entry::{self, Begin, Entry, Form, ObjectId, Op, Piece, Place, Seq};
use crate::lower::{Identity, Kind, Lower};
use crate::mutant::{self, Mutant};
use crate::pack::Bases;
use crate::records;

/// Where the log is.
#[derive(Debug)]
pub struct Writer {
    head: Head,
    /// The epoch before, while it is not released.
    previous: Option<Epoch>,
    /// Of the head's epoch.
    bases: Bases,
}

impl Writer {
    pub(super) fn oldest_live(&self) -> Epoch {
        self.previous.unwrap_or(self.head.epoch)
    }
}

/// What goes into a record.
#[derive(Default)]
struct Cut {
    ops: Vec<(Seq, Op)>,
    data: Vec<Data>,
    settled: Vec<(ObjectId, Seq)>,
    /// The last operation that the log has then, with isets `all`.
    end: Seq,
    /// It is written also if there is nothing in it.
    is_beat: bool,
    /// How those are introduced whom the epoch does not know. `None`: by their making.
    strangers: BTreeMap<ObjectId, Option<Introduction>>,
}

/// What is synced of a file.
struct Data {
    seq: Seq,
    id: ObjectId,
    size_bytes: u64,
    pieces: Vec<Piece>,
}

struct Introduction {
    identity: Identity,
    kind: Kind,
    at: Vec<Place>,
    others: u64,
}

impl Cut {
    fn is_empty(&self) -> bool {
        self.ops.is_empty() && self.data.is_empty() && self.settled.is_empty() && !self.is_beat
    }

    /// Whom it names.
    fn named(&self) -> BTreeSet<ObjectId> {
        let of_ops = self.ops.iter().flat_map(|(_, op)| named_by(op));
        let of_data = self.data.iter().map(|data| data.id);
        of_ops.chain(of_data).chain(self.settled.iter().map(|(id, _)| *id)).collect()
    }
}

impl<L: Lower, S: Storage> Tree<L, S> {
    /// Mounts the lower with an empty log.
    pub fn new(
        lower: L,
        log: Log<S>,
        head: Head,
        begin: Begin,
        options: Options,
    ) -> io::Result<Tree<L, S>> {
        let objects = root_objects(&lower)?;
        let tree = Tree {
            lower,
            log,
            begin,
            options,
            writer: Mutex::new(Writer { head, previous: None, bases: Bases::default() }),
            order: Mutex::new(Pending::default()),
            objects: RwLock::new(objects),
            group: Group::default(),
            poisoned: false.into(),
            is_touched: false.into(),
            counts: Counts::default(),
        };
        tree.begin_epoch(&mut tree.writer.lock(), Cut::default())?;
        Ok(tree)
    }

    /// Writes one record for all of these, and answers each.
    pub(super) fn write_record(&self, requests: &[Request]) -> Vec<io::Result<()>> {
        let mut writer = self.writer.lock();
        let written = self.sound().and_then(|()| {
            // What was taken and is not written is lost to later records.
            self.or_poison(self.cut(&writer, requests).and_then(|cut| self.put(&mut writer, cut)))
        });
        requests
            .iter()
            .map(|request| match (&written, request) {
                (Err(error), _) => Err(io::Error::new(error.kind(), error.to_string())),
                (Ok(()), Request::Shrink(id, size_bytes)) => self.shrink(*id, *size_bytes),
                (Ok(()), _) => Ok(()),
            })
            .collect()
    }

    /// The record that says so is durable. A file that cannot be cut now is not what the log says.
    fn shrink(&self, id: ObjectId, size_bytes: u64) -> io::Result<()> {
        let object = self.object(id)?;
        let mut state = object.state.lock();
        self.or_poison(self.lower.truncate(&object.node, size_bytes))?;
        state.cut(size_bytes);
        Ok(())
    }

    /// Takes what the requests ask for (T2).
    fn cut(&self, writer: &Writer, requests: &[Request]) -> io::Result<Cut> {
        let mut settled: Vec<(ObjectId, Seq)> = Vec::new();
        settled.extend(requests.iter().filter_map(|request| match request {
            Request::Settled(id, seq) => Some((*id, *seq)),
            _ => None,
        }));
        loop {
            let mut order = self.order.lock();
            let mut files: BTreeSet<ObjectId> = order.joins.clone();
            files.extend(requests.iter().filter_map(|request| match request {
                Request::Sync(id) => Some(*id),
                _ => None,
            }));
            let files: Vec<Arc<Object<L::Node>>> =
                files.into_iter().map(|id| self.object(id)).collect::<io::Result<_>>()?;
            let needs_lower = |object: &&Arc<Object<L::Node>>| {
                object.state.lock().needs_lower(self.options.threshold_bytes)
            };
            if let Some(object) = files.iter().find(needs_lower) {
                drop(order);
                let seq = self.sync_lower(object, false)?;
                settled.push((object.id, seq));
                continue;
            }
            return self.cut_now(writer, requests, &mut order, &files, settled);
        }
    }

    fn cut_now(
        &self,
        writer: &Writer,
        requests: &[Request],
        order: &mut MutexGuard<'_, Pending>,
        files: &[Arc<Object<L::Node>>],
        settled: Vec<(ObjectId, Seq)>,
    ) -> io::Result<Cut> {
        for request in requests {
            if let Request::Shrink(id, size_bytes) = *request {
                order.push(Op::Shrink { id, size_bytes });
            }
        }
        let roots: Option<Vec<ObjectId>> = requests
            .iter()
            .map(|request| match request {
                Request::Sync(id) | Request::Settled(id, _) | Request::Shrink(id, _) => Some(*id),
                Request::Operations | Request::Beat => None,
            })
            .collect();
        let mut ops = order.take(self.options.isets, roots.as_deref());
        if mutant::is(Mutant::OperationsLeftOut) && roots.is_some() {
            ops.retain(|(_, op)| matches!(op, Op::Shrink { .. }));
        }
        order.joins.clear();
        let end = order.last;
        order.cut = end;
        let seq = order.next();
        let mut data = Vec::new();
        for object in files {
            data.extend(self.take_bytes(writer, object, seq)?);
        }
        for (id, seq) in &settled {
            let object = self.object(*id)?;
            let mut state = object.state.lock();
            if state.logged <= *seq {
                state.live = None;
            }
        }
        let is_beat = requests.contains(&Request::Beat);
        let strangers = BTreeMap::new();
        let mut cut = Cut { ops, data, settled, end, is_beat, strangers };
        self.introduce(&mut cut, writer.head.epoch)?;
        Ok(cut)
    }

    /// The dirty bytes of a file, if it has any.
    fn take_bytes(
        &self,
        writer: &Writer,
        object: &Object<L::Node>,
        seq: Seq,
    ) -> io::Result<Option<Data>> {
        let mut state = object.state.lock();
        if state.dirty.is_empty() && !state.is_resized {
            return Ok(None);
        }
        let size_bytes = self.lower.look(&object.node)?.size_bytes;
        let mut pieces = Vec::new();
        for range in state.dirty.iter() {
            let end = range.end.min(size_bytes);
            let mut bytes = vec![0; end.saturating_sub(range.start) as usize];
            let read = self.lower.read(&object.node, range.start, &mut bytes)?;
            bytes.truncate(read);
            if !bytes.is_empty() {
                pieces.push(Piece { offset: range.start, form: Form::Plain, bytes });
            }
        }
        self.counts.asked_bytes.add(state.dirty_bytes());
        state.dirty.clear();
        state.is_resized = false;
        state.was_emptied = false;
        state.logged = seq;
        // From now on the file may not be cut without a record (T4), also while this one is
        // written.
        state.live = state.live.max(Some(writer.head.epoch));
        Ok(Some(Data { seq, id: object.id, size_bytes, pieces }))
    }

    /// Introduces those whom the epoch does not know, with the directories of their names. `order`
    /// is held, so that their names are those behind the cut's operations.
    fn introduce(&self, cut: &mut Cut, epoch: Epoch) -> io::Result<()> {
        let made = cut.ops.iter().filter_map(|(_, op)| match op {
            Op::Make { id, .. } => Some((*id, None)),
            _ => None,
        });
        cut.strangers = made.collect();
        let mut next: Vec<ObjectId> = cut.named().into_iter().collect();
        while let Some(id) = next.pop() {
            if cut.strangers.contains_key(&id) {
                continue;
            }
            let object = self.object(id)?;
            let state = object.state.lock();
            // Who is known was introduced with his directories, and who has moved since names the
            // new one by that.
            if state.known == Some(epoch) {
                continue;
            }
            let at: Vec<Place> = state.at.iter().cloned().collect();
            // What has no name is not asked: it may be gone.
            let names = if at.is_empty() { 0 } else { self.lower.look(&object.node)?.names };
            let others = names.saturating_sub(at.len() as u64);
            next.extend(at.iter().map(|at| at.dir));
            let identity = object.identity.clone();
            let introduction = Introduction { identity, kind: object.kind, at, others };
            cut.strangers.insert(id, Some(introduction));
        }
        Ok(())
    }

    fn put(&self, writer: &mut Writer, cut: Cut) -> io::Result<()> {
        if cut.is_empty() {
            return Ok(());
        }
        let payload = self.payload(&cut, false, &mut writer.bases);
        let lane_bytes = records::lane_bytes(&self.log, &writer.head, &payload);
        if lane_bytes > self.options.lane_bytes_max || !self.make_room(writer, lane_bytes)? {
            if let Some(previous) = writer.previous {
                self.release_epoch(writer, previous)?;
            }
            return self.begin_epoch(writer, cut);
        }
        let written = records::append(&self.log, &writer.head, &payload);
        writer.head = written.map_err(io::Error::other)?;
        self.note(writer.head.epoch, &cut, payload.len());
        Ok(())
    }

    /// False: the log's file system is full. The lane stays as it is, and the other one is there.
    fn make_room(&self, writer: &mut Writer, lane_bytes: u64) -> io::Result<bool> {
        match self.log.grow(&writer.head, lane_bytes) {
            Ok(head) => writer.head = head,
            Err(Error::Io { source, .. }) if is_full(&source) => return Ok(false),
            Err(error) => return Err(io::Error::other(error)),
        }
        Ok(true)
    }

    /// The first record of an epoch introduces all whom it names. Names may have changed since the
    /// cut, so the record has the operations until now.
    fn begin_epoch(&self, writer: &mut Writer, mut cut: Cut) -> io::Result<()> {
        let epoch = Epoch(writer.head.epoch.0 + 1);
        {
            let mut order = self.order.lock();
            cut.ops.extend(order.take(Isets::All, None));
            cut.end = order.last;
            order.cut = cut.end;
            self.introduce(&mut cut, epoch)?;
        }
        writer.bases = Bases::default();
        let payload = self.payload(&cut, true, &mut writer.bases);
        let begun = records::begin_epoch(&self.log, &writer.head, &payload);
        writer.previous = Some(writer.head.epoch).filter(|epoch| epoch.0 > 0);
        writer.head = begun.map_err(io::Error::other)?;
        self.counts.epochs.add(1);
        self.note(epoch, &cut, payload.len());
        Ok(())
    }

    /// A record is durable.
    fn note(&self, epoch: Epoch, cut: &Cut, payload_bytes: usize) {
        let note = |id: &ObjectId, note: fn(&mut State, Epoch)| {
            if let Ok(object) = self.object(*id) {
                note(&mut object.state.lock(), epoch);
            }
        };
        cut.strangers.keys().for_each(|id| note(id, |state, epoch| state.known = Some(epoch)));
        let data = cut.data.iter().map(|data| &data.id);
        data.for_each(|id| note(id, |state, epoch| state.live = Some(epoch)));
        self.counts.note_record(self.log.record_bytes(payload_bytes), cut.ops.len());
    }

    fn payload(&self, cut: &Cut, begins: bool, bases: &mut Bases) -> Vec<u8> {
        let mut payload = Vec::new();
        if begins {
            entry::put(&mut payload, &Entry::Begin(self.begin.clone()));
        }
        for (&id, introduction) in &cut.strangers {
            let Some(Introduction { identity, kind, at, others }) = introduction else { continue };
            let (identity, at) = (identity.clone(), at.clone());
            let known = Entry::Known { id, identity, kind: *kind, at, others: *others };
            entry::put(&mut payload, &known);
        }
        for (seq, op) in &cut.ops {
            entry::put(&mut payload, &Entry::Op { seq: *seq, op: op.clone() });
        }
        for data in &cut.data {
            let Data { seq, id, size_bytes, .. } = *data;
            let mut pieces = Vec::new();
            data.pieces.iter().for_each(|piece| bases.pack(id, piece, &mut pieces));
            entry::put(&mut payload, &Entry::Data { seq, id, size_bytes, pieces });
        }
        for &(id, seq) in cut.settled.iter().filter(|_| !mutant::is(Mutant::NotVoided)) {
            entry::put(&mut payload, &Entry::Settled { seq, id });
        }
        let seq = if self.options.isets == Isets::All { cut.end } else { Seq(0) };
        entry::put(&mut payload, &Entry::End { seq, at_ns: (self.options.clock)() });
        payload
    }

    /// Begins an epoch, if the one before the last is released. Its release is then due.
    pub fn end_epoch(&self) -> io::Result<bool> {
        self.sound()?;
        let mut writer = self.writer.lock();
        if writer.previous.is_some() {
            return Ok(false);
        }
        let cut = self.cut(&writer, &[Request::Operations]);
        self.or_poison(cut.and_then(|cut| self.begin_epoch(&mut writer, cut)))?;
        Ok(true)
    }

    /// Syncs the lower and releases the epoch before, if there is one (T6).
    pub fn release(&self) -> io::Result<bool> {
        self.sound()?;
        let Some(previous) = self.writer.lock().previous else { return Ok(false) };
        let covered = self.unsynced();
        if !mutant::is(Mutant::EarlyRelease) {
            self.or_poison(self.lower.sync_all())?;
            self.counts.lower_syncs.add(1);
        }
        let mut writer = self.writer.lock();
        if writer.previous == Some(previous) {
            self.or_poison(self.release_record(&mut writer, previous))?;
            self.note_durable(&covered, previous);
        }
        Ok(true)
    }

    /// Objects that wait for a sync, and how often each was changed.
    fn unsynced(&self) -> Vec<(Arc<Object<L::Node>>, u64)> {
        let objects = self.objects.read();
        let unsynced = objects.by_id.values().filter_map(|object| {
            let state = object.state.lock();
            (!state.is_clean() && state.settling == 0).then(|| (Arc::clone(object), state.changes))
        });
        unsynced.collect()
    }

    /// The lower was synced as a whole since these were looked at. What the live epoch does not
    /// name waits for no sync any more. (Of what it names it may have a cut that is to be made
    /// again.)
    fn note_durable(&self, covered: &[(Arc<Object<L::Node>>, u64)], released: Epoch) {
        let order = self.order.lock();
        let mut named: BTreeSet<ObjectId> = order.joins.clone();
        named.extend(order.ops.iter().flat_map(|(_, op)| named_by(op)));
        for (object, changes) in covered.iter().filter(|(object, _)| !named.contains(&object.id)) {
            let mut state = object.state.lock();
            let is_named = state.known.is_some_and(|known| known > released);
            if !is_named && state.changes == *changes && state.settling == 0 {
                state.wait_for_nothing();
                state.is_new = false;
            }
        }
    }

    /// While nothing can be written: the next epoch needs the lane.
    fn release_epoch(&self, writer: &mut Writer, previous: Epoch) -> io::Result<()> {
        if !mutant::is(Mutant::EarlyReleaseWhenFull) {
            self.lower.sync_all()?;
            self.counts.lower_syncs.add(1);
        }
        self.release_record(writer, previous)
    }

    fn release_record(&self, writer: &mut Writer, previous: Epoch) -> io::Result<()> {
        writer.head = records::release(&self.log, &writer.head).map_err(io::Error::other)?;
        writer.previous = None;
        self.counts.flushes.add(1);
        for object in self.objects.read().by_id.values() {
            let mut state = object.state.lock();
            state.live = state.live.filter(|live| *live > previous);
        }
        Ok(())
    }

    /// How full the newest epoch is, in bytes, and whether an older one waits for its release.
    pub fn log_state(&self) -> (u64, bool) {
        let writer = self.writer.lock();
        (writer.head.position, writer.previous.is_some())
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}
