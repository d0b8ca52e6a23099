//! A mount from its beginning to its end.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use fuser::{BackgroundSession, Config, MountOption, Session, SessionACL};
use rustix::fs::{StatVfsMountFlags, statvfs};
use rustix::mount::UnmountFlags;
use rustix::process::{Resource, Rlimit, geteuid, getrlimit, setrlimit};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::{Handle, Signals};

use super::error::{MountError, failed};
use super::file_system::{FileSystem, Served, Watched};
use super::keeper::Keeper;
use super::place::{Place, check_mountpoint};
use super::recover::{self, Before};
use super::{Options, unmount};
use crate::directory::Directory;
use crate::entry::Begin;
use crate::lower::Lower;
use crate::tree::{self, Tree};

/// So many descriptors of objects that nobody has open, at most.
const DESCRIPTORS_MAX: u64 = 4096;

/// A directory that is mounted. Whoever drops it without [`wait`](Mounted::wait) unmounts it and
/// leaves the log, as if the daemon had died.
pub struct Mounted {
    served: Arc<Served>,
    session: BackgroundSession,
    keeper: Keeper,
    signals: Handle,
    pub before: Before,
    pub mountpoint: PathBuf,
}

/// Recovers the directory without mounting it. The log is gone then. `over_changes`: also if others
/// have used the directory since it was interrupted.
pub fn recover(lower: &Path, log: Option<&Path>, over_changes: bool) -> Result<Before, MountError> {
    let place = Place::of(lower, log)?;
    let directory = recover::lower_of(&place, descriptors_max())?;
    let before = recover::recover(&place, &directory, &recover::begin(&directory)?, over_changes)?;
    directory.set_mark(None).map_err(failed("take the mark from", &place.lower))?;
    place.remove_log()?;
    place.remove_directory()?;
    Ok(before)
}

/// Mounts, after a recovery if there is something to recover. Requests are answered on return.
pub fn mount(options: &Options) -> Result<Mounted, MountError> {
    let mountpoint = check_mountpoint(&options.mountpoint, &options.lower, options.may_hide)?;
    let place = Place::of(&options.lower, options.log.as_deref())?;
    if place.log.starts_with(&mountpoint) {
        return Err(MountError::LogInside { log: place.log, lower: mountpoint });
    }
    let place = Arc::new(place);
    let lower = recover::lower_of(&place, descriptors_max())?;
    let begin = recover::begin(&lower)?;
    let before = recover::recover(&place, &lower, &begin, false)?;
    place.remove_log()?;
    let mounted = serve(options, &place, lower, begin, mountpoint, before);
    if mounted.is_err() {
        // Nothing was acknowledged. The first error counts.
        let _ = place.remove_log().and_then(|()| place.remove_directory());
    }
    mounted
}

fn serve(
    options: &Options,
    place: &Arc<Place>,
    lower: Directory,
    begin: Begin,
    mountpoint: PathBuf,
    before: Before,
) -> Result<Mounted, MountError> {
    let lane_bytes_max = options.log_bytes / 2;
    let (log, head) = recover::make(place, lane_bytes_max)?;
    let of_tree = tree::Options {
        isets: options.isets,
        threshold_bytes: options.threshold_bytes,
        lane_bytes_max,
        clock: recover::now_ns,
    };
    let tree = Tree::new(lower, log, head, begin, of_tree);
    let served = tree.and_then(|tree| Served::new(tree, Arc::clone(place)));
    let served = Arc::new(served.map_err(failed("begin to serve", &place.lower))?);
    let at = |source| MountError::Mount { mountpoint: mountpoint.clone(), source };
    let session =
        Session::new(Watched(FileSystem(Arc::clone(&served))), &mountpoint, &config(options));
    let session = session.map_err(at)?;
    // It is set once, here.
    let _ = served.notifier.set(session.notifier());
    let keeper = Keeper::start(Arc::clone(&served), lane_bytes_max).map_err(at)?;
    let signals = end_on_signals(mountpoint.clone(), Arc::clone(&served)).map_err(at)?;
    let session = session.spawn().map_err(at)?;
    Ok(Mounted { served, session, keeper, signals, before, mountpoint })
}

