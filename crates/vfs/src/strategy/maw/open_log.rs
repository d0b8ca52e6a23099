//! The log of `maw`: what a commit appends, and when an epoch begins (rule 5 of `maw`).
//!
//! A record holds the pages of one commit. A page is whole at its first touch in an epoch. Later it
//! is a delta against the version that the log has. The database file has that very version, for
//! each record is written in place before the next one is appended. What a crash leaves of the
//! file's copy is another matter: no page of the log is built on that.
//!
//! Invariants, cited by number in code and tests:
//!
//! 1. A page in `known` is in this epoch's records, whole or built on a whole one.
//! 2. A new epoch begins only when the database file has everything of the old one and is synced.
//! 3. An epoch whose records name no size of the database holds no commit. Its page 1 mends a torn
//!    guard and nothing else.

use oneflush_blocklog::group::{
    Base, Begin, Group, GroupWriter, KIND_BEGIN, KIND_COMMITS, KIND_IMAGES,
};
use oneflush_blocklog::{
    Epoch, Error as LogError, Head, Log, Lsn, Uuid, delta, is_full, shows_records,
};
use rustc_hash::FxHashSet;

use super::overlay::Batch;
use super::provider::Outcome;
use super::replay;
use crate::config::{Options, StrategyKind};
use crate::error::Code;
use crate::kill_point::KillPoint;
use crate::names::maw_path;
use crate::port::Below;
use crate::strategy::board::{Board, Shown};
use crate::strategy::guard::{self, Mode};
use crate::strategy::log_files::{LogFile, code_of};
use crate::strategy::log_life::{AttachError, KeptLog};
use crate::strategy::mutant::{self, Mutant};

/// A lane grows by its own size, and by this much at most unless a record needs more.
const GROW_BYTES_MAX: u64 = 256 << 10;

/// Counts since the log was opened.
#[derive(Clone, Copy, Debug, Default, serde::Serialize)]
pub struct LogCounts {
    pub records: u64,
    /// Bytes of records, with the padding to whole blocks.
    pub logged_bytes: u64,
    /// Bytes of the pages that the records stand for.
    pub page_bytes: u64,
    pub epochs: u64,
    pub grown: u64,
}

impl LogCounts {
    pub fn plus(self, other: Option<LogCounts>) -> LogCounts {
        let other = other.unwrap_or_default();
        LogCounts {
            records: self.records + other.records,
            logged_bytes: self.logged_bytes + other.logged_bytes,
            page_bytes: self.page_bytes + other.page_bytes,
            epochs: self.epochs + other.epochs,
            grown: self.grown + other.grown,
        }
    }
}

/// The log of a database that is in use.
pub struct OpenLog {
    pub log: Log<LogFile>,
    pub head: Head,
    size_bytes_max: u64,
    /// An epoch has begun that the next record may go to.
    begun: bool,
    /// Pages that this process has put into the epoch `known_in` (invariant 1). Pages of other
    /// processes are not among them, which only makes records longer.
    known: FxHashSet<u32>,
    known_in: Epoch,
    records_in_epoch: u64,
    /// The append of this record failed, so the log may have it or not.
    pub unsure: Option<Lsn>,
    pub counts: LogCounts,
    writer: GroupWriter,
}

impl OpenLog {
    fn new(log: Log<LogFile>, head: Head, size_bytes_max: u64) -> OpenLog {
        OpenLog {
            log,
            head,
            size_bytes_max,
            begun: false,
            known: FxHashSet::default(),
            known_in: Epoch(0),
            records_in_epoch: 0,
            unsure: None,
            counts: LogCounts::default(),
            writer: GroupWriter::new(None, 0),
        }
    }

    /// Goes on from where the last process left the log.
    pub fn follow(&mut self, board: &Board) {
        let shown = board.shown();
        (self.head, self.begun) = (shown.head, shown.begun);
        self.records_in_epoch = shown.records_in_epoch;
        if self.known_in != self.head.epoch {
            self.known.clear();
            self.known_in = self.head.epoch;
        }
    }

    /// Puts the log's new state on the board.
    pub fn show(&self, board: &Board) {
        board.show(&Shown {
            head: self.head,
            begun: self.begun,
            on_image: false,
            records_in_epoch: self.records_in_epoch,
            pages: self.known.len() as u64,
            logged: 0,
        });
    }

    /// A recovery has found these records, and the database file has their pages.
    pub fn found(&mut self, head: Head, records: u64) {
        self.head = head;
        self.begun = records > 0;
        self.records_in_epoch = records;
        self.known.clear();
        self.known_in = head.epoch;
    }

    /// Bytes of the lane in use.
    pub fn used_bytes(&self) -> u64 {
        if self.begun { self.head.position } else { 0 }
    }

    /// The next record begins an epoch. The database file has everything and is synced (invariant
    /// 2).
    pub fn end_epoch(&mut self) {
        self.begun = false;
        self.known.clear();
    }

    /// Appends the pages of a commit, durably. [`Outcome::Declined`]: nothing was written, because
    /// there is no room. In a new epoch there may be.
    pub fn append(&mut self, main: &dyn Below, batch: &Batch<'_>) -> Result<Outcome, Code> {
        let pages =
            u32::try_from(batch.size_bytes.div_ceil(batch.unit_bytes)).map_err(|_| Code::FULL)?;
        let mut writer = std::mem::replace(&mut self.writer, GroupWriter::new(None, 0));
        writer.reset((!self.begun).then_some(Begin::Database), pages);
        let appended = self.encode(main, batch, &mut writer).and_then(|()| {
            let kind = if self.begun { KIND_COMMITS } else { KIND_BEGIN };
            self.write_record(kind, writer.finish())
        });
        self.writer = writer;
        if appended? == Outcome::Declined {
            return Ok(Outcome::Declined);
        }
        self.counts.page_bytes += batch.units.len() as u64 * batch.unit_bytes;
        self.known.extend(batch.units.keys().map(|number| *number as u32 + 1));
        Ok(Outcome::Committed)
    }

