//! Keeps checkpoints of SQLite itself from the WAL-reset bug of SQLite 3.7.0 to 3.51.2, whoever
//! asks for them (<https://sqlite.org/wal.html#walresetbug>, docs/compatibility.md).
//!
//! A checkpoint without the write lock reads the header of the WAL index. A writer may begin the
//! WAL anew before the checkpoint has locked all readers of the database out. The checkpoint then
//! says of the new WAL's frames that they are copied, and they are lost.
//!
//! | lock that was taken | what is done |
//! |---|---|
//! | checkpoint | the salts of the WAL are noted, before SQLite reads the header |
//! | slot 0 of the readers, by a checkpoint | other salts now: "busy", as if a reader had it |
//! | checkpoint, or the write lock | more frames copied than there are: none are said to be |
//!
//! The last row is for what an affected SQLite without Oneflush has done, or one that was killed
//! while it began the WAL anew. Frames that are copied twice do no harm. A writer is told "busy",
//! because its transaction may have begun without these frames.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use crate::error::Code;
use crate::port::{ShmLock, WalIndex};
use crate::sync::{Mutex, lock};

/// The WAL index of an open database file.
pub trait Index: WalIndex {
    /// The salts of the WAL, in the first copy of its header.
    fn wal_salts(&self) -> Option<[u32; 2]>;
    /// More frames are said to be copied than there are.
    fn says_too_much_is_copied(&self) -> bool;
    /// Takes or releases a lock of it, and nothing else.
    fn lock_slot(&self, lock: ShmLock) -> Result<(), Code>;
}

/// What a connection has of the locks that matter here.
#[derive(Default)]
pub struct WalReset {
    checkpoints: AtomicBool,
    writes: AtomicBool,
    /// The salts when the checkpoint lock was taken.
    salts: Mutex<Option<[u32; 2]>>,
}

impl WalReset {
    /// To be called before a lock is released.
    pub fn releasing(&self, call: ShmLock) {
        for (slot, has) in
            [(ShmLock::CHECKPOINT, &self.checkpoints), (ShmLock::WRITE, &self.writes)]
        {
            if call.exclusive && call.covers(slot) {
                has.store(false, SeqCst);
            }
        }
    }

    /// To be called when a lock was taken. An error: it has to be released again.
    pub fn taken(&self, call: ShmLock, index: &impl Index) -> Result<(), Code> {
        if !call.exclusive || call.count != 1 {
            return Ok(());
        }
        match call.first {
            ShmLock::CHECKPOINT => {
                self.checkpoints.store(true, SeqCst);
                *lock(&self.salts) = index.wal_salts();
                if index.says_too_much_is_copied() {
                    index.forget_backfill();
                }
                Ok(())
            }
            ShmLock::WRITE => {
                if index.says_too_much_is_copied() {
                    self.forget_backfill(index)?;
                    return Err(Code::BUSY);
                }
                self.writes.store(true, SeqCst);
                Ok(())
            }
            ShmLock::READ if self.checkpoints.load(SeqCst) && !self.writes.load(SeqCst) => {
                let is_new = index.wal_salts() != *lock(&self.salts);
                if is_new { Err(Code::BUSY) } else { Ok(()) }
            }
            _ => Ok(()),
        }
    }

    /// Under the checkpoint lock, which another process may have.
    fn forget_backfill(&self, index: &impl Index) -> Result<(), Code> {
        if self.checkpoints.load(SeqCst) {
            index.forget_backfill();
            return Ok(());
        }
        index.lock_slot(ShmLock::of_checkpoint(true))?;
        index.forget_backfill();
        index.lock_slot(ShmLock::of_checkpoint(false))
    }
}
