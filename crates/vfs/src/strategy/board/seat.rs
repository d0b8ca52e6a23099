//! A simulated process at a board without a file. The process can die: then it holds nothing, as
//! the kernel takes the locks of a dead process back. What it still does changes nothing.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use super::{Common, Holder, Private};
use crate::engine::ProcessBatching;
use crate::error::Code;
use crate::strategy::tickets::Tickets;

pub struct Seat {
    board: Arc<Private>,
    /// The database, as this process names it.
    database: String,
    has_lock: AtomicBool,
    is_alone: AtomicBool,
    uses: AtomicU32,
    holds_frames: AtomicBool,
    is_dead: AtomicBool,
}

impl Seat {
    pub fn new(board: Arc<Private>, database: &str) -> Seat {
        Seat {
            board,
            database: database.to_owned(),
            has_lock: AtomicBool::new(false),
            is_alone: AtomicBool::new(false),
            uses: AtomicU32::new(0),
            holds_frames: AtomicBool::new(false),
            is_dead: AtomicBool::new(false),
        }
    }

    pub fn is_of(&self, database: &str) -> bool {
        self.database == database
    }

    /// The process has died.
    pub fn die(&self) {
        if self.is_alone.load(SeqCst) {
            // As the process would have given it back.
            let _ = self.begin_use();
        }
        self.show_frames();
        while self.uses.load(SeqCst) > 0 {
            self.leave();
        }
        self.unlock(0..0);
        self.is_dead.store(true, SeqCst);
    }

    fn is_alive(&self) -> Result<(), Code> {
        if self.is_dead.load(SeqCst) { Err(Code::IOERR_READ) } else { Ok(()) }
    }
}

/// As the kernel takes the locks of a closed file back, also after a panic.
impl Drop for Seat {
    fn drop(&mut self) {
        self.die();
    }
}

impl Common for Seat {
    fn words(&self) -> &[AtomicU64] {
        self.board.words()
    }

    fn lock_unless(
        &self,
        frame: u32,
        patience: Duration,
        done: &dyn Fn() -> bool,
    ) -> Result<bool, Code> {
        self.is_alive()?;
        let locked = self.board.lock_unless(frame, patience, done)?;
        self.has_lock.fetch_or(locked, SeqCst);
        Ok(locked)
    }

    fn unlock(&self, logged: Range<u32>) {
        if self.has_lock.swap(false, SeqCst) {
            self.board.unlock(logged);
        }
    }

    fn holder(&self) -> Option<Holder> {
        self.board.holder()
    }

    fn is_locked(&self) -> bool {
        self.board.is_locked()
    }

    fn wait_for_unlock(&self, at_most: Duration) {
        self.board.wait_for_unlock(at_most);
    }

    fn tickets(&self) -> &Tickets {
        self.board.tickets()
    }

    fn batching(&self) -> &ProcessBatching {
        self.board.batching()
    }

    fn be_alone(&self) -> Result<bool, Code> {
        self.is_alive()?;
        let alone = self.board.be_alone()?;
        self.is_alone.store(alone, SeqCst);
        Ok(alone)
    }

    fn begin_use(&self) -> Result<(), Code> {
        self.is_alive()?;
        self.board.begin_use()?;
        self.is_alone.store(false, SeqCst);
        self.uses.fetch_add(1, SeqCst);
        Ok(())
    }

    fn show_use(&self) {
        self.board.show_use();
    }

    fn is_shown(&self) -> bool {
        self.board.is_shown()
    }

    fn read_frames(&self) -> Result<bool, Code> {
        self.board.read_frames()
    }

    fn hold_frames(&self) -> Result<bool, Code> {
        self.is_alive()?;
        let holds = self.board.hold_frames()?;
        self.holds_frames.fetch_or(holds, SeqCst);
        Ok(holds)
    }

    fn show_frames(&self) {
        if self.holds_frames.swap(false, SeqCst) {
            self.board.show_frames();
        }
    }

    fn is_there(&self) -> bool {
        self.board.is_there()
    }

    fn leave(&self) {
        if self.uses.fetch_update(SeqCst, SeqCst, |uses| uses.checked_sub(1)).is_ok() {
            self.board.leave();
        }
    }

    fn identity(&self, image: &str) -> u64 {
        self.board.identity(image)
    }
}
