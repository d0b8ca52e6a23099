//! What a loss of power leaves of the lower.
//!
//! | reading | names, attributes and sizes | a sync of an object makes durable |
//! |---|---|---|
//! | *prefix* (ext4, XFS) | the changes up to some moment | all changes so far |
//! | *any* | any changes that can be made alone | those of the object, and of what is above it |
//!
//! With *any*, too, the changes of one name keep their order, and those of an object's names. A
//! file system that does not keep it loses files that nothing has removed, and no log above it can
//! bring them back.
//!
//! In both, each page of a file has any of its versions since the last sync of the file. A file has
//! the size that its pages need.

use std::collections::{BTreeMap, BTreeSet};

use super::event::{Event, Key};
use super::image::{Change, Image, Ino, Name, ROOT_INO};

pub const PAGE_BYTES: u64 = 4096;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    Prefix,
    Any,
}

impl Order {
    pub const ALL: [Order; 2] = [Order::Prefix, Order::Any];

    pub fn name(self) -> &'static str {
        match self {
            Order::Prefix => "prefix",
            Order::Any => "any order",
        }
    }
}

/// What is in flight after some events.
pub struct Loss<'a> {
    before: &'a Image,
    events: Vec<&'a Event>,
    order: Order,
    /// Changes that a loss of power may take, as places in `events`.
    changes: Vec<usize>,
    /// The writes to each page, as places in `events`, and how many of them are durable.
    pages: BTreeMap<(Key, u64), (Vec<usize>, usize)>,
}

/// What survives: how many of the changes (prefix) or which (any), and of each page which version.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Survives {
    changes: Vec<bool>,
    versions: Vec<usize>,
}

fn pages_of(offset: u64, length: usize) -> impl Iterator<Item = u64> {
    let end = offset + length as u64;
    offset / PAGE_BYTES..end.div_ceil(PAGE_BYTES)
}

fn objects(change: &Change) -> impl Iterator<Item = Ino> {
    let two = match change {
        Change::Made { ino, .. }
        | Change::Linked { ino, .. }
        | Change::Unlinked { ino, .. }
        | Change::Set { ino, .. }
        | Change::Truncated { ino, .. } => [Some(*ino), None],
        Change::Marked(_) => [None, None],
        Change::Renamed { ino, replaced, .. } => [Some(*ino), *replaced],
        Change::Exchanged { one, other, .. } => [Some(*one), Some(*other)],
    };
    two.into_iter().flatten()
}

/// Names, and objects with their names, of changes that are lost: what comes after is lost, too.
#[derive(Default)]
struct Behind<'a> {
    names: BTreeSet<&'a Name>,
    objects: BTreeSet<Ino>,
}

impl<'a> Behind<'a> {
    fn has(&self, change: &Change) -> bool {
        let is_of_names = names(change).next().is_some();
        names(change).any(|name| self.names.contains(name))
            || is_of_names && objects(change).any(|ino| self.objects.contains(&ino))
    }

    fn add(&mut self, change: &'a Change) {
        if names(change).next().is_some() {
            self.names.extend(names(change));
            self.objects.extend(objects(change));
        }
    }
}

/// The names that a change gives or takes.
fn names(change: &Change) -> impl Iterator<Item = &Name> {
    let two = match change {
        Change::Made { at, .. } => [at.as_ref(), None],
        Change::Linked { at, .. } | Change::Unlinked { at, .. } => [Some(at), None],
        Change::Renamed { from, to, .. } => [Some(from), Some(to)],
        Change::Exchanged { one_at, other_at, .. } => [Some(one_at), Some(other_at)],
        Change::Set { .. } | Change::Truncated { .. } | Change::Marked(_) => [None, None],
    };
    two.into_iter().flatten()
}

