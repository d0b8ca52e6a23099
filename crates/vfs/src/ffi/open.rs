//! `xOpen`: the open of a main database file, of a file beside one, and what both end with.
//!
//! | | main database ([`Request::open_db`]) | WAL ([`Request::open_side`]) | other files |
//! |---|---|---|---|
//! | options | [`options`], then [`Request::check`] | its connection's | none |
//! | name | SQLite's | SQLite's, or its stand-in's | SQLite's |
//! | owner | a new [`Connection`] | its connection, or its database | its database, or nobody |
//!
//! A refused open has created nothing: options are read and checked before the VFS below is called.

use std::borrow::Cow;
use std::ffi::{CStr, CString, c_char, c_int};
use std::mem::{self, MaybeUninit};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use libsqlite3_sys as sqlite;

use super::api;
use super::below::BelowFile;
use super::board_place::locks_keep_out;
use super::checkpoint;
use super::descriptor;
use super::forked::{self, Refused};
use super::inherited;
use super::io;
use super::open_file::{HEADER_BYTES, OpenFile, State};
use super::reserve::Handle;
use super::seatbelt::Claimed;
use super::shim::{Shim, c_name};
use super::virtual_file;
use crate::absorbed_super;
use crate::calls::{self, Call, Calls};
use crate::config::{Durability, OptionError, Options, StrategyKind};
use crate::connection::{Connection, Database, Opening};
use crate::engine::InWalMode;
use crate::error::{Code, Error, RefusedOption};
use crate::file::{Absorbed, File, Owner};
use crate::ground::{self, WalMode};
use crate::names::wal_path;
use crate::port::{Below, Purpose};
use crate::role::Role;
use crate::strategy::{Chosen, guard, path_of_log, strategy_of_log};
use crate::sync::lock;
use crate::{path, wal_file};

const METHODS: forked::Methods =
    forked::Methods { ordinary: io::methods_for, inherited: inherited::methods_for };

/// One call of `xOpen`.
struct Request<'a> {
    shim: &'static Shim,
    name: *const c_char,
    /// The name that files are known by. None: a temporary file.
    path: Option<Cow<'a, str>>,
    file: *mut sqlite::sqlite3_file,
    flags: c_int,
    flags_out: *mut c_int,
}

/// A file of the VFS below, and its owner.
struct Opened {
    below: BelowFile,
    owner: Owner,
    /// The name that was used in place of SQLite's. The VFS below may keep the pointer.
    other_name: Option<CString>,
}

/// # Safety
/// The arguments are those of one call of `xOpen`.
pub unsafe fn open(
    shim: &'static Shim,
    name: *const c_char,
    file: *mut sqlite::sqlite3_file,
    flags: c_int,
    flags_out: *mut c_int,
) -> Result<(), Error> {
    let began = calls::begins();
    let open = file.cast::<OpenFile>();
    // "xOpen must set sqlite3_file.pMethods to NULL or to a valid sqlite3_io_methods structure,
    // even if it fails."
    // SAFETY: SQLite passes `szOsFile` bytes, which begin with our header.
    unsafe { (*open).methods = std::ptr::null() };
    // SAFETY: "zFilename is NULL or a full pathname", and it stays as long as the file is open.
    let bytes = (!name.is_null()).then(|| unsafe { CStr::from_ptr(name) }.to_bytes());
    let request = Request { shim, name, path: bytes.map(path::of_bytes), file, flags, flags_out };
    let role = if name.is_null() { Role::Temp } else { role(flags) };
    let Opened { below, owner, other_name } = match role {
        Role::Db => request.open_db()?,
        _ => request.open_side(role)?,
    };
    if let (Role::Db, Some(bytes)) = (role, bytes) {
        calls::opened_database(bytes);
    }
    let calls = Calls::of(bytes).map(Box::new);
    if let (Some(calls), Some(began)) = (&calls, began) {
        calls.tell(Call::Open, began, Ok(()));
    }
    let methods = io::methods_for(&below);
    let file = File::new(role, owner, calls, below);
    file.note_use();
    let undone = OrElse(|| {
        file.closing();
        file.below().close();
    });
    file.opened()?;
    mem::forget(undone);
    let in_wal_mode = file.main_of().and_then(|connection| connection.strategy().in_wal_mode());
    let barrier = in_wal_mode.filter(|_| shim.is_over_unix).map(InWalMode::barrier);
    let chosen = file.connection().map(Arc::clone);
    // SAFETY: the header is ours; the state is set before the methods that use it.
    unsafe {
        (*open).state = MaybeUninit::new(State {
            api: &shim.api,
            file,
            barrier,
            handle: Handle::default(),
            _name: other_name,
        });
        (*open).methods = methods;
    }
    let chosen = chosen.as_ref().map(|connection| connection.strategy());
    forked::opened(open, role, chosen, &METHODS);
    Ok(())
}

