//! A real file behind the log: direct I/O, and the durable write that costs least on this device.
//!
//! Direct I/O keeps the log out of the page cache, where nobody would read it again, and out of the
//! way of write-back. It makes nothing durable. The device's own cache has to be flushed, by
//! `RWF_DSYNC` or `fdatasync`.
//!
//! A file system may refuse direct I/O when it is turned on, or by the answer to a read or a write.
//! Or it takes the flag and does buffered I/O in silence. Every promise holds there as well. It
//! costs a copy, and memory that the kernel may keep. [`DirectFile::is_direct`] tells.
//!
//! | state | left by | what works |
//! |---|---|---|
//! | measuring | 16 durable writes of one block | all; each kind of write is tried in turn |
//! | chosen | a refused `RWF_DSYNC` changes the choice | all |
//! | poisoned | opening the file anew | reads |
//!
//! After a failed write or sync the kernel may have dropped what it could not write, and a second
//! sync may succeed all the same. So the file is poisoned. The exception is a full disk while the
//! file is extended: no record was there yet, and the file gets its old size back.

#[cfg(feature = "uring")]
mod in_flight;
mod measure;
mod open;
mod zeros;

use std::fs::File;
use std::io::{self, IoSlice};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::fs::{Advice, OFlags, fadvise, fcntl_getfl, fcntl_setfl, fstat, stat};
use rustix::io::{Errno, ReadWriteFlags, pwrite, pwritev2};

use self::measure::Measuring;
use crate::belonging::is_at;
use crate::{AlignedBuffer, Storage, Written};

pub use measure::DurableWrite;
pub use open::sync_directory;
pub use zeros::zero_without_writing;

/// Zeros written in one call when the file is extended.
const ZEROS_BYTES: usize = 1 << 20;

/// A file that is read and written past the page cache, where that is possible.
#[derive(Debug)]
pub struct DirectFile {
    file: File,
    block_bytes: usize,
    alignment_bytes: usize,
    /// Direct I/O is on. The file system may still refuse a read or a write by it.
    direct: AtomicBool,
    /// `DurableWrite::Dsync` is in use. The file system may still refuse it.
    dsync: AtomicBool,
    /// `None` when the kind of write is chosen. Without contention, since one write runs at a time.
    measuring: Mutex<Option<Measuring>>,
    poisoned: AtomicBool,
    #[cfg(feature = "uring")]
    in_flight: Mutex<in_flight::InFlight>,
    written_bytes: AtomicU64,
    zeros_bytes: AtomicU64,
    #[cfg(feature = "uring")]
    reading: Mutex<in_flight::InFlight>,
    /// The process that opened the file. A child of a fork shares the descriptor, and knows nothing
    /// of what its parent appends.
    pid: u32,
}

impl DirectFile {
    /// Another descriptor of the same open file, for its record locks. They are kept until the
    /// last write of a process that has died is done, which may still be in flight then.
    pub fn of_same_open_file(&self) -> io::Result<File> {
        self.file.try_clone()
    }

    /// False: the file was deleted, or another one has its name. A name that leads nowhere now is
    /// no sign of that: the file may have been moved with its folder.
    pub fn has_name(&self, path: &Path) -> bool {
        is_at(&self.file, path)
            || (stat(path).is_err() && fstat(&self.file).is_ok_and(|ours| ours.st_nlink > 0))
    }

    /// False where the file system refused direct I/O, or does buffered I/O in its place.
    pub fn is_direct(&self) -> bool {
        self.direct.load(Ordering::Relaxed)
    }

    /// Turns direct I/O off where it was the reason of an error. True: the caller has to make the
    /// same call again. Some FUSE file systems take the flag, and refuse each read or write with
    /// it.
    fn goes_on_buffered(&self, errno: Option<i32>) -> bool {
        let refused = errno == Some(Errno::INVAL.raw_os_error())
            && self.direct.swap(false, Ordering::Relaxed);
        refused
            && fcntl_getfl(&self.file)
                .and_then(|flags| fcntl_setfl(&self.file, flags - OFlags::DIRECT))
                .is_ok()
    }

