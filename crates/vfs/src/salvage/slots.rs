//! The log of `waldio` as a source: the frames that SQLite would recover from it.
//!
//! They become a WAL of SQLite's own. A log whose first block is damaged is read with each layout
//! that it may have, and the one counts that has the most frames. Their checksums and the WAL's
//! header, which has a block of its own, say whether they are frames.

use std::fs::OpenOptions;
use std::path::Path;
use std::sync::Arc;

use oneflush_blocklog::{Error as LogError, Uuid};

use super::{Aside, SalvageError, failed};
use crate::file_below::FileBelow;
use crate::inspect::open_to_read;
use crate::names::waldio_path;
use crate::port::{Below, SyncRequest};
use crate::strategy::{SlotFile, WaldioOpenLog};

/// A log that has frames, and how many.
pub(super) struct Slots {
    log: WaldioOpenLog,
    pub frames: u32,
    pub pages: u64,
    /// Frames of the same life of the WAL behind those. They were damaged, or not committed.
    pub behind: u32,
}

impl Slots {
    fn of(log: SlotFile) -> Option<Slots> {
        let log = WaldioOpenLog(Arc::new(log));
        let committed = log.committed().ok()?;
        let frames = committed.frames;
        let behind = log.frames_behind(frames).unwrap_or(0);
        let pages = committed.pages().len() as u64;
        Some(Slots { log, frames, pages, behind })
    }

    /// Writes the frames to a WAL for SQLite.
    fn write_to(&self, wal: &Path) -> Result<(), SalvageError> {
        let made = OpenOptions::new().write(true).create(true).truncate(true).open(wal);
        let to = FileBelow(Some(made.map_err(failed(wal))?));
        let from = self.log.wal();
        let frame_bytes = self.log.0.geometry().frame_bytes();
        let end = crate::wal_file::HEADER_BYTES + u64::from(self.frames) * frame_bytes;
        let mut piece = vec![0; crate::wal_file::HEADER_BYTES as usize];
        let mut offset = 0;
        while offset < end {
            from.read(&mut piece, offset)?;
            to.write(&piece, offset)?;
            offset += piece.len() as u64;
            piece.resize(frame_bytes as usize, 0);
        }
        Ok(to.sync(SyncRequest::ALL)?)
    }
}

impl Aside {
    /// Finds the frames of the log that the database names.
    pub(super) fn read_slots(&mut self) -> Result<(), SalvageError> {
        let path = self.copied(&waldio_path(""));
        if !path.exists() {
            return Ok(());
        }
        let found = match open_to_read(&path).and_then(SlotFile::open) {
            Ok(log) if self.uuid.is_none_or(|uuid| uuid == log.uuid()) => {
                self.uuid = Some(log.uuid());
                self.page_bytes = log.geometry().page_bytes;
                Slots::of(log)
            }
            Err(LogError::HeaderDamaged | LogError::NotALog | LogError::Unfinished) => {
                let uuid = self.uuid.unwrap_or(Uuid([0; 16]));
                let page_bytes = self.page_bytes;
                let logs = SlotFile::open_without_header(|| open_to_read(&path), uuid, page_bytes)?;
                logs.into_iter().filter_map(Slots::of).max_by_key(|slots| slots.frames)
            }
            // The log is another database's, or it has an unknown format.
            _ => None,
        };
        self.slots = found.filter(|slots| slots.frames > 0);
        Ok(())
    }

    /// Writes the frames of the log into a WAL for SQLite. None: there are none.
    pub(super) fn write_slots(&self, wal: &Path) -> Result<Option<&Slots>, SalvageError> {
        let Some(slots) = &self.slots else { return Ok(None) };
        slots.write_to(wal)?;
        Ok(Some(slots))
    }

    /// Page 1 as the log has it.
    pub(super) fn page_one_of_slots(&self) -> Option<Vec<u8>> {
        use crate::strategy::KeptLog;
        self.slots.as_ref()?.log.page_one().ok().flatten()
    }
}
