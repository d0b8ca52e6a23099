//! Rules that give each queued write its class. Pure: events in, counts out.
//!
//! The kernel marks a write of metadata (`M` in `rwbs`, REQ_META); what is not marked is file data.
//! - **Metadata** in the file system's journal area, or written by a jbd2 thread: `FsJournal`; at btrfs,
//!   which has no such area, all but what the background transaction thread writes. Else `Other`.
//! - **File data** belongs to the file that the same thread last said it is about to write. At btrfs,
//!   where another thread may queue the write, to the file that owns the logical address: every write
//!   goes to a newly reserved extent, announced by `btrfs_ordered_extent_add`.
//! - An inode that no path is known for is a file that was made and deleted during the slice: `Journal`.
//!
//! Writes, not only bytes, are counted: a queued write that was merged into one before it is not one
//! more, a split one is. A flush without data is a write of 0 bytes in the kernel's statistics; it is `Other`.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use super::btrfs::{self, Chunk};
use super::layout::Area;
use super::stat::SECTOR_BYTES;
use super::{Class, ClassCounts, ObserveError, layout};
use crate::place::{Device, FsKind};

/// Inode → whose it is.
pub(super) type Owners = HashMap<u64, Class>;

/// One trace event, reduced to what the rules need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Event {
    pub(super) time_ns: u64,
    pub(super) thread: u32,
    pub(super) what: What,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// This thread is about to write data of this file.
    File {
        inode: u64,
    },
    /// btrfs: this file's data goes to these logical addresses.
    Extent {
        inode: u64,
        logical: u64,
        length_bytes: u64,
    },
    Queued(Write),
    /// The write was made part of one queued before.
    Merged(Write),
    /// The device takes no write so long; one more is sent.
    Split(Write),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Write {
    /// First byte on the device, and how many.
    pub(super) start: u64,
    pub(super) length_bytes: u64,
    pub(super) metadata: bool,
    pub(super) by: Writer,
}

/// Threads of the kernel that are known by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Writer {
    Jbd2,
    BtrfsTransaction,
    Any,
}

impl Writer {
    pub(super) fn named(comm: &[u8]) -> Writer {
        if comm.starts_with(b"jbd2/") {
            Writer::Jbd2
        } else if comm.starts_with(b"btrfs-transacti") {
            Writer::BtrfsTransaction
        } else {
            Writer::Any
        }
    }
}

/// What the rules need to know of the file system.
#[derive(Debug)]
pub(super) struct Geometry {
    pub(super) fs: FsKind,
    pub(super) journal: Vec<Area>,
    /// btrfs only.
    pub(super) chunks: Vec<Chunk>,
}

impl Geometry {
    pub(super) fn of(device: &Device, mount_point: &Path) -> Result<Geometry, ObserveError> {
        let journal = layout::journal(&device.name, device.fs)?;
        let chunks = match device.fs {
            FsKind::Btrfs => btrfs::chunks(mount_point)
                .map_err(|reason| ObserveError::Read { path: mount_point.to_owned(), reason })?,
            FsKind::Ext4 | FsKind::Xfs => Vec::new(),
        };
        Ok(Geometry { fs: device.fs, journal, chunks })
    }

    fn metadata_class(&self, write: &Write) -> Class {
        let in_journal = self.journal.iter().any(|area| area.contains(write.start));
        match self.fs {
            _ if in_journal => Class::FsJournal,
            FsKind::Ext4 if self.journal.is_empty() && write.by == Writer::Jbd2 => Class::FsJournal,
            FsKind::Btrfs if write.by != Writer::BtrfsTransaction => Class::FsJournal,
            _ => Class::Other,
        }
    }
}

/// The split of a slice.
#[derive(Debug, Default)]
pub(super) struct Split {
    pub(super) by_class: BTreeMap<Class, ClassCounts>,
    pub(super) unattributed_bytes: u64,
}

