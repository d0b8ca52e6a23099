//! Workloads without SQLite: what a sync of a file, or a byte of one, costs in a directory.
//!
//! Each worker has a file of its own. It is written and read in units of one size: blocks of 4 KiB
//! or pieces of 256 KiB. A unit begins with its number in the file and goes on with random bytes.
//! So a log that writes differences does not profit from them, and the file can be checked
//! afterwards.
//!
//! Cold reads are of a file that no page cache has: not the kernel's of this file, and not that of
//! a file below a mount. So root drops the kernel's whole cache before.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use rustix::fs::{Advice, fadvise};
use serde::{Deserialize, Serialize};

use super::part::Part;
use super::unit::PIECE_BYTES;
use super::{FileError, Step, Stream, Unit, WorkloadError};
use crate::clock;

const BLOCK_BYTES: usize = 4 << 10;
/// The file of `overwrite`: 43 MiB.
const OVERWRITTEN_BLOCKS: u64 = 11_008;
/// 256 MiB of all workers together.
const PIECES_DEFAULT: u64 = 1024;
/// 64 MiB of all workers together.
const COLD_BLOCKS_DEFAULT: u64 = 16_384;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Files {
    /// A block at the end, and `fsync`.
    Append,
    /// A block at the end, without a sync.
    Unsynced,
    /// A block at a random place of a file that is there, and `fsync`.
    Overwrite,
    /// The first block again and again, and `fsync`.
    OneBlock,
    /// A piece at the end, without a sync.
    Stream,
    /// A piece at the end, and `fsync`.
    SyncedStream,
    /// A piece that is in the page cache.
    CachedRead,
    /// A piece that is not, one after the other.
    ColdRead,
    /// A block that is not in the page cache, each once, in random order.
    ColdReadRandom,
}

impl Files {
    const ALL: [(Files, &str); 9] = [
        (Files::Append, "append"),
        (Files::Unsynced, "append-unsynced"),
        (Files::Overwrite, "overwrite"),
        (Files::OneBlock, "one-block"),
        (Files::Stream, "stream"),
        (Files::SyncedStream, "synced-stream"),
        (Files::CachedRead, "cached-read"),
        (Files::ColdRead, "cold-read"),
        (Files::ColdReadRandom, "cold-read-random"),
    ];

    pub(super) fn find(word: &str) -> Option<Files> {
        Files::ALL.into_iter().find(|(_, name)| *name == word).map(|(files, _)| files)
    }

    pub(super) fn unit(self) -> Unit {
        match self {
            Files::Append | Files::Overwrite | Files::OneBlock | Files::SyncedStream => Unit::Sync,
            Files::Unsynced => Unit::Write,
            Files::Stream | Files::CachedRead | Files::ColdRead => Unit::Piece,
            Files::ColdReadRandom => Unit::Read,
        }
    }

    /// Units of all workers together. None: as in other workloads.
    pub(super) fn default_count(self) -> Option<u64> {
        match self.unit() {
            Unit::Piece => Some(PIECES_DEFAULT),
            Unit::Read => Some(COLD_BLOCKS_DEFAULT),
            _ => None,
        }
    }

    /// Of what is written or read at once.
    pub fn unit_bytes(self) -> usize {
        match self {
            Files::Append
            | Files::Unsynced
            | Files::Overwrite
            | Files::OneBlock
            | Files::ColdReadRandom => BLOCK_BYTES,
            Files::Stream | Files::SyncedStream | Files::CachedRead | Files::ColdRead => {
                PIECE_BYTES
            }
        }
    }

    fn is_read(self) -> bool {
        matches!(self, Files::CachedRead | Files::ColdRead | Files::ColdReadRandom)
    }

    /// Units in a worker's file, before the measurement and after it.
    fn counts(self, share: u64) -> [u64; 2] {
        match self {
            Files::Append | Files::Unsynced | Files::Stream | Files::SyncedStream => [0, share],
            Files::OneBlock => [1; 2],
            Files::Overwrite => [OVERWRITTEN_BLOCKS; 2],
            Files::CachedRead | Files::ColdRead | Files::ColdReadRandom => [share; 2],
        }
    }

