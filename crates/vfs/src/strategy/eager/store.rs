//! The [`Store`] of `eager`: a record of the log makes commits durable.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use serde::Serialize;

use super::log::{LogCounts, OpenLog};
use super::recent::Frames;
use super::recover::Recovered;
use super::{EagerLog, age};
use crate::config::{Options, StrategyKind};
use crate::engine::{For, Header, InWalMode, Store, WalConnection};
use crate::error::{Code, Error};
use crate::port::{Below, Deletion, DeviceCharacteristics, MainFile, SyncRequest};
use crate::role::Role;
use crate::strategy::board::{Board, OwnBoard};
use crate::strategy::guard;
use crate::sync::{Mutex, lock, ranks};

/// A checkpoint is due at this many frames in the image, whatever SQLite's own threshold says. The
/// other reasons are in the constants below and in [`Store::checkpoint_is_due`].
const CHECKPOINT_FRAMES: u32 = 16_000;
/// (frames, changes): a checkpoint is due at so many frames if each changed page was changed
/// `changes` times on average. Such a checkpoint writes few pages, and the image stays small. The
/// kernel may write back all of the image.
const CHECKPOINT_DENSE_FRAMES: (u32, u64) = (2000, 16);
/// A checkpoint is due at this many frames if the epoch stands on the image. The large transaction
/// that caused the sync changed each page once. Readers find its pages faster in the database file.
const CHECKPOINT_IMAGE_FRAMES: u32 = 1000;
/// A checkpoint is due at this many used bytes of the log, or at the bytes of all changed pages if
/// those are more. A quarter of the log's limit is always enough.
const CHECKPOINT_LOG_BYTES: u64 = 4 << 20;
/// (frames, age): a checkpoint is due at so many frames when the image's generation is so old. The
/// kernel then need not write the frames back. For fewer frames a checkpoint would write more than
/// the kernel.
const CHECKPOINT_AFTER: [(u32, Duration); 2] =
    [(160, Duration::from_secs(5)), (32, Duration::from_secs(20))];

/// A connection with `eager`.
pub type Eager = WalConnection<EagerLog>;

/// What a connection keeps for the store.
#[derive(Default)]
pub struct Own {
    /// Offset of the frame that ends the commit. 0: that frame is not written yet, or is noted
    /// already.
    pub(super) commit_frame: AtomicU64,
    /// The same offset, from the release of the write lock until SQLite says that the commit
    /// succeeded.
    released_frame: AtomicU64,
    /// Frames of this transaction that were written to the image.
    pub(super) frames: Mutex<Frames, { ranks::FRAMES }>,
    pub(super) frame: Mutex<Frame>,
    /// The connection has opened the image, or tried to.
    used_log: AtomicBool,
}

/// The frame that SQLite is writing.
#[derive(Debug, Default)]
pub struct Frame {
    /// Offset of the last header that was written.
    pub(super) header: u64,
    /// That header says that its frame ends a commit.
    pub(super) ends_commit: bool,
    /// Offset of the header of a frame that ends a commit and whose page is not complete. 0: there
    /// is none.
    pub(super) ending: u64,
}

/// What `eager` adds to `PRAGMA oneflush_stats`.
#[derive(Serialize)]
pub struct EagerReport {
    /// Always 0: the image is not made ahead with written zeros.
    wal_extensions: u64,
    log: LogReport,
}

/// The log in `PRAGMA oneflush_stats`; counts begin when it was opened.
#[derive(Serialize)]
pub struct LogReport {
    #[serde(flatten)]
    counts: LogCounts,
    /// Bytes of frames per byte of the log.
    packing_ratio: f64,
    /// Of the lane in use. A log has two lanes.
    lane_used_bytes: u64,
    lane_bytes: u64,
    /// The last recovery.
    recovered: Option<Recovered>,
}

impl Eager {
    /// Notes the commit whose last frame is written. SQLite has said that it is complete.
    fn note_commit(&self) {
        let offset = self.own.commit_frame.swap(0, Relaxed);
        if offset != 0 {
            self.store().note_commit(offset, &mut lock(&self.own.frames));
        }
    }

    /// Notes the frames of a commit of which SQLite has not said yet that it succeeded.
    fn note_written(&self) {
        let offset = self.own.commit_frame.swap(0, Relaxed);
        if offset != 0 {
            self.store().note_written(offset, &mut lock(&self.own.frames));
            self.own.released_frame.store(offset, Relaxed);
        }
    }
}

