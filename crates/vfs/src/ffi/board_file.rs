//! The board of `eager` as a file that the processes map, and its locks.
//!
//! The file system is tried when a board is made (`board_place.rs`).
//!
//! | lock | on | kind | who has it |
//! |---|---|---|---|
//! | the board's | the board's file | `flock`, exclusive | who changes the board or the log |
//! | *use* | the log | `flock`, shared | who has joined, or is about to |
//! | *alone* | the log | `flock`, exclusive | who has found that nobody else is there |
//! | *shown* | the log | record lock (`F_OFD_SETLK`), shared | who has joined |
//! | *frames* | the log, `waldio` | record lock, shared | who may read frames |
//! | *frames* | the log, `waldio` | record lock, exclusive | who holds frames in memory |
//!
//! All these belong to open files and end with the process. Anybody can ask for *shown* without
//! taking anything. A child of a fork would share the locks of its parent. It therefore gives up
//! the files ([`OwnFile`]) and may do nothing here. It opens a board of its own (`forked.rs`).

use std::fs::File;
use std::io;
use std::num::NonZeroU32;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use oneflush_blocklog::belonging::{is_at, open_beside, open_or_create_beside};
use oneflush_blocklog::record_lock::record_lock_at;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use super::board_place::{FRAMES, Unfit, keeps_others_out, record_lock};
use crate::engine::ProcessBatching;
use crate::error::Code;
use crate::futex;
use crate::names::board_path;
use crate::own_file::{OwnFile, open_to_lock};
use crate::stats::clock;
use crate::strategy::{Common, Holder, Tickets, WORDS};
use crate::sync::{Mutex, lock, ranks};

const WORDS_BYTES: usize = WORDS * size_of::<AtomicU64>();
const BYTES: usize = WORDS_BYTES + size_of::<BehindWords>();

/// The longest single wait for an unlock. A holder that has died wakes nobody, so a waiter looks
/// again after this time.
const PATIENCE: Duration = Duration::from_millis(5);

/// How often an opener tries the lock of a board that it cannot map yet.
const POLL: Duration = Duration::from_millis(1);

#[repr(C)]
struct BehindWords {
    unlocks: Unlocks,
    tickets: Tickets,
    batching: ProcessBatching,
}

/// A waiter for the lock waits for a change of `count`, with the bit of the frame that it wants
/// logged. An unlock wakes one waiter that is to have the lock next, so that the log is not idle.
/// Then it wakes the waiters whose frames are logged.
#[derive(Default)]
#[repr(C)]
struct Unlocks {
    /// When the holder took the lock.
    since_ns: AtomicU64,
    count: AtomicU32,
    waiting: AtomicU32,
    /// The process that has the lock, by the number that it has for itself; 0: none. A process that
    /// has died stays here.
    holder: AtomicU32,
    /// Fills the word.
    _unused: AtomicU32,
}

pub struct BoardFile {
    file: OwnFile,
    words: NonNull<AtomicU64>,
    path: String,
    log_path: String,
    /// Open as long as this process uses the log.
    log: Mutex<Option<OwnFile>, { ranks::FILES }>,
    pid: u32,
    /// This process has the lock.
    has_lock: AtomicBool,
}

// SAFETY: the mapping lives as long as the value and consists of atomics.
unsafe impl Send for BoardFile {}
// SAFETY: as above.
unsafe impl Sync for BoardFile {}

