//! Which provider a connection has.

use super::f2fs::F2fs;
use super::outcome::Outcome;
use super::overlay::Batch;
use super::provider::Provider;
use super::shared::MawLog;
use super::xfs::Xfs;
use crate::config::{Atomic, OptionError, Options, StrategyKind};
use crate::error::{Code, Error, RefusedOption};
use crate::port::{AtomicWrite, Below, ExchangeFile};
use crate::strategy::log_files::LogFiles;

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
