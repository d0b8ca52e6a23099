//! Frames into the log: what a commit appends, what a checkpoint has to log first, when an epoch begins.
//!
//! A record holds the last version of every page among the frames of one or more commits, so it is always whole transactions. A page is
//! a delta: against the version that this epoch's log already has, or, at its first touch, against zeros (if little of the page
//! is used) or against the page in the database file, by its checksum.
//!
//! Invariants, cited by number in code and tests:
//!
//! 1. Frames up to `logged` are durable: their pages can be built from the database file and the log, or the synced image.
//! 2. `pages` has every page of the frames up to `logged`, with its last frame there.
//! 3. A page is written to the database file only when it is `contained`: the log has all of it, not only a delta against the file, whose
//!    copy a crash may tear.
//! 4. Nothing of a record is written to the database file while it is the last: were it damaged, it would be taken for torn, and nobody
//!    would know that the file has a part of it; or, were it the epoch's first, the epoch before would be taken, whose pages are older.
//! 5. A new epoch begins only when the old one is needed no more: the database file has all of it and is synced, or the image is.

use oneflush_blocklog::group::{Base, Begin, GroupWriter, KIND_BEGIN, KIND_COMMITS, KIND_IMAGES};
use oneflush_blocklog::{Error as LogError, Head, Log, Lsn, delta, is_full};
use rustc_hash::FxHashMap;

use super::board::Board;
use super::encode::Draft;
use super::files::LogFile;
use super::recent::{Frames, Pages};
use crate::error::Code;
use crate::kill_point::KillPoint;
use crate::port::{Below, SyncRequest};
use crate::strategy::guard;
use crate::strategy::mutant::{self, Mutant};
use crate::wal_file::{self, WalFile};

/// More than this in one record is not worth it: the image is synced instead, at the price of the frames themselves.
const RECORD_PAGES_BYTES_MAX: usize = 4 << 20;

/// By how much each lane grows at the most, if no record needs more; a smaller one is doubled. The commit that needs it waits for twice as many zeros.
const GROW_BYTES_MAX: u64 = 256 << 10;

/// How much a record of page images holds at most, before a checkpoint: commits wait for it.
const IMAGES_BYTES_MAX: usize = 256 << 10;

#[derive(Clone, Copy, Debug)]
pub struct Page {
    /// Its last frame in the image up to `logged`.
    pub frame: u32,
    /// Invariant 3.
    pub contained: bool,
}

/// What the log did since it was opened.
#[derive(Clone, Copy, Debug, Default, serde::Serialize)]
pub struct LogCounts {
    pub records: u64,
    /// Bytes of records, padding to whole blocks included.
    pub logged_bytes: u64,
    /// The frames that these stand for, in bytes.
    pub frame_bytes: u64,
    pub epochs: u64,
    pub grown: u64,
    /// How often the image was synced instead: large transactions, a full log.
    pub image_syncs: u64,
    /// Pages that a checkpoint had to log first.
    pub page_images: u64,
}

/// The log of a database that is in use.
pub struct OpenLog {
    pub log: Log<LogFile>,
    pub head: Head,
    pub page_bytes: usize,
    /// The log may grow to this.
    pub size_bytes_max: u64,
    /// The same, for what the file system has room for.
    pub share_bytes_max: u64,
    /// This generation of the image has an epoch.
    pub begun: bool,
    /// The epoch stands on the synced image.
    pub on_image: bool,
    pub records_in_epoch: u64,
    pub pages: FxHashMap<u32, Page>,
    pub logged: u32,
    /// The board's, when `pages` was brought up to date.
    generation: u64,
    pub versions: Pages,
    /// The append of this record failed, so it may be there or not.
    pub unsure: Option<Lsn>,
    pub counts: LogCounts,
    writer: GroupWriter,
    pub spare_frames: Frames,
}

impl OpenLog {
    pub fn new(log: Log<LogFile>, head: Head, size_bytes_max: u64) -> OpenLog {
        OpenLog {
            page_bytes: log.page_bytes() as usize,
            log,
            head,
            size_bytes_max,
            share_bytes_max: u64::MAX,
            begun: false,
            on_image: false,
            records_in_epoch: 0,
            pages: FxHashMap::default(),
            logged: 0,
            generation: 0,
            versions: Pages::default(),
            unsure: None,
            counts: LogCounts::default(),
            writer: GroupWriter::new(None, 0),
            spare_frames: Frames::default(),
        }
    }