impl<'a> Loss<'a> {
    pub fn new(before: &'a Image, events: Vec<&'a Event>, order: Order) -> Loss<'a> {
        let mut loss = Loss { before, events, order, changes: Vec::new(), pages: BTreeMap::new() };
        let mut now = before.clone();
        for place in 0..loss.events.len() {
            match loss.events[place] {
                Event::Changed(change) => {
                    loss.changes.push(place);
                    let _ = now.apply(change);
                    now.drop_nameless();
                }
                Event::Written { file, offset, bytes } => {
                    for page in pages_of(*offset, bytes.len()) {
                        loss.pages.entry((*file, page)).or_default().0.push(place);
                    }
                }
                Event::Synced(file) => loss.synced(*file, &now),
                Event::SyncedAll => {
                    loss.changes.clear();
                    loss.pages.values_mut().for_each(|(writes, durable)| *durable = writes.len());
                }
            }
        }
        loss
    }

    fn synced(&mut self, file: Key, now: &Image) {
        for ((of, _), (writes, durable)) in &mut self.pages {
            if *of == file {
                *durable = writes.len();
            }
        }
        if self.order == Order::Prefix {
            return self.changes.clear();
        }
        let mut covered = BTreeSet::from([file.0]);
        let mut above = file.0;
        while let Some(((dir, _), _)) = now.names.iter().find(|(_, ino)| **ino == above) {
            covered.insert(*dir);
            above = *dir;
        }
        covered.remove(&ROOT_INO);
        let events = &self.events;
        self.changes.retain(|place| match events[*place] {
            Event::Changed(change) => !objects(change).any(|ino| covered.contains(&ino)),
            _ => true,
        });
    }

    /// Everything survives, nothing does, and `more` that are drawn.
    pub fn survivors(&self, more: usize, rng: &mut fastrand::Rng) -> Vec<Survives> {
        let all = Survives {
            changes: vec![true; self.changes.len()],
            versions: self.pages.values().map(|(writes, _)| writes.len()).collect(),
        };
        let none = Survives {
            changes: vec![false; self.changes.len()],
            versions: self.pages.values().map(|(_, durable)| *durable).collect(),
        };
        let mut found = vec![none];
        if found[0] != all {
            found.push(all);
            for _ in 0..more {
                let drawn = self.draw(rng);
                if !found.contains(&drawn) {
                    found.push(drawn);
                }
            }
        }
        found
    }

    fn draw(&self, rng: &mut fastrand::Rng) -> Survives {
        let count = self.changes.len();
        let changes = match self.order {
            Order::Prefix => {
                let kept = rng.usize(..=count);
                (0..count).map(|place| place < kept).collect()
            }
            Order::Any => (0..count).map(|_| rng.bool()).collect(),
        };
        // Often none or all of the data is there.
        let how = rng.u8(..4);
        let versions = self.pages.values().map(|(writes, durable)| match how {
            0 => *durable,
            1 => writes.len(),
            _ => rng.usize(*durable..=writes.len()),
        });
        Survives { changes, versions: versions.collect() }
    }

    pub fn image(&self, survives: &Survives) -> Image {
        let lost: BTreeSet<usize> = self
            .changes
            .iter()
            .zip(&survives.changes)
            .filter_map(|(place, kept)| (!kept).then_some(*place))
            .collect();
        let mut behind = Behind::default();
        let mut pages: BTreeMap<(Key, u64), &[usize]> = BTreeMap::new();
        for ((page, (writes, _)), version) in self.pages.iter().zip(&survives.versions) {
            pages.insert(*page, &writes[..*version]);
        }
        let mut image = self.before.clone();
        for (place, event) in self.events.iter().enumerate() {
            match event {
                // What needs a change that is lost is lost, too.
                Event::Changed(change) => {
                    let is_lost = lost.contains(&place) || behind.has(change);
                    if is_lost || image.apply(change).is_err() {
                        behind.add(change);
                    }
                    image.drop_nameless();
                }
                Event::Written { file, offset, bytes } => {
                    let Some(node) = image.nodes.get_mut(&file.0) else { continue };
                    if node.generation != file.1 {
                        continue;
                    }
                    for page in pages_of(*offset, bytes.len()) {
                        let is_there =
                            pages.get(&(*file, page)).is_some_and(|writes| writes.contains(&place));
                        if is_there {
                            let from = (page * PAGE_BYTES).max(*offset);
                            let to = ((page + 1) * PAGE_BYTES).min(offset + bytes.len() as u64);
                            let part = (from - offset) as usize..(to - offset) as usize;
                            node.write(from, &bytes[part]);
                        }
                    }
                }
                _ => {}
            }
        }
        image.drop_nameless();
        image
    }
}
