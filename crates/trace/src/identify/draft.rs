//! A transaction while its groups come in. A draft also says what the transaction shows about
//! journal mode and synchronization.

use super::access::Accesses;
use super::files::Role;
use super::group::Group;
use super::requests::Removal;
use super::table::Input;
use super::traffic::Traffic;
use super::transaction::{JournalMode, Outcome, Process, Synchronous};
use super::unsynced::{Held, Sign};

/// What ext4 logs for an emptied file that gets data: inode, bitmap of blocks, group descriptor. If
/// the file moves, there are bitmaps of two groups. A new file also needs its folder, the bitmap of
/// inodes and the super block: 7 blocks, seldom 6.
const METADATA_BLOCKS_OF_EMPTIED_FILE: std::ops::RangeInclusive<u64> = 2..=4;

/// How the transaction keeps what it needs to be atomic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Rollback,
    Wal,
    Eager,
    Waldio,
    Maw,
    Lsmvbt,
    /// No journal was seen.
    Bare,
}

/// What shows a transaction that the device does not show, and whether another thread's
/// synchronization has made it durable.
#[derive(Clone, Copy, Debug)]
pub(super) struct ByLock {
    pub sign: Sign,
    pub is_shared: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Draft {
    pub kind: Kind,
    pub begin_ns: u64,
    pub end_ns: u64,
    pub process: Option<Process>,
    pub traffic: Traffic,
    pub flushes: u64,
    pub syncs: u64,
    pub segments: u32,
    pub outcome: Outcome,
    pub joint: Option<u64>,
    /// Calls have written headers of a WAL, and no page.
    pub is_headers: bool,
    /// The trace begins within this transaction.
    pub is_partial: bool,
    /// Header and body of the journal share a page.
    pub is_one_page: bool,
    /// The journal was made for this transaction.
    pub is_new: bool,
    /// Bytes of the last group with a body of the journal.
    pub log_bytes: u64,
    /// Sector of the journal's first header.
    pub header: u64,
    /// The first and the last group with a body of the journal.
    pub logs: Vec<Group>,
    pub synced: bool,
    pub counted: bool,
    pub db_begin_ns: Option<u64>,
    pub reset_begin_ns: Option<u64>,
    /// The header was written again behind the database.
    pub zeroed: bool,
    pub emptied: bool,
    pub folder_synced: bool,
    /// What became of the journal, where the trace says it.
    removal: Option<Removal>,
    /// Blocks of metadata that the file system logged for the first synchronization of the journal.
    log_metadata_blocks: Option<u64>,
    /// The trace shows sync calls: a sync call that is not in the trace was not made.
    shows_calls: bool,
    pub append_end_ns: u64,
    pub checkpoint: Traffic,
    pub checkpoint_ns: u64,
    /// The log was synchronized only once, and a checkpoint followed.
    pub synced_for_checkpoint: bool,
    file_syncs: u32,
    /// The trace has SQLite's locks.
    pub shows_locks: bool,
    /// `Some`: the device does not show this transaction.
    pub by_lock: Option<ByLock>,
    /// Its bytes are also those of commits before it.
    pub carries: bool,
    pub accesses: Accesses,
}

impl Draft {
    pub(super) fn begin(group: Group, input: Input) -> Draft {
        let kind = match group.role {
            Role::Wal => Kind::Wal,
            Role::EagerLog => Kind::Eager,
            Role::WaldioLog => Kind::Waldio,
            Role::MawLog => Kind::Maw,
            Role::Lsmvbt => Kind::Lsmvbt,
            Role::Database => Kind::Bare,
            _ => Kind::Rollback,
        };
        let mut draft = Draft {
            kind,
            begin_ns: group.begin_ns,
            end_ns: group.begin_ns,
            process: None,
            traffic: Traffic::default(),
            flushes: 0,
            syncs: 0,
            segments: 1,
            outcome: Outcome::Committed,
            joint: group.joint,
            is_partial: input == Input::Segment,
            is_one_page: input == Input::Page,
            is_new: group.is_new,
            log_bytes: group.bytes,
            header: group.first_sector(),
            is_headers: input == Input::WalHead && group.is_call,
            logs: Vec::new(),
            synced: false,
            counted: false,
            db_begin_ns: None,
            reset_begin_ns: None,
            zeroed: false,
            emptied: false,
            folder_synced: false,
            removal: None,
            log_metadata_blocks: group.metadata_blocks(),
            shows_calls: group.file_syncs > 0,
            append_end_ns: group.begin_ns,
            checkpoint: Traffic::default(),
            checkpoint_ns: 0,
            synced_for_checkpoint: false,
            file_syncs: 0,
            shows_locks: false,
            by_lock: None,
            carries: false,
            accesses: Accesses::default(),
        };
        draft.extend(group, input);
        draft
    }