impl Store for EagerLog {
    const KIND: StrategyKind = StrategyKind::Eager;
    const IS_GUARDED: bool = true;
    type Own = Own;
    type Gate = OwnBoard;
    type Report = EagerReport;

    fn gate(&self) -> &OwnBoard {
        &self.own_board
    }

    fn report(&self) -> EagerReport {
        let board = self.board();
        let state = self.state();
        let counts = state.open.as_ref().map(OpenLog::counts).unwrap_or_default();
        let (lane_used_bytes, lane_bytes) = (board.used_bytes(), board.lane_bytes());
        let packing_ratio = if counts.logged_bytes == 0 {
            0.0
        } else {
            counts.frame_bytes as f64 / counts.logged_bytes as f64
        };
        let log = LogReport {
            counts,
            packing_ratio,
            lane_used_bytes,
            lane_bytes,
            recovered: state.recovered,
        };
        EagerReport { wal_extensions: 0, log }
    }

    fn failure(&self) -> Option<Code> {
        self.board().failure()
    }

    fn is_stuck(&self) -> bool {
        self.is_stuck()
    }

    fn taking_write_lock(&self, connection: &Eager) {
        connection.own.commit_frame.store(0, Relaxed);
        connection.own.released_frame.store(0, Relaxed);
        *lock(&connection.own.frame) = Frame::default();
    }

    fn write_wal(
        &self,
        connection: &Eager,
        image: &dyn Below,
        data: &[u8],
        offset: u64,
    ) -> Result<(), Error> {
        connection.write_frames(image, data, offset)
    }

    fn write_headers(
        &self,
        connection: &Eager,
        image: &dyn Below,
        headers: &[Header],
    ) -> Result<(), Error> {
        for (offset, header) in headers {
            image.write(header, *offset)?;
        }
        // The frames in memory lack the new checksums.
        lock(&connection.own.frames).clear();
        Ok(())
    }

    fn write_held(&self, connection: &Eager, image: &dyn Below) -> Result<(), Error> {
        connection.write_held(image)
    }

    fn is_durable(
        &self,
        connection: &Eager,
        image: &dyn Below,
        of_commit: bool,
    ) -> Result<bool, Error> {
        if connection.writing.load(Relaxed) && of_commit {
            if self.is_held() && !connection.puts_off() {
                connection.wait_before_commit(image)?;
            }
            connection.note_commit();
        } else {
            // In exclusive locking mode SQLite takes no write lock. A commit's sync then looks like
            // that of a checkpoint after a commit that failed. So the frames are only noted as
            // written.
            connection.note_written();
        }
        Ok(self.has_logged_all(image, connection.published_frames())?)
    }

    fn flush(
        &self,
        connection: &Eager,
        image: &dyn Below,
        _: SyncRequest,
        what: For,
    ) -> Result<bool, Code> {
        let main = lock(&connection.main);
        self.append(main.as_deref().ok_or(Code::READONLY)?, image, what)
    }

    fn end_bytes(&self) -> Option<u64> {
        None
    }

    /// Nothing to do: the board says to all processes that the log has failed.
    fn flush_failed(&self, _: &dyn Below, _: Option<u64>) {}

    fn releasing_write_lock(&self, connection: &Eager) {
        connection.note_written();
        lock(&connection.own.frames).clear();
    }

    fn committed(&self, connection: &Eager) {
        connection.note_commit();
        self.note_commit(
            connection.own.released_frame.swap(0, Relaxed),
            &mut lock(&connection.own.frames),
        );
    }

    fn frames(&self) -> Option<u32> {
        Some(self.board().committed())
    }

    fn checkpoint_is_due(&self, options: &Options) -> bool {
        let board = self.board();
        let committed = board.committed();
        // Where changes are all over the database, a checkpoint writes most pages for one change
        // each. Later is cheaper.
        let changed_bytes = board.changed_bytes();
        let wanted_bytes = changed_bytes.max(CHECKPOINT_LOG_BYTES);
        let (dense_frames, changes) = CHECKPOINT_DENSE_FRAMES;
        let is_dense = u64::from(committed) * board.page_bytes() as u64 >= changed_bytes * changes;
        let share_bytes = self.space.share_bytes();
        committed >= CHECKPOINT_FRAMES
            || u64::from(committed) * board.page_bytes() as u64 >= share_bytes
            || (is_dense && committed >= dense_frames)
            || (board.is_on_image() && committed >= CHECKPOINT_IMAGE_FRAMES)
            || board.used_bytes() >= wanted_bytes.min(options.log_size_bytes.min(share_bytes) / 4)
            || is_old(&board, committed)
    }

