//! Our `sqlite3_vfs`: `xOpen` and `xDelete` are ours, the rest goes to the VFS below.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, LazyLock};

use libsqlite3_sys as sqlite;

use super::api::{self, Api};
use super::below::BelowFile;
use super::checkpoint::{self, Checkpoints};
use super::forked::{self, Refused};
use super::io::{self, HEADER_BYTES, OpenFile, State};
use super::side_files::Files;
use super::{callback, callback_or};
use crate::calls::{self, Call, Calls};
use crate::config::{Durability, OptionError, Options, StrategyKind};
use crate::connection::{Connection, Database, Opening};
use crate::error::{Code, Error, RefusedOption};
use crate::file::{self, File, Owner};
use crate::ground;
use crate::path;
use crate::role::Role;
use crate::strategy::{self, Below, Chosen, Deletion, Purpose, RunCheckpoint, SideFiles, guard, log_path};
use crate::sync::{Mutex, lock};

/// What `pAppData` points to: our VFS in one SQLite.
pub struct Shim {
    api: Api,
    below: *mut sqlite::sqlite3_vfs,
    /// Options of the environment, under the URI parameters of an open.
    defaults: Mutex<Options>,
    run_checkpoint: Arc<dyn RunCheckpoint>,
    side_files: Arc<dyn SideFiles>,
    /// The VFS below is one of SQLite's own for Unix.
    is_over_unix: bool,
    /// The registered VFS. SQLite keeps the pointer, so neither it nor the shim is ever freed.
    vfs: *mut sqlite::sqlite3_vfs,
}

// SAFETY: a VFS is not written to after `vfs_register` other than by SQLite, under its own mutex.
unsafe impl Send for Shim {}
// SAFETY: as above.
unsafe impl Sync for Shim {}

/// One shim for each SQLite of this process that we are registered in.
static SHIMS: LazyLock<Mutex<Vec<&'static Shim>>> = LazyLock::new(Mutex::default);

impl Shim {
    /// Our VFS in that SQLite, over its default VFS, which is looked for only once: afterwards the default may be ours.
    ///
    /// None if SQLite has no default VFS.
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
            // SAFETY: a registered VFS has a name.
            is_over_unix: unsafe { CStr::from_ptr((*below).zName) }.to_bytes().starts_with(b"unix"),
            vfs: std::ptr::null_mut(),
        }));
        // SAFETY: SQLite never frees or changes a registered VFS other than its pNext; the shim has just been made and
        // nobody else knows it yet.
        let shim: &'static Shim = unsafe {
            (*shim).vfs = Box::into_raw(Box::new(vfs_over(&*below, shim)));
            &*shim
        };
        shims.push(shim);
        Some(shim)
    }

    /// Registers the VFS, and makes it the default if that is wanted; never takes the default away again.
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
    // Methods of later versions are ours only where the VFS below has them (invariant 2). Fields beyond its version are not
    // read: an older structure ends before them.
    let (second, third) = (below.iVersion >= 2, below.iVersion >= 3);
    sqlite::sqlite3_vfs {
        iVersion: below.iVersion.min(3),
        szOsFile: HEADER_BYTES as c_int + below.szOsFile,
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
        xCurrentTimeInt64: if second { below.xCurrentTimeInt64.and(Some(x_current_time_int64)) } else { None },
        xSetSystemCall: if third { below.xSetSystemCall.and(Some(x_set_system_call)) } else { None },
        xGetSystemCall: if third { below.xGetSystemCall.and(Some(x_get_system_call)) } else { None },
        xNextSystemCall: if third { below.xNextSystemCall.and(Some(x_next_system_call)) } else { None },
    }
}