/// Applies the rules to the events of a slice, in the order of time.
pub(super) fn split(events: &[Event], geometry: &Geometry, owners: &Owners) -> Split {
    let mut split =
        Split { by_class: Class::ALL.map(|class| (class, ClassCounts::default())).into(), ..Split::default() };
    let mut file_of_thread: HashMap<u32, u64> = HashMap::new();
    let mut extents = Extents::default();
    for event in events {
        match &event.what {
            What::File { inode } => {
                file_of_thread.insert(event.thread, *inode);
            }
            What::Extent { inode, logical, length_bytes } => {
                file_of_thread.insert(event.thread, *inode);
                extents.insert(*logical, *length_bytes, *inode);
            }
            What::Queued(write) | What::Merged(write) | What::Split(write) => {
                let class = if write.metadata {
                    Some(geometry.metadata_class(write))
                } else {
                    btrfs::logical(&geometry.chunks, write.start)
                        .and_then(|logical| extents.owner(logical))
                        .or_else(|| file_of_thread.get(&event.thread).copied())
                        .map(|inode| owners.get(&inode).copied().unwrap_or(Class::Journal))
                };
                // The kernel counts a flush without data as a write too; nobody's bytes are in it.
                let is_bare_flush = matches!(event.what, What::Queued(_)) && write.length_bytes == 0;
                let class_counted = if is_bare_flush { Class::Other } else { class.unwrap_or(Class::Other) };
                let counts = split.by_class.entry(class_counted).or_default();
                match &event.what {
                    What::Queued(write) => {
                        counts.bytes += write.length_bytes;
                        counts.writes += 1;
                        if class.is_none() {
                            split.unattributed_bytes += write.length_bytes;
                        }
                    }
                    What::Merged(_) => counts.writes = counts.writes.saturating_sub(1),
                    _ => counts.writes += 1,
                }
            }
        }
    }
    split
}

impl Split {
    /// Makes the classes sum to the totals: what is missing is `Other`; what is too much (a write that was
    /// queued in the slice and completed after it) is taken from `Other` first, then from the largest.
    pub(super) fn settle(&mut self, bytes: u64, writes: u64) {
        let missing = settle(&mut self.by_class, bytes, |counts| &mut counts.bytes);
        settle(&mut self.by_class, writes, |counts| &mut counts.writes);
        self.unattributed_bytes += missing;
    }
}

fn settle(
    by_class: &mut BTreeMap<Class, ClassCounts>,
    total: u64,
    field: impl Fn(&mut ClassCounts) -> &mut u64,
) -> u64 {
    let sum: u64 = by_class.values_mut().map(|counts| *field(counts)).sum();
    let missing = total.saturating_sub(sum);
    *field(by_class.entry(Class::Other).or_default()) += missing;
    let mut excess = sum.saturating_sub(total);
    let mut order: Vec<Class> = by_class.keys().copied().collect();
    order.sort_by_key(|class| {
        let value = by_class.get_mut(class).map_or(0, |counts| *field(counts));
        (*class != Class::Other, u64::MAX - value)
    });
    for class in order {
        let value = field(by_class.entry(class).or_default());
        let taken = excess.min(*value);
        *value -= taken;
        excess -= taken;
    }
    missing
}

/// Logical addresses → inode. A later extent at the same place replaces the earlier one.
#[derive(Debug, Default)]
struct Extents {
    by_start: BTreeMap<u64, (u64, u64)>,
}

impl Extents {
    fn insert(&mut self, start: u64, length: u64, inode: u64) {
        let end = start.saturating_add(length);
        // The one before may reach into the new one, and even past its end.
        if let Some((&before, &(before_end, before_inode))) = self.by_start.range(..start).next_back()
            && before_end > start
        {
            self.by_start.insert(before, (start, before_inode));
            if before_end > end {
                self.by_start.insert(end, (before_end, before_inode));
            }
        }
        let covered: Vec<u64> = self.by_start.range(start..end).map(|(&at, _)| at).collect();
        for at in covered {
            if let Some((covered_end, covered_inode)) = self.by_start.remove(&at)
                && covered_end > end
            {
                self.by_start.insert(end, (covered_end, covered_inode));
            }
        }
        self.by_start.insert(start, (end, inode));
    }

    fn owner(&self, at: u64) -> Option<u64> {
        self.by_start.range(..=at).next_back().filter(|(_, (end, _))| at < *end).map(|(_, (_, inode))| *inode)
    }
}

/// Sectors of the block layer, to bytes.
pub(super) fn bytes(sectors: u64) -> u64 {
    sectors.saturating_mul(SECTOR_BYTES)
}

#[cfg(test)]
#[path = "attribute_tests.rs"]
mod tests;
