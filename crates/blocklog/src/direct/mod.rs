//! A real file behind the log: direct I/O, and one durable write at the price of the cheapest that the device has.
//!
//! Direct I/O keeps the log out of the page cache, where no one would read it again, and out of the way of write-back. It makes
//! nothing durable: the device's own cache has to be flushed, by `RWF_DSYNC` or `fdatasync`.
//!
//! A file system may refuse direct I/O when it is turned on, or by the answer to a read or a write.
//! Or it takes it and does buffered I/O in silence. Everything holds there as well, at the price of
//! a copy and of memory that the kernel may keep. [`DirectFile::is_direct`] tells.
//!
//! After a write or a sync that failed, the kernel may have dropped what it could not write. A
//! second sync may succeed all the same. So the file is poisoned: it only reads, until it is opened
//! anew. The exception is a full disk while the file is extended: no record was there yet, and the
//! file gets its old size back.

mod measure;
mod open;

use std::fs::File;
use std::io::{self, IoSlice};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::{Errno, ReadWriteFlags, pwritev2};

use self::measure::Measuring;
use crate::{AlignedBuffer, Error, Storage};

pub use open::sync_directory;

/// Zeros written in one call when the file is extended.
const ZEROS_BYTES: usize = 1 << 20;

/// What makes a write durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DurableWrite {
    /// One call: `pwritev2` with `RWF_DSYNC`. Where the device can, the kernel makes it one forced write (FUA) without a flush.
    Dsync,
    /// `pwrite`, then `fdatasync`.
    WriteThenSync,
}

/// A file that is read and written past the page cache, where that can be.
#[derive(Debug)]
pub struct DirectFile {
    file: File,
    block_bytes: usize,
    /// Until the file system refuses a read or a write by it.
    direct: AtomicBool,
    /// `DurableWrite::Dsync` was chosen, or is until the file system refuses it.
    dsync: AtomicBool,
    /// Until it is chosen. Never contended where the caller keeps to one write at a time.
    measuring: Mutex<Option<Measuring>>,
    poisoned: AtomicBool,
    /// Who opened it. A child of a fork shares the descriptor, and knows nothing of what its parent appends.
    pid: u32,
}

impl DirectFile {
    /// Opens, or (`create`) makes a file that must not exist, with mode 0644 less the umask. Its first durable writes of one block tell which kind is
    /// the cheapest.
    pub fn open(path: &Path, create: bool) -> Result<DirectFile, Error> {
        if create { open::create(path, None) } else { open::existing(path, true) }
    }

    /// Opens a file that is only to be read; every write fails.
    pub fn open_to_read(path: &Path) -> Result<DirectFile, Error> {
        open::existing(path, false)
    }

    /// Makes a file that must not exist, with the database's owner, group and mode ([`crate::belonging`]).
    pub fn create_beside(path: &Path, database: &Path) -> Result<DirectFile, Error> {
        open::create(path, Some(database))
    }

    /// Opens a file that is to have the database's owner, group and mode.
    pub fn open_beside(path: &Path, database: &Path) -> Result<DirectFile, Error> {
        open::existing_beside(path, database)
    }

    /// False where the file system refused direct I/O, or does buffered I/O in its place.
    pub fn is_direct(&self) -> bool {
        self.direct.load(Ordering::Relaxed)
    }

    /// Goes on without direct I/O where that was the reason of an error; true: the same call is to
    /// be made again. Some file systems (of FUSE) take the flag, and refuse each read or write with
    /// it.
    fn goes_on_buffered(&self, errno: Option<i32>) -> bool {
        let refused = errno == Some(Errno::INVAL.raw_os_error()) && self.direct.swap(false, Ordering::Relaxed);
        refused && fcntl_getfl(&self.file).and_then(|flags| fcntl_setfl(&self.file, flags - OFlags::DIRECT)).is_ok()
    }

    /// What was chosen; while that is being measured, `Dsync`.
    pub fn durable_write(&self) -> DurableWrite {
        if self.dsync.load(Ordering::Relaxed) { DurableWrite::Dsync } else { DurableWrite::WriteThenSync }
    }

    /// In place of measuring.
    pub fn set_durable_write(&self, choice: DurableWrite) {
        self.dsync.store(choice == DurableWrite::Dsync, Ordering::Relaxed);
        *self.measuring() = None;
    }

    fn measuring(&self) -> MutexGuard<'_, Option<Measuring>> {
        self.measuring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How a write of so many bytes is to be done, if it counts for the choice.
    fn to_measure(&self, length: usize) -> Option<DurableWrite> {
        self.measuring().as_ref().filter(|_| length == self.block_bytes).map(Measuring::next)
    }

    fn note_time(&self, time: Duration) {
        let choice = self.measuring().as_mut().and_then(|measuring| measuring.took(time));
        if let Some(choice) = choice {
            self.set_durable_write(choice);
        }
    }

    /// Whether a write or a sync failed, so that nothing more is written.
    pub fn is_poisoned(&self) -> bool {
        self.poisoned.load(Ordering::Acquire)
    }

