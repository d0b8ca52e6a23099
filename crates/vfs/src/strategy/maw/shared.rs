//! The log of one database in this process: attaching, committing, checkpoints, [`retiring`].
//!
//! | step of a commit | what survives a crash after it |
//! |---|---|
//! | 1. `Busy` is set, new pages are written behind the end of the file | nothing of it |
//! | 2. a record is appended: one aligned write, one flush | the transaction |
//! | 3. the pages are written in place, not synced | the transaction |
//! | 4. `Busy` is cleared, SQLite is answered | the transaction |
//!
//! SQLite holds its exclusive lock over all four steps. So a process with a shared lock that finds
//! `Busy` set knows that its owner has died, or has failed to write in place. The file may have
//! half a transaction then. Such a process takes the exclusive lock and replays the log before
//! SQLite reads (rule 5 of `maw`).
//!
//! Step 1 comes before the record, because a full disk must fail the commit and not its writing in
//! place. It comes after `Busy`, because a death in it leaves pages behind the end that the log
//! does not know. A delta against one of them would be wrong.

mod harm;
mod retiring;

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Weak};

use oneflush_blocklog::{Lsn, Uuid, invariant};
use rustc_hash::FxHashMap;
use serde::Serialize;

use super::in_place::{grow_file, header_for_the_log, write_in_place};
use super::left_journal::LastCommit;
use super::linked::Named;
use super::log_lock::{must_be_whole, under_lock};
use super::open_log::{LogCounts, NotAppended, OpenLog};
use super::outcome::Outcome;
use super::overlay::Batch;
use super::record::Link;
use super::replay::{self, Replayed};
use super::syncer::Syncer;
use crate::config::Options;
use crate::engine::Saved;
use crate::error::{Code, Error};
use crate::kill_point::KillPoint;
use crate::mutant::{self, Mutant};
use crate::names::journal_path;
use crate::port::{Below, LockLevel, SyncRequest};
use crate::strategy::board::{Board, Private};
use crate::strategy::guard;
use crate::strategy::log_files::{LogFiles, code_of};
use crate::strategy::log_life::{AttachError, Attached, How, LogLife};
use crate::sync::{Mutex, MutexGuard, lock, ranks};

/// The log of one database in this process.
pub struct MawLog {
    life: LogLife<OpenLog>,
    process: u32,
    state: Mutex<State, { ranks::MAW_LOG }>,
    counts: Mutex<Counts>,
    /// For providers that are no log.
    pub last_commit: LastCommit,
    syncer: Arc<Syncer>,
    /// The database that the last link of this process leads to, its log, and behind which record.
    followed: Mutex<(Weak<MawLog>, Uuid, Lsn)>,
    /// Databases that this process has seen leave a log of this one: which log, and the link that
    /// they had. Nothing else tells one that was closed and deleted since from one that was moved
    /// away.
    left: Mutex<FxHashMap<Uuid, (Uuid, Lsn)>>,
    /// A database whose log was set aside with commits of this one, and that log.
    aside: Mutex<Option<(String, String)>>,
    pub(crate) saved: Saved,
    /// A connection of this process has written, or was about to.
    has_written: AtomicBool,
    /// A panic was stopped in this process. It commits nothing more here.
    has_panicked: AtomicBool,
}

pub struct State {
    /// Connections of this process that are open.
    users: u32,
    /// The first of them has not read yet.
    looks_for_leftovers: bool,
    pub open: Option<OpenLog>,
    pub board: Board,
    /// The link that the board names, if it was read.
    link: Option<Link>,
    /// The database cannot have a log.
    has_no_log: bool,
    replayed: Option<Replayed>,
    counts_before: LogCounts,
    retired: u64,
}

/// Counts of all connections of this process.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Counts {
    /// Transactions that were committed as one batch.
    pub atomic: u64,
    /// Transactions that were committed by one record together with those of other databases.
    pub together: u64,
    /// Transactions that went on as ordinary journaled ones.
    pub ordinary: u64,
    /// Transactions whose end committed nothing: rollbacks, or nothing was changed.
    pub empty: u64,
}