    pub(super) fn describe(self) -> String {
        match self {
            Files::Append => "append 4 KiB to a file and fsync it".to_owned(),
            Files::Overwrite => {
                "overwrite 4 KiB at a random place of a file of 43 MiB and fsync it".to_owned()
            }
            Files::Unsynced => "append 4 KiB to a file, without a sync".to_owned(),
            Files::OneBlock => "overwrite the first 4 KiB of a file and fsync it".to_owned(),
            Files::Stream => {
                "write a file in pieces of 256 KiB without a sync, and close it".to_owned()
            }
            Files::SyncedStream => "append 256 KiB to a file and fsync it".to_owned(),
            Files::CachedRead => "read a file in pieces of 256 KiB from the page cache".to_owned(),
            Files::ColdRead => "read a file in pieces of 256 KiB from the device".to_owned(),
            Files::ColdReadRandom => {
                "read a file from the device, 4 KiB at a time, in random order".to_owned()
            }
        }
    }

    /// The file as the measurement finds it, for a worker who does so many units.
    pub fn set_up(self, path: &Path, share: u64) -> Result<(), WorkloadError> {
        let [count, _] = self.counts(share);
        let mut units = Units::new(self, u64::MAX);
        let write = |file: File| {
            (0..count).try_for_each(|number| {
                let offset = units.offset(number);
                file.write_all_at(units.next(number), offset)
            })
        };
        File::create_new(path).and_then(write).map_err(of_file(path))
    }

    /// Whether each unit is there: a benchmark that lost some must not report them.
    pub fn verify(self, path: &Path, share: u64) -> Result<(), WorkloadError> {
        let of_file = of_file(path);
        let [_, count] = self.counts(share);
        let file = File::open(path).map_err(&of_file)?;
        let bytes = file.metadata().map_err(&of_file)?.len();
        let unit_bytes = self.unit_bytes() as u64;
        if bytes != count * unit_bytes {
            return Err(WorkloadError::Contents(format!(
                "{} has {bytes} bytes, and not {count} times {unit_bytes}",
                path.display()
            )));
        }
        let mut head = [0; HEAD_BYTES];
        for number in 0..count {
            file.read_exact_at(&mut head, number * unit_bytes).map_err(&of_file)?;
            check(&head, number, path)?;
        }
        Ok(())
    }
}

fn of_file(path: &Path) -> impl Fn(io::Error) -> WorkloadError {
    move |reason| WorkloadError::File(FileError { path: path.to_owned(), reason })
}

/// A unit's number.
const HEAD_BYTES: usize = size_of::<u64>();

fn check(unit: &[u8], number: u64, path: &Path) -> Result<(), WorkloadError> {
    if unit.starts_with(&number.to_le_bytes()) {
        return Ok(());
    }
    Err(WorkloadError::Contents(format!(
        "what was written to {} as unit {number} is not there",
        path.display()
    )))
}

/// What is written.
struct Units {
    buffer: Vec<u8>,
    random: fastrand::Rng,
    /// The bytes of each are new. Where pieces are written, making them would take as long.
    anew: bool,
}

impl Units {
    fn new(files: Files, seed: u64) -> Units {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut buffer = vec![0; files.unit_bytes()];
        random.fill(&mut buffer);
        Units { buffer, random, anew: files.unit_bytes() == BLOCK_BYTES }
    }

    fn offset(&self, number: u64) -> u64 {
        number * self.buffer.len() as u64
    }

    fn next(&mut self, number: u64) -> &[u8] {
        if self.anew {
            self.random.fill(&mut self.buffer);
        }
        self.buffer[..HEAD_BYTES].copy_from_slice(&number.to_le_bytes());
        &self.buffer
    }
}

pub struct FilesStream {
    files: Files,
    path: PathBuf,
    /// None once it is closed.
    file: Option<File>,
    units: Units,
    random: fastrand::Rng,
    /// In which units are read. Empty: one after the other.
    order: Vec<u64>,
    share: u64,
    done: u64,
}

impl FilesStream {
    pub fn new(path: PathBuf, files: Files, part: Part) -> Result<Self, WorkloadError> {
        let seed = u64::from(part.index);
        // A file that is open for writing may be handed over, and leave the cache, at a sync.
        let opened = OpenOptions::new().read(files.is_read()).write(!files.is_read()).open(&path);
        let file = opened.map_err(of_file(&path))?;
        let share = part.share();
        let mut random = fastrand::Rng::with_seed(seed);
        let mut order = Vec::new();
        match files {
            Files::ColdRead => leave_caches(&file, &path)?,
            Files::ColdReadRandom => {
                order.extend(0..share);
                random.shuffle(&mut order);
                leave_caches(&file, &path)?;
            }
            _ => {}
        }
        let mut stream = FilesStream {
            files,
            file: Some(file),
            path,
            units: Units::new(files, seed),
            random,
            order,
            share,
            done: 0,
        };
        if files == Files::CachedRead {
            // What was cached before this file was opened may not count any more.
            while stream.step()? != Step::Finished {}
            stream.done = 0;
        }
        Ok(stream)
    }

