//! Files that were removed, replaced or written over while they are in use.
//!
//! A person restores a backup, or a script removes what it takes for left-overs. The connections go
//! on with files that nobody finds any more, and what they acknowledge is lost with them. So each
//! flush is followed by a look at the names, before anything is acknowledged. A checkpoint and a
//! last close look first.
//!
//! A name that leads elsewhere poisons the database in this process, as a failed flush does. What
//! is acknowledged and only in the orphaned files is saved beside the database, once
//! ([`orphans`](super::orphans)). So it is with a file whose content is another's
//! ([`contents`](super::contents)).

use std::sync::atomic::Ordering::Relaxed;

use super::connection::{InWalMode, WalConnection};
use super::harm::Harm;
use super::store::Store;
use crate::error::Code;
use crate::port::{Below, MainFile};
use crate::sync::lock;
use crate::wal_file::{Chain, FrameHeader, WalFile};

impl<S: Store> WalConnection<S> {
    /// An error: a file of the database was removed or replaced. Nothing is acknowledged any more.
    pub(super) fn check_names(&self, wal: Option<&dyn Below>) -> Result<(), Code> {
        if !self.options.has_seatbelt() {
            return Ok(());
        }
        let main = lock(&self.main).clone();
        let Some(main) = main.as_deref() else { return Ok(()) };
        let looked = self.look_at_main(main, wal).and_then(|()| {
            wal.map_or(Ok(None), Below::look_at_name).map_err(Harm::NameLost).map(|_| ())
        });
        looked.map_err(|harm| self.lost(&harm, main, wal))
    }

    /// The same before a checkpoint. It copies by the WAL index alone, so the last published frame
    /// must be in the WAL as the index has it.
    pub(super) fn check_before_checkpoint(&self, main: Option<&dyn MainFile>) -> Result<(), Code> {
        let wal = lock(&self.wal);
        self.check_names(wal.as_deref())?;
        match (main, wal.as_deref()) {
            (Some(main), Some(wal))
                if self.options.has_seatbelt()
                    && self.shares_index.load(Relaxed)
                    && self.store().has_durable_wal()
                    && !self.has_its_tail(main, wal) =>
            {
                Err(self.lost(&Harm::WrittenOver("its WAL"), main, Some(wal)))
            }
            _ => Ok(()),
        }
    }

    fn has_its_tail(&self, index: &dyn MainFile, wal: &dyn Below) -> bool {
        let Some(tail) = index.tail() else { return true };
        let frames = WalFile { file: wal, page_bytes: tail.page_bytes as usize };
        let is_there = match frames.header_of(tail.frame) {
            // SQLite 3.40 may leave a frame without salts ([`unchained`](super::unchained)).
            Ok(FrameHeader { page_no, chain: Chain { salt, checksum }, .. }) => {
                (salt, checksum) == (tail.salt, tail.checksum)
                    || page_no != 0 && (salt, checksum) == ([0; 2], [0; 2])
            }
            // What cannot be read tells nothing.
            Err(code) => code != Code::SHORT_READ,
        };
        // A writer may have begun the WAL anew meanwhile.
        is_there || index.tail() != Some(tail)
    }

    /// "Busy": nobody has files alone that have lost their names, with a WAL open. So nothing is
    /// copied into them, and nothing is deleted by their names.
    pub(super) fn may_be_alone(&self) -> Result<(), Code> {
        if !self.has_wal() {
            return Ok(());
        }
        let main = lock(&self.main).clone();
        self.check_before_checkpoint(main.as_deref()).map_err(|_| Code::BUSY)?;
        if main.is_some_and(|main| self.is_rewound(&*main)) { Err(Code::BUSY) } else { Ok(()) }
    }

    /// SQLite has asked whether the database file has moved, and it has. SQLite writes nothing more
    /// then, and copies nothing when it closes.
    #[cold]
    pub(super) fn has_moved(&self) {
        // A process that has only read has acknowledged nothing. SQLite has its own error for the
        // rest.
        if !self.shared.has_written.load(Relaxed) {
            return;
        }
        if self.has_wal() {
            let _ = self.check_names(lock(&self.wal).as_deref());
            return;
        }
        let main = lock(&self.main).clone();
        if let Some(main) = main.as_deref().filter(|_| self.options.has_seatbelt())
            && main.look_at_name().is_err()
        {
            self.save_once(&Harm::Moved, main, None);
        }
    }

    /// A commit has failed with this code. Where its log has lost its name, what was acknowledged
    /// is saved.
    #[cold]
    pub(super) fn save_from_lost_log(&self, code: Code, wal: &dyn Below) -> Code {
        if code != Code::NAME_LOST {
            return code;
        }
        let main = lock(&self.main).clone();
        if let Some(main) = main.as_deref().filter(|_| self.options.has_seatbelt()) {
            self.lost(&Harm::LogLost, main, Some(wal));
        }
        code.told()
    }

    #[cold]
    fn lost(&self, harm: &Harm, main: &dyn MainFile, wal: Option<&dyn Below>) -> Code {
        // Nothing may be lost by a process that has acknowledged nothing, beside an empty WAL.
        let is_concerned = self.shared.has_written.load(Relaxed)
            || (wal.is_some() && self.published_frames().is_none_or(|frames| frames > 0));
        if !is_concerned {
            return Code::IOERR_FSYNC;
        }
        self.save_once(harm, main, wal);
        Code::IOERR_FSYNC
    }

    fn save_once(&self, harm: &Harm, main: &dyn MainFile, wal: Option<&dyn Below>) {
        self.shared.saved.once(harm, main, |is_first| {
            if !matches!(harm, Harm::Moved) {
                self.shared.flush.poison(Code::IOERR_FSYNC);
            }
            let saved = is_first.then(|| self.save_orphan(main, wal));
            self.shared.checkpointer.warn(&harm.told(&self.shared.path, saved));
        });
    }
}