/// What `PRAGMA oneflush_stats` says of the log.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct LogReport {
    #[serde(flatten)]
    pub counts: LogCounts,
    /// How often the log was ended because a transaction went another way, or at a close.
    pub retired: u64,
    pub recovered: Option<Replayed>,
}

fn no_board() -> Board {
    Board::new(Arc::new(Private::default()))
}

pub type StateGuard<'a> = MutexGuard<'a, State, { ranks::MAW_LOG }>;

impl MawLog {
    pub fn new(path: &str, files: Arc<dyn LogFiles>) -> MawLog {
        MawLog {
            life: LogLife::new(path, Arc::clone(&files)),
            process: std::process::id(),
            state: Mutex::new(State {
                users: 0,
                looks_for_leftovers: false,
                open: None,
                board: no_board(),
                link: None,
                has_no_log: false,
                replayed: None,
                counts_before: LogCounts::default(),
                retired: 0,
            }),
            counts: Mutex::default(),
            last_commit: LastCommit::default(),
            syncer: Syncer::new(path, files),
            followed: Mutex::new((Weak::new(), Uuid([0; 16]), Lsn(0))),
            left: Mutex::default(),
            aside: Mutex::default(),
            saved: Saved::default(),
            has_written: AtomicBool::new(false),
            has_panicked: AtomicBool::new(false),
        }
    }

    pub fn path(&self) -> &str {
        &self.life.path
    }

    pub fn life(&self) -> &LogLife<OpenLog> {
        &self.life
    }

