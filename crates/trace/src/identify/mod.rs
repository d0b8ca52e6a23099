//! Finds the single SQLite transactions in a trace, without being told the journal mode. The method
//! is that of "On the IO characteristics of the SQLite transactions" (MobileSoft'16, section 3),
//! with what the paper leaves out.
//!
//! ```text
//! events → requests   one request from the events of its life, in order    requests.rs
//!                     and of one write at devices that lie on each other   requests/layers.rs
//!        → files      which file is what                                   files.rs
//!                     without names: by sectors and pattern                nameless.rs
//!        → attach     who caused a flush, a journal commit, metadata       attach.rs, waiters.rs,
//!                                                                          causes.rs
//!        → groups     writes to one file between two synchronizations      group.rs
//!        → machine    one table of states and transitions, per database    table.rs, track.rs,
//!                                                                          draft.rs
//!        → decision   mode and synchronization from several transactions   decide.rs
//!        → unsynced   commits that others synchronize or nobody, by locks  unsynced.rs, locks.rs
//!        → committers records of our own log that are commits, by the lock committers.rs
//!        → joints     transactions over several databases                  joint.rs, complete.rs
//! ```
//!
//! Everything is streaming. The state grows with the number of databases and threads, not with the
//! length of the trace. Each database keeps at most three transactions:
//!
//! | kept | until |
//! |---|---|
//! | the open one | it is complete |
//! | the last one | the next begins, because what it caused may still come |
//! | the first one | the second decides |
//!
//! The time for an event grows with the logarithm of these numbers. Nothing here may look at all
//! databases for one event.
//!
//! Differences to the paper:
//! - Databases are told apart by their path alone. A lock lets only one process write at a time,
//!   and the kernel's write-back writes for all.
//! - The requests of each class and the flushes are counted.
//! - A transaction with an open end or beginning is counted (`partial_count`) and not handed out.
//! - The single commits of WAL and NORMAL are told where the trace has SQLite's locks.
//!
//! What block I/O cannot show:
//! - without locks, how many commits of WAL and NORMAL a checkpoint synchronizes at once;
//! - whether a transaction whose cache had spilled was rolled back or committed;
//! - `synchronous=EXTRA` outside the mode `DELETE`.

mod access;
mod attach;
mod causes;
mod committers;
mod complete;
mod databases;
mod decide;
mod draft;
mod files;
mod group;
mod joint;
mod locks;
mod lsmvbt;
mod meanings;
mod nameless;
mod ranges;
mod requests;
mod silences;
mod table;
mod track;
mod traffic;
mod transaction;
mod unsynced;
mod waiters;

use std::collections::VecDeque;

pub use access::{ACCESSES_COUNT_MAX, Access};
pub use requests::{Counted, Layer};
pub use traffic::{Amount, Class, Traffic};
pub use transaction::{
    Confidence, Database, JournalMode, Landmark, Outcome, Phases, Process, Reason, Synchronous,
    Transaction,
};

use crate::model::{Action, Content, DeviceId, Event, NameId, Names};
use attach::{Attach, Cause, Window};
use databases::{Databases, Known};
use files::{Role, Writer};
use joint::Joints;
use lsmvbt::Layout;
use meanings::{File, Meanings};
use nameless::{Found, Nameless, Step};
use requests::{Item, Removal, Request, Requests};
use silences::Silences;
use track::{Context, Track};
use unsynced::Unsynced;
use waiters::Owner;

/// What belongs to no transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Transactions of which the trace holds only the end or the beginning.
    pub partial_count: u64,
    /// Traffic of the partial transactions, and other writes to SQLite's files outside of
    /// transactions.
    pub partial: Traffic,
    /// Writes to files that are not SQLite's.
    pub other: Amount,
    /// Requests of the file system that no transaction has caused.
    pub fs_journal: Amount,
    pub metadata: Amount,
    pub flushes: u64,
}

