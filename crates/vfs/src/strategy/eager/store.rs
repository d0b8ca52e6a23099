//! What makes commits durable with `eager`: a record of the log.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use serde::Serialize;

use super::recent::Frames;
use super::writing::Frame;
use super::{EagerLog, LogReport};
use crate::config::{Options, StrategyKind};
use crate::engine::{For, Gate, Header, InWalMode, Store, WalConnection};
use crate::error::{Code, Error};
use crate::port::{Below, Deletion, DeviceCharacteristics, MainFile, SyncRequest};
use crate::role::Role;
use crate::sync::{Mutex, lock};

/// A connection with `eager`.
pub type Eager = WalConnection<EagerLog>;

/// What a connection keeps.
#[derive(Default)]
pub struct Own {
    /// Where the frame that ends the commit begins; 0: it is not written yet, or noted.
    pub(super) commit_frame: AtomicU64,
    /// The same, after the write lock was released and before SQLite says that the commit succeeded.
    released_frame: AtomicU64,
    /// Frames of this transaction that were written.
    pub(super) frames: Mutex<Frames>,
    pub(super) frame: Mutex<Frame>,
    /// It has opened the image, or tried to.
    used_log: AtomicBool,
}

/// `eager` in `PRAGMA oneflush_stats`, beside what the engine says.
#[derive(Serialize)]
pub struct EagerReport {
    /// The image is no file that is made ahead.
    wal_extensions: u64,
    log: LogReport,
}

impl Gate for EagerLog {
    /// A ticket costs next to nothing.
    const IS_ALWAYS_USED: bool = true;

    fn enter(&self) -> bool {
        self.ticket.take(self.board().common().tickets())
    }

    fn wait(&self, at_most: Duration) -> bool {
        self.ticket.wait(self.board().common().tickets(), at_most)
    }

    fn begin_writing(&self) {
        self.ticket.begin_writing(self.board().common().tickets());
    }

    fn leave(&self) {
        self.ticket.give_back(self.board().common().tickets());
    }

    fn is_wanted(&self) -> bool {
        self.ticket.is_not_alone(self.board().common().tickets())
    }
}

impl Eager {
    /// The commit whose last frame is written is known to be complete.
    fn note_commit(&self) {
        let offset = self.own.commit_frame.swap(0, Relaxed);
        if offset != 0 {
            self.store().note_commit(offset, &mut lock(&self.own.frames));
        }
    }

    /// The same, where SQLite has not said so yet.
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
    type Gate = EagerLog;
    type Report = EagerReport;

    fn gate(&self) -> &EagerLog {
        self
    }

    fn report(&self) -> EagerReport {
        EagerReport { wal_extensions: 0, log: self.log_report() }
    }

    fn failure(&self) -> Option<Code> {
        self.log_failure()
    }

    fn is_stuck(&self) -> bool {
        self.is_log_stuck()
    }

    fn taking_write_lock(&self, connection: &Eager) {
        connection.own.commit_frame.store(0, Relaxed);
        connection.own.released_frame.store(0, Relaxed);
        *lock(&connection.own.frame) = Frame::default();
    }

    fn write_wal(&self, connection: &Eager, image: &dyn Below, data: &[u8], offset: u64) -> Result<(), Error> {
        connection.write_frames(image, data, offset)
    }

    fn write_headers(&self, connection: &Eager, image: &dyn Below, headers: &[Header]) -> Result<(), Error> {
        for (offset, header) in headers {
            image.write(header, *offset)?;
        }
        // What is kept in memory of these frames has no checksums.
        lock(&connection.own.frames).clear();
        Ok(())
    }

    fn write_held(&self, connection: &Eager, image: &dyn Below) -> Result<(), Error> {
        connection.write_held(image)
    }

    fn is_durable(&self, connection: &Eager, image: &dyn Below, of_commit: bool) -> Result<bool, Error> {
        if connection.writing.load(Relaxed) && of_commit {
            if self.is_held() && !connection.puts_off() {
                connection.wait_before_commit(image)?;
            }
            connection.note_commit();
        } else {
            // In exclusive locking mode there is no lock to tell a commit's sync from that of a checkpoint after one that failed.
            connection.note_written();
        }
        Ok(self.has_logged_all(image, connection.published_frames())?)
    }