impl BoardFile {
    /// Opens or makes the board of a database, and takes its lock. None: somebody else has kept the
    /// lock for longer than `patience`.
    pub fn open_locked(
        database: &str,
        log: &str,
        patience: Duration,
    ) -> io::Result<Option<BoardFile>> {
        let path = board_path(database);
        let deadline = Instant::now() + patience;
        loop {
            let file =
                OwnFile::open(|| open_or_create_beside(Path::new(&path), Path::new(database)))?;
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                // The process that had the lock before may have removed the file.
                Ok(()) if is_at(&file, &path) => {
                    let there = file.metadata()?.len().min(BYTES as u64);
                    let mapped = || {
                        if there == 0 {
                            keeps_others_out(&file, Path::new(&path))?;
                        }
                        // The file is written, and not only made longer. If the disk had no room
                        // for it, a store to the mapping would end the process.
                        file.write_all_at(&vec![0; BYTES - there as usize], there)?;
                        BoardFile::map(file, database, log)
                    };
                    let board = mapped().inspect_err(|_| {
                        // Nobody has mapped a new board: this process has its lock. So it can be
                        // removed.
                        if there == 0 {
                            let _ = std::fs::remove_file(&path);
                        }
                    })?;
                    board.locked();
                    return Ok(Some(board));
                }
                Ok(()) | Err(Errno::INTR) => continue,
                Err(Errno::WOULDBLOCK) => {}
                // A board that this call has made stays. Without a lock of it this process cannot
                // know whether others have mapped it.
                Err(errno) => return Err(Unfit::Flock(errno).into()),
            }
            if Instant::now() >= deadline {
                return Ok(None);
            }
            std::thread::sleep(POLL);
        }
    }

    /// Opens the board of a database without its lock. None: there is none.
    pub fn open(database: &str, log: &str) -> io::Result<Option<BoardFile>> {
        match OwnFile::open(|| open_beside(Path::new(&board_path(database)), Path::new(database))) {
            Ok(file) if file.metadata()?.len() < BYTES as u64 => Ok(None),
            Ok(file) => BoardFile::map(file, database, log).map(Some),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn map(file: OwnFile, database: &str, log: &str) -> io::Result<BoardFile> {
        let words = map_shared(&file)?;
        Ok(BoardFile {
            file,
            words,
            path: board_path(database),
            log_path: log.to_owned(),
            log: Mutex::default(),
            pid: std::process::id(),
            has_lock: AtomicBool::new(false),
        })
    }
}

impl BoardFile {
    /// Takes the lock of frames, or changes it. False: another process has one that is in the way.
    /// Then this one's stays as it was.
    fn lock_frames(&self, kind: libc::c_int) -> Result<bool, Code> {
        let log = lock(&self.log);
        let Some(log) = log.as_ref() else { return Err(Code::CANTOPEN) };
        match record_lock_at(log, libc::F_OFD_SETLK, kind, FRAMES) {
            Ok(_) => Ok(true),
            Err(Errno::AGAIN | Errno::ACCESS) => Ok(false),
            // On a system without such locks nobody holds frames.
            Err(_) => Ok(kind == libc::F_RDLCK),
        }
    }

    fn behind_words(&self) -> &BehindWords {
        // SAFETY: mapped in `open` for as long as the value lives. It lies behind the words and so
        // is aligned, and it consists of atomics.
        unsafe { self.words.byte_add(WORDS_BYTES).cast().as_ref() }
    }

    /// Notes that this process has the lock.
    fn locked(&self) {
        let unlocks = &self.behind_words().unlocks;
        unlocks.since_ns.store(clock::now_ns(), SeqCst);
        unlocks.holder.store(self.pid, SeqCst);
        self.has_lock.store(true, SeqCst);
    }
}

impl Drop for BoardFile {
    fn drop(&mut self) {
        // SAFETY: mapped in `map`, and nobody has a reference to it any more.
        let _ = unsafe { munmap(self.words.as_ptr().cast(), BYTES) };
    }
}

/// Maps a file that is at least as long as a board.
fn map_shared(file: &File) -> io::Result<NonNull<AtomicU64>> {
    // SAFETY: a new mapping of a file that is long enough and that nobody cuts.
    let words = unsafe {
        mmap(
            std::ptr::null_mut(),
            BYTES,
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::SHARED,
            file,
            0,
        )
    };
    match words {
        Ok(words) => NonNull::new(words.cast()).ok_or(io::ErrorKind::OutOfMemory.into()),
        Err(Errno::NOMEM) => Err(Errno::NOMEM.into()),
        Err(errno) => Err(Unfit::Map(errno).into()),
    }
}

/// Checks whether processes can share memory by this file, which is open for writing.
pub fn try_map(file: &File) -> io::Result<()> {
    file.write_all_at(&[0; BYTES], 0)?;
    let words = map_shared(file)?;
    // SAFETY: mapped above, and nobody has a reference to it.
    let _ = unsafe { munmap(words.as_ptr().cast(), BYTES) };
    Ok(())
}

/// True if somebody has *shown* by another open file of this log.
pub fn is_shown(log: &File) -> bool {
    record_lock(log, libc::F_OFD_GETLK, libc::F_WRLCK) == Ok(libc::F_RDLCK)
}

impl Common for BoardFile {
    fn words(&self) -> &[AtomicU64] {
        // SAFETY: mapped for as long as the value lives, aligned to a page. The words are atomic.
        unsafe { std::slice::from_raw_parts(self.words.as_ptr(), WORDS) }
    }

    fn lock_unless(
        &self,
        frame: u32,
        patience: Duration,
        done: &dyn Fn() -> bool,
    ) -> Result<bool, Code> {
        if std::process::id() != self.pid {
            return Err(Code::MISUSE);
        }
        let unlocks = &self.behind_words().unlocks;
        // The count of unlocks that was last seen to change, and when.
        let mut seen: Option<(u32, Instant)> = None;
        loop {
            let count = unlocks.count.load(SeqCst);
            if done() {
                return Ok(false);
            }
            match flock(&self.file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {
                    self.locked();
                    return Ok(true);
                }
                Err(Errno::INTR) => continue,
                Err(Errno::WOULDBLOCK) => {}
                Err(_) => return Err(Code::IOERR_LOCK),
            }
            let now = Instant::now();
            match seen {
                Some((before, since)) if before == count => {
                    if now - since >= patience {
                        return Err(Code::BUSY);
                    }
                }
                _ => seen = Some((count, now)),
            }
            unlocks.waiting.fetch_add(1, SeqCst);
            let bits = if frame == 0 { futex::ALL } else { futex::bit_of(frame) };
            futex::wait(&unlocks.count, count, bits, PATIENCE);
            unlocks.waiting.fetch_sub(1, SeqCst);
        }
    }

    fn unlock(&self, logged: Range<u32>) {
        let unlocks = &self.behind_words().unlocks;
        self.has_lock.store(false, SeqCst);
        unlocks.holder.store(0, SeqCst);
        // The lock of an open file can always be released.
        let _ = flock(&self.file, FlockOperation::Unlock);
        unlocks.count.fetch_add(1, SeqCst);
        if unlocks.waiting.load(SeqCst) > 0 {
            // A waiter that is woken in vain, or has died meanwhile, costs no more than `PATIENCE`.
            let done = logged.take(32).fold(0, |bits, frame| bits | futex::bit_of(frame).get());
            if let Some(waiting) = NonZeroU32::new(!done) {
                futex::wake(&unlocks.count, 1, waiting);
            }
            if let Some(done) = NonZeroU32::new(done) {
                futex::wake(&unlocks.count, u32::MAX, done);
            }
        }
    }

    fn holder(&self) -> Option<Holder> {
        let unlocks = &self.behind_words().unlocks;
        let pid = unlocks.holder.load(SeqCst);
        if pid == 0 || self.has_lock.load(SeqCst) {
            return None;
        }
        Some(Holder { pid, since_ns: unlocks.since_ns.load(SeqCst) })
    }

    fn is_locked(&self) -> bool {
        // By another open file. With the board's own, the call would convert a lock that another
        // thread has just taken.
        let Ok(file) = File::open(&self.path) else { return false };
        flock(&file, FlockOperation::NonBlockingLockShared) == Err(Errno::WOULDBLOCK)
    }

    fn wait_for_unlock(&self, at_most: Duration) {
        let unlocks = &self.behind_words().unlocks;
        let count = unlocks.count.load(SeqCst);
        if unlocks.holder.load(SeqCst) != 0 {
            unlocks.waiting.fetch_add(1, SeqCst);
            futex::wait(&unlocks.count, count, futex::ALL, at_most.min(PATIENCE));
            unlocks.waiting.fetch_sub(1, SeqCst);
        }
    }

    fn tickets(&self) -> &Tickets {
        &self.behind_words().tickets
    }

    fn batching(&self) -> &ProcessBatching {
        &self.behind_words().batching
    }

    fn be_alone(&self) -> Result<bool, Code> {
        let log = OwnFile::open(|| open_to_lock(Path::new(&self.log_path)))
            .map_err(|_| Code::CANTOPEN)?;
        let alone = match flock(&log, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => true,
            Err(Errno::WOULDBLOCK) => false,
            Err(_) => return Err(Code::IOERR_LOCK),
        };
        *lock(&self.log) = Some(log);
        Ok(alone)
    }

    fn begin_use(&self) -> Result<(), Code> {
        let mut log = lock(&self.log);
        let file = match log.take() {
            Some(file) => file,
            None => match OwnFile::open(|| open_to_lock(Path::new(&self.log_path))) {
                Ok(file) => file,
                // A last close has just removed it.
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(Code::BUSY),
                Err(_) => return Err(Code::CANTOPEN),
            },
        };
        match flock(&file, FlockOperation::NonBlockingLockShared) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Err(Code::BUSY),
            Err(_) => return Err(Code::IOERR_LOCK),
        }
        *log = Some(file);
        Ok(())
    }

    fn show_use(&self) {
        if let Some(log) = lock(&self.log).as_ref() {
            // On a system without such locks a process can join only with the board's lock.
            let _ = record_lock(log, libc::F_OFD_SETLK, libc::F_RDLCK);
        }
    }

    fn is_shown(&self) -> bool {
        File::open(&self.log_path).is_ok_and(|log| is_shown(&log))
    }

    fn read_frames(&self) -> Result<bool, Code> {
        self.lock_frames(libc::F_RDLCK)
    }

    fn hold_frames(&self) -> Result<bool, Code> {
        self.lock_frames(libc::F_WRLCK)
    }

    fn show_frames(&self) {
        // A lock that this process has can always be made a weaker one.
        let _ = self.lock_frames(libc::F_RDLCK);
    }

    fn is_there(&self) -> bool {
        is_at(&self.file, &self.path)
            && lock(&self.log).as_ref().is_some_and(|log| is_at(log, &self.log_path))
    }

    fn leave(&self) {
        *lock(&self.log) = None;
    }

    fn identity(&self, image: &str) -> u64 {
        // This name changes with every start of the system.
        let Ok(boot) = std::fs::read_to_string("/proc/sys/kernel/random/boot_id") else { return 0 };
        let number = |stat: rustix::fs::Stat| (stat.st_dev, stat.st_ino);
        let of = |path: &str| rustix::fs::stat(path).map(number);
        let (Ok(board), Ok(log), Ok(image)) =
            (rustix::fs::fstat(&self.file).map(number), of(&self.log_path), of(image))
        else {
            return 0;
        };
        identity_of(boot.trim(), [board, log, image])
    }
}

