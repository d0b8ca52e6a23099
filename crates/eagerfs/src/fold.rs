//! Folding: what the lower must have, from what the log holds. A pure function of the records.
//!
//! - **F1** Entries count in the order of their numbers ([`Seq`]), not of their records. At the
//!   same number an operation comes first, then what was synced behind it, then what is settled.
//! - **F2** Of an object's names the log knows those that it *wants* and those that it *had*. What
//!   it wants it had.
//! - **F3** Bytes of a file are those of the newest `Data` that has them. A `Shrink` takes those
//!   behind the new end. `Settled` takes all that stand before it.
//! - **F4** An object is *born* if the log has its making, and nothing that settles it. Its synced
//!   contents are whole in the log then: all bytes since its birth were logged by its first sync.

use std::collections::{BTreeMap, BTreeSet};

use rangemap::RangeMap;

use crate::entry::{Begin, Entry, ObjectId, Op, Piece, Place, ROOT, Seq};
use crate::lower::{Attribute, Identity, Kind, Made, Time};
use crate::mutant::{self, Mutant};

/// The attributes that the log knows of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    pub mode: Option<u32>,
    pub owner: Option<(u32, u32)>,
    pub accessed: Option<Time>,
    pub modified: Option<Time>,
    pub extended: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
}

impl Attributes {
    fn take(&mut self, attribute: Attribute) {
        match attribute {
            Attribute::Mode(mode) => self.mode = Some(mode),
            Attribute::Owner { uid, gid } => self.owner = Some((uid, gid)),
            Attribute::Accessed(time) => self.accessed = Some(time),
            Attribute::Modified(time) => self.modified = Some(time),
            Attribute::Extended { name, value } => drop(self.extended.insert(name, value)),
        }
    }

    /// In an order in which they can be set: an owner's change takes bits of the mode away, and
    /// every change but the last touches a time.
    pub fn all(&self) -> Vec<Attribute> {
        let mut all = Vec::new();
        all.extend(self.owner.map(|(uid, gid)| Attribute::Owner { uid, gid }));
        all.extend(
            self.extended.iter().map(|(name, value)| Attribute::Extended {
                name: name.clone(),
                value: value.clone(),
            }),
        );
        all.extend(self.mode.map(Attribute::Mode));
        all.extend(self.accessed.map(Attribute::Accessed));
        all.extend(self.modified.map(Attribute::Modified));
        all
    }
}

/// What the log knows of a file's bytes.
#[derive(Clone, Debug, Default)]
pub struct Contents {
    /// The least size that the file was cut to. Behind it the lower has nothing that counts.
    pub cut_to: Option<u64>,
    /// The size when it was synced last.
    pub size_bytes: Option<u64>,
    /// Which piece has which bytes.
    map: RangeMap<u64, usize>,
    pieces: Vec<Piece>,
}

impl Contents {
    fn sync(&mut self, size_bytes: u64, pieces: Vec<Piece>) {
        self.size_bytes = Some(size_bytes);
        for piece in pieces.into_iter().filter(|piece| !piece.bytes.is_empty()) {
            self.map.insert(piece.range(), self.pieces.len());
            self.pieces.push(piece);
        }
    }

    fn shrink(&mut self, size_bytes: u64) {
        self.map.remove(size_bytes..u64::MAX);
        self.cut_to = Some(self.cut_to.map_or(size_bytes, |cut| cut.min(size_bytes)));
        self.size_bytes = self.size_bytes.map(|size| size.min(size_bytes));
    }

    /// Offsets and bytes, in the order of the file. No two overlap.
    pub fn bytes(&self) -> impl Iterator<Item = (u64, &[u8])> {
        self.map.iter().filter_map(|(range, piece)| {
            let piece = self.pieces.get(*piece)?;
            let from = (range.start - piece.offset) as usize;
            let to = (range.end - piece.offset) as usize;
            Some((range.start, piece.bytes.get(from..to)?))
        })
    }
}

#[derive(Clone, Debug)]
pub struct Object {
    pub identity: Identity,
    pub kind: Kind,
    /// It is born (F4).
    pub made: Option<Made>,
    pub names: BTreeSet<Place>,
    /// Names that it wants, and names that it had before.
    pub had: BTreeSet<Place>,
    /// So many names it had that the log does not know.
    pub others: u64,
    pub attributes: Attributes,
    pub contents: Contents,
}

impl Object {
    fn new(
        identity: Identity,
        kind: Kind,
        at: impl IntoIterator<Item = Place>,
        others: u64,
    ) -> Object {
        let names: BTreeSet<Place> = at.into_iter().collect();
        Object {
            others,
            identity,
            kind,
            made: None,
            had: names.clone(),
            names,
            attributes: Attributes::default(),
            contents: Contents::default(),
        }
    }

    fn gain(&mut self, at: &Place) {
        self.names.insert(at.clone());
        self.had.insert(at.clone());
    }

