//! The [`Store`] of `waldio`: the log is the WAL.

use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use std::time::Duration;

use serde::Serialize;

use super::cache::Cache;
use super::grouping::Grouping;
use super::in_use::InUse;
use super::kept::OpenLog;
use super::transaction::Transaction;
use super::view::WalView;
use crate::config::{Options, StrategyKind, WalSync};
use crate::engine::{For, Header, InWalMode, Store, WalConnection};
use crate::error::{Code, Error};
use crate::mutant::{self, Mutant};
use crate::names::waldio_path;
use crate::port::{Below, Deletion, DeviceCharacteristics, LockLevel, MainFile, SyncRequest};
use crate::role::Role;
use crate::strategy::board::{Board, OwnBoard};
use crate::strategy::guard;
use crate::strategy::log_files::{LogFiles, say_failed};
use crate::strategy::log_life::{AttachError, Attached, How, LogLife, write_guard};
use crate::sync::{Mutex, lock, ranks};
use crate::wal_file::FRAME_HEADER_BYTES;

/// No generation of the board.
const UNKNOWN: u64 = u64::MAX;

/// A connection with `waldio`.
pub type Waldio = WalConnection<WaldioStore>;

/// How long a process waits for frames that another one holds.
const FRAMES_PATIENCE: Duration = Duration::from_millis(500);

/// What the connections of this process to one database share.
pub struct WaldioStore {
    life: LogLife<OpenLog>,
    state: Mutex<State, { ranks::LOG }>,
    own_board: OwnBoard,
    pub(super) cache: Cache,
    pub(super) grouping: Arc<Grouping>,
    /// The board's generation whose salts this process has read.
    generation: AtomicU64,
}

#[derive(Default)]
struct State {
    /// Connections that have used the log and are not closed.
    users: u32,
    /// Connections that have the WAL open, or are opening it.
    wals_open: u32,
    open: Option<OpenLog>,
}

/// What a connection keeps for this store.
#[derive(Default)]
pub struct Own {
    /// The connection has opened the log, or tried to.
    used_log: AtomicBool,
    /// The log and its board, while the connection has the WAL open.
    in_use: Mutex<Option<Arc<InUse>>>,
    pub(super) transaction: Mutex<Transaction, { ranks::TRANSACTION }>,
    /// The last frame that this transaction has written to the log.
    pub(super) written: AtomicU32,
    /// The last transaction was synced. So the next will be, most likely.
    pub(super) is_synced: AtomicBool,
    /// This transaction was synced.
    syncs: AtomicBool,
    /// A commit is written, and not synced yet. The next sync is the commit's. Any other is a
    /// checkpoint's, and no lock may say so: the last close has them all.
    pub(super) is_complete: AtomicBool,
    /// The commit is in the buffer of group synch, and counts as durable for its own sync.
    pub(super) is_buffered: AtomicBool,
    /// The last frame of the last commit, where no WAL index is shared.
    pub(super) committed: AtomicU32,
    /// Frames that a recovery has read ahead, and the first of them.
    pub(super) ahead: Mutex<(u32, Vec<u8>), { ranks::AHEAD }>,
}

impl Own {
    /// The commit is over. No later sync is its own, also where it had none.
    fn forget_commit(&self) {
        self.is_complete.store(false, Relaxed);
        self.is_buffered.store(false, Relaxed);
    }
}

/// `waldio` in `PRAGMA oneflush_stats`, beside the engine's part.
#[derive(Serialize)]
pub struct WaldioReport {
    /// How often the log was made longer by a chunk of zeros.
    wal_extensions: u64,
    /// All bytes that were written to the log, and of these the zeros of its extensions.
    written_bytes: u64,
    laid_out_bytes: u64,
    slots: SlotsReport,
}

#[derive(Serialize)]
struct SlotsReport {
    layout: &'static str,
    slot_bytes: usize,
    /// How many slots the log has.
    count: u32,
    /// Frames needed the lane: their pages have no gap for a header.
    used_lane: bool,
}

