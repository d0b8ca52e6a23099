//! What is done before a file is used: which anchor counts, and whether the last transaction is
//! whole (I14, I15).

use std::path::Path;

use oneflush_blocklog::Storage;

use crate::anchor::{Anchor, FORMAT, MAGIC};
use crate::bytes::get_u32;
use crate::layout::{self, BLOCK_BYTES, RING_BLOCKS};
use crate::mutant::{self, Mutant};
use crate::page::overflow;
use crate::page::slot::{self, Slot};
use crate::ring::{CommitBlock, Expected};
use crate::store::Store;
use crate::{Error, PageNo, Result, Version};

/// So many versions are reserved at once. A crash wastes them.
const RESERVED: u64 = 1 << 20;

/// The newer of the anchors that are whole.
pub fn newest_anchor(storage: &dyn Storage, path: &Path) -> Result<Anchor> {
    let mut found: Option<Anchor> = None;
    let mut begins = Vec::new();
    for place in 0..2 {
        let mut block = oneflush_blocklog::AlignedBuffer::zeroed(BLOCK_BYTES);
        match storage.read_at(&mut block, layout::anchor_at(place)) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => break,
            Err(source) => {
                return Err(Error::Io { path: path.to_owned(), doing: "read an anchor", source });
            }
        }
        if block.starts_with(MAGIC) && get_u32(&block, 16) > FORMAT {
            let (path, found) = (path.to_owned(), get_u32(&block, 16));
            return Err(Error::NewerFormat { path, found, known: FORMAT });
        }
        let anchor = Anchor::decode(&block).filter(|anchor| anchor.place() == place);
        if anchor.as_ref().map(|anchor| anchor.sequence) > found.as_ref().map(|one| one.sequence) {
            found = anchor;
        }
        begins.push(block[..MAGIC.len()].to_vec());
    }
    found.ok_or_else(|| match begins.iter().any(|begin| begin == MAGIC) {
        true => Error::AnchorsDamaged { path: path.to_owned() },
        false => Error::OtherFormat { path: path.to_owned(), begins: name_of(begins.first()) },
    })
}

/// What a file is that is none of ours.
fn name_of(begin: Option<&Vec<u8>>) -> String {
    match begin.map(Vec::as_slice) {
        None | Some([]) => "nothing: it is shorter than an anchor".to_owned(),
        Some(bytes) if bytes.starts_with(b"SQLite format 3") => {
            "\"SQLite format 3\": it is a database of SQLite".to_owned()
        }
        Some(bytes) if bytes.iter().all(|&byte| byte == 0) => "zeros".to_owned(),
        Some(bytes) => format!("{:?}", String::from_utf8_lossy(bytes)),
    }
}

/// Which state the file shows, and the anchor that says so from now on. Nothing is written yet.
pub struct Recovered {
    /// The anchor to write before anything else.
    pub anchor: Anchor,
    /// The newest version that a reader may ask for.
    pub current: Version,
}

/// Judges the last transaction of several pages.
pub fn recover(store: &Store, before: &Anchor) -> Result<Recovered> {
    let mut anchor = reopened(before);
    if !before.is_closed {
        // What a dead process wrote may be in the device's cache alone.
        if !mutant::is(Mutant::RecoveryUnflushed) {
            store.flush()?;
        }
        let complete = newest_complete(store, before)?;
        let mut voids = before.voids();
        if complete < before.reserved {
            voids.add(complete.next(), before.reserved);
        }
        if !mutant::is(Mutant::VoidsUnwritten) {
            anchor.voids = voids.intervals().to_vec();
        }
        if mutant::is(Mutant::VersionsReused) {
            return Ok(Recovered { anchor, current: complete });
        }
    }
    Ok(Recovered { anchor, current: before.reserved })
}

/// The anchor of the next opening.
pub fn reopened(before: &Anchor) -> Anchor {
    Anchor {
        sequence: before.sequence + 1,
        opening: before.opening + 1,
        reserved: reserved_above(before.reserved),
        settled: before.reserved,
        is_closed: false,
        pool: Vec::new(),
        kept: Vec::new(),
        ..before.clone()
    }
}

/// No version is [`Version::MAX`], which says that a cell lives.
pub fn reserved_above(reserved: Version) -> Version {
    if mutant::is(Mutant::ReservedNotRaised) {
        return reserved;
    }
    Version((reserved.0 + RESERVED).min(Version::MAX.0 - 1)).max(reserved)
}

/// M: the newest version with a commit block whose pages are all there.
fn newest_complete(store: &Store, anchor: &Anchor) -> Result<Version> {
    let voids = anchor.voids();
    let mut blocks: Vec<CommitBlock> = Vec::new();
    for place in 0..RING_BLOCKS {
        if let Some(block) = store.read_commit_block(place)? {
            let counts = block.version > anchor.settled
                && block.version <= anchor.reserved
                && !voids.holds(block.version);
            if counts {
                blocks.push(block);
            }
        }
    }
    blocks.sort_unstable_by_key(|block| block.version);
    let Some(newest) = blocks.pop() else { return Ok(anchor.settled) };
    if mutant::is(Mutant::BlockUnchecked) || is_complete(store, &newest)? {
        return Ok(newest.version);
    }
    // The one before was flushed before the newest was begun.
    Ok(blocks.pop().map_or(anchor.settled, |block| block.version))
}

fn is_complete(store: &Store, block: &CommitBlock) -> Result<bool> {
    for &(no, expected) in &block.pages {
        if !is_there(store, block.version, no, expected)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// True if the page is as the transaction left it, or was written by a later one.
fn is_there(store: &Store, version: Version, no: PageNo, expected: Expected) -> Result<bool> {
    let page = match store.read_raw(no) {
        Ok(page) => page,
        // A page behind the end: its write was lost, and the growth of the file.
        Err(Error::Damaged { .. }) => return Ok(false),
        Err(error) => return Err(error),
    };
    if slot::header(&page).0 != no {
        return Ok(false);
    }
    let slots = [0, 1].map(|index| Slot::read(&page, index, store.uuid));
    let mut found: Vec<(Version, u32)> =
        slots.into_iter().flatten().map(|slot| (slot.version, slot.checksum)).collect();
    if let Ok(page) = overflow::decode(&page, no, store.uuid) {
        found.push((page.version, page.checksum));
    }
    Ok(match expected {
        _ if found.iter().any(|&(one, _)| one > version) => true,
        Expected::Checksum(_) if mutant::is(Mutant::ChecksumsUnlisted) => {
            found.iter().any(|&(one, _)| one == version)
        }
        Expected::Checksum(checksum) => found.contains(&(version, checksum)),
        Expected::Without => found.iter().all(|&(one, _)| one != version),
    })
}
