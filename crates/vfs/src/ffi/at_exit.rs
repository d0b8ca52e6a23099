//! The end of a process by `exit()` while connections are open.
//!
//! A database in use with a strategy that guards it becomes a plain file here, if that is safe and
//! quick. After a kill or `_exit()` the next opener does it.
//!
//! | step | function | what holds afterwards |
//! |---|---|---|
//! | 1 | `Checkpointer::call_off` | no checkpoint of ours runs |
//! | 2 | `forked::end_use` | no connection begins a transaction, or the commit of one |
//! | 3 | `Left::give_up_transactions` | if no other thread exists: what was not committed is gone |
//! | 4 | `checkpoint::close_last` | a connection of ours has copied the whole image |
//! | 5 | `Left::give_up_locks` | the program's connections are not in the way of a last close |
//! | 6 | the close of our connection | the log is retired if no other process uses the database |
//!
//! In step 2 every connection that was left open gets the methods of `inherited.rs`. A use that
//! comes later in the end of the process is an error. Step 6 is a last close: SQLite locks the
//! database exclusively, which fails where another process has it open.
//!
//! Nothing is done where a connection is in a transaction and another thread exists. If a step
//! fails, `Left::go_on` gives the idle connections their methods back.
//!
//! A thread of its own does all this. The process waits for that thread for at most [`PATIENCE`],
//! whatever locks others hold. A process that ends in the middle of it is like one that was killed
//! there.

use std::cell::Cell;
use std::fs;
use std::time::{Duration, Instant};

use super::{checkpoint, forked, guard_use};
use crate::connection::Database;
use crate::engine::wait_for_turn_to_close;
use crate::names::index_path;
use crate::strategy::{SharedWal, path_of_log};
use crate::threads;

const PATIENCE: Duration = Duration::from_secs(5);

/// For this long a call that began before step 2 may still take a lock.
const SETTLES: Duration = Duration::from_millis(2);

thread_local! {
    /// This thread closes the last connection that is used, while unused ones are still open.
    static CLOSES_LAST: Cell<bool> = const { Cell::new(false) };
}

/// SQLite has unmapped the WAL index under the exclusive lock and wanted to delete it. SQLite keeps
/// the file while others have it mapped, so it is deleted here.
pub fn index_unmapped(database: &str) {
    if CLOSES_LAST.get() {
        let _ = fs::remove_file(index_path(database));
    }
}

/// Called when the process ends.
pub fn ends() {
    // SQLite's own test suite simulates a crash by `exit()` during a write. Nothing may be closed
    // then.
    if std::env::var_os("ONEFLUSH_TEST_EXIT_IS_CRASH").is_some() {
        return;
    }
    if !guard_use::was_there() {
        return;
    }
    let is_alone = is_alone();
    let until = Instant::now() + PATIENCE;
    let end = move || {
        let databases = Database::all_in_wal_mode();
        for database in
            databases.iter().filter(|one| one.shared().is_some_and(SharedWal::is_guarded))
        {
            close(database, is_alone, until);
        }
        Database::retire_all();
    };
    let Ok(thread) = threads::spawn("oneflush-end", || {}, end) else { return };
    while !thread.is_finished() && Instant::now() < until {
        std::thread::sleep(Duration::from_micros(100));
    }
}

/// True if this thread is the only one that is not ours.
fn is_alone() -> bool {
    let Ok(tasks) = fs::read_dir("/proc/self/task") else { return false };
    let is_ours = |name: String| name.starts_with("oneflush-");
    let others = tasks
        .flatten()
        .filter(|task| !fs::read_to_string(task.path().join("comm")).is_ok_and(is_ours));
    others.count() == 1
}

fn close(database: &Database, is_alone: bool, until: Instant) {
    let Some(shared) = database.shared() else { return };
    let checkpointer = shared.checkpointer();
    if !checkpointer.call_off(until) {
        return;
    }
    if let Some(left) = forked::end_use(database.path(), is_alone) {
        if !is_alone {
            std::thread::sleep(SETTLES);
        }
        if left.is_idle() || is_alone {
            left.give_up_transactions();
            // The turn ends with the process, as do the locks that `Left::go_on` takes back. Until
            // then this process is in the way of a last close.
            wait_for_turn_to_close(|| left.takes_turn_to_close());
            checkpointer.run_by_hand();
            CLOSES_LAST.set(true);
            let closed =
                checkpoint::close_last(left.api(), database.path(), left.options(), || {
                    left.give_up_locks()
                });
            CLOSES_LAST.set(false);
            let log = path_of_log(shared.kind(), database.path());
            if closed && log.is_some_and(|log| !fs::exists(log).unwrap_or(true)) {
                return;
            }
        }
        left.go_on();
    }
    checkpointer.resume();
}