impl Mounted {
    /// Serves until somebody unmounts. Then the directory is whole, and there is no log.
    pub fn wait(mut self) -> Result<(), MountError> {
        let ended = self.session.join();
        if ended.is_err() {
            // The library has failed, and may have threads that serve on.
            self.served.tree.poison();
        }
        self.signals.close();
        self.served.fetching.end();
        self.served.syncing.end();
        self.keeper.end();
        let place = &self.served.place;
        if self.served.tree.finish().is_err() {
            place.note_failure().map_err(failed("note the failure beside", &place.log))?;
            let (lower, log) = (place.lower.clone(), place.log.clone());
            return Err(MountError::Poisoned { lower, log });
        }
        place.remove_log()?;
        place.remove_directory()?;
        let mountpoint = self.mountpoint.clone();
        ended.map_err(|source| MountError::Mount { mountpoint, source })
    }
}

/// As many as this process may have, and most of them for files that are open.
fn descriptors_max() -> usize {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, ..limit };
    let limit = if setrlimit(Resource::Nofile, raised).is_ok() { raised } else { limit };
    (limit.current.unwrap_or(u64::MAX) / 4).min(DESCRIPTORS_MAX) as usize
}

fn config(options: &Options) -> Config {
    let mut config = Config::default();
    config.acl = if options.allow_other { SessionACL::All } else { SessionACL::Owner };
    config.n_threads = Some(options.threads.max(2));
    config.mount_options = vec![
        MountOption::FSName(source_of(&options.lower)),
        // The kernel's own option; `Subtype` goes to fusermount3 only.
        MountOption::CUSTOM("subtype=oneflush".to_owned()),
        MountOption::DefaultPermissions,
    ];
    // What the lower's mount forbids stays forbidden. Only root may allow the others. The library
    // forbids set-user-ID and devices where it is not told otherwise.
    let flags = statvfs(&options.lower).map_or(StatVfsMountFlags::empty(), |stat| stat.f_flag);
    let is_root = geteuid().is_root();
    if is_root && !options.nosuid && !flags.contains(StatVfsMountFlags::NOSUID) {
        config.mount_options.push(MountOption::Suid);
    }
    if is_root && !options.nodev && !flags.contains(StatVfsMountFlags::NODEV) {
        config.mount_options.push(MountOption::Dev);
    }
    if options.noexec || flags.contains(StatVfsMountFlags::NOEXEC) {
        config.mount_options.push(MountOption::NoExec);
    }
    config
}

/// What the table of mounts names. The helper of other users takes commas for ends of options.
fn source_of(lower: &Path) -> String {
    let lower = std::path::absolute(lower).unwrap_or_else(|_| lower.to_owned());
    let path = lower.display().to_string();
    if geteuid().is_root() { path } else { path.replace('\\', "\\\\").replace(',', "\\,") }
}

/// The first signal unmounts. While the mount is used it makes everything durable and takes the
/// mount away from its place, and the last user's end is the end. The second one ends at once: the
/// next mount does what is left.
fn end_on_signals(mountpoint: PathBuf, served: Arc<Served>) -> std::io::Result<Handle> {
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    let handle = signals.handle();
    thread::Builder::new().name("oneflush-signals".to_owned()).spawn(move || {
        let mut is_first = true;
        for signal in signals.forever() {
            if !std::mem::take(&mut is_first) {
                // The numbers of the shell.
                std::process::exit(128 + signal);
            }
            if unmount::take_away(&mountpoint, UnmountFlags::NOFOLLOW).is_err() {
                // What cannot be synced is in the log, and the log stays then.
                served.watch(|| drop(served.sync_all()));
                let _ = unmount::detach(&mountpoint);
            }
        }
    })?;
    Ok(handle)
}
