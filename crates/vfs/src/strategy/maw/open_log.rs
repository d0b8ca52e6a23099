//! The log of `maw`: what a commit appends, and when an epoch begins (rule 5 of `maw`).
//!
//! A record holds the pages of one commit. A page is whole at its first touch in an epoch. Later it
//! is a delta against the version that the log has. The database file has that very version, for
//! each record is written in place before the next one is appended. What a crash leaves of the
//! file's copy is another matter: no page of the log is built on that.
//!
//! Invariants, cited by number in code and tests:
//!
//! 1. A page in `known` is in the records of the place `known_in`, whole or built on a whole one.
//! 2. A new epoch begins only when nothing of the old one is needed. The database file has all of
//!    it and is synced. Other databases with commits there have their own logs again
//!    ([`together`]).
//! 3. Page 1 of a record that names no size of the database mends a torn guard and nothing else.
//!
//! [`together`]: super::together

use oneflush_blocklog::group::{Base, Begin, GroupWriter, KIND_BEGIN, KIND_COMMITS, KIND_IMAGES};
use oneflush_blocklog::{
    Epoch, Error as LogError, Head, Log, Lsn, Uuid, delta, is_full, shows_records,
};
use rustc_hash::FxHashSet;

use super::outcome::Outcome;
use super::overlay::Batch;
use super::record::{
    KIND_LINK, KIND_TOGETHER, Link, Record, begin_together, encode_link, own_group, push_other,
};
use crate::config::{Options, StrategyKind};
use crate::error::{Code, Error};
use crate::kill_point::KillPoint;
use crate::mutant::{self, Mutant};
use crate::names::maw_path;
use crate::port::Below;
use crate::strategy::board::{Board, Shown};
use crate::strategy::guard::{self, Mode};
use crate::strategy::log_files::{LogFile, code_of};
use crate::strategy::log_life::{AttachError, KeptLog};
use crate::strategy::page_one::page_one;

/// A lane grows by its own size, and by this much at most unless a record needs more.
const GROW_BYTES_MAX: u64 = 256 << 10;

/// With so many bytes of records in an epoch, a commit syncs the database file first and begins an
/// epoch. The syncer has most of the file written by then. A small log has short epochs.
///
/// A new log is made of twice as many zeros. With 8 MiB they were 1.6 KB of each of the first
/// 10,000 commits, which themselves take 4.1 KB.
pub fn epoch_bytes_max(log_size_bytes: u64) -> u64 {
    (log_size_bytes / 8).min(2 << 20)
}

/// An epoch with so many bytes ends for free when the database file happens to be synced.
pub fn epoch_bytes_min(log_size_bytes: u64) -> u64 {
    epoch_bytes_max(log_size_bytes) / 2
}

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
    /// Zeros that were written ahead, for the log and where it grew.
    pub laid_out_bytes: u64,
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
            laid_out_bytes: self.laid_out_bytes + other.laid_out_bytes,
        }
    }
}

/// An epoch of a log. In another database's log only the records behind an LSN count.
pub type Place = (Uuid, Epoch, Lsn);

/// Why a record was not appended.
pub enum NotAppended {
    /// The database file could not be read. Nothing was written, and the log is as before.
    Unread(Code),
    /// The log can take no more records.
    Failed(Code),
}

impl From<NotAppended> for Error {
    fn from((NotAppended::Unread(code) | NotAppended::Failed(code)): NotAppended) -> Error {
        code.into()
    }
}

/// The log of a database that is in use.
pub struct OpenLog {
    pub log: Log<LogFile>,
    pub head: Head,
    size_bytes_max: u64,
    /// An epoch has begun that the next record may go to.
    begun: bool,
    /// Pages that this process has put into records there (invariant 1). Pages of other processes
    /// are not among them, which only makes records longer.
    known: FxHashSet<u32>,
    known_in: Place,
    records_in_epoch: u64,
    /// Records from this one on are unsure, as [`Board::unsure`] says.
    pub unsure: Option<Lsn>,
    /// What the system has said of the failure that is about to end the log.
    pub why_failed: Option<String>,
    pub counts: LogCounts,
    writer: GroupWriter,
}

impl OpenLog {
    fn new(log: Log<LogFile>, head: Head, size_bytes_max: u64) -> OpenLog {
        OpenLog {
            known_in: (log.uuid(), Epoch(0), Lsn(0)),
            log,
            head,
            size_bytes_max,
            begun: false,
            known: FxHashSet::default(),
            records_in_epoch: 0,
            unsure: None,
            why_failed: None,
            counts: LogCounts::default(),
            writer: GroupWriter::new(None, 0),
        }
    }

    /// Goes on from where the last process left the log.
    pub fn follow(&mut self, board: &Board) {
        let shown = board.shown();
        (self.head, self.begun) = (shown.head, shown.begun);
        self.records_in_epoch = shown.records_in_epoch;
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
    }

