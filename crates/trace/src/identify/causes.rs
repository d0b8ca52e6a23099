//! Finds out who caused a flush, a commit, metadata or a sync call, and tells the owner. The rules
//! are in `attach`.

use super::Identifier;
use super::attach::{Cause, Window};
use super::files::Role;
use super::meanings::File;
use super::nameless::Step;
use super::requests::Request;
use super::traffic::Class;
use super::waiters::Owner;
use crate::model::{Actor, DeviceId, NameId, Names};

impl Identifier {
    /// The sync call that `thread` is in, if it may be one for `device`.
    pub(super) fn window(&self, thread: u32, device: DeviceId) -> Option<Window> {
        let window = *self.attach.window(thread)?;
        let devices = &self.requests.devices;
        let of = devices.of(window.device);
        (of == device || !devices.is_block(of)).then_some(window)
    }

    /// The thread writes data to `device` inside a call. `device` is therefore the device of the
    /// file system, whatever number its inodes carry.
    pub(super) fn learn_device(&mut self, thread: u32, device: DeviceId) {
        if let Some(window) = self.window(thread, device)
            && window.device != device
        {
            self.requests.devices.add_alias(window.device, device);
            self.follow_renamed();
        }
    }

    /// Follows devices that have turned out to be others by another name.
    pub(super) fn follow_renamed(&mut self) {
        for (device, to) in self.requests.devices.take_new_aliases() {
            self.attach.rename(device, to);
            for known in self.databases.iter_mut().filter(|known| known.device == Some(device)) {
                known.device = Some(to);
            }
        }
    }

    /// Gives the sync call in which `thread` writes to `owner`, if the trace did not say whose it
    /// is. Returns when the call began.
    pub(super) fn own_window(
        &mut self,
        thread: Option<u32>,
        device: DeviceId,
        owner: Owner,
        role: Role,
    ) -> Option<u64> {
        let thread = thread?;
        let mut window = self.window(thread, device)?;
        if window.owner.is_none() {
            window.owner = Some(owner);
            window.role = Some(role);
            self.attach.enter(thread, window);
        }
        (window.owner == Some(owner) && window.role == Some(role)).then_some(window.enter_ns)
    }

    /// The owner of what `thread` sends. `is_commit`: of the file system's journal.
    fn owner(
        &mut self,
        device: DeviceId,
        time_ns: u64,
        thread: Option<u32>,
        is_commit: bool,
    ) -> Option<Owner> {
        if let Some(window) = thread.and_then(|thread| self.window(thread, device)) {
            return window.owner;
        }
        self.attach.owner(device, time_ns, thread, is_commit)
    }

    pub(super) fn flush(&mut self, request: Request, thread: Option<u32>) {
        let device = request.device;
        self.attach.show_flushes(device);
        match self.owner(device, request.begin_ns, thread, false) {
            Some(owner) => {
                self.attach_to(owner, Class::Db, request);
                if !self.attach.shows_calls(device) {
                    self.flushed(owner, thread, request.done_ns);
                }
            }
            None => self.summary.add_flush(&request),
        }
    }

    /// A write of the file system's journal or of metadata.
    pub(super) fn caused(&mut self, class: Class, request: Request, cause: Cause) {
        let device = request.device;
        let (is_commit, thread) = match cause {
            Cause::Commit(thread) => {
                (true, thread.filter(|&thread| self.window(thread, device).is_some()))
            }
            Cause::Thread(thread) => (false, thread),
        };
        let owner = self
            .owner(device, request.begin_ns, thread, is_commit)
            .filter(|_| is_commit || thread.is_some());
        let Some(owner) = owner else {
            self.summary.add(Some(class), &request);
            if !is_commit && thread.is_some() && request.flags.sync {
                self.attach.other_wrote(device, request.done_ns);
            }
            return;
        };
        self.attach_to(owner, class, request);
        if is_commit
            && !self.attach.shows_calls(device)
            && (request.flags.preflush || request.flags.fua)
        {
            self.flushed(owner, None, request.done_ns);
        }
    }