impl WaldioStore {
    pub fn new(path: &str, files: Arc<dyn LogFiles>) -> WaldioStore {
        WaldioStore {
            life: LogLife::new(path, files),
            state: Mutex::default(),
            own_board: OwnBoard::default(),
            cache: Cache::default(),
            grouping: Arc::default(),
            generation: AtomicU64::new(0),
        }
    }

    pub(super) fn board(&self) -> Board {
        self.own_board.get()
    }

    /// A write or sync of the log has failed: no process acknowledges anything any more.
    pub(super) fn fail(&self, code: Code) {
        let board = self.board();
        if board.failure().is_none() {
            say_failed(&*self.life.files, &self.life.log_path(), code, None);
        }
        board.fail_behind(code.told(), board.logged());
    }

    #[cold]
    pub(super) fn say_others_are_there(&self) {
        self.life.files.warn(&format!(
            "oneflush: {}: group is not in force while another process has the database open: \
                commits wait until they are durable [OF-139]",
            self.life.path
        ));
    }

    /// SQLite begins the WAL anew.
    pub(super) fn begins_anew(&self) {
        if !mutant::is(Mutant::GenerationUntold) {
            self.board().begin_wal();
        }
    }

    /// The log in use, to be opened by one more connection.
    fn open_log(
        &self,
        main: &dyn Below,
        level: LockLevel,
        options: &Options,
    ) -> Result<InUse, Error> {
        let _opening = self.life.begin_opening(main)?;
        let mut state = lock(&self.state);
        if state.wals_open == 0 {
            // The log was not in use since. Others may have closed the database, and its log may be
            // another one.
            self.forget(&mut state);
        }
        if state.open.is_none() {
            let attached = self
                .life
                .attach(main, level, options)
                .and_then(|attached| self.make_ready(main, attached))
                .map_err(|error| self.life.refuse(&error))?;
            state.open = Some(attached);
        }
        state.wals_open += 1;
        self.grouping.start();
        let file = state.open.as_ref().map(|log| Arc::clone(&log.0));
        let file = file.ok_or(Error::Below(Code::CANTOPEN))?;
        Ok(InUse { file, board: self.board() })
    }

    /// Makes the board ready, where this process is alone, and uses both.
    fn make_ready(
        &self,
        main: &dyn Below,
        attached: Attached<OpenLog>,
    ) -> Result<OpenLog, AttachError> {
        let Attached { mut log, board, how } = attached;
        if how != How::Beside {
            let ready = match how {
                How::Alone => self.go_on(main, &board, &mut log),
                _ => Ok(()),
            };
            if let Err(error) = ready {
                board.common().leave();
                self.life.tidy(&board);
                board.common().unlock(0..0);
                return Err(error);
            }
            board.identify(&self.life.log_path());
            board.set_open();
            board.common().unlock(0..0);
        }
        if let Err(code) = board.wait_for_frames(FRAMES_PATIENCE) {
            board.common().leave();
            return Err(code.into());
        }
        self.cache.clear();
        // The salts were read when the log was opened. Others may have begun the WAL anew since, so
        // the first use reads them again.
        self.generation.store(UNKNOWN, Relaxed);
        self.own_board.set(board);
        Ok(log)
    }

    /// This process goes on with a log that nobody uses.
    ///
    /// The last user may have died, or a flush of it failed. Then nobody knows whether the device
    /// has the frames that were not acknowledged. SQLite will take them for commits. So they are
    /// made durable first, and after a failed flush they are written again.
    fn go_on(&self, main: &dyn Below, board: &Board, log: &mut OpenLog) -> Result<(), AttachError> {
        let durable = board.durable_before(log.0.uuid(), &self.life.log_path());
        let unsure = board.begin(log.0.uuid(), log.0.geometry().page_bytes);
        let frames = log.committed()?.frames;
        let synced = match unsure {
            Some(first) => log.0.write_again(first.0 as u32, frames),
            None => log.0.flush(),
        };
        synced.inspect_err(|_| {
            // What was durable before stays as it is (invariant 1).
            if let Some(durable) = durable {
                board.set_unsure_behind(durable);
                board.identify(&self.life.log_path());
            }
        })?;
        board.set_sure();
        if frames > 0 {
            board.wrote(frames, frames);
            board.note_logged(frames);
        }
        if board.is_guard_unsure() {
            log.0.keep_page_one(&log.newest_page_one(main)?)?;
            write_guard(board, main, &guard::header(main)?)?;
        }
        Ok(())
    }

