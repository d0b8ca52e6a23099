//! A group: the writes to one file of a database between two synchronizations. The machine takes
//! one group as one input.
//!
//! In a log that is written forward, a group may hold several synchronizations. The group is
//! then what a thread writes and synchronizes while it has SQLite's lock for writing.
//!
//! The group also keeps what its writes caused: flushes, commits of the file system's journal,
//! metadata. These may come behind the synchronization. Therefore a group is open until the next
//! write of the same database.

use crate::model::{FRAME_HEADER_BYTES, SECTOR_BYTES, WAL_HEADER_BYTES};

use super::access::Accesses;
use super::files::Role;
use super::ranges::{self, PAGE_BYTES_MAX, Range};
use super::requests::{Removal, Request};
use super::traffic::{Class, Traffic};
use super::transaction::Process;

/// The header of a journal as SQLite writes it last; the number of its records is a part of it.
const HEADER_CALL_BYTES_MAX: u64 = 28;
/// So much of a WAL holds no page.
const HEADERS_CALL_BYTES_MAX: u64 = WAL_HEADER_BYTES + FRAME_HEADER_BYTES;
/// The first writes of a group are remembered, since a header is written first.
const RANGES_COUNT_MAX: usize = 128;

#[derive(Clone, Debug)]
pub(super) struct Group {
    pub role: Role,
    pub begin_ns: u64,
    /// End of the last write.
    pub data_done_ns: u64,
    /// End of the last request, flush or sync that belongs to the group.
    pub done_ns: u64,
    /// End of the first synchronization.
    pub synced_ns: Option<u64>,
    /// How many synchronizations of this very file were seen.
    pub file_syncs: u32,
    /// Synchronizations of any file of the database, and of its folder.
    pub syncs: u32,
    /// The journal was synchronized behind a group of the database, without new data. The journal
    /// was therefore truncated.
    pub emptied: bool,
    /// The folder was synchronized behind a group of the database. The deletion of the journal was
    /// therefore made durable.
    pub folder_synced: bool,
    /// The folder was synchronized behind a group of the journal. The journal was therefore made
    /// new.
    pub is_new: bool,
    /// What became of the journal behind the group.
    pub removal: Option<Removal>,
    pub bytes: u64,
    writes_count: usize,
    ranges: Vec<Range>,
    pub traffic: Traffic,
    pub flushes: u64,
    /// The block size of the file system's journal. A commit record takes one block.
    commit_bytes: u64,
    /// Bytes that the file system wrote to its journal, as the file system sees them.
    logged_bytes: u64,
    /// Commits of the file system's journal.
    commits_count: u64,
    pub process: Option<Process>,
    pub is_call: bool,
    /// Number of the transaction over several databases that may begin here.
    pub joint: Option<u64>,
    /// When the writer took the lock for writing, if it held the lock when the group began.
    pub lock_ns: Option<u64>,
    /// Of our own log. `true`: a commit. `false`: it keeps the log and a checkpoint safe. `None`:
    /// the trace does not show it.
    pub is_commit: Option<bool>,
    pub accesses: Accesses,
}

impl Group {
    pub(super) fn new(role: Role, request: &Request) -> Group {
        Group { is_call: request.is_call, ..Group::empty(role, request.begin_ns) }
    }

    pub(super) fn empty(role: Role, begin_ns: u64) -> Group {
        Group {
            role,
            begin_ns,
            data_done_ns: begin_ns,
            done_ns: begin_ns,
            synced_ns: None,
            file_syncs: 0,
            syncs: 0,
            emptied: false,
            folder_synced: false,
            is_new: false,
            removal: None,
            bytes: 0,
            writes_count: 0,
            ranges: Vec::new(),
            traffic: Traffic::default(),
            flushes: 0,
            commit_bytes: u64::MAX,
            logged_bytes: 0,
            commits_count: 0,
            process: None,
            is_call: false,
            joint: None,
            lock_ns: None,
            is_commit: None,
            accesses: Accesses::default(),
        }
    }

    /// Keeps the single requests from now on, if they are wanted.
    pub(super) fn keeping(mut self, wanted: bool) -> Group {
        self.accesses = Accesses::new(wanted);
        self
    }