    fn flush(&self, connection: &Eager, image: &dyn Below, _: SyncRequest, what: For) -> Result<bool, Code> {
        let main = lock(&connection.main);
        self.append(main.as_deref().ok_or(Code::READONLY)?, image, what)
    }

    fn end_bytes(&self) -> Option<u64> {
        None
    }

    /// The log is at its end, for all processes: the board says so.
    fn flush_failed(&self, _: &dyn Below, _: Option<u64>) {}

    fn releasing_write_lock(&self, connection: &Eager) {
        connection.note_written();
        lock(&connection.own.frames).clear();
    }

    fn committed(&self, connection: &Eager) {
        connection.note_commit();
        self.note_commit(connection.own.released_frame.swap(0, Relaxed), &mut lock(&connection.own.frames));
    }

    fn frames(&self) -> Option<u32> {
        Some(self.committed_frames())
    }

    fn checkpoint_is_due(&self, options: &Options) -> bool {
        self.is_checkpoint_due(options)
    }

    fn wal_path(&self) -> Option<String> {
        Some(self.image_path())
    }

    fn hides_wal(&self, main: &dyn MainFile) -> Result<bool, Error> {
        Ok(!self.has_wal(main)?)
    }

    fn has_durable_wal(&self) -> bool {
        false
    }

    fn knows_wal(&self, _: &dyn Below) -> bool {
        false
    }

    fn maps(&self, offset: u64) -> bool {
        // The first page may show the guard.
        offset > 0
    }

    fn claimed(&self, characteristics: DeviceCharacteristics) -> DeviceCharacteristics {
        // By this bit of the database file SQLite decides whether it has to fill the sectors of its WAL. Of the image nothing has to
        // survive a loss of power; and to the database file SQLite writes the same with and without the bit while it has a WAL.
        characteristics.with_powersafe_overwrite()
    }

    fn opened(&self, main: &dyn MainFile) -> Result<(), Error> {
        self.opened_database(main)
    }

    fn opening_wal(&self, connection: &Eager) -> Result<(), Error> {
        let main = lock(&connection.main);
        let main = main.as_deref().ok_or(Error::Below(Code::CANTOPEN))?;
        if !connection.own.used_log.swap(true, Relaxed) {
            self.enter();
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

    fn closing_last(&self, _: &Eager, _: &dyn MainFile) {}

    fn deleting_wal(&self, connection: &Eager) -> Result<Deletion, Error> {
        let main = lock(&connection.main);
        main.as_deref().map_or(Ok(()), |main| connection.retire_log(main))?;
        Ok(Deletion::Delete)
    }

    fn closing(&self, connection: &Eager) {
        if connection.own.used_log.swap(false, Relaxed) {
            self.leave();
        }
    }

    fn read(
        &self,
        connection: &Eager,
        below: &dyn Below,
        role: Role,
        buffer: &mut [u8],
        offset: u64,
    ) -> Result<(), Code> {
        // Who only reads shall not meet the writers at a mutex.
        if role == Role::Wal && connection.is_likely_to_write() && self.read_unlogged(buffer, offset) {
            return Ok(());
        }
        let result = below.read(buffer, offset);
        if role == Role::Db && matches!(result, Ok(()) | Err(Code::SHORT_READ)) {
            self.hide_guard(buffer, offset);
        }
        result
    }

    fn wal_size_bytes(&self, _: &Eager, wal: &dyn Below) -> Result<u64, Code> {
        wal.size_bytes()
    }

    fn truncate_wal(&self, connection: &Eager, image: &dyn Below, size_bytes: u64) -> Result<(), Error> {
        if let (0, Some(main)) = (size_bytes, lock(&connection.main).as_deref()) {
            connection.restart_image(main, image)?;
        }
        self.image_cut(size_bytes);
        Ok(image.truncate(size_bytes)?)
    }

    fn write_page(&self, connection: &Eager, main: &dyn Below, page: &[u8], offset: u64) -> Result<(), Error> {
        connection.copy_page(main, page, offset)
    }

    fn truncate_database(&self, connection: &Eager, main: &dyn Below, size_bytes: u64) -> Result<(), Error> {
        match lock(&connection.wal).as_deref() {
            Some(image) => Ok(self.cut_database(main, image, size_bytes)?),
            None => Ok(main.truncate(size_bytes)?),
        }
    }

    fn database_synced(&self) {
        self.note_database_synced();
    }
}