    fn forget(&self, state: &mut State) {
        if state.open.take().is_some() {
            self.own_board.leave();
        }
        self.cache.clear();
    }

    /// Takes guard and log away. SQLite deletes its WAL: the database file has everything, and
    /// SQLite has it locked exclusively. `Renamed`: there is nothing left to delete.
    fn retire(&self, main: &dyn Below) -> Result<Deletion, Error> {
        let mut state = lock(&self.state);
        let Some(log) = state.open.as_mut() else {
            drop(state);
            self.life.loses_wal().map_err(|error| self.life.refuse(&error))?;
            return Ok(Deletion::Delete);
        };
        let board = self.board();
        board.failure().map_or(Ok(()), Err)?;
        let mut end = || {
            board.sync_database(main)?;
            self.life.take_guard_away(&board, log, main)
        };
        end().inspect_err(|&code| self.fail(code))?;
        self.forget(&mut state);
        self.life.remove()?;
        Ok(Deletion::Renamed)
    }
}

impl Waldio {
    pub(super) fn in_use(&self) -> Option<Arc<InUse>> {
        lock(&self.own.in_use).clone()
    }

    /// The log, with the salts of the WAL as it is now, and the board's generation of it.
    pub(super) fn log(&self) -> Result<(Arc<InUse>, u64), Code> {
        let (store, log) = (self.store(), self.in_use().ok_or(Code::CANTOPEN)?);
        let generation = log.board.generation();
        if store.generation.load(Acquire) != generation {
            log.file.read_wal_header()?;
            // Only now: another thread must not use frames under the salts before.
            store.generation.store(generation, Release);
        }
        Ok((log, generation))
    }

    /// The frames of this connection that are published go into the cache. The others were rolled
    /// back.
    fn publish_frames(&self, published: Option<u32>) {
        let mut transaction = lock(&self.own.transaction);
        let (store, generation) = (self.store(), self.store().board().generation());
        let keeps_all = mutant::is(Mutant::UnpublishedCached);
        let published = if keeps_all { Some(u32::MAX) } else { published };
        transaction.publish(published.unwrap_or(0), |frame, bytes| {
            store.cache.put(generation, frame, &bytes[FRAME_HEADER_BYTES..]);
        });
        self.own.written.store(0, Relaxed);
    }
}

impl Store for WaldioStore {
    const KIND: StrategyKind = StrategyKind::Waldio;
    const IS_GUARDED: bool = true;
    type Own = Own;
    type Gate = OwnBoard;
    type Report = WaldioReport;

    fn gate(&self) -> &OwnBoard {
        &self.own_board
    }

    fn report(&self) -> WaldioReport {
        let state = lock(&self.state);
        let file = state.open.as_ref().map(|log| &log.0);
        let geometry = file.map(|file| *file.geometry());
        let written = file.map(|file| file.written()).unwrap_or_default();
        WaldioReport {
            wal_extensions: file.map_or(0, |file| file.extensions()),
            written_bytes: written.bytes,
            laid_out_bytes: written.zeros_bytes,
            slots: SlotsReport {
                layout: geometry.map_or("", |geometry| geometry.layout.name()),
                slot_bytes: geometry.map_or(0, |geometry| geometry.slot_bytes),
                count: file.and_then(|file| file.slots_there().ok()).unwrap_or_default(),
                used_lane: file.is_some_and(|file| file.used_lane()),
            },
        }
    }