/// What rows of a trace can have: a figure that was not observed, or has no time, is null.
#[derive(Clone, Copy, Debug, Default)]
pub struct Scope {
    pub observed: Observed,
    pub has_times: bool,
}

/// What a trace can show at all. A figure that nobody observed is not 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Observed {
    /// Requests of a device: flushes, the file system's journal and metadata.
    pub device: bool,
    /// Numbers of devices. MOST's format has none, and therefore no layers.
    pub numbers: bool,
    /// Events by which a thread asks a device for a request.
    pub queues: bool,
    /// Writes were seen, but no end of a write at a device that lies on no other.
    pub lacks_ends: bool,
    /// Sync calls.
    pub syncs: bool,
    /// Calls that write files.
    pub calls: bool,
    /// Files with their names.
    pub names: bool,
    /// Files of SQLite's were seen, but none of them was written at a device.
    pub unwritten: bool,
}

impl Observed {
    fn see(&mut self, Event { action, device, .. }: Event) {
        self.numbers |= device != DeviceId::default();
        self.queues |= action == Action::Queue;
        self.device |=
            matches!(action, Action::Queue | Action::Insert | Action::Issue | Action::Complete);
        self.calls |= action == Action::FileWrite;
        self.syncs |= matches!(action, Action::SyncEnter | Action::SyncExit);
    }
}

impl Summary {
    /// Adds a write that no transaction has caused.
    fn add(&mut self, class: Option<Class>, request: &Request) {
        self.flushes += request.flushes;
        *(match class {
            Some(Class::FsJournal) => &mut self.fs_journal,
            Some(Class::Metadata) => &mut self.metadata,
            _ => &mut self.other,
        }) += request.amount();
    }

    /// Adds a flush that no transaction has caused, and the writes that a loop device made of it
    /// below.
    fn add_flush(&mut self, request: &Request) {
        self.flushes += request.flushes;
        self.other += request.data;
        self.fs_journal += request.meta;
    }
}

/// Takes events in the order of time and hands out transactions as they become complete. That order
/// is not quite the order of their beginnings.
#[derive(Default)]
pub struct Identifier {
    requests: Requests,
    attach: Attach,
    databases: Databases,
    meanings: Meanings,
    nameless: Nameless,
    joints: Joints,
    unsynced: Unsynced,
    ready: VecDeque<Transaction>,
    silences: Silences,
    blocks_seen: bool,
    observed: Observed,
    summary: Summary,
}

impl Identifier {
    pub fn new() -> Identifier {
        Identifier::default()
    }

    pub fn push(&mut self, event: &Event, names: &Names) {
        if let Action::Lsmvbt { page_bytes, offset } = event.action {
            return self.lsmvbt(event, (page_bytes, offset), names);
        }
        if !event.has_time() {
            return self.requests.push(event, false);
        }
        self.silences.see(event.time_ns);
        let is_kernels = self.meanings.writer(event.actor.name, names) != Writer::Program;
        self.requests.push(event, is_kernels);
        self.observed.see(*event);
        self.follow_renamed();
        while let Some(item) = self.requests.pop() {
            self.take(item, names);
        }
    }

    /// What a file is counts for the requests that come behind the word.
    fn lsmvbt(&mut self, event: &Event, (page_bytes, offset): (u32, u32), names: &Names) {
        while let Some(item) = self.requests.pop() {
            self.take(item, names);
        }
        let Some(file) = event.file else { return };
        let databases = &mut self.databases;
        if let Some(index) = self.meanings.is_lsmvbt(file, names, databases, page_bytes > 0) {
            let layout = &mut databases[index].track.layout;
            if offset == 0 {
                *layout = Some(Layout::new(page_bytes));
            }
            if let Some(layout) = layout {
                layout.add(offset.into(), event.sector, event.bytes);
            }
        }
    }

