//! What makes a batch of changes atomic, and which provider a connection has.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use super::f2fs::F2fs;
use super::overlay::Batch;
use super::shared::MawLog;
use super::xfs::Xfs;
use crate::config::{Atomic, OptionError, Options, StrategyKind};
use crate::error::{Code, Error, RefusedOption};
use crate::port::{AtomicWrite, Below, ExchangeFile};
use crate::strategy::log_files::LogFiles;

/// What became of a batch that was to be committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The file has all of it, durably.
    Committed,
    /// It is durable, and could not be written to the file. The file may have a part of it.
    InLogOnly(Code),
    /// This provider cannot take such a batch. The file is as before. An ordinary journaled
    /// transaction can do it.
    Declined,
}

/// A provider of atomicity. It commits the changes of one transaction to one database file.
///
/// The caller has the database locked exclusively.
pub trait Provider: Send + Sync {
    /// Makes the changes durable, all or none. After an error the file is as before.
    fn commit(&self, main: &dyn Below, batch: &Batch<'_>) -> Result<Outcome, Error>;
    /// The connection begins to read. It has a shared lock, so nobody is in a commit.
    fn before_reading(&self, main: &dyn Below);
    /// True if what happened to names in the file system before a commit is durable with it.
    fn keeps_order(&self) -> bool;
    fn kind(&self) -> Atomic;
}

/// Whether a provider may go on after an error.
///
/// A commit whose outcome nobody knows may be in the file's memory and not on the device. What is
/// committed on top of it would be lost with it. So its connection commits nothing more, until the
/// database is opened anew.
#[derive(Default)]
pub struct Poison(AtomicBool);

impl Poison {
    pub fn check(&self) -> Result<(), Code> {
        if self.0.load(Relaxed) { Err(Code::IOERR_FSYNC) } else { Ok(()) }
    }

    /// The commit of this batch has failed. True: the file is not known to be as before, and the
    /// provider is poisoned.
    ///
    /// The batch is in the file whole or not at all. So one unit that the file lacks shows that
    /// nothing of it is there.
    pub fn after_error(&self, main: &dyn Below, batch: &Batch<'_>) -> bool {
        let lacks = |(offset, unit): (u64, &[u8])| {
            let unit = batch.inside(offset, unit);
            let mut found = vec![0; unit.len()];
            match main.read(&mut found, offset) {
                Ok(()) | Err(Code::SHORT_READ) => found != unit,
                Err(_) => false,
            }
        };
        let is_as_before = batch.units.is_empty() || batch.writes().any(lacks);
        self.0.fetch_or(!is_as_before, Relaxed);
        !is_as_before
    }
}

/// The provider of one connection.
#[derive(Default)]
pub enum Providers {
    /// It is chosen when the first transaction begins.
    #[default]
    Open,
    None,
    Log,
    /// The file system.
    File(Box<dyn Provider>),
}

impl Providers {
    /// The database was opened. A provider that was asked for by name and is not there refuses the
    /// open.
    pub fn choose(
        &mut self,
        files: &dyn LogFiles,
        path: &str,
        options: &Options,
    ) -> Result<(), Error> {
        let found = match options.atomic {
            // On F2FS a reader needs it, too. Elsewhere the question costs one call.
            Atomic::Auto => match files.atomic_write(path) {
                Ok(file) => Ok(of_f2fs(file)),
                Err(_) => return Ok(()),
            },
            Atomic::Log => Ok(Providers::Log),
            Atomic::F2fs => files.atomic_write(path).map(of_f2fs),
            Atomic::Xfs => files.exchange_file(path).map(of_xfs),
        };
        *self = found.map_err(|reason| {
            let source = OptionError::NoAtomic { atomic: options.atomic, reason };
            Error::Option(Box::new(RefusedOption { path: path.to_owned(), source }))
        })?;
        Ok(())
    }

    /// True if the connection has a provider.
    pub fn are_there(&mut self, files: &dyn LogFiles, path: &str, options: &Options) -> bool {
        if let Providers::Open = self {
            *self = match files.atomic_write(path) {
                Ok(file) => of_f2fs(file),
                // By `strategy=auto` the database file stays a plain one at all times.
                Err(_) if options.strategy != StrategyKind::Maw => Providers::None,
                Err(_) => Providers::Log,
            };
        }
        !matches!(self, Providers::None)
    }

    /// The connection begins to read: it has a shared lock.
    pub fn before_reading(&self, main: &dyn Below) {
        if let Providers::File(provider) = self {
            provider.before_reading(main);
        }
    }

    pub fn kind(&self) -> Option<Atomic> {
        match self {
            Providers::Open => Some(Atomic::Auto),
            Providers::None => None,
            Providers::Log => Some(Atomic::Log),
            Providers::File(provider) => Some(provider.kind()),
        }
    }

    pub fn commit(
        &self,
        log: &MawLog,
        main: &dyn Below,
        batch: &Batch<'_>,
        options: &Options,
        settle: impl FnOnce(bool) -> Result<bool, Code>,
    ) -> Result<Outcome, Error> {
        match self {
            Providers::Open | Providers::None => Ok(Outcome::Declined),
            // A new log is made after every journal, with a sync of its folder.
            Providers::Log => log.commit(main, batch, options),
            // The first sync of a real journal makes the name of a new database durable too. And no
            // file system makes its first size part of the commit.
            Providers::File(_) if batch.size_bytes_before == 0 => Ok(Outcome::Declined),
            Providers::File(provider) => {
                log.writes()?;
                // Another connection may use the log. A replay would undo this commit.
                log.before_in_place(main)?;
                // A journal that a crash brings back would undo it, too.
                let files = &*log.life().files;
                if !settle(provider.keeps_order())? {
                    log.last_commit.bury_journal(main, files, log.path())?;
                }
                let outcome = provider.commit(main, batch)?;
                if outcome == Outcome::Committed {
                    log.last_commit.note(batch);
                }
                Ok(outcome)
            }
        }
    }
}

fn of_f2fs(file: Box<dyn AtomicWrite>) -> Providers {
    Providers::File(Box::new(F2fs::new(file)))
}

fn of_xfs(file: Box<dyn ExchangeFile>) -> Providers {
    Providers::File(Box::new(Xfs::new(file)))
}
