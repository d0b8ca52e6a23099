//! The log of a directory: making it, opening it, and releasing an epoch.
//!
//! It differs from the log of a database in its header, and in when an epoch is needed no more. A
//! database's epoch is needed no more when the next one begins. A directory's is needed until a
//! durable record in the next one *releases* it (`epochs.rs`).
//!
//! Which epoch is released is not in a [`Head`]. The [`Log`] keeps it, from the last scan or
//! release on. So one `Log` writes, and after opening it comes [`scan_epochs`](Log::scan_epochs).

use std::sync::atomic::Ordering::SeqCst;

use crate::header::{FORMAT_VERSION_OF_DIRECTORY, PAGE_BYTES_OF_DIRECTORY};
use crate::{Epoch, Error, Head, Log, Storage, Uuid};

/// A record of this kind says that the epoch before its own is needed no more. Its payload is that
/// epoch's number, little-endian. Only the logs of directories have it.
pub const KIND_RELEASE: u8 = 16;

impl<S: Storage> Log<S> {
    /// Like [`create`](Log::create), for a directory.
    pub fn create_for_directory(
        storage: S,
        uuid: Uuid,
        lane_bytes: u64,
    ) -> Result<(Log<S>, Head), Error> {
        let version = FORMAT_VERSION_OF_DIRECTORY;
        Log::create_of_version(storage, version, uuid, PAGE_BYTES_OF_DIRECTORY, lane_bytes)
    }

    /// Reads and checks the first block, no more. The log of a database is refused.
    pub fn open_for_directory(storage: S) -> Result<Log<S>, Error> {
        let log = Log::open_of_any_kind(storage)?;
        if log.is_of_directory() { Ok(log) } else { Err(Error::OfDatabase) }
    }

    /// Says that nothing of `epoch` is needed any more; durable on return. It is the epoch before
    /// the head's. Everything that the epoch logged must be durable elsewhere.
    pub fn release(&self, head: &Head, epoch: Epoch) -> Result<Head, Error> {
        if !self.is_of_directory() {
            return Err(Error::OfDatabase);
        }
        if head.position == 0 || epoch.0 == 0 || epoch.0.checked_add(1) != Some(head.epoch.0) {
            return Err(Error::BadHead { what: "only the epoch before the head's is released" });
        }
        let head = self.put(head, KIND_RELEASE, &epoch.0.to_le_bytes())?;
        self.note_released(epoch);
        Ok(head)
    }

    pub(crate) fn note_released(&self, epoch: Epoch) {
        self.released.store(epoch.0, SeqCst);
    }

    /// Who reads one epoch alone would lose the other.
    pub(crate) fn refuse_directory(&self) -> Result<(), Error> {
        if self.is_of_directory() { Err(Error::OfDirectory) } else { Ok(()) }
    }

    /// A release is written by [`release`](Log::release) alone.
    pub(crate) fn refuse_release(&self, kind: u8) -> Result<(), Error> {
        if self.is_of_directory() && kind == KIND_RELEASE {
            return Err(Error::BadHead { what: "a release names the epoch that it is of" });
        }
        Ok(())
    }

    /// The next epoch goes over the one before the head's. That must be released (E1).
    pub(crate) fn refuse_overwriting(&self, head: &Head) -> Result<(), Error> {
        let overwritten = head.epoch.0.saturating_sub(1);
        if self.is_of_directory() && self.released.load(SeqCst) < overwritten {
            return Err(Error::BadHead { what: "the epoch before the head's is not released" });
        }
        Ok(())
    }
}
