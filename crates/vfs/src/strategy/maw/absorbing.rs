//! The journal that SQLite opens, closes and deletes: absorbed, or a real file (rules 1 to 3).

use super::absorbed::Absorbed;
use super::outcome::Outcome;
use super::providers::Providers;
use super::transaction::Ended;
use super::{Maw, State};
use crate::error::{Code, Error};
use crate::port::{Below, Deletion, LockLevel, Purpose};
use crate::strategy::{AbsorbsJournal, AtomicStep};

impl AbsorbsJournal for Maw {
    fn may_create_journal(&self) -> bool {
        self.state().level >= LockLevel::Reserved
    }

    fn may_play_back(&self) -> bool {
        let state = self.state();
        state.level == LockLevel::Exclusive && state.transaction.is_absorbed()
    }

    fn may_play_back_file(&self) -> bool {
        let state = self.state();
        state.level == LockLevel::Exclusive && state.transaction.is_none()
    }

    fn opening_journal(&self) -> Result<Option<Box<dyn Below>>, Error> {
        let mut state = self.state();
        state.has_journal_file = true;
        if self.purpose == Purpose::Checkpoints || state.is_journal_open {
            return Ok(None);
        }
        if !state.providers.are_there(&*self.files, &self.path, &self.options) {
            return Ok(None);
        }
        if matches!(state.providers, Providers::Log) && !self.log.may_be_used() {
            // SQLite has an error of its own for a directory where it cannot make a journal.
            return Ok(None);
        }
        state.is_journal_open = true;
        state.has_journal_file = false;
        Ok(Some(Box::new(Absorbed)))
    }

    fn opened_journal(&self) {
        let mut state = self.state();
        state.has_journal_file = !state.is_journal_open;
    }

    fn has_journal_file(&self) -> bool {
        self.state().has_journal_file
    }

    fn closing_journal(&self) {
        let mut state = self.state();
        state.is_journal_open = false;
        state.has_journal_file = false;
        state.transaction.close_journal();
    }

    fn holds_journal(&self) -> bool {
        self.state().transaction.has_begun()
    }

    fn commits_together(&self) -> bool {
        matches!(self.state().providers, Providers::Log)
    }

    fn before_ordinary(&self) -> Result<(), Error> {
        let main = self.state().main.clone();
        main.map_or(Ok(()), |main| self.log.before_in_place(&*main))
    }

    fn leave_link(&self) -> Result<(), Error> {
        let main = self.state().main.clone();
        main.map_or(Ok(()), |main| self.log.leave_now(&*main))
    }

    fn is_absorbing(&self) -> bool {
        self.state().transaction.is_absorbed()
    }

    fn is_linked(&self) -> bool {
        self.log.is_linked()
    }

    fn deleting_journal(&self) -> Result<Deletion, Error> {
        let mut state = self.state();
        let ended = self.end(&mut state)?;
        let is_durable = state.transaction.is_synced(&self.options);
        state.transaction.clear();
        Ok(match ended {
            // SQLite asks for it at EXTRA only.
            Ended::Ordinary if is_durable => Deletion::Durably,
            Ended::Ordinary => Deletion::Delete,
            Ended::Done => Deletion::Done,
        })
    }

    fn atomic_step(&self, below: &dyn Below, step: AtomicStep) -> Result<(), Error> {
        let mut state = self.state();
        let State { transaction, providers, journals, .. } = &mut *state;
        if !providers.are_there(&*self.files, &self.path, &self.options) {
            return Err(Error::Below(Code::IOERR_BEGIN_ATOMIC));
        }
        match step {
            AtomicStep::Begin if transaction.is_none() => transaction.begin_batch(),
            AtomicStep::Begin => return Err(Error::Below(Code::IOERR_BEGIN_ATOMIC)),
            AtomicStep::Rollback => transaction.clear(),
            AtomicStep::Commit => {
                let committed = transaction.commit(below, |batch| {
                    providers.commit(&self.log, below, batch, &self.options, |in_order| {
                        self.files.settle_journals(&self.path, in_order, journals)
                    })
                });
                match committed {
                    Ok(Outcome::Committed) => self.log.count(|counts| counts.atomic += 1),
                    // SQLite goes on with a rollback of the batch and a journal.
                    _ => return Err(Error::Below(Code::IOERR_COMMIT_ATOMIC)),
                }
                transaction.clear();
            }
        }
        Ok(())
    }
}