    pub fn state(&self) -> StateGuard<'_> {
        lock(&self.state)
    }

    /// `PRAGMA oneflush_checkpoint`: syncs the database file now.
    pub fn checkpoint(&self) -> Result<(), String> {
        let board = {
            let state = self.state();
            state.open.is_some().then(|| state.board.clone())
        };
        let synced = board.map_or(Ok(()), |board| self.syncer.sync(&board));
        synced.map_err(|code| format!("the database file cannot be synced: code {}", code.0))
    }

    /// A write or sync has failed: nothing more is acknowledged.
    #[cold]
    pub fn log_failed(&self, board: &Board, log: &mut OpenLog, code: Code) {
        self.life.log_failed(board, code, log.unsure, log.why_failed.take());
    }

    /// The process ends. A log that no other process uses is retired, if no connection is in a
    /// transaction.
    pub fn retire_at_exit(&self) {
        if self.process == std::process::id() && self.state().open.is_some() {
            let _ = self.life.files.retire(&self.life.path);
        }
    }

    /// An error in a forked child, which has neither the locks of its parent nor its board. A
    /// thread that the child does not have may hold any mutex, so this comes before all of them.
    pub fn is_own(&self) -> Result<(), Error> {
        if self.process == std::process::id() {
            return Ok(());
        }
        Err(self.life.refuse(&AttachError::Inherited))
    }

    /// True if the last commits are in the log of another database.
    pub fn is_linked(&self) -> bool {
        self.state().board.linked_behind().is_some()
    }

    /// This process has linked the database to that log of the other one.
    pub fn follow(&self, other: &Arc<MawLog>, link: &Link) {
        *lock(&self.followed) = (Arc::downgrade(other), link.uuid, link.behind);
    }

    /// The database has left the log that it was linked to behind this record.
    pub fn has_own_commits(&self, uuid: Uuid, link: Option<Lsn>) {
        let (other, log, behind) = lock(&self.followed).clone();
        // Another process may have linked it elsewhere since.
        if let (Some(other), Some(link)) = (other.upgrade(), link.filter(|&link| link == behind)) {
            lock(&other.left).insert(uuid, (log, link));
        }
    }

    /// This database's commits were found in a log that was set aside. It can go once they are in
    /// the database file.
    pub fn note_aside(&self, database: String, log: String) {
        *lock(&self.aside) = Some((database, log));
    }

    /// True if this process has seen that database leave this log, and it has not been linked
    /// again. Each log counts its records anew.
    pub fn has_left(&self, named: &Named, log: Uuid) -> bool {
        let left = lock(&self.left).get(&named.uuid).copied();
        left.is_some_and(|(of, link)| of == log && link >= named.announced)
    }

    pub fn count(&self, count: impl FnOnce(&mut Counts)) {
        count(&mut lock(&self.counts));
    }

    pub fn counts(&self) -> Counts {
        *lock(&self.counts)
    }

    pub fn report(&self) -> LogReport {
        let state = self.state();
        LogReport {
            counts: state.counts_before.plus(state.open.as_ref().map(OpenLog::counts)),
            retired: state.retired,
            recovered: state.replayed,
        }
    }

    /// A connection has opened the database file. A crash may have garbled its header, and the
    /// guard in it. [`MawLog::closed`] must follow.
    pub fn opened(&self, main: &dyn Below) -> Result<(), Error> {
        let mut state = self.state();
        state.looks_for_leftovers |= state.users == 0;
        state.users += 1;
        drop(state);
        self.life.mend_garbled(main)
    }

    /// SQLite has got its shared lock on the database. Brings the file to where the log is, before
    /// SQLite reads.
    pub fn before_reading(&self, main: &dyn Below, options: &Options) -> Result<(), Error> {
        let header = match guard::header(main) {
            Ok(header) => header,
            // A new database.
            Err(Code::SHORT_READ) => [0; guard::HEADER_BYTES],
            Err(code) => return Err(code.into()),
        };
        let wanted = guard::of(&header);
        if wanted.is_some() {
            self.is_own()?;
        }
        let mut state = self.state();
        if state.open.as_ref().is_some_and(|log| Some(log.log.uuid()) != wanted) {
            // Another process has retired the log, and perhaps made a new one.
            self.syncer.forget();
            state.detach();
        }
        if wanted.is_none() {
            if std::mem::take(&mut state.looks_for_leftovers) {
                // They do no harm. The next opener tries again.
                let _ = self.life.clear_leftovers(main, &header);
            }
            return Ok(());
        }
        let brought = match &state.open {
            None => self.join(&mut state, main, options),
            Some(_) if state.board.is_busy() && !mutant::is(Mutant::BusyUnseen) => {
                self.repair(&mut state, main)
            }
            Some(_) => Ok(()),
        };
        brought.map_err(|error| self.life.refuse(&error))
    }

    /// Joins the users of the log that the guard names.
    fn join(
        &self,
        state: &mut State,
        main: &dyn Below,
        options: &Options,
    ) -> Result<(), AttachError> {
        let Attached { log, board, how } = self.life.attach(main, LockLevel::Shared, options)?;
        state.open = Some(log);
        state.board = board;
        match how {
            How::Beside if state.board.is_busy() => {
                let repaired = self.repair(state, main);
                repaired.inspect_err(|_| state.detach())
            }
            How::Beside => Ok(()),
            How::Alone | How::Made => {
                let started = self.start_alone(state, main, main.lock(LockLevel::Exclusive));
                let unlocked = main.unlock(LockLevel::Shared);
                started.and_then(|()| Ok(unlocked?))
            }
        }
    }

    /// Makes board and file ready, or leaves the log. The caller has the board's lock. `locked`:
    /// whether it has the database locked exclusively.
    fn start_alone(
        &self,
        state: &mut State,
        main: &dyn Below,
        locked: Result<(), Code>,
    ) -> Result<(), AttachError> {
        let board = state.board.clone();
        let _locked = board.locked(true);
        let replayed =
            locked.map_err(AttachError::from).and_then(|()| self.replay_alone(state, main));
        if replayed.is_err() {
            state.detach();
            self.life.tidy(&board);
        }
        replayed
    }

    /// This process is alone with the log: makes the board anew, and the file what the log says.
    fn replay_alone(&self, state: &mut State, main: &dyn Below) -> Result<(), AttachError> {
        let State { open, board, replayed, .. } = state;
        let Some(log) = open else { return Err(AttachError::Below(Code::BUSY)) };
        log.unsure = board.begin(log.log.uuid(), log.log.page_bytes() as usize);
        self.replay(log, board, replayed, main)?;
        board.set_sure();
        KillPoint::Rebuilt.reached();
        if board.is_guard_unsure() {
            let header = guard::header(main)?;
            crate::strategy::log_life::write_guard(board, main, &header)?;
        }
        log.show(board);
        board.set_open();
        KillPoint::Opened.reached();
        Ok(())
    }

    /// Brings the file to where the log is, or the log that it is linked to.
    fn replay(
        &self,
        log: &mut OpenLog,
        board: &Board,
        replayed: &mut Option<Replayed>,
        main: &dyn Below,
    ) -> Result<(), AttachError> {
        // The pages are written once more. A sync before that does not cover them: power may be
        // lost while they are written back.
        board.next_generation();
        board.note_unsynced();
        board.note_change_counter(None);
        let (done, link) = {
            let uuid = log.log.uuid();
            replay::run(log, main, &|link, act| self.with_linked(link, uuid, act))?
        };
        board.set_linked(link.map(|link| link.behind));
        // Whoever ends this epoch looks into it.
        board.note_others(log.head.epoch);
        *replayed = Some(done);
        Ok(())
    }

    /// A process has died with `Busy` set, or could not write in place. The caller has the database
    /// locked exclusively.
    fn repair(&self, state: &mut State, main: &dyn Below) -> Result<(), AttachError> {
        exclusively(main, || self.repair_locked(state, main))
    }

    fn repair_locked(&self, state: &mut State, main: &dyn Below) -> Result<(), AttachError> {
        let State { open, board, replayed, .. } = state;
        let Some(log) = open else { return Err(AttachError::Below(Code::BUSY)) };
        under_lock(board, || {
            if !board.is_busy() {
                return Ok(());
            }
            KillPoint::Repairing.reached();
            self.life.files.warn(&format!(
                "oneflush: {}: a process died while it wrote to the log or the database \
                    [OF-224]",
                self.life.path
            ));
            // Its last record may be in the page cache alone, and a flush may have failed.
            log.unsure = board.unsure();
            self.replay(log, board, replayed, main)?;
            log.show(board);
            board.set_busy(false);
            Ok(())
        })
    }

    /// A commit of this connection is in the log only ([`Outcome::InLogOnly`]). Brings it into the
    /// file, before the connection reads on under a lock that it has kept.
    pub fn finish(&self, main: &dyn Below, level: LockLevel) -> Result<(), Error> {
        let mut state = self.state();
        if state.open.is_none() || !state.board.is_busy() {
            return Ok(());
        }
        let finished = match level {
            LockLevel::Exclusive => self.repair_locked(&mut state, main),
            // There is no way back to these. SQLite releases all at the end of the transaction.
            LockLevel::Reserved | LockLevel::Pending => main
                .lock(LockLevel::Exclusive)
                .map_err(AttachError::from)
                .and_then(|()| self.repair_locked(&mut state, main)),
            _ => self.repair(&mut state, main),
        };
        finished.map_err(|error| self.life.refuse(&error))
    }

    /// A process that died with `Busy` set may have had the database only reserved, or shared
    /// (`retire`, `leave`). A connection that was reading meanwhile has not looked since. The
    /// caller has the database locked exclusively.
    pub fn make_whole(&self, state: &mut State, main: &dyn Below) -> Result<(), Error> {
        if state.open.is_none() || state.board.failure().is_some() || !state.board.is_busy() {
            return Ok(());
        }
        self.repair_locked(state, main).map_err(|error| self.life.refuse(&error))
    }

    /// Commits a batch by one record. SQLite has the database locked exclusively.
    pub fn commit(
        &self,
        main: &dyn Below,
        batch: &Batch<'_>,
        options: &Options,
    ) -> Result<Outcome, Error> {
        self.is_own()?;
        let Some(header) = header_for_the_log(main, batch)? else {
            return Ok(Outcome::Declined);
        };
        let mut state = self.state();
        if !self.is_open(&mut state, main, options)? {
            return Ok(Outcome::Declined);
        }
        self.make_whole(&mut state, main)?;
        let State { open, board, .. } = &mut *state;
        let Some(log) = open else { return Err(Error::Below(Code::BUSY)) };
        log.follow(board);
        self.must_be_as_left(board, log, &header, options)?;
        if log.is_long(board) {
            // Their pages must be durable in their own places before this epoch ends.
            self.may_others_leave(log, board, &[])?;
        }
        match under_lock(board, || self.append(log, board, main, batch))? {
            Outcome::Committed => KillPoint::Durable.reached(),
            other => return Ok(other),
        }
        if let Err(code) = write_in_place(log, board, main, batch) {
            return Ok(Outcome::InLogOnly(code));
        }
        KillPoint::InPlace.reached();
        board.set_busy(false);
        self.note_commit(log, board, options);
        Ok(Outcome::Committed)
    }

    /// A commit is in place.
    pub fn note_commit(&self, log: &OpenLog, board: &Board, options: &Options) {
        self.syncer.note(board, log.used_bytes(), options);
    }

    /// Opens or makes the log, if it is not open. False: there can be none. SQLite has the database
    /// locked exclusively.
    pub fn is_open(
        &self,
        state: &mut State,
        main: &dyn Below,
        options: &Options,
    ) -> Result<bool, Error> {
        self.has_not_panicked()?;
        if state.open.is_some() {
            return Ok(true);
        }
        let attached = if state.has_no_log { None } else { self.make(state, main, options)? };
        let Some(Attached { log, board, how }) = attached else { return Ok(false) };
        state.open = Some(log);
        state.board = board;
        if how == How::Made {
            let State { open, board, .. } = &*state;
            open.iter().for_each(|log| log.show(board));
            board.set_open();
            board.common().unlock(0..0);
        } else {
            // An earlier commit of this connection has set the guard and failed. In exclusive
            // locking mode it has read nothing since.
            debug_assert_eq!(how, How::Alone, "nobody else may have set the guard");
            let started = self.start_alone(state, main, Ok(()));
            started.map_err(|error| self.life.refuse(&error))?;
        }
        Ok(true)
    }

    /// False: there is no log, and none can be made here.
    pub fn may_be_used(&self) -> bool {
        self.state().open.is_some() || self.life.files.may_make_files(&self.life.path)
    }

    /// Makes the log and sets the guard. `None`: there can be none, and commits go another way.
    fn make(
        &self,
        state: &mut State,
        main: &dyn Below,
        options: &Options,
    ) -> Result<Option<Attached<OpenLog>>, Error> {
        self.end_journal()?;
        match self.life.attach(main, LockLevel::Exclusive, options) {
            Ok(attached) => Ok(Some(attached)),
            Err(error @ (AttachError::NoGuard(_) | AttachError::BlockSize { .. })) => {
                state.has_no_log = true;
                self.life.refuse(&error);
                Ok(None)
            }
            // A process died between two steps of retiring the log, and another one has not looked
            // at the database since. Until it does, it keeps the old log in use.
            Err(AttachError::OtherBoard) => Ok(None),
            Err(AttachError::Below(Code::READONLY | Code::CANTOPEN)) => Ok(None),
            Err(error) if error.code() == Code::FULL => Ok(None),
            Err(error) => Err(self.life.refuse(&error)),
        }
    }

    /// SQLite has finished the journal that lies here, or its connection would play it back. That
    /// it was cut to nothing need not be durable: with `synchronous=NORMAL` SQLite does not sync
    /// it. After a loss of power it would be hot again, and undo pages below the log's commits.
    fn end_journal(&self) -> Result<(), Error> {
        let (files, path) = (&self.life.files, journal_path(&self.life.path));
        if files.is_there(&path)? {
            files.create_journal(&path)?.sync(SyncRequest::ALL)?;
        }
        Ok(())
    }

    fn append(
        &self,
        log: &mut OpenLog,
        board: &Board,
        main: &dyn Below,
        batch: &Batch<'_>,
    ) -> Result<Outcome, Error> {
        must_be_whole(board)?;
        log.follow(board);
        board.appends_at(&log.head);
        if board.linked_behind().is_some() {
            self.leave(log, board, main)?;
        }
        if log.is_long(board) && !board.has_others(log.head.epoch) {
            if board.synced_lsn() == log.head.lsn {
                log.end_epoch();
            } else {
                self.sync(log, board, main)?;
            }
        }
        board.set_busy(true);
        KillPoint::Busy.reached();
        if let Err(error) = grow_file(main, batch) {
            board.set_busy(false);
            return Err(error);
        }
        let mut appended = log.append(main, batch);
        let may_end = !board.has_others(log.head.epoch);
        if matches!(appended, Ok(Outcome::Declined)) && log.used_bytes() > 0 && may_end {
            let synced = self.sync(log, board, main).map_err(NotAppended::Failed);
            appended = synced.and_then(|()| log.append(main, batch));
        }
        if let Ok(Outcome::Committed) = appended {
            log.show(board);
            return Ok(Outcome::Committed);
        }
        // What was written behind the end is no part of the database. It only takes room.
        let _ = main.truncate(batch.size_bytes_before);
        if let Err(NotAppended::Failed(code)) = appended {
            self.log_failed(board, log, code);
        }
        if appended.is_ok() {
            log.show(board);
        }
        board.set_busy(false);
        Ok(appended?)
    }

    /// Syncs the database file. What the kernel could not write may be gone from its memory, and a
    /// later sync would not say so. The log has it, so the log must not be ended after an error.
    pub fn sync_file(&self, board: &Board, main: &dyn Below) -> Result<(), Code> {
        main.sync(SyncRequest::ALL).inspect_err(|&code| self.life.database_failed(board, code))
    }

    /// The database file becomes durable, and the next record begins an epoch (invariant 2 of the
    /// log).
    pub fn sync(&self, log: &mut OpenLog, board: &Board, main: &dyn Below) -> Result<(), Code> {
        if !mutant::is(Mutant::EpochUnsynced) {
            self.sync_file(board, main)?;
            board.note_synced(log.head.lsn);
        }
        invariant!(
            "M1",
            "an epoch ends when the database file is durable",
            board.synced_lsn() >= log.head.lsn
        );
        log.end_epoch();
        Ok(())
    }
}