impl Request<'_> {
    /// Opens a main database file. One without a name has no owner.
    fn open_db(&self) -> Result<Opened, Error> {
        let of_checkpointer = checkpoint::take_options();
        let is_checkpointer = of_checkpointer.is_some();
        let mut options = match of_checkpointer {
            Some(options) => options,
            // SAFETY: the name and the flags belong together.
            None => unsafe { options(self.shim, self.name, self.path.as_deref(), self.flags) }?,
        };
        let path = self.path.as_deref();
        let wal_mode = match path {
            Some(path) => self.check(path, &mut options, is_checkpointer)?,
            None => WalMode::Allowed,
        };
        let _claim = self.claim(path, &options)?;
        let mut below = self.open_below(self.flags, None)?;
        if let Some(path) = path
            && options.strategy != StrategyKind::Stock
        {
            recover_if_guarded(self.shim, path, options.strategy, &below)
                .inspect_err(|_| _ = below.close())?;
        }
        // SAFETY: null, or the place where the VFS below has said how it opened the file.
        let opened =
            unsafe { self.flags_out.as_ref() }.map_or(self.flags, |opened| self.flags | opened);
        let purpose = match opened & sqlite::SQLITE_OPEN_READONLY {
            _ if is_checkpointer => Purpose::Checkpoints,
            0 => Purpose::ReadWrite,
            _ => Purpose::ReadOnly,
        };
        let Some(path) = path else {
            return Ok(Opened { below, owner: Owner::Nobody, other_name: None });
        };
        let connection = Connection::open(Opening {
            path,
            name_address: self.name.addr(),
            options,
            run_checkpoint: &self.shim.run_checkpoint,
            side_files: &self.shim.side_files,
            purpose,
        });
        if connection.options().has_seatbelt() {
            below = below.with_seatbelt(
                self.c_name(),
                connection.database().canary(),
                self.library(),
                wal_mode,
            );
        }
        Ok(Opened { below, owner: Owner::Connection(connection), other_name: None })
    }

    /// The address of SQLite's VFS, if it locks as POSIX has it.
    fn library(&self) -> Option<usize> {
        self.shim.has_posix_locks.then(|| self.shim.below.addr())
    }

    /// Refuses a database that another SQLite of this process has open with a seatbelt.
    fn claim(&self, path: Option<&str>, options: &Options) -> Result<Option<Claimed>, Error> {
        let (Some(path), Some(library)) = (path, self.library()) else { return Ok(None) };
        if !options.has_seatbelt() {
            return Ok(None);
        }
        let claim = Claimed::to(self.c_name(), library);
        if claim.is_none() {
            self.shim.api.log(
                sqlite::SQLITE_CANTOPEN,
                &format!(
                    "oneflush: {path}: another SQLite library in this process has it open. Each \
                        would take the other's locks away; open it with one of them alone [OF-151]"
                ),
            );
            return Err(Error::Below(Code::CANTOPEN));
        }
        Ok(claim)
    }

    /// SQLite's name of a database or of a WAL.
    fn c_name(&self) -> &CStr {
        // SAFETY: such a file has a name, which ends with a NUL and outlives the request.
        unsafe { CStr::from_ptr(self.name) }
    }

    /// Checks whether this database may be opened with these options, here and now.
    fn check(
        &self,
        path: &str,
        options: &mut Options,
        is_checkpointer: bool,
    ) -> Result<WalMode, Error> {
        let api = &self.shim.api;
        if !path::is_name(path) {
            *options = without_name(self.shim, options.clone(), path)?;
        }
        forked::before_open(path).map_err(|Refused { code, why }| {
            if let Some(why) = why {
                api.log(code.0, &why);
            }
            Error::Below(code)
        })?;
        fits_those_who_have_it_open(path, options)?;
        let is_file = self.flags & sqlite::SQLITE_OPEN_MEMORY == 0;
        if !self.shim.is_over_unix || !is_file {
            return Ok(WalMode::Allowed);
        }
        if is_checkpointer {
            return Ok(WalMode::Works);
        }
        let say = |message: &str| api.log(sqlite::SQLITE_WARNING, message);
        let wal_mode = ground::before_open(path, options, say).map_err(|source| {
            Error::Option(Box::new(RefusedOption { path: path.to_owned(), source }))
        })?;
        if wal_mode != WalMode::WorksIfLocksDo || locks_keep_out(Path::new(path)) {
            return Ok(wal_mode);
        }
        let why = "locks keep nobody out; use a local disk";
        say(&format!("oneflush: {path}: {}", ground::no_wal("this file system", why)));
        Ok(WalMode::Refused)
    }

    /// Opens a file beside a database, or a temporary one.
    fn open_side(&self, role: Role) -> Result<Opened, Error> {
        let creates = self.flags & sqlite::SQLITE_OPEN_CREATE != 0;
        if role == Role::RollbackJournal
            && let Some(path) = self.path.as_deref()
            && let Some(Absorbed { owner, file }) = Owner::open_absorbed(path, creates)?
        {
            return Ok(Opened { below: self.place(file, self.flags), owner, other_name: None });
        }
        if role == Role::SuperJournal
            && let Some(path) = self.path.as_deref()
        {
            let absorbed = match creates {
                true => absorbed_super::create(path, &self.shim.side_files),
                false => absorbed_super::open(path),
            };
            if let Some(file) = absorbed {
                let owner = Owner::of_opened(role, Some(path), self.name.addr());
                return Ok(Opened { below: self.place(file, self.flags), owner, other_name: None });
            }
        }
        let owner = Owner::of_opened(role, self.path.as_deref(), self.name.addr());
        if role == Role::RollbackJournal && !creates {
            self.doubt_journal(&owner);
        }
        if role != Role::Wal {
            return Ok(Opened {
                below: self.open_below(self.flags, None)?,
                owner,
                other_name: None,
            });
        }
        let other_name = owner.wal_path()?.map(|path| c_name(&path)).transpose()?;
        owner.opening_wal()?;
        let undone = OrElse(|| owner.closing_wal());
        if let Some(wal) = owner.open_virtual()? {
            mem::forget(undone);
            let flags = match &owner {
                Owner::Connection(connection)
                    if matches!(connection.strategy(), Chosen::Onlooker(_)) =>
                {
                    self.flags & !sqlite::SQLITE_OPEN_READWRITE | sqlite::SQLITE_OPEN_READONLY
                }
                _ => self.flags,
            };
            return Ok(Opened { below: self.place(wal, flags), owner, other_name });
        }
        let has_seatbelt = matches!(
            &owner,
            Owner::Connection(connection) if connection.options().has_seatbelt()
        );
        let open = |flags| {
            let wal = self.open_below(flags, other_name.as_deref())?;
            let name = other_name.as_deref().unwrap_or_else(|| self.c_name());
            Ok(if has_seatbelt { wal.with_name(name) } else { wal })
        };
        // SAFETY: a WAL has a name.
        let below = if owner.has_durable_wal() && unsafe { exists(self.shim, self.name) } {
            open_known_wal(open, self.flags, |wal| owner.knows_wal(wal))
        } else {
            open(self.flags)
        }?;
        mem::forget(undone);
        Ok(Opened { below, owner, other_name })
    }

    /// SQLite opens a journal that is there: to look whether it is hot, or to roll it back. A hot
    /// one and a WAL are not left by the same crash.
    fn doubt_journal(&self, owner: &Owner) {
        let Owner::Connection(connection) = owner else { return };
        let rolls_back = self.flags & sqlite::SQLITE_OPEN_READWRITE != 0;
        let Some(database) = self.path.as_deref().and_then(|path| path.strip_suffix("-journal"))
        else {
            return;
        };
        let has_frames = || {
            std::fs::metadata(wal_path(database))
                .is_ok_and(|wal| wal.len() > wal_file::HEADER_BYTES)
        };
        if rolls_back && connection.options().has_seatbelt() && has_frames() {
            self.shim.api.log(
                sqlite::SQLITE_WARNING,
                &format!(
                    "oneflush: {database}: SQLite rolls a journal back, and takes a WAL that lies \
                        beside it. One of both is of another time; run PRAGMA integrity_check \
                        [OF-150]"
                ),
            );
        }
    }

    /// Puts a file of ours where the file of the VFS below would be. `opened`: how it is open.
    fn place(&self, file: Box<dyn Below>, opened: c_int) -> BelowFile {
        // SAFETY: behind our header there is room for a file of the VFS below, and for one of ours
        // (`vfs_over`).
        unsafe {
            let below = self.file.byte_add(HEADER_BYTES);
            virtual_file::place(below, file);
            if let Some(flags_out) = self.flags_out.as_mut() {
                *flags_out = opened;
            }
            BelowFile::new(below)
        }
    }

    /// Opens a file of the VFS below, by SQLite's own name pointer unless another name is given.
    fn open_below(&self, flags: c_int, other_name: Option<&CStr>) -> Result<BelowFile, Error> {
        let below_vfs = self.shim.below;
        let name = other_name.map_or(self.name, CStr::as_ptr);
        // SAFETY: the file of the VFS below lies behind our header, in the bytes that `szOsFile`
        // asked for.
        unsafe {
            let below = self.file.byte_add(HEADER_BYTES);
            (*below).pMethods = std::ptr::null();
            let method = (*below_vfs).xOpen.ok_or_else(|| Error::missing("xOpen"))?;
            let code = method(below_vfs, name, below, flags, self.flags_out);
            if code != sqlite::SQLITE_OK {
                // SQLite closes a file that failed to open only if its methods are set. Ours are
                // not set, so the close of the file below falls to us.
                if !(*below).pMethods.is_null() {
                    BelowFile::new(below).close();
                }
                return Err(Error::Below(Code(code)));
            }
            let opened = BelowFile::new(below);
            let is_database = flags & sqlite::SQLITE_OPEN_MAIN_DB != 0;
            let is_asked = is_database || flags & sqlite::SQLITE_OPEN_WAL != 0;
            let descriptor = (is_asked && self.shim.is_over_unix)
                .then(|| descriptor::of_unix_file(below_vfs, below));
            Ok(opened.with_descriptor(descriptor.flatten(), is_database))
        }
    }
}

