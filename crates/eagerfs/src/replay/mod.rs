//! Recovery: bringing the lower to what the log wants.
//!
//! Power may be lost at any moment of it, and then it begins anew with the same log. So each step
//! leaves what the steps before need:
//!
//! - **R1** An object is found by its identity, whatever its name is (`find.rs`).
//! - **R2** An object that is born and nowhere is made anew in the place for recovery. The log says
//!   its new identity, durably, before it gets a name. If the object is lost it is made once more.
//! - **R3** An object that leaves a name which it has no more goes through the place for recovery,
//!   or is removed if the log wants no name for it. So names that are exchanged, and directories
//!   that change places with their parents, need no order.
//! - **R4** A name that a stranger to the log holds is left: whoever took it came later than the
//!   log. So is an object that has more names which the log does not know than it had, unless it
//!   has also one that it must not have any more. That one shows that the lower is not later.
//! - **R8** Where the lower keeps the order of changes, its mark tells whether it is later than the
//!   log: before the first change behind a record the tree leaves the record's number there. If the
//!   lower is later it has every operation of the log, and keeps its names and attributes. If not,
//!   it has nothing but times that the log has not, and R4 finds nothing to leave.
//! - **R5** What is based and nowhere was removed later than the log says, and stays removed. What
//!   has its name has replaced it, and is left there.
//! - **R6** Whatever is in the place for recovery and is no object of the log was not finished by
//!   an earlier recovery, and is removed.
//! - **R7** All of it is durable before the log is retired.

mod contents;
mod find;
mod names;

pub use find::find;

use std::collections::BTreeMap;
use std::io;

use oneflush_blocklog::Uuid;
use rustc_hash::FxHashMap;

use crate::entry::{ObjectId, Seq};
use crate::fold::Wanted;
use crate::lower::{Identity, Kind, Lower, Made, What};
use crate::mark;
use crate::mutant::{self, Mutant};

/// The place for recovery, in the directory that is mounted. Nobody sees it there while it is.
pub const PLACE: &[u8] = b".oneflush-recovery";

/// What recovery did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Objects that the log names.
    pub objects: u64,
    /// Objects that were nowhere and were made anew.
    pub remade: u64,
    /// Names given, taken or moved.
    pub names: u64,
    /// Bytes written to files.
    pub bytes: u64,
    /// Objects whose later names were left.
    pub later: u64,
    /// Objects that could get none of their names, and are in the place for recovery.
    pub kept: u64,
}

/// Makes it durable in the log that an object has a new identity.
pub type Remade<'a> = dyn FnMut(ObjectId, &Identity) -> io::Result<()> + 'a;

struct Replay<'a, L: Lower> {
    lower: &'a L,
    wanted: &'a Wanted,
    /// Where objects are. What is not here is nowhere.
    nodes: BTreeMap<ObjectId, L::Node>,
    /// Who the objects at these nodes are.
    known: FxHashMap<Identity, ObjectId>,
    place: L::Node,
    done: Recovered,
}

/// Brings the lower to what is wanted. `log`: whose marks count.
pub fn replay<L: Lower>(
    lower: &L,
    wanted: &Wanted,
    log: Uuid,
    remade: &mut Remade<'_>,
) -> io::Result<Recovered> {
    let place = place_of(lower)?;
    let nodes = find(lower, wanted, Some(&place))?;
    let done = Recovered { objects: wanted.objects.len() as u64, ..Recovered::default() };
    let of_log = nodes.keys().filter_map(|id| Some((wanted.objects.get(id)?, *id)));
    let known = of_log.map(|(object, id)| (object.identity.clone(), id)).collect();
    let mut replay = Replay { lower, wanted, nodes, known, place, done };
    replay.clear_place()?;
    let is_later = is_later(lower, wanted, log)?;
    replay.write_contents(is_later)?;
    if !is_later {
        replay.give_names(remade)?;
    }
    if replay.lower.names(&replay.place)?.is_empty() {
        lower.unlink(&lower.root(), PLACE, Kind::Directory)?;
    }
    if !mutant::is(Mutant::ReplayNotSynced) {
        lower.sync_all()?;
    }
    Ok(replay.done)
}

/// R8.
fn is_later<L: Lower>(lower: &L, wanted: &Wanted, log: Uuid) -> io::Result<bool> {
    if !lower.keeps_order() || wanted.end == Seq(0) {
        return Ok(false);
    }
    Ok(lower.mark()?.is_some_and(|mark| mark::reaches(&mark, log, wanted.end)))
}

fn place_of<L: Lower>(lower: &L) -> io::Result<L::Node> {
    let root = lower.root();
    match lower.lookup(&root, PLACE) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        found => return found,
    }
    let (uid, gid) = lower.own();
    let made = Made { what: What::Directory, mode: 0o700, uid, gid };
    lower.make(Some((&root, PLACE)), &made)
}

impl<L: Lower> Replay<'_, L> {
    /// R6.
    fn clear_place(&self) -> io::Result<()> {
        for name in self.lower.names(&self.place)? {
            let node = self.lower.lookup(&self.place, &name)?;
            if !self.known.contains_key(&self.lower.identity(&node)?) {
                let kind = self.lower.look(&node)?.kind;
                self.lower.unlink(&self.place, &name, kind)?;
            }
        }
        Ok(())
    }
}
