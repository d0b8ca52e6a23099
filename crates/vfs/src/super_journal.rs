//! Whether this thread is in the middle of a commit that a super-journal makes one: then SQLite does not look at what
//! `SQLITE_FCNTL_COMMIT_PHASETWO` answers, because by then its deletion has committed the databases with rollback journals.

use std::cell::Cell;

thread_local! {
    /// SQLite has one open from before the first database's sync until after the last one's.
    static OPEN: Cell<u32> = const { Cell::new(0) };
}

fn change(by: impl Fn(u32) -> u32) {
    let _ = OPEN.try_with(|open| open.set(by(open.get())));
}

pub fn opened() {
    change(|open| open + 1);
}

pub fn closing() {
    change(|open| open.saturating_sub(1));
}

pub fn is_open() -> bool {
    OPEN.try_with(Cell::get).is_ok_and(|open| open > 0)
}