    pub(super) fn add(&mut self, request: &Request, process: Option<Process>) {
        // The offset of a call may be unknown. It is then the largest number.
        let length = if request.is_call { request.bytes } else { request.bytes / SECTOR_BYTES };
        let end = request.sector.saturating_add(length);
        if self.ranges.len() < RANGES_COUNT_MAX {
            self.ranges.push((request.sector, end));
        }
        self.writes_count += 1;
        self.bytes += request.bytes;
        self.data_done_ns = self.data_done_ns.max(request.done_ns);
        self.done_ns = self.done_ns.max(request.done_ns);
        self.process = self.process.or(process);
        self.flushes += request.flushes;
        let class = match self.role {
            Role::Database | Role::Lsmvbt => Class::Db,
            _ => Class::Journal,
        };
        *self.traffic.class(class) += request.amount();
        self.accesses.push(class, request);
    }

    pub(super) fn attach(&mut self, class: Class, request: &Request) {
        if class == Class::FsJournal {
            self.commit_bytes = self.commit_bytes.min(request.bytes);
            self.logged_bytes += request.bytes;
            self.commits_count += u64::from(request.flags.preflush || request.flags.fua);
        }
        self.traffic.add_caused(class, request);
        self.flushes += request.flushes;
        self.done_ns = self.done_ns.max(request.done_ns);
        self.accesses.push(class, request);
    }

    pub(super) fn synced(&mut self, time_ns: u64) {
        self.synced_ns.get_or_insert(time_ns);
        self.done_ns = self.done_ns.max(time_ns);
    }

    pub(super) fn thread(&self) -> Option<u32> {
        self.process.map(|process| process.thread)
    }

    pub(super) fn first_sector(&self) -> u64 {
        self.ranges.first().map_or(0, |range| range.0)
    }

    /// Blocks of metadata that the file system logged for the group in one commit. The commit's
    /// descriptor and record do not count.
    pub(super) fn metadata_blocks(&self) -> Option<u64> {
        let blocks = self.logged_bytes.checked_div(self.commit_bytes)?;
        (self.commits_count == 1).then(|| blocks.saturating_sub(2))
    }

    /// Both groups hold a same sector, not counting `except`.
    pub(super) fn meets(&self, other: &Group, except: u64) -> bool {
        let without = |&&(begin, end): &&Range| end - begin > 8 || begin != except;
        self.ranges.iter().filter(without).any(|a| {
            other
                .ranges
                .iter()
                .filter(without)
                .any(|b| a.0.max(except + 8) < a.1 && a.0 < b.1 && b.0 < a.1)
        })
    }

    /// Where the body begins, behind the page with the header; `None` if there is none.
    pub(super) fn body_sector(&self, header: u64) -> Option<u64> {
        const PAGE_SECTORS: u64 = PAGE_BYTES_MAX / SECTOR_BYTES;
        let of_range = |&(begin, end): &(u64, u64)| match begin {
            _ if begin != header => Some(begin),
            _ if end - begin > PAGE_SECTORS => Some(begin + PAGE_SECTORS),
            _ => None,
        };
        self.ranges.iter().find_map(of_range)
    }

    /// A write of the group touches one of these.
    pub(super) fn touches(&self, places: &[Range]) -> bool {
        let touch = |a: &Range| places.iter().any(|b| a.0 < b.1 && b.0 < a.1);
        self.ranges.iter().any(touch)
    }

    /// Each write of the group is inside one of these.
    pub(super) fn lies_in(&self, places: &[Range]) -> bool {
        let lies = |a: &Range| places.iter().any(|b| b.0 <= a.0 && a.1 <= b.1);
        self.writes_count <= RANGES_COUNT_MAX && self.ranges.iter().all(lies)
    }

    pub(super) fn holds(&self, sector: u64) -> bool {
        ranges::holds(&self.ranges, sector)
    }

    /// The group may be a header and nothing else.
    pub(super) fn is_one_page(&self) -> bool {
        self.writes_count == 1
            && self.bytes <= if self.is_call { HEADER_CALL_BYTES_MAX } else { PAGE_BYTES_MAX }
    }

    /// The group may be the header of a WAL and nothing else.
    pub(super) fn is_wal_header(&self) -> bool {
        if self.is_call {
            // `plain` takes a kept WAL out of use by its header and that of the first frame: it
            // writes no page.
            return self.bytes <= HEADERS_CALL_BYTES_MAX;
        }
        self.writes_count == 1 && self.bytes <= PAGE_BYTES_MAX
    }
}
