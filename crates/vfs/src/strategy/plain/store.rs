//! What makes commits durable with `plain`: a sync of SQLite's own WAL.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::time::{Duration, SystemTime};

use serde::Serialize;

use super::door::Door;
use super::extent::Extent;
use super::kept::{Same, TakenUp};
use super::salts::Salts;
use super::shown::Shown;
use super::{Plain, unsure};
use crate::config::{Options, StrategyKind};
use crate::engine::{For, Header, Store};
use crate::error::{Code, Error};
use crate::names::wal_path;
use crate::port::{
    Below, Deletion, DeviceCharacteristics, MainFile, SideFiles, SyncRequest, with_write_lock,
};
use crate::role::Role;
use crate::sync::{Mutex, lock};

/// What the connections of this process to one database share.
pub struct PlainStore {
    pub(super) path: String,
    pub(super) files: Arc<dyn SideFiles>,
    pub(super) extent: Extent,
    pub(super) salts: Salts,
    /// True if the directory entry of the WAL in `salts` is durable.
    ///
    /// A last close, by whichever process, gives the file another name. So the flag falls when the
    /// last connection of this process closes the WAL.
    pub(super) directory_synced: AtomicBool,
    /// What other processes see of that.
    pub(super) shown: Shown,
    /// The number of connections that have the WAL open.
    pub(super) open_wals: AtomicU32,
    /// The kept WAL. None: this process has not taken it up, or has written to the database file
    /// since.
    pub(super) taken_up: Mutex<Option<TakenUp>>,
    /// A failed flush has left the WAL unsure, now or when the database was open before.
    pub(super) left: Mutex<bool>,
    door: Arc<Door>,
}

/// What a connection keeps for this store.
#[derive(Default)]
pub struct Own {
    /// What the kept WAL had when it got its name back, until the WAL is taken up.
    pub(super) kept: Mutex<Option<Same>>,
}

/// `plain` in `PRAGMA oneflush_stats`, beside the engine's part.
#[derive(Serialize)]
pub struct PlainReport {
    /// How often the WAL was extended by a chunk of zeros.
    wal_extensions: u64,
    /// The zeros of these, as far as they were written.
    laid_out_bytes: u64,
}

impl PlainStore {
    pub fn new(path: &str, files: Arc<dyn SideFiles>) -> PlainStore {
        PlainStore {
            path: path.to_owned(),
            files,
            extent: Extent::default(),
            salts: Salts::default(),
            directory_synced: AtomicBool::new(false),
            shown: Shown::new(wal_path(path)),
            open_wals: AtomicU32::new(0),
            taken_up: Mutex::default(),
            left: Mutex::new(unsure::take(path)),
            door: Door::new(&wal_path(path)),
        }
    }

    /// When the database file was last changed.
    pub(super) fn database_changed(&self) -> Option<SystemTime> {
        std::fs::metadata(&self.path).and_then(|file| file.modified()).ok()
    }

    /// True if this process has written this WAL, and its directory entry is durable.
    fn is_own_wal(&self, wal: &dyn Below) -> bool {
        self.directory_synced.load(Relaxed) && self.salts.is_of(wal)
    }

    /// Notes that a flush has failed.
    fn note_failure(&self) {
        *lock(&self.left) = true;
        self.files.warn(&format!(
            "oneflush: {}: a sync failed. This process acknowledges no commit until it has closed \
                all connections to the database [OF-231]",
            wal_path(&self.path)
        ));
    }

    /// Writes an unsure WAL again up to `end_bytes`. The caller keeps all writers out.
    pub(super) fn mend(&self, wal: &dyn Below, end_bytes: u64) -> Result<(), Code> {
        let mut left = lock(&self.left);
        if *left {
            unsure::write_again(wal, end_bytes)?;
            *left = false;
        }
        Ok(())
    }