    /// Counts bytes, requests and flushes at this layer. To be called before the first event.
    pub fn count_at(mut self, layer: Layer) -> Identifier {
        self.requests.layer = layer;
        self
    }

    /// Keeps the single requests of each transaction ([`Transaction::accesses`]). To be called
    /// before the first event.
    pub fn keep_accesses(mut self) -> Identifier {
        self.databases.keeps_accesses = true;
        self.joints.keeps_accesses = true;
        self
    }

    /// What an event that was pushed adds to the load of the devices that count.
    pub fn counts(&self, event: &Event) -> Counted {
        self.requests.counts(event)
    }

    /// What the trace has shown so far.
    pub fn observed(&self) -> Observed {
        let unwritten =
            self.databases.count() > 0 && self.databases.iter().all(|known| known.device.is_none());
        Observed {
            lacks_ends: self.requests.lacks_ends(),
            names: self.meanings.names_seen,
            unwritten,
            ..self.observed
        }
    }

    /// Each device that lies on others, with those others, as far as the trace has said so.
    pub fn stacks(&self) -> Vec<(DeviceId, Vec<DeviceId>)> {
        self.requests.devices.stacks()
    }

    /// Devices that seem to lie on others or under one, while the trace does not say on which.
    pub fn untied_devices(&self) -> Vec<DeviceId> {
        self.requests.untied_devices()
    }

    /// Databases that were written with the strategy `plain`: a WAL is kept, or a thread of `plain`
    /// has written.
    pub fn plain_databases(&self) -> Vec<String> {
        let is_plain = |known: &&Known| known.track.is_plain;
        self.databases
            .iter()
            .filter(is_plain)
            .map(|known| known.track.database.to_string())
            .collect()
    }

    /// The next complete transaction.
    pub fn next_transaction(&mut self) -> Option<Transaction> {
        self.ready.pop_front()
    }

    /// What belongs to no transaction so far. What is still open may yet join it.
    pub fn summary(&self) -> Summary {
        let mut summary = self.summary;
        for Known { track, .. } in self.databases.iter() {
            summary.partial_count += track.partial_count;
            summary.partial += track.rest.0;
            summary.flushes += track.rest.1;
        }
        summary
    }

    /// The trace has ended. Returns the transactions that are left, and what belongs to none.
    pub fn finish(mut self, names: &Names) -> (Vec<Transaction>, Summary) {
        while let Some(item) = self.requests.drain() {
            self.take(item, names);
        }
        let found = self.nameless.finish();
        self.place_found(found);
        self.leave_out_nameless();
        self.finish_unsynced();
        for index in 0..self.databases.count() {
            let context = self.context(self.databases[index].device.unwrap_or_default());
            self.databases[index].track.finish(context);
            self.collect(index);
            let judged = self.databases[index].history.finish();
            self.hand_out(index, judged);
        }
        let mut summary = self.summary();
        let (joint, lonely) = self.joints.finish();
        summary.partial += lonely.0;
        summary.flushes += lonely.1;
        self.ready.extend(joint);
        (self.ready.into(), summary)
    }

    fn take(&mut self, item: Item, names: &Names) {
        match item {
            Item::Write(request) => self.write(request, names),
            Item::SyncEnter { time_ns, actor, file, device } => {
                self.sync_enter(time_ns, actor, file, device, names)
            }
            Item::SyncExit { time_ns, actor, file } => self.sync_exit(time_ns, actor, file, names),
            Item::Removed { time_ns, file, removal } => self.removed(file, removal, time_ns, names),
            Item::WriteLock { time_ns, actor, file } => {
                self.write_lock(time_ns, actor, file, names)
            }
            Item::WriteUnlock { time_ns, actor, file } => {
                self.write_unlock(time_ns, actor, file, names)
            }
            Item::WalWrite { actor, file, offset } => self.wal_write(actor, file, offset, names),
        }
    }