    /// A transaction that the lock shows. `header`: the header of the WAL that it synchronized.
    pub(super) fn unsynced(held: &Held, header: Option<Draft>) -> Draft {
        let (role, input) = match held.sign {
            Sign::Frames => (Role::Wal, Input::Wal),
            Sign::Slots => (Role::WaldioLog, Input::Record),
            Sign::Lock => (Role::EagerLog, Input::Record),
        };
        let mut draft =
            header.unwrap_or_else(|| Draft::begin(Group::empty(role, held.begin_ns), input));
        draft.begin_ns = held.begin_ns;
        draft.end_ns = draft.end_ns.max(held.end_ns);
        draft.append_end_ns = draft.end_ns;
        draft.process = Some(held.process);
        draft.by_lock = Some(ByLock { sign: held.sign, is_shared: held.is_shared() });
        draft
    }

    pub(super) fn extend(&mut self, mut group: Group, input: Input) {
        self.accesses.append(&mut group.accesses);
        self.begin_ns = self.begin_ns.min(group.begin_ns);
        self.end_ns = self.end_ns.max(group.done_ns);
        self.process = self.process.or(group.process);
        self.traffic += group.traffic;
        self.flushes += group.flushes;
        self.syncs += u64::from(group.syncs);
        self.removal = self.removal.max(group.removal);
        match group.role {
            Role::Database => {
                self.db_begin_ns.get_or_insert(group.begin_ns);
                self.emptied |= group.emptied;
                self.folder_synced |= group.folder_synced;
                if input == Input::Db && (group.emptied || group.folder_synced) {
                    self.reset_begin_ns = group.synced_ns;
                }
                if self.kind == Kind::Bare {
                    self.synced |= input == Input::Db;
                }
            }
            Role::Wal | Role::EagerLog | Role::WaldioLog | Role::MawLog | Role::Lsmvbt => {
                self.append_end_ns = group.done_ns;
                self.synced |= group.synced_ns.is_some();
                // A log that begins anew has its header synchronized, also with NORMAL.
                if input != Input::WalHead {
                    self.file_syncs += group.file_syncs;
                }
            }
            _ => {
                self.synced |= group.synced_ns.is_some();
                if matches!(input, Input::Segment) && !self.logs.is_empty() {
                    self.segments += 1;
                }
                if matches!(input, Input::Log | Input::Segment | Input::Page) {
                    self.log_bytes = group.bytes;
                }
                // The first log holds the header. The last log holds what a header written next may
                // rewrite.
                self.logs.truncate(1);
                self.logs.push(group);
            }
        }
    }

    /// The group that follows the update of the database and ends the transaction.
    pub(super) fn reset(&mut self, group: Group, input: Input) {
        self.reset_begin_ns = Some(group.begin_ns);
        self.zeroed = true;
        self.extend(group, input);
    }

    /// The group is a checkpoint. A checkpoint lengthens the transaction only if the transaction's
    /// own thread makes it.
    pub(super) fn add_checkpoint(&mut self, mut group: Group) {
        self.accesses.append(&mut group.accesses);
        self.synced_for_checkpoint |= self.checkpoint == Traffic::default() && self.file_syncs <= 1;
        if group.thread().is_some() && group.thread() == self.process.map(|process| process.thread)
        {
            self.end_ns = self.end_ns.max(group.done_ns);
        }
        self.traffic += group.traffic;
        self.checkpoint += group.traffic;
        self.flushes += group.flushes;
        self.syncs += u64::from(group.syncs);
        self.checkpoint_ns += group.done_ns - group.begin_ns;
    }

