//! Frames into the log: what a commit appends, what a checkpoint has to log first, when an epoch
//! begins.
//!
//! A record holds the last version of each page among the frames of one or more commits. So a
//! record is always whole transactions. Each page is a delta against one of these bases:
//!
//! | base | when |
//! |---|---|
//! | the version that the log already has | the page was logged before in this epoch |
//! | zeros | first touch in this epoch, and the page is mostly empty |
//! | the page in the database file, by its checksum | first touch in this epoch, any other page |
//!
//! Invariants, cited by number in code and tests:
//!
//! 1. Frames up to `logged` are durable: their pages can be built from the log, and from the
//!    database file or the synced image.
//! 2. `pages` has every page of the frames up to `logged`, with its last frame there.
//! 3. A page is written to the database file only when it is `contained`: the log has all of the
//!    page. A delta against the file is not enough, since a crash may tear the file's copy.
//! 4. While a record is the last, none of its pages is written to the database file. A damaged last
//!    record is taken for torn, and nobody would know that the file has a part of it. If it were
//!    also the epoch's first, recovery would take the epoch before, whose pages are older.
//! 5. A new epoch begins only when the old one is needed no more: the database file has all of it
//!    and is synced, or the image is synced.
//!
//! The epoch of an open log:
//!
//! | state | `begun`, `on_image` | entered by | recovery builds on |
//! |---|---|---|---|
//! | none yet | false, false | `restart` | the epoch before, whose pages the file has |
//! | on the database | true, false | first `append`, `log_page_one` | the database file, the log |
//! | on the image | true, true | `through_image`, `take_back_to` | the synced image, the log |
//!
//! - Out of "on the image", `forget_frames` begins an empty epoch on the database at once. Until
//!   then the old epoch counts, and it needs the image as it was synced.
//! - After the death of a process, `repair` enters "on the image". Where no frame is committed, it
//!   enters "on the database".

use oneflush_blocklog::group::{Base, Begin, GroupWriter, KIND_BEGIN, KIND_COMMITS, KIND_IMAGES};
use oneflush_blocklog::{Error as LogError, Head, Log, Lsn, delta, invariant, is_full};
use rustc_hash::FxHashMap;

use super::draft::Draft;
use super::recent::{Frames, Pages};
use crate::error::Code;
use crate::kill_point::KillPoint;
use crate::mutant::{self, Mutant};
use crate::port::{Below, SyncRequest};
use crate::strategy::board::{Board, Shown};
use crate::strategy::guard;
use crate::strategy::log_files::{LogFile, code_of, settle};
use crate::wal_file::{self, WalFile};

/// A record with more bytes of pages is not worth it. The image is synced instead, which writes the
/// frames themselves.
const RECORD_PAGES_BYTES_MAX: usize = 4 << 20;

/// A lane grows by its own size, and by this much at most unless a record needs more. Both lanes
/// grow, so the commit that needs it waits for twice as many zeros.
const GROW_BYTES_MAX: u64 = 256 << 10;

/// A record of page images before a checkpoint holds this much at most, because commits wait for
/// it.
const IMAGES_BYTES_MAX: usize = 256 << 10;

#[derive(Clone, Copy, Debug)]
pub struct Page {
    /// The page's last frame in the image up to `logged`.
    pub frame: u32,
    /// The log has all of the page (invariant 3).
    pub contained: bool,
}

/// Counts since the log was opened.
#[derive(Clone, Copy, Debug, Default, serde::Serialize)]
pub struct LogCounts {
    pub records: u64,
    /// Bytes of records, with the padding to whole blocks.
    pub logged_bytes: u64,
    /// Bytes of the frames that the records stand for.
    pub frame_bytes: u64,
    pub epochs: u64,
    pub grown: u64,
    /// Zeros that were written ahead, for the log and where it grew.
    pub laid_out_bytes: u64,
    /// How often the image was synced instead: for a large transaction, or a full log.
    pub image_syncs: u64,
    /// Pages that a checkpoint had to log first.
    pub page_images: u64,
}

