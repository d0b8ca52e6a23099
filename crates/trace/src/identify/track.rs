//! One database: puts its writes into groups, gives each group its name, and runs the machine.
//!
//! A group ends at a synchronization. It stays open until the next write, for what it caused. A
//! synchronization is known by one of these, best first:
//! 1. the sync call's end;
//! 2. a flush of the device;
//! 3. a wait of the writer for its own writes before it goes on.
//!
//! Only a sync makes a writer wait so. The third sign counts where the trace has shown neither
//! other.

mod naming;
#[cfg(test)]
mod walks;

use super::committers::Committers;
use super::draft::{Draft, Kind};
use super::files::Role;
use super::group::Group;
use super::lsmvbt::Layout;
use super::requests::{Removal, Request};
use super::table::{Action, Input, State, transition};
use super::traffic::{Class, Traffic};
use super::transaction::{Database, JournalMode, Outcome, Process};
use super::unsynced::{Held, Sign};
use super::waiters::Busy;
use crate::model::Content;

/// The zeros of which `eager` makes its log. Before version 3 of the format it was 1 MiB.
const LOG_BYTES_MIN: u64 = 64 << 10;
/// So many groups wait for the first lock of the database, beginning with the log's making.
const UNCLEAR_COUNT_MAX: usize = 8;

/// After so many short records in a row without a lock, the connection is in exclusive locking
/// mode. A write of the database, or a record longer than [`UNLOCKED_BYTES_MAX`], ends the row.
/// Records of a checkpoint are as long as they may be, or few.
const UNLOCKED_COUNT_MAX: u32 = 4;
const UNLOCKED_BYTES_MAX: u64 = 128 << 10;

/// What a new write is judged by, beside its own fields.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Context {
    /// The trace shows sync calls or flushes.
    pub shows_syncs: bool,
    pub shows_calls: bool,
    /// A transaction over several databases that this thread has begun.
    pub joint: Option<u64>,
    /// When the sync call began that sends this write, if one does.
    pub sync_enter_ns: Option<u64>,
    /// The trace shows sync calls, and none of them sends this write.
    pub is_outside_of_syncs: bool,
    /// When this thread took SQLite's lock for writing, if it holds the lock.
    pub lock_ns: Option<u64>,
}

#[derive(Debug)]
pub(super) struct Track {
    pub database: Database,
    state: State,
    draft: Option<Draft>,
    current: Option<Group>,
    /// Writes to the database while the log is that of WAL or our own.
    checkpoint: Option<Group>,
    held: Vec<Group>,
    /// Writes of the journal behind an update of the database that nobody synchronized. The kernel
    /// made them, or the program as it truncated the journal (ext4 writes what it cuts off).
    ///
    /// - If the journal goes away next, a transaction had never synchronized them.
    /// - Else they are the begin of the next transaction's log.
    early: Vec<(Request, Option<Process>)>,
    /// Groups before the trace has shown a lock: of the database, and of our own log. The log may
    /// be in the making.
    unclear: Vec<Group>,
    committers: Committers,
    /// Records without a lock in a row.
    unlocked_count: u32,
    log_is_deleted: bool,
    /// `eager`'s log is in use.
    has_eager_log: bool,
    /// Commits that were told and that nobody has synchronized yet.
    carried_count: u64,
    /// Complete transactions that nobody has taken yet.
    pub finished: Vec<Draft>,
    /// Transactions of which the trace holds only a part.
    pub partial_count: u64,
    /// Traffic and flushes of the partial transactions, and of what belongs to no transaction.
    pub rest: (Traffic, u64),
    /// The decided mode. Options are static, so the mode tells a reset from a log.
    pub mode: Option<JournalMode>,
    header: Option<u64>,
    /// Header and body of the last journal shared a page.
    shares_page: bool,
    /// The shortest write to the journal so far: a block of the file system.
    unit_bytes: u64,
    /// The next group of the WAL may be its header alone.
    wal_restarts: bool,
    has_journal: bool,
    /// No transaction has ended yet.
    is_first: bool,
    last_joint: Option<u64>,
    /// The trace has SQLite's locks.
    pub shows_locks: bool,
    /// The WAL is one of `plain`.
    pub is_plain: bool,
    /// Of a database of LS-MVBT.
    pub layout: Option<Layout>,
    /// Somebody wants the single requests.
    pub keeps_accesses: bool,
}