/// # Safety
/// `vfs` is ours.
unsafe fn shim_of(vfs: *mut sqlite::sqlite3_vfs) -> &'static Shim {
    // SAFETY: `pAppData` of our VFS is the shim, which is never freed.
    unsafe { &*(*vfs).pAppData.cast::<Shim>() }
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
    callback(&shim.api, "xOpen", || {
        let began = calls::begins();
        let open = file.cast::<OpenFile>();
        // "xOpen must set sqlite3_file.pMethods to NULL or to a valid sqlite3_io_methods structure, even if it fails."
        // SAFETY: SQLite passes `szOsFile` bytes, which begin with our header.
        unsafe { (*open).methods = std::ptr::null() };
        // SAFETY: "zFilename is NULL or a full pathname", and it stays as long as the file is open.
        let bytes = (!name.is_null()).then(|| unsafe { CStr::from_ptr(name) }.to_bytes());
        let path = bytes.map(path::of_bytes);
        let role = if name.is_null() { Role::Temp } else { role(flags) };
        // The options are checked first: an open that is refused must not have created anything.
        let of_checkpointer = if role == Role::Db { checkpoint::take_options() } else { None };
        let is_checkpointer = of_checkpointer.is_some();
        let options = match (role, of_checkpointer) {
            (Role::Db, Some(options)) => Some(options),
            // SAFETY: the name and the flags belong together.
            (Role::Db, None) => Some(unsafe { options(shim, name, path.as_deref(), flags) }?),
            _ => None,
        };
        let mut options = match (options, path.as_deref()) {
            (Some(options), Some(path)) if !path::is_name(path) => Some(without_name(shim, options, path)?),
            (options, _) => options,
        };
        if let (Some(options), Some(path)) = (&options, path.as_deref()) {
            forked::before_open(path).map_err(|Refused { code, why }| {
                if let Some(why) = why {
                    shim.api.log(code.0, &why);
                }
                Error::Below(code)
            })?;
            fits_those_who_have_it_open(path, options)?;
        }
        if let (Some(options), Some(path)) = (&mut options, path.as_deref())
            && shim.is_over_unix
            && !is_checkpointer
            && flags & sqlite::SQLITE_OPEN_MEMORY == 0
        {
            ground::before_open(path, options, |message| shim.api.log(sqlite::SQLITE_WARNING, message))
                .map_err(|source| Error::Option(Box::new(RefusedOption { path: path.to_owned(), source })))?;
        }
        let owner_of_side_file = match role {
            Role::Db => None,
            _ => Some(Owner::of_opened(role, path.as_deref(), name.addr())),
        };
        let other_name = match &owner_of_side_file {
            Some(owner) if role == Role::Wal => owner.wal_path()?.map(|path| c_name(&path)).transpose()?,
            _ => None,
        };
        // SAFETY: the file of the VFS below lies behind our header, in the bytes that `szOsFile` asked for; it gets SQLite's
        // own name pointer and flags.
        let open_below = |flags| unsafe {
            let below = file.byte_add(HEADER_BYTES);
            (*below).pMethods = std::ptr::null();
            let method = (*shim.below).xOpen.ok_or_else(|| Error::missing("xOpen"))?;
            let code =
                method(shim.below, other_name.as_ref().map_or(name, |name| name.as_ptr()), below, flags, flags_out);
            if code != sqlite::SQLITE_OK {
                // SQLite closes a file that failed to open if its methods are set; ours are not, so that is our part.
                if !(*below).pMethods.is_null() {
                    BelowFile::new(below).close();
                }
                return Err(Error::Below(Code(code)));
            }
            Ok(BelowFile::new(below))
        };
        if let (Some(owner), Role::Wal) = (&owner_of_side_file, role) {
            owner.opening_wal()?;
        }
        let knows = |wal: &BelowFile| owner_of_side_file.as_ref().is_some_and(|owner| owner.knows_wal(wal));
        // SAFETY: `vfs` and `name` are those of this call.
        let below = if role == Role::Wal
            && owner_of_side_file.as_ref().is_some_and(Owner::has_durable_wal)
            && unsafe { exists(shim, name) }
        {
            open_known_wal(open_below, flags, knows)
        } else {
            open_below(flags)
        };
        let below = below.inspect_err(|_| {
            if let (Some(owner), Role::Wal) = (&owner_of_side_file, role) {
                owner.closing_wal();
            }
        })?;
        if let (Some(options), Some(path)) = (&options, path.as_deref())
            && options.strategy == StrategyKind::Plain
        {
            recover_if_guarded(shim, path, &below).inspect_err(|_| _ = below.close())?;
        }
        // SAFETY: null, or where the VFS below has said how it opened the file.
        let opened = unsafe { flags_out.as_ref() }.map_or(flags, |opened| flags | opened);
        let purpose = match opened & sqlite::SQLITE_OPEN_READONLY {
            _ if is_checkpointer => Purpose::Checkpoints,
            0 => Purpose::ReadWrite,
            _ => Purpose::ReadOnly,
        };
        let owner = match (options, path.as_deref(), owner_of_side_file) {
            (Some(options), Some(path), _) => Owner::Connection(Connection::open(Opening {
                path,
                name_address: name.addr(),
                options,
                run_checkpoint: &shim.run_checkpoint,
                side_files: &shim.side_files,
                purpose,
            })),
            (_, _, Some(owner)) => owner,
            // A database without a name counts for nobody.
            (_, _, None) => Owner::Nobody,
        };
        if let (Role::Db, Some(bytes)) = (role, bytes) {
            calls::opened_database(bytes);
        }
        let calls = Calls::of(bytes).map(Box::new);
        if let (Some(calls), Some(began)) = (&calls, began) {
            calls.tell(Call::Open, began, Ok(()));
        }
        let file = File::new(role, owner, calls, below);
        file.note_use();
        if let Err(error) = file.opened() {
            file.closing();
            below.close();
            return Err(error);
        }
        let barrier = match file.main_of().map(|connection| connection.strategy()) {
            Some(Chosen::Plain(plain)) if shim.is_over_unix => Some(plain.shared().barrier()),
            _ => None,
        };
        let chosen = file.connection().map(Arc::clone);
        // SAFETY: the header is ours; the state is set before the methods that use it.
        unsafe {
            (*open).state = MaybeUninit::new(State { api: &shim.api, file, barrier, _name: other_name });
            (*open).methods = io::methods_for(below.methods());
        }
        forked::opened(open, role, chosen.as_ref().map(|connection| connection.strategy()));
        Ok(())
    })
}

