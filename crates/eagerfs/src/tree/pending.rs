//! Operations that the lower has seen and no record has, and which of them a sync takes.
//!
//! | isets | a sync of a file takes |
//! |---|---|
//! | `all` | every pending operation |
//! | `closure` | those of the file, and those without which these could not be repeated |
//! | `merge` | those that share metadata with them, over any number of steps (section 4.2) |
//!
//! With `closure` and `merge` an operation on another file may stay out while later ones go in.
//! That is unsound with real programs: the removal of a journal that stays out lets the journal
//! come back, and SQLite then rolls back what was acknowledged. They are for comparison.

use std::collections::BTreeSet;

use rustc_hash::FxHashSet;

use crate::entry::{ObjectId, Op, ROOT, Seq};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Isets {
    #[default]
    All,
    Closure,
    Merge,
}

/// The pending operations, in the order in which the lower saw them.
#[derive(Debug, Default)]
pub struct Pending {
    pub ops: Vec<(Seq, Op)>,
    pub last: Seq,
    /// The last operation that a record has taken, written or not.
    pub cut: Seq,
    /// So many records were taken, written or not.
    pub taken: u64,
    /// The last one that the mark in the lower names.
    pub marked: Seq,
    /// Files whose bytes the next record takes, asked for or not.
    pub joins: BTreeSet<ObjectId>,
}

impl Pending {
    pub fn next(&mut self) -> Seq {
        self.last.0 += 1;
        self.last
    }

    /// Takes what belongs to a sync of these objects. `None`: everything.
    pub fn take(&mut self, isets: Isets, roots: Option<&[ObjectId]>) -> Vec<(Seq, Op)> {
        let Some(roots) = roots.filter(|_| isets != Isets::All) else {
            return std::mem::take(&mut self.ops);
        };
        let mut taken: FxHashSet<ObjectId> = roots.iter().copied().collect();
        let mut is_taken = vec![false; self.ops.len()];
        loop {
            let mut grows = false;
            for (index, (_, op)) in self.ops.iter().enumerate() {
                if !is_taken[index] && touches(op, isets, &taken) {
                    is_taken[index] = true;
                    grows = true;
                    taken.extend(op.objects());
                    taken.extend(op.places().map(|at| at.dir).filter(|dir| *dir != ROOT));
                    if isets == Isets::Merge {
                        taken.extend(op.places().map(|at| at.dir));
                    }
                }
            }
            if !grows {
                break;
            }
        }
        let mut index = 0;
        let mut out = Vec::new();
        self.ops.retain(|op| {
            let stays = !is_taken[index];
            index += 1;
            if !stays {
                out.push(op.clone());
            }
            stays
        });
        out
    }
}

/// A directory is metadata of all that is made, named or removed in it. With `closure` only its own
/// making and its own names count.
fn touches(op: &Op, isets: Isets, taken: &FxHashSet<ObjectId>) -> bool {
    op.objects().any(|id| taken.contains(&id))
        || isets == Isets::Merge && op.places().any(|at| taken.contains(&at.dir))
}
