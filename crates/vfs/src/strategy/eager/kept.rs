//! The log of `eager`, as far as its life is concerned ([`KeptLog`]).

use oneflush_blocklog::group::{Begin, Group};
use oneflush_blocklog::{Error as LogError, Log, Uuid, shows_records};
use rustc_hash::FxHashSet;

use super::log::OpenLog;
use crate::config::{Options, StrategyKind};
use crate::error::Code;
use crate::names::{image_path, log_path};
use crate::port::Below;
use crate::strategy::log_files::LogFile;
use crate::strategy::log_life::{AttachError, KeptLog};
use crate::strategy::page_one::page_one;
use crate::strategy::recover_error::RecoverError;

impl KeptLog for OpenLog {
    const STRATEGY: StrategyKind = StrategyKind::Eager;

    fn path(database: &str) -> String {
        log_path(database)
    }

    fn image_path(database: &str) -> Option<String> {
        Some(image_path(database))
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
        // A program that opens many databases commits little to most of them. So the log begins
        // with the smallest lanes, and doubles.
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
        self.begin_empty_epoch(main)
    }

    /// True if the newest epoch holds commits. Setting the guard and taking it away log page 1
    /// alone. An epoch with nothing else says that the database file has everything that the log
    /// ever held.
    fn holds_commits(&self) -> Result<bool, LogError> {
        let mut holds = false;
        self.log.scan(|kind, _, payload| {
            let group = Group::decode(kind, payload)?;
            holds |= group.database_pages != 0 || matches!(group.begin, Some(Begin::Image { .. }));
            Ok::<(), LogError>(())
        })?;
        Ok(holds)
    }

    /// The log has page 1 whole, or not at all.
    fn page_one(&self) -> Result<Option<Vec<u8>>, AttachError> {
        Ok(page_one(&self.log, |kind, payload| Group::decode(kind, payload))?)
    }

    /// `None`: the epoch stands on the image, which may have any page.
    fn pages(&self) -> Result<Option<FxHashSet<u32>>, LogError> {
        let (mut pages, mut is_on_image) = (FxHashSet::default(), false);
        self.log.scan(|kind, _, payload| {
            let group = Group::decode(kind, payload)?;
            is_on_image |= matches!(group.begin, Some(Begin::Image { .. }));
            pages.extend(group.pages().map(|entry| entry.page_no));
            Ok::<(), LogError>(())
        })?;
        Ok((!is_on_image).then_some(pages))
    }

    fn shows_contents(file: &LogFile) -> Result<bool, LogError> {
        shows_records(file)
    }
}

impl From<RecoverError> for AttachError {
    fn from(error: RecoverError) -> AttachError {
        AttachError::Recover { code: error.code(), why: error.to_string() }
    }
}
