//! Our `sqlite3_vfs`: `xOpen`, `xDelete`, `xAccess` and `xSleep` are ours; the rest goes to the VFS
//! below.

use std::borrow::Cow;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::sync::{Arc, LazyLock};

use libsqlite3_sys as sqlite;

use super::api::Api;
use super::checkpoint::Checkpoints;
use super::open_file::HEADER_BYTES;
use super::shim::{Shim, c_name};
use super::side_files::Files;
use super::vfs_file::is_unix;
use super::{callback, callback_or, open, virtual_file};
use crate::absorbed_super;
use crate::calls;
use crate::config::Options;
use crate::connection::{Connection, Database};
use crate::engine;
use crate::error::{Code, Error};
use crate::file;
use crate::path;
use crate::port::Deletion;
use crate::role::Role;
use crate::sync::{Mutex, lock, ranks};

/// One shim for each SQLite of this process that we are registered in.
static SHIMS: LazyLock<Mutex<Vec<&'static Shim>, { ranks::SHIMS }>> = LazyLock::new(Mutex::default);

impl Shim {
    /// Our VFS in that SQLite, over its default VFS. None if SQLite has no default VFS.
    ///
    /// The default VFS is looked for only once: afterwards the default may be ours.
    pub fn of(api: Api, options: Options) -> Option<&'static Shim> {
        let mut shims = lock(&SHIMS);
        if let Some(shim) = shims.iter().find(|shim| shim.api.is(&api)) {
            *lock(&shim.defaults) = options;
            return Some(shim);
        }
        let below = api.vfs_find(None);
        if below.is_null() {
            return None;
        }
        let shim = Box::into_raw(Box::new(Shim {
            api,
            below,
            defaults: Mutex::new(options),
            run_checkpoint: Arc::new(Checkpoints { api }),
            side_files: Arc::new(Files { api, below }),
            // SAFETY: a registered VFS lives for ever.
            is_over_unix: unsafe { is_unix(below) },
            // On a system whose offsets have 32 bits such locks want another structure.
            // SAFETY: as above; a registered VFS has a name.
            has_posix_locks: size_of::<libc::off_t>() == 8
                && unsafe { CStr::from_ptr((*below).zName) }.to_bytes() == b"unix",
            vfs: std::ptr::null_mut(),
        }));
        // SAFETY: SQLite changes nothing of a registered VFS but its pNext, and never frees it. The
        // shim is new and nobody else knows it yet.
        let shim: &'static Shim = unsafe {
            (*shim).vfs = Box::into_raw(Box::new(vfs_over(&*below, shim)));
            &*shim
        };
        shims.push(shim);
        Some(shim)
    }

    /// Registers the VFS, and makes it the default if that is wanted. A VFS that is the default
    /// stays the default.
    pub fn register(&self, default: bool) -> c_int {
        // SAFETY: the name of our VFS is never freed.
        let name = unsafe { CStr::from_ptr((*self.vfs).zName) };
        if !default && self.api.vfs_find(Some(name)) == self.vfs {
            return sqlite::SQLITE_OK;
        }
        // SAFETY: the VFS is never freed.
        unsafe { self.api.vfs_register(self.vfs, default) }
    }
}

