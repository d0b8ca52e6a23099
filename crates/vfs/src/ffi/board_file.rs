//! The board of `eager` as a file that the processes map, and its locks.
//!
//! Both locks are `flock`s, which belong to the open file and end with the process: the board's own on the board's file, and, on the log, a
//! shared one of every process that uses it. A child of a fork shares its parent's locks, so it may do nothing here.

use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::num::NonZeroU32;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use oneflush_blocklog::belonging::{create_beside, open_beside};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::error::Code;
use crate::futex;
use crate::strategy::{Common, Gathering, Tickets, WORDS, board_path, log_path};
use crate::sync::{Mutex, lock};

const WORDS_BYTES: usize = WORDS * size_of::<AtomicU64>();
const BYTES: usize = WORDS_BYTES + size_of::<BehindWords>();

/// How long somebody waits who was not told of an unlock, because the holder has died.
const PATIENCE: Duration = Duration::from_millis(5);

#[repr(C)]
struct BehindWords {
    unlocks: Unlocks,
    tickets: Tickets,
    gathering: Gathering,
}

/// Who waits for the lock waits for a change of `count`, with the bit of the frame that is to be logged. Whoever unlocks first wakes one who is
/// to have the lock next, so that the log is not idle, and then those whose frames are logged.
#[derive(Default)]
#[repr(C)]
struct Unlocks {
    count: AtomicU32,
    waiting: AtomicU32,
}

pub struct BoardFile {
    file: File,
    words: NonNull<AtomicU64>,
    log_path: String,
    /// Open as long as this process uses the log.
    log: Mutex<Option<File>>,
    pid: u32,
}

// SAFETY: the mapping lives as long as the value and consists of atomics.
unsafe impl Send for BoardFile {}
// SAFETY: as above.
unsafe impl Sync for BoardFile {}

impl BoardFile {
    /// Opens or makes the board of a database, and takes its lock.
    pub fn open_locked(database: &str) -> io::Result<BoardFile> {
        let path = board_path(database);
        loop {
            let file = open_or_create(Path::new(&path), Path::new(database))?;
            wait_for(&file, FlockOperation::LockExclusive)?;
            // Whoever had the lock before may have removed the file.
            let there = rustix::fs::stat(&path).ok().map(|stat| (stat.st_dev, stat.st_ino));
            let ours = rustix::fs::fstat(&file)?;
            if there == Some((ours.st_dev, ours.st_ino)) {
                return BoardFile::map(file, database);
            }
        }
    }

    fn map(file: File, database: &str) -> io::Result<BoardFile> {
        let there = file.metadata()?.len().min(BYTES as u64);
        // Written, not only made longer: where the disk has no room for it, a store to the mapping would end the process.
        file.write_all_at(&vec![0; BYTES - there as usize], there)?;
        // SAFETY: a new mapping of a file that is at least so long, and that nobody cuts.
        let words = unsafe {
            mmap(std::ptr::null_mut(), BYTES, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED, &file, 0)?
        };
        let words = NonNull::new(words.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(BoardFile { file, words, log_path: log_path(database), log: Mutex::default(), pid: std::process::id() })
    }
}

impl BoardFile {
    fn behind_words(&self) -> &BehindWords {
        // SAFETY: mapped in `open` for as long as the value lives, behind the words and so aligned; consists of atomics.
        unsafe { self.words.byte_add(WORDS_BYTES).cast().as_ref() }
    }
}

fn open_or_create(path: &Path, database: &Path) -> io::Result<File> {
    match open_beside(path, database) {
        // Somebody else may have made it meanwhile.
        Err(error) if error.kind() == io::ErrorKind::NotFound => match create_beside(path, database) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => open_beside(path, database),
            created => created,
        },
        opened => opened,
    }
}

impl Drop for BoardFile {
    fn drop(&mut self) {
        // SAFETY: mapped in `open`, and nobody has a reference to it any more.
        let _ = unsafe { munmap(self.words.as_ptr().cast(), BYTES) };
    }
}

