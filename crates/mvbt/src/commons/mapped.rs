//! Processes that use one database: a file beside it that they map, and record locks of open files.
//!
//! | lock | on | kind | who has it |
//! |---|---|---|---|
//! | *use* | the database | shared | each user |
//! | *use* | the database | exclusive | the first user while it opens, the last while it closes |
//! | *door* | the memory | exclusive | who comes, or goes |
//! | *writer* | the database | exclusive | the user whose transaction is open |
//! | *slot n* | the memory | exclusive | the user with this number |
//!
//! The kernel takes all of them away when their process ends: *use* and *writer*, of the open file
//! that writes, after the last write that was in flight. *use* is on the database itself: if
//! somebody deletes the memory, or reaches the database by another name, the next user finds that
//! others are there and nothing is shared, and is refused.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use oneflush_blocklog::belonging::{is_at, open_or_create_beside};
use oneflush_blocklog::record_lock::{record_lock_at, record_lock_in};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::thread::futex;

use super::board::{ORPHANED, REPLACED, SLOTS, WORDS};
use super::{Commons, Then};
use crate::error::check_process;
use crate::kill_point::KillPoint;
use crate::sync::Mutex;
use crate::{Error, Result};

/// Far behind the end of any database.
pub const USE: i64 = 1 << 62;
const WRITER: i64 = USE + 1;
const DOOR: i64 = 0;
const SLOTS_FROM: i64 = 16;

const WORDS_BYTES: usize = WORDS * size_of::<AtomicU64>();
const BYTES: usize = WORDS_BYTES + size_of::<Unlocks>();

/// How long a user waits for others that come or go.
const DOOR_PATIENCE: Duration = Duration::from_secs(10);
/// How long the locks of a process that has ended may be seen in part.
const GONE_PATIENCE: Duration = Duration::from_secs(2);
const POLL: Duration = Duration::from_millis(1);
/// The longest single wait for the writer's lock. A writer that has died wakes nobody.
const WRITER_POLL: Duration = Duration::from_millis(5);
/// So long a user that has just written waits for the one that it has woken. Else it would take the
/// lock before that one runs, again and again.
const COURTESY: Duration = Duration::from_millis(1);

/// A waiter for the writer's lock waits for a change of `count`.
#[repr(C)]
struct Unlocks {
    count: AtomicU32,
    waiting: AtomicU32,
}

pub struct Mapped {
    words: NonNull<AtomicU64>,
    memory: File,
    /// The same file, opened once more: what it is told of locks is also about this user's.
    asker: File,
    /// Of the open file that writes the database. It has *use* and *writer*. Those of one open
    /// file are not in each other's way, so each handle has its own.
    database: File,
    writer_asker: File,
    path: PathBuf,
    slot: usize,
    pid: u32,
    has_left: AtomicBool,
    /// *door* and *use* keep other users out, and not other threads of this one.
    settling: Mutex<()>,
    /// A user was woken when this one released *writer* last: it goes first.
    has_woken: AtomicBool,
}

// SAFETY: the mapping lives as long as the value and consists of atomics.
unsafe impl Send for Mapped {}
// SAFETY: as above.
unsafe impl Sync for Mapped {}

/// The name of the memory.
pub fn path_of(database: &Path) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push("-shm");
    PathBuf::from(name)
}