impl Track {
    pub(super) fn new(database: Database) -> Track {
        Track {
            database,
            state: State::Idle,
            draft: None,
            current: None,
            checkpoint: None,
            held: Vec::new(),
            early: Vec::new(),
            unclear: Vec::new(),
            committers: Committers::default(),
            unlocked_count: 0,
            log_is_deleted: false,
            has_eager_log: false,
            carried_count: 0,
            finished: Vec::new(),
            partial_count: 0,
            rest: (Traffic::default(), 0),
            mode: None,
            header: None,
            shares_page: false,
            unit_bytes: u64::MAX,
            wal_restarts: true,
            has_journal: false,
            is_first: true,
            last_joint: None,
            shows_locks: false,
            is_plain: false,
            layout: None,
            keeps_accesses: false,
        }
    }

    pub(super) fn write(
        &mut self,
        role: Role,
        request: &Request,
        process: Option<Process>,
        context: Context,
    ) {
        self.has_journal |= role != Role::Database;
        match role {
            Role::EagerLog => self.has_eager_log = true,
            Role::Wal => self.has_eager_log = false,
            _ => {}
        }
        if role == Role::Database && self.logs_forward() {
            // A commit never writes the database under the lock under which it wrote to the log. A
            // checkpoint does.
            if let Some(group) = &mut self.current
                && group.lock_ns.is_some()
                && group.lock_ns == context.lock_ns
            {
                group.is_commit = Some(false);
            }
            let new = || Group::new(role, request).keeping(self.keeps_accesses);
            return self.checkpoint.get_or_insert_with(new).add(request, process);
        }
        let update = self.current.as_ref().filter(|group| group.role == Role::Database);
        let is_unasked = process.is_none() || context.is_outside_of_syncs;
        if role == Role::Journal && is_unasked && request.content == Some(Content::DeletedData) {
            // The file system's journal, for example ext4's, writes the data of its own
            // transaction. It does so also if the file has been deleted meanwhile.
            return self.attach_untimed(request);
        }
        if let (Role::Journal, true, Some(update)) = (role, is_unasked, update) {
            // The next log begins behind the synchronization of the database.
            if context.shows_calls && update.synced_ns.is_none() {
                self.attach_untimed(request);
            } else {
                self.early.push((*request, process));
            }
            return;
        }
        if !self.early.is_empty() {
            self.begin_early(request.begin_ns, context);
        }
        let ends = |group: &Group| {
            !self.is_part(group, role) && ends_before(group, role, request, context)
        };
        let goes_on = self.current.as_ref().is_some_and(|group| self.is_part(group, role));
        if self.current.as_ref().is_some_and(ends) {
            self.settle(Some(request.begin_ns), context);
        }
        if let Some(group) = self.current.as_mut().filter(|_| goes_on) {
            // Only the last flush ends the transaction.
            group.synced_ns = None;
        }
        if role == Role::Journal {
            self.unit_bytes = self.unit_bytes.min(request.bytes);
        }
        let group = self.current.get_or_insert_with(|| {
            let mut group = Group::new(role, request).keeping(self.keeps_accesses);
            if let Some(enter_ns) = context.sync_enter_ns {
                group.begin_ns = group.begin_ns.min(enter_ns);
            }
            if matches!(role, Role::Wal | Role::EagerLog) {
                group.lock_ns = context.lock_ns;
            }
            group
        });
        group.joint = group.joint.or(context.joint);
        if let (Role::EagerLog, None, Some(process)) = (role, group.is_commit, process)
            && self.committers.shows_locks()
        {
            group.is_commit = Some(self.committers.record(process.thread));
        }
        group.add(request, process);
    }

    /// The group of a database of LS-MVBT has no end yet.
    fn is_part(&self, group: &Group, role: Role) -> bool {
        let is_whole = |layout: &Layout| layout.is_whole(group);
        role == Role::Lsmvbt && group.role == role && !self.layout.as_ref().is_none_or(is_whole)
    }

    /// A thread took SQLite's lock for writing. If records of our own log came before the first
    /// lock, they made the log and were no commits.
    pub(super) fn write_lock(&mut self, thread: u32) {
        if !self.committers.shows_locks() && !self.unclear.is_empty() {
            self.clear_up(Some(false));
        }
        self.committers.lock(thread);
    }

