//! The counters of a disk that others use too.
//!
//! They are the same as [`super::Observer`]'s, and anybody may read them. What others do is in
//! them. So [`SharedDisk::idle`] looks at them while we do nothing.

use std::path::Path;
use std::time::{Duration, Instant};

use oneflush_trace::kernel::MountInfo;
use serde::Serialize;

use super::stat::DeviceStat;

/// What a disk did in some time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Done {
    pub bytes: u64,
    pub writes: u64,
    pub flushes: u64,
}

/// A disk's counters at some time.
#[derive(Clone, Copy, Debug)]
pub struct Mark(DeviceStat);

#[derive(Clone, Debug)]
pub struct SharedDisk {
    /// As in `/sys/block`.
    name: String,
}

impl SharedDisk {
    /// The disk below a directory. A disk that hands all its requests on to one other, as a
    /// encrypted one does, is counted there. None: there is not one disk, or it cannot be read.
    pub fn below(directory: &Path) -> Option<SharedDisk> {
        let mut name = MountInfo::of(directory).ok()?.disk()?;
        while let Some(below) = only_disk_below(&name) {
            name = below;
        }
        DeviceStat::read(&name).ok()?;
        Some(SharedDisk { name })
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// None: it is gone.
    pub fn mark(&self) -> Option<Mark> {
        DeviceStat::read(&self.name).ok().map(Mark)
    }

    pub fn since(&self, mark: Mark) -> Option<Done> {
        let stat = DeviceStat::read(&self.name).ok()?.since(mark.0);
        Some(Done { bytes: stat.bytes, writes: stat.writes, flushes: stat.flushes })
    }

    /// What others do in about this time, and how long it was.
    pub fn idle(&self, time: Duration) -> Option<(Done, Duration)> {
        let (mark, begun) = (self.mark()?, Instant::now());
        std::thread::sleep(time);
        Some((self.since(mark)?, begun.elapsed()))
    }
}

impl Done {
    pub fn plus(self, other: Done) -> Done {
        Done {
            bytes: self.bytes + other.bytes,
            writes: self.writes + other.writes,
            flushes: self.flushes + other.flushes,
        }
    }
}

/// The device mapper and md name the disks that theirs lies on.
fn only_disk_below(name: &str) -> Option<String> {
    let slaves = std::fs::read_dir(format!("/sys/block/{name}/slaves")).ok()?;
    let names: Vec<_> = slaves.flatten().map(|slave| slave.file_name()).collect();
    let [only] = &names[..] else { return None };
    let only = only.to_str()?;
    if Path::new("/sys/block").join(only).exists() {
        return Some(only.to_owned());
    }
    // A partition stands in its disk's folder.
    let node = std::fs::canonicalize(format!("/sys/class/block/{only}")).ok()?;
    Some(node.parent()?.file_name()?.to_str()?.to_owned())
}