impl Mapped {
    /// Comes in. The call is told whether nobody else is there. `writes`: the open file by which
    /// this user writes. Its locks outlive a process that dies, until none of its writes is in
    /// flight any more. So nobody judges them before that.
    pub fn join<R>(
        database: &Path,
        writes: Option<File>,
        call: impl FnOnce(Arc<dyn Commons>, bool) -> Result<R>,
    ) -> Result<R> {
        let path = path_of(database);
        // First: who may not write the database makes no memory, which its owner could not use.
        let opened = || File::options().read(true).write(true).open(database);
        let user = writes.map_or_else(opened, Ok);
        let user = user.map_err(failed(database, "open it to lock it"))?;
        let writer_asker = File::open(database).map_err(failed(database, "open it once more"))?;
        let memory = open_with_door(&path, database)?;
        let door = Door(&memory);
        let is_alone = is_first(&user, &memory, database)?;
        if is_alone {
            keeps_others_out(&memory, &path).map_err(failed(&path, "try its locks"))?;
            // Written, and not only made longer. If the disk had no room for it, a store to the
            // mapping would end the process.
            memory.write_all_at(&vec![0; BYTES], 0).map_err(failed(&path, "write to it"))?;
            KillPoint::Made.reached();
        } else if memory.metadata().map_err(failed(&path, "ask for its size"))?.len() < BYTES as u64
        {
            return Err(Error::Busy { what: ORPHANED });
        }
        let slot = take_slot(&memory, &path)?;
        let words = map(&memory).map_err(failed(&path, "map it"))?;
        let clone = memory.try_clone().map_err(failed(&path, "open it once more"))?;
        let (pid, has_left) = (std::process::id(), AtomicBool::new(false));
        let asker = File::open(&path).map_err(failed(&path, "open it once more"))?;
        let (memory, path) = (clone, path.clone());
        let mapped = Mapped {
            words,
            memory,
            asker,
            database: user,
            writer_asker,
            path,
            slot,
            pid,
            has_left,
            settling: Mutex::default(),
            has_woken: AtomicBool::new(false),
        };
        let mapped = Arc::new(mapped);
        let called = call(Arc::clone(&mapped) as Arc<dyn Commons>, is_alone).inspect_err(|_| {
            // Nobody has seen what this call made.
            if is_alone {
                let _ = std::fs::remove_file(&mapped.path);
            }
        })?;
        lock(&mapped.database, libc::F_RDLCK, USE).map_err(failed(database, "lock it"))?;
        KillPoint::Joined.reached();
        drop(door);
        Ok(called)
    }

    fn words(&self) -> &[AtomicU64] {
        // SAFETY: mapped for as long as the value lives, aligned to a page. The words are atomic.
        unsafe { std::slice::from_raw_parts(self.words.as_ptr(), WORDS) }
    }

    /// Until the other one has written, or has not come.
    fn let_another_go_first(&self) {
        let unlocks = self.unlocks();
        let time = futex::Timespec { tv_sec: 0, tv_nsec: COURTESY.as_nanos() as i64 };
        let _ = futex::wait(
            &unlocks.count,
            futex::Flags::empty(),
            unlocks.count.load(SeqCst),
            Some(&time),
        );
    }

    fn unlocks(&self) -> &Unlocks {
        // SAFETY: mapped for as long as the value lives, behind the words and so aligned. It
        // consists of atomics.
        unsafe { self.words.byte_add(WORDS_BYTES).cast().as_ref() }
    }

    /// A child of a fork has the same memory and the same open files, and is no user: it changes
    /// nothing there, also where it ends a transaction of its parent.
    fn is_user(&self) -> bool {
        self.check_user().is_ok()
    }

    fn failed(&self, doing: &'static str) -> impl FnOnce(io::Error) -> Error {
        failed(&self.path, doing)
    }
}

/// *door* is held as long as this lives.
struct Door<'a>(&'a File);

impl Drop for Door<'_> {
    fn drop(&mut self) {
        // The lock of an open file can always be released.
        let _ = lock(self.0, libc::F_UNLCK, DOOR);
    }
}

fn failed(path: &Path, doing: &'static str) -> impl FnOnce(io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::Io { path, doing, source }
}

