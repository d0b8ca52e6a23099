//! The log of `waldio`, as far as its life is concerned ([`KeptLog`]).

use std::sync::Arc;

use oneflush_blocklog::{AlignedBuffer, Error as LogError, Storage, Uuid};
use rustc_hash::FxHashSet;

use super::header::LogHeader;
use super::slot_file::{AHEAD_FRAMES, SlotFile};
use super::view::WalView;
use crate::config::{Options, StrategyKind};
use crate::error::Code;
use crate::mutant::{self, Mutant};
use crate::names::waldio_path;
use crate::port::Below;
use crate::strategy::guard;
use crate::strategy::log_files::LogFile;
use crate::strategy::log_life::{AttachError, KeptLog};
use crate::wal_file::{Committed, HEADER_BYTES, WalFile};

/// A log that is in use.
pub struct OpenLog(pub Arc<SlotFile>);

impl OpenLog {
    /// The log as a WAL of SQLite's.
    pub fn wal(&self) -> WalView {
        WalView { file: Arc::clone(&self.0), grouping: None }
    }

    /// The frames that SQLite would recover.
    pub fn committed(&self) -> Result<Committed, Code> {
        WalFile::committed(&self.wal())
    }

    /// How many slots behind `committed` have a frame of this life of the WAL. A recovery does not
    /// find these: they were rolled back, or cut off by a crash, or something has damaged them or
    /// a frame before them.
    pub fn frames_behind(&self, committed: u32) -> Result<u32, Code> {
        let (slots, frame_bytes) = (self.0.slots_there()?, self.0.geometry().frame_bytes());
        // Without a header there is no life of the WAL. A damaged header still names its salts.
        if self.0.read_wal_header()? == [0; HEADER_BYTES as usize] {
            return Ok(0);
        }
        let mut behind = 0;
        let mut frames = vec![0; AHEAD_FRAMES as usize * frame_bytes as usize];
        let mut first = committed + 1;
        while first <= slots {
            let count = (slots - first + 1).min(AHEAD_FRAMES);
            let frames = &mut frames[..count as usize * frame_bytes as usize];
            self.0.read_frames(first, frames)?;
            let is_frame = |frame: &&[u8]| frame[..4] != [0; 4] && self.0.is_of_this_life(frame);
            behind += frames.chunks_exact(frame_bytes as usize).filter(is_frame).count() as u32;
            first += count;
        }
        Ok(behind)
    }

    /// Page 1 in the newest committed frame, or of the database file.
    pub fn newest_page_one(&self, main: &dyn Below) -> Result<Vec<u8>, Code> {
        self.committed_page_one()?.map_or_else(|| self.page_one_of(main), Ok)
    }

    /// Page 1 in the newest committed frame.
    fn committed_page_one(&self) -> Result<Option<Vec<u8>>, Code> {
        let Some(frame) = self.committed()?.last_frame_of(1) else { return Ok(None) };
        let mut page = vec![0; self.0.geometry().page_bytes];
        self.0.read_page(frame, &mut page)?;
        Ok(Some(page))
    }

    /// Page 1 of the database file, without the guard.
    fn page_one_of(&self, main: &dyn Below) -> Result<Vec<u8>, Code> {
        let mut page = vec![0; self.0.geometry().page_bytes];
        guard::read(main, &mut page, 0)?;
        Ok(page)
    }
}

fn failed(code: Code) -> LogError {
    LogError::Io {
        doing: "read its frames",
        source: std::io::Error::other(format!("code {}", code.0)),
    }
}

impl KeptLog for OpenLog {
    const STRATEGY: StrategyKind = StrategyKind::Waldio;

    fn path(database: &str) -> String {
        waldio_path(database)
    }

    fn image_path(_: &str) -> Option<String> {
        None
    }

    fn open(file: LogFile, _: &Options) -> Result<OpenLog, LogError> {
        SlotFile::open(file).map(|file| OpenLog(Arc::new(file)))
    }

    fn create(
        file: LogFile,
        uuid: Uuid,
        page_bytes: u32,
        options: &Options,
    ) -> Result<OpenLog, LogError> {
        let file = SlotFile::create(file, uuid, page_bytes, options.layout)?;
        Ok(OpenLog(Arc::new(file)))
    }

    fn uuid(&self) -> Uuid {
        self.0.uuid()
    }

    fn page_bytes(&self) -> u32 {
        self.0.geometry().page_bytes as u32
    }

    fn keep_page_one(&mut self, main: &dyn Below) -> Result<(), Code> {
        if mutant::is(Mutant::PageOneNotKept) {
            return Ok(());
        }
        self.0.write_page_one(&self.page_one_of(main)?)
    }

    /// Without a header the WAL has no frames. The copy of page 1 comes first: without a header it
    /// counts.
    fn end(&mut self, main: &dyn Below) -> Result<(), Code> {
        self.0.write_page_one(&self.page_one_of(main)?)?;
        if !mutant::is(Mutant::HeaderLeft) {
            self.0.write_wal_header(&[0; HEADER_BYTES as usize])?;
        }
        self.0.flush()
    }

    fn holds_commits(&self) -> Result<bool, LogError> {
        Ok(self.committed().map_err(failed)?.frames > 0)
    }

    /// The newest in a committed frame. Otherwise that of the copy, from before the guard was set
    /// or taken away.
    fn page_one(&self) -> Result<Option<Vec<u8>>, AttachError> {
        match self.committed_page_one()? {
            Some(page) => Ok(Some(page)),
            None => Ok(self.0.read_page_one()?),
        }
    }

    fn pages(&self) -> Result<Option<FxHashSet<u32>>, LogError> {
        let mut pages = self.committed().map_err(failed)?.pages();
        pages.insert(1);
        Ok(Some(pages))
    }

    /// Its first block is damaged. There may be frames if there is anything in its place.
    fn shows_contents(file: &LogFile) -> Result<bool, LogError> {
        let failed = |source| LogError::Io { doing: "read the log's first blocks", source };
        let size_bytes = file.size_bytes().map_err(failed)?;
        let mut block = AlignedBuffer::zeroed(file.block_bytes());
        if size_bytes < block.len() as u64 {
            return Ok(size_bytes > 0);
        }
        file.read_at(&mut block, 0).map_err(failed)?;
        if matches!(LogHeader::decode(&block), Err(LogError::NotALog)) {
            return Ok(true);
        }
        if size_bytes < 2 * block.len() as u64 {
            return Ok(false);
        }
        let at = block.len() as u64;
        file.read_at(&mut block, at).map_err(failed)?;
        Ok(block.iter().any(|&byte| byte != 0))
    }
}