    /// A thread gave SQLite's lock for writing back.
    ///
    /// The trace may not show that the thread took the lock. The thread may have taken it before
    /// the trace began, or the kernel joined it with the lock of a checkpoint of the same process.
    pub(super) fn write_unlock(&mut self, thread: u32) {
        if !self.committers.shows_locks() {
            self.clear_up(Some(true));
        }
        let is_of_thread = |group: &Group| group.thread() == Some(thread);
        if self.committers.unlock(thread) || self.checkpoint.as_ref().is_some_and(is_of_thread) {
            return;
        }
        match self.current.as_mut().filter(|group| is_of_thread(group)) {
            Some(group) if group.is_commit == Some(false) => group.is_commit = Some(true),
            _ => self.committers.add(thread),
        }
    }

    fn clear_up(&mut self, are_commits: Option<bool>) {
        if let Some(group) = &mut self.current {
            group.is_commit = group.is_commit.or(are_commits);
        }
        for mut group in std::mem::take(&mut self.unclear) {
            group.is_commit = group.is_commit.or(are_commits);
            let input = self.input(&group);
            self.run(input, Some(group));
        }
    }

    /// All connections have closed the database.
    pub(super) fn index_deleted(&mut self) {
        self.committers.forget();
    }

    /// The end of our own log is clean: what comes next belongs to no transaction before it.
    pub(super) fn log_deleted(&mut self) {
        self.log_is_deleted = true;
        self.has_eager_log = false;
    }

    /// The frames of commits reach no file, as `eager` keeps them.
    pub(super) fn keeps_frames_in_memory(&self) -> bool {
        self.has_eager_log
    }

    /// A file of this database was synchronized by a sync call.
    pub(super) fn file_synced(&mut self, role: Role, time_ns: u64) {
        if role == Role::Database
            && let Some(group) = &mut self.checkpoint
        {
            group.syncs += 1;
            return group.synced(time_ns);
        }
        if role == Role::Journal && !self.early.is_empty() {
            self.begin_early(
                time_ns,
                Context { shows_syncs: true, shows_calls: true, ..Context::default() },
            );
        }
        let Some(group) = &mut self.current else { return };
        group.syncs += 1;
        if group.role == role {
            group.file_syncs += 1;
            group.synced(time_ns);
        } else if role == Role::Journal && group.role == Role::Database && group.synced_ns.is_some()
        {
            group.emptied = true;
            group.done_ns = group.done_ns.max(time_ns);
        }
    }

    /// The journal is gone, which ends the transaction.
    pub(super) fn journal_removed(&mut self, removal: Removal, time_ns: u64) {
        for (request, _) in std::mem::take(&mut self.early) {
            self.attach_untimed(&request);
        }
        if let Some(group) = &mut self.current {
            group.removal = group.removal.max(Some(removal));
            group.done_ns = group.done_ns.max(time_ns);
        }
    }

    pub(super) fn folder_synced(&mut self, time_ns: u64) {
        if let Some(group) = self.current.as_mut().filter(|group| group.synced_ns.is_some()) {
            group.syncs += 1;
            group.folder_synced |= group.role == Role::Database;
            group.is_new |= group.role == Role::Journal;
            group.done_ns = group.done_ns.max(time_ns);
        }
    }

    /// This transaction owns what was synchronized of the WAL, and the checkpoint behind it.
    pub(super) fn checkpointed(&mut self, held: &Held) {
        // `plain` synchronizes each commit behind the lock, and has no checkpoint behind it.
        let has_checkpoint = self.checkpoint.is_some();
        let is_its = |group: &&mut Group| {
            group.role == Role::Wal
                && has_checkpoint
                && group.synced_ns.is_some_and(|synced_ns| synced_ns >= held.end_ns)
        };
        if let Some(group) = self.current.as_mut().filter(is_its) {
            group.begin_ns = held.begin_ns;
        }
    }

