//! The floor: what the least durable write costs here and now.
//!
//! One 4 KiB block of a file is overwritten with direct I/O, then `fdatasync` follows. The block
//! was written and synced before, so nothing is allocated and no metadata has to become durable.
//! What remains is one aligned write and one flush: the design's best case for a commit. The floor
//! is measured in the same minutes as the modes, because the same device is slower at other times.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Instant;

use oneflush_blocklog::AlignedBuffer;
use serde::Serialize;
use tempfile::NamedTempFile;

/// Bytes of one write of the floor.
pub const BLOCK_BYTES: usize = 4096;

/// The file is larger than one block so that writes do not queue behind each other in one flash
/// page.
const FILE_BLOCKS: u64 = 256;

/// The first writes pay for cold caches.
const WARM_UP_WRITES: u32 = 8;

/// Latencies of the floor, in ascending order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Floor {
    pub latencies_ns: Vec<u64>,
    /// False if the file system refused direct I/O. Then the block was written through the page
    /// cache.
    pub direct_io: bool,
}

impl Floor {
    /// `q` from 0 to 1 (nearest rank); 0 if nothing was measured.
    pub fn quantile_ns(&self, q: f64) -> u64 {
        quantile(&self.latencies_ns, q)
    }

    pub fn median_ns(&self) -> u64 {
        self.quantile_ns(0.5)
    }

    /// Adds the latencies of another round.
    pub fn merge(&mut self, other: &Floor) {
        self.direct_io = if self.latencies_ns.is_empty() {
            other.direct_io
        } else {
            self.direct_io && other.direct_io
        };
        self.latencies_ns.extend_from_slice(&other.latencies_ns);
        self.latencies_ns.sort_unstable();
    }
}

/// Nearest rank in an ascending slice.
pub(crate) fn quantile(sorted: &[u64], q: f64) -> u64 {
    let rank = (sorted.len() as f64 * q.clamp(0.0, 1.0)).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(0)
}

#[derive(Debug, thiserror::Error)]
#[error("the floor (4 KiB overwrite + fdatasync) failed at {step} in {}: {reason}", dir.display())]
pub struct FloorError {
    pub dir: PathBuf,
    pub step: &'static str,
    pub reason: io::Error,
}

/// The file whose blocks are overwritten; gone when this is dropped.
pub struct FloorFile {
    dir: PathBuf,
    _named: NamedTempFile,
    file: File,
    direct_io: bool,
    block: AlignedBuffer,
    writes: u64,
    latencies_ns: Vec<u64>,
}

impl FloorFile {
    pub fn new(dir: &Path) -> Result<FloorFile, FloorError> {
        let failed = |step| move |reason| FloorError { dir: dir.to_owned(), step, reason };
        let named = tempfile::Builder::new()
            .prefix("oneflush-floor-")
            .tempfile_in(dir)
            .map_err(failed("create"))?;
        let block = AlignedBuffer::zeroed(BLOCK_BYTES);
        for number in 0..FILE_BLOCKS {
            named
                .as_file()
                .write_all_at(&block, number * BLOCK_BYTES as u64)
                .map_err(failed("fill"))?;
        }
        named.as_file().sync_all().map_err(failed("sync"))?;
        File::open(dir).and_then(|dir| dir.sync_all()).map_err(failed("directory sync"))?;
        let (file, direct_io) = open_direct(named.path()).map_err(failed("open"))?;
        let latencies_ns = Vec::new();
        let mut floor = FloorFile {
            dir: dir.to_owned(),
            _named: named,
            file,
            direct_io,
            block,
            writes: 0,
            latencies_ns,
        };
        floor.overwrite(WARM_UP_WRITES)?;
        floor.latencies_ns.clear();
        Ok(floor)
    }

    /// So many overwrites, each durable before the next; fewer after Ctrl-C.
    pub fn overwrite(&mut self, count: u32) -> Result<(), FloorError> {
        let dir = &self.dir;
        let failed = |step| move |reason| FloorError { dir: dir.clone(), step, reason };
        for _ in 0..count {
            if crate::interrupt::requested() {
                break;
            }
            self.block.fill(self.writes as u8);
            let offset = self.writes % FILE_BLOCKS * BLOCK_BYTES as u64;
            let started = Instant::now();
            self.file.write_all_at(&self.block, offset).map_err(failed("overwrite"))?;
            self.file.sync_data().map_err(failed("fdatasync"))?;
            self.latencies_ns.push(started.elapsed().as_nanos() as u64);
            self.writes += 1;
        }
        Ok(())
    }

    /// What the overwrites say.
    pub fn finish(mut self) -> Floor {
        self.latencies_ns.sort_unstable();
        Floor { latencies_ns: self.latencies_ns, direct_io: self.direct_io }
    }
}

/// `writes` overwrites in a file of its own in `dir`; ends early, with what it has, after Ctrl-C.
pub fn measure(dir: &Path, writes: u32) -> Result<Floor, FloorError> {
    let mut file = FloorFile::new(dir)?;
    file.overwrite(writes)?;
    Ok(file.finish())
}

/// Opens for direct I/O, or, where that is refused (EINVAL), for buffered I/O.
pub(crate) fn open_direct(path: &Path) -> io::Result<(File, bool)> {
    match OpenOptions::new().write(true).custom_flags(libc::O_DIRECT).open(path) {
        Ok(file) => Ok((file, true)),
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
            OpenOptions::new().write(true).open(path).map(|file| (file, false))
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_nearest_ranks() {
        let sorted = [1, 2, 3, 4];
        assert_eq!(quantile(&sorted, 0.5), 2);
        assert_eq!(quantile(&sorted, 0.99), 4);
        assert_eq!(quantile(&sorted, 0.0), 1);
        assert_eq!(quantile(&[], 0.5), 0);
    }

    #[test]
    fn measures_as_often_as_asked_and_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let floor = measure(dir.path(), 5).unwrap();
        assert_eq!(floor.latencies_ns.len(), 5);
        assert!(floor.median_ns() > 0 && floor.latencies_ns.is_sorted());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn missing_directory_is_named() {
        let dir = tempfile::tempdir().unwrap().path().join("missing");
        let message = measure(&dir, 1).unwrap_err().to_string();
        assert!(message.contains("missing"), "{message}");
    }
}
