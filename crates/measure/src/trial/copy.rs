//! A consistent copy of a database that may be in use. Of the original, files are opened to read
//! and read locks are taken, as by one more reader.
//!
//! - **Rollback modes.** The shared lock: nobody writes to the file. A journal without a writer is
//!   hot. So the journal is copied too, and SQLite rolls the *copy* back.
//! - **WAL mode.** The shared lock, and a read lock on the byte of checkpoints: the file stands
//!   still. Writers go on. Of the WAL its valid beginning counts, as after a crash.
//! - **No lock to be had, or held too long.** File and journal are as large and as old after the
//!   copying as before. Otherwise it is done again.
//!
//! SQLite itself would make a `-shm` beside a database in WAL mode, and roll a hot journal back. So
//! SQLite never opens the original.
//!
//! 1. A lock is held for [`HOLD`] at most: a writer in a rollback mode waits for it.
//! 2. A clone (`FICLONE`) is taken of a large database where the file system has it. Else the room
//!    is looked at first. A smaller one is copied: the first write to a block that is shared costs
//!    more than the original's would.
//! 3. What is copied is made durable in pieces, so that the time that is left is known.

use std::fs::{self, File, Metadata};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use oneflush_vfs::survey;

use super::original::{Database, beside, journal_of};
use super::{TrialError, lock};
use crate::interrupt;
use crate::mode::Journal;

/// Writers in a rollback mode wait for so long at most. Python's driver gives up after 5 s.
const HOLD: Duration = Duration::from_secs(2);
/// So long a writer is waited for.
const PATIENCE: Duration = Duration::from_secs(1);
const RETRY: Duration = Duration::from_millis(20);
/// Two changes within a tick of the kernel's clock have the same time.
const TICK: Duration = Duration::from_millis(20);
const TRIES: u32 = 4;

const CLONED_BYTES_MIN: u64 = 256 << 20;
const PIECE_BYTES: usize = 1 << 20;
const DURABLE_BYTES: u64 = 64 << 20;
/// Before this time a rate says little.
const RATE_AFTER: Duration = Duration::from_secs(1);

/// For the WAL, the log, what the trial writes into the copy, and some room that stays free.
pub fn room_bytes(page_bytes: u32) -> u64 {
    let page_bytes = u64::from(page_bytes.max(4096));
    6_000 * page_bytes + (16 << 20)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copied {
    pub bytes: u64,
    /// The file system shares the blocks.
    pub cloned: bool,
    /// Of the WAL or the hot journal that came with it.
    pub side_bytes: u64,
}

/// Copies the database to `to`, with what beside it belongs to its state, before `deadline`.
pub fn copy(database: &Database, to: &Path, deadline: Instant) -> Result<Copied, TrialError> {
    for _ in 0..TRIES {
        if let Some(copied) = Attempt::new(database, to, deadline)?.run()? {
            return Ok(copied);
        }
        remove_all(to)?;
    }
    let users = survey(&database.path).map(|survey| survey.users).unwrap_or_default();
    Err(TrialError::Changing {
        path: database.named.clone(),
        users,
        directory: database.directory.clone(),
    })
}

fn remove_all(to: &Path) -> Result<(), TrialError> {
    for suffix in ["", "-wal", "-journal"] {
        match fs::remove_file(beside(to, suffix)) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                return Err(TrialError::Io { directory: to.to_owned(), source });
            }
            _ => {}
        }
    }
    Ok(())
}

struct Attempt<'a> {
    database: &'a Database,
    to: &'a Path,
    /// The copying, after the waiting for locks.
    begun: Instant,
    deadline: Instant,
    file: File,
    /// Those who hold the locks: the database file itself, and the WAL index.
    held: Option<Held>,
    copied_bytes: u64,
}

/// Locks go with the open files that have them.
struct Held {
    since: Instant,
    _files: Vec<File>,
    /// A writer in a rollback mode is in a transaction, and has not written to the file.
    is_reserved: bool,
}

/// What tells whether a file was changed.
#[derive(PartialEq, Eq)]
struct Look(Option<(u64, u64, i64, i64, i64, i64)>);

