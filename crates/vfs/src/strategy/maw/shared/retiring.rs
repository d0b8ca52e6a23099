//! The end of a log: a transaction goes another way, or the last connection closes.

use std::time::Duration;

use super::{MawLog, State, StateGuard};
use crate::error::{Code, Error};
use crate::names::maw_path;
use crate::port::{Below, LockLevel, SyncRequest};
use crate::strategy::guard;
use crate::strategy::log_life::KeptLog;
use crate::strategy::maw::OpenLog;
use crate::strategy::maw::linked::{self, Linked};
use crate::strategy::maw::log_lock::{must_be_whole, under_lock};
use crate::sync::lock;

/// How long a commit waits for another database to leave the log. SQLite takes no "busy" there any
/// more, only an I/O error. Who has that database locked may wait for this one, until its busy
/// timeout.
const LEAVE_PATIENCE: Duration = Duration::from_secs(2);

impl MawLog {
    /// A transaction goes another way: the pages will be written in place with a journal of
    /// SQLite's own, or without any. Before that the log is retired, for a replay would undo them.
    /// SQLite has the database reserved at least.
    pub fn before_in_place(&self, main: &dyn Below) -> Result<(), Error> {
        self.is_own()?;
        let mut state = self.state();
        if state.open.is_none() {
            return Ok(());
        }
        self.has_not_panicked()?;
        self.retire(&mut state, main, LEAVE_PATIENCE)
    }

    /// Ends the log, takes the guard away, and removes board and log. A log that another database
    /// needs is set aside as it is (invariant 3 of [`linked`](super::linked)).
    fn retire(&self, state: &mut State, main: &dyn Below, patience: Duration) -> Result<(), Error> {
        let State { open, board, .. } = state;
        let Some(log) = open else { return Ok(()) };
        must_be_whole(board)?;
        log.follow(board);
        let missing = self.let_others_leave(log, board, &[], patience)?;
        let (uuid, link) = (log.log.uuid(), board.linked_behind());
        under_lock(board, || {
            log.follow(board);
            let ended = main.sync(SyncRequest::ALL).and_then(|()| {
                board.set_busy(true);
                let end = || if missing.is_empty() { log.end(main) } else { Ok(()) };
                let taken = self.life.hide_guard(board, uuid, main, end);
                if taken.is_ok() {
                    board.set_linked(None);
                    log.show(board);
                }
                board.set_busy(false);
                taken
            });
            ended.inspect_err(|&code| self.log_failed(board, log, code))
        })?;
        self.syncer.forget();
        state.detach();
        state.retired += 1;
        self.has_own_commits(uuid, link);
        if missing.is_empty() {
            return Ok(self.life.remove()?);
        }
        let aside = self.life.keep_aside(uuid)?;
        self.life.files.warn(&format!(
            "oneflush: {aside}: this log stays, for it has commits of {missing}. If it is back, \
                open it or recover it; if it is gone for good: oneflush recover {} --forget FILE \
                [OF-227]",
            self.life.path,
            missing = missing.join(", ")
        ));
        Ok(())
    }

    /// A connection is about to close the database file. The last one of all processes retires the
    /// log. `level` is its lock on the database. `retires`: the connections of this process that
    /// are still open do not count, for it is about to end.
    pub fn closed(&self, main: &dyn Below, level: LockLevel, retires: bool) {
        if self.process != std::process::id() {
            return;
        }
        let mut state = self.state();
        state.users -= 1;
        if state.users > 0 && !retires {
            return;
        }
        self.syncer.stop();
        if state.open.is_some() {
            self.close_log(state, main, level);
        } else {
            drop(state);
        }
        let aside = lock(&self.aside).take();
        if let Some((database, log)) = aside {
            let _ = linked::remove_aside(&database, &log, &self.life.files);
        }
    }

    fn close_log(&self, mut state: StateGuard<'_>, main: &dyn Below, level: LockLevel) {
        let (link, uuid) = (state.link().ok().flatten(), state.uuid());
        let mut has_retired = false;
        if state.board.failure().is_none() {
            // Whoever fails here leaves the log to the next opener.
            has_retired = self.retire_last(&mut state, main, level).is_ok_and(|retired| retired);
        }
        state.detach();
        drop(state);
        let linked = link.filter(|_| has_retired).zip(uuid);
        let linked = linked.and_then(|(link, uuid)| self.linked_log(&link, uuid).ok());
        // The other database may have been closed before, and its log left for this one.
        if let Some(Linked { database, path, .. }) = linked.filter(|linked| linked.may_be_touched) {
            if path == maw_path(&database) {
                let _ = self.life.files.recover(&database, OpenLog::STRATEGY);
            } else {
                self.note_aside(database, path);
            }
        }
    }

    fn retire_last(
        &self,
        state: &mut State,
        main: &dyn Below,
        level: LockLevel,
    ) -> Result<bool, Error> {
        if level < LockLevel::Shared {
            main.lock(LockLevel::Shared)?;
        }
        let result = self.retire_locked(state, main);
        main.unlock(LockLevel::None)?;
        result
    }

    fn retire_locked(&self, state: &mut State, main: &dyn Below) -> Result<bool, Error> {
        // Another process may have retired the log, or died with `Busy` set.
        let header = guard::header(main)?;
        let is_ours =
            state.open.as_ref().is_some_and(|log| guard::of(&header) == Some(log.log.uuid()));
        if !is_ours || state.board.is_busy() {
            return Ok(false);
        }
        main.lock(LockLevel::Exclusive)?;
        let common = state.board.clone();
        let is_alone = || -> Result<bool, Code> {
            under_lock(&common, || {
                common.common().leave();
                let alone = common.common().be_alone();
                let used = common.common().begin_use();
                common.common().show_use();
                used?;
                alone
            })
        };
        if !is_alone()? {
            return Ok(false);
        }
        self.retire(state, main, Duration::ZERO)?;
        Ok(true)
    }
}