/// The log of a database that is in use.
pub struct OpenLog {
    pub log: Log<LogFile>,
    pub head: Head,
    pub page_bytes: usize,
    /// The log may grow to this many bytes (`log_size`).
    pub size_bytes_max: u64,
    /// The log may grow to this many bytes, by the room in the file system.
    pub share_bytes_max: u64,
    /// An epoch has begun for this generation of the image.
    pub begun: bool,
    /// The epoch stands on the synced image.
    pub on_image: bool,
    pub records_in_epoch: u64,
    pub pages: FxHashMap<u32, Page>,
    pub logged: u32,
    /// The board's generation when `pages` was brought up to date.
    generation: u64,
    pub versions: Pages,
    /// Records from this one on are unsure, as [`Board::unsure`] says.
    pub unsure: Option<Lsn>,
    /// What the system has said of the failure that is about to end the log.
    pub why_failed: Option<String>,
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
            why_failed: None,
            counts: LogCounts::default(),
            writer: GroupWriter::new(None, 0),
            spare_frames: Frames::default(),
        }
    }

    pub fn counts(&self) -> LogCounts {
        LogCounts { laid_out_bytes: self.log.written().zeros_bytes, ..self.counts }
    }

    /// Takes over what other processes have logged meanwhile. Without the image this is only where
    /// the next record goes.
    pub fn follow(&mut self, board: &Board, image: Option<&dyn Below>) -> Result<(), Code> {
        self.read(board);
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
            // Only this version counts: its process may have copied from a page that the log does
            // not contain.
            self.pages.insert(page_no, Page { frame, contained: board.contains(frame) });
            self.versions.forget(page_no);
        }
        self.logged = logged;
        Ok(())
    }

    /// True if the log ends where the board says that the last user left it. A log of the right
    /// name and time may still be an old version, where the device was away for a while.
    pub fn ends_as(&mut self, board: &Board) -> bool {
        let Ok(Some(found)) = self.log.scan(|_, _, _| Ok::<(), LogError>(())) else { return false };
        self.read(board);
        let known = self.head;
        let has_died_behind_a_record = board.is_busy()
            && found.lsn.0 == known.lsn.0 + 1
            && (found.epoch == known.epoch || found.epoch.0 == known.epoch.0 + 1);
        has_died_behind_a_record
            || Head { lane_bytes: 0, ..found } == Head { lane_bytes: 0, ..known }
    }

    /// Makes log and board agree again after a process died between the two (invariant 2 of the
    /// board). A new epoch begins behind the log's own end. It stands on the image, which has all
    /// commits. Where no frame is committed, it stands on the database file.
    pub fn repair(&mut self, board: &Board, image: Option<&dyn Below>) -> Result<(), Code> {
        self.unsure = board.unsure();
        self.head = self.own_end().map_err(|error| code_of(&error))?;
        KillPoint::Repairing.reached();
        board.next_generation();
        board.forget_contained();
        self.generation = board.generation();
        self.versions.clear();
        let committed = board.committed();
        match image.filter(|_| committed > 0) {
            Some(image) => self.take_back_to(
                board,
                &WalFile { file: image, page_bytes: self.page_bytes },
                committed,
            )?,
            None => {
                self.on_image = true;
                self.forget_frames()?;
            }
        }
        self.show(board);
        Ok(())
    }

    /// The log's own end. What is unsure is written again before.
    fn own_end(&mut self) -> Result<Head, LogError> {
        settle(&self.log, &mut self.unsure)?;
        let head = self.log.scan(|_, _, _| Ok::<(), LogError>(()))?;
        head.map_or_else(|| self.log.empty_head(), Ok)
    }

    /// Puts the log's new state on the board.
    pub fn show(&self, board: &Board) {
        board.show(&Shown {
            head: self.head,
            begun: self.begun,
            on_image: self.on_image,
            records_in_epoch: self.records_in_epoch,
            pages: self.pages.len() as u64,
            logged: self.logged,
        });
    }

    /// Takes from the board where the next record goes, as the last holder of the lock left it.
    fn read(&mut self, board: &Board) {
        let shown = board.shown();
        self.head = shown.head;
        self.begun = shown.begun;
        self.on_image = shown.on_image;
        self.records_in_epoch = shown.records_in_epoch;
    }

    /// Says on the board which pages the log has whole.
    pub fn show_contained(&self, board: &Board) {
        self.pages
            .values()
            .filter(|page| page.contained)
            .for_each(|page| board.set_contained(page.frame));
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
        // Keeps the last frame of each page, ordered by page.
        last_frames.sort_unstable_by_key(|&(page_no, frame)| (page_no, std::cmp::Reverse(frame)));
        last_frames.dedup_by_key(|&mut (page_no, _)| page_no);
        if last_frames.len() * self.page_bytes > RECORD_PAGES_BYTES_MAX {
            return self.through_image(board, &image, target);
        }
        invariant!(
            "E1",
            "an epoch on the database file begins when no frame is needed",
            self.begun || self.logged == 0
        );
        let begin = (!self.begun).then_some(Begin::Database);
        let mut writer = std::mem::replace(&mut self.writer, GroupWriter::new(None, 0));
        let draft =
            Draft { begin, database_pages, main, image: &image, recent, last_frames: &last_frames };
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
                Some(_)
                    if mutant::is(Mutant::WrongBase) && self.versions.get(page_no).is_some() => {}
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

    /// Reads a page of the database file. False: the file ends before it.
    pub fn read_database_page(
        &self,
        main: &dyn Below,
        page_no: u32,
        page: &mut Vec<u8>,
    ) -> Result<bool, Code> {
        page.resize(self.page_bytes, 0);
        match main.read(page, u64::from(page_no - 1) * self.page_bytes as u64) {
            Ok(()) => Ok(true),
            Err(Code::SHORT_READ) => Ok(false),
            Err(code) => Err(code),
        }
    }

    /// Logs page 1 as it is in the database file, before its guard is changed. No commit in the log
    /// may have changed page 1. The record names no size of the database: that of the last commit
    /// stays, or the file's.
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

    /// Begins an epoch that holds no commit. The database file has everything and is synced. A
    /// later finder sees from this epoch that the log is not needed
    /// ([`holds_commits`](crate::strategy::log_life::KeptLog::holds_commits)).
    pub fn begin_empty_epoch(&mut self, main: &dyn Below) -> Result<(), Code> {
        self.pages.clear();
        self.versions.clear();
        self.logged = 0;
        self.begun = false;
        self.log_page_one(main)
    }

    /// False: nothing was written, because there is no room and the log may not grow.
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
                    return Err(self.failed(&error));
                }
            }
        }
    }

    /// Makes each lane longer, by `missing_bytes` at least. False: it may not grow, or the disk is
    /// full.
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
            // The disk is full: the image takes what the log cannot.
            Err(LogError::Io { source, .. }) if is_full(&source) => Ok(false),
            Err(error) => Err(self.failed(&error)),
        }
    }

    fn failed(&mut self, error: &LogError) -> Code {
        self.why_failed = Some(error.to_string());
        code_of(error)
    }

    /// Syncs the image up to `target` and begins an epoch on it. For large transactions, and for a
    /// full log.
    fn through_image(
        &mut self,
        board: &Board,
        image: &WalFile<'_>,
        target: u32,
    ) -> Result<(), Code> {
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

    fn begin_on_image(
        &mut self,
        board: &Board,
        image: &WalFile<'_>,
        target: u32,
    ) -> Result<(), Code> {
        let last = image.header_of(target)?;
        let begin =
            Begin::Image { frames: target, salt: last.chain.salt, checksum: last.chain.checksum };
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
            // The lane has no room for even one block.
            return Err(Code::FULL);
        }
        for page in self.pages.values_mut() {
            debug_assert!(page.frame <= target, "invariant 2: a page's frame is logged");
            page.contained = true;
        }
        board.set_all_contained(target);
        self.on_image = true;
        self.logged = target;
        Ok(())
    }

    /// Logs one record of whole pages for a checkpoint that has not written its first page yet. The
    /// pages come off the end of `missing`, which is empty at the first call. False: call again,
    /// since there may be more. Others may use the log in between.
    ///
    /// When the answer is true, two things hold:
    ///
    /// - Every page that the log has is contained (invariant 3). That includes pages changed since
    ///   the checkpoint began: they may be copies of pages that it will write.
    /// - The last record stands behind all commits of the checkpoint (invariant 4).
    pub fn log_images(
        &mut self,
        board: &Board,
        image: &dyn Below,
        missing: &mut Vec<u32>,
    ) -> Result<bool, Code> {
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
            // Another process may have logged this page since, or begun an epoch that does not need
            // it.
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
            // Invariant 4: the epoch's first record must not be its last.
            return Ok(self.records_in_epoch > 1);
        }
        self.counts.page_images += held.len() as u64;
        for page_no in held {
            self.pages.entry(page_no).and_modify(|page| {
                page.contained = true;
                board.set_contained(page.frame);
            });
        }
        if is_last {
            invariant!(
                "E2",
                "a checkpoint writes pages when the log has them whole",
                self.pages.values().all(|page| self.is_contained(board, page))
            );
            debug_assert!(
                self.records_in_epoch > 1,
                "invariant 4: the last record is not the epoch's first"
            );
        }
        Ok(is_last)
    }

    fn is_missing(&self, board: &Board, page_no: u32) -> bool {
        self.pages.get(&page_no).is_some_and(|page| !self.is_contained(board, page))
            && !mutant::is(Mutant::NoPageImages)
    }

    /// Invariant 3, from what this process knows and what others have put on the board. The board
    /// has bits for the image's first frames only.
    pub fn is_contained(&self, board: &Board, page: &Page) -> bool {
        page.contained || board.contains(page.frame)
    }

    /// SQLite begins the image anew. The database file has everything and is synced. An old image
    /// is cut, before the kernel writes it back. A young one is kept, and SQLite writes over its
    /// memory.
    pub fn restart(&mut self, board: &Board, image: &dyn Below, is_old: bool) -> Result<(), Code> {
        self.forget_frames()?;
        KillPoint::Forgotten.reached();
        self.changed(board);
        if !is_old {
            return Ok(());
        }
        // Not to 0 bytes: see `WalFile::empty`. SQLite writes the header next.
        if image.size_bytes()? > wal_file::HEADER_BYTES {
            board.cut_image(image, wal_file::HEADER_BYTES)?;
        }
        Ok(())
    }

    /// Forgets all frames: they are needed no more.
    fn forget_frames(&mut self) -> Result<(), Code> {
        self.pages.clear();
        self.versions.clear();
        self.logged = 0;
        self.begun = false;
        self.records_in_epoch = 0;
        if self.on_image {
            // The old epoch counts until the next one is durable, and it needs the image as it was
            // synced.
            let mut writer = GroupWriter::new(None, 0);
            writer.reset(Some(Begin::Database), 0);
            if !self.write_record(KIND_BEGIN, writer.finish())? {
                return Err(Code::FULL);
            }
            self.on_image = false;
        }
        Ok(())
    }

    /// Frames that were committed or logged will have other contents.
    fn changed(&mut self, board: &Board) {
        board.next_generation();
        board.forget_contained();
        self.generation = board.generation();
    }

    /// The frames behind `kept` are about to be overwritten. What the log has of them belongs to a
    /// commit that failed.
    pub fn take_back(&mut self, board: &Board, image: &dyn Below, kept: u32) -> Result<(), Code> {
        self.changed(board);
        if kept >= self.logged {
            self.show_contained(board);
            return Ok(());
        }
        if kept == 0 {
            return self.forget_frames();
        }
        self.take_back_to(board, &WalFile { file: image, page_bytes: self.page_bytes }, kept)
    }

    /// Syncs the image and begins an epoch on its frames up to `kept`.
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

/// The new size of a lane that lacks `missing_bytes`.
fn grown_lane(lane_bytes: u64, missing_bytes: u64) -> u64 {
    let grown = lane_bytes + missing_bytes.next_multiple_of(lane_bytes.clamp(1, GROW_BYTES_MAX));
    if grown > GROW_BYTES_MAX { grown.next_multiple_of(GROW_BYTES_MAX) } else { grown }
}
