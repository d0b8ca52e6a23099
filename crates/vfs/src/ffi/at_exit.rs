//! The end of a process by `exit()`, with connections that the program has left open: a database in use with `eager` becomes a plain file, if that can
//! be had for sure and soon. After a kill, or `_exit()`, the next opener does that.
//!
//! Where another thread is in a transaction, nothing is done.
//!
//! What is left open gets the methods of a file that cannot be used any more (`inherited.rs`): whoever comes later in the process's end and uses it gets
//! an error. From then on no transaction of such a connection begins, and none that was not begun can commit. If all of them are idle, or no other
//! thread could be inside one, a connection of our own copies the whole image. Only then the locks of the others on the database are given up, and
//! our own is closed, as the last one: SQLite locks the database exclusively, which fails where another process has it open, and the log is retired.
//!
//! All that is done by a thread that the process waits for, for up to [`PATIENCE`]: whatever lock somebody else has, the end comes. A process that
//! ends in the middle is one that was killed there.

use std::cell::Cell;
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

use super::{checkpoint, forked};
use crate::connection::Database;
use crate::names::log_path;
use crate::strategy::SharedWal;
use crate::threads;

const PATIENCE: Duration = Duration::from_secs(5);

/// For so long a call that had begun before may still take a lock.
const SETTLES: Duration = Duration::from_millis(2);

/// A database was opened with a strategy that guards it, ever.
static GUARD_WAS_USED: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// This thread closes a connection as the last one, beside others that nobody uses.
    static CLOSES_LAST: Cell<bool> = const { Cell::new(false) };
}

pub fn note_guarded() {
    GUARD_WAS_USED.store(true, SeqCst);
}

/// SQLite has removed its view of the WAL index and wanted to delete it, under the exclusive lock. It keeps the file while others have it mapped.
pub fn index_unmapped(database: &str) {
    if CLOSES_LAST.get() {
        let _ = fs::remove_file(format!("{database}-shm"));
    }
}

/// The process ends.
pub fn ends() {
    // SQLite's own suite stands for a crash by `exit()` out of a write: nothing may be closed then.
    if std::env::var_os("ONEFLUSH_TEST_EXIT_IS_CRASH").is_some() {
        return;
    }
    if !GUARD_WAS_USED.load(SeqCst) {
        return;
    }
    let is_alone = is_alone();
    let until = Instant::now() + PATIENCE;
    let end = move || {
        let databases = Database::all_in_wal_mode();
        for database in databases.iter().filter(|one| one.shared().is_some_and(SharedWal::is_guarded)) {
            close(database, is_alone, until);
        }
    };
    let Ok(thread) = threads::spawn("oneflush-end", end) else { return };
    while !thread.is_finished() && Instant::now() < until {
        std::thread::sleep(Duration::from_micros(100));
    }
}

/// Threads other than ours and the one that ends the process: none.
fn is_alone() -> bool {
    let Ok(tasks) = fs::read_dir("/proc/self/task") else { return false };
    let is_ours = |name: String| name.starts_with("oneflush-");
    let others = tasks.flatten().filter(|task| !fs::read_to_string(task.path().join("comm")).is_ok_and(is_ours));
    others.count() == 1
}

fn close(database: &Database, is_alone: bool, until: Instant) {
    let Some(checkpointer) = database.shared().map(SharedWal::checkpointer) else { return };
    if !checkpointer.call_off(until) {
        return;
    }
    if let Some(left) = forked::end_use(database.path(), is_alone) {
        if !is_alone {
            std::thread::sleep(SETTLES);
        }
        if left.is_idle() || is_alone {
            left.give_up_transactions();
            checkpointer.run_by_hand();
            CLOSES_LAST.set(true);
            let closed = checkpoint::close_last(left.api(), database.path(), left.options(), || left.give_up_locks());
            CLOSES_LAST.set(false);
            if closed && !fs::exists(log_path(database.path())).unwrap_or(true) {
                return;
            }
        }
        left.go_on();
    }
    checkpointer.resume();
}