    /// The kind that was chosen. While it is being measured, `Dsync`.
    pub fn durable_write(&self) -> DurableWrite {
        if self.dsync.load(Ordering::Relaxed) {
            DurableWrite::Dsync
        } else {
            DurableWrite::WriteThenSync
        }
    }

    /// Sets the kind of write and ends the measuring.
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

    /// True if a write or a sync has failed. Nothing more is written.
    pub fn is_poisoned(&self) -> bool {
        self.poisoned.load(Ordering::Acquire)
    }

    fn check_usable(&self) -> io::Result<()> {
        if self.is_poisoned() {
            return Err(io::Error::other(
                "an earlier write or sync of this file failed; nothing more is written until it is \
                    opened anew [OF-209]",
            ));
        }
        if std::process::id() != self.pid {
            return Err(io::Error::other(
                "the file was opened before a fork; the child must open it itself [OF-210]",
            ));
        }
        Ok(())
    }

    fn poison<T>(&self, result: io::Result<T>) -> io::Result<T> {
        if result.is_err() {
            self.poisoned.store(true, Ordering::Release);
            // Without direct I/O the page cache may have what the device has not. Another user of
            // the file is to read what there is. A hint, as in `existing`.
            let _ = fadvise(&self.file, 0, None, Advice::DontNeed);
        }
        result
    }

