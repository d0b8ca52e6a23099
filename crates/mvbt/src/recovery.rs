//! What is done before a file is used: which anchor counts, and whether the last transaction is
//! whole (I14, I15).

use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;

use oneflush_blocklog::{AlignedBuffer, Storage, invariant};

use crate::anchor::{Anchor, FORMAT, MAGIC};
use crate::bytes::get_u32;
use crate::layout::{self, BLOCK_BYTES};
use crate::mutant::{self, Mutant};
use crate::page::overflow;
use crate::page::slot::{self, Slot};
use crate::ring::{CommitBlock, Expected};
use crate::store::Store;
use crate::work::{CATALOG, FREE_PAGES};
use crate::{Error, PageNo, Result, Version};

/// So many versions are reserved at once. A crash wastes them.
const RESERVED: u64 = 1 << 20;

/// The anchor that counts, and the commit blocks behind it.
pub struct Found {
    pub anchor: Anchor,
    pub blocks: Vec<CommitBlock>,
    /// The other one was written, and is not whole. It was the newer one, perhaps.
    pub is_alone: bool,
    /// The begin of the file: anchors, ring, and the first pages.
    begin: AlignedBuffer,
}

impl Found {
    /// The first pages of the file, which were read along.
    pub fn first_pages(&self) -> impl Iterator<Item = (PageNo, &[u8])> {
        let pages = self.begin.get(layout::HEAD_BYTES..).unwrap_or_default();
        (1..).map(PageNo).zip(pages.chunks_exact(self.anchor.page_bytes))
    }
}

/// What is no database is refused. To be asked before anything is made beside the file.
pub fn check_is_database(storage: &dyn Storage, path: &Path) -> Result<()> {
    let mut block = AlignedBuffer::zeroed(BLOCK_BYTES);
    match storage.read_at(&mut block, 0) {
        Ok(()) if block.starts_with(MAGIC) => Ok(()),
        // The first anchor may be the one that is damaged.
        _ => newest_anchor(storage, path).map(drop),
    }
}

/// The newer of the anchors that are whole.
pub fn newest_anchor(storage: &dyn Storage, path: &Path) -> Result<Found> {
    let mut is_alone = false;
    let mut found: Option<Anchor> = None;
    let mut begins = Vec::new();
    let begin = read_begin(storage, path)?;
    let head = &begin[..begin.len().min(layout::HEAD_BYTES)];
    for (place, block) in (0..2).zip(head.chunks_exact(BLOCK_BYTES)) {
        if block.starts_with(MAGIC) && get_u32(block, 16) > FORMAT {
            let (path, found) = (path.to_owned(), get_u32(block, 16));
            return Err(Error::NewerFormat { path, found, known: FORMAT });
        }
        let anchor = Anchor::decode(block).filter(|anchor| anchor.place() == place);
        is_alone |= anchor.is_none() && block.iter().any(|&byte| byte != 0);
        if anchor.as_ref().map(|anchor| anchor.sequence) > found.as_ref().map(|one| one.sequence) {
            found = anchor;
        }
        begins.push(block[..MAGIC.len()].to_vec());
    }
    let ring = head.chunks_exact(BLOCK_BYTES).skip(2);
    if let Some(anchor) = found {
        let blocks = ring.filter_map(|block| CommitBlock::decode(block, anchor.uuid)).collect();
        return Ok(Found { anchor, blocks, is_alone, begin });
    }
    Err(match begins.iter().any(|begin| begin == MAGIC) {
        true => Error::AnchorsDamaged {
            path: path.to_owned(),
            what: "both anchors are damaged".to_owned(),
        },
        false => Error::OtherFormat { path: path.to_owned(), begins: name_of(begins.first()) },
    })
}

