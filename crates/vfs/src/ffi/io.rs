//! Our `sqlite3_io_methods`: trampolines that convert and do nothing else. The quoted contracts are
//! those of sqlite3.h.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::NonNull;
use std::slice;

use libsqlite3_sys as sqlite;

use super::api::{self, Api};
use super::below::BelowFile;
use super::carried::arrived;
use super::open_file::{OpenFile, State};
use super::reserve;
use super::{at_exit, busy, forked};
use super::{callback, callback_code, callback_or};
use crate::error::{Code, Error};
use crate::port::{Below, LockLevel, ShmLock, SyncRequest, WalIndex};
use crate::pragma;
use crate::strategy::AtomicStep;

/// # Safety
/// `file` is one that our `xOpen` opened, and the state is not used beyond the callback.
unsafe fn state<'a>(file: *mut sqlite::sqlite3_file) -> &'a State {
    // SAFETY: as the caller promises; `xOpen` set a valid state before it set the methods.
    unsafe { (*file.cast::<OpenFile>()).state.assume_init_ref() }
}

/// Runs a callback of an open file.
///
/// # Safety
/// `file` is one that our `xOpen` opened and `xClose` has not closed.
unsafe fn on(
    file: *mut sqlite::sqlite3_file,
    call: &'static str,
    body: impl FnOnce(&State) -> Result<(), Error>,
) -> c_int {
    // SAFETY: as the caller promises.
    let state = unsafe { state(file) };
    callback(state.api, call, || state.file.panicked(None), || body(state))
}

/// Passes a call on to the file below, where some versions of `sqlite3_io_methods` lack the method.
macro_rules! pass_on {
    ($name:literal, $file:expr, $method:ident $(, $argument:expr)*) => {
        // SAFETY: SQLite passes a file that we opened, and its arguments go unchanged to the method
        // of the same contract.
        unsafe {
            on($file, $name, |state| {
                let below = state.file.below();
                let method = below.methods().$method.ok_or_else(|| Error::missing($name))?;
                check(method(below.raw() $(, $argument)*))
            })
        }
    };
}

/// Tells what the seatbelt has found.
fn tell(state: &State) {
    if let Some(message) = state.file.below().take_message() {
        state.api.log(sqlite::SQLITE_WARNING, &message);
    }
}

fn check(code: c_int) -> Result<(), Error> {
    if code == sqlite::SQLITE_OK { Ok(()) } else { Err(Error::Below(Code(code))) }
}

/// A pointer for a slice. SQLite may pass null for no bytes, and a slice may not have it.
fn non_null(bytes: *mut c_void) -> NonNull<u8> {
    NonNull::new(bytes.cast()).unwrap_or(NonNull::dangling())
}

fn unsigned(call: &'static str, value: i64) -> Result<u64, Error> {
    u64::try_from(value).map_err(|_| Error::argument(call, value))
}

unsafe extern "C" fn x_close(file: *mut sqlite::sqlite3_file) -> c_int {
    // SAFETY: SQLite closes a file once and does not use it afterwards, so the state is moved out.
    let state = unsafe {
        let open = file.cast::<OpenFile>();
        (*open).methods = std::ptr::null();
        (*open).state.assume_init_read()
    };
    let after = || {
        state.file.panicked(None);
        let _ = state.file.below().close();
    };
    callback(state.api, "xClose", after, || {
        forked::closing(file.cast());
        state.file.closing();
        Ok(arrived(state.file.below().close())?)
    })
}

unsafe extern "C" fn x_read(
    file: *mut sqlite::sqlite3_file,
    buffer: *mut c_void,
    amount: c_int,
    offset: sqlite::sqlite3_int64,
) -> c_int {
    // SAFETY: SQLite passes a file that we opened and a buffer of `amount` bytes that nobody else
    // uses meanwhile.
    unsafe {
        on(file, "xRead", |state| {
            let (len, offset) = (unsigned("xRead", amount.into())?, unsigned("xRead", offset)?);
            let buffer = slice::from_raw_parts_mut(non_null(buffer).as_ptr(), len as usize);
            state.file.read(buffer, offset)
        })
    }
}

