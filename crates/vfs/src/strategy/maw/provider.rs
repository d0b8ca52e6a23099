//! What makes a batch of changes atomic, and which provider a connection has.

use super::f2fs::F2fs;
use super::overlay::Batch;
use super::shared::MawLog;
use super::xfs::Xfs;
use crate::config::{Atomic, OptionError, Options, StrategyKind};
use crate::error::{Error, RefusedOption};
use crate::port::{AtomicWrite, Below, ExchangeFile};
use crate::strategy::log_files::LogFiles;

/// What became of a batch that was to be committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The file has all of it, durably.
    Committed,
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
    fn kind(&self) -> Atomic;
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
            Atomic::Auto => return Ok(()),
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
    ) -> Result<Outcome, Error> {
        match self {
            Providers::Open | Providers::None => Ok(Outcome::Declined),
            Providers::Log => log.commit(main, batch, options),
            // The first sync of a real journal makes the name of a new database durable too. And no
            // file system makes its first size part of the commit.
            Providers::File(_) if batch.size_bytes_before == 0 => Ok(Outcome::Declined),
            Providers::File(provider) => {
                log.last_commit.bury_journal(main, log.files(), log.path())?;
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
    Providers::File(Box::new(F2fs(file)))
}

fn of_xfs(file: Box<dyn ExchangeFile>) -> Providers {
    Providers::File(Box::new(Xfs(file)))
}
