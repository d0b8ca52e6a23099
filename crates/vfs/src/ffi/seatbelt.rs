//! The seatbelt: locks of SQLite that no `close()` takes away.
//!
//! POSIX releases all locks of a process on a file when the process closes any descriptor of that
//! file. SQLite's locks are of that kind. A program that copies its own open database takes them
//! all away, and two processes may write at the same time. A lock of an *open file*
//! (`F_OFD_SETLK`) stays until that open file is closed, and conflicts with SQLite's.
//!
//! | lock | on | bytes | whose open file | taken |
//! |---|---|---|---|---|
//! | slots | the WAL index | 120 to 127 | one for the process | in place of SQLite's |
//! | *mapped* | the WAL index | 128 | the same | beside SQLite's |
//! | *in use* | the database | the last of SQLite's shared lock | SQLite's own | beside SQLite's |
//! | *pending* | the database | SQLite's pending byte | SQLite's own | with the exclusive lock |
//!
//! SQLite's exclusive lock covers the byte of *in use*. So no other process can close the database
//! for the last time while a connection here has its WAL, even if SQLite's own lock is gone.
//!
//! Invariants, cited by number in code and tests:
//!
//! 1. A connection takes all slots here or all of them below. That is decided when SQLite first
//!    maps the index for it.
//! 2. The open file is that of the index which SQLite has mapped. This process has SQLite's lock
//!    on it, or somebody else has, or SQLite's descriptor is found.
//! 3. No descriptor of an index is closed here while this process has a POSIX lock on that index.
//! 4. SQLite's exclusive lock is asked for without *in use* of that connection, and without
//!    *mapped* if no other connection here has the index: SQLite would meet both. A refusal brings
//!    both back, or the connection is lost: every further use is an error. Who has the lock has
//!    *mapped*, all slots and *pending* besides, until SQLite gives it up.
//! 5. A child of a fork uses no lock of its parent's open files, and lets none of them go. Each
//!    such descriptor leads to another open file before anything else runs there.

mod claims;
mod index;

use std::ffi::{CStr, CString, OsStr};
use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::time::Duration;

use oneflush_blocklog::record_lock::{holder, record_lock_at};
use rustix::fs::{OFlags, Stat, fcntl_getfl, fstat, stat};

use super::descriptor::open_files;
use crate::canary::{Canary, Found};
use crate::error::Code;
use crate::lock_bytes::{IN_USE, MAPPED, PENDING, SLOTS};
use crate::own_file::OwnFile;
use crate::port::{ShmLock, Stamp};
use crate::sync::{Mutex, StaticMutexGuard, lock, ranks};
pub use claims::Claimed;
pub use index::OpenDatabase;
use index::{Id, Index, Slots, TABLE, has_another_descriptor, has_posix_lock};

pub use index::Table;

/// What SQLite adds to the name of a database.
const INDEX_ENDS: &[u8] = b"-shm";

/// How often, and with what pause, a connection that is alone asks for SQLite's pending byte.
const PENDING_TRIES: u32 = 20;
const PENDING_POLL: Duration = Duration::from_micros(250);

/// How often this process is the child of a fork. A belt of another generation is the parent's.
static GENERATION: AtomicU32 = AtomicU32::new(0);

/// The locks of one connection.
pub struct Belt {
    generation: u32,
    database: OpenDatabase,
    index_path: CString,
    canary: Arc<Canary>,
    seat: Mutex<Seat, { ranks::SEAT }>,
    /// What is to be told in SQLite's error log.
    message: Mutex<Option<String>>,
    has_message: AtomicBool,
}

#[derive(Default)]
struct Seat {
    at: At,
    slots: Slots,
    /// The database's descriptor has *in use*.
    in_use: bool,
    /// The connection has SQLite's reserved lock.
    is_reserved: bool,
    /// The connection has SQLite's exclusive lock, with all slots and *pending*.
    is_alone: bool,
    /// The database's descriptor is in the table.
    is_noted: bool,
    /// What the connection asks the canary with, while it has SQLite's shared lock.
    canary: Option<u64>,
}