unsafe extern "C" fn x_write(
    file: *mut sqlite::sqlite3_file,
    data: *const c_void,
    amount: c_int,
    offset: sqlite::sqlite3_int64,
) -> c_int {
    // SAFETY: SQLite passes a file that we opened and `amount` bytes that stay as they are during
    // the call.
    unsafe {
        on(file, "xWrite", |state| {
            let (len, offset) = (unsigned("xWrite", amount.into())?, unsigned("xWrite", offset)?);
            let data = slice::from_raw_parts(non_null(data.cast_mut()).as_ptr(), len as usize);
            state.file.write(data, offset)
        })
    }
}

unsafe extern "C" fn x_truncate(
    file: *mut sqlite::sqlite3_file,
    size: sqlite::sqlite3_int64,
) -> c_int {
    // SAFETY: SQLite passes a file that we opened.
    unsafe { on(file, "xTruncate", |state| state.file.truncate(unsigned("xTruncate", size)?)) }
}

unsafe extern "C" fn x_sync(file: *mut sqlite::sqlite3_file, flags: c_int) -> c_int {
    let request = SyncRequest {
        full: flags & 0x0f == sqlite::SQLITE_SYNC_FULL,
        data_only: flags & sqlite::SQLITE_SYNC_DATAONLY != 0,
    };
    // SAFETY: SQLite passes a file that we opened.
    unsafe { on(file, "xSync", |state| state.file.sync(request)) }
}

unsafe extern "C" fn x_file_size(
    file: *mut sqlite::sqlite3_file,
    size: *mut sqlite::sqlite3_int64,
) -> c_int {
    // SAFETY: SQLite passes a file that we opened and a place for the answer. The size came from an
    // i64.
    unsafe {
        on(file, "xFileSize", |state| {
            *size = state.file.size_bytes()? as i64;
            Ok(())
        })
    }
}

fn level(call: &'static str, level: c_int) -> Result<LockLevel, Error> {
    match level {
        sqlite::SQLITE_LOCK_NONE => Ok(LockLevel::None),
        sqlite::SQLITE_LOCK_SHARED => Ok(LockLevel::Shared),
        sqlite::SQLITE_LOCK_RESERVED => Ok(LockLevel::Reserved),
        sqlite::SQLITE_LOCK_PENDING => Ok(LockLevel::Pending),
        sqlite::SQLITE_LOCK_EXCLUSIVE => Ok(LockLevel::Exclusive),
        _ => Err(Error::argument(call, level.into())),
    }
}

unsafe extern "C" fn x_lock(file: *mut sqlite::sqlite3_file, wanted: c_int) -> c_int {
    // SAFETY: SQLite passes a file that we opened.
    let state = unsafe { state(file) };
    let after = || {
        state.file.panicked(None);
        if wanted == sqlite::SQLITE_LOCK_SHARED {
            // SQLite believes that it has none. With a higher one it lets all go by itself.
            let _ = state.file.below().unlock(LockLevel::None);
        }
    };
    callback(state.api, "xLock", after, || {
        let locked = state.file.lock(level("xLock", wanted)?);
        tell(state);
        locked?;
        if let Some(place) = state.handle.take()
            && state.file.below().size_bytes() == Ok(0)
        {
            // SAFETY: SQLite passes a file that we opened.
            unsafe { reserve::ask_for_bytes(state.api, place, file) };
        }
        Ok(())
    })
}

unsafe extern "C" fn x_unlock(file: *mut sqlite::sqlite3_file, wanted: c_int) -> c_int {
    // SAFETY: SQLite passes a file that we opened.
    let state = unsafe { state(file) };
    let after = || {
        state.file.panicked(None);
        // SQLite does not try again.
        let _ = level("xUnlock", wanted).map(|level| state.file.below().unlock(level));
    };
    callback(state.api, "xUnlock", after, || {
        state.file.unlock(level("xUnlock", wanted)?)?;
        if let Some(message) = state.file.inactive_for_the_first_time() {
            state.api.log(sqlite::SQLITE_WARNING, &message);
        }
        Ok(())
    })
}

unsafe extern "C" fn x_check_reserved_lock(
    file: *mut sqlite::sqlite3_file,
    result: *mut c_int,
) -> c_int {
    pass_on!("xCheckReservedLock", file, xCheckReservedLock, result)
}