/// Opens a WAL that is there. The "unix" VFS syncs the directory at the first sync of every WAL that it was asked to create, new or
/// not; one that this process has synced already does not need it, so it is opened without that flag.
fn open_known_wal(
    open: impl Fn(c_int) -> Result<BelowFile, Error>,
    flags: c_int,
    is_known: impl Fn(&BelowFile) -> bool,
) -> Result<BelowFile, Error> {
    if flags & sqlite::SQLITE_OPEN_CREATE == 0 {
        return open(flags);
    }
    let wal = open(flags & !sqlite::SQLITE_OPEN_CREATE)?;
    if is_known(&wal) {
        return Ok(wal);
    }
    wal.close();
    open(flags)
}

/// A database whose name is not UTF-8 is opened as with SQLite alone: strategies open files by name.
fn without_name(shim: &Shim, options: Options, path: &str) -> Result<Options, Error> {
    static SAID: AtomicBool = AtomicBool::new(false);
    let promised = match (options.strategy, options.durability) {
        (StrategyKind::Eager, _) => "strategy eager",
        (_, Durability::Full) => "durability=full",
        (StrategyKind::Stock, Durability::Pragma) => return Ok(options),
        (StrategyKind::Plain, Durability::Pragma) => {
            if !SAID.swap(true, Relaxed) {
                let message = format!(
                    "oneflush: {path}: this name is not UTF-8, so SQLite alone opens it, as strategy stock does"
                );
                shim.api.log(sqlite::SQLITE_WARNING, &message);
            }
            return Ok(Options { strategy: StrategyKind::Stock, ..options });
        }
    };
    let source = OptionError::NotUtf8 { promised };
    Err(Error::Option(Box::new(RefusedOption { path: path.to_owned(), source })))
}

/// Two strategies for WAL mode do not go together in one process.
fn fits_those_who_have_it_open(path: &str, options: &Options) -> Result<(), Error> {
    let in_use = Database::find(path).and_then(|database| database.strategy_in_use());
    match (in_use, options.strategy) {
        (Some(in_use), asked) if asked != StrategyKind::Stock && in_use != asked => {
            let source = OptionError::OtherStrategy { asked, in_use };
            Err(Error::Option(Box::new(RefusedOption { path: path.to_owned(), source })))
        }
        _ => Ok(()),
    }
}

