//! A cut: what goes into a record (T2).

use std::collections::{BTreeMap, BTreeSet};

use crate::entry::{ObjectId, Op, Piece, Place, Seq};
use crate::lower::{Identity, Kind};

/// What goes into a record.
#[derive(Default)]
pub(super) struct Cut {
    /// Records are counted as they are taken.
    pub number: u64,
    pub ops: Vec<(Seq, Op)>,
    pub data: Vec<Data>,
    pub settled: Vec<(ObjectId, Seq)>,
    /// The last operation that the log has then, with isets `all`.
    pub end: Seq,
    /// It is written also if there is nothing in it.
    pub is_beat: bool,
    /// How those are introduced whom the epoch does not know. `None`: by their making.
    pub strangers: BTreeMap<ObjectId, Option<Introduction>>,
}

/// What is synced of a file.
pub(super) struct Data {
    pub seq: Seq,
    /// How often the file was changed until then.
    pub changes: u64,
    pub id: ObjectId,
    pub size_bytes: u64,
    pub pieces: Vec<Piece>,
}

pub(super) struct Introduction {
    pub identity: Identity,
    pub kind: Kind,
    pub at: Vec<Place>,
    pub others: u64,
}

impl Cut {
    pub fn is_empty(&self) -> bool {
        self.ops.is_empty() && self.data.is_empty() && self.settled.is_empty() && !self.is_beat
    }

    /// Whom it names.
    pub fn named(&self) -> BTreeSet<ObjectId> {
        let of_ops = self.ops.iter().flat_map(|(_, op)| op.named());
        let of_data = self.data.iter().map(|data| data.id);
        of_ops.chain(of_data).chain(self.settled.iter().map(|(id, _)| *id)).collect()
    }
}