    /// Mends before the sync of a checkpoint, whose connection need not have the write lock.
    fn mend_for_checkpoint(&self, connection: &Plain, wal: &dyn Below) -> Result<(), Error> {
        let main = lock(&connection.main);
        let takes_lock = connection.shares_index.load(Relaxed) && !connection.writing.load(Relaxed);
        let mend = || wal.size_bytes().and_then(|end_bytes| self.mend(wal, end_bytes));
        let mended = match main.as_deref().filter(|_| takes_lock) {
            Some(index) => with_write_lock(index, mend),
            None => mend(),
        };
        mended.map_err(Error::from)
    }
}

impl Drop for PlainStore {
    fn drop(&mut self) {
        if *lock(&self.left) {
            unsure::leave(&self.path);
        }
        self.door.stop();
    }
}

impl Store for PlainStore {
    const KIND: StrategyKind = StrategyKind::Plain;
    const IS_GUARDED: bool = false;
    type Own = Own;
    type Gate = Arc<Door>;
    type Report = PlainReport;

    fn gate(&self) -> &Arc<Door> {
        &self.door
    }

    fn report(&self) -> PlainReport {
        PlainReport {
            wal_extensions: self.extent.extensions(),
            laid_out_bytes: self.extent.laid_out_bytes(),
        }
    }

    fn failure(&self) -> Option<Code> {
        None
    }

    fn is_stuck(&self) -> bool {
        false
    }

    fn taking_write_lock(&self, _: &Plain) {}

    fn write_wal(
        &self,
        connection: &Plain,
        wal: &dyn Below,
        data: &[u8],
        offset: u64,
    ) -> Result<(), Error> {
        connection.refuse_if_failed()?;
        connection.write_frames(wal, data, offset)
    }

    fn write_headers(
        &self,
        connection: &Plain,
        wal: &dyn Below,
        headers: &[Header],
    ) -> Result<(), Error> {
        headers
            .iter()
            .try_for_each(|(offset, header)| connection.write_frames(wal, header, *offset))
    }

    fn write_held(&self, connection: &Plain, wal: &dyn Below) -> Result<(), Error> {
        connection.write_header_held(wal)
    }

    fn is_durable(
        &self,
        connection: &Plain,
        wal: &dyn Below,
        of_commit: bool,
    ) -> Result<bool, Error> {
        if of_commit {
            return Ok(false);
        }
        if *lock(&self.left) && connection.shared.flush.failure().is_none() {
            self.mend_for_checkpoint(connection, wal)?;
        }
        Ok(self.salts.is_durable(wal))
    }

    fn flush(
        &self,
        _: &Plain,
        wal: &dyn Below,
        request: SyncRequest,
        _: For,
    ) -> Result<bool, Code> {
        let writes = self.salts.begin_flush();
        wal.sync(request).inspect_err(|_| {
            self.note_failure();
            // The caller has the write lock, the checkpoint lock, or its commit's read lock. So
            // nobody begins the WAL anew.
            let _ = unsure::write_first_again(wal);
        })?;
        if !self.directory_synced.swap(true, Relaxed) {
            self.shown.show();
        }
        self.salts.flushed(writes);
        Ok(true)
    }

    fn end_bytes(&self) -> Option<u64> {
        self.salts.end_bytes()
    }

    /// The caller still has its read lock. So no WAL is begun anew, and no frame up to its own
    /// changes.
    fn flush_failed(&self, wal: &dyn Below, end_bytes: Option<u64>) {
        let left = lock(&self.left);
        if let Some(end_bytes) = end_bytes.filter(|_| *left) {
            // After an error the close tries it again, as it does for the bytes behind.
            let _ = unsure::write_again(wal, end_bytes);
        }
    }

    fn releasing_write_lock(&self, _: &Plain) {
        self.salts.released();
    }

    fn committed(&self, _: &Plain) {}

    fn frames(&self) -> Option<u32> {
        None
    }

    fn checkpoint_is_due(&self, _: &Options) -> bool {
        true
    }

    fn wal_path(&self) -> Option<String> {
        None
    }