/// What is to be done if an open fails or panics.
struct OrElse<F: Fn()>(F);

impl<F: Fn()> Drop for OrElse<F> {
    fn drop(&mut self) {
        // A panic in a panic would end the program.
        let _ = catch_unwind(AssertUnwindSafe(&self.0));
    }
}

/// Opens a WAL that exists. The "unix" VFS syncs the directory at the first sync of every WAL that
/// it was asked to create, new or not. A WAL that this process has synced already does not need
/// that. It is opened without the flag to create it.
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

/// A database whose name is not UTF-8 is opened as with SQLite alone, because strategies open files
/// by name.
fn without_name(shim: &Shim, options: Options, path: &str) -> Result<Options, Error> {
    static SAID: AtomicBool = AtomicBool::new(false);
    let promised = match (options.strategy, options.durability) {
        (StrategyKind::Eager, _) => "strategy eager",
        (StrategyKind::Waldio, _) => "strategy waldio",
        (StrategyKind::Maw, _) => "strategy maw",
        (_, Durability::Full) => "durability=full",
        (StrategyKind::Stock, Durability::Pragma) => return Ok(options),
        (StrategyKind::Plain, Durability::Pragma) => {
            if !SAID.swap(true, Relaxed) {
                let message = format!(
                    "oneflush: {path}: this name is not UTF-8, so SQLite alone opens it, as \
                        strategy stock does [OF-122]"
                );
                shim.api.log(sqlite::SQLITE_WARNING, &message);
            }
            return Ok(Options { strategy: StrategyKind::Stock, ..options });
        }
    };
    let source = OptionError::NotUtf8 { promised };
    Err(Error::Option(Box::new(RefusedOption { path: path.to_owned(), source })))
}

