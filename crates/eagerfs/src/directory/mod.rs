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
mod mark;
mod names;
mod node;

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{Mode, OFlags, StatVfs, Statx, StatxTimestamp, fstatvfs, open, syncfs};

pub use self::attributes::Extended;
pub use self::mark::is_mark;
pub use self::node::{Node, RealNode};
use self::node::{Shared, check_name, open_name};
use crate::lower::{Attribute, Changed, Found, Identity, Kind, Look, Lower, Made, Mark};

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

    /// Changes the contents of a file by something that [`Lower`] has not. The time of modification
    /// stays.
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

/// Since 1970.
fn nanoseconds(time: &StatxTimestamp) -> u64 {
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(time.tv_nsec.into())
}

impl Lower for Directory {
    type Node = Node;

    fn root(&self) -> Node {
        Arc::clone(&self.root)
    }

    fn lookup(&self, dir: &Node, name: &[u8]) -> io::Result<Node> {
        let descriptor = open_name(&*dir.descriptor()?, name)?;
        self.shared.node(descriptor, Some((dir, name)))
    }

    fn identity(&self, node: &Node) -> io::Result<Identity> {
        Ok(node.identity.clone())
    }

    fn look(&self, node: &Node) -> io::Result<Look> {
        let stat = self.stat(node)?;
        // A directory has links from itself and from those in it.
        let names = match node.kind {
            Kind::Directory => u64::from(stat.stx_nlink > 0),
            _ => u64::from(stat.stx_nlink),
        };
        Ok(Look { kind: node.kind, size_bytes: stat.stx_size, names })
    }

    fn changed(&self, node: &Node) -> io::Result<Changed> {
        let stat = self.stat(node)?;
        let (any_ns, contents_ns) = (nanoseconds(&stat.stx_ctime), nanoseconds(&stat.stx_mtime));
        Ok(Changed { any_ns, contents_ns })
    }

    fn find(&self, identity: &Identity) -> io::Result<Found<Node>> {
        let handle = identity::handle_in(identity).filter(|_| self.opens_by_handle());
        let Some(handle) = handle else { return Ok(Found::Unknown) };
        let descriptor = match handle::open(&self.shared.top, &handle) {
            Ok(descriptor) => descriptor,
            Err(error) if error.raw_os_error() == Some(libc::ESTALE) => return Ok(Found::Nowhere),
            Err(error) => return Err(error),
        };
        match self.shared.node(descriptor, None) {
            Ok(node) if node.identity == *identity => Ok(Found::Here(node)),
            Ok(_) => Ok(Found::Nowhere),
            Err(error) if error.raw_os_error() == Some(libc::EXDEV) => Ok(Found::Nowhere),
            Err(error) => Err(error),
        }
    }

    fn names(&self, dir: &Node) -> io::Result<Vec<Vec<u8>>> {
        names::all(dir)
    }

    fn make(&self, at: Option<(&Node, &[u8])>, made: &Made) -> io::Result<Node> {
        match at {
            Some((dir, name)) => {
                check_name(name)?;
                names::make(&self.shared, dir, name, made)
            }
            None => names::make_without_name(&self.shared, made),
        }
    }

    fn own(&self) -> (u32, u32) {
        (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw())
    }

    fn link(&self, node: &Node, dir: &Node, name: &[u8]) -> io::Result<()> {
        check_name(name)?;
        names::link(node, dir, name)
    }

    fn unlink(&self, dir: &Node, name: &[u8], kind: Kind) -> io::Result<()> {
        check_name(name)?;
        names::unlink(&self.shared, dir, name, kind)
    }

    fn rename(&self, from: (&Node, &[u8]), to: (&Node, &[u8])) -> io::Result<()> {
        check_name(from.1)?;
        check_name(to.1)?;
        names::rename(&self.shared, from, to)
    }

    fn exchange(&self, one: (&Node, &[u8]), other: (&Node, &[u8])) -> io::Result<()> {
        check_name(one.1)?;
        check_name(other.1)?;
        names::exchange(&self.shared, one, other)
    }

    fn set(&self, node: &Node, attribute: &Attribute) -> io::Result<()> {
        attributes::set(node, attribute)
    }

    fn truncate(&self, node: &Node, size_bytes: u64) -> io::Result<()> {
        contents::change(node, |file| file.set_len(size_bytes))
    }

    fn write(&self, node: &Node, offset: u64, bytes: &[u8]) -> io::Result<()> {
        contents::write(node, offset, bytes)
    }

    fn read(&self, node: &Node, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        contents::read(&*node.file(false)?, offset, buffer)
    }

    fn keeps_order(&self) -> bool {
        self.keeps_order
    }

    fn set_mark(&self, mark: Option<&Mark>) -> io::Result<()> {
        mark::set(self, mark)
    }

    fn mark(&self) -> io::Result<Option<Mark>> {
        mark::read(self)
    }

    fn sync(&self, node: &Node) -> io::Result<()> {
        let synced = match node.kind {
            Kind::File => node.file(false).and_then(|file| file.sync_all()),
            Kind::Directory => node.open_directory().and_then(|dir| dir.sync_all()),
            // They cannot be opened.
            Kind::Symlink | Kind::Special => self.sync_all(),
        };
        match synced {
            // It is gone, or this process cannot find it any more.
            Err(error) if error.raw_os_error() == Some(libc::ESTALE) => self.sync_all(),
            synced => synced,
        }
    }

    fn sync_all(&self) -> io::Result<()> {
        Ok(syncfs(self.shared.top.as_fd())?)
    }
}