    /// The next record goes to the epoch of the last one.
    pub fn has_begun(&self) -> bool {
        self.begun
    }

    /// Bytes of the lane in use.
    pub fn used_bytes(&self) -> u64 {
        if self.begun { self.head.position } else { 0 }
    }

    /// True if the epoch should end as soon as it can for nothing.
    pub fn is_long(&self, board: &Board) -> bool {
        let is_synced = board.synced_lsn() == self.head.lsn;
        let limit = if is_synced { epoch_bytes_min } else { epoch_bytes_max };
        self.used_bytes() >= limit(self.size_bytes_max)
    }

    /// The next record begins an epoch (invariant 2).
    pub fn end_epoch(&mut self) {
        self.begun = false;
    }

    /// Where the next record goes.
    pub fn place(&self) -> Place {
        (self.log.uuid(), Epoch(self.head.epoch.0 + u64::from(!self.begun)), Lsn(0))
    }

    /// Appends the pages of a commit, durably. [`Outcome::Declined`]: nothing was written, because
    /// there is no room. In a new epoch there may be.
    pub fn append(&mut self, main: &dyn Below, batch: &Batch<'_>) -> Result<Outcome, NotAppended> {
        let place = self.place();
        let mut writer = std::mem::replace(&mut self.writer, GroupWriter::new(None, 0));
        let begin = (!self.begun).then_some(Begin::Database);
        let encoded = self.encode(main, batch, place, begin, &mut writer);
        let appended = encoded.map_err(NotAppended::Unread).and_then(|()| {
            let kind = if self.begun { KIND_COMMITS } else { KIND_BEGIN };
            self.write_record(kind, writer.finish()).map_err(NotAppended::Failed)
        });
        self.writer = writer;
        if appended? == Outcome::Declined {
            return Ok(Outcome::Declined);
        }
        self.learn(place, batch);
        Ok(Outcome::Committed)
    }