impl Look {
    fn at(path: &Path) -> Look {
        let of = |file: Metadata| {
            let changed = (file.mtime(), file.mtime_nsec(), file.ctime(), file.ctime_nsec());
            (file.ino(), file.len(), changed.0, changed.1, changed.2, changed.3)
        };
        Look(fs::metadata(path).ok().map(of))
    }
}

impl<'a> Attempt<'a> {
    fn new(
        database: &'a Database,
        to: &'a Path,
        deadline: Instant,
    ) -> Result<Attempt<'a>, TrialError> {
        let file = File::open(&database.path).map_err(|source| database.unread(source))?;
        let (begun, held, copied_bytes) = (Instant::now(), None, 0);
        Ok(Attempt { database, to, begun, deadline, file, held, copied_bytes })
    }

    /// None: the database was changed meanwhile.
    fn run(mut self) -> Result<Option<Copied>, TrialError> {
        let database = self.database;
        self.held = self.lock()?;
        self.settle()?;
        self.begun = Instant::now();
        let (path, journal, wal) =
            (&database.path, journal_of(&database.path), beside(&database.path, "-wal"));
        let looks = || [Look::at(path), Look::at(&journal)];
        let before = looks();
        let is_wal = database.journal == Journal::Wal;
        let hot = self.hot_journal(&journal)?;
        let from = self.file.try_clone().map_err(|source| database.unread(source))?;
        let (bytes, cloned) = self.copy_file(&from, self.to)?;
        let mut side_bytes = 0;
        if let Some(journal) = hot {
            side_bytes += self.copy_file(&journal, &beside(self.to, "-journal"))?.0;
        }
        if is_wal && let Some(wal) = opened(&wal).map_err(|source| database.unread(source))? {
            side_bytes += self.copy_file(&wal, &beside(self.to, "-wal"))?.0;
        }
        if self.held.is_none() && before != looks() {
            return Ok(None);
        }
        Ok(Some(Copied { bytes, cloned, side_bytes }))
    }

    /// None: there is no lock to be had, and whether the files stand still must be seen.
    fn lock(&self) -> Result<Option<Held>, TrialError> {
        let until = Instant::now() + PATIENCE;
        loop {
            match self.try_lock() {
                Ok(held) => return Ok(Some(held)),
                Err(error) if !lock::is_taken(&error) || Instant::now() >= until => {
                    return Ok(None);
                }
                Err(_) => {}
            }
            check_interrupt()?;
            std::thread::sleep(RETRY);
        }
    }

    fn try_lock(&self) -> io::Result<Held> {
        let file = File::open(&self.database.path)?;
        lock::share(&file)?;
        let is_reserved = lock::is_reserved(&file)?;
        let mut files = vec![file];
        if self.database.journal == Journal::Wal {
            // Without a WAL index nobody has the database open, and somebody could come.
            let index = File::open(beside(&self.database.path, "-shm"))?;
            lock::hold_checkpoints(&index)?;
            files.push(index);
        }
        Ok(Held { since: Instant::now(), _files: files, is_reserved })
    }

    /// Where only the time of the last change will tell, that time must be over.
    fn settle(&self) -> Result<(), TrialError> {
        if self.held.is_some() {
            return Ok(());
        }
        let changed = self.file.metadata().and_then(|file| file.modified());
        let changed = changed.map_err(|source| self.database.unread(source))?;
        if SystemTime::now().duration_since(changed).is_ok_and(|age| age < TICK) {
            std::thread::sleep(TICK);
        }
        Ok(())
    }

    /// A journal that the next open would roll back.
    fn hot_journal(&self, path: &Path) -> Result<Option<File>, TrialError> {
        let unread = |source| self.database.unread(source);
        if self.held.as_ref().is_some_and(|held| held.is_reserved) {
            return Ok(None);
        }
        let Some(journal) = opened(path).map_err(unread)? else { return Ok(None) };
        let length = journal.metadata().map_err(unread)?.len();
        let mut magic = [0; 8];
        if length < magic.len() as u64 {
            return Ok(None);
        }
        journal.read_exact_at(&mut magic, 0).map_err(unread)?;
        if magic == [0; 8] {
            return Ok(None);
        }
        // With several databases their common journal is named at the end, behind it the magic
        // again.
        let mut end = [0; 8];
        journal.read_exact_at(&mut end, length - magic.len() as u64).map_err(unread)?;
        if length > 512 && end == magic {
            return Err(TrialError::ManyDatabases(self.database.named.clone()));
        }
        Ok(Some(journal))
    }

    /// The bytes of the copy, and whether it is a clone.
    fn copy_file(&mut self, from: &File, to: &Path) -> Result<(u64, bool), TrialError> {
        let (path, target) = (self.database.named.clone(), to.to_owned());
        let failed = move |source: io::Error| match source.kind() {
            io::ErrorKind::StorageFull => TrialError::Full(path.clone()),
            _ => TrialError::Copy { path: path.clone(), to: target.clone(), source },
        };
        let copy = File::create_new(to).map_err(&failed)?;
        let length = from.metadata().map_err(&failed)?.len();
        if length >= CLONED_BYTES_MIN && rustix::fs::ioctl_ficlone(&copy, from).is_ok() {
            return Ok((copy.metadata().map_err(&failed)?.len(), true));
        }
        self.check_room(length)?;
        let mut copy = copy;
        let mut piece = vec![0; PIECE_BYTES];
        let (mut done, mut durable) = (0, 0);
        // A WAL may grow meanwhile. What was there at the begin is enough.
        while done < length {
            let want = (length - done).min(PIECE_BYTES as u64) as usize;
            let read = from.read_at(&mut piece[..want], done).map_err(&failed)?;
            if read == 0 {
                break;
            }
            copy.write_all(&piece[..read]).map_err(&failed)?;
            done += read as u64;
            self.copied_bytes += read as u64;
            if done - durable >= DURABLE_BYTES {
                copy.sync_data().map_err(&failed)?;
                durable = done;
            }
            self.keep_time()?;
        }
        copy.sync_all().map_err(&failed)?;
        Ok((done, false))
    }

    fn check_room(&self, bytes: u64) -> Result<(), TrialError> {
        let directory = self.to.parent().unwrap_or(self.to);
        let free_bytes = free_bytes(directory)?;
        let needed_bytes = bytes + room_bytes(self.database.page_bytes);
        if free_bytes >= needed_bytes {
            return Ok(());
        }
        Err(TrialError::NoRoom {
            path: self.database.named.clone(),
            directory: directory.parent().unwrap_or(directory).to_owned(),
            needed_bytes,
            free_bytes,
        })
    }

    /// Lets the locks go when they were held for long enough, and ends what would last too long.
    fn keep_time(&mut self) -> Result<(), TrialError> {
        check_interrupt()?;
        if self.held.as_ref().is_some_and(|held| held.since.elapsed() > HOLD) {
            self.held = None;
        }
        let elapsed = self.begun.elapsed();
        if elapsed < RATE_AFTER {
            return Ok(());
        }
        let bytes = self.database.bytes;
        let rate = self.copied_bytes as f64 / elapsed.as_secs_f64();
        let seconds_of = |bytes: u64| Duration::from_secs_f64(bytes as f64 / rate.max(1.0));
        let left = seconds_of(bytes.saturating_sub(self.copied_bytes));
        // What is as good as done is not given up.
        if left < RATE_AFTER || Instant::now() + left <= self.deadline {
            return Ok(());
        }
        Err(TrialError::TooLarge {
            path: self.database.named.clone(),
            bytes,
            // Half the time is for copying. Copying is not always as fast.
            seconds: (seconds_of(bytes).as_secs_f64() * 2.5).ceil() as u64 + 10,
            directory: self.database.directory.clone(),
        })
    }
}

/// None: there is no such file.
fn opened(path: &Path) -> io::Result<Option<File>> {
    match File::open(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

pub fn free_bytes(directory: &Path) -> Result<u64, TrialError> {
    let room = rustix::fs::statvfs(directory).map_err(|errno| TrialError::Io {
        directory: directory.to_owned(),
        source: errno.into(),
    })?;
    Ok(room.f_bavail * room.f_frsize)
}

pub fn check_interrupt() -> Result<(), TrialError> {
    if interrupt::requested() { Err(TrialError::Stopped) } else { Ok(()) }
}

impl Database {
    fn unread(&self, source: io::Error) -> TrialError {
        TrialError::Read { path: self.named.clone(), source }
    }
}
