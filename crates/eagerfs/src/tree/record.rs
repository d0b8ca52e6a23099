//! Records: what goes into one, its way to the log, and what is noted behind it.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;

use oneflush_blocklog::{Epoch, Error, Storage, invariant};

use super::cut::{Cut, Data, Introduction};
use super::group::Request;
use super::object::State;
use super::pending::{Isets, Pending};
use super::poison::Locked;
use super::writer::Writer;
use super::{Object, Tree};
use crate::entry::{self, Entry, Form, ObjectId, Op, Piece, Place, Seq};
use crate::lower::Lower;
use crate::mutant::{self, Mutant};
use crate::pack::Bases;
use crate::records;

impl<L: Lower, S: Storage> Tree<L, S> {
    /// The same as [`writer`](Tree::writer), unless somebody has failed meanwhile.
    pub(super) fn sound_writer(&self) -> io::Result<Locked<'_, Writer>> {
        let writer = self.writer();
        self.sound().map(|_| writer)
    }

    /// Writes one record for all of these, and answers each.
    pub(super) fn write_record(&self, requests: &[Request]) -> Vec<io::Result<()>> {
        let written = self.sound_writer().and_then(|mut writer| {
            // What was taken and is not written is lost to later records.
            self.or_poison(self.take_and_put(&mut writer, requests)).map(|()| writer)
        });
        requests
            .iter()
            .map(|request| match (&written, request) {
                (Err(error), _) => Err(io::Error::new(error.kind(), error.to_string())),
                (Ok(_), Request::Shrink(id, size_bytes)) => self.shrink(*id, *size_bytes),
                (Ok(_), _) => Ok(()),
            })
            .collect()
    }

    fn take_and_put(&self, writer: &mut Writer, requests: &[Request]) -> io::Result<()> {
        let mut cut = self.cut(writer, requests)?;
        let (number, in_lower) = (cut.number, cut.settled.clone());
        if mutant::is(Mutant::NotVoided) {
            cut.settled.clear();
        }
        self.put(writer, cut)?;
        invariant!(
            "T3",
            "nothing is acknowledged before its record is durable",
            writer.durable == number
        );
        for (id, seq) in &in_lower {
            // It may be gone meanwhile.
            let Ok(object) = self.object(*id) else { continue };
            let voided = self.state(&object).voided;
            invariant!(
                "T5",
                "a sync that is the lower's is acknowledged when a record voids what the log has",
                voided >= *seq
            );
        }
        Ok(())
    }

    /// The record that says so is durable. A file that cannot be cut now is not what the log says.
    fn shrink(&self, id: ObjectId, size_bytes: u64) -> io::Result<()> {
        let object = self.object(id)?;
        let mut state = self.state(&object);
        self.check_before_bytes_go(&state, Some(size_bytes));
        self.or_poison(self.lower.truncate(&object.node, size_bytes))?;
        state.cut(size_bytes);
        Ok(())
    }

    /// Bytes of a file are about to go. `cut_to`: only those behind this size.
    pub(super) fn check_before_bytes_go(&self, state: &State, cut_to: Option<u64>) {
        let is_said = cut_to.zip(state.cut_to).is_some_and(|(size, said)| size >= said);
        invariant!(
            "T4",
            "bytes of a file go when no live epoch has some of them, or a durable record says so",
            is_said || state.logged <= state.voided.max(self.ledger.released())
        );
    }

    /// Takes what the requests ask for (T2).
    pub(super) fn cut(&self, writer: &Writer, requests: &[Request]) -> io::Result<Cut> {
        let mut settled: Vec<(ObjectId, Seq)> = Vec::new();
        settled.extend(requests.iter().filter_map(|request| match request {
            Request::Settled(id, seq) => Some((*id, *seq)),
            _ => None,
        }));
        loop {
            let mut order = self.order();
            // In this order: who fails poisons first.
            let has_failed = self.ledger.has_failed();
            let _watch = self.sound()?;
            invariant!(
                "T8",
                "nothing is acknowledged behind what has failed",
                !has_failed && order.taken == writer.durable
            );
            let mut files: BTreeSet<ObjectId> = order.joins.clone();
            files.extend(requests.iter().filter_map(|request| match request {
                Request::Sync(id) => Some(*id),
                _ => None,
            }));
            let files: Vec<Arc<Object<L::Node>>> =
                files.into_iter().map(|id| self.object(id)).collect::<io::Result<_>>()?;
            let needs_lower = |object: &&Arc<Object<L::Node>>| {
                self.state(object).needs_lower(self.options.threshold_bytes)
            };
            if let Some(object) = files.iter().find(needs_lower) {
                drop(order);
                let seq = self.sync_lower(object, false)?;
                settled.push((object.id, seq));
                continue;
            }
            // Who has had one synced by the lower may not have come to its record yet.
            settled.extend(files.iter().filter_map(|object| {
                let state = self.state(object);
                (state.in_lower > state.voided).then_some((object.id, state.in_lower))
            }));
            return self.cut_now(writer, requests, &mut order, &files, settled);
        }
    }

    fn cut_now(
        &self,
        writer: &Writer,
        requests: &[Request],
        order: &mut Pending,
        files: &[Arc<Object<L::Node>>],
        settled: Vec<(ObjectId, Seq)>,
    ) -> io::Result<Cut> {
        order.taken += 1;
        let number = order.taken;
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
        let seq = if mutant::is(Mutant::BytesNumberedEarly) { order.cut } else { order.next() };
        let mut data = Vec::new();
        for object in files {
            data.extend(self.take_bytes(writer, object, seq)?);
        }
        invariant!(
            "T2",
            "bytes stand behind the operations of their record, and before all others",
            order.last == seq
        );
        // The bytes were taken from files that are not cut yet.
        ops.extend(requests.iter().filter_map(|request| match *request {
            Request::Shrink(id, size_bytes) => Some((order.next(), Op::Shrink { id, size_bytes })),
            _ => None,
        }));
        order.cut = order.last;
        let end = order.cut;
        let is_beat = requests.contains(&Request::Beat);
        let strangers = BTreeMap::new();
        let mut cut = Cut { number, ops, data, settled, end, is_beat, strangers };
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
        let mut state = self.state(object);
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
        state.cut_to = None;
        // From now on the file may not be cut without a record (T4), also while this one is
        // written.
        state.live = state.live.max(Some(writer.head.epoch));
        Ok(Some(Data { seq, changes: state.changes, id: object.id, size_bytes, pieces }))
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
            let state = self.state(&object);
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
            writer.durable = cut.number;
            return Ok(());
        }
        if mutant::is(Mutant::RecordNotWritten) {
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
        self.note(writer, &cut, payload.len());
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
    pub(super) fn begin_epoch(&self, writer: &mut Writer, mut cut: Cut) -> io::Result<()> {
        let epoch = Epoch(writer.head.epoch.0 + 1);
        {
            let mut order = self.order();
            let _watch = self.sound()?;
            cut.ops.extend(order.take(Isets::All, None));
            cut.end = order.last;
            order.cut = cut.end;
            self.introduce(&mut cut, epoch)?;
        }
        writer.bases = Bases::default();
        let payload = self.payload(&cut, true, &mut writer.bases);
        let begun = records::begin_epoch(&self.log, &writer.head, &payload);
        let begun = begun.map_err(io::Error::other)?;
        self.ledger.note_end(writer.head.epoch);
        writer.previous = Some(writer.head.epoch).filter(|epoch| epoch.0 > 0);
        writer.head = begun;
        writer.bytes_of_previous = writer.bytes;
        self.counts.epochs.add(1);
        self.note(writer, &cut, payload.len());
        Ok(())
    }

    /// A record is durable.
    fn note(&self, writer: &mut Writer, cut: &Cut, payload_bytes: usize) {
        let epoch = writer.head.epoch;
        let note = |id: ObjectId, note: &dyn Fn(&mut State)| {
            if let Ok(object) = self.object(id) {
                note(&mut self.state(&object));
            }
        };
        cut.strangers.keys().for_each(|id| note(*id, &|state| state.known = Some(epoch)));
        for data in &cut.data {
            note(data.id, &|state| {
                state.live = Some(epoch);
                state.synced = state.synced.max(data.changes);
            });
            writer.bytes = writer.bytes.max(data.seq);
        }
        for (seq, op) in &cut.ops {
            let Op::Shrink { id, size_bytes } = *op else { continue };
            note(id, &|state| {
                // Bytes behind it are not said to go.
                if state.logged < *seq {
                    let said = state.cut_to.unwrap_or(size_bytes);
                    state.cut_to = Some(said.min(size_bytes));
                }
            });
        }
        for (id, seq) in &cut.settled {
            note(*id, &|state| {
                state.voided = state.voided.max(*seq);
                if state.logged <= *seq {
                    state.live = None;
                }
            });
        }
        writer.durable = cut.number;
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
        for &(id, seq) in &cut.settled {
            entry::put(&mut payload, &Entry::Settled { seq, id });
        }
        let seq = if self.options.isets == Isets::All { cut.end } else { Seq(0) };
        entry::put(&mut payload, &Entry::End { seq, at_ns: (self.options.clock)() });
        payload
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}