unsafe extern "C" fn x_file_control(
    file: *mut sqlite::sqlite3_file,
    op: c_int,
    argument: *mut c_void,
) -> c_int {
    let body = |state: &State| {
        if op == sqlite::SQLITE_FCNTL_COMMIT_PHASETWO {
            // "sent after a transaction has been committed but before the database is unlocked"
            let result = check(state.file.below().file_control(op, argument));
            state.file.commit_phase_two()?;
            return result;
        }
        let step = match op {
            sqlite::SQLITE_FCNTL_BEGIN_ATOMIC_WRITE => Some(AtomicStep::Begin),
            sqlite::SQLITE_FCNTL_COMMIT_ATOMIC_WRITE => Some(AtomicStep::Commit),
            sqlite::SQLITE_FCNTL_ROLLBACK_ATOMIC_WRITE => Some(AtomicStep::Rollback),
            _ => None,
        };
        if let Some(result) = step.and_then(|step| state.file.atomic_step(step)) {
            return result;
        }
        if op == sqlite::SQLITE_FCNTL_SIZE_HINT && state.file.absorbs_writes() {
            // The file grows when the transaction is committed.
            return Ok(());
        }
        if op == reserve::SQLITE_FCNTL_PDB && state.file.wants_reserved_bytes() {
            state.handle.told(argument);
        }
        if op == sqlite::SQLITE_FCNTL_EXTERNAL_READER
            && let Some(answer) = state.file.below().has_reader_elsewhere()
        {
            // SAFETY: the argument is an `int*`.
            unsafe { *argument.cast::<c_int>() = c_int::from(answer) };
            return Ok(());
        }
        if op == sqlite::SQLITE_FCNTL_PRAGMA {
            state.file.asked_by_pragma();
            // SAFETY: "the argument is an array of pointers to strings" of four elements.
            if let Some(result) = unsafe { answer_pragma(state, argument.cast()) } {
                return result;
            }
        }
        // "This op code queries or sets the persistent WAL setting … a negative value queries". The
        // strategy is told only of the query, which SQLite makes at the end of a close.
        let persist_wal = |op| {
            let is_asked = op == sqlite::SQLITE_FCNTL_PERSIST_WAL;
            // SAFETY: the argument is an `int*`.
            is_asked.then(|| unsafe { &mut *argument.cast::<c_int>() })
        };
        let asks_for_wal = persist_wal(op).is_some_and(|answer| *answer < 0);
        // The VFS below answers "SQLITE_NOTFOUND" to an operation that it does not know. That is an
        // answer as any other.
        let result = check(state.file.below().file_control(op, argument));
        match op {
            sqlite::SQLITE_FCNTL_BUSYHANDLER => {
                // SAFETY: "an array of two (void *) values", the handler and its argument, valid as
                // long as the file is open.
                state.file.busy_handler(unsafe { busy::Handler::new(argument.cast()) });
            }
            sqlite::SQLITE_FCNTL_HAS_MOVED => {
                // SAFETY: the argument is an `int*`. The VFS below has put its answer there.
                let has_moved = result.is_ok() && unsafe { *argument.cast::<c_int>() } != 0;
                state.file.asked_whether_moved(has_moved);
            }
            sqlite::SQLITE_FCNTL_PERSIST_WAL if asks_for_wal => {
                // The VFS below has put its answer there.
                if let Some(answer) = persist_wal(op) {
                    *answer = c_int::from(state.file.asked_whether_wal_stays(*answer == 1));
                }
            }
            api::SQLITE_FCNTL_CKPT_START => state.file.checkpoint(true)?,
            api::SQLITE_FCNTL_CKPT_DONE => state.file.checkpoint(false)?,
            // "If there are multiple VFS shims in use, then the upper-most returns their name
            // first", slash, the next.
            sqlite::SQLITE_FCNTL_VFSNAME if result.is_ok() => {
                // SAFETY: the argument is a `char**` whose string the VFS below has just allocated
                // by SQLite's allocator.
                unsafe { prepend_name(state.api, argument.cast()) }
            }
            _ => {}
        }
        result
    };
    // SAFETY: SQLite passes a file that we opened.
    unsafe { on(file, "xFileControl", body) }
}

