//! Operations: first the lower's, then a number.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use oneflush_blocklog::{Storage, invariant};

use super::group::Request;
use super::pending::Pending;
use super::poison::Locked;
use super::{Object, Tree};
use crate::entry::{ObjectId, Op, Place, Seq};
use crate::lower::{Attribute, Kind, Lower, Made};
use crate::mark::mark_of;
use crate::mutant::{self, Mutant};

/// A change of the lower that is under way.
struct Change<'a> {
    order: Locked<'a, Pending>,
    /// The last number before the lower was called.
    behind: Seq,
}

/// What must be durable of a file, and what the log must not put over it any more.
#[derive(Clone, Copy)]
struct Contents {
    of: ObjectId,
    changes: u64,
    in_lower: Seq,
}

impl<L: Lower, S: Storage> Tree<L, S> {
    /// The lower's order is this one's until the answer is dropped. `is_of_times`: a lower that is
    /// later by times alone needs no mark, since recovery sets them back.
    fn begin_change(&self, is_of_times: bool) -> io::Result<Change<'_>> {
        self.is_touched.store(true, Ordering::Release);
        let mut order = self.order();
        let _watch = self.sound()?;
        let needs_mark = !is_of_times && self.lower.keeps_order();
        if needs_mark && order.marked < order.cut && !mutant::is(Mutant::NotMarked) {
            self.lower.set_mark(Some(&mark_of(self.log.uuid(), order.cut)))?;
            order.marked = order.cut;
        }
        invariant!(
            "T9",
            "the lower is marked before the first change behind a record",
            !needs_mark || order.marked >= order.cut
        );
        Ok(Change { behind: order.last, order })
    }

    /// The lower has done it.
    fn number(&self, change: Change<'_>, op: Op) {
        let Change { mut order, behind } = change;
        let mut seq = order.next();
        if mutant::is(Mutant::NumberedBefore)
            && let Some((before, _)) = order.ops.last_mut()
        {
            std::mem::swap(before, &mut seq);
        }
        invariant!(
            "T1",
            "operations are numbered in the order in which the lower sees them",
            seq.0 == behind.0 + 1
        );
        order.ops.push((seq, op));
        self.counts.operations.add(1);
    }

    /// `at`: `None` for a file without a name.
    pub fn make(
        &self,
        at: Option<(ObjectId, &[u8])>,
        made: &Made,
    ) -> io::Result<Arc<Object<L::Node>>> {
        let _watch = self.sound()?;
        let dir = at.map(|(dir, _)| self.object(dir)).transpose()?;
        let there = dir.as_ref().zip(at).map(|(dir, (_, name))| (&dir.node, name));
        let at = at.map(|(dir, name)| Place::new(dir, name));
        let change = self.begin_change(false)?;
        let node = self.lower.make(there, made)?;
        let identity = self.lower.identity(&node)?;
        let object = {
            let mut objects = self.objects.write();
            objects.add(node, identity.clone(), made.what.kind(), at.clone())
        };
        self.state(&object).is_new = true;
        self.number(change, Op::Make { id: object.id, at, made: made.clone(), identity });
        Ok(object)
    }

    pub fn link(&self, id: ObjectId, dir: ObjectId, name: &[u8]) -> io::Result<()> {
        let _watch = self.sound()?;
        let (object, dir) = (self.object(id)?, self.object(dir)?);
        let mut change = self.begin_change(false)?;
        self.lower.link(&object.node, &dir.node, name)?;
        let at = Place::new(dir.id, name);
        let mut state = self.state(&object);
        state.at.insert(at.clone());
        if std::mem::take(&mut state.joins_when_named) {
            change.order.joins.insert(id);
        }
        self.number(change, Op::Link { id, at });
        Ok(())
    }

    /// A directory must be empty.
    pub fn unlink(&self, dir: ObjectId, name: &[u8], is_directory: bool) -> io::Result<()> {
        let _watch = self.sound()?;
        let parent = self.object(dir)?;
        let change = self.begin_change(false)?;
        let object = self.lookup(dir, name)?;
        match (object.kind == Kind::Directory, is_directory) {
            (true, false) => return Err(io::ErrorKind::IsADirectory.into()),
            (false, true) => return Err(io::ErrorKind::NotADirectory.into()),
            _ => {}
        }
        self.lower.unlink(&parent.node, name, object.kind)?;
        let at = Place::new(dir, name);
        self.state(&object).at.remove(&at);
        self.number(change, Op::Unlink { id: object.id, at });
        Ok(())
    }

    pub fn rename(
        &self,
        from: (ObjectId, &[u8]),
        to: (ObjectId, &[u8]),
        may_replace: bool,
    ) -> io::Result<()> {
        let _watch = self.sound()?;
        let (from_dir, to_dir) = (self.object(from.0)?, self.object(to.0)?);
        let mut durable = None;
        if may_replace && self.lookup(to.0, to.1).is_ok() {
            durable = Some(self.log_contents(&*self.lookup(from.0, from.1)?)?);
        }
        let (change, object, replaced) = loop {
            let change = self.begin_change(false)?;
            let object = self.lookup(from.0, from.1)?;
            let replaced = match self.lookup(to.0, to.1) {
                Ok(replaced) => Some(replaced),
                Err(error) if error.kind() == io::ErrorKind::NotFound => None,
                Err(error) => return Err(error),
            };
            if replaced.is_some() && !may_replace {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            if replaced.is_none() {
                break (change, object, replaced);
            }
            if let Some(durable) = durable.filter(|durable: &Contents| durable.of == object.id) {
                self.check_contents(&object, durable);
                break (change, object, replaced);
            }
            // Another file has come to one of the names.
            drop(change);
            durable = Some(self.log_contents(&object)?);
        };
        self.lower.rename((&from_dir.node, from.1), (&to_dir.node, to.1))?;
        if replaced.as_ref().is_some_and(|replaced| replaced.id == object.id) {
            // Two names of one file: nothing happens (rename(2)).
            return Ok(());
        }
        let (from, to) = (Place::new(from.0, from.1), Place::new(to.0, to.1));
        if let Some(replaced) = &replaced {
            self.state(replaced).at.remove(&to);
        }
        let mut state = self.state(&object);
        state.at.remove(&from);
        state.at.insert(to.clone());
        let replaced = replaced.map(|replaced| replaced.id);
        self.number(change, Op::Rename { id: object.id, from, to, replaced });
        Ok(())
    }

    pub fn exchange(&self, one: (ObjectId, &[u8]), other: (ObjectId, &[u8])) -> io::Result<()> {
        let _watch = self.sound()?;
        let (one_dir, other_dir) = (self.object(one.0)?, self.object(other.0)?);
        let made_durable = || -> io::Result<[Contents; 2]> {
            let (first, second) = (self.lookup(one.0, one.1)?, self.lookup(other.0, other.1)?);
            Ok([self.log_contents(&first)?, self.log_contents(&second)?])
        };
        let mut both = made_durable()?;
        let (change, first, second) = loop {
            let change = self.begin_change(false)?;
            let (first, second) = (self.lookup(one.0, one.1)?, self.lookup(other.0, other.1)?);
            if both.map(|contents| contents.of) == [first.id, second.id] {
                self.check_contents(&first, both[0]);
                self.check_contents(&second, both[1]);
                break (change, first, second);
            }
            drop(change);
            both = made_durable()?;
        };
        self.lower.exchange((&one_dir.node, one.1), (&other_dir.node, other.1))?;
        if first.id == second.id {
            return Ok(());
        }
        let (one_at, other_at) = (Place::new(one.0, one.1), Place::new(other.0, other.1));
        for (object, lost, gained) in [(&first, &one_at, &other_at), (&second, &other_at, &one_at)]
        {
            let mut state = self.state(object);
            state.at.remove(lost);
            state.at.insert(gained.clone());
        }
        self.number(change, Op::Exchange { one: first.id, one_at, other: second.id, other_at });
        Ok(())
    }

    /// Makes the bytes of a file durable that it has now. `order` is not held.
    fn log_contents(&self, object: &Object<L::Node>) -> io::Result<Contents> {
        let (contents, is_durable) = {
            let state = self.state(object);
            let contents =
                Contents { of: object.id, changes: state.changes, in_lower: state.in_lower };
            (contents, object.kind != Kind::File || state.is_durable())
        };
        if !is_durable && !mutant::is(Mutant::NameBeforeContents) {
            self.sync_contents(object)?;
        }
        Ok(contents)
    }

    fn check_contents(&self, object: &Object<L::Node>, wanted: Contents) {
        let state = self.state(object);
        invariant!(
            "T7",
            "the bytes of a file are durable before it takes the name of another",
            state.synced >= wanted.changes && state.voided >= wanted.in_lower
        );
    }

    pub fn set(&self, id: ObjectId, attribute: Attribute) -> io::Result<()> {
        let _watch = self.sound()?;
        let object = self.object(id)?;
        let is_of_times = matches!(attribute, Attribute::Accessed(_) | Attribute::Modified(_));
        let change = self.begin_change(is_of_times)?;
        self.lower.set(&object.node, &attribute)?;
        self.number(change, Op::Set { id, attribute });
        Ok(())
    }

    /// Cuts a file, or makes it longer by zeros.
    pub fn truncate(&self, id: ObjectId, size_bytes: u64) -> io::Result<()> {
        let _watch = self.sound()?;
        let object = self.object(id)?;
        {
            let change = self.begin_change(false)?;
            let mut state = self.state(&object);
            let there = self.lower.look(&object.node)?.size_bytes;
            // T4.
            let is_logged = state.live.is_some() && !mutant::is(Mutant::CutBeforeLog);
            if size_bytes >= there || !is_logged {
                if size_bytes < there {
                    self.check_before_bytes_go(&state, None);
                }
                self.lower.truncate(&object.node, size_bytes)?;
                state.cut(size_bytes);
                if size_bytes < there {
                    self.number(change, Op::Shrink { id, size_bytes });
                }
                return Ok(());
            }
        }
        self.ask(Request::Shrink(id, size_bytes))
    }

    pub fn write(&self, id: ObjectId, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let _watch = self.sound()?;
        let object = self.object(id)?;
        let end = offset.checked_add(bytes.len() as u64).ok_or(io::ErrorKind::FileTooLarge)?;
        if bytes.is_empty() {
            return Ok(());
        }
        self.is_touched.store(true, Ordering::Release);
        let mut state = self.state(&object);
        state.write(offset..end);
        self.lower.write(&object.node, offset, bytes)
    }

    /// The last descriptor of a file is closed. If the file was emptied and written anew, the next
    /// record takes its bytes (as ext4's `auto_da_alloc` does).
    pub fn closed(&self, id: ObjectId) -> io::Result<()> {
        let object = self.object(id)?;
        let mut order = self.order();
        let mut state = self.state(&object);
        if std::mem::take(&mut state.was_emptied) && !state.is_clean() {
            order.joins.insert(id);
        }
        Ok(())
    }
}
