//! What SQLite's lock for writing, and what its holder wrote, tells a database. The rules are in
//! `unsynced`.

use super::Identifier;
use super::files::Role;
use super::meanings::File;
use super::track::Context;
use super::transaction::Process;
use super::unsynced::Held;
use crate::model::{Actor, NameId, Names};

impl Identifier {
    pub(super) fn write_lock(
        &mut self,
        time_ns: u64,
        actor: Actor,
        file: Option<NameId>,
        names: &Names,
    ) {
        let Some(index) = self.database_of(file, Role::Shm, names) else { return };
        let process = Process { process: actor.process, thread: actor.thread, name: actor.name };
        if let Some(held) = self.unsynced.lock(index, process, time_ns) {
            self.change(index, |track| track.checkpointed(&held));
        }
        for held in self.unsynced.lone(index) {
            self.tell_unsynced(index, &held);
        }
        self.change(index, |track| track.write_lock(actor.thread));
    }

    pub(super) fn write_unlock(
        &mut self,
        time_ns: u64,
        actor: Actor,
        file: Option<NameId>,
        names: &Names,
    ) {
        if let Some(index) = self.database_of(file, Role::Shm, names) {
            let is_hidden = self.databases[index].track.keeps_frames_in_memory();
            self.unsynced.unlock(index, actor.thread, time_ns, is_hidden);
            self.change(index, |track| track.write_unlock(actor.thread));
        }
    }

    pub(super) fn wal_write(
        &mut self,
        actor: Actor,
        file: Option<NameId>,
        offset: u64,
        names: &Names,
    ) {
        let Some(index) = self.database_of(file, Role::Wal, names) else { return };
        self.databases[index].track.shows_locks |=
            self.unsynced.lock_ns(index, actor.thread).is_some();
        self.log_write(index, actor.thread, Some(offset));
    }

    /// A thread writes to a log. `offset`: of a WAL.
    pub(super) fn log_write(&mut self, index: usize, thread: u32, offset: Option<u64>) {
        for held in self.unsynced.log_write(index, thread, offset) {
            self.tell_unsynced(index, &held);
        }
    }

    pub(super) fn finish_unsynced(&mut self) {
        for (index, held, is_checkpointed) in self.unsynced.finish() {
            if is_checkpointed {
                self.change(index, |track| track.checkpointed(&held));
            } else {
                self.tell_unsynced(index, &held);
            }
        }
    }

    fn tell_unsynced(&mut self, index: usize, held: &Held) {
        let context = Context { shows_syncs: true, shows_calls: true, ..Context::default() };
        self.change(index, |track| track.unsynced(held, context));
        self.collect(index);
    }

    fn database_of(&mut self, file: Option<NameId>, wanted: Role, names: &Names) -> Option<usize> {
        match self.file(file?, names)? {
            File::Of(index, role) if role == wanted => Some(index),
            File::Of(..) | File::SuperJournal(_) => None,
        }
    }
}
