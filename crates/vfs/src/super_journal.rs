//! Whether this thread is in the middle of a commit over several databases, which a super-journal
//! makes one.
//!
//! SQLite then ignores the answer of `SQLITE_FCNTL_COMMIT_PHASETWO`. By then the deletion of the
//! super-journal has committed the databases with rollback journals.

use std::cell::Cell;

thread_local! {
    /// How many super-journals are open. SQLite opens one before the first database's sync and
    /// closes it after the last one's.
    static OPEN: Cell<u32> = const { Cell::new(0) };
    /// The super-journal that is open is in memory only.
    static IS_ABSORBED: Cell<bool> = const { Cell::new(false) };
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

/// True if the super-journal that is open is in memory only, and its databases commit together.
pub fn is_absorbed() -> bool {
    IS_ABSORBED.try_with(Cell::get).unwrap_or(false)
}

pub fn set_absorbed(absorbed: bool) {
    let _ = IS_ABSORBED.try_with(|is_absorbed| is_absorbed.set(absorbed));
}
