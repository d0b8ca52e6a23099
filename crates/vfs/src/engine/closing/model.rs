//! The model check of connections that close, in several processes, in the orders that the checker
//! tries. In some runs a process dies between two of its calls, wherever the checker likes.
//!
//! The connections are those of the engine, with the store of `plain`. The kernel's locks and the
//! steps of SQLite's close are a few lines each. A process is one thread of the checker or several.
//! One that has died goes through its calls to their end, and none of them has an effect.
//! In each order these claims hold:
//!
//! 1. Where nobody dies, the last one to go was alone and has made the database file plain.
//! 2. Whatever has died, the next connection that opens the database and closes it is alone.
//! 3. Nobody waits for ever: the checker ends a run that does.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Mutex as StdMutex, PoisonError};

use shuttle::rand::{Rng, thread_rng};

use super::super::shared::Shared;
use super::{InWalMode, wait_for_turn_to_close};
use crate::config::Options;
use crate::error::Code;
use crate::port::{
    Below, DeviceCharacteristics, LockLevel, Purpose, ShmLock, SyncRequest, WalIndex,
};
use crate::strategy::{Plain, PlainStore};
use crate::test_stubs::{NoCheckpoints, NoLogs};

/// What a run leaves out, for the checks of the check.
#[derive(Clone, Copy, PartialEq)]
enum Broken {
    Nothing,
    /// Everybody has the turn to close at any time.
    Turns,
    /// A connection gives its turn back while it still shares the database.
    TurnsEnd,
}

/// The locks on the database file, as the kernel has them. A connection is a number, with that of
/// its process.
struct Kernel {
    sharing: BTreeMap<u32, u32>,
    exclusive: Option<u32>,
    turn: Option<(u32, u32)>,
    opened: u32,
    /// The database file has everything, and no log.
    is_plain: bool,
}

struct Process {
    number: u32,
    kernel: Arc<StdMutex<Kernel>>,
    broken: Broken,
    is_dead: AtomicBool,
    /// The process dies at the call that brings this to 0.
    calls_left: AtomicU32,
    shared: Arc<Shared<PlainStore>>,
}

impl Process {
    fn new(number: u32, kernel: &Arc<StdMutex<Kernel>>, broken: Broken) -> Arc<Process> {
        let path = "/nonexistent/closing.db";
        let store = PlainStore::new(path, Arc::new(NoLogs));
        Arc::new(Process {
            number,
            kernel: Arc::clone(kernel),
            broken,
            is_dead: AtomicBool::new(false),
            calls_left: AtomicU32::new(u32::MAX),
            shared: Arc::new(Shared::new(path, Arc::new(NoCheckpoints), store)),
        })
    }

    /// A call of this process, in one step of the checker. A dead one hears `dead`, so that it does
    /// not wait.
    fn call<T>(&self, dead: T, act: impl FnOnce(&mut Kernel) -> T) -> T {
        shuttle::thread::yield_now();
        if self.calls_left.fetch_sub(1, SeqCst) == 1 {
            self.ends();
        }
        let result = if self.is_dead.load(SeqCst) { dead } else { self.with_kernel(act) };
        shuttle::thread::yield_now();
        result
    }