    fn failure(&self) -> Option<Code> {
        self.board().failure()
    }

    fn is_stuck(&self) -> bool {
        false
    }

    fn taking_write_lock(&self, connection: &Waldio) {
        lock(&connection.own.transaction).begin();
        connection.own.written.store(0, Relaxed);
        connection.own.forget_commit();
        connection.own.syncs.store(false, Relaxed);
    }

    fn write_wal(
        &self,
        connection: &Waldio,
        wal: &dyn Below,
        data: &[u8],
        offset: u64,
    ) -> Result<(), Error> {
        connection.write_frames(wal, data, offset)
    }

    fn write_headers(
        &self,
        connection: &Waldio,
        wal: &dyn Below,
        headers: &[Header],
    ) -> Result<(), Error> {
        headers
            .iter()
            .try_for_each(|(offset, header)| connection.write_frames(wal, header, *offset))
    }

    fn write_held(&self, connection: &Waldio, _: &dyn Below) -> Result<(), Error> {
        connection.write_held(false)
    }

    fn is_durable(
        &self,
        connection: &Waldio,
        _: &dyn Below,
        of_commit: bool,
    ) -> Result<bool, Error> {
        if of_commit {
            connection.own.syncs.store(true, Relaxed);
            connection.own.is_synced.store(true, Relaxed);
            let is_buffered = connection.own.is_buffered.swap(false, Relaxed);
            let is_complete = connection.own.is_complete.swap(false, Relaxed);
            if is_buffered || (is_complete && connection.options.wal_sync == WalSync::Ns) {
                return Ok(true);
            }
        }
        Ok(self.board().note_if_flushed())
    }

    fn flush(
        &self,
        connection: &Waldio,
        _: &dyn Below,
        _: SyncRequest,
        _: For,
    ) -> Result<bool, Code> {
        let log = connection.in_use().ok_or(Code::CANTOPEN)?;
        log.board.failure().map_or(Ok(()), Err)?;
        if log.board.note_if_flushed() {
            return Ok(false);
        }
        // First: a commit that is buffered meanwhile is not covered.
        let covered = log.board.covered();
        self.grouping.write_out()?;
        log.file.flush().inspect_err(|&code| self.fail(code))?;
        log.board.note_flushed(&covered);
        Ok(true)
    }

    fn end_bytes(&self) -> Option<u64> {
        None
    }

    /// Nothing to do: the board says to all processes that the log has failed.
    fn flush_failed(&self, _: &dyn Below, _: Option<u64>) {}

    fn releasing_write_lock(&self, connection: &Waldio) {
        connection.own.forget_commit();
        let syncs = connection.own.syncs.load(Relaxed);
        connection.own.is_synced.store(syncs, Relaxed);
        if !syncs && connection.options.group_frames == 0 {
            // No flush comes. After a failure the board says it to all.
            let _ = self.grouping.write_out();
        }
        connection.publish_frames(connection.published_frames());
    }

    fn committed(&self, connection: &Waldio) {
        connection.own.forget_commit();
        if connection.published_frames().is_none() {
            // The connection has a WAL index of its own, and never releases the write lock.
            let last = self.board().written();
            connection.own.committed.store(last, Relaxed);
            connection.publish_frames(Some(last));
        }
    }

    fn frames(&self) -> Option<u32> {
        None
    }

    fn checkpoint_is_due(&self, _: &Options) -> bool {
        true
    }

    fn wal_path(&self) -> Option<String> {
        Some(waldio_path(&self.life.path))
    }

    fn open_virtual(&self, connection: &Waldio) -> Option<Box<dyn Below>> {
        let file = Arc::clone(&connection.in_use()?.file);
        Some(Box::new(WalView { file, grouping: Some(Arc::clone(&self.grouping)) }))
    }

    fn hides_wal(&self, main: &dyn MainFile) -> Result<bool, Error> {
        Ok(!self.life.has_wal(main)?)
    }

    fn has_durable_wal(&self) -> bool {
        false
    }

