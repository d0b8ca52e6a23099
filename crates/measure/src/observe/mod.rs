//! What reached the block device between start and stop, and which file it belonged to.
//!
//! **Totals** come from `/sys/block/DEV/stat` (completed writes, sectors, flushes). The disk
//! carries nothing else. So they are exact, background work included. A partition's own numbers
//! have no flushes, so it is the whole disk that is counted.
//!
//! **The split** comes from the kernel's trace events, in a tracefs instance of our own, filtered
//! to the device. Two kinds of events are enough, because they come in the order in which a thread
//! works:
//!
//! - *a file's pages are about to be written* (`ext4_writepages`, `iomap_writeback_folio`, …:
//!   inode);
//! - *a write is queued* (`block_bio_queue`: range, flags, thread).
//!
//! [`oneflush_trace::kernel::attribute`] has the rules. They work for files that are gone at the
//! end, such as a rollback journal. They also work for blocks that were one file's and then
//! another's. During the slice nothing is decoded unless a buffer is a quarter full.
//!
//! Invariants: (1) classes sum to the totals; (2) what no rule explains is `Other`, and counted in
//! `unattributed_bytes`; (3) between slices nothing is recorded.

mod attribute;
mod class;
mod drain;
mod error;
mod shape;
mod shared;
mod stat;
mod trace;

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use oneflush_trace::kernel::attribute::{Attribution, Geometry};
use oneflush_trace::kernel::{FileSystem, KernelError, MountInfo, Volume};
use oneflush_trace::record::Target;
use serde::{Deserialize, Serialize};

pub use class::{Class, ClassCounts};
pub use error::ObserveError;
pub use shape::WriteShape;
pub use shared::{Done, Mark, SharedDisk};

use crate::place::{FlashCounts, FlashDevice, Place, flash};
use attribute::Owners;
use stat::DeviceStat;
use trace::Trace;

/// Where the numbers come from, and so how far they can be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// Exact totals of a device of our own, split by trace events.
    BlockDevice,
    /// Exact totals, no split: this kernel or container gives no tracefs. See [`Observer::limit`].
    BlockDeviceTotals,
    /// Nothing is observed here, all counts are 0: what the strategies count is all there is
    /// ([`crate::written`]).
    Strategies,
}

/// One slice. With [`Source::BlockDevice`] the classes sum to the totals; else `by_class` is empty.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    pub bytes: u64,
    /// None: only their bytes are known, here and by class.
    pub writes: Option<u64>,
    pub flushes: u64,
    pub by_class: BTreeMap<Class, ClassCounts>,
    /// Trace events that the kernel had no room for; what they would have explained is in `Other`.
    pub events_lost: u64,
    pub source: Source,
    /// Bytes that no rule could attribute; they are in `Other`.
    pub unattributed_bytes: u64,
    /// None where not all writes are known one by one.
    pub shape: Option<WriteShape>,
    /// Of an emulated flash device.
    pub flash: Option<FlashCounts>,
}

impl Counts {
    /// Why the split is not to be trusted: events were lost, or more than 5 % of the bytes are
    /// unexplained.
    pub fn doubt(&self) -> Option<String> {
        if self.events_lost > 0 {
            return Some(format!(
                "{} trace events lost; the split by class is incomplete",
                self.events_lost
            ));
        }
        let percent = self.unattributed_bytes as f64 * 100.0 / self.bytes.max(1) as f64;
        (percent > 5.0)
            .then(|| format!("{percent:.0} % of the bytes could not be attributed to a class"))
    }
}

/// Counts slices, one after the other.
#[derive(Debug)]
pub struct Observer {
    how: How,
    limit: Option<String>,
}

#[derive(Debug)]
enum How {
    Nothing,
    Device(Box<DeviceObserver>),
}

#[derive(Debug)]
struct DeviceObserver {
    volume: Volume,
    /// As in `/sys/block`. The volume may be a partition of it.
    disk: String,
    trace: Option<Trace>,
    attribution: Attribution,
    /// The file with an emulated flash device's counters.
    flash: Option<PathBuf>,
    at_start: Option<(DeviceStat, Files, Option<FlashCounts>)>,
}

/// Files of a place and their inodes.
type Files = HashMap<PathBuf, u64>;

impl Observer {
    /// Once per run. A place without a device of its own gives an observer whose counts are all 0
    /// ([`Source::Strategies`]); a device without tracefs gives totals.
    pub fn new(place: &Place) -> Result<Observer, ObserveError> {
        if !place.is_alone() {
            let limit =
                "not a device of our own, so the device's counts are not all ours".to_owned();
            return Ok(Observer { how: How::Nothing, limit: Some(limit) });
        }
        let volume = Target::of_directory(place.path())?.volume;
        let disk = disk(place.path(), &volume);
        DeviceStat::read(&disk)?;
        let attribution = Attribution::new(Geometry::of(&volume)?);
        let (trace, limit) = match Trace::open(&volume) {
            Ok(trace) => (Some(trace), None),
            Err(error) => (None, Some(format!("{error}; only totals of the device are known"))),
        };
        let flash = place.flash().map(FlashDevice::counters);
        let observer = DeviceObserver { volume, disk, trace, attribution, flash, at_start: None };
        Ok(Observer { how: How::Device(Box::new(observer)), limit })
    }