    fn removed(&mut self, file: Option<NameId>, removal: Removal, time_ns: u64, names: &Names) {
        match file.and_then(|file| self.file(file, names)) {
            Some(File::Of(index, Role::Journal)) => {
                self.change(index, |track| track.journal_removed(removal, time_ns))
            }
            Some(File::Of(index, Role::EagerLog)) if removal == Removal::Deleted => {
                self.change(index, Track::log_deleted);
            }
            Some(File::Of(index, Role::Shm)) if removal == Removal::Deleted => {
                self.change(index, Track::index_deleted);
            }
            _ => {}
        }
    }

    fn write(&mut self, request: Request, names: &Names) {
        if request.is_call && self.blocks_seen {
            return;
        }
        self.blocks_seen |= !request.is_call;
        let writer = self.meanings.writer(request.actor.name, names);
        let thread = (writer == Writer::Program).then_some(request.actor.thread);
        if request.bytes == 0 && !request.is_call {
            return self.flush(request, thread);
        }
        let file = request.file.and_then(|file| self.file(file, names));
        let by_journal_thread = writer == Writer::FileSystemJournal && request.file.is_none();
        let by_checkpoint = writer == Writer::FileSystemCheckpoint;
        let metadata = if by_checkpoint { Cause::Commit(None) } else { Cause::Thread(thread) };
        match request.content {
            Some(Content::Journal) => self.caused(Class::FsJournal, request, Cause::Commit(thread)),
            Some(Content::Metadata) => self.caused(Class::Metadata, request, metadata),
            _ if by_journal_thread => self.caused(Class::FsJournal, request, Cause::Commit(None)),
            _ if (request.flags.meta || by_checkpoint) && file.is_none() => {
                self.caused(Class::Metadata, request, metadata);
            }
            _ => self.data(request, file, thread, names),
        }
    }

    /// A write of data: to one of SQLite's files, or to another.
    fn data(&mut self, request: Request, file: Option<File>, thread: Option<u32>, names: &Names) {
        let device = request.device;
        if let Some(thread) = thread {
            self.learn_device(thread, device);
        }
        let window = thread.and_then(|thread| self.window(thread, device));
        let of_window = match window {
            Some(Window { file: Some(file), .. }) if request.file.is_none() => {
                self.file(file, names)
            }
            _ => None,
        };
        match (file.or(of_window), thread) {
            (Some(File::Of(index, role)), _) => {
                let name = request.actor.name.map(|name| names.text(name));
                self.databases[index].track.is_plain |= role == Role::Wal
                    && (name == Some(files::CHECKPOINTER)
                        || request.file.is_some_and(|file| files::is_kept(names.text(file))));
                let owner = Owner::Track(index);
                self.is_written_at(index, device);
                let context = Context {
                    sync_enter_ns: self.own_window(thread, device, owner, role),
                    is_outside_of_syncs: self.attach.shows_calls(device)
                        && window.is_none()
                        && !request.is_call,
                    lock_ns: thread.and_then(|thread| self.unsynced.lock_ns(index, thread)),
                    ..self.context(device)
                };
                if let (Role::WaldioLog, Some(thread)) = (role, thread) {
                    self.log_write(index, thread, None);
                }
                self.track_write(index, role, &request, thread, context);
            }
            (Some(File::SuperJournal(main)), _) => {
                let (number, given_up) = self.joints.write(&main, &request);
                if let Some((given_up, at)) = given_up {
                    self.attach.set_busy(at, Owner::Joint(given_up), None);
                }
                self.joint_is_busy(number);
                self.own_window(thread, device, Owner::Joint(number), Role::SuperJournal);
            }
            (None, Some(thread)) if !self.meanings.names_seen => {
                self.own_window(
                    Some(thread),
                    device,
                    Owner::Thread(device, thread),
                    Role::Database,
                );
                let waits_show = !self.attach.shows_syncs(device);
                let (found, given_up) = self.nameless.write((device, thread), request, waits_show);
                for (device, thread) in given_up.into_iter().chain([(device, thread)]) {
                    let busy = self.nameless.busy((device, thread));
                    self.attach.set_busy(device, Owner::Thread(device, thread), busy);
                }
                self.place_found(found);
                self.leave_out_nameless();
            }
            (None, _) => {
                self.summary.other += request.amount();
                if request.flags.sync && thread.is_some() {
                    self.attach.other_wrote(device, request.done_ns);
                }
            }
        }
    }