    /// A transaction that its thread did not synchronize. It is told as soon as all that the device
    /// saw until then has been taken.
    pub(super) fn unsynced(&mut self, held: &Held, context: Context) {
        self.carried_count += u64::from(!held.is_shared());
        if held.sign != Sign::Frames {
            // The record that follows belongs to the open transaction, if it is no commit's.
            self.is_first = false;
            return self.finished.push(Draft::unsynced(held, None));
        }
        let is_complete = |group: &Option<Group>| group.as_ref().is_none_or(is_synced);
        let mut header = None;
        if self.logs_forward() && is_complete(&self.current) && is_complete(&self.checkpoint) {
            let begin_ns = self.current.as_ref().map(|group| group.begin_ns);
            self.settle(Some(held.end_ns), context);
            // A header that the transaction synchronized before its frames is its own.
            let is_own =
                begin_ns.is_some_and(|begin_ns| (held.begin_ns..=held.end_ns).contains(&begin_ns));
            if self.state == State::WalBegun && is_own {
                header = self.draft.take();
            } else {
                self.close(Outcome::Committed);
            }
            self.state = State::Idle;
        }
        self.is_first = false;
        self.finished.push(Draft::unsynced(held, header));
    }

    /// The device was told to make durable what `thread` wrote. `None`: what any thread wrote.
    pub(super) fn flushed(&mut self, thread: Option<u32>, time_ns: u64) {
        let is_checkpoint = self.checkpoint.as_ref().is_some_and(|group| {
            group.synced_ns.is_none()
                && (group.thread() == thread || self.current.as_ref().is_none_or(is_synced))
        });
        let group = if is_checkpoint { &mut self.checkpoint } else { &mut self.current };
        if let Some(group) = group {
            group.synced(time_ns);
        }
    }

    pub(super) fn attach(&mut self, class: Class, request: &Request) {
        let thread = (!request.is_call).then_some(request.actor.thread);
        let is_checkpoint = self.checkpoint.as_ref().is_some_and(|group| {
            (group.thread() == thread
                && self.current.as_ref().is_none_or(|current| current.thread() != thread))
                || self.current.as_ref().is_none_or(|current| current.begin_ns < group.begin_ns)
        });
        let group = if is_checkpoint { &mut self.checkpoint } else { &mut self.current };
        match group {
            Some(group) => group.attach(class, request),
            None => self.rest_of(class, request),
        }
    }

    fn rest_of(&mut self, class: Class, request: &Request) {
        self.rest.0.add_caused(class, request);
        self.rest.1 += request.flushes;
    }

    /// A write for the database at no certain time: of a log's volatile image or of the WAL index.
    pub(super) fn attach_untimed(&mut self, request: &Request) {
        match &mut self.current {
            Some(group) => {
                let done_ns = group.done_ns;
                group.attach(Class::Journal, request);
                group.done_ns = done_ns;
            }
            None => self.rest_of(Class::Journal, request),
        }
    }

    /// What the writer of the database does, as far as others must know. `folder`: the number of
    /// its folder.
    pub(super) fn busy(&self, folder: Option<u32>) -> Option<Busy> {
        let newest = [&self.current, &self.checkpoint]
            .into_iter()
            .flatten()
            .max_by_key(|group| group.done_ns)?;
        let (since_ns, data_done_ns, thread) =
            (newest.done_ns, newest.data_done_ns, newest.thread());
        let (only_flush, is_owed) = (self.is_reset(), thread.is_some() && !is_synced(newest));
        Some(Busy { since_ns, data_done_ns, thread, folder, only_flush, is_owed })
    }

    /// A reset in place, once durable, makes the file system log nothing.
    fn is_reset(&self) -> bool {
        matches!(self.state, State::UpdatedFull | State::UpdatedNormal)
            && self.current.as_ref().is_some_and(|group| {
                group.role == Role::Journal && group.is_one_page() && group.synced_ns.is_some()
            })
    }

    pub(super) fn began(&self, joint: u64) -> bool {
        self.last_joint == Some(joint)
    }

    /// Transactions over several databases of which a part is open here.
    pub(super) fn open_joints(&self) -> impl Iterator<Item = u64> {
        let of_draft = self.draft.as_ref().and_then(|draft| draft.joint);
        let of_group = self.current.as_ref().and_then(|group| group.joint);
        [of_draft, of_group].into_iter().flatten()
    }

