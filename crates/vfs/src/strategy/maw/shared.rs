//! The log of one database in this process: attaching, committing, checkpoints, retirement.
//!
//! | step of a commit | what survives a crash after it |
//! |---|---|
//! | 1. new pages are written behind the end of the file | nothing of the transaction |
//! | 2. `Busy` is set, a record is appended: one aligned write, one flush | the transaction |
//! | 3. the pages are written in place, not synced | the transaction |
//! | 4. `Busy` is cleared, SQLite is answered | the transaction |
//!
//! SQLite holds its exclusive lock over all four steps. So a process with a shared lock that finds
//! `Busy` set knows that its owner has died, or has failed to write in place. The file may have half
//! a transaction then. Such a process takes the exclusive lock and replays the log before SQLite
//! reads (rule 5 of `maw`).
//!
//! Step 1 comes before the record, because a full disk must fail the commit and not its writing in
//! place.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use super::journal::FINISHED_BYTES;
use super::left_journal::LastCommit;
use super::open_log::{LogCounts, OpenLog};
use super::overlay::Batch;
use super::provider::Outcome;
use super::replay::{self, Replayed};
use super::syncer::Syncer;
use crate::config::Options;
use crate::error::{Code, Error};
use crate::kill_point::KillPoint;
use crate::names::journal_path;
use crate::port::{Below, LockLevel, SyncRequest};
use crate::strategy::board::{Board, Private};
use crate::strategy::guard::{self, Mode};
use crate::strategy::log_files::LogFiles;
use crate::strategy::log_life::{AttachError, Attached, How, LogLife};
use crate::strategy::mutant::{self, Mutant};
use crate::sync::{Mutex, MutexGuard, lock};

/// With so many bytes of records in an epoch, a commit syncs the database file first and begins an
/// epoch. The syncer has most of the file written by then. A small log has short epochs.
pub fn epoch_bytes_max(options: &Options) -> u64 {
    (options.log_size_bytes / 8).min(8 << 20)
}

/// An epoch with so many bytes ends for free when the database file happens to be synced.
fn epoch_bytes_min(options: &Options) -> u64 {
    epoch_bytes_max(options) / 8
}

/// How long a commit waits for another process that has the board's lock.
const PATIENCE: Duration = Duration::from_secs(10);

/// The log of one database in this process.
pub struct MawLog {
    life: LogLife<OpenLog>,
    process: u32,
    state: Mutex<State>,
    counts: Mutex<Counts>,
    /// For providers that are no log.
    pub last_commit: LastCommit,
    syncer: Arc<Syncer>,
}

struct State {
    /// Connections of this process that are open.
    users: u32,
    open: Option<OpenLog>,
    board: Board,
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

impl MawLog {
    pub fn new(path: &str, files: Arc<dyn LogFiles>) -> MawLog {
        MawLog {
            life: LogLife::new(path, Arc::clone(&files)),
            process: std::process::id(),
            state: Mutex::new(State {
                users: 0,
                open: None,
                board: no_board(),
                has_no_log: false,
                replayed: None,
                counts_before: LogCounts::default(),
                retired: 0,
            }),
            counts: Mutex::default(),
            last_commit: LastCommit::default(),
            syncer: Syncer::new(path, files),
        }
    }

    pub fn files(&self) -> &dyn LogFiles {
        &*self.life.files
    }

    pub fn path(&self) -> &str {
        &self.life.path
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
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
            counts: state.counts_before.plus(state.open.as_ref().map(|log| log.counts)),
            retired: state.retired,
            recovered: state.replayed,
        }
    }

