//! What can go wrong with a mount, and the way out.

use std::io;
use std::path::{Path, PathBuf};

use super::mounts::{self, Seen};
use crate::recovery::RecoveryError;

#[derive(Debug, thiserror::Error)]
pub enum MountError {
    #[error("{}: could not {doing}: {source} [OF-801]", path.display())]
    File { path: PathBuf, doing: &'static str, source: io::Error },
    #[error("{} is no directory [OF-802]", .0.display())]
    NotADirectory(PathBuf),
    #[error(
        "{} is read-only. Make it writable first, or use it without oneflush [OF-803]",
        .0.display()
    )]
    ReadOnly(PathBuf),
    #[error(
        "{} and {} lie in one another. Mount at a directory that is neither in nor above what is \
            mounted [OF-804]", lower.display(), mountpoint.display()
    )]
    Nested { lower: PathBuf, mountpoint: PathBuf },
    #[error(
        "nothing can be mounted at {}: {} [OF-805]",
        mountpoint.display(), taken(mountpoint, mounted)
    )]
    Taken { mountpoint: PathBuf, mounted: Option<Seen> },
    #[error("there is no /dev/fuse. Load the kernel's module: modprobe fuse [OF-806]")]
    NoFuse,
    #[error("{} is mounted already{} [OF-807]", lower.display(), elsewhere(at.as_deref()))]
    Mounted { lower: PathBuf, at: Option<PathBuf> },
    #[error(
        "the log {} would lie in {}, which it is of. Choose another place with --log [OF-808]",
        log.display(), lower.display()
    )]
    LogInside { log: PathBuf, lower: PathBuf },
    #[error(
        "{} has no directory beside it. Say where the log is to be with --log [OF-809]",
        .0.display()
    )]
    NoPlace(PathBuf),
    #[error(
        "{} is no directory of this user's own, as the log's must be. Move it away, or choose \
            another place with --log [OF-810]", .0.display()
    )]
    BadPlace(PathBuf),
    #[error(
        "{} is the log of another directory. Mount that one with it, or choose another place with \
            --log [OF-811]", .0.display()
    )]
    OfAnother(PathBuf),
    #[error(
        "{}: {source}. Nothing was changed. Restore the log, or, to go on with the directory as it \
            is and without what only the log holds, move the log away [OF-812]", log.display()
    )]
    Log { log: PathBuf, source: oneflush_blocklog::Error },
    #[error(
        "{}: {source}. The log was left as it is, and recovery can be repeated: mount again, or \
            run: oneflush recover --fs {} [OF-813]", log.display(), lower.display()
    )]
    Recovery { log: PathBuf, lower: PathBuf, source: RecoveryError },
    #[error(
        "{} was used without the mount after it was interrupted: \"{name}\" was changed. What the \
            log has may be older than that. Look at it, then say which counts: oneflush recover \
            --fs {} --over-changes (the log, and later changes may be lost), or move the log away \
            [OF-814]",
        lower.display(), lower.display()
    )]
    Changed { lower: PathBuf, name: String },
    #[error("could not mount at {}: {source} [OF-815]", mountpoint.display())]
    Mount { mountpoint: PathBuf, source: io::Error },
    #[error("{} is no mount of oneflush [OF-816]", .0.display())]
    NotOurs(PathBuf),
    #[error("could not unmount {}: {source}{users} [OF-817]", mountpoint.display())]
    Unmount { mountpoint: PathBuf, source: io::Error, users: String },
    #[error("could not sync {}: {source} [OF-818]", mountpoint.display())]
    Sync { mountpoint: PathBuf, source: io::Error },
    /// The next mount recovers, also if it is the same boot.
    #[error(
        "a sync of {} or a write to its log has failed, so that nothing more was acknowledged. The \
            log was kept at {}. Look at the kernel's messages, then mount again to recover \
            [OF-819]",
        lower.display(), log.display()
    )]
    Poisoned { lower: PathBuf, log: PathBuf },
    #[error(
        "the daemon of {} has died. What was synced is in the directory and its log. Mount again, \
            with the same options: oneflush mount {} {} [OF-820]",
        mountpoint.display(), lower.display(), mountpoint.display()
    )]
    Dead { lower: PathBuf, mountpoint: PathBuf },
}

impl MountError {
    pub(super) fn dead(mountpoint: &Path) -> MountError {
        let seen = mounts::at(mountpoint);
        let lower = seen.map_or_else(|| PathBuf::from("DIRECTORY"), |seen| seen.lower);
        MountError::Dead { lower, mountpoint: mountpoint.to_owned() }
    }

    /// Somebody uses the mount just now.
    pub fn is_busy(&self) -> bool {
        // The helper of other users says so in words.
        let said = |source: &io::Error| source.to_string().contains("busy");
        matches!(self, MountError::Unmount { source, .. }
            if source.kind() == io::ErrorKind::ResourceBusy || said(source))
    }
}

/// None: in another namespace, whose mounts are not seen.
fn elsewhere(at: Option<&Path>) -> String {
    match at.map(Path::display) {
        Some(at) => format!(" at {at}. Unmount that first: oneflush umount {at}"),
        None => ". Unmount that first: oneflush umount MOUNTPOINT".to_owned(),
    }
}

fn taken(mountpoint: &Path, mounted: &Option<Seen>) -> String {
    match mounted {
        Some(Seen { lower, at }) => format!(
            "{} is mounted already at {}. To end that: oneflush umount {}",
            lower.display(),
            at.display(),
            mountpoint.display()
        ),
        None => "it is not empty, and what is in it could not be reached. Choose an empty \
            directory, or mount with -o nonempty"
            .to_owned(),
    }
}

/// Says what was done to which file.
pub fn failed<'a, P: Into<PathBuf> + Clone + 'a>(
    doing: &'static str,
    path: &'a P,
) -> impl FnOnce(io::Error) -> MountError + 'a {
    move |source| MountError::File { path: path.clone().into(), doing, source }
}