/// What a log of `eager` has goes into the database file first.
fn recover_if_guarded(shim: &Shim, path: &str, below: &BelowFile) -> Result<(), Error> {
    let header = || {
        let mut header = [0; guard::HEADER_BYTES];
        below.read(&mut header, 0).is_ok().then_some(header)
    };
    let is_guarded = |header: &[u8]| guard::of(header).is_some();
    let Some(found) = header() else { return Ok(()) };
    // A crash may have garbled it, and with it the guard; the log has it.
    let is_garbled = !guard::is_database(&found) && shim.side_files.exists(&log_path(path))?;
    if !is_guarded(&found) && !is_garbled {
        return Ok(());
    }
    let recovered = shim.side_files.recover(path);
    if !header().is_some_and(|header| is_guarded(&header)) {
        return Ok(());
    }
    let why = recovered.err().unwrap_or_else(|| "somebody else has it open".to_owned());
    let source = OptionError::Guarded { asked: StrategyKind::Plain, why };
    Err(Error::Option(Box::new(RefusedOption { path: path.to_owned(), source })))
}

fn c_name(path: &str) -> Result<CString, Error> {
    CString::new(path).map_err(|_| Error::Below(Code::CANTOPEN))
}

/// The name that stands for that of a WAL.
///
/// # Safety
/// `name` is null or a C string.
unsafe fn name_below(name: *const c_char) -> Result<Option<CString>, Error> {
    // SAFETY: as the caller promises.
    let path = (!name.is_null()).then(|| path::of_bytes(unsafe { CStr::from_ptr(name) }.to_bytes()));
    let Some(path) = path.filter(|path| Role::of_side_file(path).is_some_and(|(role, _)| role == Role::Wal)) else {
        return Ok(None);
    };
    let Some(connection) = Connection::of_side_file(&path) else { return Ok(None) };
    connection.strategy().call(|strategy| strategy.wal_path()).map(|path| c_name(&path)).transpose()
}

/// A strategy may have another use for a WAL that SQLite is about to delete.
///
/// # Safety
/// `name` is null or a C string.
unsafe fn deleting(name: *const c_char) -> Result<Deletion, Error> {
    // SAFETY: as the caller promises.
    let path = (!name.is_null()).then(|| path::of_bytes(unsafe { CStr::from_ptr(name) }.to_bytes()));
    let is_wal = |path: &str| Role::of_side_file(path).is_some_and(|(role, _)| role == Role::Wal);
    let connection = path.filter(|path| is_wal(path)).and_then(|path| Connection::of_side_file(&path));
    connection.map_or(Ok(Deletion::Delete), |connection| connection.strategy().call(|strategy| strategy.deleting_wal()))
}

/// True if SQLite is to see no WAL of this name, which another file stands for.
///
/// # Safety
/// `name` is a C string.
unsafe fn hides_wal(name: *const c_char) -> Result<bool, Error> {
    // SAFETY: as the caller promises.
    let connection = Connection::of_side_file(&path::of_bytes(unsafe { CStr::from_ptr(name) }.to_bytes()));
    connection.map_or(Ok(false), |connection| connection.strategy().call(|strategy| strategy.hides_wal()))
}

/// # Safety
/// `name` is a name that SQLite passes to `xOpen`, not null.
unsafe fn exists(shim: &Shim, name: *const c_char) -> bool {
    let mut exists = 0;
    // SAFETY: as the caller promises; the VFS below lives for ever.
    let code = unsafe {
        match (*shim.below).xAccess {
            Some(method) => method(shim.below, name, sqlite::SQLITE_ACCESS_EXISTS, &mut exists),
            None => sqlite::SQLITE_ERROR,
        }
    };
    code == sqlite::SQLITE_OK && exists != 0
}

fn role(flags: c_int) -> Role {
    match flags {
        _ if flags & sqlite::SQLITE_OPEN_MAIN_DB != 0 => Role::Db,
        _ if flags & sqlite::SQLITE_OPEN_WAL != 0 => Role::Wal,
        _ if flags & sqlite::SQLITE_OPEN_MAIN_JOURNAL != 0 => Role::RollbackJournal,
        _ if flags & api::SQLITE_OPEN_SUPER_JOURNAL != 0 => Role::SuperJournal,
        _ => Role::Temp,
    }
}

/// The options of this open: URI parameters over the environment.
///
/// # Safety
/// `name` and `flags` are those of one call of `xOpen`.
unsafe fn options(shim: &Shim, name: *const c_char, path: Option<&str>, flags: c_int) -> Result<Options, Error> {
    let defaults = lock(&shim.defaults).clone();
    if flags & sqlite::SQLITE_OPEN_URI == 0 {
        return Ok(defaults);
    }
    let parameter = |parameter: &str| {
        let parameter = CString::new(parameter).ok()?;
        // SAFETY: "SQLITE_OPEN_URI" says that parameters follow the name.
        unsafe { shim.api.uri_parameter(name, &parameter) }
    };
    defaults.with_uri(parameter).map_err(|source| {
        Error::Option(Box::new(RefusedOption { path: path.unwrap_or("temporary database").to_owned(), source }))
    })
}

