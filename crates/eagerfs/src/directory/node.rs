//! Objects of the directory, and their descriptors.
//!
//! There may be millions of objects and only some thousands of descriptors. So an object has a
//! descriptor (`O_PATH`, which gives no right to the contents) only while it was used lately. The
//! least lately used one is closed, and opened again by the object's file handle. Who may not open
//! by handles opens it by its last known name, and looks whether it is the same object.
//!
//! - **N1** An object that has no name keeps its descriptor while it is *pinned*.
//! - **N2** A file that is open keeps one descriptor for all who have it open.
//! - **N3** Every other descriptor is among the lately used. It is noted there after it was opened,
//!   and closed after it was taken out there.
//! - **N4** Who has mounted and is not root opens his own objects whatever their modes are: a file
//!   that was made for reading only is written by who has made it, and is synced. The kernel has
//!   looked before what the caller may.
//!
//! Locks: none is taken while another of these is held, but a node's own before the registry's of
//! nodes.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::SystemTime;

use hashlink::LruCache;
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use rustix::fs::{CWD, Mode, OFlags, Timespec, chmod, openat};
use rustix::process::geteuid;

use super::handle;
use super::identity::{self, handle_in, kind_of};
use crate::lower::{Identity, Kind};

pub type Node = Arc<RealNode>;

/// An object of the directory.
#[derive(Debug)]
pub struct RealNode {
    pub identity: Identity,
    pub kind: Kind,
    /// Among the lately used.
    number: u64,
    state: Mutex<State>,
    /// When its contents were changed, as who writes has said it. Held over each change of it.
    pub(super) modified: Mutex<Option<Timespec>>,
    /// When it was changed, as the kernel has said it with the last time of modification. Held
    /// while that is set.
    pub told: Mutex<Option<SystemTime>>,
    /// Held over each change of the mode.
    pub(super) mode: Mutex<()>,
    shared: Weak<Shared>,
}

#[derive(Debug, Default)]
struct State {
    descriptor: Option<Arc<OwnedFd>>,
    file: Option<Opened>,
    /// Who has it open.
    opens: u64,
    is_pinned: bool,
    /// A name that it had. Kept only where objects cannot be opened by handle.
    name: Option<(Node, Vec<u8>)>,
}

#[derive(Clone, Debug)]
pub struct Opened {
    pub file: Arc<File>,
    pub may_write: bool,
}

/// What all objects of a directory share.
#[derive(Debug)]
pub struct Shared {
    /// The directory, opened for reading.
    pub top: File,
    pub device: (u32, u32),
    pub mount: Option<u64>,
    pub opens_by_handle: bool,
    by_inode: Mutex<FxHashMap<u64, Weak<RealNode>>>,
    used: Mutex<LruCache<u64, Weak<RealNode>>>,
    last: AtomicU64,
}

impl Shared {
    pub fn new(
        top: File,
        device: (u32, u32),
        mount: Option<u64>,
        opens_by_handle: bool,
        descriptors_max: usize,
    ) -> Shared {
        Shared {
            top,
            device,
            mount,
            opens_by_handle,
            by_inode: Mutex::default(),
            used: Mutex::new(LruCache::new(descriptors_max.max(1))),
            last: AtomicU64::new(0),
        }
    }

    /// The object of this descriptor. `EXDEV`: it is of another file system.
    pub fn node(
        self: &Arc<Self>,
        descriptor: OwnedFd,
        name: Option<(&Node, &[u8])>,
    ) -> io::Result<Node> {
        let stat = identity::stat(&descriptor)?;
        let is_same_mount = self.mount.is_none_or(|mount| mount == stat.stx_mnt_id);
        if (stat.stx_dev_major, stat.stx_dev_minor) != self.device || !is_same_mount {
            return Err(io::Error::from_raw_os_error(libc::EXDEV));
        }
        let identity = identity::identity(&descriptor, &stat)?;
        let kind = kind_of(u32::from(stat.stx_mode));
        let name = name.filter(|_| !self.opens_by_handle);
        let name = name.map(|(dir, name)| (Arc::clone(dir), name.to_vec()));
        let descriptor = Arc::new(descriptor);
        let known = self.known(stat.stx_ino).filter(|known| known.identity == identity);
        let node = known.unwrap_or_else(|| self.add(identity, kind));
        {
            let mut state = node.state.lock();
            state.descriptor.get_or_insert(descriptor);
            let before = name.and_then(|name| state.name.replace(name));
            drop(state);
            drop(before);
        }
        self.note_use(&node);
        Ok(node)
    }

