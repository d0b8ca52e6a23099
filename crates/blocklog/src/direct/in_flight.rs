//! Several direct writes, or reads, in flight together, by io_uring (Linux 5.6).
//!
//! A direct write returns when the device has it, so several of them take as many times as long as
//! one. So do reads. The ring is made with the first use. Where the kernel has none, or a sandbox
//! forbids it, the caller writes or reads one after the other.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use io_uring::{IoUring, opcode, squeue, types};
use rustix::io::Errno;

use crate::AlignedBuffer;

/// So many writes or reads are in flight at once.
const ENTRIES: u32 = 64;

#[derive(Default)]
pub enum InFlight {
    #[default]
    Unused,
    Ring(Box<IoUring>),
    /// This kernel has none.
    Without,
}

impl std::fmt::Debug for InFlight {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            InFlight::Unused => "Unused",
            InFlight::Ring(_) => "Ring",
            InFlight::Without => "Without",
        })
    }
}

impl InFlight {
    fn ring(&mut self) -> Option<&mut IoUring> {
        if matches!(self, InFlight::Unused) {
            *self = IoUring::new(ENTRIES)
                .map_or(InFlight::Without, |ring| InFlight::Ring(Box::new(ring)));
        }
        match self {
            InFlight::Ring(ring) => Some(ring),
            InFlight::Unused | InFlight::Without => None,
        }
    }

    /// Answers all of these in their order, and of each whether it was read. Else it is to be read
    /// in another way.
    pub fn read(
        &mut self,
        file: &File,
        reads: Vec<(AlignedBuffer, u64)>,
    ) -> io::Result<Vec<(AlignedBuffer, u64, bool)>> {
        let mut done = Vec::with_capacity(reads.len());
        let mut next = reads;
        while !next.is_empty() {
            let mut rest = next;
            next = rest.split_off(rest.len().min(ENTRIES as usize));
            let ring = if rest.len() > 1 { self.ring() } else { None };
            let read = ring.map(|ring| {
                let entries = rest.iter_mut().map(|(buffer, offset)| {
                    let (to, length) = (buffer.as_mut_ptr(), buffer.len() as u32);
                    opcode::Read::new(types::Fd(file.as_raw_fd()), to, length)
                        .offset(*offset)
                        .build()
                });
                together(ring, entries)
            });
            let results = match read.transpose() {
                Ok(results) => results.unwrap_or_else(|| vec![0; rest.len()]),
                Err(error) => {
                    // Some may still be in flight, and write to this memory. It is given up.
                    std::mem::forget(rest);
                    *self = InFlight::Without;
                    return Err(error);
                }
            };
            done.extend(rest.into_iter().zip(results).map(|((buffer, offset), result)| {
                let is_read = result >= 0 && result as usize == buffer.len();
                (buffer, offset, is_read)
            }));
        }
        Ok(done)
    }

    /// Answers those that are to be written in another way: all of them without a ring, and what
    /// was written in part or refused. After an error of the device nothing is in flight any more.
    pub fn write(
        &mut self,
        file: &File,
        writes: Vec<(AlignedBuffer, u64)>,
    ) -> io::Result<Vec<(AlignedBuffer, u64)>> {
        if writes.len() < 2 {
            return Ok(writes);
        }
        let Some(ring) = self.ring() else { return Ok(writes) };
        let mut left = Vec::new();
        let mut next = writes;
        while !next.is_empty() {
            let mut rest = next;
            let later = rest.split_off(rest.len().min(ENTRIES as usize));
            let entries = rest.iter().map(|(blocks, offset)| {
                let (from, length) = (blocks.as_ptr(), blocks.len() as u32);
                opcode::Write::new(types::Fd(file.as_raw_fd()), from, length)
                    .offset(*offset)
                    .build()
            });
            match together(ring, entries) {
                Ok(results) => {
                    for (write, result) in rest.into_iter().zip(results) {
                        if !is_written(&write, result)? {
                            left.push(write);
                        }
                    }
                }
                Err(error) => {
                    // Some may still be in flight, and read from this memory. It is given up.
                    std::mem::forget(rest);
                    *self = InFlight::Without;
                    return Err(error);
                }
            }
            next = later;
        }
        Ok(left)
    }
}

/// False: it has to be written in another way.
fn is_written((blocks, _): &(AlignedBuffer, u64), result: i32) -> io::Result<bool> {
    if result >= 0 {
        return Ok(result as usize == blocks.len());
    }
    let refusals = [Errno::INVAL, Errno::OPNOTSUPP, Errno::NOSYS, Errno::AGAIN, Errno::INTR];
    match refusals.iter().any(|errno| errno.raw_os_error() == -result) {
        true => Ok(false),
        false => Err(io::Error::from_raw_os_error(-result)),
    }
}

/// Answers what each has come to: bytes, or an error below 0. An error of the ring: some may still
/// be in flight.
fn together(
    ring: &mut IoUring,
    entries: impl ExactSizeIterator<Item = squeue::Entry>,
) -> io::Result<Vec<i32>> {
    let mut results = vec![0; entries.len()];
    for (index, entry) in entries.enumerate() {
        // SAFETY: file and memory live until the call has ended: the loop below waits for all, and
        // after an error the caller gives the memory up.
        unsafe { ring.submission().push(&entry.user_data(index as u64)) }
            .map_err(io::Error::other)?;
    }
    let mut ended = 0;
    while ended < results.len() {
        match ring.submit_and_wait(1) {
            Ok(_) => {}
            Err(error) if is_passing(&error) => {}
            Err(error) => return Err(error),
        }
        for done in ring.completion() {
            results[done.user_data() as usize] = done.result();
            ended += 1;
        }
    }
    Ok(results)
}

