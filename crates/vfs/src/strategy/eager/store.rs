//! The [`Store`] of `eager`: a record of the log makes commits durable.

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
    pub(super) frames: Mutex<Frames>,
    pub(super) frame: Mutex<Frame>,
    /// The connection has opened the image, or tried to.
    used_log: AtomicBool,
}

/// What `eager` adds to `PRAGMA oneflush_stats`.
#[derive(Serialize)]
pub struct EagerReport {
    /// Always 0: the image is not made ahead with written zeros.
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

    fn claimed(&self, characteristics: DeviceCharacteristics) -> DeviceCharacteristics {
        // SQLite reads this bit of the database file to decide whether it fills the sectors of its
        // WAL. The image need not survive a loss of power. While there is a WAL, SQLite writes the
        // same to the database file with and without the bit.
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
        // A connection that only reads does not wait at the mutex of the writers.
        if role == Role::Wal
            && connection.is_likely_to_write()
            && self.read_unlogged(buffer, offset)
        {
            return Ok(());
        }
        let result = below.read(buffer, offset);
        if role == Role::Db && matches!(result, Ok(()) | Err(Code::SHORT_READ)) {
            self.hide_guard(buffer, offset);
        }
        result
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
        self.image_cut(size_bytes);
        Ok(image.truncate(size_bytes)?)
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
        self.note_database_synced();
    }
}