    pub fn known(&self, inode: u64) -> Option<Node> {
        self.by_inode.lock().get(&inode).and_then(Weak::upgrade)
    }

    fn add(self: &Arc<Self>, identity: Identity, kind: Kind) -> Node {
        let number = self.last.fetch_add(1, Ordering::Relaxed);
        let shared = Arc::downgrade(self);
        let inode = identity.inode;
        let node = Arc::new(RealNode {
            identity,
            kind,
            number,
            state: Mutex::default(),
            modified: Mutex::default(),
            told: Mutex::default(),
            mode: Mutex::default(),
            shared,
        });
        let is_same = |other: &Node| other.identity == node.identity;
        let other = {
            let mut by_inode = self.by_inode.lock();
            let other = by_inode.get(&inode).and_then(Weak::upgrade);
            if !other.as_ref().is_some_and(is_same) {
                by_inode.insert(inode, Arc::downgrade(&node));
            }
            other
        };
        // Outside of the lock: the last reference to a node takes it.
        other.filter(is_same).unwrap_or(node)
    }

    /// N3.
    fn note_use(&self, node: &Node) {
        let mut closed = Vec::new();
        {
            let mut used = self.used.lock();
            if used.get(&node.number).is_some() {
                return;
            }
            while used.len() >= used.capacity() {
                closed.extend(used.remove_lru().map(|(_, node)| node));
            }
            used.insert(node.number, Arc::downgrade(node));
        }
        for node in closed.iter().filter_map(Weak::upgrade) {
            let descriptor = {
                let mut state = node.state.lock();
                if state.is_pinned { None } else { state.descriptor.take() }
            };
            drop(descriptor);
        }
    }
}

fn stale() -> io::Error {
    io::Error::from_raw_os_error(libc::ESTALE)
}

/// A path that leads to the object of a descriptor, for calls that know no other.
pub fn path_of(descriptor: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", descriptor.as_raw_fd())
}

impl RealNode {
    fn shared(&self) -> io::Result<Arc<Shared>> {
        self.shared.upgrade().ok_or_else(stale)
    }

    /// `ESTALE`: the object is gone, or cannot be found any more.
    pub fn descriptor(self: &Arc<Self>) -> io::Result<Arc<OwnedFd>> {
        let shared = self.shared()?;
        let there = self.state.lock().descriptor.clone();
        let descriptor = match there {
            Some(descriptor) => descriptor,
            None => {
                let opened = Arc::new(self.open_again(&shared)?);
                Arc::clone(self.state.lock().descriptor.get_or_insert(opened))
            }
        };
        shared.note_use(self);
        Ok(descriptor)
    }

    fn open_again(&self, shared: &Shared) -> io::Result<OwnedFd> {
        let opened = match handle_in(&self.identity).filter(|_| shared.opens_by_handle) {
            Some(handle) => handle::open(&shared.top, &handle)?,
            None => {
                let name = self.state.lock().name.clone();
                let (dir, name) = name.ok_or_else(stale)?;
                open_name(&*dir.descriptor()?, &name).map_err(|_| stale())?
            }
        };
        let stat = identity::stat(&opened)?;
        if identity::identity(&opened, &stat)? != self.identity {
            return Err(stale());
        }
        Ok(opened)
    }

    /// It has got a name, or another one.
    pub fn note_name(&self, dir: &Node, name: &[u8]) {
        if self.shared.upgrade().is_some_and(|shared| !shared.opens_by_handle) {
            let before = self.state.lock().name.replace((Arc::clone(dir), name.to_vec()));
            drop(before);
        }
    }

    /// N1.
    pub fn pin(self: &Arc<Self>) -> io::Result<()> {
        let descriptor = self.descriptor()?;
        let mut state = self.state.lock();
        state.is_pinned = true;
        state.descriptor.get_or_insert(descriptor);
        Ok(())
    }

    /// Nobody can reach it any more, or it has a name again.
    pub fn unpin(self: &Arc<Self>) {
        let descriptor = {
            let mut state = self.state.lock();
            if !std::mem::take(&mut state.is_pinned) {
                return;
            }
            state.descriptor.take()
        };
        drop(descriptor);
    }

    /// The file stays open until [`close`](RealNode::close) was called as often. It may be written
    /// if this process may, also where nobody asks for that: what is synced is read, and what the
    /// kernel has cached is written, by any who has it open.
    pub fn open(self: &Arc<Self>, writes: bool) -> io::Result<()> {
        let there = self.state.lock().file.clone();
        let opened = match there.filter(|there| there.may_write || !writes) {
            Some(opened) => opened,
            None => self.open_file(writes)?,
        };
        let mut state = self.state.lock();
        state.opens += 1;
        match &mut state.file {
            Some(there) if there.may_write || !opened.may_write => {}
            file => *file = Some(opened),
        }
        Ok(())
    }