    /// The trace ends.
    pub(super) fn finish(&mut self, context: Context) {
        for (request, _) in std::mem::take(&mut self.early) {
            self.attach_untimed(&request);
        }
        self.settle(None, context);
        self.clear_up(None);
        self.run(Input::End, None);
    }

    /// The early writes of the journal are the begin of a log.
    fn begin_early(&mut self, time_ns: u64, context: Context) {
        let early = std::mem::take(&mut self.early);
        let Some((first, _)) = early.first() else { return };
        self.settle(Some(time_ns), context);
        let mut group = Group::new(Role::Journal, first);
        for (request, process) in &early {
            self.unit_bytes = self.unit_bytes.min(request.bytes);
            group.add(request, *process);
        }
        self.current = Some(group);
    }

    fn logs_forward(&self) -> bool {
        let by_group = self.current.as_ref().map(|group| group.role);
        matches!(by_group, Some(Role::Wal | Role::EagerLog | Role::WaldioLog | Role::MawLog))
            || by_group.is_none() && !self.unclear.is_empty()
            || by_group.is_none()
                && matches!(
                    self.state,
                    State::WalBegun | State::Appended | State::Recorded | State::LogKept
                )
    }

    /// Gives the machine what is complete before a write that begins at `next_ns`. `None`: the
    /// trace ends.
    fn settle(&mut self, next_ns: Option<u64>, context: Context) {
        if let Some(mut group) = self.current.take() {
            if !context.shows_syncs && next_ns.is_none_or(|next_ns| group.data_done_ns <= next_ns) {
                group.synced(group.data_done_ns);
            }
            if group.role == Role::Lsmvbt
                && self.layout.as_ref().is_some_and(|layout| layout.is_anchor(&group))
            {
                self.close(Outcome::Committed);
                self.state = State::Idle;
                return self.stray(&group);
            }
            let input = self.input(&group);
            if input == Input::Wal || input == Input::WalHead {
                self.wal_restarts = false;
            }
            self.look_for_exclusive_mode(input, &group);
            let is_removed = group.removal.is_some();
            self.run_when_clear(input, group);
            // The journal is gone, and the database was not durable after it. Whatever comes next
            // belongs to another transaction.
            if is_removed && matches!(self.state, State::Logged | State::Counted | State::Spilled) {
                self.close(Outcome::RolledBack);
                self.state = State::Idle;
            }
        }
        if let Some(group) = self.checkpoint.take() {
            let input = if group.synced_ns.is_some() { Input::Db } else { Input::DbUnsynced };
            self.wal_restarts = true;
            self.run_when_clear(input, group);
        }
        if std::mem::take(&mut self.log_is_deleted) && self.state == State::Recorded {
            self.close(Outcome::Committed);
            self.state = State::LogKept;
        }
    }

    /// A connection in exclusive locking mode takes no lock any more, so no lock tells its commits.
    fn look_for_exclusive_mode(&mut self, input: Input, group: &Group) {
        let is_short = group.bytes <= UNLOCKED_BYTES_MAX && self.checkpoint.is_none();
        let is_one = input == Input::Upkeep && self.state == State::Recorded && is_short;
        self.unlocked_count = if is_one { self.unlocked_count + 1 } else { 0 };
        if self.unlocked_count == UNLOCKED_COUNT_MAX {
            self.committers = Committers::default();
        }
    }

    fn run_when_clear(&mut self, input: Input, group: Group) {
        let may_be_made = group.role == Role::EagerLog
            && group.bytes > LOG_BYTES_MIN
            && self.state != State::Recorded
            && !self.committers.shows_locks();
        if !may_be_made && self.unclear.is_empty() {
            return self.run(input, Some(group));
        }
        self.unclear.push(group);
        if self.unclear.len() > UNCLEAR_COUNT_MAX {
            self.clear_up(None);
        }
    }

