//! Keeps two steps on a database file apart in this process: the close of a descriptor, and the
//! lock that begins a use of the file.
//!
//! POSIX releases all locks of a process on a file when it closes any descriptor of that file. So
//! the "unix" VFS closes none while it has locks. But it looks for locks first and closes
//! afterwards (os_unix.c, `unixClose`), and another thread may take one in between. Two processes
//! then write at the same time. A transaction that was acknowledged is lost.
//!
//! The lock here is the lowest one: nothing but the call of the VFS below is made under it.

use std::sync::atomic::{AtomicPtr, Ordering::SeqCst};

use rustix_futex_sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Databases share these locks. A lock that is shared with another one costs a short wait.
const LOCKS: usize = 64;

type Locks = [RwLock<()>; LOCKS];

static FIRST: Locks = [const { RwLock::new(()) }; LOCKS];

/// Null: [`FIRST`].
static OF_CHILD: AtomicPtr<Locks> = AtomicPtr::new(std::ptr::null_mut());

fn locks() -> &'static Locks {
    // SAFETY: null, or what `in_child` has made and nobody frees.
    unsafe { OF_CHILD.load(SeqCst).as_ref() }.unwrap_or(&FIRST)
}

/// In the child of a fork: a thread that the child does not have may hold any of the copies.
pub fn in_child() {
    let locks = Box::new([const { RwLock::new(()) }; LOCKS]);
    OF_CHILD.store(Box::into_raw(locks), SeqCst);
}

/// The lock of one file, whatever its names.
#[derive(Clone, Copy)]
pub struct Apart(u8);

impl Apart {
    pub fn of((device, inode): (u64, u64)) -> Apart {
        Apart(((inode ^ device) % LOCKS as u64) as u8)
    }

    /// A lock that begins a use of the file is taken meanwhile, and no descriptor is closed.
    pub fn to_lock(self) -> RwLockReadGuard<'static, ()> {
        locks()[usize::from(self.0)].read()
    }

    /// A descriptor is closed meanwhile, and no use begins.
    pub fn to_close(self) -> RwLockWriteGuard<'static, ()> {
        locks()[usize::from(self.0)].write()
    }
}
