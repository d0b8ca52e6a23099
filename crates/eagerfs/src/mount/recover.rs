//! What is done with a log that is there when a directory is mounted.
//!
//! | log | then |
//! |---|---|
//! | none, empty, or its making was interrupted | nothing |
//! | of this boot and this mount of the lower | the lower has all of it: it is synced |
//! | of another boot or mount, or a sync has failed | it is replayed |
//! | the same, and the lower was used without the mount since | refused; nothing is changed |
//! | of another directory, newer, damaged | refused; nothing is changed |

use std::fs;
use std::io;

use oneflush_blocklog::{DirectFile, Error, Log};
use rustix::fs::{CWD, StatxFlags, statx};

use super::error::{MountError, failed};
use super::place::Place;
use crate::directory::Directory;
use crate::entry::Begin;
use crate::lower::Lower;
use crate::recovery::{self, RecoveryError};
use crate::replay::Recovered;

/// `STATX_MNT_ID_UNIQUE`, from Linux 6.8: a number that is not used again.
const MOUNT_UNIQUE: StatxFlags = StatxFlags::from_bits_retain(0x4000);

/// What became of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Before {
    /// There was nothing in it.
    Nothing,
    /// Only the daemon had died.
    Synced,
    Replayed(Recovered),
}

/// What an epoch's first record says of this mount.
pub fn begin(lower: &Directory) -> Result<Begin, MountError> {
    let boot_at = std::path::Path::new("/proc/sys/kernel/random/boot_id");
    let boot = fs::read(boot_at).map_err(failed("read", &boot_at))?;
    let root = lower.identity(&lower.root());
    let root = root.map_err(failed("look at", &std::path::Path::new("the directory")))?;
    Ok(Begin { root, boot: boot.trim_ascii().to_vec(), mount: mount_of(lower) })
}

/// 0: the kernel does not tell. Then every mount is another one.
fn mount_of(lower: &Directory) -> u64 {
    let path = format!("/proc/self/fd/{}/.", std::os::fd::AsRawFd::as_raw_fd(lower.top()));
    let asked = statx(CWD, path, rustix::fs::AtFlags::empty(), MOUNT_UNIQUE | StatxFlags::MNT_ID);
    let told = |stat: &rustix::fs::Statx| {
        StatxFlags::from_bits_retain(stat.stx_mask).intersects(MOUNT_UNIQUE | StatxFlags::MNT_ID)
    };
    asked.ok().filter(told).map_or(0, |stat| stat.stx_mnt_id)
}

/// Brings the lower to what its log holds, if there is one. The log stays. `over_changes`: also if
/// the lower was used without the mount since the log's last word. `here`: what this mount would
/// say in a log.
pub fn recover(
    place: &Place,
    lower: &Directory,
    here: &Begin,
    over_changes: bool,
) -> Result<Before, MountError> {
    if !place.log.exists() {
        return Ok(Before::Nothing);
    }
    let log = match open(place) {
        Ok(log) => log,
        // Its making was interrupted. Nothing was acknowledged by it.
        Err(MountError::Log { source: Error::Unfinished, .. }) => return Ok(Before::Nothing),
        Err(error) => return Err(error),
    };
    let failed_here = |source| MountError::Recovery {
        log: place.log.clone(),
        lower: place.lower.clone(),
        source,
    };
    let read = recovery::read(&log).map_err(|error| match error {
        RecoveryError::Log(source) => place.log_error(source),
        other => failed_here(other),
    })?;
    let Some((wanted, head)) = read else { return Ok(Before::Nothing) };
    let there = wanted.begin.clone().ok_or_else(|| {
        let source = Error::BadGroup { what: "no record says which directory it is of" };
        place.log_error(source)
    })?;
    if there.root != here.root {
        return Err(MountError::OfAnother(place.log.clone()));
    }
    let is_same = there.boot == here.boot && there.mount == here.mount && here.mount != 0;
    if is_same && !place.has_failed() {
        lower.sync_all().map_err(|error| failed_here(RecoveryError::Lower(error)))?;
        return Ok(Before::Synced);
    }
    if !is_same && !over_changes {
        let changed = recovery::changed_without(lower, &wanted);
        if let Some(name) = changed.map_err(|error| failed_here(RecoveryError::Lower(error)))? {
            return Err(MountError::Changed { lower: place.lower.clone(), name });
        }
    }
    let recovered = recovery::recover(lower, &log, (wanted, head), now_ns());
    recovered.map(Before::Replayed).map_err(failed_here)
}

fn open(place: &Place) -> Result<Log<DirectFile>, MountError> {
    let opened = DirectFile::open(&place.log, false).and_then(Log::open_for_directory);
    opened.map_err(|source| place.log_error(source))
}

/// So many bytes a lane has at once. It grows, up to what was asked for.
const LANE_BYTES_FIRST: u64 = 8 << 20;

/// Makes an empty log.
pub fn make(
    place: &Place,
    lane_bytes_max: u64,
) -> Result<(Log<DirectFile>, oneflush_blocklog::Head), MountError> {
    place.make_log()?;
    let made = DirectFile::open(&place.log, false).and_then(|file| {
        let uuid = oneflush_blocklog::Uuid::random()?;
        Log::create_for_directory(file, uuid, LANE_BYTES_FIRST.min(lane_bytes_max))
    });
    made.map_err(|source| place.log_error(source))
}

/// Nanoseconds since 1970.
pub fn now_ns() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
}

pub fn lower_of(place: &Place, descriptors_max: usize) -> Result<Directory, MountError> {
    Directory::open(&place.lower, descriptors_max).map_err(|error: io::Error| MountError::File {
        path: place.lower.clone(),
        doing: "open",
        source: error,
    })
}