    fn encode(
        &self,
        main: &dyn Below,
        batch: &Batch<'_>,
        writer: &mut GroupWriter,
    ) -> Result<(), Code> {
        let mut base = vec![0; batch.unit_bytes as usize];
        for (&number, page) in batch.units {
            let page_no = u32::try_from(number + 1).map_err(|_| Code::FULL)?;
            let is_known = self.known.contains(&page_no) || mutant::is(Mutant::DeltaAgainstPlace);
            if self.begun && is_known && number * batch.unit_bytes < batch.size_bytes_before {
                guard::read(main, &mut base, number * batch.unit_bytes)?;
                writer.push(page_no, Base::Previous, |out| delta::encode(&base, page, out));
            } else {
                writer.push(page_no, Base::Zeros, |out| delta::encode_from_zeros(page, out));
            }
        }
        Ok(())
    }

    /// Logs page 1 as it is in the database file, before its guard is changed. The record names no
    /// size of the database (invariant 3).
    fn log_page_one(&mut self, main: &dyn Below) -> Result<(), Code> {
        let mut page = vec![0; self.log.page_bytes() as usize];
        guard::read(main, &mut page, 0)?;
        let mut writer = GroupWriter::new((!self.begun).then_some(Begin::Database), 0);
        writer.push(1, Base::Zeros, |out| delta::encode_from_zeros(&page, out));
        let kind = if self.begun { KIND_IMAGES } else { KIND_BEGIN };
        match self.write_record(kind, writer.finish())? {
            Outcome::Committed => Ok(()),
            Outcome::Declined => Err(Code::FULL),
        }
    }

    fn write_record(&mut self, kind: u8, payload: &[u8]) -> Result<Outcome, Code> {
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
                        self.records_in_epoch = 0;
                        self.counts.epochs += 1;
                        self.known.clear();
                        self.known_in = head.epoch;
                    }
                    self.records_in_epoch += 1;
                    return Ok(Outcome::Committed);
                }
                Err(LogError::Full { needed, free }) if self.grow(needed - free)? => {}
                Err(LogError::Full { .. }) => return Ok(Outcome::Declined),
                Err(error) => {
                    self.unsure = Some(Lsn(self.head.lsn.0 + 1));
                    return Err(code_of(&error));
                }
            }
        }
    }

    /// Makes each lane longer, by `missing_bytes` at least. False: it may not grow, or the disk is
    /// full.
    fn grow(&mut self, missing_bytes: u64) -> Result<bool, Code> {
        let lane_bytes = self.head.lane_bytes;
        let by = missing_bytes.next_multiple_of(lane_bytes.clamp(1, GROW_BYTES_MAX));
        let lane_bytes = whole_lane(lane_bytes + by);
        if lane_bytes * 2 > self.size_bytes_max {
            return Ok(false);
        }
        match self.log.grow(&self.head, lane_bytes) {
            Ok(head) => {
                self.head = head;
                self.counts.grown += 1;
                Ok(true)
            }
            Err(LogError::Io { source, .. }) if is_full(&source) => Ok(false),
            Err(error) => Err(code_of(&error)),
        }
    }
}

/// A lane of at least so many bytes.
fn whole_lane(bytes: u64) -> u64 {
    if bytes > GROW_BYTES_MAX { bytes.next_multiple_of(GROW_BYTES_MAX) } else { bytes }
}

impl KeptLog for OpenLog {
    const STRATEGY: StrategyKind = StrategyKind::Maw;
    const MODE: Mode = Mode::Rollback;

    fn path(database: &str) -> String {
        maw_path(database)
    }

    fn image_path(_: &str) -> Option<String> {
        None
    }

    fn open(file: LogFile, options: &Options) -> Result<OpenLog, LogError> {
        let log = Log::open(file)?;
        let head = log.empty_head()?;
        Ok(OpenLog::new(log, head, options.log_size_bytes))
    }

    fn create(
        file: LogFile,
        uuid: Uuid,
        page_bytes: u32,
        options: &Options,
    ) -> Result<OpenLog, LogError> {
        let (log, head) = Log::create(file, uuid, page_bytes, 1)?;
        Ok(OpenLog::new(log, head, options.log_size_bytes))
    }

    fn uuid(&self) -> Uuid {
        self.log.uuid()
    }

    fn page_bytes(&self) -> u32 {
        self.log.page_bytes()
    }

    fn keep_page_one(&mut self, main: &dyn Below) -> Result<(), Code> {
        self.log_page_one(main)
    }

    fn end(&mut self, main: &dyn Below) -> Result<(), Code> {
        self.end_epoch();
        self.log_page_one(main)
    }

    fn holds_commits(&self) -> Result<bool, LogError> {
        let mut holds = false;
        self.log.scan(|kind, _, payload| {
            holds |= Group::decode(kind, payload)?.database_pages != 0;
            Ok::<(), LogError>(())
        })?;
        Ok(holds)
    }

    fn page_one(&self) -> Result<Option<Vec<u8>>, AttachError> {
        replay::page_one(&self.log)
    }

    fn pages(&self) -> Result<Option<FxHashSet<u32>>, LogError> {
        let mut pages = FxHashSet::default();
        self.log.scan(|kind, _, payload| {
            pages.extend(Group::decode(kind, payload)?.pages().map(|entry| entry.page_no));
            Ok::<(), LogError>(())
        })?;
        Ok(Some(pages))
    }

    fn shows_contents(file: &LogFile) -> Result<bool, LogError> {
        shows_records(file)
    }
}