#[derive(Default)]
enum At {
    /// SQLite has not mapped the index.
    #[default]
    Unmapped,
    Index(Arc<Index>),
    /// Such locks do not work here, or the index is none of ours: SQLite takes its own.
    Below,
    /// Others may have closed the database (invariant 4).
    Lost,
}

impl Belt {
    /// `name`: the database's.
    pub fn new(database: OpenDatabase, name: &CStr, canary: Arc<Canary>) -> Belt {
        let index_path = [name.to_bytes(), INDEX_ENDS].concat();
        Belt::of(database, CString::new(index_path).unwrap_or_default(), canary)
    }

    fn of(database: OpenDatabase, index_path: CString, canary: Arc<Canary>) -> Belt {
        TABLE.lock().databases.push(database);
        Belt {
            generation: GENERATION.load(SeqCst),
            database,
            index_path,
            canary,
            seat: Mutex::new(Seat { is_noted: true, ..Seat::default() }),
            message: Mutex::default(),
            has_message: AtomicBool::new(false),
        }
    }

    /// The name stays this SQLite's until the answer is gone.
    pub fn claim(&self, name: &CStr) -> Option<Claimed> {
        Claimed::to(name, self.database.library)
    }

    /// The same connection in the child of a fork.
    pub fn again(&self, canary: Arc<Canary>) -> Belt {
        Belt::of(self.database, self.index_path.clone(), canary)
    }

    /// False: the belt came with a fork, and says nothing of this process.
    fn is_ours(&self) -> bool {
        self.generation == GENERATION.load(SeqCst)
    }

