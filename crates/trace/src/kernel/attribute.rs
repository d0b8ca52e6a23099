//! Rules that say whose each queued write is. Pure: events in, answers out.
//!
//! The kernel marks a write of metadata (`M` in `rwbs`, REQ_META); what is not marked is file data.
//! - **Metadata** in the file system's journal area, or written by a jbd2 thread: `Journal`; at btrfs,
//!   which has no such area, all but what the background transaction thread writes. Else `Metadata`.
//! - **File data** belongs to the file that the same thread last said it is about to write; if it said nothing, to the one that it
//!   synchronizes. At btrfs, where another thread may queue the write, to the file that owns the logical address: every write
//!   goes to a newly reserved extent, announced by `btrfs_ordered_extent_add`.

use std::collections::{BTreeMap, HashMap};

use super::KernelError;
use super::btrfs::{self, Chunk};
use super::layout::{self, Area, FileSystem, Volume};

/// One trace event, reduced to what the rules need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub time_ns: u64,
    pub thread: u32,
    pub what: What,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
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
pub struct Write {
    /// First byte on the device, and how many.
    pub start: u64,
    pub length_bytes: u64,
    pub metadata: bool,
    pub by: Writer,
}

/// Threads of the kernel that are known by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writer {
    Jbd2,
    BtrfsTransaction,
    Any,
}

impl Writer {
    pub fn named(comm: &[u8]) -> Writer {
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
pub struct Geometry {
    file_system: FileSystem,
    journal: Vec<Area>,
    /// btrfs only.
    chunks: Vec<Chunk>,
}

impl Geometry {
    pub fn new(file_system: FileSystem, journal: Vec<Area>) -> Geometry {
        Geometry { file_system, journal, chunks: Vec::new() }
    }

    pub fn of(volume: &Volume) -> Result<Geometry, KernelError> {
        let chunks = match volume.file_system {
            FileSystem::Btrfs => btrfs::chunks(&volume.mount_point)
                .map_err(|reason| KernelError::Read { path: volume.mount_point.clone(), reason })?,
            _ => Vec::new(),
        };
        Ok(Geometry { chunks, ..Geometry::new(volume.file_system, layout::journal(volume)?) })
    }

    pub fn journal(&self) -> &[Area] {
        &self.journal
    }

    fn is_journal(&self, write: &Write) -> bool {
        let in_journal = self.journal.iter().any(|area| area.contains(write.start));
        match self.file_system {
            _ if in_journal => true,
            FileSystem::Ext4 => self.journal.is_empty() && write.by == Writer::Jbd2,
            FileSystem::Btrfs => write.by != Writer::BtrfsTransaction,
            _ => false,
        }
    }
}

/// Whose a write is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// Data of the file with this inode.
    File(u64),
    /// The journal of the file system.
    Journal,
    /// Other metadata of the file system.
    Metadata,
    /// Data of a file that no rule finds.
    Unknown,
}

/// Follows the events of one file system in the order of time.
#[derive(Debug)]
pub struct Attribution {
    pub geometry: Geometry,
    file_of_thread: HashMap<u32, u64>,
    syncs_of_thread: HashMap<u32, u64>,
    extents: Extents,
}

impl Attribution {
    pub fn new(geometry: Geometry) -> Attribution {
        Attribution {
            geometry,
            file_of_thread: HashMap::new(),
            syncs_of_thread: HashMap::new(),
            extents: Extents::default(),
        }
    }

    /// The thread is about to write this file's data.
    pub fn file(&mut self, thread: u32, inode: u64) {
        self.file_of_thread.insert(thread, inode);
    }

    /// btrfs: this file's data goes to these logical addresses.
    pub fn extent(&mut self, thread: u32, inode: u64, logical: u64, length_bytes: u64) {
        self.file_of_thread.insert(thread, inode);
        self.extents.insert(logical, length_bytes, inode);
    }

    /// The thread begins, or ends, to synchronize a file.
    pub fn sync(&mut self, thread: u32, inode: Option<u64>) {
        match inode {
            Some(inode) => self.syncs_of_thread.insert(thread, inode),
            None => self.syncs_of_thread.remove(&thread),
        };
    }

    /// The thread is gone; its number may come again.
    pub fn thread_ended(&mut self, thread: u32) {
        self.file_of_thread.remove(&thread);
        self.syncs_of_thread.remove(&thread);
    }

    /// Nothing that threads said so far counts any more.
    pub fn forget(&mut self) {
        self.file_of_thread.clear();
        self.syncs_of_thread.clear();
        self.extents = Extents::default();
    }

    pub fn whose(&self, thread: u32, write: &Write) -> Whose {
        if write.metadata {
            return if self.geometry.is_journal(write) { Whose::Journal } else { Whose::Metadata };
        }
        btrfs::logical(&self.geometry.chunks, write.start)
            .and_then(|logical| self.extents.owner(logical))
            .or_else(|| self.file_of_thread.get(&thread).copied())
            .or_else(|| self.syncs_of_thread.get(&thread).copied())
            .map_or(Whose::Unknown, Whose::File)
    }
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

#[cfg(test)]
#[path = "attribute_tests.rs"]
mod tests;
