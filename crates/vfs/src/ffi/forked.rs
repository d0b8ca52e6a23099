//! A fork: what it must not copy, and what a child does with the connections that it inherits.
//!
//! The memory of a child is a copy. It contains every lock in memory as it was at that moment,
//! taken or free. It also contains SQLite's notes of the POSIX locks of the process. The POSIX
//! locks themselves stay with the parent. A `flock` belongs to the open file, which parent and
//! child share.
//!
//! | when | function | what is done |
//! |---|---|---|
//! | before the fork | [`prepare`] | our checkpoints end; tables are held; file ids are noted |
//! | in the parent | [`in_parent`] | tables are let go; checkpoints go on |
//! | in the child | [`in_child`] | files with `flock`s become nothing; databases are forgotten |
//!
//! The life of an open file, by `Opened::inherited`:
//!
//! | state | methods | begins with | what follows |
//! |---|---|---|---|
//! | none | `io.rs` | [`opened`], [`attach`], [`Left::go_on`] | a fork, or the end of the process |
//! | unsettled | `inherited.rs` | [`in_child`] | a use, or an open of its database: [`settle`] |
//! | idle | `inherited.rs` | [`settle`] | a use: [`attach`] makes the connection anew |
//! | lost | `inherited.rs` | [`settle`], [`end_use`] | every use is an error; see `Left::go_on` |
//!
//! [`settle`] takes the POSIX locks that SQLite believes the process to have. It then checks that
//! the names still belong to the same files. Connections that were in a transaction are lost, and
//! their locks are given up. [`attach`] makes the connection anew, with a database, a log and a
//! board of the child's own. From then on it is like a connection of any other process.
//!
//! A use of a lost connection is an error, and SQLite's error log says why. A close by the methods
//! of `inherited.rs` never does the work of a last close.
//!
//! Invariants, cited by number in code and tests:
//!
//! 1. The child uses nothing of the parent's objects but what describes them. A thread that the
//!    child does not have may hold any of their locks. The child leaks these objects.
//! 2. The child uses no inherited file before two things are done. The process has SQLite's locks
//!    on the database and on its WAL index. After that, the names were seen to be still those of
//!    the same files. Another process may have closed the database meanwhile, and copied and
//!    removed the WAL.
//! 3. A file that is used by its ordinary methods costs nothing for all this.

use std::fs;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use libsqlite3_sys as sqlite;
use oneflush_blocklog::record_lock::record_lock_in;
use rustix::fs::{Mode, OFlags};

use super::api::Api;
use super::below::BelowFile;
use super::open_file::{OpenFile, State};
use super::page_cache::descriptor_of;
use super::reserve::Handle;
use super::virtual_file;
use super::{apart, guard_use, seatbelt};
use crate::calls::Calls;
use crate::config::{Options, StrategyKind};
use crate::connection::{AllDatabases, Connection, Database};
use crate::engine::InWalMode;
use crate::error::{Code, Error};
use crate::file::{File, Owner};
use crate::lock_bytes::{MAPPED, SHARED};
use crate::names::{image_path, index_path, wal_path, waldio_path};
use crate::own_file;
use crate::port::{Below, LockLevel, Purpose, ShmLock, WalIndex};
use crate::role::Role;
use crate::strategy::{Chosen, is_marked};
use crate::sync::{StaticMutex, StaticMutexGuard, ranks};

/// How long a fork waits for our checkpoints to end.
const PATIENCE: Duration = Duration::from_secs(2);

/// Device and inode of a file. None: there is no such file.
type FileId = Option<(u64, u64)>;

/// The files of a database in WAL mode.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Ids {
    database: FileId,
    /// The files that may stand for the WAL, whichever of them are there.
    wals: [FileId; 3],
    index: FileId,
}

/// An open database file or WAL of a strategy for WAL mode.
struct Opened {
    file: *mut OpenFile,
    role: Role,
    /// Of a database file: its files at the last fork.
    ids: Option<Ids>,
    /// Of a WAL: at the last fork it had the mark of a close. A reader leaves that mark as it is.
    was_marked: bool,
    inherited: Option<Inherited>,
    methods: &'static Methods,
}

type MethodsFor = fn(&BelowFile) -> &'static sqlite::sqlite3_io_methods;

/// The methods that a file has in its life.
pub struct Methods {
    pub ordinary: MethodsFor,
    /// In a child that has not used it.
    pub inherited: MethodsFor,
}