    fn file(&self) -> BorrowedFd<'_> {
        // SAFETY: SQLite has the descriptor open as long as the connection.
        unsafe { BorrowedFd::borrow_raw(self.database.descriptor) }
    }

    /// Maps the index by SQLite's own function. An index that cannot be written is an error of it.
    pub fn map(&self, map: impl FnOnce() -> Result<(), Code>) -> Result<(), Code> {
        if !self.is_ours() || !matches!(lock(&self.seat).at, At::Unmapped) {
            return map();
        }
        let mut table = TABLE.lock();
        map()?;
        let mut seat = lock(&self.seat);
        seat.at = self.join(&mut table).map_or(At::Below, At::Index);
        self.mark(&mut table, &mut seat);
        Ok(())
    }

    /// The index that SQLite has mapped for this database. `None`: locks of open files cannot be
    /// had on it.
    fn join(&self, table: &mut Table) -> Option<Arc<Index>> {
        if let Some(index) = table.of(self.database.id) {
            return Some(index);
        }
        let (file, stat) = self.open_index(table)?;
        let id = (stat.st_dev, stat.st_ino);
        // SQLite's lock may be gone already.
        let is_it = has_posix_lock(&file) != Some(false) || has_another_descriptor(&file, id);
        // A kernel or file system may not have such locks.
        let is_locked = || record_lock_at(&file, libc::F_OFD_SETLK, libc::F_RDLCK, MAPPED).is_ok();
        if !is_it || !is_locked() {
            table.retire(file, id);
            return None;
        }
        let index = Arc::new(Index::new(self.database.id, file, &stat));
        table.indexes.push(Arc::downgrade(&index));
        Some(index)
    }

    fn open_index(&self, table: &mut Table) -> Option<(OwnFile, Stat)> {
        if !table.parked.is_empty()
            && let Ok(named) = stat(&*self.index_path)
            && let Some(at) =
                table.parked.iter().position(|&(_, id)| id == (named.st_dev, named.st_ino))
        {
            return Some((table.parked.swap_remove(at).0, named));
        }
        let mut how = OpenOptions::new();
        how.read(true).write(true).custom_flags(libc::O_NOFOLLOW);
        let file = OwnFile::open(|| how.open(path_of(&self.index_path))).ok()?;
        let stat = fstat(&file).ok()?;
        Some((file, stat))
    }

    /// Takes *mapped* and *in use*. Without both the connection is lost.
    fn mark(&self, table: &mut Table, seat: &mut Seat) {
        let At::Index(index) = &seat.at else { return };
        let read = |file: BorrowedFd<'_>, bytes| {
            record_lock_at(file, libc::F_OFD_SETLK, libc::F_RDLCK, bytes).is_ok()
        };
        let is_marked = index.is_marked.load(SeqCst) || read(index.file.as_fd(), MAPPED);
        index.is_marked.store(is_marked, SeqCst);
        if !is_marked || !read(self.file(), IN_USE) {
            return self.lose(table, seat);
        }
        seat.in_use = true;
    }

    fn let_in_use_go(&self, seat: &mut Seat) {
        if std::mem::take(&mut seat.in_use) {
            let _ = record_lock_at(self.file(), libc::F_OFD_SETLK, libc::F_UNLCK, IN_USE);
        }
    }

    /// Takes all slots and *pending*. "Busy": somebody has some, whose lock on the database is
    /// gone.
    fn be_alone(&self, seat: &mut Seat) -> Result<(), Code> {
        seat.is_alone = true;
        let take = |file: BorrowedFd<'_>, kind, bytes| {
            record_lock_at(file, libc::F_OFD_SETLK, kind, bytes).map(drop).map_err(|_| Code::BUSY)
        };
        let take_pending = || take(self.file(), libc::F_WRLCK, PENDING);
        if take_pending().is_err() {
            // SQLite 3.40 has it with the exclusive lock, and a close would cancel that. SQLite's
            // lock on its shared bytes stays meanwhile. Somebody who begins to use the database may
            // have it for a moment.
            let _ = record_lock_at(self.file(), libc::F_SETLK, libc::F_UNLCK, PENDING);
            let again =
                |_| take_pending().inspect_err(|_| std::thread::sleep(PENDING_POLL)).is_ok();
            (0..PENDING_TRIES).find(|&at| again(at)).ok_or(Code::BUSY)?;
        }
        let At::Index(index) = &seat.at else { return Ok(()) };
        take(index.file.as_fd(), libc::F_RDLCK, MAPPED)?;
        index.be_alone(&seat.slots)
    }

    fn end_alone(&self, seat: &mut Seat) {
        if std::mem::take(&mut seat.is_alone) {
            let _ = record_lock_at(self.file(), libc::F_OFD_SETLK, libc::F_UNLCK, PENDING);
            if let At::Index(index) = &seat.at {
                index.end_alone(&seat.slots);
            }
        }
    }

    fn lose(&self, table: &mut Table, seat: &mut Seat) {
        self.leave(table, seat, At::Lost);
        self.say(|database| {
            format!(
                "oneflush: {database}: others have closed the database or removed its WAL index, \
                    since a close() in this process took SQLite's own locks away, or somebody \
                    removed the file. Nothing is read or written here any more. Close this \
                    connection and open the database again [OF-239]"
            )
        });
    }

    /// Gives back what the connection has.
    fn leave(&self, table: &mut Table, seat: &mut Seat, next: At) {
        self.let_in_use_go(seat);
        if let At::Index(index) = std::mem::replace(&mut seat.at, next) {
            let _ = index.release(&mut seat.slots, u8::MAX);
            table.leave(index);
        }
    }

    /// A call of `xShmLock`.
    pub fn shm_lock(
        &self,
        call: ShmLock,
        below: impl FnOnce() -> Result<(), Code>,
    ) -> Result<(), Code> {
        if !self.is_ours() {
            return below();
        }
        let mut seat = lock(&self.seat);
        let Seat { at, slots, .. } = &mut *seat;
        match at {
            At::Index(index) => index.change(slots, call)?,
            At::Lost => return Err(Code::IOERR_LOCK),
            At::Unmapped | At::Below => {
                drop(seat);
                return below();
            }
        }
        if call == ShmLock::of_writer(true)
            && let Found::Gone { is_news: true } = self.canary.ask_at_times(self.file())
        {
            self.say(|database| {
                format!(
                    "oneflush: {database}: something in this process opened and closed this file; \
                        SQLite's own locks are gone, Oneflush's hold [OF-241]"
                )
            });
        }
        Ok(())
    }

    /// Keeps a message about the database of this name.
    #[cold]
    fn say(&self, message: impl FnOnce(&str) -> String) {
        let index = self.index_path.to_bytes();
        let database = index.strip_suffix(INDEX_ENDS).unwrap_or(index);
        *lock(&self.message) = Some(message(&String::from_utf8_lossy(database)));
        self.has_message.store(true, SeqCst);
    }

    /// The error is the name of the index, which leads elsewhere.
    pub fn look_at_index(&self) -> Result<(), &CStr> {
        let At::Index(index) = &lock(&self.seat).at else { return Ok(()) };
        look_at(&self.index_path, index.file.as_fd(), index.id).map(|_| ())
    }

    /// What is to be told, once.
    pub fn take_message(&self) -> Option<String> {
        (self.has_message.load(SeqCst) && self.has_message.swap(false, SeqCst))
            .then(|| lock(&self.message).take())
            .flatten()
    }

    /// SQLite has taken its reserved lock, and nothing is written yet. An error: another process
    /// may have written since this connection took its shared lock.
    pub fn may_write(&self) -> Result<(), Code> {
        let Some(generation) = lock(&self.seat).canary.filter(|_| self.is_ours()) else {
            return Ok(());
        };
        let Found::Gone { is_news } = self.canary.ask(self.file(), generation) else {
            lock(&self.seat).is_reserved = true;
            return Ok(());
        };
        if is_news {
            self.say(|database| {
                format!(
                    "oneflush: {database}: something in this process opened and closed this file, \
                        and so took SQLite's locks away. The transaction was refused before it \
                        wrote, because another process may have written meanwhile. To find the \
                        place: `strace -k -e trace=close -P {database} PROGRAM`. WAL mode has no \
                        such refusals [OF-240]"
                )
            });
        }
        Err(Code::IOERR_LOCK)
    }

    /// Another process reads by the index. `None`: SQLite is to answer that.
    pub fn has_reader_elsewhere(&self) -> Option<bool> {
        let At::Index(index) = &lock(&self.seat).at else { return None };
        let readers = SLOTS.start + i64::from(ShmLock::READ)..SLOTS.end;
        Some(self.is_ours() && holder(&index.file, readers).ok()?.is_some())
    }

    /// Asks for SQLite's exclusive lock on the database (invariant 4). `give_up`: SQLite's way back
    /// to its shared lock.
    pub fn lock_exclusively(
        &self,
        ask: impl Fn() -> Result<(), Code>,
        give_up: impl FnOnce(),
    ) -> Result<(), Code> {
        if !self.is_ours() {
            return ask();
        }
        let (is_lost, is_reserved) = {
            let seat = lock(&self.seat);
            (matches!(seat.at, At::Lost), seat.is_reserved)
        };
        // Nobody checkpoints by an index that others have left, or deletes files by its name.
        if is_lost {
            return Err(Code::BUSY);
        }
        // In a rollback mode SQLite has the pending byte itself by now.
        if is_reserved {
            return ask();
        }
        self.let_go_for_exclusive();
        let mut answer = ask();
        // The other connections of this process may have left meanwhile.
        if answer == Err(Code::BUSY) && self.let_go_for_exclusive() {
            answer = ask();
        }
        if answer.is_ok() {
            let mut seat = lock(&self.seat);
            answer = self.be_alone(&mut seat);
            if answer.is_ok() {
                // The slots kept all others from what this connection has read.
                seat.canary = seat.canary.map(|_| self.canary.begins_anew(self.file()));
                return Ok(());
            }
            self.end_alone(&mut seat);
            drop(seat);
            give_up();
        }
        self.has_shared_lock();
        answer
    }

    /// True: *mapped* was there, and has been let go.
    fn let_go_for_exclusive(&self) -> bool {
        let _table = TABLE.lock();
        let mut seat = lock(&self.seat);
        self.let_in_use_go(&mut seat);
        let At::Index(index) = &seat.at else { return false };
        // No other connection has it: they come and go under the table.
        Arc::strong_count(index) == 1
            && index.is_marked.swap(false, SeqCst)
            && record_lock_at(&index.file, libc::F_OFD_SETLK, libc::F_UNLCK, MAPPED).is_ok()
    }

    /// SQLite takes its shared lock by `ask`.
    pub fn share(&self, ask: impl FnOnce() -> Result<(), Code>) -> Result<(), Code> {
        if !self.is_ours() {
            return ask();
        }
        self.canary.passing(|| ask().inspect(|()| self.begins()))?;
        self.has_shared_lock();
        Ok(())
    }

    fn begins(&self) {
        let mut seat = lock(&self.seat);
        if seat.canary.is_none() {
            seat.canary = Some(self.canary.begins(self.file()));
        }
    }

    /// SQLite has its shared lock, and no more.
    pub fn has_shared_lock(&self) {
        if !self.is_ours() {
            return;
        }
        let is_without_lock = {
            let mut seat = lock(&self.seat);
            seat.is_reserved = false;
            self.end_alone(&mut seat);
            matches!(seat.at, At::Index(_)) && !seat.in_use
        };
        if is_without_lock {
            let (mut table, mut seat) = (TABLE.lock(), lock(&self.seat));
            self.mark(&mut table, &mut seat);
            // Meanwhile another process may have closed the database for the last time.
            if matches!(&seat.at, At::Index(index) if index.is_removed()) {
                self.lose(&mut table, &mut seat);
            }
        }
    }

    /// SQLite gives up its shared lock, or what it has above that, by `unlock`.
    pub fn end_sharing(&self, unlock: impl FnOnce() -> Result<(), Code>) -> Result<(), Code> {
        if !self.is_ours() {
            return unlock();
        }
        let mut seat = lock(&self.seat);
        seat.is_reserved = false;
        self.end_alone(&mut seat);
        self.let_in_use_go(&mut seat);
        let had_canary = seat.canary.take().is_some();
        drop(seat);
        self.canary.passing(|| {
            if had_canary {
                self.canary.ends();
            }
            unlock()
        })
    }

    /// SQLite unmaps the index for this connection, by `unmap`, or closes the connection.
    pub fn unmap(&self, unmap: impl FnOnce() -> Result<(), Code>) -> Result<(), Code> {
        if !self.is_ours() || matches!(lock(&self.seat).at, At::Unmapped) {
            return unmap();
        }
        // Nobody maps the index between the end of SQLite's mapping and of ours.
        let mut table = TABLE.lock();
        let unmapped = unmap();
        self.leave(&mut table, &mut lock(&self.seat), At::Unmapped);
        unmapped
    }

    /// All locks go.
    pub fn comes_off(&self) {
        let _ = self.unmap(|| Ok(()));
        let _ = self.end_sharing(|| Ok(()));
    }

    /// SQLite closes the descriptor next.
    pub fn closing(&self) {
        self.comes_off();
        if self.is_ours() && std::mem::take(&mut lock(&self.seat).is_noted) {
            let mut table = TABLE.lock();
            if let Some(at) = table.databases.iter().position(|&one| one == self.database) {
                table.databases.swap_remove(at);
            }
        }
    }
}

