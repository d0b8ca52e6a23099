//! Rules that say whose each queued write is. Pure: events in, answers out.
//!
//! The kernel marks a write of metadata (`M` in `rwbs`, REQ_META). An unmarked write is file data.
//!
//! | write | owner |
//! |---|---|
//! | metadata in the file system's journal area | `Journal` |
//! | metadata at ext4 by a jbd2 thread, if the area is not known | `Journal` |
//! | metadata at btrfs, except by the background transaction thread | `Journal` |
//! | metadata at F2FS to an address announced as a node's | `Journal` |
//! | other metadata | `Metadata` |
//! | data to an announced address (btrfs, F2FS) | the file or journal that was announced |
//! | other data | the file that the thread last said it will write, else the one it synchronizes |
//! | data without either | `Unknown` |
//!
//! btrfs has no journal area. Another thread may queue a write there. Every write goes to a newly
//! reserved extent, which `btrfs_ordered_extent_add` announces.
//!
//! F2FS announces each page with its address (`f2fs_submit_page_write`, `f2fs_submit_page_bio`). A
//! page of a file is the file's data. A page of a node is `Journal`: after a crash, F2FS rolls
//! forward from the nodes that an fsync wrote. A request that holds pages of several files counts
//! for the first.

use std::collections::{BTreeMap, HashMap};

use super::KernelError;
use super::btrfs::{self, Chunk};
use super::layout::{self, Area};
use super::volume::{FileSystem, Volume};

/// One trace event, reduced to what the rules need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub time_ns: u64,
    pub thread: u32,
    /// Number of the volume, in the order in which the decoder was given them.
    pub volume: usize,
    pub what: What,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// This thread is about to write data of this file.
    File {
        inode: u64,
    },
    /// A write to these addresses is this file's data or the journal's. The addresses are btrfs's
    /// logical ones or those of F2FS's device.
    Extent {
        whose: Whose,
        address: u64,
        length_bytes: u64,
    },
    Queued(Write),
    /// The write was made part of one queued before.
    Merged(Write),
    /// The device takes no write of that length, so one more is sent.
    Split(Write),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// First byte on the device, and number of bytes.
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

/// The facts of the file system that the rules need.
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

    /// The address of a byte of the device where extents are announced. `None` where they are not.
    fn address(&self, byte: u64) -> Option<u64> {
        match self.file_system {
            FileSystem::Btrfs => btrfs::logical(&self.chunks, byte),
            FileSystem::F2fs => Some(byte),
            FileSystem::Ext4 | FileSystem::Xfs | FileSystem::Other => None,
        }
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

/// The owner of a write.
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
    /// Those before the last [`Attribution::forget_old`]. `extents` counts before them.
    old_extents: Extents,
}

impl Attribution {
    pub fn new(geometry: Geometry) -> Attribution {
        Attribution {
            geometry,
            file_of_thread: HashMap::new(),
            syncs_of_thread: HashMap::new(),
            extents: Extents::default(),
            old_extents: Extents::default(),
        }
    }

    /// The thread is about to write this file's data.
    pub fn file(&mut self, thread: u32, inode: u64) {
        self.file_of_thread.insert(thread, inode);
    }

    /// The owner of the write that the thread is about to make to these addresses.
    pub fn extent(&mut self, thread: u32, whose: Whose, address: u64, length_bytes: u64) {
        if let Whose::File(inode) = whose {
            self.file_of_thread.insert(thread, inode);
        }
        self.extents.insert(address, length_bytes, whose);
    }

    /// A write is on its way, and will not be asked for again. F2FS announces every page anew, so
    /// its announcement is dropped.
    pub fn is_written(&mut self, write: &Write) {
        if self.geometry.file_system == FileSystem::F2fs {
            let end = write.start.saturating_add(write.length_bytes);
            self.extents.remove(write.start, end);
            self.old_extents.remove(write.start, end);
        }
    }

    /// The thread begins, or ends, to synchronize a file.
    pub fn sync(&mut self, thread: u32, inode: Option<u64>) {
        match inode {
            Some(inode) => self.syncs_of_thread.insert(thread, inode),
            None => self.syncs_of_thread.remove(&thread),
        };
    }

    /// The thread is gone. Its number may come again.
    pub fn thread_ended(&mut self, thread: u32) {
        self.file_of_thread.remove(&thread);
        self.syncs_of_thread.remove(&thread);
    }

    /// What threads have said so far does not count any more.
    pub fn forget(&mut self) {
        self.file_of_thread.clear();
        self.syncs_of_thread.clear();
        self.extents = Extents::default();
        self.old_extents = Extents::default();
    }

    /// Announcements from before the last call do not count any more: what was announced is written
    /// by then. Otherwise they would fill the memory, as a device fills.
    pub fn forget_old(&mut self) {
        self.old_extents = std::mem::take(&mut self.extents);
    }

    pub fn whose(&self, thread: u32, write: &Write) -> Whose {
        let owner =
            |address| self.extents.owner(address).or_else(|| self.old_extents.owner(address));
        let announced = self.geometry.address(write.start).and_then(owner);
        if write.metadata {
            let is_journal = announced == Some(Whose::Journal) || self.geometry.is_journal(write);
            return if is_journal { Whose::Journal } else { Whose::Metadata };
        }
        let said =
            || self.file_of_thread.get(&thread).or_else(|| self.syncs_of_thread.get(&thread));
        announced.or_else(|| said().copied().map(Whose::File)).unwrap_or(Whose::Unknown)
    }
}

/// Addresses → owner. A later extent at the same place replaces the earlier one.
#[derive(Debug, Default)]
struct Extents {
    by_start: BTreeMap<u64, (u64, Whose)>,
}

impl Extents {
    fn insert(&mut self, start: u64, length: u64, whose: Whose) {
        let end = start.saturating_add(length);
        self.remove(start, end);
        self.by_start.insert(start, (end, whose));
    }

    fn remove(&mut self, start: u64, end: u64) {
        // The extent before may reach into the range, and even past its end.
        if let Some((&before, &(before_end, of))) = self.by_start.range(..start).next_back()
            && before_end > start
        {
            self.by_start.insert(before, (start, of));
            if before_end > end {
                self.by_start.insert(end, (before_end, of));
            }
        }
        let covered: Vec<u64> = self.by_start.range(start..end).map(|(&at, _)| at).collect();
        for at in covered {
            if let Some((covered_end, of)) = self.by_start.remove(&at)
                && covered_end > end
            {
                self.by_start.insert(end, (covered_end, of));
            }
        }
    }

    fn owner(&self, at: u64) -> Option<Whose> {
        self.by_start
            .range(..=at)
            .next_back()
            .filter(|(_, (end, _))| at < *end)
            .map(|(_, (_, whose))| *whose)
    }
}

#[cfg(test)]
#[path = "attribute_tests.rs"]
mod tests;