/// # Safety
/// `shim` lives as long as the VFS.
unsafe fn vfs_over(below: &sqlite::sqlite3_vfs, shim: *mut Shim) -> sqlite::sqlite3_vfs {
    let name = CString::new(crate::VFS_NAME).unwrap_or_default().into_raw();
    // Methods of later versions are ours only where the VFS below has them (invariant 2). An older
    // structure ends before the newer fields, so these are read only if its version has them.
    let (second, third) = (below.iVersion >= 2, below.iVersion >= 3);
    sqlite::sqlite3_vfs {
        iVersion: below.iVersion.min(3),
        szOsFile: HEADER_BYTES as c_int + below.szOsFile.max(virtual_file::BYTES as c_int),
        mxPathname: below.mxPathname,
        pNext: std::ptr::null_mut(),
        zName: name,
        pAppData: shim.cast(),
        xOpen: Some(x_open),
        xDelete: Some(x_delete),
        xAccess: Some(x_access),
        xFullPathname: Some(x_full_pathname),
        xDlOpen: below.xDlOpen.and(Some(x_dl_open)),
        xDlError: below.xDlError.and(Some(x_dl_error)),
        xDlSym: if below.xDlSym.is_some() { Some(x_dl_sym) } else { None },
        xDlClose: below.xDlClose.and(Some(x_dl_close)),
        xRandomness: below.xRandomness.and(Some(x_randomness)),
        xSleep: below.xSleep.and(Some(x_sleep)),
        xCurrentTime: below.xCurrentTime.and(Some(x_current_time)),
        xGetLastError: below.xGetLastError.and(Some(x_get_last_error)),
        xCurrentTimeInt64: if second {
            below.xCurrentTimeInt64.and(Some(x_current_time_int64))
        } else {
            None
        },
        xSetSystemCall: if third {
            below.xSetSystemCall.and(Some(x_set_system_call))
        } else {
            None
        },
        xGetSystemCall: if third {
            below.xGetSystemCall.and(Some(x_get_system_call))
        } else {
            None
        },
        xNextSystemCall: if third {
            below.xNextSystemCall.and(Some(x_next_system_call))
        } else {
            None
        },
    }
}

/// # Safety
/// `vfs` is ours.
unsafe fn shim_of(vfs: *mut sqlite::sqlite3_vfs) -> &'static Shim {
    // SAFETY: `pAppData` of our VFS is the shim, which is never freed.
    unsafe { &*(*vfs).pAppData.cast::<Shim>() }
}

/// The connection that a WAL of this name belongs to. None: it is no WAL's name, or nobody's.
///
/// # Safety
/// `name` is null or a C string.
unsafe fn owner_of_wal(name: *const c_char) -> Option<Arc<Connection>> {
    // SAFETY: as the caller promises.
    let name = (!name.is_null()).then(|| unsafe { CStr::from_ptr(name) })?;
    let path = path::of_bytes(name.to_bytes());
    let (role, _) = Role::of_side_file(&path)?;
    (role == Role::Wal).then(|| Connection::of_side_file(&path)).flatten()
}

/// The connection that has the journal of this name in memory. None: a journal of this name is a
/// file.
///
/// # Safety
/// `name` is null or a C string.
unsafe fn holder_of_journal(name: *const c_char) -> Option<Arc<Connection>> {
    // SAFETY: as the caller promises.
    let name = (!name.is_null()).then(|| unsafe { CStr::from_ptr(name) })?;
    if !name.to_bytes().ends_with(b"-journal") {
        return None;
    }
    let path = path::of_bytes(name.to_bytes());
    Connection::that_absorbs(&path, |journals| journals.holds_journal())
}

/// A name that may be a super-journal's.
///
/// # Safety
/// `name` is null or a C string.
unsafe fn super_journal_name<'a>(name: *const c_char) -> Option<Cow<'a, str>> {
    // SAFETY: as the caller promises.
    let name = (!name.is_null()).then(|| unsafe { CStr::from_ptr(name) })?.to_bytes();
    name.windows(3).any(|part| part == b"-mj").then(|| path::of_bytes(name))
}

fn delete_journal(holder: &Connection) -> Result<Deletion, Error> {
    holder.strategy().call(|strategy| {
        strategy
            .absorbs_journal()
            .map_or(Ok(Deletion::Delete), |journals| journals.deleting_journal())
    })
}

/// The name of the file that stands for this connection's WAL. None: the WAL itself.
fn name_below(owner: Option<&Connection>) -> Result<Option<CString>, Error> {
    let path = owner.and_then(|owner| owner.strategy().call(|strategy| strategy.wal_path()));
    path.map(|path| c_name(&path)).transpose()
}