impl State {
    /// The UUID of the open log.
    pub fn uuid(&self) -> Option<Uuid> {
        self.open.as_ref().map(|log| log.log.uuid())
    }

    /// The link to another log, if the database has one.
    pub fn link(&mut self) -> Result<Option<Link>, Error> {
        let Some(behind) = self.board.linked_behind() else { return Ok(None) };
        if self.link.as_ref().is_none_or(|link| link.behind != behind)
            && let Some(log) = &self.open
        {
            self.link = log.link().map_err(|error| Error::Below(code_of(&error)))?;
        }
        Ok(self.link.clone())
    }

    /// Forgets the log. Others may use it.
    fn detach(&mut self) {
        self.link = None;
        if let Some(log) = self.open.take() {
            self.counts_before = self.counts_before.plus(Some(log.counts()));
            std::mem::replace(&mut self.board, no_board()).common().leave();
        }
    }
}

/// Runs `act` under the exclusive lock of the database, of which the caller has the shared one.
fn exclusively(
    main: &dyn Below,
    act: impl FnOnce() -> Result<(), AttachError>,
) -> Result<(), AttachError> {
    let locked = main.lock(LockLevel::Exclusive);
    let done = locked.map_err(AttachError::from).and_then(|()| act());
    let unlocked = main.unlock(LockLevel::Shared);
    done.and_then(|()| Ok(unlocked?))
}