impl Drop for Belt {
    fn drop(&mut self) {
        // A connection that could not be made anew, after a fork.
        self.closing();
    }
}

fn path_of(name: &CStr) -> &Path {
    Path::new(OsStr::from_bytes(name.to_bytes()))
}

/// The error is the name, which leads to another file, or to none. `open`: the file that it is to
/// lead to.
pub fn look_at<'a>(
    name: &'a CStr,
    open: BorrowedFd<'_>,
    id: Id,
) -> Result<Option<Stamp>, &'a CStr> {
    match stat(name) {
        Ok(found) if (found.st_dev, found.st_ino) == id => Ok(Some(stamp(&found))),
        _ if is_elsewhere(path_of(name), open) => Err(name),
        _ => Ok(None),
    }
}

fn stamp(of: &Stat) -> Stamp {
    Stamp { size_bytes: of.st_size, modified: (of.st_mtime, of.st_mtime_nsec as i64) }
}

/// Whether the open file has no name any more, or another one in a folder that is still there. The
/// program may have changed its root or its mounts: then the file's path says so, or is that name.
#[cold]
fn is_elsewhere(name: &Path, open: BorrowedFd<'_>) -> bool {
    let is_removed = fstat(open).is_ok_and(|file| file.st_nlink == 0);
    let path = std::fs::read_link(format!("/proc/self/fd/{}", open.as_raw_fd()));
    let is_moved = path.is_ok_and(|path| path != name && !path.starts_with("(unreachable)"));
    // A folder may be moved with all its files.
    is_removed || is_moved && name.parent().is_some_and(|folder| stat(folder).is_ok())
}