/// A signal came, or the kernel is short of memory for a moment.
fn is_passing(error: &io::Error) -> bool {
    [Errno::INTR, Errno::AGAIN, Errno::BUSY]
        .iter()
        .any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;

    #[test]
    fn what_is_in_flight_together_is_there_and_what_fails_is_answered() {
        let file = tempfile::tempfile().unwrap();
        let blocks = |byte: u8| {
            let mut blocks = AlignedBuffer::zeroed(4096);
            blocks.fill(byte);
            blocks
        };
        let mut in_flight = InFlight::default();
        let writes = (0..150).map(|n| (blocks(n), u64::from(n) * 4096)).collect();
        let left = in_flight.write(&file, writes).unwrap();
        if matches!(in_flight, InFlight::Without) {
            println!("skipped: no io_uring here");
            return;
        }
        assert!(left.is_empty());
        for n in 0..150 {
            let mut found = [0; 4096];
            file.read_exact_at(&mut found, u64::from(n) * 4096).unwrap();
            assert_eq!(found, [n; 4096]);
        }
        let places = (0..150).rev().map(|n| (blocks(255), n * 4096));
        let read =
            in_flight.read(&file, places.chain([(blocks(0), 150 * 4096)]).collect()).unwrap();
        for (n, (found, offset, is_read)) in (0..150).rev().zip(&read) {
            assert!(*is_read && *offset == u64::from(n) * 4096 && **found == [n; 4096]);
        }
        assert!(!read[150].2, "there is nothing behind the end");
        let read_only = File::open("/proc/self/exe").unwrap();
        let writes = vec![(blocks(1), 0), (blocks(2), 4096)];
        let error = in_flight.write(&read_only, writes).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(Errno::BADF.raw_os_error()));
    }
}

#[cfg(test)]
mod death {
    use std::os::unix::fs::{FileExt, OpenOptionsExt};
    use std::path::Path;
    use std::process::Command;
    use std::time::Duration;

    use oneflush_testing::named;

    use super::*;
    use crate::record_lock::record_lock_at;

    const FILE: &str = "ONEFLUSH_TEST_IN_FLIGHT";
    const WRITE_BYTES: usize = 1 << 20;
    const LOCK_AT: i64 = 1 << 62;

    fn open(path: &Path) -> File {
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(false);
        options.custom_flags(libc::O_DIRECT).open(path).unwrap()
    }

    /// Takes the lock, has all writes in flight, and dies.
    fn die(path: &Path) {
        let file = open(path);
        record_lock_at(&file, libc::F_OFD_SETLK, libc::F_WRLCK, LOCK_AT).unwrap();
        let Ok(mut ring) = IoUring::new(ENTRIES) else { return };
        let mut blocks = AlignedBuffer::zeroed(WRITE_BYTES);
        blocks.fill(2);
        for n in 0..u64::from(ENTRIES) {
            let (fd, length) = (types::Fd(file.as_raw_fd()), WRITE_BYTES as u32);
            let write = opcode::Write::new(fd, blocks.as_ptr(), length);
            let write = write.offset(n * u64::from(length)).build();
            // SAFETY: the kernel keeps the memory when the process dies.
            unsafe { ring.submission().push(&write) }.unwrap();
        }
        ring.submit().unwrap();
        rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL)
            .unwrap();
    }

    /// `mvbt` relies on it: nobody judges what a dead process may still be writing.
    #[test]
    fn locks_of_the_open_file_that_writes_are_kept_until_nothing_is_in_flight() {
        if let Some(path) = std::env::var_os(FILE) {
            return die(Path::new(&path));
        }
        let folder = tempfile::tempdir_in(std::env::current_dir().unwrap()).unwrap();
        let path = folder.path().join("file");
        let file = open(&path);
        let mut block = AlignedBuffer::zeroed(WRITE_BYTES);
        let places: Vec<u64> = (0..u64::from(ENTRIES)).map(|n| n * WRITE_BYTES as u64).collect();
        places.iter().for_each(|&at| file.write_all_at(&block, at).unwrap());
        file.sync_all().unwrap();
        let mut child = Command::new(std::env::current_exe().unwrap());
        let this = named!(locks_of_the_open_file_that_writes_are_kept_until_nothing_is_in_flight);
        child.args(["--exact", this, "--nocapture"]).env(FILE, &path);
        child.status().unwrap();
        let asked = || record_lock_at(&file, libc::F_OFD_GETLK, libc::F_WRLCK, LOCK_AT);
        while asked() != Ok(libc::F_UNLCK) {
            std::thread::sleep(Duration::from_micros(100));
        }
        let mut written = || {
            let read = places.iter().map(|&at| {
                file.read_exact_at(&mut block, at).unwrap();
                block.to_vec()
            });
            read.collect::<Vec<_>>().concat()
        };
        let before = written();
        std::thread::sleep(Duration::from_millis(300));
        assert!(before == written(), "something was written after the lock was free");
    }
}