    fn lose(&mut self, at: &Place) {
        self.names.remove(at);
        self.had.insert(at.clone());
    }
}

/// What the lower must have.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    pub begin: Option<Begin>,
    pub objects: BTreeMap<ObjectId, Object>,
    /// Every operation up to here is in the log, if it is not 0.
    pub end: Seq,
    /// The last time that the log names.
    pub beat_ns: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FoldError {
    #[error("the log changes an object that it does not introduce ({})", .0.0)]
    Stranger(ObjectId),
    #[error("bytes of a file reach beyond the largest size ({})", .0.0)]
    TooLong(ObjectId),
}

/// Folds entries, in the order of the log.
pub fn fold(entries: impl IntoIterator<Item = Entry>) -> Result<Wanted, FoldError> {
    let mut wanted = Wanted::default();
    let mut changes = Vec::new();
    let mut remade = Vec::new();
    for entry in entries {
        match entry {
            Entry::Begin(begin) => wanted.begin = Some(begin),
            Entry::End { seq, at_ns } => {
                wanted.end = wanted.end.max(seq);
                wanted.beat_ns = wanted.beat_ns.max(at_ns);
            }
            Entry::Remade { .. } if mutant::is(Mutant::IdentityNotRead) => {}
            Entry::Remade { id, identity } => remade.push((id, identity)),
            Entry::Known { id, identity, kind, at, others } => {
                let known = || Object::new(identity, kind, at, others);
                wanted.objects.entry(id).or_insert_with(known);
            }
            // It is there before the operations that name it, whatever their records are.
            Entry::Op { op: Op::Make { id, at, made, identity }, .. } => {
                let object = Object::new(identity, made.what.kind(), at, 0);
                wanted.objects.insert(id, Object { made: Some(made), ..object });
            }
            Entry::Op { seq, op } => changes.push((seq, Change::Op(op))),
            Entry::Data { seq, id, size_bytes, pieces } => {
                changes.push((seq, Change::Data(id, size_bytes, pieces)));
            }
            Entry::Settled { seq, id } => changes.push((seq, Change::Settled(id))),
        }
    }
    changes.sort_by_key(|(seq, change)| (*seq, change.rank()));
    for (_, change) in changes {
        wanted.apply(change)?;
    }
    for (id, identity) in remade {
        wanted.object(id)?.identity = identity;
    }
    Ok(wanted)
}

enum Change {
    Op(Op),
    Data(ObjectId, u64, Vec<Piece>),
    Settled(ObjectId),
}

impl Change {
    /// F1.
    fn rank(&self) -> u8 {
        match self {
            Change::Op(_) => 0,
            Change::Data(..) => 1,
            Change::Settled(_) => 2,
        }
    }
}

impl Wanted {
    fn object(&mut self, id: ObjectId) -> Result<&mut Object, FoldError> {
        self.objects.get_mut(&id).ok_or(FoldError::Stranger(id))
    }

    fn apply(&mut self, change: Change) -> Result<(), FoldError> {
        match change {
            Change::Op(op) => return self.apply_op(op),
            Change::Data(id, size_bytes, pieces) => {
                let fits = |piece: &Piece| {
                    piece.offset.checked_add(piece.bytes.len() as u64) <= Some(i64::MAX as u64)
                };
                if size_bytes > i64::MAX as u64 || !pieces.iter().all(fits) {
                    return Err(FoldError::TooLong(id));
                }
                self.object(id)?.contents.sync(size_bytes, pieces);
            }
            Change::Settled(id) => {
                let object = self.object(id)?;
                object.contents = Contents::default();
                object.made = None;
            }
        }
        Ok(())
    }

    fn apply_op(&mut self, op: Op) -> Result<(), FoldError> {
        // The root is in no record: it always has its name.
        if op.objects().any(|id| id == ROOT) && !matches!(op, Op::Set { .. }) {
            return Err(FoldError::Stranger(ROOT));
        }
        match op {
            Op::Make { .. } => {}
            Op::Link { id, at } => self.object(id)?.gain(&at),
            Op::Unlink { id, at } => self.object(id)?.lose(&at),
            Op::Rename { id, from, to, replaced } => {
                if let Some(replaced) = replaced {
                    self.object(replaced)?.lose(&to);
                }
                let object = self.object(id)?;
                object.lose(&from);
                object.gain(&to);
            }
            Op::Exchange { one, one_at, other, other_at } => {
                let object = self.object(one)?;
                object.lose(&one_at);
                object.gain(&other_at);
                let object = self.object(other)?;
                object.lose(&other_at);
                object.gain(&one_at);
            }
            Op::Set { id, attribute } => self.object(id)?.attributes.take(attribute),
            Op::Shrink { id, size_bytes } => self.object(id)?.contents.shrink(size_bytes),
        }
        Ok(())
    }
}

impl Piece {
    pub fn range(&self) -> std::ops::Range<u64> {
        self.offset..self.offset + self.bytes.len() as u64
    }
}