/// Takes or releases a lock. False: somebody else's is in the way.
fn lock(file: &File, kind: libc::c_int, byte: i64) -> io::Result<bool> {
    match record_lock_at(file, libc::F_OFD_SETLK, kind, byte) {
        Ok(_) => Ok(true),
        Err(Errno::AGAIN | Errno::ACCESS) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}

/// Not to know it must not take a version away from somebody.
fn is_locked(asker: &File, byte: i64) -> bool {
    record_lock_at(asker, libc::F_OFD_GETLK, libc::F_WRLCK, byte) != Ok(libc::F_UNLCK)
}

/// The memory, made if it is not there, with *door*.
fn open_with_door(path: &Path, database: &Path) -> Result<File> {
    let until = Instant::now() + DOOR_PATIENCE;
    loop {
        let file = open_or_create_beside(path, database).map_err(failed(path, "open it"))?;
        let locked = lock(&file, libc::F_WRLCK, DOOR).map_err(failed(path, "lock it"))?;
        // The last user may have deleted it meanwhile.
        if locked && is_at(&file, path) {
            return Ok(file);
        }
        if Instant::now() >= until {
            return Err(Error::Busy { what: "another process is opening or closing it" });
        }
        if !locked {
            std::thread::sleep(POLL);
        }
    }
}

/// A file system may grant a lock to everybody. This open file has *door*.
fn keeps_others_out(memory: &File, path: &Path) -> io::Result<()> {
    let other = File::open(path)?;
    debug_assert!(is_at(memory, path), "the door was looked through");
    match record_lock_at(&other, libc::F_OFD_GETLK, libc::F_WRLCK, DOOR)? {
        libc::F_WRLCK => Ok(()),
        _ => Err(io::Error::other(
            "record locks keep nobody out here: two have one lock. Use a local disk",
        )),
    }
}

/// Takes *use*. False: others have it, and are in this memory. Memory that is left of another time
/// has nobody in it, and that of another file, which had this name, has users that do not use this
/// one. *door* is held.
fn is_first(user: &File, memory: &File, database: &Path) -> Result<bool> {
    let until = Instant::now() + GONE_PATIENCE;
    loop {
        let locked = |kind| lock(user, kind, USE).map_err(failed(database, "lock it"));
        let is_alone = locked(libc::F_WRLCK)?;
        let is_beside = !is_alone && locked(libc::F_RDLCK)?;
        let slots = SLOTS_FROM..SLOTS_FROM + SLOTS as i64;
        // This user has none yet, so the open file is not in its own way.
        let in_use = record_lock_in(memory, libc::F_OFD_GETLK, libc::F_WRLCK, slots);
        let has_users = in_use != Ok(libc::F_UNLCK);
        if (is_alone || is_beside) && is_alone != has_users {
            return Ok(is_alone);
        }
        locked(libc::F_UNLCK)?;
        if Instant::now() >= until {
            let what = if is_alone { REPLACED } else { ORPHANED };
            return Err(Error::Busy { what });
        }
        // A process that ends gives its locks back one by one.
        std::thread::sleep(POLL);
    }
}

fn take_slot(memory: &File, path: &Path) -> Result<usize> {
    for slot in 0..SLOTS {
        if lock(memory, libc::F_WRLCK, SLOTS_FROM + slot as i64).map_err(failed(path, "lock it"))? {
            return Ok(slot);
        }
    }
    Err(Error::Busy { what: "448 processes use it already" })
}

fn map(memory: &File) -> io::Result<NonNull<AtomicU64>> {
    // SAFETY: a new mapping of a file that is long enough and that nobody cuts.
    let words = unsafe {
        mmap(
            std::ptr::null_mut(),
            BYTES,
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::SHARED,
            memory,
            0,
        )
    }?;
    NonNull::new(words.cast()).ok_or(io::ErrorKind::OutOfMemory.into())
}

impl Drop for Mapped {
    /// Deletes the memory if nobody else has it. A child of a fork has none to delete.
    fn drop(&mut self) {
        let may = !self.has_left.load(SeqCst)
            && self.is_user()
            && matches!(lock(&self.memory, libc::F_WRLCK, DOOR), Ok(true));
        let is_last = may && matches!(lock(&self.database, libc::F_WRLCK, USE), Ok(true));
        if is_last && is_at(&self.memory, &self.path) {
            let _ = std::fs::remove_file(&self.path);
        }
        // A child of a fork that has not called `exec` yet would keep the locks.
        if self.is_user() {
            let _ = lock(&self.database, libc::F_UNLCK, WRITER);
            let _ = lock(&self.database, libc::F_UNLCK, USE);
            let _ = lock(&self.memory, libc::F_UNLCK, SLOTS_FROM + self.slot as i64);
            let _ = lock(&self.memory, libc::F_UNLCK, DOOR);
        }
        // SAFETY: mapped in `map`, and nobody has a reference to it any more.
        let _ = unsafe { munmap(self.words.as_ptr().cast(), BYTES) };
    }
}

impl Commons for Mapped {
    fn load(&self, index: usize) -> u64 {
        self.words()[index].load(SeqCst)
    }

    fn store(&self, index: usize, value: u64) {
        if self.is_user() {
            self.words()[index].store(value, SeqCst);
        }
    }

    fn add(&self, index: usize, more: u64) {
        if self.is_user() {
            self.words()[index].fetch_add(more, SeqCst);
        }
    }

    fn raise(&self, index: usize, least: u64) {
        if self.is_user() {
            self.words()[index].fetch_max(least, SeqCst);
        }
    }

    fn check_user(&self) -> Result<()> {
        check_process(self.pid)
    }

    fn slot(&self) -> usize {
        self.slot
    }

    fn is_held(&self, slot: usize) -> bool {
        if slot == self.slot {
            return true;
        }
        is_locked(&self.asker, SLOTS_FROM + slot as i64)
    }

    fn lock_writer(&self, until: Option<Instant>) -> Result<bool> {
        self.check_user()?;
        let unlocks = self.unlocks();
        if self.has_woken.swap(false, SeqCst) && until.is_none_or(|until| until > Instant::now()) {
            self.let_another_go_first();
        }
        loop {
            let count = unlocks.count.load(SeqCst);
            let locked = lock(&self.database, libc::F_WRLCK, WRITER);
            if locked.map_err(self.failed("lock it"))? {
                return Ok(true);
            }
            let left = match until {
                None => WRITER_POLL,
                Some(until) => until.saturating_duration_since(Instant::now()).min(WRITER_POLL),
            };
            if left.is_zero() {
                return Ok(false);
            }
            let left = futex::Timespec { tv_sec: 0, tv_nsec: left.as_nanos() as i64 };
            unlocks.waiting.fetch_add(1, SeqCst);
            // Whatever ends the wait, the lock is tried again.
            let _ = futex::wait(&unlocks.count, futex::Flags::empty(), count, Some(&left));
            unlocks.waiting.fetch_sub(1, SeqCst);
        }
    }

    fn unlock_writer(&self) {
        // The lock is the parent's: both have one open file.
        if !self.is_user() {
            return;
        }
        let unlocks = self.unlocks();
        // The lock of an open file can always be released.
        let _ = lock(&self.database, libc::F_UNLCK, WRITER);
        unlocks.count.fetch_add(1, SeqCst);
        if unlocks.waiting.load(SeqCst) > 0 {
            let woken = futex::wake(&unlocks.count, futex::Flags::empty(), 1);
            self.has_woken.store(woken.is_ok_and(|count| count > 0), SeqCst);
        }
    }

    fn has_writer(&self) -> bool {
        // An open file is not in its own way: this asks by another one.
        is_locked(&self.writer_asker, WRITER)
    }

    fn settle(&self, call: &mut dyn FnMut(bool) -> Result<Then>) -> Result<()> {
        self.check_user()?;
        let _settling = self.settling.lock();
        let until = Instant::now() + DOOR_PATIENCE;
        while !lock(&self.memory, libc::F_WRLCK, DOOR).map_err(self.failed("lock it"))? {
            if Instant::now() >= until {
                return Err(Error::Busy { what: "another process is opening or closing it" });
            }
            std::thread::sleep(POLL);
        }
        let _door = Door(&self.memory);
        let is_alone =
            lock(&self.database, libc::F_WRLCK, USE).map_err(self.failed("lock the database"))?;
        let called = call(is_alone);
        if is_alone && matches!(called, Ok(Then::Leave)) && is_at(&self.memory, &self.path) {
            std::fs::remove_file(&self.path).map_err(self.failed("delete it"))?;
            KillPoint::Deleted.reached();
        }
        let leaves = matches!(called, Ok(Then::Leave));
        self.has_left.fetch_or(leaves, SeqCst);
        let kind = if leaves { libc::F_UNLCK } else { libc::F_RDLCK };
        lock(&self.database, kind, USE).map_err(self.failed("lock the database"))?;
        called.map(drop)
    }
}
