//! Operations: first the lower's, then a number.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use oneflush_blocklog::Storage;
use parking_lot::MutexGuard;

use super::group::Request;
use super::pending::Pending;
use super::{Object, Tree};
use crate::entry::{ObjectId, Op, Place};
use crate::lower::{Attribute, Kind, Lower, Made};
use crate::mark::mark_of;
use crate::mutant::{self, Mutant};

impl<L: Lower, S: Storage> Tree<L, S> {
    /// T9: before the first change behind a record the lower is marked with the record's number.
    fn begin_change(&self) -> io::Result<MutexGuard<'_, Pending>> {
        let mut order = self.begin_change_of_times();
        if order.marked < order.cut && self.lower.keeps_order() {
            self.lower.set_mark(Some(&mark_of(self.log.uuid(), order.cut)))?;
            order.marked = order.cut;
        }
        Ok(order)
    }

    /// A lower that is later by times alone needs no mark: recovery sets them back.
    fn begin_change_of_times(&self) -> MutexGuard<'_, Pending> {
        self.is_touched.store(true, Ordering::Release);
        self.order.lock()
    }

    /// The lower has done it.
    fn number(&self, order: &mut Pending, op: Op) {
        order.push(op);
        self.counts.operations.add(1);
    }

    /// `at`: `None` for a file without a name.
    pub fn make(
        &self,
        at: Option<(ObjectId, &[u8])>,
        made: &Made,
    ) -> io::Result<Arc<Object<L::Node>>> {
        self.sound()?;
        let dir = at.map(|(dir, _)| self.object(dir)).transpose()?;
        let there = dir.as_ref().zip(at).map(|(dir, (_, name))| (&dir.node, name));
        let at = at.map(|(dir, name)| Place::new(dir, name));
        let mut order = self.begin_change()?;
        let node = self.lower.make(there, made)?;
        let identity = self.lower.identity(&node)?;
        let object = {
            let mut objects = self.objects.write();
            objects.add(node, identity.clone(), made.what.kind(), at.clone())
        };
        object.state.lock().is_new = true;
        self.number(&mut order, Op::Make { id: object.id, at, made: made.clone(), identity });
        Ok(object)
    }

    pub fn link(&self, id: ObjectId, dir: ObjectId, name: &[u8]) -> io::Result<()> {
        self.sound()?;
        let (object, dir) = (self.object(id)?, self.object(dir)?);
        let mut order = self.begin_change()?;
        self.lower.link(&object.node, &dir.node, name)?;
        let at = Place::new(dir.id, name);
        let mut state = object.state.lock();
        state.at.insert(at.clone());
        if std::mem::take(&mut state.joins_when_named) {
            order.joins.insert(id);
        }
        self.number(&mut order, Op::Link { id, at });
        Ok(())
    }

    /// A directory must be empty.
    pub fn unlink(&self, dir: ObjectId, name: &[u8], is_directory: bool) -> io::Result<()> {
        self.sound()?;
        let parent = self.object(dir)?;
        let mut order = self.begin_change()?;
        let object = self.lookup(dir, name)?;
        match (object.kind == Kind::Directory, is_directory) {
            (true, false) => return Err(io::ErrorKind::IsADirectory.into()),
            (false, true) => return Err(io::ErrorKind::NotADirectory.into()),
            _ => {}
        }
        self.lower.unlink(&parent.node, name, object.kind)?;
        let at = Place::new(dir, name);
        object.state.lock().at.remove(&at);
        self.number(&mut order, Op::Unlink { id: object.id, at });
        Ok(())
    }

    pub fn rename(
        &self,
        from: (ObjectId, &[u8]),
        to: (ObjectId, &[u8]),
        may_replace: bool,
    ) -> io::Result<()> {
        self.sound()?;
        let (from_dir, to_dir) = (self.object(from.0)?, self.object(to.0)?);
        if may_replace {
            let moved = self.lookup(from.0, from.1)?;
            if moved.has_unsynced() && self.lookup(to.0, to.1).is_ok() {
                self.log_contents(&moved)?;
            }
        }
        let mut order = self.begin_change()?;
        let object = self.lookup(from.0, from.1)?;
        let replaced = match self.lookup(to.0, to.1) {
            Ok(replaced) => Some(replaced),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        if replaced.is_some() && !may_replace {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        self.lower.rename((&from_dir.node, from.1), (&to_dir.node, to.1))?;
        if replaced.as_ref().is_some_and(|replaced| replaced.id == object.id) {
            // Two names of one file: nothing happens (rename(2)).
            return Ok(());
        }
        let (from, to) = (Place::new(from.0, from.1), Place::new(to.0, to.1));
        if let Some(replaced) = &replaced {
            replaced.state.lock().at.remove(&to);
        }
        let mut state = object.state.lock();
        state.at.remove(&from);
        state.at.insert(to.clone());
        let replaced = replaced.map(|replaced| replaced.id);
        self.number(&mut order, Op::Rename { id: object.id, from, to, replaced });
        Ok(())
    }

    pub fn exchange(&self, one: (ObjectId, &[u8]), other: (ObjectId, &[u8])) -> io::Result<()> {
        self.sound()?;
        let (one_dir, other_dir) = (self.object(one.0)?, self.object(other.0)?);
        self.log_contents(&self.lookup(one.0, one.1)?)?;
        self.log_contents(&self.lookup(other.0, other.1)?)?;
        let mut order = self.begin_change()?;
        let (first, second) = (self.lookup(one.0, one.1)?, self.lookup(other.0, other.1)?);
        self.lower.exchange((&one_dir.node, one.1), (&other_dir.node, other.1))?;
        if first.id == second.id {
            return Ok(());
        }
        let (one_at, other_at) = (Place::new(one.0, one.1), Place::new(other.0, other.1));
        for (object, lost, gained) in [(&first, &one_at, &other_at), (&second, &other_at, &one_at)]
        {
            let mut state = object.state.lock();
            state.at.remove(lost);
            state.at.insert(gained.clone());
        }
        self.number(&mut order, Op::Exchange { one: first.id, one_at, other: second.id, other_at });
        Ok(())
    }

    /// T7: the bytes of a file are durable before it takes another's name.
    fn log_contents(&self, object: &Arc<Object<L::Node>>) -> io::Result<()> {
        if !object.has_unsynced() || mutant::is(Mutant::NameBeforeContents) {
            return Ok(());
        }
        self.sync(object.id)
    }

    pub fn set(&self, id: ObjectId, attribute: Attribute) -> io::Result<()> {
        self.sound()?;
        let object = self.object(id)?;
        let mut order = match attribute {
            Attribute::Accessed(_) | Attribute::Modified(_) => self.begin_change_of_times(),
            _ => self.begin_change()?,
        };
        self.lower.set(&object.node, &attribute)?;
        self.number(&mut order, Op::Set { id, attribute });
        Ok(())
    }

    /// Cuts a file, or makes it longer by zeros.
    pub fn truncate(&self, id: ObjectId, size_bytes: u64) -> io::Result<()> {
        self.sound()?;
        let object = self.object(id)?;
        {
            let mut order = self.begin_change()?;
            let mut state = object.state.lock();
            let there = self.lower.look(&object.node)?.size_bytes;
            // T4.
            let is_logged = state.live.is_some() && !mutant::is(Mutant::CutBeforeLog);
            if size_bytes >= there || !is_logged {
                self.lower.truncate(&object.node, size_bytes)?;
                state.cut(size_bytes);
                if size_bytes < there {
                    self.number(&mut order, Op::Shrink { id, size_bytes });
                }
                return Ok(());
            }
        }
        self.ask(Request::Shrink(id, size_bytes))
    }

    pub fn write(&self, id: ObjectId, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.sound()?;
        let object = self.object(id)?;
        let end = offset.checked_add(bytes.len() as u64).ok_or(io::ErrorKind::FileTooLarge)?;
        if bytes.is_empty() {
            return Ok(());
        }
        self.is_touched.store(true, Ordering::Release);
        let mut state = object.state.lock();
        state.write(offset..end);
        self.lower.write(&object.node, offset, bytes)
    }

    /// The last descriptor of a file is closed. If the file was emptied and written anew, the next
    /// record takes its bytes (as ext4's `auto_da_alloc` does).
    pub fn closed(&self, id: ObjectId) -> io::Result<()> {
        let object = self.object(id)?;
        let mut order = self.order.lock();
        let mut state = object.state.lock();
        if std::mem::take(&mut state.was_emptied) && !state.is_clean() {
            order.joins.insert(id);
        }
        Ok(())
    }
}
