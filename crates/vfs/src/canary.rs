//! The canary: tells whether a `close()` in this process has taken SQLite's locks away.
//!
//! POSIX releases all locks of a process on a file when the process closes any descriptor of that
//! file. The canary is such a lock too, on a byte that nobody else uses. It is there as long as
//! connections of this process have SQLite's shared lock. If it is gone meanwhile, SQLite's locks
//! are gone as well.
//!
//! | where | asked | gone |
//! |---|---|---|
//! | rollback modes | once a transaction, before it writes | the transaction is refused |
//! | WAL mode | once a second, by who begins to write | it is counted and said |
//!
//! Invariants:
//!
//! 1. A canary that is gone is put back together with SQLite's shared lock, or not at all.
//! 2. A connection that had its shared lock before that does not write before it takes it anew.
//!    Its pages may be of a time when others wrote.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use oneflush_blocklog::record_lock::{holder, record_lock_at, record_lock_in};

use crate::lock_bytes::{CANARIES, SHARED};
use crate::sync::{Mutex, lock, ranks};

const ASKED_EVERY: Duration = Duration::from_secs(1);
const SAID_EVERY: Duration = Duration::from_secs(60);

/// The canary of a database in this process.
pub struct Canary {
    byte: i64,
    state: Mutex<State>,
    passes: Mutex<(), { ranks::PASSES }>,
    found_gone: AtomicU64,
}

#[derive(Default)]
struct State {
    /// Connections that have SQLite's shared lock.
    users: usize,
    /// How often it was put back. A connection keeps the number that it began with.
    generation: u64,
    asked: Option<Instant>,
    said: Option<Instant>,
}

/// What was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    There,
    /// It is gone, or was. `is_news`: nobody was told in the last minute.
    Gone {
        is_news: bool,
    },
}

impl Default for Canary {
    fn default() -> Canary {
        let random = RandomState::new().hash_one(0) as i64;
        let byte = CANARIES.start + random.rem_euclid(CANARIES.end - CANARIES.start);
        Canary {
            byte,
            state: Mutex::default(),
            passes: Mutex::default(),
            found_gone: AtomicU64::new(0),
        }
    }
}

impl Canary {
    /// How often it was found gone: a lower bound of how often locks were lost.
    pub fn found_gone(&self) -> u64 {
        self.found_gone.load(Relaxed)
    }

    /// SQLite takes its shared lock, or gives it up. One does so at a time: SQLite counts those who
    /// have it, and so does the canary.
    pub fn passing<T>(&self, step: impl FnOnce() -> T) -> T {
        let _passes = lock(&self.passes);
        step()
    }

    /// A connection has SQLite's shared lock. `database` is SQLite's descriptor. Answers what the
    /// connection asks with.
    pub fn begins(&self, database: BorrowedFd<'_>) -> u64 {
        let mut state = lock(&self.state);
        state.users += 1;
        if state.users == 1 {
            self.put(database);
        }
        state.generation
    }

    /// A connection alone has SQLite's exclusive lock, and what it has read is of this moment.
    /// Answers what it asks with from now on.
    pub fn begins_anew(&self, database: BorrowedFd<'_>) -> u64 {
        let mut state = lock(&self.state);
        if !self.is_there(database) {
            self.put(database);
            state.generation += 1;
            self.found_gone.fetch_add(u64::from(self.is_there(database)), Relaxed);
        }
        state.generation
    }

    /// The connection gives up SQLite's shared lock. That of the last one takes the canary along.
    pub fn ends(&self) {
        lock(&self.state).users -= 1;
    }

    /// Asks once.
    pub fn ask(&self, database: BorrowedFd<'_>, generation: u64) -> Found {
        let mut state = lock(&self.state);
        state.asked = Some(Instant::now());
        if self.is_there(database) {
            return match generation == state.generation {
                true => Found::There,
                false => Found::Gone { is_news: state.is_news() },
            };
        }
        // Invariant 1.
        if record_lock_in(database, libc::F_SETLK, libc::F_RDLCK, SHARED).is_ok() {
            self.put(database);
            if !self.is_there(database) {
                // Locks do nothing on this file system.
                return Found::There;
            }
            state.generation += 1;
        }
        self.found_gone.fetch_add(1, Relaxed);
        Found::Gone { is_news: state.is_news() }
    }

    /// Asks if nobody has asked in the last second.
    pub fn ask_at_times(&self, database: BorrowedFd<'_>) -> Found {
        let state = lock(&self.state);
        if state.asked.is_some_and(|asked| asked.elapsed() < ASKED_EVERY) {
            return Found::There;
        }
        let generation = state.generation;
        drop(state);
        self.ask(database, generation)
    }

    fn put(&self, database: BorrowedFd<'_>) {
        // Where that fails, nothing can be known.
        let _ = record_lock_at(database, libc::F_SETLK, libc::F_RDLCK, self.byte);
    }

    fn is_there(&self, database: BorrowedFd<'_>) -> bool {
        !matches!(holder(database, self.byte..self.byte + 1), Ok(None))
    }
}

impl State {
    fn is_news(&mut self) -> bool {
        let is_news = self.said.is_none_or(|said| said.elapsed() >= SAID_EVERY);
        if is_news {
            self.said = Some(Instant::now());
        }
        is_news
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::fd::AsFd;

    #[test]
    fn a_close_of_another_descriptor_is_found_once_and_those_from_before_do_not_write() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let database = file.as_fd();
        let canary = Canary::default();
        let (writer, reader) = (canary.begins(database), canary.begins(database));
        assert_eq!(canary.ask(database, writer), Found::There);
        drop(File::open(file.path()).unwrap());
        assert_eq!(canary.ask(database, writer), Found::Gone { is_news: true });
        // It was put back, but not for those from before.
        assert_eq!(canary.ask(database, reader), Found::Gone { is_news: false });
        canary.ends();
        let again = canary.begins(database);
        assert_eq!(canary.ask(database, again), Found::There);
        assert_eq!(canary.found_gone(), 1);
    }

    #[test]
    fn two_processes_have_different_bytes() {
        assert_ne!(Canary::default().byte, Canary::default().byte);
        assert!((0..100).all(|_| CANARIES.contains(&Canary::default().byte)));
    }
}