    /// Appends the commit of several databases. `own` and the others' groups were made by
    /// [`OpenLog::group`] for this log's place.
    pub fn append_together<'a>(
        &mut self,
        own: &[u8],
        others: impl Iterator<Item = (Uuid, &'a str, &'a [u8])>,
    ) -> Result<Outcome, Code> {
        let mut payload = Vec::new();
        begin_together(&mut payload, own);
        for (uuid, database, group) in others {
            push_other(&mut payload, uuid, database, group);
        }
        self.write_record(KIND_TOGETHER, &payload)
    }

    /// The next commits will be in another log. Begins an epoch: the database file is synced.
    pub fn append_link(&mut self, main: &dyn Below, link: &Link) -> Result<(), Code> {
        self.end_epoch();
        let payload = encode_link(link, self.group_of_page_one(main, None)?.finish());
        match self.write_record(KIND_LINK, &payload)? {
            Outcome::Committed => Ok(()),
            _ => Err(Code::FULL),
        }
    }

    /// The own group of a record without commits. It has page 1, for it may begin an epoch.
    pub fn announcement(&self, main: &dyn Below) -> Result<Vec<u8>, Code> {
        Ok(self.group_of_page_one(main, None)?.finish().to_vec())
    }

    /// The pages of a commit as a group of a record at `place`. An empty batch has no page.
    pub fn group(
        &self,
        main: &dyn Below,
        batch: Option<&Batch<'_>>,
        place: Place,
    ) -> Result<Vec<u8>, Code> {
        let mut writer = GroupWriter::new(None, 0);
        if let Some(batch) = batch {
            self.encode(main, batch, place, None, &mut writer)?;
        }
        Ok(writer.finish().to_vec())
    }

    /// The pages of this batch are in a record there (invariant 1).
    pub fn learn(&mut self, place: Place, batch: &Batch<'_>) {
        if self.known_in != place {
            self.known.clear();
            self.known_in = place;
        }
        self.counts.page_bytes += batch.units.len() as u64 * batch.unit_bytes;
        self.known.extend(batch.units.keys().map(|number| *number as u32 + 1));
    }

    /// Forgets which pages are in records: the database file was changed without one.
    pub fn forget(&mut self) {
        self.known.clear();
    }

    fn encode(
        &self,
        main: &dyn Below,
        batch: &Batch<'_>,
        place: Place,
        begin: Option<Begin>,
        writer: &mut GroupWriter,
    ) -> Result<(), Code> {
        writer.reset(begin, u32::try_from(batch.database_pages()).map_err(|_| Code::FULL)?);
        let mut base = vec![0; batch.unit_bytes as usize];
        let is_of_place = self.known_in == place;
        for (&number, page) in batch.units {
            let page_no = u32::try_from(number + 1).map_err(|_| Code::FULL)?;
            let is_known = is_of_place && self.known.contains(&page_no)
                || mutant::is(Mutant::DeltaAgainstPlace) && begin.is_none();
            if is_known && number * batch.unit_bytes < batch.size_bytes_before {
                guard::read(main, &mut base, number * batch.unit_bytes)?;
                writer.push(page_no, Base::Previous, |out| delta::encode(&base, page, out));
            } else {
                writer.push(page_no, Base::Zeros, |out| delta::encode_from_zeros(page, out));
            }
        }
        Ok(())
    }

    /// Page 1 as it is in the database file. The group names no size of the database (invariant 3).
    fn group_of_page_one(
        &self,
        main: &dyn Below,
        begin: Option<Begin>,
    ) -> Result<GroupWriter, Code> {
        let mut page = vec![0; self.log.page_bytes() as usize];
        guard::read(main, &mut page, 0)?;
        let mut writer = GroupWriter::new(begin, 0);
        writer.push(1, Base::Zeros, |out| delta::encode_from_zeros(&page, out));
        Ok(writer)
    }

    /// Logs page 1, before its guard is changed.
    fn log_page_one(&mut self, main: &dyn Below) -> Result<(), Code> {
        let begin = (!self.begun).then_some(Begin::Database);
        let kind = if self.begun { KIND_IMAGES } else { KIND_BEGIN };
        match self.write_record(kind, self.group_of_page_one(main, begin)?.finish())? {
            Outcome::Committed => Ok(()),
            _ => Err(Code::FULL),
        }
    }

    pub fn counts(&self) -> LogCounts {
        LogCounts { laid_out_bytes: self.log.written().zeros_bytes, ..self.counts }
    }

    /// The link, if the next commits are in another log.
    pub fn link(&self) -> Result<Option<Link>, LogError> {
        let mut found = None;
        self.log.scan(|kind, _, payload| {
            if let Record::Link { link, .. } = Record::decode(kind, payload)? {
                found = Some(link);
            }
            Ok::<(), LogError>(())
        })?;
        Ok(found)
    }

    fn write_record(&mut self, kind: u8, payload: &[u8]) -> Result<Outcome, Code> {
        loop {
            let begins = !self.begun;
            let appended = if begins {
                self.log.begin_epoch(&self.head, kind, payload)
            } else {
                self.log.append(&self.head, kind, payload)
            };
            match appended {
                Ok(head) => {
                    KillPoint::Recorded.reached();
                    self.head = head;
                    self.counts.records += 1;
                    self.counts.logged_bytes += self.log.record_bytes(payload.len());
                    if begins {
                        self.begun = true;
                        self.records_in_epoch = 0;
                        self.counts.epochs += 1;
                    }
                    self.records_in_epoch += 1;
                    return Ok(Outcome::Committed);
                }
                Err(LogError::Full { needed, free }) if self.grow(needed - free)? => {}
                Err(LogError::Full { .. }) => return Ok(Outcome::Declined),
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
            Err(error) => Err(self.failed(&error)),
        }
    }

    fn failed(&mut self, error: &LogError) -> Code {
        self.why_failed = Some(error.to_string());
        code_of(error)
    }
}

/// A lane of at least so many bytes.
fn whole_lane(bytes: u64) -> u64 {
    if bytes > GROW_BYTES_MAX { bytes.next_multiple_of(GROW_BYTES_MAX) } else { bytes }
}

impl KeptLog for OpenLog {
    const STRATEGY: StrategyKind = StrategyKind::Maw;
    const MODE: Mode = Mode::Rollback;
    const GROWS_BEFORE_COMMIT: bool = true;

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
        self.forget();
        self.log_page_one(main)
    }

    fn holds_commits(&self) -> Result<bool, LogError> {
        let mut holds = false;
        self.log.scan(|kind, _, payload| {
            let record = Record::decode(kind, payload)?;
            holds |= record.own().database_pages != 0 || !matches!(record, Record::Pages(_));
            Ok::<(), LogError>(())
        })?;
        Ok(holds)
    }

    fn page_one(&self) -> Result<Option<Vec<u8>>, AttachError> {
        Ok(page_one(&self.log, own_group)?)
    }

    fn pages(&self) -> Result<Option<FxHashSet<u32>>, LogError> {
        let (mut pages, mut is_linked) = (FxHashSet::default(), false);
        self.log.scan(|kind, _, payload| {
            let record = Record::decode(kind, payload)?;
            is_linked |= matches!(record, Record::Link { .. });
            pages.extend(record.own().pages().map(|entry| entry.page_no));
            Ok::<(), LogError>(())
        })?;
        Ok((!is_linked).then_some(pages))
    }

    fn shows_contents(file: &LogFile) -> Result<bool, LogError> {
        shows_records(file)
    }
}
