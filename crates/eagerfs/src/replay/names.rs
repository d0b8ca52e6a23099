//! Names: which are taken, given or left.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use super::find::at_place;
use super::{Remade, Replay};
use crate::entry::{ObjectId, Place, ROOT};
use crate::fold::Object;
use crate::lower::{Kind, Lower};
use crate::mutant::{self, Mutant};

/// Where an object is, of the names that the log knows.
#[derive(Clone, Debug, Default)]
struct Present {
    at: BTreeSet<Place>,
    is_in_place: bool,
    /// Names that the log does not know.
    others: u64,
}

impl Present {
    /// R4.
    fn is_later(&self, object: &Object) -> bool {
        let is_stale = self.is_in_place || self.at.iter().any(|at| !object.names.contains(at));
        self.others > object.others && !is_stale
    }
}

/// The name of an object in the place for recovery: its number.
fn name_in_place(id: ObjectId) -> Vec<u8> {
    id.0.to_string().into_bytes()
}

/// Who holds a name.
enum Holder {
    Nobody,
    Object(ObjectId),
    Stranger,
    /// Its directory is nowhere.
    NoDirectory,
}

impl<L: Lower> Replay<'_, L> {
    pub(super) fn give_names(&mut self, remade: &mut Remade<'_>) -> io::Result<()> {
        let wanted = self.wanted;
        let in_place = self.lower.names(&self.place)?.into_iter().collect();
        let mut present = BTreeMap::new();
        for (&id, object) in &wanted.objects {
            if id != ROOT && self.nodes.contains_key(&id) {
                let found = self.present(id, object, &in_place)?;
                if found.is_later(object) {
                    self.done.later += 1;
                } else {
                    present.insert(id, found);
                }
            }
        }
        self.leave_what_has_no_place(&mut present)?;
        self.take_names(&present)?;
        self.remove_directories(&present)?;
        self.give(&present, remade)
    }

    /// An object that could get none of its names stays where it is. So does one that has the name
    /// of an object that was removed: it has replaced that.
    fn leave_what_has_no_place(
        &mut self,
        present: &mut BTreeMap<ObjectId, Present>,
    ) -> io::Result<()> {
        let wanted = self.wanted;
        // Names of what was removed later than the log says.
        let removed: BTreeSet<&Place> = wanted
            .objects
            .iter()
            .filter(|(id, object)| object.made.is_none() && !self.nodes.contains_key(id))
            .flat_map(|(_, object)| &object.names)
            .collect();
        let mut left = Vec::new();
        for (&id, found) in &*present {
            let object = &wanted.objects[&id];
            if found.at.iter().any(|at| removed.contains(at)) {
                left.push(id);
                continue;
            }
            let mut has_place = object.names.is_empty();
            for at in &object.names {
                has_place |= match self.holder(at)? {
                    Holder::Nobody => true,
                    // It gives the name up, unless it is later itself.
                    Holder::Object(holder) => holder == id || present.contains_key(&holder),
                    Holder::Stranger => false,
                    Holder::NoDirectory => {
                        let dir = wanted.objects.get(&at.dir);
                        dir.is_some_and(|dir| dir.made.is_some() && !dir.names.is_empty())
                    }
                };
            }
            if !has_place {
                left.push(id);
            }
        }
        self.done.later += left.len() as u64;
        present.retain(|id, _| !left.contains(id));
        Ok(())
    }

    /// `in_place`: the names in the place for recovery.
    fn present(
        &self,
        id: ObjectId,
        object: &Object,
        in_place: &BTreeSet<Vec<u8>>,
    ) -> io::Result<Present> {
        let mut found = Present::default();
        for at in &object.had {
            if let Some(node) = at_place(self.lower, &self.nodes, at)?
                && self.lower.identity(&node)? == object.identity
            {
                found.at.insert(at.clone());
            }
        }
        let name = name_in_place(id);
        if in_place.contains(&name) {
            let node = self.lower.lookup(&self.place, &name)?;
            found.is_in_place = self.lower.identity(&node)? == object.identity;
        }
        let known = found.at.len() as u64 + u64::from(found.is_in_place);
        found.others = self.lower.look(&self.nodes[&id])?.names.saturating_sub(known);
        Ok(found)
    }

    /// R3: takes the names that objects have and do not want.
    fn take_names(&mut self, present: &BTreeMap<ObjectId, Present>) -> io::Result<()> {
        let wanted = self.wanted;
        for (&id, found) in present {
            let object = &wanted.objects[&id];
            let stale = found.at.iter().filter(|at| !object.names.contains(at));
            let mut has_another =
                found.is_in_place || found.at.iter().any(|at| object.names.contains(at));
            for at in stale {
                let dir = self.nodes[&at.dir].clone();
                if object.names.is_empty() && object.kind == Kind::Directory {
                    // It is removed when what it has was taken out of it.
                } else if object.names.is_empty() || has_another {
                    self.lower.unlink(&dir, &at.name, object.kind)?;
                    self.done.names += 1;
                } else {
                    let name = name_in_place(id);
                    self.lower.rename((&dir, &at.name), (&self.place, &name))?;
                    self.done.names += 1;
                    has_another = true;
                }
            }
            if object.names.is_empty() && found.is_in_place {
                self.lower.unlink(&self.place, &name_in_place(id), object.kind)?;
            }
        }
        Ok(())
    }

    /// Gives the names that are wanted. Directories come before what is in them: an object waits
    /// until one of its directories is there.
    fn give(
        &mut self,
        present: &BTreeMap<ObjectId, Present>,
        remade: &mut Remade<'_>,
    ) -> io::Result<()> {
        let wanted = self.wanted;
        let mut waiting: BTreeSet<ObjectId> = wanted
            .objects
            .iter()
            .filter(|(id, object)| {
                !object.names.is_empty()
                    && (present.contains_key(id)
                        || object.made.is_some() && !self.nodes.contains_key(id))
            })
            .map(|(id, _)| *id)
            .collect();
        loop {
            let ready: Vec<ObjectId> = waiting
                .iter()
                .copied()
                .filter(|id| wanted.objects[id].names.iter().all(|at| !waiting.contains(&at.dir)))
                .collect();
            if ready.is_empty() {
                break;
            }
            for id in ready {
                self.give_to(id, &wanted.objects[&id], remade)?;
                waiting.remove(&id);
            }
        }
        // Directories in each other: no log of ours has them.
        self.done.kept += waiting.len() as u64;
        Ok(())
    }

    fn give_to(
        &mut self,
        id: ObjectId,
        object: &Object,
        remade: &mut Remade<'_>,
    ) -> io::Result<()> {
        let mut free = Vec::new();
        for at in &object.names {
            match self.holder(at)? {
                Holder::Nobody => free.push(at.clone()),
                Holder::Object(holder) if holder == id => {}
                Holder::Object(_) | Holder::Stranger | Holder::NoDirectory => self.done.later += 1,
            }
        }
        let name = name_in_place(id);
        if !self.nodes.contains_key(&id) {
            if free.is_empty() {
                return Ok(());
            }
            self.make(id, object, remade)?;
        }
        let node = self.nodes[&id].clone();
        let mut is_in_place = self.lower.lookup(&self.place, &name).is_ok();
        for at in free {
            let dir = self.nodes[&at.dir].clone();
            if std::mem::take(&mut is_in_place) {
                self.lower.rename((&self.place, &name), (&dir, &at.name))?;
            } else if object.kind != Kind::Directory {
                self.lower.link(&node, &dir, &at.name)?;
            }
            self.done.names += 1;
        }
        if is_in_place {
            self.keep(id, object, &name)?;
        }
        if mutant::is(Mutant::IdentityAfterName) && object.made.is_some() {
            remade(id, &self.lower.identity(&node)?)?;
        }
        Ok(())
    }

    /// R2.
    fn make(&mut self, id: ObjectId, object: &Object, remade: &mut Remade<'_>) -> io::Result<()> {
        let Some(made) = &object.made else { return Ok(()) };
        let name = name_in_place(id);
        let node = self.lower.make(Some((&self.place, &name)), made)?;
        self.write(&node, object, false)?;
        let identity = self.lower.identity(&node)?;
        if !mutant::is(Mutant::IdentityAfterName) {
            remade(id, &identity)?;
        }
        self.nodes.insert(id, node);
        self.known.insert(identity, id);
        self.done.remade += 1;
        Ok(())
    }

    /// An object in the place for recovery has none of its names. If it has others it needs no
    /// more.
    fn keep(&mut self, id: ObjectId, object: &Object, name: &[u8]) -> io::Result<()> {
        let names = self.lower.look(&self.nodes[&id])?.names;
        if names > 1 && object.kind != Kind::Directory {
            self.lower.unlink(&self.place, name, object.kind)
        } else {
            self.done.kept += 1;
            Ok(())
        }
    }

    fn holder(&self, at: &Place) -> io::Result<Holder> {
        if !self.nodes.contains_key(&at.dir) {
            return Ok(Holder::NoDirectory);
        }
        let Some(node) = at_place(self.lower, &self.nodes, at)? else { return Ok(Holder::Nobody) };
        let known = self.known.get(&self.lower.identity(&node)?);
        Ok(known.map_or(Holder::Stranger, |id| Holder::Object(*id)))
    }

    /// Removes the directories that the log wants no more. One that is not empty has what is later
    /// than the log.
    fn remove_directories(&mut self, present: &BTreeMap<ObjectId, Present>) -> io::Result<()> {
        let wanted = self.wanted;
        let mut removed: BTreeMap<ObjectId, Place> = present
            .iter()
            .filter(|(id, _)| {
                let object = &wanted.objects[id];
                object.names.is_empty() && object.kind == Kind::Directory
            })
            .filter_map(|(id, found)| Some((*id, found.at.first()?.clone())))
            .collect();
        loop {
            let before = removed.len();
            for (id, at) in removed.clone() {
                let is_empty = self.lower.names(&self.nodes[&id])?.is_empty();
                if is_empty {
                    let dir = self.nodes[&at.dir].clone();
                    self.lower.unlink(&dir, &at.name, Kind::Directory)?;
                    self.done.names += 1;
                    removed.remove(&id);
                }
            }
            if removed.len() == before {
                self.done.later += removed.len() as u64;
                return Ok(());
            }
        }
    }
}
