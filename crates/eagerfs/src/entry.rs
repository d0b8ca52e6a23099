//! What a record holds: entries, one behind the other.
//!
//! An entry is in postcard's wire format, version 1: numbers are varints, an enum is its number and
//! its fields. A record's payload is a row of entries up to its end.
//!
//! | entry | says |
//! |---|---|
//! | `Begin` | an epoch begins; which directory, mount and boot it is of |
//! | `Known` | how an object is recognised, before anything else names it in an epoch |
//! | `Op` | one operation on names or attributes |
//! | `Data` | what was synced of a file: its size, and bytes |
//! | `Settled` | the lower has the file durably: what was logged of its contents is void |
//! | `Remade` | recovery has made a lost object anew: it has this identity now |
//! | `End` | the record's end: every operation up to here is in the log; and the time |
//!
//! Each entry but `Known` and `Begin` has the number of the operation that it stands behind
//! ([`Seq`]). Records may have operations that are older than those of the record before (isets
//! `closure` and `merge`). Folding sorts them.

use serde::{Deserialize, Serialize};

use crate::lower::{Attribute, Identity, Kind, Made};
pub use crate::numbers::{ObjectId, ROOT, Seq};

/// A name in a directory.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Place {
    pub dir: ObjectId,
    #[serde(with = "serde_bytes")]
    pub name: Vec<u8>,
}