unsafe extern "C" fn x_delete(vfs: *mut sqlite::sqlite3_vfs, name: *const c_char, sync_dir: c_int) -> c_int {
    // SAFETY: `vfs` is ours.
    let shim = unsafe { shim_of(vfs) };
    callback(&shim.api, "xDelete", || {
        let below = shim.below;
        // SAFETY: SQLite's arguments go on unchanged.
        unsafe {
            let other_name = name_below(name)?;
            let began = calls::begins();
            let code = match deleting(name)? {
                Deletion::Renamed => sqlite::SQLITE_OK,
                Deletion::Delete => {
                    let method = (*below).xDelete.ok_or_else(|| Error::missing("xDelete"))?;
                    method(below, other_name.as_ref().map_or(name, |name| name.as_ptr()), sync_dir)
                }
            };
            // The image may have gone with its log.
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

/// A method that goes to the VFS below with SQLite's arguments. Nothing of ours runs in it, so nothing can panic. The method
/// is there, or ours would not be (`vfs_over`).
macro_rules! pass_on {
    ($name:ident, $method:ident, ($($argument:ident: $type:ty),*) -> $result:ty, $missing:expr) => {
        unsafe extern "C" fn $name(vfs: *mut sqlite::sqlite3_vfs $(, $argument: $type)*) -> $result {
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
    let asleep = || strategy::sleep(u64::try_from(microseconds).unwrap_or(0));
    if callback_or(&shim.api, "xSleep", false, asleep) {
        return microseconds;
    }
    // SAFETY: the VFS below lives for ever; it has the method, or ours would not be there (`vfs_over`).
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
    callback(&shim.api, "xAccess", || {
        // SAFETY: SQLite's arguments go on, but for the name of a WAL that another file stands for.
        let code = unsafe {
            let other_name = name_below(name)?;
            if other_name.is_some() && hides_wal(name)? {
                *result = 0;
                return Ok(());
            }
            let method = (*shim.below).xAccess.ok_or_else(|| Error::missing("xAccess"))?;
            method(shim.below, other_name.as_ref().map_or(name, |name| name.as_ptr()), flags, result)
        };
        if code == sqlite::SQLITE_OK { Ok(()) } else { Err(Error::Below(Code(code))) }
    })
}

type Symbol = unsafe extern "C" fn(*mut sqlite::sqlite3_vfs, *mut c_void, *const c_char);

pass_on!(x_full_pathname, xFullPathname, (name: *const c_char, len: c_int, out: *mut c_char) -> c_int, sqlite::SQLITE_CANTOPEN);
pass_on!(x_dl_open, xDlOpen, (name: *const c_char) -> *mut c_void, std::ptr::null_mut());
pass_on!(x_dl_error, xDlError, (len: c_int, message: *mut c_char) -> (), ());
pass_on!(x_dl_sym, xDlSym, (library: *mut c_void, symbol: *const c_char) -> Option<Symbol>, None);
pass_on!(x_dl_close, xDlClose, (library: *mut c_void) -> (), ());
pass_on!(x_randomness, xRandomness, (len: c_int, out: *mut c_char) -> c_int, 0);
pass_on!(x_current_time, xCurrentTime, (out: *mut f64) -> c_int, sqlite::SQLITE_ERROR);
pass_on!(x_get_last_error, xGetLastError, (len: c_int, out: *mut c_char) -> c_int, 0);
pass_on!(x_current_time_int64, xCurrentTimeInt64, (out: *mut sqlite::sqlite3_int64) -> c_int, sqlite::SQLITE_ERROR);
pass_on!(x_set_system_call, xSetSystemCall, (name: *const c_char, call: sqlite::sqlite3_syscall_ptr) -> c_int, sqlite::SQLITE_NOTFOUND);
pass_on!(x_get_system_call, xGetSystemCall, (name: *const c_char) -> sqlite::sqlite3_syscall_ptr, None);
pass_on!(x_next_system_call, xNextSystemCall, (name: *const c_char) -> *const c_char, std::ptr::null());
