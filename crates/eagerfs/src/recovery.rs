//! Recovery of a lower from its log: read, fold, replay.

use std::io;

use oneflush_blocklog::{Epoch, Head, Log, Storage};

use crate::entry::{self, Entry, NoEntry, Seq};
use crate::fold::{FoldError, Wanted, fold};
use crate::lower::{Identity, Lower};
use crate::pack::Bases;
use crate::records;
use crate::replay::{self, Recovered};

#[derive(Debug, thiserror::Error)]
pub enum RecoveryError {
    #[error(transparent)]
    Log(#[from] oneflush_blocklog::Error),
    #[error(transparent)]
    Entry(#[from] NoEntry),
    #[error(transparent)]
    Fold(#[from] FoldError),
    #[error("the directory cannot be brought to what the log holds: {0}")]
    Lower(#[source] io::Error),
}

/// What the log holds. `None`: it has no record.
pub fn read<S: Storage>(log: &Log<S>) -> Result<Option<(Wanted, Head)>, RecoveryError> {
    let mut found: Vec<Entry> = Vec::new();
    let (mut bases, mut of) = (Bases::default(), Epoch(0));
    let head = log.scan_epochs(|epoch, kind, _, payload| {
        if std::mem::replace(&mut of, epoch) != epoch {
            bases = Bases::default();
        }
        if kind == records::KIND {
            for entry in entry::entries(payload) {
                let mut entry = entry?;
                if let Entry::Data { id, pieces, .. } = &mut entry {
                    pieces.iter_mut().try_for_each(|piece| bases.unpack(*id, piece))?;
                }
                found.push(entry);
            }
        }
        Ok::<(), RecoveryError>(())
    })?;
    let Some(head) = head else { return Ok(None) };
    Ok(Some((fold(found)?, head)))
}

/// Behind the last time in the log the tree goes on for some seconds, and then the power is lost.
const WITHOUT_WORD_NS: u64 = 20_000_000_000;

/// An object of the log that was changed when the mount cannot have changed it any more: a name of
/// it. A program has used the lower without the mount since the power was lost.
pub fn changed_without<L: Lower>(lower: &L, wanted: &Wanted) -> io::Result<Option<String>> {
    let last_ns = wanted.beat_ns.saturating_add(WITHOUT_WORD_NS);
    for (id, node) in replay::find(lower, wanted, None)? {
        let Some(object) = wanted.objects.get(&id) else { continue };
        // A file system may finish a cut when it is mounted.
        if object.contents.cut_to.is_some() {
            continue;
        }
        // It may also finish the change of a name, which sets no time of the contents (btrfs, Linux
        // 6.1 and 6.18).
        let changed = lower.changed(&node)?;
        let has_new_name = object.had != object.names;
        if changed.any_ns > last_ns && !(has_new_name && changed.contents_ns <= last_ns) {
            let name = object.names.first().map(|at| String::from_utf8_lossy(&at.name));
            return Ok(Some(name.map_or_else(String::new, |name| name.into_owned())));
        }
    }
    Ok(None)
}

/// Brings the lower to what [`read`] has found in the log, durably. The log may be retired then. It
/// may be done again, also after it was interrupted. `now_ns`: nanoseconds since 1970.
pub fn recover<L: Lower, S: Storage>(
    lower: &L,
    log: &Log<S>,
    (wanted, head): (Wanted, Head),
    now_ns: u64,
) -> Result<Recovered, RecoveryError> {
    let append = |head: &Head, entry: &Entry| {
        let mut payload = Vec::new();
        entry::put(&mut payload, entry);
        records::append(log, head, &payload)
    };
    // A recovery that is interrupted changes the lower later than the log's last word.
    let mut head = append(&head, &Entry::End { seq: Seq(0), at_ns: now_ns })?;
    let mut remade = |id, identity: &Identity| {
        let entry = Entry::Remade { id, identity: identity.clone() };
        head = append(&head, &entry).map_err(io::Error::other)?;
        Ok(())
    };
    replay::replay(lower, &wanted, log.uuid(), &mut remade).map_err(RecoveryError::Lower)
}