    /// Takes over what other processes have logged meanwhile. Without the image, only where the next record goes.
    pub fn follow(&mut self, board: &Board, image: Option<&dyn Below>) -> Result<(), Code> {
        board.read(self);
        let logged = board.logged();
        let Some(file) = image else {
            (self.logged, self.generation) = (logged, u64::MAX);
            return Ok(());
        };
        if self.generation != board.generation() {
            self.generation = board.generation();
            self.pages.clear();
            self.versions.clear();
            self.logged = 0;
        }
        let image = WalFile { file, page_bytes: self.page_bytes };
        for frame in self.logged + 1..=logged {
            let page_no = match board.page_of(frame) {
                Some(page_no) => page_no,
                None => image.header_of(frame)?.page_no,
            };
            // Of this version: who logged it may have copied from a page that the log does not contain.
            self.pages.insert(page_no, Page { frame, contained: board.contains(frame) });
            self.versions.forget(page_no);
        }
        self.logged = logged;
        Ok(())
    }

    /// True if the log ends where a board says that somebody has left: by name and time it may be the right one and yet an old version of it,
    /// where the device was away for a while.
    pub fn ends_as(&mut self, board: &Board) -> bool {
        let Ok(Some(found)) = self.log.scan(|_, _, _| Ok::<(), LogError>(())) else { return false };
        board.read(self);
        let known = self.head;
        let has_died_behind_a_record = board.is_busy()
            && found.lsn.0 == known.lsn.0 + 1
            && (found.epoch == known.epoch || found.epoch.0 == known.epoch.0 + 1);
        has_died_behind_a_record || Head { lane_bytes: 0, ..found } == Head { lane_bytes: 0, ..known }
    }

    /// Brings log and board to agree again after a process has died between the two (invariant 2 of the board): from the log's own end on
    /// an epoch begins that stands on the image, which has all commits, or on the database file, which has them where no frame is
    /// committed.
    pub fn repair(&mut self, board: &Board, image: Option<&dyn Below>) -> Result<(), Code> {
        let head = self.log.scan(|_, _, _| Ok::<(), LogError>(())).map_err(|error| code_of(&error))?;
        self.head = match head {
            Some(head) => head,
            None => self.log.empty_head().map_err(|error| code_of(&error))?,
        };
        KillPoint::Repairing.reached();
        board.next_generation();
        board.forget_contained();
        self.generation = board.generation();
        self.versions.clear();
        let committed = board.committed();
        match image.filter(|_| committed > 0) {
            Some(image) => {
                self.take_back_to(board, &WalFile { file: image, page_bytes: self.page_bytes }, committed)?
            }
            None => {
                self.on_image = true;
                self.forget_frames()?;
            }
        }
        self.show(board);
        Ok(())
    }

    /// Puts what has changed on the board.
    pub fn show(&self, board: &Board) {
        board.write(self);
    }

