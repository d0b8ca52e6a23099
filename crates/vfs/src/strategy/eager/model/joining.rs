//! Processes that come and go: nobody uses the log with a process that believes to be alone.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::AtomicU32;

use oneflush_blocklog::Uuid;
use shuttle::rand::{Rng, thread_rng};

use super::*;
use crate::kill_point::Died;

/// Who uses the log, by what each process believes.
#[derive(Default)]
struct Users {
    joined: AtomicU32,
    recovers: AtomicBool,
    /// Whatever the last start of the system left was recovered.
    recovered: AtomicBool,
}

/// Joins in one of the two ways, uses the log for a moment, and leaves it.
fn joins_and_leaves(handle: &std::sync::Arc<Handle>, users: &Users, uuid: Uuid) {
    let board = Board::new(handle.clone());
    if thread_rng().gen_range(0..2) == 0 {
        if board.join_beside(uuid).unwrap() {
            assert!(!users.recovers.load(SeqCst) && users.recovered.load(SeqCst), "invariant 8");
            users.joined.fetch_add(1, SeqCst);
        } else {
            return;
        }
    } else {
        handle.lock_unless(0, FOR_EVER, &|| false).unwrap();
        let alone = match board.join() {
            Ok(alone) => alone,
            Err(code) => {
                assert_eq!(code, Code::BUSY);
                handle.unlock(0..0);
                return;
            }
        };
        if alone {
            users.recovers.store(true, SeqCst);
            assert_eq!(users.joined.load(SeqCst), 0, "invariant 8");
            shuttle::thread::yield_now();
            board.begin(uuid, PAGE_BYTES);
            shuttle::thread::yield_now();
            assert_eq!(users.joined.load(SeqCst), 0, "invariant 8");
            users.recovered.store(true, SeqCst);
            users.recovers.store(false, SeqCst);
            board.set_open();
        } else if !board.is_open() {
            handle.leave();
            handle.unlock(0..0);
            return;
        }
        users.joined.fetch_add(1, SeqCst);
        handle.unlock(0..0);
    }
    // A process that dies here is not counted from now on. After that the kernel takes its locks
    // back.
    let dies = catch_unwind(AssertUnwindSafe(|| KillPoint::Noted.reached()));
    users.joined.fetch_sub(1, SeqCst);
    dies.unwrap_or_else(|reason| std::panic::resume_unwind(reason));
    handle.leave();
}

/// Runs processes that come and go. One of them dies. At first there is the board of an earlier
/// start of the system, with `Open` set.
fn come_and_go(sees_what_is_not_there: bool) {
    let uuid = Uuid([7; 16]);
    let shared = Arc::new(Private::default());
    let kernel = std::sync::Arc::<StdMutex<Kernel>>::default();
    let first =
        Board::new(std::sync::Arc::new(Handle::with(&shared, &Default::default(), &kernel)));
    first.begin(uuid, PAGE_BYTES);
    first.set_open();
    let users = Arc::new(Users::default());
    let threads: Vec<_> = (0..4)
        .map(|at| {
            let (shared, kernel, users) = (Arc::clone(&shared), kernel.clone(), Arc::clone(&users));
            shuttle::thread::spawn(move || {
                let handle = Handle::with(&shared, &Default::default(), &kernel);
                let handle = std::sync::Arc::new(Handle { sees_what_is_not_there, ..handle });
                if at == 0 {
                    Died::after(thread_rng().gen_range(1..8));
                }
                let before = AssertUnwindSafe(|| {
                    (0..3).for_each(|_| joins_and_leaves(&handle, &users, uuid))
                });
                if let Err(reason) = catch_unwind(before) {
                    if !reason.is::<Died>() {
                        std::panic::resume_unwind(reason);
                    }
                    handle.die();
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn nobody_recovers_while_another_uses_the_log_however_they_joined() {
    shuttle::check_random(|| come_and_go(false), 5_000);
    shuttle::check_pct(|| come_and_go(false), 5_000, 3);
}

#[test]
#[should_panic(expected = "invariant 8")]
fn who_joins_beside_nobody_is_caught() {
    shuttle::check_random(|| come_and_go(true), 5_000);
}