    fn check_usable(&self) -> io::Result<()> {
        if self.is_poisoned() {
            return Err(io::Error::other(
                "an earlier write or sync of this file failed; nothing more is written until it is opened anew",
            ));
        }
        if std::process::id() != self.pid {
            return Err(io::Error::other("the file was opened before a fork; the child must open it itself"));
        }
        Ok(())
    }

    fn poison<T>(&self, result: io::Result<T>) -> io::Result<T> {
        if result.is_err() {
            self.poisoned.store(true, Ordering::Release);
        }
        result
    }

    /// All of it, or an error.
    fn write_all(&self, blocks: &[u8], offset: u64, flags: ReadWriteFlags) -> io::Result<()> {
        let mut done = 0;
        while done < blocks.len() {
            match pwritev2(&self.file, &[IoSlice::new(&blocks[done..])], offset + done as u64, flags) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => done += written,
                Err(Errno::INTR) => {}
                // Refused before anything was written.
                Err(errno) if self.goes_on_buffered(Some(errno.raw_os_error())) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(())
    }

    fn write_as(&self, choice: DurableWrite, blocks: &[u8], offset: u64) -> io::Result<()> {
        match choice {
            DurableWrite::Dsync => self.write_all(blocks, offset, ReadWriteFlags::DSYNC),
            DurableWrite::WriteThenSync => {
                self.write_all(blocks, offset, ReadWriteFlags::empty())?;
                self.file.sync_data()
            }
        }
    }

    /// Writes zeros behind the end. A partly filled last block is filled up.
    fn append_zeros(&self, size_bytes: u64, new_bytes: u64) -> io::Result<()> {
        let mut offset = size_bytes - size_bytes % self.block_bytes as u64;
        let zeros = AlignedBuffer::zeroed(ZEROS_BYTES.min((new_bytes - offset) as usize));
        if offset < size_bytes {
            let mut tail = AlignedBuffer::zeroed(self.block_bytes);
            // Asked for whole, as direct I/O wants it; what is behind the end stays zero.
            let read = match self.file.read_at(&mut tail, offset) {
                Err(error) if self.goes_on_buffered(error.raw_os_error()) => self.file.read_at(&mut tail, offset)?,
                read => read?,
            };
            if read as u64 != size_bytes - offset {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.write_all(&tail, offset, ReadWriteFlags::empty())?;
            offset += tail.len() as u64;
        }
        while offset < new_bytes {
            let length = (new_bytes - offset).min(zeros.len() as u64);
            self.write_all(&zeros[..length as usize], offset, ReadWriteFlags::empty())?;
            offset += length;
        }
        Ok(())
    }
}

impl Storage for DirectFile {
    fn block_bytes(&self) -> usize {
        self.block_bytes
    }

    fn size_bytes(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        match self.file.read_exact_at(buffer, offset) {
            Err(error) if self.goes_on_buffered(error.raw_os_error()) => self.file.read_exact_at(buffer, offset),
            read => read,
        }
    }

    fn write_durable(&self, blocks: &[u8], offset: u64) -> io::Result<()> {
        self.check_usable()?;
        let measured = self.to_measure(blocks.len());
        let choice = measured.unwrap_or_else(|| self.durable_write());
        let began = Instant::now();
        let mut result = self.write_as(choice, blocks, offset);
        if choice == DurableWrite::Dsync && result.as_ref().is_err_and(is_refusal) {
            // Refused before anything was written.
            self.set_durable_write(DurableWrite::WriteThenSync);
            result = self.write_as(DurableWrite::WriteThenSync, blocks, offset);
        } else if measured.is_some() && result.is_ok() {
            self.note_time(began.elapsed());
        }
        self.poison(result)
    }

    fn write(&self, blocks: &[u8], offset: u64) -> io::Result<()> {
        self.check_usable()?;
        self.poison(self.write_all(blocks, offset, ReadWriteFlags::empty()))
    }

    fn flush(&self) -> io::Result<()> {
        self.check_usable()?;
        self.poison(self.file.sync_data())
    }

    fn extend(&self, size_bytes: u64) -> io::Result<()> {
        self.check_usable()?;
        let old_bytes = self.size_bytes()?;
        if old_bytes < size_bytes
            && let Err(error) = self.append_zeros(old_bytes, size_bytes)
        {
            if is_full(&error) && self.file.set_len(old_bytes).is_ok() {
                return Err(error);
            }
            return self.poison(Err(error));
        }
        // Also where it was long enough: who made it so may have died before the sync.
        self.poison(self.file.sync_data())
    }
}

/// The flag, or the call, is not known here.
fn is_refusal(error: &io::Error) -> bool {
    [Errno::OPNOTSUPP, Errno::NOSYS].iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

/// No room, or not for this user, or not in one file: nothing is wrong with what is there.
pub fn is_full(error: &io::Error) -> bool {
    [Errno::NOSPC, Errno::DQUOT, Errno::FBIG].iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}