    /// Makes all commits up to frame `target` durable.
    pub fn append(
        &mut self,
        board: &Board,
        main: &dyn Below,
        image: &dyn Below,
        recent: &Frames,
        target: u32,
    ) -> Result<(), Code> {
        if target <= self.logged {
            return Ok(());
        }
        let image = WalFile { file: image, page_bytes: self.page_bytes };
        let mut last_frames: Vec<(u32, u32)> = Vec::new();
        let mut database_pages = 0;
        for frame in self.logged + 1..=target {
            let header = match recent.get(frame, self.page_bytes) {
                Some((header, _)) => header,
                None => image.header_of(frame)?,
            };
            database_pages = header.database_pages;
            board.note_page(frame, header.page_no);
            last_frames.push((header.page_no, frame));
        }
        // The last frame of each page, in the order of pages.
        last_frames.sort_unstable_by_key(|&(page_no, frame)| (page_no, std::cmp::Reverse(frame)));
        last_frames.dedup_by_key(|&mut (page_no, _)| page_no);
        if last_frames.len() * self.page_bytes > RECORD_PAGES_BYTES_MAX {
            return self.through_image(board, &image, target);
        }
        let begin = (!self.begun).then_some(Begin::Database);
        let mut writer = std::mem::replace(&mut self.writer, GroupWriter::new(None, 0));
        let draft = Draft { begin, database_pages, main, image: &image, recent, last_frames: &last_frames };
        let contained = self.encode(board, &mut writer, &draft);
        let appended = contained.and_then(|contained| {
            let kind = if begin.is_some() { KIND_BEGIN } else { KIND_COMMITS };
            Ok(self.write_record(kind, writer.finish())?.then_some(contained))
        });
        self.writer = writer;
        let Some(contained) = appended? else {
            return self.through_image(board, &image, target);
        };
        self.counts.frame_bytes += u64::from(target - self.logged) * self.page_bytes as u64;
        for ((page_no, frame), contained) in last_frames.into_iter().zip(contained) {
            match recent.get(frame, self.page_bytes) {
                Some(_) if mutant::is(Mutant::WrongBase) && self.versions.get(page_no).is_some() => {}
                Some((_, page)) => self.versions.put(page_no, page),
                None => self.versions.forget(page_no),
            }
            self.pages.insert(page_no, Page { frame, contained });
            if contained {
                board.set_contained(frame);
            }
        }
        self.logged = target;
        Ok(())
    }

    /// False if the file does not reach so far.
    pub fn read_database_page(&self, main: &dyn Below, page_no: u32, page: &mut Vec<u8>) -> Result<bool, Code> {
        page.resize(self.page_bytes, 0);
        match main.read(page, u64::from(page_no - 1) * self.page_bytes as u64) {
            Ok(()) => Ok(true),
            Err(Code::SHORT_READ) => Ok(false),
            Err(code) => Err(code),
        }
    }

    /// Logs page 1 as it is in the database file, before the guard in it is changed: no commit may have changed it since. The size of the database
    /// is that of the last commit, or, where the log has none, the file's.
    pub fn log_page_one(&mut self, main: &dyn Below) -> Result<(), Code> {
        let mut page = Vec::new();
        if !self.read_database_page(main, 1, &mut page)? {
            return Err(Code::CORRUPT);
        }
        guard::hide(&mut page);
        let begin = (!self.begun).then_some(Begin::Database);
        let mut writer = GroupWriter::new(begin, 0);
        writer.push(1, Base::Zeros, |out| delta::encode_from_zeros(&page, out));
        let kind = if begin.is_some() { KIND_BEGIN } else { KIND_IMAGES };
        if !self.write_record(kind, writer.finish())? {
            return Err(Code::FULL);
        }
        Ok(())
    }

    /// The database file has everything and is synced: begins an epoch that holds no commit, by which whoever finds the log later knows that
    /// it is not needed ([`holds_commits`](super::recover::holds_commits)).
    pub fn end(&mut self, main: &dyn Below) -> Result<(), Code> {
        self.pages.clear();
        self.versions.clear();
        self.logged = 0;
        self.begun = false;
        self.log_page_one(main)
    }

    /// False: there is no room, and the log may not grow, so nothing was written.
    fn write_record(&mut self, kind: u8, payload: &[u8]) -> Result<bool, Code> {
        loop {
            let appended = match kind {
                KIND_BEGIN => self.log.begin_epoch(&self.head, kind, payload),
                _ => self.log.append(&self.head, kind, payload),
            };
            match appended {
                Ok(head) => {
                    KillPoint::Recorded.reached();
                    self.head = head;
                    self.counts.records += 1;
                    self.counts.logged_bytes += self.log.record_bytes(payload.len());
                    if kind == KIND_BEGIN {
                        self.begun = true;
                        self.on_image = false;
                        self.records_in_epoch = 0;
                        self.counts.epochs += 1;
                    }
                    self.records_in_epoch += 1;
                    return Ok(true);
                }
                Err(LogError::Full { needed, free }) if self.grow(needed - free)? => {}
                Err(LogError::Full { .. }) => return Ok(false),
                Err(error) => {
                    self.unsure = Some(Lsn(self.head.lsn.0 + 1));
                    return Err(code_of(&error));
                }
            }
        }
    }

