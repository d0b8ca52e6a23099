//! What is durable and what is in flight at each moment of a log, in one of two readings of what a
//! file system promises.
//!
//! | | *ordered*: ext4's `data=ordered` | *weak*: what POSIX promises |
//! |---|---|---|
//! | names after a crash | some first part of their changes | any of their changes |
//! | a name is durable by | a sync of a file that it commits with | a sync of its directory |
//! | space that a file gained | its data, or zeros | also garbage, or stale data of any file |
//!
//! - *Ordered*: one journal carries names and sizes in the order in which they changed. A sync of a
//!   file whose name or size changed commits the journal, with all changes of names so far.
//! - *Weak*: a sync of a file makes its data and size durable, and not its name.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::content::{Content, Image};
use crate::log::{Data, Ino, Op, parent};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reading {
    Ordered,
    Weak,
}

impl Reading {
    pub const ALL: [Reading; 2] = [Reading::Ordered, Reading::Weak];

    pub fn name(self) -> &'static str {
        match self {
            Reading::Ordered => "ext4 ordered",
            Reading::Weak => "weak POSIX",
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Change {
    Write { offset: u64, data: Data },
    Truncate { size: u64 },
}

#[derive(Clone, Debug)]
pub(crate) enum Naming {
    Create { name: String, ino: Ino },
    Unlink { name: String },
    Rename { from: String, to: String },
}

impl Naming {
    fn name(&self) -> &str {
        match self {
            Naming::Create { name, .. }
            | Naming::Unlink { name }
            | Naming::Rename { to: name, .. } => name,
        }
    }

    pub(crate) fn apply(&self, names: &mut BTreeMap<String, Ino>) {
        match self {
            Naming::Create { name, ino } => {
                names.insert(name.clone(), *ino);
            }
            Naming::Unlink { name } => {
                names.remove(name);
            }
            Naming::Rename { from, to } => {
                if let Some(ino) = names.remove(from) {
                    names.insert(to.clone(), ino);
                }
            }
        }
    }
}

/// Something that a crash may take away, and its place in the log.
#[derive(Clone, Debug)]
pub(crate) struct InFlight<T> {
    pub at: u32,
    pub what: T,
}

#[derive(Clone, Default)]
pub(crate) struct Node {
    pub durable: Content,
    pub changes: Vec<InFlight<Change>>,
    /// The size, as the process sees it.
    pub size: u64,
    /// Name or size changed since the last sync. So a sync has to commit the journal.
    journaled: bool,
}

impl Node {
    /// Makes durable what changed before this place in the log.
    fn sync(&mut self, before: u32) {
        let covered = self.changes.partition_point(|change| change.at < before);
        for change in self.changes.drain(..covered) {
            match change.what {
                Change::Write { offset, data } => self.durable.write(offset, &data.0),
                Change::Truncate { size } => self.durable.set_size(size),
            }
        }
        self.journaled &= !self.changes.is_empty();
    }

    /// Makes the last write before this place durable, and nothing else. False: the kernel flushes
    /// instead, because the file's size is still to be made durable. For simplicity also false
    /// where something else in flight lies below that write.
    fn force_last_write(&mut self, before: u32) -> bool {
        let Some(last) = self.changes.partition_point(|change| change.at < before).checked_sub(1)
        else {
            return false;
        };
        let Change::Write { offset, data } = self.changes[last].what.clone() else { return false };
        let end = offset + data.0.len() as u64;
        let lies_below = |change: &InFlight<Change>| match &change.what {
            Change::Write { offset: other, data } => {
                *other < end && offset < other + data.0.len() as u64
            }
            Change::Truncate { .. } => true,
        };
        if self.journaled || self.changes[..last].iter().any(lies_below) {
            return false;
        }
        self.durable.write(offset, &data.0);
        self.changes.remove(last);
        true
    }

    /// Each sector was written or was not, and nobody will write it again. The size is still the
    /// kernel's to keep.
    fn sync_failed(&mut self, seed: u64) {
        let mut rng = fastrand::Rng::with_seed(seed);
        let size = self.size;
        for InFlight { what, .. } in self.changes.drain(..) {
            match what {
                Change::Write { offset, data } => {
                    for (start, sector) in sectors(offset, &data.0, 512) {
                        if rng.bool() {
                            self.durable.write(start, sector);
                        }
                    }
                }
                Change::Truncate { size } => self.durable.set_size(size),
            }
        }
        self.durable.set_size(size);
    }
}

/// Splits a write at the borders of aligned units.
pub(crate) fn sectors(offset: u64, data: &[u8], unit: u64) -> impl Iterator<Item = (u64, &[u8])> {
    let mut at = 0;
    std::iter::from_fn(move || {
        if at == data.len() {
            return None;
        }
        let start = offset + at as u64;
        let len = ((unit - start % unit) as usize).min(data.len() - at);
        at += len;
        Some((start, &data[at - len..at]))
    })
}

/// A position in a log.
#[derive(Clone)]
pub struct Timeline {
    pub(crate) reading: Reading,
    pub(crate) names: BTreeMap<String, Ino>,
    pub(crate) namings: Vec<InFlight<Naming>>,
    pub(crate) nodes: BTreeMap<Ino, Node>,
    /// A sync has failed. What a WAL has may be written again after that, in case the medium lacks
    /// it.
    pub(crate) sync_has_failed: bool,
    at: u32,
}

impl Timeline {
    /// The position before the log of a disk that was made from `image`.
    pub fn new(image: &Image, reading: Reading) -> Timeline {
        let files = || (1..).zip(&image.files);
        let node = |content: &Content| Node {
            durable: content.clone(),
            size: content.size(),
            ..Node::default()
        };
        Timeline {
            reading,
            names: files().map(|(ino, (name, _))| (name.clone(), ino)).collect(),
            namings: Vec::new(),
            nodes: files().map(|(ino, (_, content))| (ino, node(content))).collect(),
            sync_has_failed: false,
            at: 0,
        }
    }

    /// Goes on by one operation.
    pub fn apply(&mut self, op: &Op) {
        let at = self.at;
        self.at += 1;
        match op {
            Op::Create { name, ino } => {
                self.nodes.insert(*ino, Node { journaled: true, ..Node::default() });
                self.namings
                    .push(InFlight { at, what: Naming::Create { name: name.clone(), ino: *ino } });
            }
            Op::Unlink { name } => {
                self.namings.push(InFlight { at, what: Naming::Unlink { name: name.clone() } })
            }
            Op::Rename { from, to } => {
                self.namings.push(InFlight {
                    at,
                    what: Naming::Rename { from: from.clone(), to: to.clone() },
                });
            }
            Op::Write { ino, offset, data } => {
                let node = self.nodes.entry(*ino).or_default();
                let end = offset + data.0.len() as u64;
                node.journaled |= end > node.size;
                node.size = node.size.max(end);
                let data = Data(Arc::clone(&data.0));
                node.changes.push(InFlight { at, what: Change::Write { offset: *offset, data } });
            }
            Op::Truncate { ino, size } => {
                let node = self.nodes.entry(*ino).or_default();
                node.journaled |= *size != node.size;
                node.size = *size;
                node.changes.push(InFlight { at, what: Change::Truncate { size: *size } });
            }
            Op::Sync { ino, covers, forced } => {
                let node = self.nodes.entry(*ino).or_default();
                let commits = node.journaled && self.reading == Reading::Ordered;
                let before = covers.unwrap_or(at);
                if !(*forced && node.force_last_write(before)) {
                    node.sync(before);
                }
                if commits {
                    self.names_are_durable(None);
                }
            }
            Op::Atomic { ino, writes } => {
                let node = self.nodes.entry(*ino).or_default();
                let commits = node.journaled && self.reading == Reading::Ordered;
                node.sync(at);
                for (offset, data) in writes {
                    node.durable.write(*offset, &data.0);
                }
                node.size = node.size.max(node.durable.size());
                if commits {
                    self.names_are_durable(None);
                }
            }
            Op::SyncFailed { ino, seed } => {
                self.sync_has_failed = true;
                self.nodes.entry(*ino).or_default().sync_failed(*seed);
            }
            Op::SyncDirFailed => self.sync_has_failed = true,
            Op::SyncDir { dir } => match self.reading {
                Reading::Ordered => self.names_are_durable(None),
                Reading::Weak => self.names_are_durable(Some(dir)),
            },
            Op::Mark(_) => {}
        }
    }

    fn names_are_durable(&mut self, dir: Option<&str>) {
        let mut later = Vec::new();
        for naming in self.namings.drain(..) {
            if dir.is_none_or(|dir| parent(naming.what.name()) == dir) {
                naming.what.apply(&mut self.names);
            } else {
                later.push(naming);
            }
        }
        self.namings = later;
        let reachable = |ino: &Ino| {
            let created = |naming: &InFlight<Naming>| match naming.what {
                Naming::Create { ino: new, .. } => new == *ino,
                _ => false,
            };
            self.names.values().any(|named| named == ino) || self.namings.iter().any(created)
        };
        let gone: Vec<Ino> = self.nodes.keys().filter(|ino| !reachable(ino)).copied().collect();
        for ino in gone {
            self.nodes.remove(&ino);
        }
    }

    /// How many operations a crash could take away now.
    pub fn in_flight(&self) -> usize {
        self.namings.len() + self.nodes.values().map(|node| node.changes.len()).sum::<usize>()
    }
}