    pub(super) fn attach_to(&mut self, owner: Owner, class: Class, request: Request) {
        match owner {
            Owner::Track(index) => self.change(index, |track| track.attach(class, &request)),
            Owner::Joint(number) => {
                self.joints.attach(number, class, &request);
                self.joint_is_busy(number);
            }
            Owner::Thread(device, thread) => {
                self.nameless.step((device, thread), Step::Attach(class, request))
            }
        }
    }

    pub(super) fn flushed(&mut self, owner: Owner, thread: Option<u32>, time_ns: u64) {
        match owner {
            Owner::Track(index) => self.change(index, |track| track.flushed(thread, time_ns)),
            Owner::Joint(_) => {}
            Owner::Thread(device, thread) => {
                self.nameless.step((device, thread), Step::Flushed(time_ns))
            }
        }
    }

    pub(super) fn sync_enter(
        &mut self,
        time_ns: u64,
        actor: Actor,
        file: Option<NameId>,
        device: DeviceId,
        names: &Names,
    ) {
        let mut device = self.requests.devices.of(device);
        let of = file.and_then(|file| self.file(file, names));
        if let Some(File::Of(index, _)) = of
            && let Some(known) = self.databases[index].device
            && !self.requests.devices.is_block(device)
        {
            self.requests.devices.add_alias(device, known);
            self.follow_renamed();
            device = known;
        }
        self.attach.show_calls(device);
        let (owner, role) = match of {
            Some(File::Of(index, role)) => {
                if matches!(role, Role::Wal | Role::EagerLog | Role::WaldioLog) {
                    self.unsynced.sync(index, actor.thread);
                }
                (Some(Owner::Track(index)), Some(role))
            }
            Some(File::SuperJournal(_)) => (None, Some(Role::SuperJournal)),
            None => {
                let folder = file.map(|file| names.text(file));
                (
                    folder.and_then(|folder| self.in_folder(folder, device, actor.thread, time_ns)),
                    None,
                )
            }
        };
        self.attach.enter(actor.thread, Window { enter_ns: time_ns, device, owner, role, file });
    }

    pub(super) fn sync_exit(
        &mut self,
        time_ns: u64,
        actor: Actor,
        file: Option<NameId>,
        names: &Names,
    ) {
        let window = self
            .attach
            .exit(actor.thread)
            .map(|window| (window.owner, window.role))
            .unwrap_or_else(|| match file.and_then(|file| self.file(file, names)) {
                Some(File::Of(index, role)) => (Some(Owner::Track(index)), Some(role)),
                _ => (None, None),
            });
        match window {
            (Some(Owner::Track(index)), Some(role)) => {
                if matches!(role, Role::Wal | Role::EagerLog | Role::WaldioLog) {
                    self.unsynced.synced(index, actor.thread, time_ns);
                }
                self.change(index, |track| track.file_synced(role, time_ns));
            }
            (Some(Owner::Track(index)), None) => {
                self.change(index, |track| track.folder_synced(time_ns))
            }
            (Some(Owner::Thread(device, thread)), _) => {
                self.nameless.step((device, thread), Step::Flushed(time_ns))
            }
            (Some(Owner::Joint(_)) | None, _) => {}
        }
    }

    /// The owner in this folder with which the thread was last busy.
    pub(super) fn in_folder(
        &self,
        folder: &str,
        device: DeviceId,
        thread: u32,
        time_ns: u64,
    ) -> Option<Owner> {
        let folder = folder.strip_suffix('/').filter(|stem| !stem.is_empty()).unwrap_or(folder);
        let track = self
            .databases
            .folder(folder)
            .and_then(|number| self.attach.in_folder(device, thread, number, time_ns));
        let joint =
            self.joints.open(thread, time_ns).map(|number| (self.joints.done_ns(number), number));
        match (track, joint) {
            (Some((track_ns, _)), Some((joint_ns, number))) if joint_ns > track_ns => {
                Some(Owner::Joint(number))
            }
            (None, Some((_, number))) => Some(Owner::Joint(number)),
            (track, _) => track.map(|found| found.1),
        }
    }
}