/// Element 1 of the array is the name of the pragma, element 2 its argument or NULL. Element 0
/// takes the result, a string from `sqlite3_mprintf()`.
///
/// # Safety
/// `arguments` is what SQLite passes with `SQLITE_FCNTL_PRAGMA`.
unsafe fn answer_pragma(state: &State, arguments: *mut *mut c_char) -> Option<Result<(), Error>> {
    let connection = state.file.main_of()?;
    // SAFETY: element 1 is a string, element 2 a string or null.
    let (name, value) = unsafe { (text(*arguments.add(1))?, text(*arguments.add(2))) };
    let inactive = || state.file.inactive_because();
    let (message, result) = match pragma::answer(connection, &name, value.as_deref(), inactive)? {
        Ok(row) => (row, Ok(())),
        Err(message) => (message, Err(Error::Below(Code(sqlite::SQLITE_ERROR)))),
    };
    // SAFETY: element 0 is the place for the answer, which SQLite frees.
    unsafe { *arguments = state.api.string(&message) };
    Some(result)
}

/// # Safety
/// `name` points to null or to a string from SQLite's allocator.
unsafe fn prepend_name(api: &Api, name: *mut *mut c_char) {
    // SAFETY: as the caller promises; the old string is freed once and replaced.
    unsafe {
        let Some(below) = text(*name) else { return };
        let ours = api.string(&format!("{}/{below}", crate::VFS_NAME));
        if !ours.is_null() {
            api.free(std::mem::replace(&mut *name, ours));
        }
    }
}

/// # Safety
/// `string` is null or ends with a NUL.
unsafe fn text(string: *const c_char) -> Option<String> {
    // SAFETY: as the caller promises.
    (!string.is_null()).then(|| unsafe { CStr::from_ptr(string) }.to_string_lossy().into_owned())
}

unsafe extern "C" fn x_sector_size(file: *mut sqlite::sqlite3_file) -> c_int {
    // SAFETY: SQLite passes a file that we opened.
    let state = unsafe { state(file) };
    // 4096 is SQLite's own default.
    let after = || state.file.panicked(None);
    callback_or(state.api, "xSectorSize", 4096, after, || state.file.sector_size())
}

unsafe extern "C" fn x_device_characteristics(file: *mut sqlite::sqlite3_file) -> c_int {
    // SAFETY: SQLite passes a file that we opened.
    let state = unsafe { state(file) };
    // After a panic nothing is promised.
    let after = || state.file.panicked(None);
    let body = || state.file.device_characteristics().0;
    callback_or(state.api, "xDeviceCharacteristics", 0, after, body)
}

unsafe extern "C" fn x_shm_map(
    file: *mut sqlite::sqlite3_file,
    region: c_int,
    size: c_int,
    extend: c_int,
    result: *mut *mut c_void,
) -> c_int {
    // SAFETY: SQLite passes a file that we opened.
    let state = unsafe { state(file) };
    let below = state.file.below();
    let map = |at: &mut _| pass_on!("xShmMap", file, xShmMap, region, size, extend, at);
    // SAFETY: SQLite says where the answer goes.
    let at = unsafe { &mut *result };
    let after = || state.file.panicked(None);
    callback_code(state.api, "xShmMap", after, || below.map_index(region, at, map))
}

/// The number of slots of the WAL index, and the first slot that readers share.
const SHM_SLOTS: c_int = sqlite::SQLITE_SHM_NLOCK;
const READ: c_int = ShmLock::READ as c_int;
const TAKE_SHARED: c_int = sqlite::SQLITE_SHM_LOCK | sqlite::SQLITE_SHM_SHARED;
const RELEASE_SHARED: c_int = sqlite::SQLITE_SHM_UNLOCK | sqlite::SQLITE_SHM_SHARED;

unsafe extern "C" fn x_shm_lock(
    file: *mut sqlite::sqlite3_file,
    offset: c_int,
    n: c_int,
    flags: c_int,
) -> c_int {
    // SAFETY: SQLite passes a file that we opened.
    let state = unsafe { state(file) };
    // Every read transaction takes and releases a slot of the readers. These two calls have small
    // functions of their own.
    if (READ..SHM_SLOTS).contains(&offset) && n == 1 {
        if flags == TAKE_SHARED {
            return take_read_lock(state, offset);
        }
        if flags == RELEASE_SHARED {
            return release_read_lock(state, offset);
        }
    }
    let code = change_other_lock(state, offset, n, flags);
    tell(state);
    code
}