// SAFETY: the file is used only while it is open. Its user is the thread that SQLite lets use it,
// or `settle` in a child, under the mutex. In a child every other use passes through `settle`
// first.
unsafe impl Send for Opened {}

/// What has become of an inherited file in a child.
#[derive(Clone, PartialEq)]
enum Inherited {
    /// Nothing was decided yet.
    Unsettled,
    /// It may be used once its connection is made anew.
    Idle,
    /// It must not be used any more, for this reason.
    Lost(&'static str),
}

const IN_TRANSACTION: &str = "it was in a transaction at the fork";
const CHECKPOINT: &str = "a checkpoint could not be ended before the fork";
const GONE: &str = "the database was closed by others, moved or replaced since the fork";
const ENDING: &str = "this process is ending";
const NOT_AGAIN: &str = "its file may not be opened once more by this process";
const NO_DESCRIPTOR: &str = "its files cannot be found among those of this process";

static OPEN: LazyLock<StaticMutex<Vec<Opened>, { ranks::OPENED }>> =
    LazyLock::new(StaticMutex::default);
static HAS_INHERITED: AtomicBool = AtomicBool::new(false);

/// Notes a file that was opened and has its state.
pub fn opened(file: *mut OpenFile, role: Role, chosen: Option<&Chosen>, methods: &'static Methods) {
    if chosen.is_some_and(|chosen| chosen.maw().is_some()) {
        guard_use::note();
    }
    if matches!(role, Role::Db | Role::Wal)
        && let Some(connection) = chosen.and_then(Chosen::in_wal_mode)
    {
        if connection.is_guarded() {
            guard_use::note();
        }
        let (ids, was_marked, inherited) = (None, false, None);
        OPEN.lock().push(Opened { file, role, ids, was_marked, inherited, methods });
    }
}

/// The connections to a database that the program has left open at its end. Their files have the
/// methods of `inherited.rs`, and cannot be used.
pub struct Left {
    /// The connections and their main files. Another thread may close a file at any moment.
    connections: Vec<(Arc<Connection>, *mut OpenFile)>,
    api: Api,
}

/// From now on every use of this database's connections is an error.
///
/// None: nothing has changed, for one of three reasons. No connection has a WAL; some connections
/// came with a fork and were never used; or a connection is in a transaction and other threads
/// exist.
pub fn end_use(database: &str, is_alone: bool) -> Option<Left> {
    let mut open = OPEN.lock();
    let mut of_database: Vec<_> =
        open.iter_mut().filter(|opened| path_of(opened).as_deref() == Some(database)).collect();
    if of_database.iter().any(|opened| opened.inherited.is_some())
        || !of_database.iter().any(|opened| opened.role == Role::Wal)
    {
        return None;
    }
    let mains = of_database.iter().filter(|opened| opened.role == Role::Db);
    let connections: Vec<_> = mains
        .map(|main| Some((Arc::clone(connection_of(main)?), main.file)))
        .collect::<Option<_>>()?;
    let &(_, main) = connections.first()?;
    // SAFETY: the file is open.
    let api = *unsafe { state(main) }.api;
    let left = Left { connections, api };
    if !is_alone && !left.is_idle() {
        return None;
    }
    for opened in &mut of_database {
        opened.inherited = Some(Inherited::Lost(ENDING));
        set_methods(opened.file, opened.methods.inherited);
    }
    Some(left)
}

impl Left {
    /// The connections whose files no thread has closed meanwhile. None is closed while `open` is
    /// locked. Another thread that uses such a file gets no further than to an error.
    fn still_open<'a, 'o>(
        &'a self,
        open: &'o [Opened],
    ) -> impl Iterator<Item = (&'a Arc<Connection>, &'o State)> {
        let is_open = |main: *mut OpenFile| open.iter().any(|opened| opened.file == main);
        let left = self.connections.iter().filter(move |&&(_, main)| is_open(main));
        // SAFETY: the file is open: a file leaves the table before it is closed.
        left.map(|(connection, main)| (connection, unsafe { state(*main) }))
    }

    pub fn api(&self) -> &Api {
        &self.api
    }

    pub fn options(&self) -> &Options {
        self.connections[0].0.options()
    }

    pub fn is_idle(&self) -> bool {
        self.connections
            .iter()
            .all(|(connection, _)| in_wal_mode(connection).is_some_and(|one| one.is_idle()))
    }

