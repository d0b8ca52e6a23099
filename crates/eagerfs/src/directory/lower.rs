//! What eager synching asks of a lower, done by a real directory.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;

use rustix::fs::{StatxTimestamp, syncfs};

use super::node::{Node, check_name, open_name};
use super::{Directory, attributes, contents, handle, identity, mark, names};
use crate::lower::{Attribute, Changed, Found, Identity, Kind, Look, Lower, Made, Mark};

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
        mark::set(self.top(), self.mark_name, mark)
    }

    fn mark(&self) -> io::Result<Option<Mark>> {
        mark::read(self.top())
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