    fn wal_path(&self) -> Option<String> {
        Some(self.image_path())
    }

    fn open_virtual(&self, _: &Eager) -> Option<Box<dyn Below>> {
        None
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
        // WAL. The image need not survive a loss of power. While there is a WAL, SQLite writes the
        // same to the database file with and without the bit.
        characteristics.with_powersafe_overwrite()
    }

    fn opened(&self, main: &dyn MainFile) -> Result<(), Error> {
        self.life.opened_database(main)
    }

    fn opening_wal(&self, connection: &Eager) -> Result<(), Error> {
        let main = lock(&connection.main);
        let main = main.as_deref().ok_or(Error::Below(Code::CANTOPEN))?;
        if !connection.own.used_log.swap(true, Relaxed) {
            self.add_user();
        }
        self.before_image(main, connection.level(), &connection.options)
    }

    fn opened_wal(&self, connection: &Eager, image: &dyn Below) -> Result<(), Error> {
        let main = lock(&connection.main);
        let main = main.as_deref().ok_or(Error::Below(Code::CANTOPEN))?;
        self.opened_image(main, image)
    }

    fn closing_wal(&self, _: &Eager, _: Option<&dyn Below>) {
        self.closed_image();
    }

    fn patience_at_last_close(&self) -> Duration {
        self.own_board.patience_at_last_close()
    }

    fn closing_last(&self, _: &Eager, _: &dyn MainFile) {}

    fn deleting_wal(&self, connection: &Eager) -> Result<Deletion, Error> {
        let main = lock(&connection.main);
        main.as_deref().map_or(Ok(()), |main| connection.retire_log(main))?;
        Ok(Deletion::Delete)
    }

    fn closing(&self, connection: &Eager) {
        if connection.own.used_log.swap(false, Relaxed) {
            self.remove_user();
        }
    }

    fn read(
        &self,
        connection: &Eager,
        below: &dyn Below,
        role: Role,
        buffer: &mut [u8],
        offset: u64,
    ) -> Result<(), Error> {
        if role == Role::Wal {
            connection.write_held(below)?;
            // A connection that only reads does not wait at the mutex of the writers.
            if connection.is_likely_to_write() && self.read_unlogged(buffer, offset) {
                return Ok(());
            }
        }
        let result = match role {
            Role::Db => guard::read(below, buffer, offset),
            _ => below.read(buffer, offset),
        };
        Ok(result?)
    }

    fn truncate_wal(
        &self,
        connection: &Eager,
        image: &dyn Below,
        size_bytes: u64,
    ) -> Result<(), Error> {
        if let (0, Some(main)) = (size_bytes, lock(&connection.main).as_deref()) {
            connection.restart_image(main, image)?;
        }
        Ok(self.board().cut_image(image, size_bytes)?)
    }

    fn write_page(
        &self,
        connection: &Eager,
        main: &dyn Below,
        page: &[u8],
        offset: u64,
    ) -> Result<(), Error> {
        connection.copy_page(main, page, offset)
    }

    fn truncate_database(
        &self,
        connection: &Eager,
        main: &dyn Below,
        size_bytes: u64,
    ) -> Result<(), Error> {
        match lock(&connection.wal).as_deref() {
            Some(image) => Ok(self.cut_database(main, image, size_bytes)?),
            None => Ok(main.truncate(size_bytes)?),
        }
    }

    fn database_synced(&self) {
        self.board().set_database_unsynced(false);
    }
}

/// Enough frames have been in the image for long enough: a checkpoint is due.
fn is_old(board: &Board, frames: u32) -> bool {
    let is_enough = |&(least, after): &(u32, Duration)| (frames >= least).then_some(after);
    let after = CHECKPOINT_AFTER.iter().filter_map(is_enough).min();
    after.is_some_and(|after| age(board) >= after)
}