    /// Gives up the locks of transactions: what is not committed ends with the process.
    pub fn give_up_transactions(&self) {
        let open = OPEN.lock();
        for (connection, main) in self.still_open(&open) {
            if in_wal_mode(connection).is_some_and(|one| !one.is_idle()) {
                give_up_locks(main);
            }
        }
    }

    /// Takes the turn to close for one of the connections, if one is open.
    pub fn takes_turn_to_close(&self) -> bool {
        let open = OPEN.lock();
        let main = self.still_open(&open).next();
        main.is_none_or(|(_, main)| main.file.below().turn_to_close(true).is_ok())
    }

    /// Gives up the locks of all connections on the database file. The image is copied and nobody
    /// can write to it, so the connections need not keep the database from its last close.
    pub fn give_up_locks(&self) {
        let open = OPEN.lock();
        for (_, main) in self.still_open(&open) {
            main.file.below().takes_belt_off();
            let _ = main.file.below().unlock(LockLevel::None);
        }
    }

    /// Gives the idle connections their ordinary methods back. The database is in use by others, or
    /// it could not be closed.
    pub fn go_on(self) {
        let mut open = OPEN.lock();
        let goes_on = |(connection, main): &(&Arc<Connection>, &State)| {
            in_wal_mode(connection)
                .is_some_and(|one| one.is_idle() && main.file.below().lock(one.level()).is_ok())
        };
        let go_on: Vec<_> = self
            .still_open(&open)
            .filter(goes_on)
            .inspect(|(connection, main)| {
                if in_wal_mode(connection).is_some_and(|one| one.has_wal()) {
                    main.file.below().map_again();
                }
            })
            .map(|(one, _)| one)
            .collect();
        for connection in go_on {
            for opened in open.iter_mut() {
                if connection_of(opened).is_some_and(|one| Arc::ptr_eq(one, connection)) {
                    opened.inherited = None;
                    set_methods(opened.file, opened.methods.ordinary);
                }
            }
        }
    }
}

fn set_methods(file: *mut OpenFile, of: MethodsFor) {
    // SAFETY: the file is open. Both tables are for the same type of file, so a call that another
    // thread has begun may have either.
    unsafe { (*file).methods = of(state(file).file.below()) };
}

pub fn closing(file: *mut OpenFile) {
    OPEN.lock().retain(|opened| opened.file != file);
}

/// What is held during a fork.
struct Prepared {
    databases: Vec<Arc<Database>>,
    all: AllDatabases,
    open: StaticMutexGuard<'static, Vec<Opened>, { ranks::OPENED }>,
    belts: StaticMutexGuard<'static, seatbelt::Table, { ranks::BELTS }>,
    own_files: StaticMutexGuard<'static, Vec<RawFd>>,
}

thread_local! {
    static PREPARED: std::cell::RefCell<Option<Prepared>> = const { std::cell::RefCell::new(None) };
}

pub fn prepare() {
    let until = Instant::now() + PATIENCE;
    let databases = Database::all_in_wal_mode();
    for shared in databases.iter().filter_map(|database| database.shared()) {
        shared.checkpointer().call_off(until);
    }
    let all = Database::hold_all();
    let mut open = OPEN.lock();
    for opened in open.iter_mut().filter(|opened| opened.inherited.is_none()) {
        match opened.role {
            Role::Wal => opened.was_marked = has_mark(opened),
            _ => opened.ids = path_of(opened).map(|path| ids(&path)),
        }
    }
    let belts = seatbelt::hold();
    let prepared = Prepared { databases, all, open, belts, own_files: own_file::all() };
    // The end of a thread may fork too. Then the thread-local is gone, and the fork goes without.
    let _ = PREPARED.try_with(|place| *place.borrow_mut() = Some(prepared));
}

fn take_prepared() -> Option<Prepared> {
    PREPARED.try_with(std::cell::RefCell::take).ok().flatten()
}

pub fn in_parent() {
    let Some(Prepared { databases, all, open, belts, own_files }) = take_prepared() else { return };
    drop((own_files, belts, open, all));
    for shared in databases.iter().filter_map(|database| database.shared()) {
        shared.checkpointer().resume();
    }
}

pub fn in_child() {
    apart::in_child();
    let Some(Prepared { databases, all, mut open, belts, own_files }) = take_prepared() else {
        seatbelt::in_child(None);
        return;
    };
    replace_by_nothing(&own_files);
    let without_file = seatbelt::in_child(Some(belts));
    for opened in open.iter_mut() {
        // What the parent itself has inherited keeps its state.
        if opened.inherited.is_none() {
            // SAFETY: the file is open, and no other thread is there.
            let descriptor = unsafe { state(opened.file) }.file.below().descriptor();
            opened.inherited = Some(match descriptor {
                Some(lost) if without_file.contains(&lost) => Inherited::Lost(NOT_AGAIN),
                _ => Inherited::Unsettled,
            });
            // SAFETY: the file is open, and no other thread is there.
            unsafe {
                let methods = opened.methods.inherited;
                (*opened.file).methods = methods(state(opened.file).file.below())
            };
        }
    }
    HAS_INHERITED.store(!open.is_empty(), SeqCst);
    all.forget();
    // Invariant 1.
    std::mem::forget(databases);
}

/// Replaces descriptors by one that stands for no file. The objects that own these descriptors
/// stay, and so do the numbers.
pub fn replace_by_nothing(descriptors: &[RawFd]) {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let Ok(nothing) = rustix::fs::open("/", flags, Mode::empty()) else { return };
    for &descriptor in descriptors {
        // SAFETY: a descriptor of ours. Its owner only reads, writes and locks, and never relies on
        // what kind of file it is. All of that fails now.
        unsafe { libc::dup3(nothing.as_raw_fd(), descriptor, libc::O_CLOEXEC) };
    }
}

/// # Safety
/// The file is open.
unsafe fn state<'a>(file: *mut OpenFile) -> &'a State {
    // SAFETY: as the caller promises.
    unsafe { (*file).state.assume_init_ref() }
}

fn connection_of(opened: &Opened) -> Option<&Arc<Connection>> {
    // SAFETY: a file leaves the table before it is closed.
    unsafe { state(opened.file) }.file.connection()
}

fn in_wal_mode(connection: &Arc<Connection>) -> Option<&dyn InWalMode> {
    connection.strategy().in_wal_mode()
}

fn path_of(opened: &Opened) -> Option<String> {
    Some(connection_of(opened)?.database().path().to_owned())
}

/// True if a last close has marked this WAL, as that of `plain` does. Any other WAL is not read: it
/// may be the parent's (invariant 1).
fn has_mark(wal: &Opened) -> bool {
    let is_plain = connection_of(wal).is_some_and(|connection| {
        connection.strategy().call(|one| one.kind()) == StrategyKind::Plain
    });
    // SAFETY: the file is open.
    is_plain && is_marked(unsafe { state(wal.file) }.file.below())
}

fn ids(database: &str) -> Ids {
    let of = |path: &str| fs::metadata(path).ok().map(|file| (file.dev(), file.ino()));
    Ids {
        database: of(database),
        wals: [image_path, waldio_path, wal_path].map(|path| of(&path(database))),
        index: of(&index_path(database)),
    }
}

/// Why an inherited file cannot be used.
pub struct Refused {
    pub code: Code,
    pub why: Option<String>,
}

impl Refused {
    fn lost(database: &str, why: &str) -> Refused {
        if why == ENDING {
            let why = format!(
                "oneflush: {database}: this process is ending, and the database was closed for it \
                    [OF-207]"
            );
            return Refused { code: Code::CANTOPEN, why: Some(why) };
        }
        let why = format!(
            "oneflush: {database}: opened in the process that this one was forked from, and {why}. \
                Close this connection and open the database again here [OF-206]"
        );
        Refused { code: Code::CANTOPEN, why: Some(why) }
    }
}

/// Called before this process opens a database. Without it SQLite would take the locks of inherited
/// connections for locks that this process has.
pub fn before_open(database: &str) -> Result<(), Refused> {
    if !HAS_INHERITED.load(SeqCst) {
        return Ok(());
    }
    settle(&mut OPEN.lock(), database)
}

/// True if this process has inherited a connection to this database, and with it SQLite's view of
/// the WAL index.
pub fn has_inherited(database: &str) -> bool {
    let is_of = |opened: &Opened| {
        opened.inherited.is_some()
            && opened
                .ids
                .is_some_and(|of| of.database.is_some() && of.database == ids(database).database)
    };
    HAS_INHERITED.load(SeqCst) && OPEN.lock().iter().any(is_of)
}

/// Establishes invariant 2 for everything that was inherited of a database.
fn settle(open: &mut [Opened], database: &str) -> Result<(), Refused> {
    let now = ids(database);
    // A last close since the fork may have kept the WAL of `plain` and marked it. Nobody may write
    // behind the mark.
    let is_closed = open.iter().any(|opened| {
        let is_wal = opened.role == Role::Wal && opened.inherited.is_some() && !opened.was_marked;
        is_wal && path_of(opened).as_deref() == Some(database) && has_mark(opened)
    });
    let mut at_fork = None;
    let (mut is_locked, mut has_index) = (false, false);
    let mut of_database = Vec::new();
    for opened in
        open.iter_mut().filter(|opened| opened.role == Role::Db && opened.inherited.is_some())
    {
        if opened.ids.is_none_or(|ids| ids.database.is_none() || ids.database != now.database) {
            continue;
        }
        if opened.inherited == Some(Inherited::Unsettled) {
            let lost =
                connection_of(opened).and_then(in_wal_mode).and_then(|one| match one.purpose() {
                    Purpose::Checkpoints => Some(CHECKPOINT),
                    _ => (!one.is_idle()).then_some(IN_TRANSACTION),
                });
            if let Some(why) = lost {
                // SAFETY: the file is open, and nobody else uses it: the thread of its transaction
                // is the parent's.
                give_up_locks(unsafe { state(opened.file) });
                opened.inherited = Some(Inherited::Lost(why));
            }
        }
        if let Some(one) = connection_of(opened).and_then(in_wal_mode) {
            has_index |= one.has_wal();
            is_locked |= one.level() >= LockLevel::Shared
                && !matches!(opened.inherited, Some(Inherited::Lost(_)));
        }
        at_fork = opened.ids;
        of_database.push(opened);
    }
    let unsettled = |opened: &&mut Opened| opened.inherited == Some(Inherited::Unsettled);
    if let Some(gone) =
        of_database.iter().find(|opened| opened.inherited == Some(Inherited::Lost(GONE)))
    {
        return if gone.ids.is_some() && has_index {
            Err(Refused::lost(database, GONE))
        } else {
            Ok(())
        };
    }
    if !of_database.iter().any(unsettled) {
        return Ok(());
    }
    let index = index_path(database);
    let mut why = None;
    let locks = [(is_locked, database, SHARED), (has_index, &index, MAPPED..MAPPED + 1)];
    for (_, path, range) in locks.into_iter().filter(|&(is_noted, ..)| is_noted) {
        match lock_for_reading(Path::new(path), range) {
            Ok(true) => {}
            Ok(false) => return Err(Refused { code: Code::BUSY, why: None }),
            Err(()) => why = Some(NO_DESCRIPTOR),
        }
    }
    if has_index && (at_fork != Some(ids(database)) || is_closed) {
        why = Some(GONE);
    }
    for opened in of_database.into_iter().filter(unsettled) {
        opened.inherited = Some(why.map_or(Inherited::Idle, Inherited::Lost));
    }
    why.map_or(Ok(()), |why| Err(Refused::lost(database, why)))
}

/// Gives up the locks that SQLite notes for a connection of the parent in a transaction. SQLite
/// keeps these notes for the whole process, and in this process nobody has these locks.
fn give_up_locks(state: &State) {
    let below = state.file.below();
    for first in 0..sqlite::SQLITE_SHM_NLOCK as u8 {
        // Releasing a lock that the file does not have changes nothing.
        let exclusive = first < ShmLock::READ;
        let _ = below.shm_lock(ShmLock { first, count: 1, acquire: false, exclusive });
    }
    let _ = below.unlock(LockLevel::None);
}

/// Takes a POSIX lock of this process on SQLite's own descriptor. The close of any other descriptor
/// of the file would release the lock. False: another process has an exclusive lock.
fn lock_for_reading(path: &Path, bytes: Range<i64>) -> Result<bool, ()> {
    let descriptor = descriptor_of(path).ok_or(())?;
    // SAFETY: a descriptor of this process, which nobody else uses while it is settled.
    let file = unsafe { BorrowedFd::borrow_raw(descriptor) };
    Ok(record_lock_in(file, libc::F_SETLK, libc::F_RDLCK, bytes).is_ok())
}

/// The inherited files of one connection that may be made anew.
struct Idle {
    connection: Arc<Connection>,
    main: *mut OpenFile,
    wal: Option<*mut OpenFile>,
}

/// Settles the database of `file`, and answers the files of its connection.
fn settled(file: *mut OpenFile) -> Result<Idle, Refused> {
    let misused = || Refused { code: Code::MISUSE, why: None };
    let mut open = OPEN.lock();
    let of_file = open.iter().find(|opened| opened.file == file).ok_or_else(misused)?;
    let connection = connection_of(of_file).cloned().ok_or_else(misused)?;
    let of_connection =
        |opened: &&Opened| connection_of(opened).is_some_and(|one| Arc::ptr_eq(one, &connection));
    let (mut main, mut wal) = (None, None);
    let settled = settle(&mut open, connection.database().path());
    for opened in open.iter().filter(of_connection) {
        match opened.role {
            Role::Wal => wal = Some(opened.file),
            _ => main = Some(opened),
        }
    }
    let main = main.ok_or_else(misused)?;
    if let Some(Inherited::Lost(why)) = main.inherited {
        return Err(Refused::lost(connection.database().path(), why));
    }
    settled?;
    if main.inherited != Some(Inherited::Idle) {
        // Its database has another name by now.
        return Err(Refused::lost(connection.database().path(), GONE));
    }
    let main = main.file;
    Ok(Idle { connection, main, wal })
}

/// Opens the connection `again` by the descriptors of the inherited files. Answers its main file
/// and its WAL.
fn opened_anew(
    again: &Arc<Connection>,
    path: &str,
    before: &dyn InWalMode,
    main: &State,
    wal: Option<&State>,
) -> Result<(File<BelowFile>, Option<File<BelowFile>>), Error> {
    let calls = Calls::of(Some(path.as_bytes())).map(Box::new);
    let canary = again.database().canary();
    let below = main.file.below().again(before.level(), wal.is_some(), canary);
    let main_file = File::new(Role::Db, Owner::Connection(Arc::clone(again)), calls, below);
    main_file.opened().inspect_err(|_| main_file.closing())?;
    let Some(wal) = wal else { return Ok((main_file, None)) };
    let owner = Owner::Connection(Arc::clone(again));
    owner.opening_wal().inspect_err(|_| main_file.closing())?;
    let below = wal.file.below().clone();
    let own = owner.open_virtual().inspect_err(|_| {
        owner.closing_wal();
        main_file.closing();
    })?;
    // SAFETY: with this strategy the parent's WAL is such a file too, and only this thread uses it.
    let before = own.map(|own| unsafe { virtual_file::replace(below.raw(), own) });
    let calls = Calls::of(Some(wal_path(path).as_bytes())).map(Box::new);
    let raw = below.raw();
    let wal_file = File::new(Role::Wal, owner, calls, below);
    if let Err(error) = wal_file.opened() {
        wal_file.closing();
        main_file.closing();
        if let Some(before) = before {
            // SAFETY: as above.
            unsafe { virtual_file::put_back(raw, before) };
        }
        return Err(error);
    }
    Ok((main_file, Some(wal_file)))
}

/// Makes the connection of an inherited file anew. Afterwards the file has its ordinary methods.
///
/// # Safety
/// `file` is open and has the methods of `inherited.rs`. Its connection is used by this thread.
pub unsafe fn attach(file: *mut OpenFile) -> Result<(), Refused> {
    let Idle { connection, main, wal } = settled(file)?;
    let before = in_wal_mode(&connection).ok_or(Refused { code: Code::MISUSE, why: None })?;
    let again = connection.again(before);
    // SAFETY: both files are open.
    let (main_state, wal_state) = unsafe { (state(main), wal.map(|wal| state(wal))) };
    let (main_file, wal_file) =
        opened_anew(&again, connection.database().path(), before, main_state, wal_state)
            .map_err(|error| Refused { code: Code(error.code()), why: None })?;
    main_file.note_use();
    let barrier =
        in_wal_mode(&again).filter(|_| main_state.barrier.is_some()).map(InWalMode::barrier);
    let mut open = OPEN.lock();
    // Invariant 1: the old states are overwritten and not dropped. The name that the VFS below was
    // given is leaked with them.
    for (file, new, barrier) in [(Some(main), Some(main_file), barrier), (wal, wal_file, None)] {
        let (Some(file), Some(new)) = (file, new) else { continue };
        let Some(opened) = open.iter_mut().find(|opened| opened.file == file) else { continue };
        // SAFETY: the file is open, and used by this thread.
        unsafe {
            let api = state(file).api;
            let methods = (opened.methods.ordinary)(state(file).file.below());
            (*file).state = MaybeUninit::new(State {
                api,
                file: new,
                barrier,
                handle: Handle::default(),
                _name: None,
            });
            (*file).methods = methods;
        }
        opened.inherited = None;
    }
    Ok(())
}
