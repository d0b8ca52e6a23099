//! A mount namespace of our own. The kernel drops its mounts with the last process in it. No
//! process outside sees them.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::sync::Mutex;

use rustix::mount::{MountPropagationFlags, mount_change};
use rustix::thread::UnshareFlags;

/// Namespaces that this process made, by inode. A thread in one of them needs no other.
static OURS: Mutex<Vec<u64>> = Mutex::new(Vec::new());

/// Moves the calling thread into a private mount namespace, once. Later calls do nothing.
///
/// Call it while the process has one thread. Threads that are started later are in the namespace
/// too. Threads that were already running are not.
pub fn enter_private_namespace() -> io::Result<()> {
    let mut ours = OURS.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    if let Some(inode) = current()
        && ours.contains(&inode)
    {
        return Ok(());
    }
    // SAFETY: the call is unsafe only if it unshares a file descriptor table (CLONE_FILES). It
    // unshares none; a new mount namespace changes only how paths are looked up.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNS) }?;
    // Many systems share "/" between namespaces. Without this, our mounts would appear in all of
    // them.
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
    ours.extend(current());
    Ok(())
}

fn current() -> Option<u64> {
    fs::metadata("/proc/thread-self/ns/mnt").ok().map(|metadata| metadata.ino())
}