    /// By `missing_bytes` at least.
    fn grow(&mut self, missing_bytes: u64) -> Result<bool, Code> {
        let lane_bytes = grown_lane(self.head.lane_bytes, missing_bytes);
        if lane_bytes * 2 > self.size_bytes_max.min(self.share_bytes_max) {
            return Ok(false);
        }
        match self.log.grow(&self.head, lane_bytes) {
            Ok(head) => {
                self.head = head;
                self.counts.grown += 1;
                Ok(true)
            }
            // The image takes what the log cannot.
            Err(LogError::Io { source, .. }) if is_full(&source) => Ok(false),
            Err(error) => Err(code_of(&error)),
        }
    }

    /// Syncs the image up to `target` and begins an epoch on it: for transactions that are large, and when the log is full.
    fn through_image(&mut self, board: &Board, image: &WalFile<'_>, target: u32) -> Result<(), Code> {
        image.file.sync(SyncRequest::ALL)?;
        KillPoint::ImageSynced.reached();
        self.counts.image_syncs += 1;
        for frame in self.logged + 1..=target {
            let page_no = image.header_of(frame)?.page_no;
            self.pages.insert(page_no, Page { frame, contained: true });
            self.versions.forget(page_no);
        }
        self.begin_on_image(board, image, target)
    }

    fn begin_on_image(&mut self, board: &Board, image: &WalFile<'_>, target: u32) -> Result<(), Code> {
        let last = image.header_of(target)?;
        let begin = Begin::Image { frames: target, salt: last.chain.salt, checksum: last.chain.checksum };
        let mut writer = std::mem::replace(&mut self.writer, GroupWriter::new(None, 0));
        writer.reset(Some(begin), last.database_pages);
        if let Some(page_one) = self.pages.get(&1) {
            let mut page = Vec::new();
            image.page(page_one.frame, &mut page)?;
            writer.push(1, Base::Zeros, |out| delta::encode_from_zeros(&page, out));
        }
        let written = self.write_record(KIND_BEGIN, writer.finish());
        self.writer = writer;
        if !written? {
            // A lane that has not even one block.
            return Err(Code::FULL);
        }
        for page in self.pages.values_mut() {
            page.contained = true;
        }
        board.set_all_contained(target);
        self.on_image = true;
        self.logged = target;
        Ok(())
    }

    /// Before a checkpoint writes its first page to the database file: logs one record of pages whole, off the end of `missing`, which is
    /// empty at first. False if there may be more; others may use the log in between.
    ///
    /// When it is true, the log contains every page that it has at that moment (invariant 3), also those that were changed since the checkpoint
    /// began: they may be copied from pages that it is going to write. And the record stands behind all of the checkpoint's commits (invariant 4).
    pub fn log_images(&mut self, board: &Board, image: &dyn Below, missing: &mut Vec<u32>) -> Result<bool, Code> {
        if !self.begun || self.logged == 0 {
            return Ok(true);
        }
        let mut is_last = false;
        if missing.is_empty() {
            missing.extend(self.pages.keys().filter(|&&page_no| self.is_missing(board, page_no)));
            missing.sort_unstable_by_key(|&page_no| std::cmp::Reverse(page_no));
            is_last = missing.len() * self.page_bytes <= IMAGES_BYTES_MAX;
        }
        let image = WalFile { file: image, page_bytes: self.page_bytes };
        let mut writer = GroupWriter::new(None, image.header_of(self.logged)?.database_pages);
        let (mut page, mut held) = (Vec::new(), Vec::new());
        while (is_last || writer.len_bytes() < IMAGES_BYTES_MAX)
            && let Some(page_no) = missing.pop()
        {
            // Others may have logged it since, or begun an epoch that needs it no more.
            if self.is_missing(board, page_no) {
                image.page(self.pages[&page_no].frame, &mut page)?;
                writer.push(page_no, Base::Zeros, |out| delta::encode_from_zeros(&page, out));
                held.push(page_no);
            }
        }
        if !self.write_record(KIND_IMAGES, writer.finish())? {
            let logged = self.logged;
            self.through_image(board, &image, logged)?;
            missing.clear();
            // The epoch's first record may not be its last.
            return Ok(self.records_in_epoch > 1);
        }
        self.counts.page_images += held.len() as u64;
        for page_no in held {
            self.pages.entry(page_no).and_modify(|page| {
                page.contained = true;
                board.set_contained(page.frame);
            });
        }
        Ok(is_last)
    }