/// Nothing changes while the answer lives. For a fork.
pub fn hold() -> StaticMutexGuard<'static, Table, { ranks::BELTS }> {
    TABLE.lock()
}

/// In the child of a fork: descriptors of databases that share an open file with the parent lead to
/// another one afterwards (invariant 5). Answers those for which that failed.
pub fn in_child(table: Option<StaticMutexGuard<'_, Table, { ranks::BELTS }>>) -> Vec<RawFd> {
    GENERATION.fetch_add(1, SeqCst);
    let Some(mut table) = table else { return Vec::new() };
    // A thread that is not here may use the objects.
    let Table { indexes, parked, databases, .. } = std::mem::take(&mut *table);
    std::mem::forget((indexes, parked));
    if !databases.is_empty() {
        let is_known = |number: &RawFd| databases.iter().any(|known| known.descriptor == *number);
        for spare in spare_descriptors(&databases).into_iter().filter(|one| !is_known(one)) {
            let _ = open_again(spare);
        }
    }
    databases
        .into_iter()
        .map(|database| database.descriptor)
        .filter(|&one| open_again(one).is_err())
        .collect()
}

/// Descriptors that SQLite keeps for its next connection to one of these databases. It opens them
/// with a flag that few others use.
fn spare_descriptors(databases: &[OpenDatabase]) -> Vec<RawFd> {
    let Ok(files) = open_files() else { return Vec::new() };
    let is_spare = |number: RawFd| {
        // SAFETY: nobody else is in this child. A number that is closed by now is an error.
        let file = unsafe { BorrowedFd::borrow_raw(number) };
        fcntl_getfl(file).is_ok_and(|flags| flags.contains(OFlags::NOFOLLOW))
    };
    files
        .filter(|&(_, id)| databases.iter().any(|database| database.id == id))
        .map(|(number, _)| number)
        .filter(|&number| is_spare(number))
        .collect()
}

/// Lets a descriptor lead to another open file of its file, whether that still has a name or not.
fn open_again(descriptor: RawFd) -> io::Result<()> {
    // SAFETY: the parent had it open, and so has its child.
    let mode = fcntl_getfl(unsafe { BorrowedFd::borrow_raw(descriptor) })?;
    let is_writable = mode & OFlags::RWMODE != OFlags::RDONLY;
    let path = format!("/proc/self/fd/{descriptor}");
    let again = OpenOptions::new().read(true).write(is_writable).open(path)?;
    // SAFETY: a descriptor of SQLite's, which reads, writes and locks the same file by it.
    match unsafe { libc::dup3(again.as_raw_fd(), descriptor, libc::O_CLOEXEC) } {
        ..0 => Err(io::Error::last_os_error()),
        0.. => Ok(()),
    }
}