    fn run(&mut self, input: Input, group: Option<Group>) {
        // The trace begins with the count or the reset of a transaction. Only now does the journal
        // turn out to have a body.
        if let (true, Input::Log, Some(draft), Some(group)) =
            (self.is_first, input, &mut self.draft, &group)
        {
            draft.is_partial |= draft.is_one_page && !draft.is_new && group.holds(draft.header);
        }
        let row = transition(self.state, input);
        let from = self.state;
        self.state = row.to;
        match (row.action, group) {
            (Action::Begin, Some(group)) => self.begin(group, input),
            (Action::Next, Some(group)) => {
                self.close(Outcome::Committed);
                self.begin(group, input);
            }
            (Action::RolledBackNext, Some(group)) => {
                self.close(Outcome::RolledBack);
                self.begin(group, input);
            }
            (Action::Extend, Some(group)) => {
                if let Some(draft) = &mut self.draft {
                    draft.counted |= row.to == State::Counted;
                    draft.extend(group, input);
                }
            }
            (Action::Close, Some(group)) => {
                if let Some(draft) = &mut self.draft {
                    draft.is_partial |= from == State::Bare;
                    draft.reset(group, input);
                }
                self.close(Outcome::Committed);
            }
            (Action::RollBack, Some(group)) => {
                if let Some(draft) = &mut self.draft {
                    draft.reset(group, input);
                }
                self.close(Outcome::RolledBack);
            }
            (Action::Checkpoint, Some(group)) => {
                if let Some(draft) = &mut self.draft {
                    draft.add_checkpoint(group);
                }
            }
            (Action::Hold, Some(group)) => self.held.push(group),
            (Action::Split(ended), group) => self.split(ended, input, group),
            (Action::Finish, _) => self.close(Outcome::Committed),
            (Action::Abandon, _) => {
                if let Some(draft) = self.draft.take() {
                    // Headers alone are no part of a transaction.
                    self.leave_out(&draft);
                    self.partial_count -= u64::from(draft.is_headers);
                }
            }
            (Action::Leave, Some(group)) => {
                self.close(Outcome::Committed);
                self.stray(&group);
            }
            (Action::Stray, Some(group)) => self.stray(&group),
            (_, None) => {}
        }
    }

    fn split(&mut self, ended: usize, input: Input, group: Option<Group>) {
        let mut held = std::mem::take(&mut self.held);
        let next = held.split_off(ended.min(held.len()));
        if let Some(draft) = &mut self.draft {
            for group in held {
                draft.reset(group, Input::Header);
            }
        }
        self.close(Outcome::Committed);
        self.state = State::Idle;
        for group in next {
            self.run(Input::Page, Some(group));
        }
        self.run(input, group);
    }

    fn begin(&mut self, group: Group, input: Input) {
        if group.role == Role::Journal {
            self.header = Some(group.first_sector());
            self.shares_page = input == Input::Page;
        }
        if group.joint.is_some() {
            self.last_joint = group.joint;
        }
        let mut draft = Draft::begin(group, input);
        draft.shows_locks = self.shows_locks;
        draft.carries = std::mem::take(&mut self.carried_count) > 0;
        self.draft = Some(draft);
    }

    fn stray(&mut self, group: &Group) {
        self.rest.0 += group.traffic;
        self.rest.1 += group.flushes;
    }

    fn leave_out(&mut self, draft: &Draft) {
        self.partial_count += 1;
        self.rest.0 += draft.traffic;
        self.rest.1 += draft.flushes;
    }

    fn close(&mut self, outcome: Outcome) {
        let Some(mut draft) = self.draft.take() else { return };
        self.is_first = false;
        draft.outcome = outcome;
        // A database was written behind its log, and the trace shows nothing of the log. The write
        // is the end of a checkpoint or of a transaction.
        if draft.is_partial || draft.kind == Kind::Bare && (self.has_journal || !draft.synced) {
            self.leave_out(&draft);
        } else {
            self.finished.push(draft);
        }
    }
}

fn is_synced(group: &Group) -> bool {
    group.synced_ns.is_some()
}

/// The write does not belong to the group any more.
fn ends_before(group: &Group, role: Role, request: &Request, context: Context) -> bool {
    if group.role != role {
        return true;
    }
    if group.synced_ns.is_some() {
        // A thread's writes to a log under one lock are one transaction, however often it
        // synchronizes.
        return group.lock_ns.is_none() || group.lock_ns != context.lock_ns;
    }
    // Nothing in the trace shows this sync. A page that is written again was waited for.
    let is_hidden =
        !context.shows_syncs || !context.shows_calls && group.traffic.fs_journal.bytes > 0;
    is_hidden
        && group.data_done_ns <= request.begin_ns
        && group.holds(request.sector)
        && !request.is_call
}