unsafe extern "C" fn x_open(
    vfs: *mut sqlite::sqlite3_vfs,
    name: *const c_char,
    file: *mut sqlite::sqlite3_file,
    flags: c_int,
    flags_out: *mut c_int,
) -> c_int {
    // SAFETY: `vfs` is ours.
    let shim = unsafe { shim_of(vfs) };
    let after = || panicked_at(name);
    // SAFETY: all arguments are those of one call of `xOpen`.
    callback(&shim.api, "xOpen", after, || unsafe {
        open::open(shim, name, file, flags, flags_out)
    })
}

/// A panic was stopped at a callback for the file of this name.
fn panicked_at(name: *const c_char) {
    if !name.is_null() {
        // SAFETY: a name of SQLite's ends with a NUL.
        Database::panicked_at(&path::of_bytes(unsafe { CStr::from_ptr(name) }.to_bytes()));
    }
}

unsafe extern "C" fn x_delete(
    vfs: *mut sqlite::sqlite3_vfs,
    name: *const c_char,
    sync_dir: c_int,
) -> c_int {
    // SAFETY: `vfs` is ours.
    let shim = unsafe { shim_of(vfs) };
    let after = || panicked_at(name);
    callback(&shim.api, "xDelete", after, || {
        let below = shim.below;
        // SAFETY: SQLite's arguments go on unchanged.
        unsafe {
            let owner = owner_of_wal(name);
            let other_name = name_below(owner.as_deref())?;
            let began = calls::begins();
            if let Some(name) = super_journal_name(name)
                && absorbed_super::deleting(&name, sync_dir != 0)?.is_some()
            {
                return Ok(());
            }
            let holder = holder_of_journal(name);
            let journal = holder.as_deref().map_or(Ok(Deletion::Delete), delete_journal)?;
            if journal == Deletion::Done {
                let bytes = CStr::from_ptr(name).to_bytes();
                calls::deleted(bytes, began);
                file::deleted(&path::of_bytes(bytes));
                return Ok(());
            }
            // A strategy may have another use for a WAL that SQLite is about to delete.
            let deletion = owner.map_or(Ok(Deletion::Delete), |owner| {
                owner.strategy().call(|strategy| strategy.deleting_wal())
            })?;
            let code = match deletion {
                Deletion::Renamed | Deletion::Done => sqlite::SQLITE_OK,
                Deletion::Delete | Deletion::Durably => {
                    let sync_dir = sync_dir | c_int::from(journal == Deletion::Durably);
                    let method = (*below).xDelete.ok_or_else(|| Error::missing("xDelete"))?;
                    method(below, other_name.as_ref().map_or(name, |name| name.as_ptr()), sync_dir)
                }
            };
            // The image may be gone already, with its log.
            let is_gone = other_name.is_some() && code == sqlite::SQLITE_IOERR_DELETE_NOENT;
            if code != sqlite::SQLITE_OK && !is_gone {
                return Err(Error::Below(Code(code)));
            }
            if !name.is_null() {
                let bytes = CStr::from_ptr(name).to_bytes();
                calls::deleted(bytes, began);
                file::deleted(&path::of_bytes(bytes));
            }
        }
        Ok(())
    })
}

/// A method that passes SQLite's arguments to the VFS below. No code of ours runs in it, so it
/// cannot panic. The VFS below has the method, or ours would not be there (`vfs_over`).
macro_rules! pass_on {
    ($name:ident, $method:ident, ($($argument:ident: $type:ty),*) -> $result:ty, $missing:expr) => {
        unsafe extern "C" fn $name(
            vfs: *mut sqlite::sqlite3_vfs
            $(, $argument: $type)*
        ) -> $result {
            // SAFETY: `vfs` is ours, the VFS below lives for ever, and the arguments are SQLite's.
            unsafe {
                let below = shim_of(vfs).below;
                match (*below).$method {
                    Some(method) => method(below $(, $argument)*),
                    None => $missing,
                }
            }
        }
    };
}