    /// How long unit `number` took.
    fn unit(&mut self, number: u64) -> io::Result<u64> {
        let file = self.file.as_ref().ok_or(io::ErrorKind::NotFound)?;
        let offset = self.units.offset(number);
        if self.files.is_read() {
            let begin_ns = clock::now_ns();
            file.read_exact_at(&mut self.units.buffer, offset)?;
            return Ok(clock::now_ns() - begin_ns);
        }
        let unit = self.units.next(number);
        let begin_ns = clock::now_ns();
        file.write_all_at(unit, offset)?;
        if self.files.unit() == Unit::Sync {
            file.sync_all()?;
        }
        Ok(clock::now_ns() - begin_ns)
    }
}

impl Stream for FilesStream {
    fn step(&mut self) -> Result<Step, WorkloadError> {
        if self.done == self.share {
            return Ok(Step::Finished);
        }
        let number = match self.files {
            Files::Overwrite => self.random.u64(..OVERWRITTEN_BLOCKS),
            Files::OneBlock => 0,
            _ => self.order.get(self.done as usize).copied().unwrap_or(self.done),
        };
        let latency_ns = self.unit(number).map_err(of_file(&self.path))?;
        if self.files.is_read() {
            check(&self.units.buffer, number, &self.path)?;
        }
        self.done += 1;
        Ok(Step::Done { latency_ns })
    }

    /// A file system may keep what was written to itself until then.
    fn finish(&mut self) -> Result<(), WorkloadError> {
        self.file = None;
        Ok(())
    }

    fn failures(&self) -> BTreeMap<String, u64> {
        BTreeMap::new()
    }

    fn connection(&self) -> Option<&Connection> {
        None
    }
}

const DROP_CACHES: &str = "/proc/sys/vm/drop_caches";

/// What is read next comes from the device. Who is not root drops the pages of this file alone.
fn leave_caches(file: &File, path: &Path) -> Result<(), WorkloadError> {
    let dropped = rustix::fs::fsync(file).and_then(|()| fadvise(file, 0, None, Advice::DontNeed));
    dropped.map_err(|errno| of_file(path)(errno.into()))?;
    if rustix::process::geteuid().is_root() {
        // "1": the page cache, and no directory entries or inodes.
        std::fs::write(DROP_CACHES, "1").map_err(of_file(Path::new(DROP_CACHES)))?;
    }
    Ok(())
}

pub(super) fn name(worker_index: u32) -> String {
    format!("file{worker_index}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_does_its_share_and_the_file_is_as_it_must_be() {
        let folder = tempfile::tempdir().unwrap();
        let part = Part { index: 1, connections: 2, transactions: 15 };
        for (files, word) in Files::ALL {
            let path = folder.path().join(word);
            files.set_up(&path, part.share()).unwrap();
            let mut stream = FilesStream::new(path.clone(), files, part).unwrap();
            let mut steps = 0;
            while let Step::Done { latency_ns } = stream.step().unwrap() {
                steps += 1;
                assert!(latency_ns > 0, "{word}");
            }
            stream.finish().unwrap();
            assert_eq!(steps, 7, "{word}");
            files.verify(&path, part.share()).unwrap();
        }
    }

    #[test]
    fn a_file_that_lost_a_unit_or_has_another_ones_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        Files::CachedRead.set_up(&path, 3).unwrap();
        let wrong = |share| Files::CachedRead.verify(&path, share).unwrap_err().to_string();
        assert!(wrong(4).contains("786432 bytes, and not 4 times 262144"), "{}", wrong(4));
        let file = OpenOptions::new().write(true).open(&path).unwrap();
        file.write_all_at(&1u64.to_le_bytes(), 2 * PIECE_BYTES as u64).unwrap();
        assert!(wrong(3).contains("unit 2"), "{}", wrong(3));
        std::fs::remove_file(&path).unwrap();
        assert!(wrong(3).contains("No such file"), "{}", wrong(3));
    }
}