    /// The group overwrites the journal's first segment. In a kept journal, each later transaction
    /// begins there as well.
    pub(super) fn overwrites_first_log(&self, group: &Group) -> bool {
        self.logs.first().is_some_and(|first| first.meets(group, self.header))
    }

    /// The group writes no body at the place where each transaction of a kept journal begins its
    /// body. Offsets of calls do not say it.
    pub(super) fn leaves_first_body(&self, group: &Group) -> bool {
        let body = self
            .logs
            .first()
            .filter(|log| !log.is_call)
            .and_then(|log| log.body_sector(self.header));
        body.is_some_and(|body| !group.holds(body))
    }

    /// The journal's header is at this sector, or the header of its last segment is.
    pub(super) fn has_header_at(&self, sector: u64) -> bool {
        self.logs.iter().any(|group| group.first_sector() == sector)
    }

    /// Journal mode as this transaction alone shows it, and whether it shows it for certain.
    pub(super) fn journal_mode(&self) -> (JournalMode, bool) {
        match self.kind {
            Kind::Wal => (JournalMode::Wal, true),
            Kind::Eager => (JournalMode::Eager, true),
            Kind::Waldio => (JournalMode::Waldio, true),
            Kind::Maw => (JournalMode::Maw, true),
            Kind::Lsmvbt => (JournalMode::Lsmvbt, true),
            Kind::Bare => (JournalMode::Unknown, false),
            Kind::Rollback if self.removal == Some(Removal::Deleted) => (JournalMode::Delete, true),
            Kind::Rollback if self.zeroed => (JournalMode::Persist, !self.is_one_page),
            // In a transaction over several databases, PERSIST truncates its journals too. NORMAL
            // then synchronizes the truncated journals.
            Kind::Rollback if self.emptied && self.joint.is_some() => match self.synchronous().0 {
                Synchronous::Normal => (JournalMode::Persist, true),
                _ => (JournalMode::Truncate, false),
            },
            Kind::Rollback if self.joint.is_some() && self.removal.is_some() => {
                (JournalMode::Truncate, false)
            }
            Kind::Rollback if self.emptied || self.removal.is_some() => {
                (JournalMode::Truncate, true)
            }
            Kind::Rollback if self.folder_synced && self.joint.is_none() => {
                (JournalMode::Delete, true)
            }
            // TRUNCATE with FULL would have synchronized the emptied journal.
            Kind::Rollback if self.counted && self.shows_calls => (JournalMode::Delete, true),
            Kind::Rollback => (JournalMode::Delete, false),
        }
    }

    /// Whether the file system logged too little for a new journal. `None`: the trace does not show
    /// it.
    ///
    /// The answer is only a hint, because the file system logs for all programs in one commit. With
    /// a super-journal there is no answer: its commit has paid for some of the metadata.
    pub(super) fn logged_little(&self) -> Option<bool> {
        let blocks = self.log_metadata_blocks.filter(|_| self.joint.is_none())?;
        Some(METADATA_BLOCKS_OF_EMPTIED_FILE.contains(&blocks))
    }

    pub(super) fn synchronous(&self) -> (Synchronous, bool) {
        match self.kind {
            _ if let Some(ByLock { is_shared, .. }) = self.by_lock => match is_shared {
                false => (Synchronous::Normal, true),
                // Where commits share a flush, one thread synchronizes for others.
                true => (Synchronous::Full, false),
            },
            _ if !self.synced => (Synchronous::Unknown, false),
            _ if self.carries => (Synchronous::Normal, false),
            Kind::Wal if self.synced_for_checkpoint => (Synchronous::Normal, false),
            Kind::Bare => (Synchronous::Unknown, false),
            Kind::Wal | Kind::Eager | Kind::Waldio | Kind::Maw | Kind::Lsmvbt => {
                (Synchronous::Full, true)
            }
            Kind::Rollback
                if self.folder_synced && !self.zeroed && !self.emptied && self.joint.is_none() =>
            {
                (Synchronous::Extra, true)
            }
            Kind::Rollback if self.counted => (Synchronous::Full, true),
            Kind::Rollback => (Synchronous::Normal, true),
        }
    }
}