    fn is_missing(&self, board: &Board, page_no: u32) -> bool {
        self.pages.get(&page_no).is_some_and(|page| !self.is_contained(board, page))
            && !mutant::is(Mutant::NoPageImages)
    }

    /// Invariant 3, of what is known here and of what another process has said since; frames far back have no place on the board.
    pub fn is_contained(&self, board: &Board, page: &Page) -> bool {
        page.contained || board.contains(page.frame)
    }

    /// SQLite begins the image anew: the database file has everything and is synced. The image is cut if it has been there for so long
    /// that the kernel would soon write it back; else its memory is written again.
    pub fn restart(&mut self, board: &Board, image: &dyn Below, is_old: bool) -> Result<(), Code> {
        self.forget_frames()?;
        KillPoint::Forgotten.reached();
        self.changed(board);
        if !is_old {
            return Ok(());
        }
        // Not to 0 bytes: see `WalFile::empty`. SQLite writes the header next.
        if image.size_bytes()? > wal_file::HEADER_BYTES {
            board.image_cut(wal_file::HEADER_BYTES);
            image.truncate(wal_file::HEADER_BYTES)?;
        }
        Ok(())
    }

    /// The frames are needed no more.
    fn forget_frames(&mut self) -> Result<(), Code> {
        self.pages.clear();
        self.versions.clear();
        self.logged = 0;
        self.begun = false;
        self.records_in_epoch = 0;
        if self.on_image {
            // Until the next epoch is durable this one counts, and it wants the image as it was synced.
            let mut writer = GroupWriter::new(None, 0);
            writer.reset(Some(Begin::Database), 0);
            if !self.write_record(KIND_BEGIN, writer.finish())? {
                return Err(Code::FULL);
            }
            self.on_image = false;
        }
        Ok(())
    }

    /// Frames that were committed or logged are not what they were any more.
    fn changed(&mut self, board: &Board) {
        board.next_generation();
        board.forget_contained();
        self.generation = board.generation();
    }

    /// The frames behind `kept` are about to be overwritten: what the log has of them is part of a commit that failed.
    pub fn take_back(&mut self, board: &Board, image: &dyn Below, kept: u32) -> Result<(), Code> {
        self.changed(board);
        if kept >= self.logged {
            board.note_contained(&self.pages);
            return Ok(());
        }
        if kept == 0 {
            return self.forget_frames();
        }
        self.take_back_to(board, &WalFile { file: image, page_bytes: self.page_bytes }, kept)
    }

    /// Begins an epoch on the image as it is up to frame `kept`.
    fn take_back_to(&mut self, board: &Board, image: &WalFile<'_>, kept: u32) -> Result<(), Code> {
        image.file.sync(SyncRequest::ALL)?;
        KillPoint::ImageSynced.reached();
        self.counts.image_syncs += 1;
        self.pages.clear();
        self.versions.clear();
        for frame in 1..=kept {
            let page_no = image.header_of(frame)?.page_no;
            self.pages.insert(page_no, Page { frame, contained: true });
        }
        self.begin_on_image(board, image, kept)
    }
}

/// What a lane is to hold that lacks so much.
fn grown_lane(lane_bytes: u64, missing_bytes: u64) -> u64 {
    let grown = lane_bytes + missing_bytes.next_multiple_of(lane_bytes.clamp(1, GROW_BYTES_MAX));
    if grown > GROW_BYTES_MAX { grown.next_multiple_of(GROW_BYTES_MAX) } else { grown }
}

/// What SQLite is told when the log fails.
pub fn code_of(error: &LogError) -> Code {
    match error {
        LogError::Io { source, .. } if is_full(source) => Code::FULL,
        LogError::Io { .. } => Code::IOERR_FSYNC,
        LogError::Full { .. } => Code::FULL,
        _ => Code::CORRUPT,
    }
}