    fn open_virtual(&self, _: &Plain) -> Option<Box<dyn Below>> {
        None
    }

    fn hides_wal(&self, _: &dyn MainFile) -> Result<bool, Error> {
        Ok(false)
    }

    fn has_durable_wal(&self) -> bool {
        self.directory_synced.load(Relaxed) || self.shown.is_durable()
    }

    fn knows_wal(&self, wal: &dyn Below) -> bool {
        self.is_own_wal(wal) || self.shown.is_durable()
    }

    fn claimed(&self, characteristics: DeviceCharacteristics) -> DeviceCharacteristics {
        characteristics
    }

    fn opened(&self, _: &dyn MainFile) -> Result<(), Error> {
        Ok(())
    }

    fn opening_wal(&self, connection: &Plain) -> Result<(), Error> {
        connection.take_kept_wal_back();
        Ok(())
    }

    fn opened_wal(&self, _: &Plain, wal: &dyn Below) -> Result<(), Error> {
        self.open_wals.fetch_add(1, Relaxed);
        if !self.is_own_wal(wal) {
            self.extent.forget();
            self.salts.forget();
            self.directory_synced.store(self.shown.is_durable(), Relaxed);
        }
        self.door.forget_file();
        Ok(())
    }

    fn closing_wal(&self, connection: &Plain, wal: Option<&dyn Below>) {
        connection.close_wal(wal);
    }

    fn patience_at_last_close(&self) -> Duration {
        Duration::ZERO
    }

    fn closing_last(&self, connection: &Plain, main: &dyn MainFile) {
        connection.believe_taken_up(main);
    }

    fn deleting_wal(&self, connection: &Plain) -> Result<Deletion, Error> {
        Ok(connection.save_wal_of_nothing().unwrap_or_else(|| connection.keep_closed_wal()))
    }

    fn closing(&self, _: &Plain) {}

    fn read(
        &self,
        connection: &Plain,
        below: &dyn Below,
        role: Role,
        buffer: &mut [u8],
        offset: u64,
    ) -> Result<(), Error> {
        if role == Role::Wal {
            connection.write_header_held(below)?;
            if offset == 0 && connection.recovering.load(Relaxed) {
                connection.take_up_kept_wal(below);
                connection.doubt_wal(below);
            }
        }
        Ok(below.read(buffer, offset)?)
    }

    fn truncate_wal(
        &self,
        connection: &Plain,
        wal: &dyn Below,
        size_bytes: u64,
    ) -> Result<(), Error> {
        connection.forget_closing();
        self.extent.forget();
        self.salts.forget();
        Ok(wal.truncate(size_bytes)?)
    }

    fn write_page(
        &self,
        connection: &Plain,
        main: &dyn Below,
        page: &[u8],
        offset: u64,
    ) -> Result<(), Error> {
        *lock(&self.taken_up) = None;
        main.write(page, offset)?;
        Ok(connection.pace_checkpoint(page, offset)?)
    }

    fn truncate_database(&self, _: &Plain, main: &dyn Below, size_bytes: u64) -> Result<(), Error> {
        Ok(main.truncate(size_bytes)?)
    }

    fn database_synced(&self) {}
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;
    use crate::test_stubs::NoLogs;
    use crate::test_wal::Wal;

    #[test]
    fn what_others_can_see_of_a_failed_flush_is_written_again_and_the_rest_stays_for_the_close() {
        let store = PlainStore::new("/nonexistent/shared.db", Arc::new(NoLogs));
        let wal = Wal::default();
        wal.extend([7; 2000]);
        store.flush_failed(&wal, Some(1000));
        assert_eq!(wal.written(), (0, 0), "nothing has failed");
        store.note_failure();
        store.flush_failed(&wal, Some(1000));
        assert_eq!(wal.written(), (1000, 1000));
        store.mend(&wal, 2000).unwrap();
        assert_eq!(wal.written(), (2000, 2000));
        assert!(!*lock(&store.left));
    }
}
