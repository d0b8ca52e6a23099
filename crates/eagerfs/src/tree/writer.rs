//! Records, epochs and their release.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;

use oneflush_blocklog::{Epoch, Error, Head, Log, Storage};
use parking_lot::{Mutex, MutexGuard, RwLock};

use super::group::{Group, Request};
use super::mounted::named_by;
use super::pending::{Isets, Pending};
use super::{Counts, Object, Options, Tree, root_objects};
use crate::entry::{self, Begin, Entry, Form, ObjectId, Op, Piece, Place, Seq};
use crate::lower::{Identity, Kind, Lower};
use crate::mutant::{self, Mutant};
use crate::pack::Bases;

/// The kind of a record with entries.
pub const KIND_ENTRIES: u8 = 17;

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

/// What goes into a record, and is the same in whatever epoch.
struct Cut {
    ops: Vec<(Seq, Op)>,
    data: Vec<Data>,
    settled: Vec<(ObjectId, Seq)>,
    /// The last operation that the log has then, with isets `all`.
    end: Seq,
    /// It is written also if there is nothing in it.
    is_beat: bool,
    /// Who is named, and how each is introduced where it was not.
    named: BTreeMap<ObjectId, Introduction>,
}

/// What is synced of a file: its size, and bytes.
type Data = (Seq, ObjectId, u64, Vec<Piece>);

