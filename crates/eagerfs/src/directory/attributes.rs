//! Attributes of objects. Extended ones are reached by a path, for no call takes a descriptor that
//! gives no right.

use std::io;

use rustix::fs::{
    AtFlags, CWD, Gid, Mode, Timespec, Timestamps, Uid, XattrFlags, chmod, chownat, getxattr,
    listxattr, removexattr, setxattr, utimensat,
};
use rustix::io::Errno;

use super::Directory;
use super::contents::OMITTED;
use super::node::{Node, path_of};
use crate::lower::{Attribute, Time};

/// The longest value and the longest list (`XATTR_SIZE_MAX`, `XATTR_LIST_MAX`).
const BYTES_MAX: usize = 65_536;

pub fn set(node: &Node, attribute: &Attribute) -> io::Result<()> {
    let descriptor = node.descriptor()?;
    let path = path_of(&descriptor);
    // An owner and a list change the mode, too.
    let _mode = node.mode.lock();
    match attribute {
        Attribute::Mode(mode) => chmod(path, Mode::from_raw_mode(mode & 0o7777))?,
        Attribute::Owner { uid, gid } => {
            let (uid, gid) = (Uid::from_raw(*uid), Gid::from_raw(*gid));
            chownat(&*descriptor, c"", Some(uid), Some(gid), AtFlags::EMPTY_PATH)?;
        }
        Attribute::Accessed(time) => {
            let times = Timestamps { last_access: timespec(*time), last_modification: OMITTED };
            utimensat(CWD, path, &times, AtFlags::empty())?;
        }
        Attribute::Modified(time) => {
            let mut modified = node.modified.lock();
            let time = timespec(*time);
            let times = Timestamps { last_access: OMITTED, last_modification: time };
            utimensat(CWD, path, &times, AtFlags::empty())?;
            *modified = Some(time);
        }
        Attribute::Extended { name, value: Some(value) } => {
            setxattr(path, name.as_slice(), value, XattrFlags::empty())?;
        }
        Attribute::Extended { name, value: None } => match removexattr(path, name.as_slice()) {
            // It is as it was asked for.
            Err(Errno::NODATA) => {}
            removed => removed?,
        },
    }
    Ok(())
}

fn timespec(time: Time) -> Timespec {
    Timespec { tv_sec: time.seconds, tv_nsec: time.nanoseconds.into() }
}

/// Reading extended attributes.
pub trait Extended {
    /// `ENODATA`: it has none of this name.
    fn extended(&self, node: &Node, name: &[u8]) -> io::Result<Vec<u8>>;
    /// All names, each with a zero behind it.
    fn extended_names(&self, node: &Node) -> io::Result<Vec<u8>>;
}

impl Extended for Directory {
    fn extended(&self, node: &Node, name: &[u8]) -> io::Result<Vec<u8>> {
        let descriptor = node.descriptor()?;
        let mut value = Vec::new();
        fill(&mut value, |value| getxattr(path_of(&descriptor), name, value))?;
        Ok(value)
    }

    fn extended_names(&self, node: &Node) -> io::Result<Vec<u8>> {
        let descriptor = node.descriptor()?;
        let mut names = Vec::new();
        fill(&mut names, |names| listxattr(path_of(&descriptor), names))?;
        Ok(names)
    }
}

/// Nearly all are short.
fn fill(
    bytes: &mut Vec<u8>,
    read: impl Fn(&mut [u8]) -> rustix::io::Result<usize>,
) -> io::Result<()> {
    bytes.resize(256, 0);
    let length = match read(bytes) {
        Err(Errno::RANGE) => {
            bytes.resize(BYTES_MAX, 0);
            read(bytes)?
        }
        read => read?,
    };
    bytes.truncate(length);
    Ok(())
}
