//! `oneflush probe DIR`: what a directory's storage can do, and what a durable write costs there.
//!
//! Facts are asked of the kernel (statx, sysfs), never inferred from timing; the latencies are for
//! people to compare. Nothing is assumed where nothing is known: an absent value says so.

mod latency;
mod query;
mod text;
mod zfs;

use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;

pub use latency::{Latency, RawWrite};
pub use query::{AtomicWrite, DirectIo};

use crate::environment::{self, DeviceInfo};
use crate::place::{Place, PlaceError};
use oneflush_trace::kernel::MountInfo;
use oneflush_vfs::{AtomicProvider, Tried, Verdict};

/// Everything found out about a directory.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Probe {
    pub dir: PathBuf,
    pub fs: String,
    pub mount_options: String,
    /// Absent where there is no one block device below (network, overlay, tmpfs).
    pub device: Option<DeviceInfo>,
    pub direct_io: DirectIo,
    /// `RWF_ATOMIC`; absent if the file system does not offer it.
    pub atomic_write: Option<AtomicWrite>,
    /// What can make commits of `maw` atomic. Each was tried.
    pub atomic_providers: Vec<AtomicProvider>,
    /// The property `sync` of a ZFS data set; absent on other file systems, or if it cannot be
    /// asked.
    pub zfs_sync: Option<String>,
    /// What the strategies rely on.
    pub tried: Vec<Tried>,
    /// None where a sync fails.
    pub latencies: Vec<Latency>,
    pub strategies: Vec<String>,
    /// What each of them does here.
    pub ground: Vec<Verdict>,
}

#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    #[error("cannot work in {}: {reason}; name an existing, writable directory", dir.display())]
    Directory { dir: PathBuf, reason: io::Error },

    #[error(transparent)]
    Place(#[from] PlaceError),

    #[error("probe of {} failed at {step}: {reason}", dir.display())]
    Io { dir: PathBuf, step: &'static str, reason: io::Error },

    #[error("probe of {} interrupted", dir.display())]
    Interrupted { dir: PathBuf },
}

/// Works in a fresh subdirectory of `dir` and removes it again. Takes a few seconds. If it takes
/// more than two, it says on stderr what it is doing.
pub fn probe(dir: &Path) -> Result<Probe, ProbeError> {
    let place = Place::directory(dir).map_err(|error| match error {
        // A probe has no option for it.
        PlaceError::Directory { dir, reason } => ProbeError::Directory { dir, reason },
        other => other.into(),
    })?;
    let failed = |step| move |reason| ProbeError::Io { dir: dir.to_owned(), step, reason };
    let mount = MountInfo::of(place.path()).map_err(failed("reading the mounts"))?;
    let device = mount.disk().map(|disk| environment::device(&disk));
    let facts = query::file(place.path()).map_err(failed("asking the file system"))?;
    let tried =
        oneflush_vfs::tried(place.path()).map_err(failed("trying what the strategies rely on"))?;
    let atomic_providers = oneflush_vfs::atomic_providers(place.path(), &tried);
    let fails = tried.iter().any(Tried::fails_sync);
    let latencies = if fails { Ok(Vec::new()) } else { latency::measure(place.path()) };
    let latencies = latencies.map_err(|error| match error {
        latency::Failed::Interrupted => ProbeError::Interrupted { dir: dir.to_owned() },
        latency::Failed::Io(step, reason) => ProbeError::Io { dir: dir.to_owned(), step, reason },
    })?;
    place.close()?;
    let zfs_sync = if mount.fs == "zfs" { zfs::sync_of(&mount.source) } else { None };
    let mut ground = oneflush_vfs::verdicts(dir, &tried);
    if zfs_sync.as_deref() == Some(zfs::DISABLED) {
        ground.iter_mut().for_each(|verdict| zfs::warn(verdict, &mount.source));
    }
    Ok(Probe {
        dir: dir.to_owned(),
        fs: mount.fs,
        mount_options: mount.options,
        device,
        direct_io: facts.direct_io,
        atomic_write: facts.atomic_write,
        atomic_providers,
        zfs_sync,
        tried,
        latencies,
        strategies: oneflush_vfs::StrategyKind::ALL.iter().map(ToString::to_string).collect(),
        ground,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probe_tells_and_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let probe = probe(dir.path()).unwrap();
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        assert!(!probe.fs.is_empty());
        assert!(probe.strategies.iter().any(|strategy| strategy == "stock"));
        let text = probe.to_string();
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert!(text.contains("fdatasync"), "{text}");
        assert!(text.contains("\natomic commits") && text.contains("\n  log "), "{text}");
        let json = serde_json::to_value(&probe).unwrap();
        let names: Vec<_> = (0..3).map(|at| json["atomic_providers"][at]["name"].clone()).collect();
        assert_eq!(names, ["f2fs", "xfs", "log"]);
        assert!(
            ["stock", "plain", "eager"]
                .iter()
                .all(|strategy| text.contains(&format!("\n  {strategy}"))),
            "{text}"
        );
        assert!(
            probe
                .latencies
                .iter()
                .all(|latency| latency.p50_ns > 0 && latency.p50_ns <= latency.p99_ns)
        );
    }

    #[test]
    fn a_verdict_has_its_whole_reason_in_narrow_lines() {
        let reason = "strategy eager is refused on nfs4: ".to_owned()
            + &"a reason of many words ".repeat(9)
            + "at an end";
        let verdict = Verdict { strategy: "eager", refuses: true, reason: Some(reason.clone()) };
        let lines = text::verdict(&verdict);
        assert!(
            lines[0].contains("refuses") && lines.iter().all(|line| line.len() <= 62),
            "{lines:?}"
        );
        let said: Vec<_> = lines.iter().flat_map(|line| line.split_whitespace()).collect();
        assert!(said.join(" ").ends_with(&reason), "{lines:?}");
    }

    #[test]
    fn missing_directory_is_named() {
        let dir = tempfile::tempdir().unwrap().path().join("missing");
        let message = probe(&dir).unwrap_err().to_string();
        assert!(message.contains("missing") && message.contains("writable"), "{message}");
        assert!(!message.contains("--"), "a probe has no such option: {message}");
    }
}