impl Place {
    pub fn new(dir: ObjectId, name: &[u8]) -> Place {
        Place { dir, name: name.to_vec() }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Op {
    /// `at`: `None` for a file without a name.
    Make {
        id: ObjectId,
        at: Option<Place>,
        made: Made,
        identity: Identity,
    },
    Link {
        id: ObjectId,
        at: Place,
    },
    Unlink {
        id: ObjectId,
        at: Place,
    },
    /// `replaced`: what had the new name.
    Rename {
        id: ObjectId,
        from: Place,
        to: Place,
        replaced: Option<ObjectId>,
    },
    Exchange {
        one: ObjectId,
        one_at: Place,
        other: ObjectId,
        other_at: Place,
    },
    Set {
        id: ObjectId,
        attribute: Attribute,
    },
    /// The file is cut to this size. What was behind is gone, also if it grows again.
    Shrink {
        id: ObjectId,
        size_bytes: u64,
    },
}

impl Op {
    /// The objects that it changes, or whose names it changes.
    pub fn objects(&self) -> impl Iterator<Item = ObjectId> {
        let two = match self {
            Op::Make { id, .. }
            | Op::Link { id, .. }
            | Op::Unlink { id, .. }
            | Op::Set { id, .. }
            | Op::Shrink { id, .. } => [Some(*id), None],
            Op::Rename { id, replaced, .. } => [Some(*id), *replaced],
            Op::Exchange { one, other, .. } => [Some(*one), Some(*other)],
        };
        two.into_iter().flatten()
    }

    /// The names that it gives or takes.
    pub fn places(&self) -> impl Iterator<Item = &Place> {
        let two = match self {
            Op::Make { at, .. } => [at.as_ref(), None],
            Op::Link { at, .. } | Op::Unlink { at, .. } => [Some(at), None],
            Op::Rename { from, to, .. } => [Some(from), Some(to)],
            Op::Exchange { one_at, other_at, .. } => [Some(one_at), Some(other_at)],
            Op::Set { .. } | Op::Shrink { .. } => [None, None],
        };
        two.into_iter().flatten()
    }

    /// The objects that it changes, and the directories of its names.
    pub(crate) fn named(&self) -> impl Iterator<Item = ObjectId> {
        self.objects().chain(self.places().map(|at| at.dir))
    }
}

/// How the bytes of a piece are packed (`pack.rs`). `length`: of the bytes that they stand for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Form {
    Plain,
    /// A delta against zeros.
    Zeros {
        length: u32,
    },
    /// A delta against what the epoch has there.
    Before {
        length: u32,
    },
}

/// Bytes of a file. In a record they do not cross a border of 4 KiB.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Piece {
    pub offset: u64,
    pub form: Form,
    #[serde(with = "serde_bytes")]
    pub bytes: Vec<u8>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Begin {
    pub root: Identity,
    /// What the kernel calls this boot.
    #[serde(with = "serde_bytes")]
    pub boot: Vec<u8>,
    /// The mount that the directory was on, as the kernel numbers mounts.
    pub mount: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Entry {
    Begin(Begin),
    /// `at`: the names that it has now, as far as they were seen. `others`: so many more it has.
    Known {
        id: ObjectId,
        identity: Identity,
        kind: Kind,
        at: Vec<Place>,
        others: u64,
    },
    Op {
        seq: Seq,
        op: Op,
    },
    Data {
        seq: Seq,
        id: ObjectId,
        size_bytes: u64,
        pieces: Vec<Piece>,
    },
    Settled {
        seq: Seq,
        id: ObjectId,
    },
    Remade {
        id: ObjectId,
        identity: Identity,
    },
    /// `seq`: with isets `all`, the last operation that the log has. Otherwise 0. `at_ns`:
    /// nanoseconds since 1970.
    End {
        seq: Seq,
        at_ns: u64,
    },
}

/// A payload has an entry that is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a record of the log has an entry that cannot be read")]
pub struct NoEntry;

/// Appends an entry to a payload.
pub fn put(payload: &mut Vec<u8>, entry: &Entry) {
    let taken = std::mem::take(payload);
    *payload = postcard::to_extend(entry, taken).expect("a vector takes every entry");
}

/// The entries of a payload, in order.
pub fn entries(payload: &[u8]) -> impl Iterator<Item = Result<Entry, NoEntry>> {
    let mut rest = payload;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        match postcard::take_from_bytes(rest) {
            Ok((entry, behind)) => {
                rest = behind;
                Some(Ok(entry))
            }
            Err(_) => {
                rest = &[];
                Some(Err(NoEntry))
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lower::What;

    fn one_of_each() -> Vec<Entry> {
        let identity = Identity { inode: 1 << 40, proof: vec![1, 2, 3] };
        let at = Place::new(ObjectId(300), b"a name");
        let made = Made {
            what: What::Symlink { target: b"../x".to_vec() },
            mode: 0o4755,
            uid: 7,
            gid: u32::MAX,
        };
        let op = |op| Entry::Op { seq: Seq(9), op };
        let id = ObjectId(5);
        let value = Attribute::Extended { name: b"user.a".to_vec(), value: None };
        vec![
            Entry::Begin(Begin { root: identity.clone(), boot: b"b".to_vec(), mount: 3 }),
            Entry::Known {
                id,
                identity: identity.clone(),
                kind: Kind::File,
                at: vec![at.clone()],
                others: 2,
            },
            op(Op::Make { id, at: None, made, identity: identity.clone() }),
            op(Op::Link { id, at: at.clone() }),
            op(Op::Unlink { id, at: at.clone() }),
            op(Op::Rename { id, from: at.clone(), to: at.clone(), replaced: Some(ROOT) }),
            op(Op::Exchange { one: id, one_at: at.clone(), other: ROOT, other_at: at }),
            op(Op::Set { id, attribute: value }),
            op(Op::Shrink { id, size_bytes: 1 << 50 }),
            Entry::Data {
                seq: Seq(10),
                id,
                size_bytes: 4097,
                pieces: vec![Piece {
                    offset: 4096,
                    form: Form::Before { length: 1 },
                    bytes: vec![0],
                }],
            },
            Entry::Settled { seq: Seq(11), id },
            Entry::Remade { id, identity },
            Entry::End { seq: Seq(12), at_ns: u64::MAX },
        ]
    }

    #[test]
    fn entries_are_read_as_they_were_written() {
        let mut payload = Vec::new();
        one_of_each().iter().for_each(|entry| put(&mut payload, entry));
        let read: Vec<Entry> = entries(&payload).map(Result::unwrap).collect();
        assert_eq!(read, one_of_each());
        assert!(payload.len() < 400, "{} bytes for 13 entries", payload.len());
    }

    /// The checksum of a record says that nothing is changed. Whatever passes it is still no reason
    /// for a panic or for gigabytes.
    #[test]
    fn bytes_that_were_changed_or_cut_off_are_entries_or_none_and_no_panic() {
        let mut payload = Vec::new();
        one_of_each().iter().for_each(|entry| put(&mut payload, entry));
        for length in 0..payload.len() {
            let whole = entries(&payload[..length]).take_while(Result::is_ok).count();
            assert!(whole < one_of_each().len());
        }
        for at in 0..payload.len() {
            for flipped in 1..=u8::MAX {
                let mut changed = payload.clone();
                changed[at] ^= flipped;
                let read = entries(&changed).map_while(Result::ok);
                let _ = crate::fold::fold(read);
            }
        }
    }
}