// `extern "C"`: the functions cannot unwind, so the compiler can jump to them instead of calling.

#[inline(never)]
extern "C" fn take_read_lock(state: &State, slot: c_int) -> c_int {
    let after = || let_go(state, ShmLock::of_reader(slot as u8, false));
    callback_code(state.api, "xShmLock", after, || {
        state.file.take_read_lock(slot as u8).inspect_err(|_| tell(state))
    })
}

/// After a panic in a call of `xShmLock`. SQLite believes that it has not taken these slots, or
/// that it has released them.
#[cold]
fn let_go(state: &State, release: ShmLock) {
    let _ = state.file.below().shm_lock(release);
    state.file.panicked(Some(release));
}

#[inline(never)]
extern "C" fn release_read_lock(state: &State, slot: c_int) -> c_int {
    let after = || let_go(state, ShmLock::of_reader(slot as u8, false));
    callback_code(state.api, "xShmLock", after, || state.file.release_read_lock(slot as u8))
}

#[inline(never)]
extern "C" fn change_other_lock(state: &State, offset: c_int, n: c_int, flags: c_int) -> c_int {
    let lock = ShmLock {
        first: offset as u8,
        count: n as u8,
        acquire: flags & sqlite::SQLITE_SHM_LOCK != 0,
        exclusive: flags & sqlite::SQLITE_SHM_EXCLUSIVE != 0,
    };
    let after = || let_go(state, ShmLock { acquire: false, ..lock });
    callback(state.api, "xShmLock", after, || {
        if offset as u32 > SHM_SLOTS as u32 || n as u32 > SHM_SLOTS as u32 {
            return Err(Error::argument("xShmLock", (offset | n).into()));
        }
        state.file.shm_lock(lock)
    })
}

unsafe extern "C" fn x_shm_barrier(file: *mut sqlite::sqlite3_file) {
    // SAFETY: SQLite passes a file that we opened, so the file below is open too. Nothing of ours
    // runs here.
    unsafe {
        let state = state(file);
        if let Some(barrier) = &state.barrier {
            return barrier.pass();
        }
        let below = state.file.below();
        if let Some(method) = below.methods().xShmBarrier {
            method(below.raw());
        }
    }
}

unsafe extern "C" fn x_shm_unmap(file: *mut sqlite::sqlite3_file, delete: c_int) -> c_int {
    let body = |state: &State| {
        state.file.unmapping_index();
        Ok(())
    };
    // SAFETY: SQLite passes a file that we opened. A panic must not leave the index mapped.
    unsafe { on(file, "xShmUnmap", body) };
    // SAFETY: as above.
    let state = unsafe { state(file) };
    let below = state.file.below();
    let unmap = || pass_on!("xShmUnmap", file, xShmUnmap, delete);
    let after = || state.file.panicked(None);
    let code = callback_code(state.api, "xShmUnmap", after, || below.unmap_index(unmap));
    if let Some(connection) = state.file.main_of().filter(|_| delete != 0) {
        at_exit::index_unmapped(connection.database().path());
    }
    code
}

unsafe extern "C" fn x_fetch(
    file: *mut sqlite::sqlite3_file,
    offset: sqlite::sqlite3_int64,
    amount: c_int,
    result: *mut *mut c_void,
) -> c_int {
    // SAFETY: SQLite passes a file that we opened and a place for the answer; null says that the
    // page has to be read.
    unsafe {
        if !state(file).file.maps(offset as u64) {
            *result = std::ptr::null_mut();
            return sqlite::SQLITE_OK;
        }
    }
    let code = pass_on!("xFetch", file, xFetch, offset, amount, result);
    // SAFETY: SQLite passes a file that we opened and a place for the answer, null if the page is
    // not mapped.
    unsafe {
        if code == sqlite::SQLITE_OK && !(*result).is_null() {
            state(file).file.mapped_read();
        }
    }
    code
}

unsafe extern "C" fn x_unfetch(
    file: *mut sqlite::sqlite3_file,
    offset: sqlite::sqlite3_int64,
    page: *mut c_void,
) -> c_int {
    pass_on!("xUnfetch", file, xUnfetch, offset, page)
}

method_tables!();