    /// A connection has opened the database file. A crash may have garbled its header, and the
    /// guard in it. [`MawLog::closed`] must follow.
    pub fn opened(&self, main: &dyn Below) -> Result<(), Error> {
        self.state().users += 1;
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
        let mut state = self.state();
        if state.open.as_ref().is_some_and(|log| Some(log.log.uuid()) != wanted) {
            // Another process has retired the log, and perhaps made a new one.
            state.detach();
        }
        if wanted.is_none() {
            return Ok(());
        }
        if self.process != std::process::id() {
            return Err(self.life.refuse(&AttachError::Inherited));
        }
        let brought = match &state.open {
            None => self.join(&mut state, main, options),
            Some(_) if state.board.is_busy() && !mutant::is(Mutant::BusyUnseen) => {
                exclusively(main, || self.repair(&mut state, main))
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
                let repaired = exclusively(main, || self.repair(state, main));
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
        let replayed =
            locked.map_err(AttachError::from).and_then(|()| self.replay_alone(state, main));
        let board = state.board.clone();
        if replayed.is_err() {
            state.detach();
            self.life.tidy(&board);
        }
        board.common().unlock(0..0);
        replayed
    }

    /// This process is alone with the log: makes the board anew, and the file what the log says.
    fn replay_alone(&self, state: &mut State, main: &dyn Below) -> Result<(), AttachError> {
        let State { open, board, replayed, .. } = state;
        let Some(log) = open else { return Err(AttachError::Below(Code::BUSY)) };
        log.unsure = board.begin(log.log.uuid(), log.log.page_bytes() as usize);
        *replayed = Some(replay::run(log, main)?);
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

    /// A commit of this connection has failed, and it still has the database locked exclusively.
    /// Brings the file to where the log is.
    pub fn settle(&self, main: &dyn Below) -> Result<(), Error> {
        let mut state = self.state();
        if state.open.is_none() || !state.board.is_busy() {
            return Ok(());
        }
        self.repair(&mut state, main).map_err(|error| self.life.refuse(&error))
    }

    /// A process has died with `Busy` set, or could not write in place. The caller has the database
    /// locked exclusively.
    fn repair(&self, state: &mut State, main: &dyn Below) -> Result<(), AttachError> {
        let State { open, board, replayed, .. } = state;
        let Some(log) = open else { return Err(AttachError::Below(Code::BUSY)) };
        {
            if !board.common().lock_unless(0, PATIENCE, &|| false)? {
                return Err(AttachError::Below(Code::BUSY));
            }
            let repaired = if board.is_busy() {
                KillPoint::Repairing.reached();
                self.life.files.warn(&format!(
                    "oneflush: {}: a process died while it wrote to the log or the database \
                        [OF-202]",
                    self.life.path
                ));
                replay::run(log, main).map(|done| {
                    *replayed = Some(done);
                    log.show(board);
                    board.set_busy(false);
                })
            } else {
                Ok(())
            };
            board.common().unlock(0..0);
            repaired
        }
    }

    /// Commits a batch by one record. SQLite has the database locked exclusively.
    pub fn commit(
        &self,
        main: &dyn Below,
        batch: &Batch<'_>,
        options: &Options,
    ) -> Result<Outcome, Error> {
        if !is_for_the_log(main, batch)? {
            return Ok(Outcome::Declined);
        }
        let mut state = self.state();
        if state.open.is_none() {
            let attached =
                if state.has_no_log { None } else { self.make(&mut state, main, options)? };
            let Some(Attached { log, board, how }) = attached else {
                return Ok(Outcome::Declined);
            };
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
                self.start_alone(&mut state, main, Ok(()))
                    .map_err(|error| self.life.refuse(&error))?;
            }
        }
        let State { open, board, .. } = &mut *state;
        let Some(log) = open else { return Err(Error::Below(Code::BUSY)) };
        if !board.common().lock_unless(0, PATIENCE, &|| false)? {
            return Err(Error::Below(Code::BUSY));
        }
        let appended = self.append(log, board, main, batch, options);
        board.common().unlock(0..0);
        match appended? {
            Outcome::Declined => return Ok(Outcome::Declined),
            Outcome::Committed => KillPoint::Durable.reached(),
        }
        // Until `Busy` is cleared, nobody reads the file without a replay.
        let mut page_one = Vec::new();
        for (at, (offset, unit)) in batch.writes().enumerate() {
            let unit = guarded(unit, offset, log, &mut page_one);
            main.write(unit, offset).inspect_err(|&code| board.fail(code, None))?;
            if at == 0 {
                KillPoint::HalfInPlace.reached();
            }
        }
        if batch.size_bytes != batch.size_bytes_before.max(batch.end_bytes()) {
            main.truncate(batch.size_bytes).inspect_err(|&code| board.fail(code, None))?;
        }
        KillPoint::InPlace.reached();
        board.set_busy(false);
        self.syncer.note(board, log.used_bytes(), options);
        Ok(Outcome::Committed)
    }

    /// Makes the log and sets the guard. `None`: there can be none, and commits go another way.
    fn make(
        &self,
        state: &mut State,
        main: &dyn Below,
        options: &Options,
    ) -> Result<Option<Attached<OpenLog>>, Error> {
        // SQLite may have finished its journal without a sync. What comes back of it after a loss of
        // power would undo the log's commits.
        if let Some(journal) = self.life.files.open_journal(&journal_path(&self.life.path))? {
            if journal.size_bytes()? > 0 {
                // Written again, for a sync may have failed.
                journal.write(&[0; FINISHED_BYTES], 0)?;
            }
            journal.sync(SyncRequest::ALL)?;
        }
        match self.life.attach(main, LockLevel::Exclusive, options) {
            Ok(attached) => Ok(Some(attached)),
            Err(error @ (AttachError::NoGuard(_) | AttachError::BlockSize { .. })) => {
                state.has_no_log = true;
                self.life.refuse(&error);
                Ok(None)
            }
            Err(AttachError::Below(Code::FULL | Code::READONLY | Code::CANTOPEN)) => Ok(None),
            Err(error) => Err(self.life.refuse(&error)),
        }
    }

    fn append(
        &self,
        log: &mut OpenLog,
        board: &Board,
        main: &dyn Below,
        batch: &Batch<'_>,
        options: &Options,
    ) -> Result<Outcome, Error> {
        board.failure().map_or(Ok(()), Err)?;
        debug_assert!(!board.is_busy(), "rule 5: who got the shared lock has replayed the log");
        log.follow(board);
        let is_synced =
            board.synced_lsn() == log.head.lsn && log.used_bytes() >= epoch_bytes_min(options);
        if is_synced {
            log.end_epoch();
        } else if log.used_bytes() >= epoch_bytes_max(options) {
            self.sync(log, board, main)?;
        }
        grow_file(main, batch)?;
        let undo = |code| {
            // What was written behind the end is no part of the database. It only takes room.
            let _ = main.truncate(batch.size_bytes_before);
            code
        };
        board.set_busy(true);
        KillPoint::Busy.reached();
        let mut appended = log.append(main, batch);
        if appended == Ok(Outcome::Declined) && log.used_bytes() > 0 {
            appended = self.sync(log, board, main).and_then(|()| log.append(main, batch));
        }
        match appended {
            Ok(Outcome::Committed) => log.show(board),
            Ok(Outcome::Declined) => {
                undo(());
                log.show(board);
                board.set_busy(false);
            }
            Err(code) => {
                board.fail(code, log.unsure);
                undo(());
                board.set_busy(false);
                return Err(code.into());
            }
        }
        Ok(appended?)
    }

    /// The database file becomes durable, and the next record begins an epoch (invariant 2 of the
    /// log).
    fn sync(&self, log: &mut OpenLog, board: &Board, main: &dyn Below) -> Result<(), Code> {
        if !mutant::is(Mutant::EpochUnsynced) {
            // What the kernel could not write it does not write again. The log has it.
            main.sync(SyncRequest::ALL).inspect_err(|&code| board.fail(code, None))?;
        }
        board.note_synced(log.head.lsn);
        log.end_epoch();
        Ok(())
    }

    /// A transaction goes another way: the pages will be written in place with a journal of
    /// SQLite's own, or without any. Before that the log is retired, for a replay would undo them.
    /// SQLite has the database reserved at least.
    pub fn before_in_place(&self, main: &dyn Below) -> Result<(), Error> {
        let mut state = self.state();
        if state.open.is_none() {
            return Ok(());
        }
        self.retire(&mut state, main)?;
        Ok(self.life.remove()?)
    }

    /// Ends the log and takes the guard away. The caller removes board and log.
    fn retire(&self, state: &mut State, main: &dyn Below) -> Result<(), Error> {
        let State { open, board, .. } = state;
        let Some(log) = open else { return Ok(()) };
        board.failure().map_or(Ok(()), Err)?;
        if !board.common().lock_unless(0, PATIENCE, &|| false)? {
            return Err(Error::Below(Code::BUSY));
        }
        log.follow(board);
        let ended = main.sync(SyncRequest::ALL).map_err(Error::from).and_then(|()| {
            board.set_busy(true);
            let taken = self.life.take_guard_away(board, log, main);
            log.show(board);
            board.set_busy(false);
            Ok(taken?)
        });
        if let Err(Error::Below(code)) = &ended {
            board.fail(*code, log.unsure);
        }
        board.common().unlock(0..0);
        ended?;
        state.detach();
        state.retired += 1;
        Ok(())
    }

    /// A connection is about to close the database file. The last one of all processes retires the
    /// log. `level` is its lock on the database.
    pub fn closed(&self, main: &dyn Below, level: LockLevel) {
        let mut state = self.state();
        state.users -= 1;
        if state.users > 0 || state.open.is_none() {
            return;
        }
        self.syncer.stop();
        if self.process == std::process::id() && state.board.failure().is_none() {
            // Whoever fails here leaves the log to the next opener.
            let _ = self.retire_last(&mut state, main, level);
        }
        state.detach();
    }

    fn retire_last(
        &self,
        state: &mut State,
        main: &dyn Below,
        level: LockLevel,
    ) -> Result<(), Error> {
        if level < LockLevel::Shared {
            main.lock(LockLevel::Shared)?;
        }
        let result = self.retire_locked(state, main);
        main.unlock(LockLevel::None)?;
        result
    }

    fn retire_locked(&self, state: &mut State, main: &dyn Below) -> Result<(), Error> {
        // Another process may have retired the log, or died with `Busy` set.
        let header = guard::header(main)?;
        let is_ours =
            state.open.as_ref().is_some_and(|log| guard::of(&header) == Some(log.log.uuid()));
        if !is_ours || state.board.is_busy() {
            return Ok(());
        }
        main.lock(LockLevel::Exclusive)?;
        let common = state.board.clone();
        let is_alone = || -> Result<bool, Code> {
            if !common.common().lock_unless(0, PATIENCE, &|| false)? {
                return Ok(false);
            }
            common.common().leave();
            let alone = common.common().be_alone();
            let used = common.common().begin_use();
            common.common().show_use();
            common.common().unlock(0..0);
            used?;
            alone
        };
        if !is_alone()? {
            return Ok(());
        }
        self.retire(state, main)?;
        Ok(self.life.remove()?)
    }
}

impl State {
    /// Forgets the log. Others may use it.
    fn detach(&mut self) {
        if let Some(log) = self.open.take() {
            self.counts_before = self.counts_before.plus(Some(log.counts));
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

/// False for what a log of these pages cannot take: a new database, whose header could not take the
/// guard, and a change of the journal mode or of the page size.
fn is_for_the_log(main: &dyn Below, batch: &Batch<'_>) -> Result<bool, Code> {
    if batch.size_bytes_before < batch.unit_bytes {
        return Ok(false);
    }
    let is_fit = |header: &[u8]| {
        guard::mode(header) == Some(Mode::Rollback)
            && u64::from(guard::page_bytes(header)) == batch.unit_bytes
    };
    Ok(is_fit(&guard::header(main)?) && batch.page(1).is_none_or(is_fit))
}

/// Writes the pages behind the end of the file. `SQLITE_FULL` leaves the file as it was.
fn grow_file(main: &dyn Below, batch: &Batch<'_>) -> Result<(), Error> {
    for (offset, unit) in batch.writes().filter(|(offset, _)| *offset >= batch.size_bytes_before) {
        if let Err(code) = main.write(unit, offset) {
            let _ = main.truncate(batch.size_bytes_before);
            return Err(code.into());
        }
    }
    Ok(())
}

/// The unit as it is written to the file: page 1 gets the guard.
fn guarded<'a>(unit: &'a [u8], offset: u64, log: &OpenLog, page_one: &'a mut Vec<u8>) -> &'a [u8] {
    if offset != 0 {
        return unit;
    }
    page_one.clear();
    page_one.extend_from_slice(unit);
    guard::set(page_one, log.log.uuid());
    page_one
}