    fn knows_wal(&self, _: &dyn Below) -> bool {
        false
    }

    fn claimed(&self, characteristics: DeviceCharacteristics) -> DeviceCharacteristics {
        // SQLite reads this bit of the database file to decide whether it fills the sectors of its
        // WAL. No block of the log is written twice.
        characteristics.with_powersafe_overwrite()
    }

    fn opened(&self, main: &dyn MainFile) -> Result<(), Error> {
        self.life.opened_database(main)
    }

    fn opening_wal(&self, connection: &Waldio) -> Result<(), Error> {
        let main = lock(&connection.main);
        let main = main.as_deref().ok_or(Error::Below(Code::CANTOPEN))?;
        if !connection.own.used_log.swap(true, Relaxed) {
            lock(&self.state).users += 1;
        }
        let log = self.open_log(main, connection.level(), &connection.options)?;
        connection.own.is_synced.store(true, Relaxed);
        connection.own.committed.store(0, Relaxed);
        *lock(&connection.own.in_use) = Some(Arc::new(log));
        Ok(())
    }

    fn opened_wal(&self, _: &Waldio, _: &dyn Below) -> Result<(), Error> {
        Ok(())
    }

    fn closing_wal(&self, connection: &Waldio, _: Option<&dyn Below>) {
        // After a failure the board says it to all.
        let _ = self.grouping.write_out();
        *lock(&connection.own.in_use) = None;
        lock(&connection.own.transaction).begin();
        let mut state = lock(&self.state);
        state.wals_open -= 1;
        if state.wals_open == 0 {
            self.grouping.stop();
        }
    }

    fn patience_at_last_close(&self) -> Duration {
        self.own_board.patience_at_last_close()
    }

    fn closing_last(&self, _: &Waldio, _: &dyn MainFile) {}

    fn deleting_wal(&self, connection: &Waldio) -> Result<Deletion, Error> {
        connection.refuse_if_failed()?;
        let main = lock(&connection.main);
        main.as_deref().map_or(Ok(Deletion::Delete), |main| self.retire(main)).inspect_err(
            |error| {
                // "Busy": log and guard stay for the next opener.
                if !matches!(error, Error::Below(Code::BUSY)) {
                    connection.shared.flush.poison(Code::IOERR_FSYNC);
                }
            },
        )
    }

    fn closing(&self, connection: &Waldio) {
        if connection.own.used_log.swap(false, Relaxed) {
            let mut state = lock(&self.state);
            state.users -= 1;
            if state.users == 0 {
                self.forget(&mut state);
            }
        }
    }

    fn read(
        &self,
        connection: &Waldio,
        below: &dyn Below,
        role: Role,
        buffer: &mut [u8],
        offset: u64,
    ) -> Result<(), Error> {
        let result = match role {
            Role::Wal => connection.read_wal(below, buffer, offset),
            Role::Db => guard::read(below, buffer, offset),
            _ => below.read(buffer, offset),
        };
        Ok(result?)
    }

    fn truncate_wal(
        &self,
        connection: &Waldio,
        wal: &dyn Below,
        size_bytes: u64,
    ) -> Result<(), Error> {
        self.grouping.write_out()?;
        if size_bytes == 0 {
            return Ok(connection.begin_anew(|| wal.truncate(0))?);
        }
        connection.noting_write(&self.board(), false, || wal.truncate(size_bytes))?;
        Ok(())
    }

    fn write_page(
        &self,
        connection: &Waldio,
        main: &dyn Below,
        page: &[u8],
        offset: u64,
    ) -> Result<(), Error> {
        connection.copy_page(main, page, offset)
    }

    fn truncate_database(
        &self,
        _: &Waldio,
        main: &dyn Below,
        size_bytes: u64,
    ) -> Result<(), Error> {
        Ok(main.truncate(size_bytes)?)
    }

    fn database_synced(&self) {
        self.board().set_database_unsynced(false);
    }

    fn panicked(&self) {
        self.grouping.panicked();
    }
}