    /// True: nobody has it open any more.
    pub fn close(&self) -> bool {
        let mut state = self.state.lock();
        state.opens = state.opens.saturating_sub(1);
        let is_last = state.opens == 0;
        let closed = if is_last { state.file.take() } else { None };
        drop(state);
        drop(closed);
        is_last
    }

    /// The file, for as long as it is needed.
    pub fn file(self: &Arc<Self>, writes: bool) -> io::Result<Arc<File>> {
        let there = self.state.lock().file.clone();
        match there.filter(|there| there.may_write || !writes) {
            Some(opened) => Ok(opened.file),
            None => Ok(self.open_file(writes)?.file),
        }
    }

    fn open_file(self: &Arc<Self>, writes: bool) -> io::Result<Opened> {
        if self.kind != Kind::File {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        let descriptor = self.descriptor()?;
        let opens = |flags| reopen_without_access(&descriptor, flags);
        let opened = match opens(OFlags::RDWR) {
            Err(_) if !writes => {
                let file = opens(OFlags::RDONLY).map(Arc::new);
                file.map(|file| Opened { file, may_write: false })
            }
            opened => opened.map(|file| Opened { file: Arc::new(file), may_write: true }),
        };
        self.or_as_owner(&descriptor, opened, || {
            Ok(Opened { file: Arc::new(opens(OFlags::RDWR)?), may_write: true })
        })
    }

    /// N4. Nobody but its owner gets a right by it, and for a moment only.
    fn or_as_owner<T>(
        &self,
        descriptor: &OwnedFd,
        opened: io::Result<T>,
        open: impl FnOnce() -> io::Result<T>,
    ) -> io::Result<T> {
        if !opened.as_ref().is_err_and(|error| error.raw_os_error() == Some(libc::EACCES)) {
            return opened;
        }
        let _nobody_changes_it = self.mode.lock();
        let stat = identity::stat(descriptor)?;
        if stat.stx_uid != geteuid().as_raw() {
            return opened;
        }
        let mode = u32::from(stat.stx_mode) & 0o7777;
        let path = path_of(descriptor);
        chmod(&path, Mode::from_raw_mode(mode | 0o600))?;
        let opened = open();
        chmod(&path, Mode::from_raw_mode(mode))?;
        opened
    }

    /// The directory, opened for reading its names, or for a sync.
    pub fn open_directory(self: &Arc<Self>) -> io::Result<File> {
        let descriptor = self.descriptor()?;
        let open = || reopen(&descriptor, OFlags::RDONLY | OFlags::DIRECTORY);
        self.or_as_owner(&descriptor, open(), open)
    }
}

/// A sync reads what it logs. That must not set the time of access, which a program may have set.
fn reopen_without_access(descriptor: &OwnedFd, flags: OFlags) -> io::Result<File> {
    match reopen(descriptor, flags | OFlags::NOATIME) {
        // Another's file.
        Err(error) if error.raw_os_error() == Some(libc::EPERM) => reopen(descriptor, flags),
        opened => opened,
    }
}

fn reopen(descriptor: &OwnedFd, flags: OFlags) -> io::Result<File> {
    let flags = flags | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    Ok(File::from(openat(CWD, path_of(descriptor), flags, Mode::empty())?))
}

/// Opens without any right, and never what a link points to.
pub fn open_name(dir: &OwnedFd, name: &[u8]) -> io::Result<OwnedFd> {
    check_name(name)?;
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(openat(dir, name, flags, Mode::empty())?)
}

/// A name, and no path.
pub fn check_name(name: &[u8]) -> io::Result<()> {
    let is_name = !matches!(name, b"" | b"." | b"..") && !name.contains(&b'/');
    if is_name { Ok(()) } else { Err(io::Error::from_raw_os_error(libc::EINVAL)) }
}

impl Drop for RealNode {
    fn drop(&mut self) {
        let Some(shared) = self.shared.upgrade() else { return };
        shared.used.lock().remove(&self.number);
        let mut by_inode = shared.by_inode.lock();
        let inode = self.identity.inode;
        if by_inode.get(&inode).is_some_and(|node| node.strong_count() == 0) {
            by_inode.remove(&inode);
        }
    }
}
