//! The border to SQLite: the only place with unsafe code.
//!
//! | file | what it converts |
//! |---|---|
//! | `api.rs` | the functions of SQLite that the VFS calls, linked or from the API table |
//! | `shim.rs` | what our VFS is in one SQLite |
//! | `vfs.rs` | `sqlite3_vfs`: our methods, and those of the VFS below |
//! | `open.rs` | `xOpen`: of a database, of a file beside one |
//! | `io.rs` | `sqlite3_io_methods`: our methods |
//! | `below.rs` | `sqlite3_io_methods` of the VFS below, as the trait `Below` |
//! | `busy.rs` | the busy handler of a connection, as the trait `BusyHandler` |
//! | `checkpoint.rs` | a checkpoint by a connection of our own, as the trait `RunCheckpoint` |
//! | `image_memory.rs` | the image of `eager` in mapped memory, as the trait `ImageMemory` |
//! | `page_cache.rs` | advice to the kernel: what a recovery reads, what a checkpoint has copied |
//! | `process.rs` | what a guest has to ask of its process: signals, forks |
//! | `at_exit.rs` | the end of a process that still uses a database with `eager` |
//! | `forked.rs`, `inherited.rs` | open files in a child of a fork |
//! | `seatbelt.rs` | SQLite's locks as locks of open files, which no `close()` cancels |
//! | `side_files.rs` | the files of `eager`, as the traits `SideFiles` and `LogFiles` |
//! | `open_file.rs` | an open file of ours, as SQLite has it |
//! | `vfs_file.rs` | a file of the VFS below that we open ourselves, as the trait `Storage` |
//! | `board_file.rs`, `board_place.rs` | the board of `eager` as a mapped file, and its locks |
//! | `descriptor.rs` | SQLite's own descriptor of a database file |
//! | `f2fs_atomic.rs` | F2FS's atomic write, as the trait `AtomicWrite` |
//! | `exchange.rs` | XFS's exchange of file contents, as the trait `ExchangeFile` |
//! | `file_system.rs` | what a file system is, and files without a name |
//! | `simulated_atomic.rs` | atomic writes of a simulated disk, as `AtomicWrite`, `ExchangeFile` |
//! | `simulated_board.rs` | boards of databases on a simulated disk |
//! | `wal_reset.rs` | what keeps SQLite's own checkpoints from the WAL-reset bug |
//! | `looking_on.rs` | how a connection that only reads joins the users of a log |
//! | `entry.rs` | registration, and the entry point of the loadable extension |
//!
//! On a simulated disk `vfs_file.rs` implements `ImageMemory` too.

/// The tables of a module's methods, and the choice among them by what the file below offers. In
/// every module that uses this macro the methods have the same names.
macro_rules! method_tables {
    () => {
        /// Our methods in the given version. Without `shm` there is no `xShmMap`. SQLite tells by
        /// it that it cannot use WAL mode there (invariant 2).
        const fn methods(version: c_int, shm: bool) -> sqlite::sqlite3_io_methods {
            sqlite::sqlite3_io_methods {
                iVersion: version,
                xClose: Some(x_close),
                xRead: Some(x_read),
                xWrite: Some(x_write),
                xTruncate: Some(x_truncate),
                xSync: Some(x_sync),
                xFileSize: Some(x_file_size),
                xLock: Some(x_lock),
                xUnlock: Some(x_unlock),
                xCheckReservedLock: Some(x_check_reserved_lock),
                xFileControl: Some(x_file_control),
                xSectorSize: Some(x_sector_size),
                xDeviceCharacteristics: Some(x_device_characteristics),
                xShmMap: if shm { Some(x_shm_map) } else { None },
                xShmLock: Some(x_shm_lock),
                xShmBarrier: Some(x_shm_barrier),
                xShmUnmap: Some(x_shm_unmap),
                xFetch: Some(x_fetch),
                xUnfetch: Some(x_unfetch),
            }
        }

        static METHODS_1: sqlite::sqlite3_io_methods = methods(1, false);
        static METHODS_2: sqlite::sqlite3_io_methods = methods(2, false);
        static METHODS_2_SHM: sqlite::sqlite3_io_methods = methods(2, true);
        static METHODS_3: sqlite::sqlite3_io_methods = methods(3, false);
        static METHODS_3_SHM: sqlite::sqlite3_io_methods = methods(3, true);

        /// The table that offers exactly what the file below offers (invariant 2).
        pub fn methods_for(below: &BelowFile) -> &'static sqlite::sqlite3_io_methods {
            match below.offers() {
                (..=1, _) => &METHODS_1,
                (2, false) => &METHODS_2,
                (2, true) => &METHODS_2_SHM,
                (3.., false) => &METHODS_3,
                (3.., true) => &METHODS_3_SHM,
            }
        }
    };
}