/// Anchors, ring and the first pages, in one read. A shorter file has less.
fn read_begin(storage: &dyn Storage, path: &Path) -> Result<AlignedBuffer> {
    let failed = |source| Error::Io { path: path.to_owned(), doing: "read its anchors", source };
    let whole = layout::HEAD_BYTES + layout::FIRST_PAGES_BYTES;
    let there = storage.size_bytes().map_err(failed)? as usize;
    let length = there.min(whole) / BLOCK_BYTES * BLOCK_BYTES;
    let mut begin = AlignedBuffer::zeroed(length);
    storage.read_at(&mut begin, 0).map_err(failed)?;
    Ok(begin)
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
pub fn recover(store: &Store, found: &Found) -> Result<Recovered> {
    let before = &found.anchor;
    check_is_newest(store, found)?;
    let mut anchor = reopened(before);
    if !before.is_closed {
        let flushes = store.counters.flushes.load(Relaxed);
        // What a dead process wrote may be in the device's cache alone.
        if !mutant::is(Mutant::RecoveryUnflushed) {
            store.flush()?;
        }
        let complete = newest_complete(store, found, flushes)?;
        let mut voids = before.voids();
        if complete < before.reserved {
            voids.add(complete.next(), before.reserved);
        }
        if !mutant::is(Mutant::VoidsUnwritten) {
            anchor.voids = voids.intervals().to_vec();
        }
        let is_void = |&(first, last): &(Version, Version)| {
            first <= complete.next() && last == before.reserved
        };
        invariant!(
            "I15",
            "the anchor after a crash makes all void that is above the last whole version",
            anchor.settled == before.reserved
                && (complete >= before.reserved || anchor.voids.last().is_some_and(is_void)),
        );
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

/// I21: nothing in the file is of a version above H. Else a newer anchor was there, and is lost.
fn check_is_newest(store: &Store, found: &Found) -> Result<()> {
    let blocks = &found.blocks;
    let reserved = found.anchor.reserved;
    let lost = |what: String| {
        let path = store.path().to_owned();
        let what = format!("{what} is above all versions of its anchor, {reserved}");
        Err(Error::AnchorsDamaged { path, what })
    };
    if let Some(block) = blocks.iter().find(|block| block.version > reserved) {
        return lost(format!("version {} of a commit block", block.version));
    }
    if !found.is_alone {
        return Ok(());
    }
    let listed = blocks.iter().flat_map(|block| &block.pages).map(|&(no, _)| no);
    for no in [CATALOG, FREE_PAGES].into_iter().chain(listed) {
        let newest =
            versions_in(store, no)?.into_iter().flatten().map(|(version, _)| version).max();
        if let Some(version) = newest.filter(|version| *version > reserved) {
            return lost(format!("version {version} of page {no}"));
        }
    }
    Ok(())
}

/// M: the newest version with a commit block whose pages are all there. `flushes`: so many had been
/// done when the recovery began.
fn newest_complete(store: &Store, found: &Found, flushes: u64) -> Result<Version> {
    let anchor = &found.anchor;
    let mut blocks: Vec<&CommitBlock> = found.blocks.iter().collect();
    let voids = anchor.voids();
    blocks.retain(|block| block.version > anchor.settled && !voids.holds(block.version));
    blocks.sort_unstable_by_key(|block| block.version);
    let Some(newest) = blocks.pop() else { return Ok(anchor.settled) };
    let (counters, listed) = (&store.counters, newest.pages.len() as u64);
    let reads = counters.reads.load(Relaxed);
    if mutant::is(Mutant::BlockUnchecked) || is_complete(store, newest)? {
        invariant!(
            "I14",
            "who takes a transaction for whole has flushed the file, and read all that it lists",
            counters.flushes.load(Relaxed) > flushes
                && counters.reads.load(Relaxed) >= reads + listed,
        );
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
    let Some(found) = versions_in(store, no)? else { return Ok(false) };
    Ok(match expected {
        _ if found.iter().any(|&(one, _)| one > version) => true,
        Expected::Checksum(_) if mutant::is(Mutant::ChecksumsUnlisted) => {
            found.iter().any(|&(one, _)| one == version)
        }
        Expected::Checksum(checksum) => found.contains(&(version, checksum)),
        Expected::Without => found.iter().all(|&(one, _)| one != version),
    })
}

/// Versions and checksums of what is valid in a page. None: it was never written.
fn versions_in(store: &Store, no: PageNo) -> Result<Option<Vec<(Version, u32)>>> {
    let page = match store.read_raw(no) {
        Ok(page) => page,
        // A page behind the end: its write was lost, and the growth of the file.
        Err(Error::Damaged { .. }) => return Ok(None),
        Err(error) => return Err(error),
    };
    if slot::header(&page).0 != no {
        return Ok(None);
    }
    let slots = [0, 1].map(|index| Slot::read(&page, index, store.uuid));
    let mut found: Vec<(Version, u32)> =
        slots.into_iter().flatten().map(|slot| (slot.version, slot.checksum)).collect();
    if let Ok(page) = overflow::decode(&page, no, store.uuid) {
        found.push((page.version, page.checksum));
    }
    Ok(Some(found))
}
