//! A mount namespace of our own: the kernel drops its mounts with the last process in it, and nobody
//! else sees them.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::sync::Mutex;

use rustix::mount::{MountPropagationFlags, mount_change};
use rustix::thread::UnshareFlags;

/// Namespaces that this process made, by inode: a thread in one of them needs no other.
static OURS: Mutex<Vec<u64>> = Mutex::new(Vec::new());

/// Moves the calling thread into a private mount namespace, once; later calls do nothing.
///
/// Call it while the process has one thread: threads started later are in the namespace too, threads
/// that were running are not.
pub fn enter_private_namespace() -> io::Result<()> {
    let mut ours = OURS.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    if let Some(inode) = current()
        && ours.contains(&inode)
    {
        return Ok(());
    }
    // SAFETY: no file descriptor table is unshared (CLONE_FILES), which is what makes the call unsafe; a
    // new mount namespace changes only how paths are looked up.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNS) }?;
    // Many systems share "/" between namespaces: without this our mounts would appear in all of them.
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
    ours.extend(current());
    Ok(())
}

fn current() -> Option<u64> {
    fs::metadata("/proc/thread-self/ns/mnt").ok().map(|metadata| metadata.ino())
}
