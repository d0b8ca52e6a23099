//! A real directory on Linux as the lower.
//!
//! - **D1** An object is recognised by its number, its file handle and its birth (`identity.rs`).
//! - **D2** Nothing is followed: no symbolic link, and no mount inside. What lies on another file
//!   system, or under another mount, is `EXDEV`.
//! - **D3** Few descriptors are open at a time (`node.rs`, N1 to N3).
//! - **D4** Errors are the kernel's, with its numbers.

mod attributes;
mod contents;
mod handle;
mod identity;
mod lower;
mod mark;
mod names;
mod node;

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{Mode, OFlags, StatVfs, Statx, fstatvfs, open};

pub use attributes::Extended;
pub use mark::is_mark;
use node::Shared;
pub use node::{Node, RealNode};

#[derive(Debug)]
pub struct Directory {
    shared: Arc<Shared>,
    root: Node,
    /// Of the mark, if there can be one.
    mark_name: Option<&'static str>,
    keeps_order: bool,
}

impl Directory {
    /// `descriptors_max`: how many are kept open of objects that nobody has open.
    pub fn open(path: &Path, descriptors_max: usize) -> io::Result<Directory> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let top = File::from(open(path, flags, Mode::empty())?);
        let stat = identity::stat(&top)?;
        let device = (stat.stx_dev_major, stat.stx_dev_minor);
        let has_mount = stat.stx_mask & rustix::fs::StatxFlags::MNT_ID.bits() != 0;
        let mount = has_mount.then_some(stat.stx_mnt_id);
        let handle = handle::of(&top)?;
        let opens_by_handle = handle.is_some_and(|handle| handle::open(&top, &handle).is_ok());
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let descriptor = rustix::fs::openat(&top, c".", flags, Mode::empty())?;
        let shared = Shared::new(top, device, mount, opens_by_handle, descriptors_max);
        let shared = Arc::new(shared);
        let root = shared.node(descriptor, None)?;
        root.pin()?;
        let mark_name = mark::own_name(&shared.top);
        let keeps_order = mark_name.is_some() && mark::keeps_order(&shared.top)?;
        Ok(Directory { shared, root, mark_name, keeps_order })
    }

    /// True if objects are found by their identities, whatever their names are.
    pub fn opens_by_handle(&self) -> bool {
        self.shared.opens_by_handle
    }

    /// The directory itself, opened for reading.
    pub fn top(&self) -> &File {
        &self.shared.top
    }

    pub fn stat(&self, node: &Node) -> io::Result<Statx> {
        identity::stat(&*node.descriptor()?)
    }

    /// Changes the contents of a file by something that [`Lower`](crate::lower::Lower) has not. The
    /// time of modification stays.
    pub fn change<T>(
        &self,
        node: &Node,
        change: impl FnOnce(&File) -> io::Result<T>,
    ) -> io::Result<T> {
        contents::change(node, change)
    }

    pub fn read_link(&self, node: &Node) -> io::Result<Vec<u8>> {
        let target = rustix::fs::readlinkat(&*node.descriptor()?, c"", Vec::new())?;
        Ok(target.into_bytes())
    }

    pub fn stat_file_system(&self) -> io::Result<StatVfs> {
        Ok(fstatvfs(&self.shared.top)?)
    }
}