    fn track_write(
        &mut self,
        index: usize,
        role: Role,
        request: &Request,
        thread: Option<u32>,
        mut context: Context,
    ) {
        // The commit of a large transaction synchronizes the image, and then writes a record about
        // it.
        let role = if role == Role::Image && context.sync_enter_ns.is_some() {
            Role::EagerLog
        } else {
            role
        };
        match role {
            Role::Temp => self.summary.other += request.amount(),
            Role::Image | Role::Shm => self.change(index, |track| track.attach_untimed(request)),
            _ => {
                if let Some(number) =
                    thread.and_then(|thread| self.joints.open(thread, request.begin_ns))
                {
                    self.joints.alive(number, request.done_ns);
                    context.joint =
                        Some(number).filter(|&number| !self.databases[index].track.began(number));
                }
                let actor = request.actor;
                let process = thread.map(|thread| Process {
                    process: actor.process,
                    thread,
                    name: actor.name,
                });
                self.change(index, |track| track.write(role, request, process, context));
                self.collect(index);
            }
        }
    }

    /// Every change of a database goes through here, so that `attach` knows who waits.
    fn change(&mut self, index: usize, change: impl FnOnce(&mut Track)) {
        let Known { track, folder, device, .. } = &mut self.databases[index];
        change(track);
        self.attach.set_busy(device.unwrap_or_default(), Owner::Track(index), track.busy(*folder));
    }

    /// A file of the database is written at this device.
    fn is_written_at(&mut self, index: usize, device: DeviceId) {
        if let Some(before) = self.databases[index].device.replace(device)
            && before != device
        {
            self.attach.set_busy(before, Owner::Track(index), None);
        }
    }

    fn joint_is_busy(&mut self, number: u64) {
        self.attach.set_busy(
            self.joints.device(number),
            Owner::Joint(number),
            self.joints.busy(number),
        );
    }

    fn context(&self, device: DeviceId) -> Context {
        Context {
            shows_syncs: self.attach.shows_syncs(device),
            shows_calls: self.attach.shows_calls(device),
            ..Context::default()
        }
    }

    /// The role of the file, and its database.
    fn file(&mut self, file: NameId, names: &Names) -> Option<File> {
        self.meanings.file(file, names, &mut self.databases)
    }

    /// Takes the groups that `nameless` has found to belong to no database.
    fn leave_out_nameless(&mut self) {
        for step in self.nameless.take_left() {
            let (class, request) = match step {
                Step::Write(request) => (None, request),
                Step::Attach(class, request) => (Some(class), request),
                Step::Flushed(_) => continue,
            };
            if request.bytes == 0 {
                self.summary.add_flush(&request);
                continue;
            }
            self.summary.add(class, &request);
        }
    }

    /// Takes the groups whose database `nameless` has found.
    fn place_found(&mut self, found: Vec<Found>) {
        for Found { place, role, steps } in found {
            let index = self.databases.with_place(place);
            for step in steps {
                match step {
                    Step::Write(request) => {
                        let thread = Some(request.actor.thread);
                        self.is_written_at(index, request.device);
                        self.track_write(
                            index,
                            role,
                            &request,
                            thread,
                            self.context(request.device),
                        );
                    }
                    Step::Attach(class, request) => {
                        self.change(index, |track| track.attach(class, &request))
                    }
                    Step::Flushed(time_ns) => {
                        self.change(index, |track| track.flushed(None, time_ns))
                    }
                }
            }
        }
    }
}