    /// Why there is less than [`Source::BlockDevice`], for a line in the output.
    pub fn limit(&self) -> Option<&str> {
        self.limit.as_deref()
    }

    /// Begins a slice. Everything before it must be on the device (`syncfs`), or it is counted
    /// here.
    pub fn start(&mut self) -> Result<(), ObserveError> {
        let How::Device(observer) = &mut self.how else { return Ok(()) };
        let files = observer.files();
        if let Some(trace) = &mut observer.trace {
            trace.start()?;
        }
        let flash = observer.flash_counts()?;
        observer.at_start = Some((DeviceStat::read(&observer.disk)?, files, flash));
        Ok(())
    }

    /// End of a slice, after its `syncfs`. `files` says whose the paths are; they may be gone, and
    /// files that are not named are temporary ones: `Journal` (but `-shm`: `Other`).
    pub fn stop(&mut self, files: &[(PathBuf, Class)]) -> Result<Counts, ObserveError> {
        match &mut self.how {
            How::Nothing => Ok(Counts {
                bytes: 0,
                writes: Some(0),
                flushes: 0,
                by_class: BTreeMap::new(),
                events_lost: 0,
                source: Source::Strategies,
                unattributed_bytes: 0,
                shape: None,
                flash: None,
            }),
            How::Device(observer) => observer.stop(files),
        }
    }
}

impl DeviceObserver {
    fn stop(&mut self, named: &[(PathBuf, Class)]) -> Result<Counts, ObserveError> {
        let end = DeviceStat::read(&self.disk)?;
        let flash = self.flash_counts()?;
        let (start, files_before, flash_before) =
            self.at_start.take().ok_or(ObserveError::NotStarted)?;
        let total = end.since(start);
        let mut counts = Counts {
            bytes: total.bytes,
            writes: Some(total.writes),
            flushes: total.flushes,
            by_class: BTreeMap::new(),
            events_lost: 0,
            source: Source::BlockDeviceTotals,
            unattributed_bytes: 0,
            shape: None,
            flash: flash.zip(flash_before).map(|(after, before)| after.since(&before)),
        };
        let Some(trace) = &mut self.trace else { return Ok(counts) };
        let recorded = trace.stop()?;
        let owners = owners(&[files_before, self.files()], named);
        if self.volume.file_system == FileSystem::Btrfs {
            // Chunks are allocated as the file system grows.
            self.attribution.geometry = Geometry::of(&self.volume)?;
        }
        let mut split = attribute::split(&recorded.events, &mut self.attribution, &owners);
        self.attribution.forget();
        split.settle(total.bytes, total.writes);
        counts.by_class = split.by_class;
        counts.unattributed_bytes = split.unattributed_bytes;
        counts.events_lost = recorded.lost;
        counts.shape = (recorded.lost == 0).then(|| WriteShape::of(&recorded.events));
        counts.source = Source::BlockDevice;
        Ok(counts)
    }

    fn flash_counts(&self) -> Result<Option<FlashCounts>, ObserveError> {
        let read = |path: &PathBuf| {
            flash::read_counts(path)
                .map_err(|reason| KernelError::Read { path: path.clone(), reason }.into())
        };
        self.flash.as_ref().map(read).transpose()
    }

    /// Names and inodes of the files that are in the place now. A file that vanishes meanwhile is
    /// no error.
    ///
    /// No file is opened for this, and so no FIEMAP asked. Closing a descriptor of a database would
    /// drop the POSIX locks that SQLite holds on it in this process.
    fn files(&self) -> Files {
        let mut files = Files::new();
        let mut directories = vec![self.volume.mount_point.clone()];
        while let Some(directory) = directories.pop() {
            for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
                let (path, Ok(metadata)) = (entry.path(), entry.metadata()) else { continue };
                if metadata.is_dir() {
                    directories.push(path);
                } else if metadata.is_file() {
                    files.insert(path, metadata.ino());
                }
            }
        }
        files
    }
}

fn disk(directory: &Path, volume: &Volume) -> String {
    let mount = MountInfo::of(directory).ok();
    mount.as_ref().and_then(MountInfo::disk).unwrap_or_else(|| volume.name.clone())
}

fn owners(scans: &[Files], named: &[(PathBuf, Class)]) -> Owners {
    let named: HashMap<&Path, Class> =
        named.iter().map(|(path, class)| (path.as_path(), *class)).collect();
    let mut owners = Owners::default();
    for (path, inode) in scans.iter().flatten() {
        let class = named.get(path.as_path()).copied().unwrap_or_else(|| class_by_name(path));
        owners.insert(*inode, class);
    }
    owners
}

fn class_by_name(path: &Path) -> Class {
    if path.to_string_lossy().ends_with("-shm") { Class::Other } else { Class::Journal }
}