struct Introduction {
    identity: Identity,
    kind: Kind,
    at: Vec<Place>,
    others: u64,
    known: Option<Epoch>,
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
            counts: super::Counts::default(),
        };
        {
            let mut writer = tree.writer.lock();
            let nothing = Cut {
                ops: Vec::new(),
                data: Vec::new(),
                settled: Vec::new(),
                named: BTreeMap::new(),
                end: Seq(0),
                is_beat: false,
            };
            tree.begin_epoch(&mut writer, &nothing)?;
        }
        Ok(tree)
    }

    /// Writes one record for all of these, and answers each.
    pub(super) fn write_record(&self, requests: &[Request]) -> Vec<io::Result<()>> {
        let mut writer = self.writer.lock();
        let written = self.sound().and_then(|()| {
            // What was taken and is not written is lost to later records.
            self.or_poison(self.cut(&writer, requests).and_then(|cut| self.put(&mut writer, &cut)))
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
        let mut named = BTreeMap::new();
        for (_, op) in &ops {
            op.objects().try_for_each(|id| self.introduce(id, &mut named))?;
            op.places().try_for_each(|at| self.introduce(at.dir, &mut named))?;
        }
        for object in files {
            self.introduce(object.id, &mut named)?;
        }
        settled.iter().try_for_each(|(id, _)| self.introduce(*id, &mut named))?;
        for (id, seq) in &settled {
            let object = self.object(*id)?;
            let mut state = object.state.lock();
            if state.logged <= *seq {
                state.live = None;
            }
        }
        let is_beat = requests.contains(&Request::Beat);
        Ok(Cut { ops, data, settled, named, end, is_beat })
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
        state.dirty.clear();
        state.is_resized = false;
        state.was_emptied = false;
        state.logged = seq;
        // From now on the file may not be cut without a record (T4), also while this one is
        // written.
        state.live = state.live.max(Some(writer.head.epoch));
        Ok(Some((seq, object.id, size_bytes, pieces)))
    }

    /// An object is introduced with the directories of its name.
    fn introduce(
        &self,
        id: ObjectId,
        named: &mut BTreeMap<ObjectId, Introduction>,
    ) -> io::Result<()> {
        let mut dirs = vec![id];
        while let Some(id) = dirs.pop() {
            if named.contains_key(&id) {
                continue;
            }
            let object = self.object(id)?;
            let state = object.state.lock();
            let at: Vec<Place> = state.at.iter().cloned().collect();
            // What has no name is not asked: it may be gone.
            let names = if at.is_empty() { 0 } else { self.lower.look(&object.node)?.names };
            let others = names.saturating_sub(at.len() as u64);
            let identity = object.identity.clone();
            let (kind, known) = (object.kind, state.known);
            dirs.extend(at.iter().map(|at| at.dir));
            named.insert(id, Introduction { identity, kind, at, others, known });
        }
        Ok(())
    }

    fn put(&self, writer: &mut Writer, cut: &Cut) -> io::Result<()> {
        let is_empty = cut.ops.is_empty() && cut.data.is_empty() && cut.settled.is_empty();
        if is_empty && !cut.is_beat {
            return Ok(());
        }
        let payload = self.payload(writer.head.epoch, cut, false, &mut writer.bases);
        let lane_bytes = self.lane_bytes(&writer.head, payload.len());
        let fits =
            lane_bytes <= self.options.lane_bytes_max && self.make_room(writer, lane_bytes)?;
        if !fits && writer.head.position > 0 {
            if let Some(previous) = writer.previous {
                self.release_epoch(writer, previous)?;
            }
            return self.begin_epoch(writer, cut);
        }
        let head = self.log.grow(&writer.head, lane_bytes).map_err(io::Error::other)?;
        writer.head = self.log.append(&head, KIND_ENTRIES, &payload).map_err(io::Error::other)?;
        self.note(writer.head.epoch, cut, payload.len());
        Ok(())
    }

    /// How long a lane is that has room for this record. Behind it a release fits, which is due
    /// when the lane cannot be made longer, and then the block that the log keeps.
    fn lane_bytes(&self, head: &Head, payload_bytes: usize) -> u64 {
        let block_bytes = self.log.storage().block_bytes() as u64;
        head.position + self.log.record_bytes(payload_bytes) + 2 * block_bytes
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

    fn begin_epoch(&self, writer: &mut Writer, cut: &Cut) -> io::Result<()> {
        let epoch = Epoch(writer.head.epoch.0 + 1);
        writer.bases = Bases::default();
        let payload = self.payload(epoch, cut, true, &mut writer.bases);
        let lane_bytes = self.lane_bytes(&Head { position: 0, ..writer.head }, payload.len());
        let head = self.log.grow(&writer.head, lane_bytes).map_err(io::Error::other)?;
        let begun = self.log.begin_epoch(&head, KIND_ENTRIES, &payload);
        writer.previous = Some(writer.head.epoch).filter(|epoch| epoch.0 > 0);
        writer.head = begun.map_err(io::Error::other)?;
        Counts::add(&self.counts.epochs, 1);
        self.note(epoch, cut, payload.len());
        Ok(())
    }

    /// A record is durable.
    fn note(&self, epoch: Epoch, cut: &Cut, payload_bytes: usize) {
        for id in cut.named.keys() {
            if let Ok(object) = self.object(*id) {
                object.state.lock().known = Some(epoch);
            }
        }
        for (_, id, _, _) in &cut.data {
            if let Ok(object) = self.object(*id) {
                object.state.lock().live = Some(epoch);
            }
        }
        Counts::add(&self.counts.records, 1);
        Counts::add(&self.counts.logged_bytes, self.log.record_bytes(payload_bytes));
    }

    fn payload(&self, epoch: Epoch, cut: &Cut, begins: bool, bases: &mut Bases) -> Vec<u8> {
        let mut payload = Vec::new();
        if begins {
            entry::put(&mut payload, &Entry::Begin(self.begin.clone()));
        }
        let made: BTreeSet<ObjectId> = cut
            .ops
            .iter()
            .filter_map(|(_, op)| match op {
                Op::Make { id, .. } => Some(*id),
                _ => None,
            })
            .collect();
        for (&id, introduction) in &cut.named {
            let Introduction { identity, kind, at, others, known } = introduction;
            if *known == Some(epoch) || made.contains(&id) {
                continue;
            }
            let (identity, at) = (identity.clone(), at.clone());
            let known = Entry::Known { id, identity, kind: *kind, at, others: *others };
            entry::put(&mut payload, &known);
        }
        for (seq, op) in &cut.ops {
            entry::put(&mut payload, &Entry::Op { seq: *seq, op: op.clone() });
        }
        for (seq, id, size_bytes, plain) in &cut.data {
            let mut pieces = Vec::new();
            plain.iter().for_each(|piece| bases.pack(*id, piece, &mut pieces));
            let (seq, id, size_bytes) = (*seq, *id, *size_bytes);
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
        self.or_poison(cut.and_then(|cut| self.begin_epoch(&mut writer, &cut)))?;
        Ok(true)
    }

    /// Syncs the lower and releases the epoch before, if there is one (T6).
    pub fn release(&self) -> io::Result<bool> {
        self.sound()?;
        let Some(previous) = self.writer.lock().previous else { return Ok(false) };
        let covered = self.unsynced();
        if !mutant::is(Mutant::EarlyRelease) {
            self.or_poison(self.lower.sync_all())?;
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
                state.is_durable();
            }
        }
    }

    /// While nothing can be written: the next epoch needs the lane.
    fn release_epoch(&self, writer: &mut Writer, previous: Epoch) -> io::Result<()> {
        if !mutant::is(Mutant::EarlyRelease) {
            self.lower.sync_all()?;
        }
        self.release_record(writer, previous)
    }

    fn release_record(&self, writer: &mut Writer, previous: Epoch) -> io::Result<()> {
        let block_bytes = self.log.storage().block_bytes() as u64;
        let lane_bytes = writer.head.position + 2 * block_bytes;
        let head = self.log.grow(&writer.head, lane_bytes).map_err(io::Error::other)?;
        writer.head = self.log.release(&head, previous).map_err(io::Error::other)?;
        writer.previous = None;
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