unsafe extern "C" fn x_sleep(vfs: *mut sqlite::sqlite3_vfs, microseconds: c_int) -> c_int {
    // SAFETY: `vfs` is ours.
    let shim = unsafe { shim_of(vfs) };
    let asleep = || engine::sleep(u64::try_from(microseconds).unwrap_or(0));
    if callback_or(&shim.api, "xSleep", false, || {}, asleep) {
        return microseconds;
    }
    // SAFETY: the VFS below lives for ever; it has the method, or ours would not be there
    // (`vfs_over`).
    unsafe { (*shim.below).xSleep.map_or(0, |method| method(shim.below, microseconds)) }
}

unsafe extern "C" fn x_access(
    vfs: *mut sqlite::sqlite3_vfs,
    name: *const c_char,
    flags: c_int,
    result: *mut c_int,
) -> c_int {
    // SAFETY: `vfs` is ours.
    let shim = unsafe { shim_of(vfs) };
    let after = || panicked_at(name);
    callback(&shim.api, "xAccess", after, || {
        // SAFETY: SQLite's arguments go on; only the name of a WAL with a stand-in is replaced.
        let code = unsafe {
            if super_journal_name(name).is_some_and(|name| absorbed_super::exists(&name)) {
                *result = 1;
                return Ok(());
            }
            let owner = owner_of_wal(name);
            let other_name = name_below(owner.as_deref())?;
            if let Some(owner) = owner.filter(|_| other_name.is_some())
                && owner.strategy().call(|strategy| strategy.hides_wal())?
            {
                *result = 0;
                return Ok(());
            }
            let method = (*shim.below).xAccess.ok_or_else(|| Error::missing("xAccess"))?;
            method(
                shim.below,
                other_name.as_ref().map_or(name, |name| name.as_ptr()),
                flags,
                result,
            )
        };
        if code == sqlite::SQLITE_OK { Ok(()) } else { Err(Error::Below(Code(code))) }
    })
}

type Symbol = unsafe extern "C" fn(*mut sqlite::sqlite3_vfs, *mut c_void, *const c_char);

pass_on!(
    x_full_pathname, xFullPathname,
    (name: *const c_char, len: c_int, out: *mut c_char) -> c_int,
    sqlite::SQLITE_CANTOPEN
);
pass_on!(x_dl_open, xDlOpen, (name: *const c_char) -> *mut c_void, std::ptr::null_mut());
pass_on!(x_dl_error, xDlError, (len: c_int, message: *mut c_char) -> (), ());
pass_on!(x_dl_sym, xDlSym, (library: *mut c_void, symbol: *const c_char) -> Option<Symbol>, None);
pass_on!(x_dl_close, xDlClose, (library: *mut c_void) -> (), ());
pass_on!(x_randomness, xRandomness, (len: c_int, out: *mut c_char) -> c_int, 0);
pass_on!(x_current_time, xCurrentTime, (out: *mut f64) -> c_int, sqlite::SQLITE_ERROR);
pass_on!(x_get_last_error, xGetLastError, (len: c_int, out: *mut c_char) -> c_int, 0);
pass_on!(
    x_current_time_int64, xCurrentTimeInt64,
    (out: *mut sqlite::sqlite3_int64) -> c_int,
    sqlite::SQLITE_ERROR
);
pass_on!(
    x_set_system_call, xSetSystemCall,
    (name: *const c_char, call: sqlite::sqlite3_syscall_ptr) -> c_int,
    sqlite::SQLITE_NOTFOUND
);
pass_on!(
    x_get_system_call, xGetSystemCall,
    (name: *const c_char) -> sqlite::sqlite3_syscall_ptr,
    None
);
pass_on!(
    x_next_system_call, xNextSystemCall,
    (name: *const c_char) -> *const c_char,
    std::ptr::null()
);
