//! The tables of function pointers. Trampolines only convert. What they do is in the safe files
//! beside this one.

use std::cell::{Cell, RefCell};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use libsqlite3_sys as sqlite;
use oneflush_vfs::carry;

use super::exchanged::Exchanged;
use super::locks::{Busy, Level, SLOTS};
use super::settings::keep_freed_memory;
use super::volume::{Shared, Volume, full_path, owner, process_of};
use crate::content::Content;
use crate::disk::{DiskError, SyncFailures};
use crate::lock::locked;
use crate::log::{Ino, parent};

#[derive(Debug, thiserror::Error)]
pub enum RegisterError {
    #[error("SQLite refused to register the simulated disk: code {0}")]
    Refused(c_int),
    #[error("{0}")]
    Oneflush(#[from] oneflush_vfs::RegisterError),
}

/// Makes the simulated disks the default VFS of this process, and registers `oneflush` over them.
/// Must come before `oneflush` is registered otherwise: it stays over the VFS that it found first.
pub fn register() -> Result<(), RegisterError> {
    static DONE: Mutex<bool> = Mutex::new(false);
    let mut done = locked(&DONE);
    if *done {
        return Ok(());
    }
    keep_freed_memory();
    let vfs = Box::leak(Box::new(sqlite::sqlite3_vfs {
        iVersion: 3,
        szOsFile: size_of::<OpenFile>() as c_int,
        mxPathname: 512,
        pNext: std::ptr::null_mut(),
        zName: c"crashlab".as_ptr(),
        pAppData: std::ptr::null_mut(),
        xOpen: Some(x_open),
        xDelete: Some(x_delete),
        xAccess: Some(x_access),
        xFullPathname: Some(x_full_pathname),
        xDlOpen: None,
        xDlError: None,
        xDlSym: None,
        xDlClose: None,
        xRandomness: Some(x_randomness),
        xSleep: Some(x_sleep),
        xCurrentTime: Some(x_current_time),
        xGetLastError: Some(x_get_last_error),
        xCurrentTimeInt64: Some(x_current_time_int64),
        xSetSystemCall: None,
        xGetSystemCall: Some(x_get_system_call),
        xNextSystemCall: None,
    }));
    // SAFETY: the VFS and its name are never freed. Memory statistics would make all threads wait
    // for one mutex. The call must come before SQLite is initialised, and it is no error if it is
    // refused later.
    let code = unsafe {
        sqlite::sqlite3_config(sqlite::SQLITE_CONFIG_MEMSTATUS, 0 as c_int);
        sqlite::sqlite3_vfs_register(vfs, 1)
    };
    if code != sqlite::SQLITE_OK {
        return Err(RegisterError::Refused(code));
    }
    oneflush_vfs::register()?;
    super::place::offer();
    *done = true;
    Ok(())
}

#[repr(C)]
struct OpenFile {
    methods: *const sqlite::sqlite3_io_methods,
    handle: *mut Handle,
}

/// One open file. SQLite calls it from one thread at a time.
struct Handle {
    owner: u64,
    target: Target,
    level: Cell<Level>,
    /// The next sync also syncs the directory.
    sync_directory: Cell<bool>,
    sync_failures: Cell<SyncFailures>,
    delete_on_close: bool,
    persist_wal: Cell<bool>,
    /// Writes between `SQLITE_FCNTL_BEGIN_ATOMIC_WRITE` and the end of the batch.
    atomic: RefCell<Option<Writes>>,
}

/// Writes with their offsets.
type Writes = Vec<(u64, Vec<u8>)>;

/// How the names of the logs end.
const LOG_ENDINGS: [&str; 3] = ["-oneflush", "-waldio", "-maw"];

enum Target {
    Temporary(RefCell<Content>),
    /// Blocks of it can change places with a database's.
    Exchanged {
        volume: Arc<Volume>,
        file: RefCell<Exchanged>,
    },
    OnDisk {
        volume: Arc<Volume>,
        name: String,
        ino: Ino,
        shared: Arc<Shared>,
    },
}

/// Runs a callback's body: no panic may cross into SQLite.
fn guarded(body: impl FnOnce() -> c_int) -> c_int {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or(sqlite::SQLITE_INTERNAL)
}

/// Runs a method's body on the file that SQLite passes.
///
/// # Safety
/// `file` was opened by `x_open` and not closed yet.
unsafe fn on(file: *mut sqlite::sqlite3_file, body: impl FnOnce(&Handle) -> c_int) -> c_int {
    // SAFETY: as the caller promises; the handle was made by `x_open`.
    let handle = unsafe { &*(*file.cast::<OpenFile>()).handle };
    guarded(|| body(handle))
}

/// # Safety
/// `name` is null or a C string that outlives the answer.
unsafe fn text<'a>(name: *const c_char) -> Option<&'a str> {
    // SAFETY: as the caller promises.
    (!name.is_null()).then(|| unsafe { CStr::from_ptr(name) }.to_str().ok()).flatten()
}

fn code(result: Result<(), DiskError>, io: c_int) -> c_int {
    match result {
        Ok(()) => sqlite::SQLITE_OK,
        Err(DiskError::NoSpace | DiskError::ShortWrite) => sqlite::SQLITE_FULL,
        Err(DiskError::Panic) => carry(Box::new("a fault of the crash simulator")),
        Err(DiskError::Io | DiskError::NotFound | DiskError::Exists) => io,
    }
}

unsafe extern "C" fn x_open(
    _vfs: *mut sqlite::sqlite3_vfs,
    name: sqlite::sqlite3_filename,
    file: *mut sqlite::sqlite3_file,
    flags: c_int,
    flags_out: *mut c_int,
) -> c_int {
    let file = file.cast::<OpenFile>();
    // "xOpen must set sqlite3_file.pMethods to NULL or to a valid structure, even if it fails."
    // SAFETY: SQLite passes `szOsFile` bytes, and a name that stays while the file is open.
    let name = unsafe {
        (*file).methods = std::ptr::null();
        text(name)
    };
    guarded(|| {
        let opened = match open(name, flags) {
            Ok(handle) => handle,
            Err(code) => return code,
        };
        // SAFETY: both are SQLite's memory; `flags_out` may be null.
        unsafe {
            if !flags_out.is_null() {
                *flags_out = flags;
            }
            (*file).handle = Box::into_raw(Box::new(opened));
            (*file).methods = &raw const METHODS;
        }
        sqlite::SQLITE_OK
    })
}

fn open(name: Option<&str>, flags: c_int) -> Result<Handle, c_int> {
    static NEXT_OWNER: AtomicU64 = AtomicU64::new(1);
    let journal = sqlite::SQLITE_OPEN_MAIN_JOURNAL
        | sqlite::SQLITE_OPEN_WAL
        | sqlite::SQLITE_OPEN_SUPER_JOURNAL;
    let mut sync_failures = SyncFailures::default();
    let target = match name {
        None => Target::Temporary(RefCell::default()),
        Some(path) if flags & sqlite::SQLITE_OPEN_TEMP_DB != 0 => {
            let (volume, _) = Volume::of_path(path).ok_or(sqlite::SQLITE_CANTOPEN)?;
            Target::Exchanged { volume, file: RefCell::default() }
        }
        Some(path) => {
            let (volume, name) = Volume::of_path(path).ok_or(sqlite::SQLITE_CANTOPEN)?;
            let mut disk = volume.disk();
            let exclusive = flags & sqlite::SQLITE_OPEN_EXCLUSIVE != 0;
            let ino = match disk.lookup(name) {
                Some(_) if exclusive => return Err(sqlite::SQLITE_CANTOPEN),
                Some(ino) => ino,
                None if flags & sqlite::SQLITE_OPEN_CREATE != 0 => {
                    disk.create(name).map_err(|_| sqlite::SQLITE_CANTOPEN)?
                }
                None => return Err(sqlite::SQLITE_CANTOPEN),
            };
            sync_failures = disk.sync_failures(ino);
            drop(disk);
            let shared = volume.shared(name);
            Target::OnDisk { name: name.to_owned(), ino, shared, volume }
        }
    };
    Ok(Handle {
        owner: owner(NEXT_OWNER.fetch_add(1, Relaxed), name.map_or(0, process_of)),
        target,
        level: Cell::default(),
        // For each such file that may be created, new or not, as "unix" does.
        sync_directory: Cell::new(flags & sqlite::SQLITE_OPEN_CREATE != 0 && flags & journal != 0),
        sync_failures: Cell::new(sync_failures),
        delete_on_close: flags & sqlite::SQLITE_OPEN_DELETEONCLOSE != 0,
        persist_wal: Cell::new(false),
        atomic: RefCell::default(),
    })
}

unsafe extern "C" fn x_close(file: *mut sqlite::sqlite3_file) -> c_int {
    // SAFETY: SQLite closes a file once and does not use it afterwards.
    let handle = unsafe {
        let file = file.cast::<OpenFile>();
        (*file).methods = std::ptr::null();
        Box::from_raw((*file).handle)
    };
    guarded(|| {
        handle.unmap();
        if let Target::OnDisk { volume, name, shared, .. } = &handle.target {
            let mut level = handle.level.get();
            locked(&shared.locks).unlock(handle.owner, &mut level, Level::None);
            if handle.delete_on_close {
                let _ = volume.disk().unlink(name);
            }
        }
        sqlite::SQLITE_OK
    })
}

unsafe extern "C" fn x_delete(
    _vfs: *mut sqlite::sqlite3_vfs,
    name: *const c_char,
    sync_dir: c_int,
) -> c_int {
    guarded(|| {
        // SAFETY: SQLite passes a path.
        let found = unsafe { text(name) }.and_then(Volume::of_path);
        let Some((volume, name)) = found else { return sqlite::SQLITE_IOERR_DELETE };
        let mut disk = volume.disk();
        match disk.unlink(name) {
            Err(DiskError::NotFound) => sqlite::SQLITE_IOERR_DELETE_NOENT,
            Ok(()) if sync_dir != 0 => {
                code(disk.sync_dir(parent(name)), sqlite::SQLITE_IOERR_DIR_FSYNC)
            }
            result => code(result, sqlite::SQLITE_IOERR_DELETE),
        }
    })
}

/// The system calls that a VFS has no method for: `rename` and `exchange`.
unsafe extern "C" fn x_get_system_call(
    _vfs: *mut sqlite::sqlite3_vfs,
    name: *const c_char,
) -> sqlite::sqlite3_syscall_ptr {
    // SAFETY: SQLite, or who asks in its place, passes a string.
    let name = unsafe { text(name) };
    // SAFETY: pointers to functions, which are called as what they are.
    unsafe {
        match name {
            // The second B-tree asks whether it may open the files (`place.rs`).
            Some("oneflush_mvbt") => Some(offered),
            Some("rename") => Some(std::mem::transmute::<
                unsafe extern "C" fn(*const c_char, *const c_char) -> c_int,
                unsafe extern "C" fn(),
            >(rename)),
            Some("exchange") => Some(std::mem::transmute::<
                unsafe extern "C" fn(*mut sqlite::sqlite3_file, *const c_char, i64, i64) -> c_int,
                unsafe extern "C" fn(),
            >(exchange)),
            _ => None,
        }
    }
}

/// As `XFS_IOC_EXCHANGE_RANGE` with `FILE1_WRITTEN` and `DSYNC`, with an answer of SQLite's.
unsafe extern "C" fn exchange(
    file: *mut sqlite::sqlite3_file,
    database: *const c_char,
    from: i64,
    to: i64,
) -> c_int {
    // SAFETY: the caller passes an open file and a path.
    unsafe {
        on(file, |handle| {
            let Target::Exchanged { file, .. } = &handle.target else {
                return sqlite::SQLITE_MISUSE;
            };
            let Some((volume, name)) = text(database).and_then(Volume::of_path) else {
                return sqlite::SQLITE_CANTOPEN;
            };
            let mut disk = volume.disk();
            let Some(ino) = disk.lookup(name) else { return sqlite::SQLITE_CANTOPEN };
            let result = file.borrow_mut().exchange(&mut disk, ino, from as u64..to as u64);
            code(result, sqlite::SQLITE_IOERR_WRITE)
        })
    }
}

/// Is not called: that it is there is the answer.
unsafe extern "C" fn offered() {}

/// As rename(2), with an answer of SQLite's. A file that has the new name is replaced.
unsafe extern "C" fn rename(from: *const c_char, to: *const c_char) -> c_int {
    guarded(|| {
        // SAFETY: the caller passes two paths.
        let (from, to) =
            unsafe { (text(from).and_then(Volume::of_path), text(to).and_then(Volume::of_path)) };
        let (Some((volume, from)), Some((_, to))) = (from, to) else {
            return sqlite::SQLITE_CANTOPEN;
        };
        code(volume.disk().rename(from, to), sqlite::SQLITE_IOERR)
    })
}

unsafe extern "C" fn x_access(
    _vfs: *mut sqlite::sqlite3_vfs,
    name: *const c_char,
    flags: c_int,
    result: *mut c_int,
) -> c_int {
    guarded(|| {
        // SAFETY: SQLite passes a path and a place for the answer.
        unsafe {
            let found = text(name).and_then(Volume::of_path);
            *result = c_int::from(found.is_some_and(|(volume, name)| {
                let disk = volume.disk();
                disk.lookup(name)
                    .is_some_and(|ino| flags != sqlite::SQLITE_ACCESS_EXISTS || disk.size(ino) > 0)
            }));
        }
        sqlite::SQLITE_OK
    })
}

unsafe extern "C" fn x_full_pathname(
    _vfs: *mut sqlite::sqlite3_vfs,
    name: *const c_char,
    len: c_int,
    out: *mut c_char,
) -> c_int {
    // SAFETY: SQLite passes a string and `len` bytes for the answer. All paths here are absolute.
    guarded(|| unsafe {
        let Some(full) = text(name).map(full_path).filter(|full| full.len() < len as usize) else {
            return sqlite::SQLITE_CANTOPEN;
        };
        std::ptr::copy_nonoverlapping(full.as_ptr().cast(), out, full.len());
        *out.add(full.len()) = 0;
        sqlite::SQLITE_OK
    })
}

unsafe extern "C" fn x_randomness(
    _vfs: *mut sqlite::sqlite3_vfs,
    len: c_int,
    out: *mut c_char,
) -> c_int {
    // SAFETY: SQLite passes `len` bytes. `seed_sqlite` decides, so nothing here need be random.
    unsafe { std::ptr::write_bytes(out, 0x5a, len as usize) };
    len
}

unsafe extern "C" fn x_sleep(_vfs: *mut sqlite::sqlite3_vfs, microseconds: c_int) -> c_int {
    // Threads that wait for each other's locks only have to be taken off the processor.
    std::thread::sleep(Duration::from_micros((microseconds as u64).min(200)));
    microseconds
}

/// Noon of 1 January 2000, always: a run depends on nothing but its seed.
const NOW_MS: i64 = 211_813_488_000_000;

unsafe extern "C" fn x_current_time(_vfs: *mut sqlite::sqlite3_vfs, out: *mut f64) -> c_int {
    // SAFETY: SQLite passes a place for the answer.
    unsafe { *out = NOW_MS as f64 / 86_400_000.0 };
    sqlite::SQLITE_OK
}

unsafe extern "C" fn x_current_time_int64(_vfs: *mut sqlite::sqlite3_vfs, out: *mut i64) -> c_int {
    // SAFETY: SQLite passes a place for the answer.
    unsafe { *out = NOW_MS };
    sqlite::SQLITE_OK
}

unsafe extern "C" fn x_get_last_error(
    _vfs: *mut sqlite::sqlite3_vfs,
    _len: c_int,
    _out: *mut c_char,
) -> c_int {
    0
}

unsafe extern "C" fn x_read(
    file: *mut sqlite::sqlite3_file,
    buffer: *mut c_void,
    len: c_int,
    offset: i64,
) -> c_int {
    // SAFETY: SQLite passes an open file and a buffer of `len` bytes of its own.
    unsafe {
        let buffer = std::slice::from_raw_parts_mut(buffer.cast::<u8>(), len as usize);
        on(file, |handle| {
            let wanted = buffer.len();
            let there = match &handle.target {
                Target::Temporary(content) => Ok(content.borrow().read(offset as u64, buffer)),
                Target::Exchanged { file, .. } => {
                    Ok(file.borrow().content.read(offset as u64, buffer))
                }
                Target::OnDisk { volume, ino, .. } => {
                    volume.disk().read(*ino, offset as u64, buffer)
                }
            };
            match there {
                Ok(there) if there == wanted => sqlite::SQLITE_OK,
                Ok(_) => sqlite::SQLITE_IOERR_SHORT_READ,
                Err(error) => code(Err(error), sqlite::SQLITE_IOERR_READ),
            }
        })
    }
}

unsafe extern "C" fn x_write(
    file: *mut sqlite::sqlite3_file,
    data: *const c_void,
    len: c_int,
    offset: i64,
) -> c_int {
    // SAFETY: SQLite passes an open file and `len` bytes.
    unsafe {
        let data = std::slice::from_raw_parts(data.cast::<u8>(), len as usize);
        on(file, |handle| match &handle.target {
            Target::Temporary(content) => {
                content.borrow_mut().write(offset as u64, data);
                sqlite::SQLITE_OK
            }
            Target::Exchanged { volume, file } => {
                let result = volume.disk().write_temporary();
                if result.is_ok() {
                    file.borrow_mut().write(offset as u64, data);
                }
                code(result, sqlite::SQLITE_IOERR_WRITE)
            }
            Target::OnDisk { volume, ino, .. } => {
                if let Some(batch) = &mut *handle.atomic.borrow_mut() {
                    let result = volume.disk().write_temporary();
                    batch.push((offset as u64, data.to_vec()));
                    return code(result, sqlite::SQLITE_IOERR_WRITE);
                }
                code(volume.disk().write(*ino, offset as u64, data), sqlite::SQLITE_IOERR_WRITE)
            }
        })
    }
}

unsafe extern "C" fn x_truncate(file: *mut sqlite::sqlite3_file, size: i64) -> c_int {
    // SAFETY: SQLite passes an open file.
    unsafe {
        on(file, |handle| match &handle.target {
            Target::Temporary(content) => {
                content.borrow_mut().set_size(size as u64);
                sqlite::SQLITE_OK
            }
            Target::Exchanged { file, .. } => {
                file.borrow_mut().set_size(size as u64);
                sqlite::SQLITE_OK
            }
            Target::OnDisk { volume, ino, .. } => {
                code(volume.disk().truncate(*ino, size as u64), sqlite::SQLITE_IOERR_TRUNCATE)
            }
        })
    }
}

unsafe extern "C" fn x_sync(file: *mut sqlite::sqlite3_file, flags: c_int) -> c_int {
    // SAFETY: SQLite passes an open file.
    unsafe {
        on(file, |handle| {
            let Target::OnDisk { volume, name, ino, .. } = &handle.target else {
                return sqlite::SQLITE_OK;
            };
            let covers = volume.sync_begins();
            let mut disk = volume.disk();
            let mut known = handle.sync_failures.get();
            // A log asks for a forced write in this way (`write_durable`).
            let is_log = LOG_ENDINGS.iter().any(|ending| name.ends_with(ending));
            let forced = flags & sqlite::SQLITE_SYNC_DATAONLY != 0 && is_log;
            let result = disk.sync(*ino, &mut known, covers, forced);
            handle.sync_failures.set(known);
            if let Err(error) = result {
                return code(Err(error), sqlite::SQLITE_IOERR_FSYNC);
            }
            if handle.sync_directory.get() {
                if let Err(error) = disk.sync_dir(parent(name)) {
                    return code(Err(error), sqlite::SQLITE_IOERR_DIR_FSYNC);
                }
                handle.sync_directory.set(false);
            }
            sqlite::SQLITE_OK
        })
    }
}

unsafe extern "C" fn x_file_size(file: *mut sqlite::sqlite3_file, size: *mut i64) -> c_int {
    // SAFETY: SQLite passes an open file and a place for the answer.
    unsafe {
        on(file, |handle| {
            *size = match &handle.target {
                Target::Temporary(content) => content.borrow().size(),
                Target::Exchanged { file, .. } => file.borrow().content.size(),
                Target::OnDisk { volume, ino, .. } => {
                    let disk = volume.disk();
                    if !disk.is_powered() {
                        return sqlite::SQLITE_IOERR_FSTAT;
                    }
                    disk.size(*ino)
                }
            } as i64;
            sqlite::SQLITE_OK
        })
    }
}

fn level(wanted: c_int) -> Level {
    match wanted {
        sqlite::SQLITE_LOCK_NONE => Level::None,
        sqlite::SQLITE_LOCK_SHARED => Level::Shared,
        sqlite::SQLITE_LOCK_RESERVED => Level::Reserved,
        sqlite::SQLITE_LOCK_PENDING => Level::Pending,
        _ => Level::Exclusive,
    }
}

unsafe extern "C" fn x_lock(file: *mut sqlite::sqlite3_file, wanted: c_int) -> c_int {
    // SAFETY: SQLite passes an open file.
    unsafe {
        on(file, |handle| {
            let Target::OnDisk { shared, .. } = &handle.target else { return sqlite::SQLITE_OK };
            let mut held = handle.level.get();
            let result = locked(&shared.locks).lock(handle.owner, &mut held, level(wanted));
            handle.level.set(held);
            if result.is_ok() { sqlite::SQLITE_OK } else { sqlite::SQLITE_BUSY }
        })
    }
}

unsafe extern "C" fn x_unlock(file: *mut sqlite::sqlite3_file, wanted: c_int) -> c_int {
    // SAFETY: SQLite passes an open file.
    unsafe {
        on(file, |handle| {
            if let Target::OnDisk { shared, .. } = &handle.target {
                let mut held = handle.level.get();
                locked(&shared.locks).unlock(handle.owner, &mut held, level(wanted));
                handle.level.set(held);
            }
            sqlite::SQLITE_OK
        })
    }
}

unsafe extern "C" fn x_check_reserved_lock(
    file: *mut sqlite::sqlite3_file,
    result: *mut c_int,
) -> c_int {
    // SAFETY: SQLite passes an open file and a place for the answer.
    unsafe {
        on(file, |handle| {
            *result = match &handle.target {
                Target::Temporary(_) | Target::Exchanged { .. } => 0,
                Target::OnDisk { shared, .. } => c_int::from(locked(&shared.locks).is_reserved()),
            };
            sqlite::SQLITE_OK
        })
    }
}

unsafe extern "C" fn x_file_control(
    file: *mut sqlite::sqlite3_file,
    op: c_int,
    argument: *mut c_void,
) -> c_int {
    // SAFETY: SQLite passes an open file, and an `int*` with the operations that are answered here.
    // With VFSNAME it passes a `char**` that takes a string from its allocator.
    unsafe {
        on(file, |handle| {
            let number = argument.cast::<c_int>();
            match op {
                sqlite::SQLITE_FCNTL_PERSIST_WAL if *number < 0 => {
                    *number = c_int::from(handle.persist_wal.get())
                }
                sqlite::SQLITE_FCNTL_PERSIST_WAL => handle.persist_wal.set(*number != 0),
                sqlite::SQLITE_FCNTL_POWERSAFE_OVERWRITE => *number = 1,
                sqlite::SQLITE_FCNTL_HAS_MOVED => *number = 0,
                sqlite::SQLITE_FCNTL_LOCKSTATE => *number = handle.level.get() as c_int,
                sqlite::SQLITE_FCNTL_VFSNAME => {
                    *argument.cast::<*mut c_char>() = sqlite::sqlite3_mprintf(c"crashlab".as_ptr());
                }
                sqlite::SQLITE_FCNTL_BEGIN_ATOMIC_WRITE
                | sqlite::SQLITE_FCNTL_COMMIT_ATOMIC_WRITE
                | sqlite::SQLITE_FCNTL_ROLLBACK_ATOMIC_WRITE => return handle.atomic_step(op),
                _ => return sqlite::SQLITE_NOTFOUND,
            }
            sqlite::SQLITE_OK
        })
    }
}

unsafe extern "C" fn x_sector_size(_file: *mut sqlite::sqlite3_file) -> c_int {
    4096
}

unsafe extern "C" fn x_device_characteristics(_file: *mut sqlite::sqlite3_file) -> c_int {
    sqlite::SQLITE_IOCAP_POWERSAFE_OVERWRITE
}

unsafe extern "C" fn x_shm_map(
    file: *mut sqlite::sqlite3_file,
    region: c_int,
    size: c_int,
    extend: c_int,
    result: *mut *mut c_void,
) -> c_int {
    // SAFETY: SQLite passes an open file and a place for the answer.
    unsafe {
        on(file, |handle| {
            *result = std::ptr::null_mut();
            let Target::OnDisk { shared, .. } = &handle.target else {
                return sqlite::SQLITE_IOERR_SHMMAP;
            };
            let mut index = locked(&shared.index);
            if !index.mapped_by.contains(&handle.owner) {
                index.mapped_by.push(handle.owner);
            }
            while index.regions.len() <= region as usize {
                if extend == 0 {
                    return sqlite::SQLITE_OK;
                }
                index.regions.push((0..size as usize / 8).map(|_| AtomicU64::new(0)).collect());
            }
            // Atomics may be written to through a shared pointer.
            *result = index.regions[region as usize].as_ptr().cast_mut().cast();
            sqlite::SQLITE_OK
        })
    }
}

unsafe extern "C" fn x_shm_lock(
    file: *mut sqlite::sqlite3_file,
    offset: c_int,
    n: c_int,
    flags: c_int,
) -> c_int {
    // SAFETY: SQLite passes an open file.
    unsafe {
        on(file, |handle| {
            let Target::OnDisk { shared, .. } = &handle.target else {
                return sqlite::SQLITE_IOERR_SHMLOCK;
            };
            let slots = offset as usize..(offset + n) as usize;
            if slots.end > SLOTS {
                return sqlite::SQLITE_IOERR_SHMLOCK;
            }
            let mut index = locked(&shared.index);
            let result = if flags & sqlite::SQLITE_SHM_UNLOCK != 0 {
                index.slots.unlock(handle.owner, slots);
                Ok(())
            } else {
                let exclusive = flags & sqlite::SQLITE_SHM_EXCLUSIVE != 0;
                index.slots.lock(handle.owner, slots, exclusive)
            };
            match result {
                Ok(()) => sqlite::SQLITE_OK,
                Err(Busy) => sqlite::SQLITE_BUSY,
            }
        })
    }
}

unsafe extern "C" fn x_shm_barrier(_file: *mut sqlite::sqlite3_file) {
    std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
}

unsafe extern "C" fn x_shm_unmap(file: *mut sqlite::sqlite3_file, _delete: c_int) -> c_int {
    // SAFETY: SQLite passes an open file.
    unsafe {
        on(file, |handle| {
            handle.unmap();
            sqlite::SQLITE_OK
        })
    }
}

impl Handle {
    /// As F2FS does: the writes of a batch are kept apart, and become durable all or none.
    fn atomic_step(&self, op: c_int) -> c_int {
        let Target::OnDisk { volume, ino, .. } = &self.target else {
            return sqlite::SQLITE_NOTFOUND;
        };
        match op {
            sqlite::SQLITE_FCNTL_BEGIN_ATOMIC_WRITE => {
                let result = volume.disk().write_temporary();
                if result.is_ok() {
                    *self.atomic.borrow_mut() = Some(Vec::new());
                }
                code(result, sqlite::SQLITE_IOERR_BEGIN_ATOMIC)
            }
            sqlite::SQLITE_FCNTL_COMMIT_ATOMIC_WRITE => {
                let writes = self.atomic.borrow_mut().take().unwrap_or_default();
                let result = volume.disk().write_atomically(*ino, writes);
                code(result, sqlite::SQLITE_IOERR_COMMIT_ATOMIC)
            }
            _ => {
                *self.atomic.borrow_mut() = None;
                sqlite::SQLITE_OK
            }
        }
    }

    /// The last file to unmap takes the WAL index with it. A real index is emptied by the first to
    /// open it.
    fn unmap(&self) {
        if let Target::OnDisk { shared, .. } = &self.target {
            locked(&shared.index).release(|owner| owner == self.owner);
        }
    }
}

static METHODS: sqlite::sqlite3_io_methods = sqlite::sqlite3_io_methods {
    iVersion: 2,
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
    xShmMap: Some(x_shm_map),
    xShmLock: Some(x_shm_lock),
    xShmBarrier: Some(x_shm_barrier),
    xShmUnmap: Some(x_shm_unmap),
    xFetch: None,
    xUnfetch: None,
};