/// Waits for a lock.
fn wait_for(file: &File, operation: FlockOperation) -> io::Result<()> {
    loop {
        match flock(file, operation) {
            Err(Errno::INTR) => {}
            result => return Ok(result?),
        }
    }
}

impl Common for BoardFile {
    fn words(&self) -> &[AtomicU64] {
        // SAFETY: mapped in `open` for as long as the value lives, aligned to a page; the words are atomic.
        unsafe { std::slice::from_raw_parts(self.words.as_ptr(), WORDS) }
    }

    fn lock_unless(&self, frame: u32, done: &dyn Fn() -> bool) -> Result<bool, Code> {
        if std::process::id() != self.pid {
            return Err(Code::MISUSE);
        }
        let unlocks = &self.behind_words().unlocks;
        loop {
            let count = unlocks.count.load(SeqCst);
            if done() {
                return Ok(false);
            }
            match flock(&self.file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(true),
                Err(Errno::INTR) => continue,
                Err(Errno::WOULDBLOCK) => {}
                Err(_) => return Err(Code::IOERR_LOCK),
            }
            unlocks.waiting.fetch_add(1, SeqCst);
            let bits = if frame == 0 { futex::ALL } else { futex::bit_of(frame) };
            futex::wait(&unlocks.count, count, bits, PATIENCE);
            unlocks.waiting.fetch_sub(1, SeqCst);
        }
    }

    fn unlock(&self, logged: Range<u32>) {
        // An open file's lock can always be released.
        let _ = flock(&self.file, FlockOperation::Unlock);
        let unlocks = &self.behind_words().unlocks;
        unlocks.count.fetch_add(1, SeqCst);
        if unlocks.waiting.load(SeqCst) > 0 {
            // Those who are woken in vain, or died meanwhile, cost no more than `PATIENCE`.
            let done = logged.take(32).fold(0, |bits, frame| bits | futex::bit_of(frame).get());
            if let Some(waiting) = NonZeroU32::new(!done) {
                futex::wake(&unlocks.count, 1, waiting);
            }
            if let Some(done) = NonZeroU32::new(done) {
                futex::wake(&unlocks.count, u32::MAX, done);
            }
        }
    }

    fn tickets(&self) -> &Tickets {
        &self.behind_words().tickets
    }

    fn gathering(&self) -> &Gathering {
        &self.behind_words().gathering
    }

    fn join(&self) -> Result<bool, Code> {
        let log = File::open(Path::new(&self.log_path)).map_err(|_| Code::CANTOPEN)?;
        let alone = match flock(&log, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => true,
            Err(Errno::WOULDBLOCK) => false,
            Err(_) => return Err(Code::IOERR_LOCK),
        };
        // Not in one step, but whoever joins has the board's lock.
        match flock(&log, FlockOperation::NonBlockingLockShared) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Err(Code::BUSY),
            Err(_) => return Err(Code::IOERR_LOCK),
        }
        *lock(&self.log) = Some(log);
        Ok(alone)
    }

    fn leave(&self) {
        *lock(&self.log) = None;
    }

    fn identity(&self, image: &str) -> u64 {
        // Changes with every start of the system.
        let Ok(boot) = std::fs::read_to_string("/proc/sys/kernel/random/boot_id") else { return 0 };
        let number = |stat: rustix::fs::Stat| (stat.st_dev, stat.st_ino);
        let of = |path: &str| rustix::fs::stat(path).map(number);
        let (Ok(board), Ok(log), Ok(image)) =
            (rustix::fs::fstat(&self.file).map(number), of(&self.log_path), of(image))
        else {
            return 0;
        };
        let mut hasher = DefaultHasher::new();
        (boot, board, log, image).hash(&mut hasher);
        hasher.finish().max(1)
    }
}