mod apart;
mod api;
mod at_exit;
mod below;
mod board_file;
mod board_place;
mod busy;
mod carried;
mod checkpoint;
mod descriptor;
mod entry;
mod exchange;
mod f2fs_atomic;
mod file_system;
mod forked;
mod guard_use;
mod image_memory;
mod inherited;
mod io;
#[cfg(not(feature = "loadable"))]
mod linked;
mod looking_on;
mod named_log;
mod open;
mod open_file;
mod page_cache;
mod process;
mod reserve;
mod seatbelt;
mod shim;
mod side_files;
mod simulated_atomic;
mod simulated_board;
mod vfs;
mod vfs_file;
mod virtual_file;
mod wal_reset;

pub use board_file::try_map;
pub use board_place::{Unfit, flock_excludes, record_locks_exclude};
pub use carried::carry;
pub use checkpoint::has_wal_reset_bug;
pub use entry::RegisterError;
#[cfg(not(feature = "loadable"))]
pub use entry::{register, register_default};
pub use exchange::try_in as try_exchange;
pub use f2fs_atomic::try_in as try_atomic_write;
pub use process::with_signals_blocked;
pub use simulated_board::process_died;

use std::any::Any;
use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};

use libsqlite3_sys as sqlite;

use crate::error::{Code, Error};
use api::Api;

/// Runs the body of a callback. Its error becomes a code. A panic stops here (invariant 3), and
/// `after` is what it leaves to be done.
fn callback(
    api: &Api,
    call: &'static str,
    after: impl FnOnce(),
    body: impl FnOnce() -> Result<(), Error>,
) -> c_int {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => sqlite::SQLITE_OK,
        // An everyday answer and no failure: busy, a short read, an unknown file control.
        Ok(Err(Error::Below(code))) => code.0,
        Ok(Err(error)) => failed(api, error),
        Err(payload) => panicked(api, call, payload, after),
    }
}

/// The same for a body that fails only with answers of the VFS below, or with codes that stand for
/// one.
#[inline(always)]
fn callback_code(
    api: &Api,
    call: &'static str,
    after: impl FnOnce(),
    body: impl FnOnce() -> Result<(), Code>,
) -> c_int {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => sqlite::SQLITE_OK,
        Ok(Err(code)) => code.0,
        Err(payload) => panicked(api, call, payload, after),
    }
}

// What seldom runs is kept out of the callbacks, so that the callbacks stay small. After a flush,
// none of them is in a processor cache.

#[cold]
#[inline(never)]
fn failed(api: &Api, error: Error) -> c_int {
    if error.belongs_in_the_log() {
        log(api, &error);
    }
    error.code()
}

#[cold]
#[inline(never)]
fn panicked(
    api: &Api,
    call: &'static str,
    payload: Box<dyn Any + Send>,
    after: impl FnOnce(),
) -> c_int {
    // One more panic cannot be helped.
    let _ = catch_unwind(AssertUnwindSafe(after));
    failed(api, Error::panic(call, panic_message(payload.as_ref())))
}

/// The same for a callback whose answer is no code. `otherwise` is the answer after a panic.
fn callback_or<T>(
    api: &Api,
    call: &'static str,
    otherwise: T,
    after: impl FnOnce(),
    body: impl FnOnce() -> T,
) -> T {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|payload| {
        panicked(api, call, payload, after);
        otherwise
    })
}

fn log(api: &Api, error: &Error) {
    api.log(error.code(), &format!("oneflush: {error}"));
}

fn panic_message(payload: &(dyn Any + Send)) -> String {
    payload
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without a message".to_owned())
}

#[cfg(all(test, not(feature = "loadable")))]
mod tests {
    use super::*;

    #[test]
    fn a_panic_stops_at_the_callback_and_becomes_an_io_error() {
        assert_eq!(
            callback(&api::linked(), "xTest", || panic!("and again"), || panic!("on purpose")),
            sqlite::SQLITE_IOERR
        );
        let mut done = false;
        let after = || done = true;
        assert_eq!(callback_or(&api::linked(), "xTest", 7, after, || panic!("{}", "formatted")), 7);
        assert!(done);
    }

    #[test]
    fn the_answer_of_the_vfs_below_goes_through_as_it_is() {
        let code = sqlite::SQLITE_IOERR_SHORT_READ;
        let after = || panic!("there was no panic");
        let answer = |body| callback(&api::linked(), "xTest", after, || body);
        assert_eq!(answer(Err(Error::Below(Code(code)))), code);
        assert_eq!(answer(Ok(())), sqlite::SQLITE_OK);
    }
}