    fn with_kernel<T>(&self, act: impl FnOnce(&mut Kernel) -> T) -> T {
        act(&mut self.kernel.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// What the kernel does at the end of a process: POSIX locks go with the first descriptor of
    /// the file, and that of an open file after it.
    fn ends(&self) {
        self.is_dead.store(true, SeqCst);
        self.with_kernel(|kernel| {
            let Kernel { sharing, exclusive, .. } = kernel;
            exclusive.take_if(|one| sharing.get(one) == Some(&self.number));
            sharing.retain(|_, process| *process != self.number);
        });
        shuttle::thread::yield_now();
        self.with_kernel(|kernel| kernel.turn.take_if(|(_, process)| *process == self.number));
    }

    fn open(self: &Arc<Self>, purpose: Purpose) -> Open {
        let number = self.with_kernel(|kernel| {
            kernel.opened += 1;
            kernel.opened
        });
        let options = Options { keep_wal: false, ..Options::default() };
        let connection = Plain::new(u64::from(number), &options, Arc::clone(&self.shared), purpose);
        let file = || File { process: Arc::clone(self), number };
        let (file, wal) = (Arc::new(file()), Box::new(file()));
        connection.opened(file.clone()).unwrap();
        while connection.lock(file.as_ref(), LockLevel::Shared).is_err() {
            shuttle::thread::yield_now();
        }
        connection.opened_wal(wal).unwrap();
        // Commits are in the log from now on.
        self.call((), |kernel| kernel.is_plain = false);
        Open { connection, file }
    }
}

/// The database file, as one connection has it open. Its WAL is one too: nothing is asked of it.
struct File {
    process: Arc<Process>,
    number: u32,
}

impl Below for File {
    fn lock(&self, level: LockLevel) -> Result<(), Code> {
        let dead = if level == LockLevel::Shared { Ok(()) } else { Err(Code::BUSY) };
        self.process.call(dead, |kernel| {
            let is_alone = kernel.sharing.keys().all(|&one| one == self.number);
            match level {
                LockLevel::Shared if kernel.exclusive.is_none() => {
                    kernel.sharing.insert(self.number, self.process.number);
                }
                LockLevel::Exclusive if is_alone => kernel.exclusive = Some(self.number),
                _ => return Err(Code::BUSY),
            }
            Ok(())
        })
    }

    fn unlock(&self, _: LockLevel) -> Result<(), Code> {
        self.process.call((), |kernel| {
            kernel.sharing.remove(&self.number);
            kernel.exclusive.take_if(|one| *one == self.number);
        });
        Ok(())
    }

    fn turn_to_close(&self, take: bool) -> Result<(), Code> {
        self.process.call(Ok(()), |kernel| {
            let is_taken = kernel.turn.is_some_and(|(one, _)| one != self.number);
            match (take, is_taken) {
                _ if self.process.broken == Broken::Turns => {}
                (true, true) => return Err(Code::BUSY),
                (true, false) => kernel.turn = Some((self.number, self.process.number)),
                (false, _) => _ = kernel.turn.take_if(|(one, _)| *one == self.number),
            }
            Ok(())
        })
    }

    fn is_shared_by_others(&self) -> bool {
        let own = self.process.number;
        self.process.call(false, |kernel| kernel.sharing.values().any(|process| *process != own))
    }

    fn read(&self, _: &mut [u8], _: u64) -> Result<(), Code> {
        unreachable!()
    }

    fn write(&self, _: &[u8], _: u64) -> Result<(), Code> {
        unreachable!()
    }

    fn truncate(&self, _: u64) -> Result<(), Code> {
        unreachable!()
    }

    fn sync(&self, _: SyncRequest) -> Result<(), Code> {
        unreachable!()
    }

    fn size_bytes(&self) -> Result<u64, Code> {
        unreachable!()
    }

    fn sector_size(&self) -> i32 {
        unreachable!()
    }

    fn device_characteristics(&self) -> DeviceCharacteristics {
        unreachable!()
    }
}

impl WalIndex for File {
    fn shm_lock(&self, _: ShmLock) -> Result<(), Code> {
        unreachable!()
    }

    fn published_frames(&self) -> Option<u32> {
        None
    }

    fn forget_backfill(&self) {
        unreachable!()
    }

    fn believe_backfill(&self, _: u32) {
        unreachable!()
    }
}

struct Open {
    connection: Arc<Plain>,
    file: Arc<File>,
}

impl Open {
    /// A close, with SQLite's calls in SQLite's order. One that is not the last only goes.
    fn close(self) {
        let Open { connection, file } = self;
        connection.asked_whether_moved(false);
        if connection.lock(file.as_ref(), LockLevel::Exclusive).is_ok() {
            file.process.call((), |kernel| {
                assert_eq!(kernel.sharing.len(), 1);
                kernel.is_plain = true;
            });
            assert!(!connection.asked_whether_wal_stays(false));
        }
        connection.closing_wal();
        if file.process.broken == Broken::TurnsEnd {
            connection.closing();
        }
        connection.unlock(file.as_ref(), LockLevel::None).unwrap();
        if file.process.broken != Broken::TurnsEnd {
            connection.closing();
        }
    }

    /// The process ends by `exit()` with this connection open (`ffi/at_exit.rs`).
    fn exit(self) {
        let Open { connection, file } = self;
        wait_for_turn_to_close(|| file.turn_to_close(true).is_ok());
        let ours = file.process.open(Purpose::Checkpoints);
        file.unlock(LockLevel::None).unwrap();
        ours.close();
        // Without effect if ours was the last.
        let _ = file.lock(connection.level());
        file.process.ends();
    }
}

/// Closes at the same time: of one process in two threads, of another that may end by `exit()`, and
/// of one with two connections. `dies`: one of the three dies.
fn all_close(broken: Broken, dies: bool) {
    let kernel = Arc::new(StdMutex::new(Kernel {
        sharing: BTreeMap::new(),
        exclusive: None,
        turn: None,
        opened: 0,
        is_plain: true,
    }));
    let processes: Vec<_> = (0..3).map(|number| Process::new(number, &kernel, broken)).collect();
    if dies {
        let calls = thread_rng().gen_range(1..24);
        processes[thread_rng().gen_range(0..3)].calls_left.store(calls, SeqCst);
    }
    let threads: Vec<_> = [0, 0, 1, 2]
        .map(|at| {
            let process = Arc::clone(&processes[at]);
            let (rounds, exits) = (thread_rng().gen_range(1..3), thread_rng().gen_range(0..2) == 0);
            shuttle::thread::spawn(move || {
                (1..rounds).for_each(|_| process.open(Purpose::ReadWrite).close());
                let other = (at == 2).then(|| process.open(Purpose::ReadWrite));
                let last = process.open(Purpose::ReadWrite);
                other.into_iter().for_each(Open::close);
                if at == 1 && exits { last.exit() } else { last.close() }
            })
        })
        .into();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let next = Process::new(3, &kernel, broken);
    next.with_kernel(|kernel| {
        assert!(kernel.sharing.is_empty() && kernel.exclusive.is_none() && kernel.turn.is_none());
        assert!(kernel.is_plain || dies, "claim 1");
    });
    next.open(Purpose::ReadWrite).close();
    assert!(next.with_kernel(|kernel| kernel.is_plain), "claim 2");
}

#[test]
fn of_those_that_close_one_is_the_last() {
    shuttle::check_random(|| all_close(Broken::Nothing, false), 5_000);
    shuttle::check_pct(|| all_close(Broken::Nothing, false), 5_000, 3);
}

#[test]
fn a_process_that_dies_keeps_nobody_from_being_the_last() {
    shuttle::check_random(|| all_close(Broken::Nothing, true), 5_000);
    shuttle::check_pct(|| all_close(Broken::Nothing, true), 5_000, 3);
}

#[test]
#[should_panic(expected = "claim 1")]
fn closers_without_turns_are_caught() {
    shuttle::check_random(|| all_close(Broken::Turns, false), 5_000);
}

#[test]
#[should_panic(expected = "claim 1")]
fn a_turn_that_ends_before_the_lock_is_caught() {
    shuttle::check_random(|| all_close(Broken::TurnsEnd, false), 5_000);
}
