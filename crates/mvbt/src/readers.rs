//! Which versions are being read, by this user of the database and by the others.

use std::collections::BTreeMap;
use std::sync::Arc;

use oneflush_blocklog::invariant;

use crate::Version;
use crate::commons::board::Board;
use crate::mutant::{self, Mutant};
use crate::sync::Mutex;

/// The readers of one handle. The board has the oldest version of each handle.
pub struct Readers {
    board: Arc<Board>,
    /// How many readers have each version.
    own: Mutex<BTreeMap<Version, usize>>,
}

impl Readers {
    pub fn new(board: Arc<Board>) -> Readers {
        Readers { board, own: Mutex::default() }
    }

    /// A reader takes the current version, notes it, and looks whether it still is the current one
    /// (P2). A writer publishes its version, and then, for the next transaction, asks for the
    /// oldest one that is noted. So the writer of x sees each reader below x − 1.
    pub fn register(&self) -> Version {
        let mut own = self.own.lock();
        loop {
            let version = self.board.current();
            *own.entry(version).or_default() += 1;
            self.show(&own);
            if self.board.current() == version {
                self.check_shown(&mut own, version);
                return version;
            }
            forget(&mut own, version);
        }
    }

    /// Registers an older version. False: it may be gone, or is not committed. Whoever writes says
    /// what it gives up, and then asks for the oldest version that is noted (P9).
    pub fn register_at(&self, version: Version) -> bool {
        let mut own = self.own.lock();
        if version > self.board.current() {
            return false;
        }
        *own.entry(version).or_default() += 1;
        self.show(&own);
        let is_there = version >= self.board.given_up();
        if !is_there {
            forget(&mut own, version);
            self.show(&own);
        } else {
            self.check_shown(&mut own, version);
        }
        is_there
    }

    fn check_shown(&self, own: &mut BTreeMap<Version, usize>, version: Version) {
        let is_shown = self.board.shown().is_some_and(|shown| shown <= version);
        if !is_shown {
            // Nobody unregisters it behind the panic.
            forget(own, version);
            self.show(own);
        }
        invariant!("P2", "who reads has shown its version, or an older one", is_shown);
    }

    pub fn unregister(&self, version: Version) {
        // In a child of a fork a thread that it does not have may hold the lock.
        if self.board.check_user().is_err() {
            return;
        }
        let mut own = self.own.lock();
        forget(&mut own, version);
        self.show(&own);
    }

    fn show(&self, own: &BTreeMap<Version, usize>) {
        if !mutant::is(Mutant::ReaderUnseen) {
            self.board.show_reader(own.keys().next().copied());
        }
    }

    /// The oldest version that is read, or the current one.
    pub fn horizon(&self) -> Version {
        self.board.horizon()
    }
}

fn forget(own: &mut BTreeMap<Version, usize>, version: Version) {
    if let Some(count) = own.get_mut(&version) {
        *count -= 1;
        if *count == 0 {
            own.remove(&version);
        }
    }
}