    /// Writes all of it, or fails.
    fn write_all(&self, blocks: &[u8], offset: u64, flags: ReadWriteFlags) -> io::Result<()> {
        debug_assert!(!self.is_poisoned(), "nothing is written to a poisoned file");
        let mut done = 0;
        while done < blocks.len() {
            let (rest, place) = (&blocks[done..], offset + done as u64);
            // Without flags by the older call: not every emulator and sandbox knows the newer one.
            let written = match flags.is_empty() {
                true => pwrite(&self.file, rest, place),
                false => pwritev2(&self.file, &[IoSlice::new(rest)], place, flags),
            };
            match written {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => done += written,
                Err(Errno::INTR) => {}
                // The file system refused before anything was written.
                Err(errno) if self.goes_on_buffered(Some(errno.raw_os_error())) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        self.written_bytes.fetch_add(done as u64, Ordering::Relaxed);
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

    /// Writes zeros behind the end. Fills up a partly filled last block.
    fn append_zeros(&self, size_bytes: u64, new_bytes: u64) -> io::Result<()> {
        let mut offset = size_bytes - size_bytes % self.block_bytes as u64;
        if offset < size_bytes {
            let mut tail = AlignedBuffer::zeroed(self.block_bytes);
            // The whole block is asked for, as direct I/O wants it. What is behind the end stays
            // zero.
            let read = match self.file.read_at(&mut tail, offset) {
                Err(error) if self.goes_on_buffered(error.raw_os_error()) => {
                    self.file.read_at(&mut tail, offset)?
                }
                read => read?,
            };
            if read as u64 != size_bytes - offset {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.write_all(&tail, offset, ReadWriteFlags::empty())?;
            offset += tail.len() as u64;
        }
        self.write_zeros(offset..new_bytes)
    }

    fn write_zeros(&self, range: Range<u64>) -> io::Result<()> {
        if zero_without_writing(&self.file, range.clone()) {
            return Ok(());
        }
        let length = range.end.saturating_sub(range.start).min(ZEROS_BYTES as u64);
        let zeros = AlignedBuffer::zeroed(length as usize);
        let mut offset = range.start;
        while offset < range.end {
            let length = (range.end - offset).min(zeros.len() as u64);
            self.write_all(&zeros[..length as usize], offset, ReadWriteFlags::empty())?;
            offset += length;
            self.zeros_bytes.fetch_add(length, Ordering::Relaxed);
        }
        Ok(())
    }

    /// A full disk is no failure while the file is made longer: the file gets its old size back.
    fn longer(&self, old_bytes: u64, made: io::Result<()>) -> io::Result<()> {
        match made {
            Err(error) if is_full(&error) && self.file.set_len(old_bytes).is_ok() => Err(error),
            made => self.poison(made),
        }
    }
}

impl Storage for DirectFile {
    fn block_bytes(&self) -> usize {
        self.block_bytes
    }

    fn alignment_bytes(&self) -> usize {
        self.alignment_bytes
    }

    fn size_bytes(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        match self.file.read_exact_at(buffer, offset) {
            Err(error) if self.goes_on_buffered(error.raw_os_error()) => {
                self.file.read_exact_at(buffer, offset)
            }
            read => read,
        }
    }

    #[cfg(feature = "uring")]
    fn read_many(&self, reads: Vec<(AlignedBuffer, u64)>) -> io::Result<Vec<AlignedBuffer>> {
        // The page cache reads ahead itself. Who comes while another thread reads does not wait for
        // it, and a child of a fork has not the ring of its parent.
        let is_alone = self.is_direct() && std::process::id() == self.pid;
        let ring = self.reading.try_lock().ok().filter(|_| is_alone);
        let read = match ring {
            Some(mut ring) => ring.read(&self.file, reads)?,
            None => reads.into_iter().map(|(buffer, offset)| (buffer, offset, false)).collect(),
        };
        let finished = |(mut buffer, offset, is_read): (AlignedBuffer, u64, bool)| {
            if !is_read {
                self.read_at(&mut buffer, offset)?;
            }
            Ok(buffer)
        };
        read.into_iter().map(finished).collect()
    }

    fn write_durable(&self, blocks: &[u8], offset: u64) -> io::Result<()> {
        self.check_usable()?;
        let measured = self.to_measure(blocks.len());
        let choice = measured.unwrap_or_else(|| self.durable_write());
        let began = Instant::now();
        let mut result = self.write_as(choice, blocks, offset);
        if choice == DurableWrite::Dsync && result.as_ref().is_err_and(is_refusal) {
            // The kernel refused before anything was written.
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

    #[cfg(feature = "uring")]
    fn write_many(&self, writes: Vec<(AlignedBuffer, u64)>) -> io::Result<()> {
        self.check_usable()?;
        let left = match self.is_direct() {
            true => {
                let bytes: usize = writes.iter().map(|(blocks, _)| blocks.len()).sum();
                self.written_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
                let mut in_flight = self.in_flight.lock().unwrap_or_else(PoisonError::into_inner);
                self.poison(in_flight.write(&self.file, writes))?
            }
            // The page cache takes them one by one, and has them in flight together at the flush.
            false => writes,
        };
        left.iter().try_for_each(|(blocks, offset)| self.write(blocks, *offset))
    }

    fn flush(&self) -> io::Result<()> {
        self.check_usable()?;
        self.poison(self.file.sync_data())
    }

    fn extend(&self, size_bytes: u64) -> io::Result<()> {
        self.check_usable()?;
        let old_bytes = self.size_bytes()?;
        if old_bytes < size_bytes {
            self.longer(old_bytes, self.append_zeros(old_bytes, size_bytes))?;
        }
        // The sync is needed also where the file was long enough: its process may have died before
        // the sync.
        self.poison(self.file.sync_data())
    }

    fn zero(&self, range: Range<u64>) -> io::Result<()> {
        self.check_usable()?;
        let old_bytes = self.size_bytes()?;
        self.longer(old_bytes, self.write_zeros(range))
    }

    fn cut(&self, size_bytes: u64) -> io::Result<()> {
        self.check_usable()?;
        self.poison(self.file.set_len(size_bytes))
    }

    fn written(&self) -> Written {
        Written {
            bytes: self.written_bytes.load(Ordering::Relaxed),
            zeros_bytes: self.zeros_bytes.load(Ordering::Relaxed),
        }
    }
}

/// The kernel or the file system does not know the flag, or the call.
fn is_refusal(error: &io::Error) -> bool {
    [Errno::OPNOTSUPP, Errno::NOSYS]
        .iter()
        .any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

/// No room: on the disk, for this user, or in one file. Nothing is wrong with what is there.
pub fn is_full(error: &io::Error) -> bool {
    [Errno::NOSPC, Errno::DQUOT, Errno::FBIG]
        .iter()
        .any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}