/// Refuses a second strategy for WAL mode: a process uses one database with one of them at a time.
fn fits_those_who_have_it_open(path: &str, options: &Options) -> Result<(), Error> {
    let in_use = Database::find(path).and_then(|database| database.strategy());
    match (in_use, options.strategy) {
        (Some(in_use), asked) if asked != StrategyKind::Stock && in_use != asked => {
            let source = OptionError::OtherStrategy { asked, in_use };
            Err(Error::Option(Box::new(RefusedOption { path: path.to_owned(), source })))
        }
        _ => Ok(()),
    }
}

/// Recovers a database that the log of one strategy guards, before another strategy opens it. The
/// contents of the log go into the database file.
fn recover_if_guarded(
    shim: &Shim,
    path: &str,
    asked: StrategyKind,
    below: &BelowFile,
) -> Result<(), Error> {
    let header = || {
        let mut header = [0; guard::HEADER_BYTES];
        below.read(&mut header, 0).is_ok().then_some(header)
    };
    let is_guarded = |header: &[u8]| guard::of(header).is_some();
    let Some(found) = header() else { return Ok(()) };
    // A crash may have garbled the header, and the guard in it. Then the log has both.
    if guard::is_database(&found) && !is_guarded(&found) {
        return Ok(());
    }
    let log = |kind| path_of_log(kind, path).unwrap_or_default();
    let files = &shim.side_files;
    let by = strategy_of_log(
        guard::of(&found),
        |kind| files.is_there(&log(kind)),
        |kind| files.open_log_to_read(&log(kind)).ok().flatten(),
    )?;
    // In a rollback mode the other strategies never ask for a log, and would read without it.
    let is_for_maw = is_guarded(&found) && guard::mode(&found) == Some(guard::Mode::Rollback);
    let Some(by) = by.filter(|&by| !is_for_maw || by == StrategyKind::Maw) else {
        // Without a log, a strategy that has one says so.
        return match asked {
            StrategyKind::Plain | StrategyKind::Eager | StrategyKind::Waldio
                if is_for_maw || (is_guarded(&found) && asked == StrategyKind::Plain) =>
            {
                let source = OptionError::LogMissing { asked };
                Err(Error::Option(Box::new(RefusedOption { path: path.to_owned(), source })))
            }
            _ => Ok(()),
        };
    };
    if by == asked {
        return Ok(());
    }
    let recovered = shim.side_files.recover(path, by);
    if !header().is_some_and(|header| is_guarded(&header)) {
        return Ok(());
    }
    let why = recovered.err().unwrap_or_else(|| "somebody else has it open".to_owned());
    Err(guarded(path, asked, by, why))
}

fn guarded(path: &str, asked: StrategyKind, by: StrategyKind, why: String) -> Error {
    let source = OptionError::Guarded { asked, by, why };
    Error::Option(Box::new(RefusedOption { path: path.to_owned(), source }))
}

/// # Safety
/// `name` is a name that SQLite passes to `xOpen`, and not null.
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
unsafe fn options(
    shim: &Shim,
    name: *const c_char,
    path: Option<&str>,
    flags: c_int,
) -> Result<Options, Error> {
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
        Error::Option(Box::new(RefusedOption {
            path: path.unwrap_or("temporary database").to_owned(),
            source,
        }))
    })
}