/// The identity of a board, its log and its image: FNV-1a of 64 bits (draft-eastlake-fnv).
///
/// The hash goes over the name of the system's start, as the kernel writes it, without the end of
/// the line. Device and inode number of each file follow, each as 8 bytes, the lowest first. The
/// result is never 0. Processes of several versions compare it, so it may not change.
fn identity_of(boot: &str, files: [(u64, u64); 3]) -> u64 {
    let numbers =
        files.into_iter().flat_map(|(device, inode)| [device.to_le_bytes(), inode.to_le_bytes()]);
    let bytes = boot.bytes().chain(numbers.flatten());
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    });
    hash.max(1)
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    // It was once the hash of `DefaultHasher`, whose algorithm may change with the toolchain. Two
    // builds that share a board would then not have agreed.
    #[test]
    fn the_identity_of_board_log_and_image_is_the_same_in_every_build() {
        // Computed by another program: FNV-1a of the 36 characters and six little-endian numbers.
        const EXPECTED: u64 = 0xa4ff_0bec_ae7d_edc5;
        let boot = "6f1b5c0e-0d0a-4b5e-9c53-2b6a3a1d7e11";
        assert_eq!(identity_of(boot, [(1, 2), (3, 4), (5, 6)]), EXPECTED);
        assert_ne!(identity_of(boot, [(1, 2), (3, 4), (5, 7)]), EXPECTED);
    }

    /// The board was made by another process between the first look and the making, and removed by
    /// it before it was opened. Then the open of the database failed (SQLITE_CANTOPEN), seen on a
    /// slow emulated processor.
    #[test]
    fn a_board_that_others_make_and_remove_meanwhile_is_opened_or_made() {
        let dir = tempfile::tempdir().unwrap();
        let (database, path) = (dir.path().join("a.db"), dir.path().join("board"));
        std::fs::write(&database, "").unwrap();
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(SeqCst) {
                    drop(File::create(&path));
                    let _ = std::fs::remove_file(&path);
                }
            });
            let opened = (0..30_000).find_map(|_| {
                let opened = open_or_create_beside(&path, &database);
                let _ = std::fs::remove_file(&path);
                opened.err()
            });
            is_over.store(true, SeqCst);
            assert!(opened.is_none(), "{opened:?}");
        });
    }
}
