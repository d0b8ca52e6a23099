//! Names: making objects, and giving, taking and moving their names.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Gid, Mode, OFlags, RenameFlags, Stat, Uid, chmod, chownat, linkat,
    mkdirat, mknodat, openat, renameat, renameat_with, statat, symlinkat, unlinkat,
};

use super::identity;
use super::node::{Node, Shared, open_name, path_of};
use crate::lower::{Kind, Made, What};

pub fn all(dir: &Node) -> io::Result<Vec<Vec<u8>>> {
    let mut names = Vec::new();
    for entry in Dir::new(dir.open_directory()?)? {
        let name = entry?.file_name().to_bytes().to_vec();
        if !matches!(name.as_slice(), b"." | b"..") {
            names.push(name);
        }
    }
    Ok(names)
}

/// An object that is not as it was asked for has no name on return.
pub fn make(shared: &Arc<Shared>, dir: &Node, name: &[u8], made: &Made) -> io::Result<Node> {
    let parent = dir.descriptor()?;
    // Nobody else may open it before it has its owner.
    let is_ours = made.uid == rustix::process::geteuid().as_raw()
        && made.gid == rustix::process::getegid().as_raw();
    let mode = Mode::from_raw_mode(if is_ours { made.mode } else { made.mode & 0o700 });
    match &made.what {
        What::File => mknodat(&*parent, name, FileType::RegularFile, mode, 0)?,
        What::Directory => mkdirat(&*parent, name, mode)?,
        What::Symlink { target } => symlinkat(target.as_slice(), &*parent, name)?,
        What::Special { kind, device } => {
            mknodat(&*parent, name, FileType::from_raw_mode(*kind), mode, *device)?;
        }
    }
    let finished = open_name(&parent, name).and_then(|descriptor| {
        finish(&descriptor, made)?;
        shared.node(descriptor, Some((dir, name)))
    });
    if finished.is_err() {
        let is_directory = made.what.kind() == Kind::Directory;
        let flags = if is_directory { AtFlags::REMOVEDIR } else { AtFlags::empty() };
        // The first error counts.
        let _ = unlinkat(&*parent, name, flags);
    }
    finished
}

pub fn make_without_name(shared: &Arc<Shared>, made: &Made) -> io::Result<Node> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let file = openat(&shared.top, c".", flags, Mode::from_raw_mode(made.mode & 0o700))?;
    finish(&file, made)?;
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let descriptor = openat(CWD, path_of(&file), flags, Mode::empty())?;
    let node = shared.node(descriptor, None)?;
    node.pin()?;
    drop(File::from(file));
    Ok(node)
}

/// Owner and mode. A change of the owner takes bits of the mode away, so the mode comes last.
fn finish(descriptor: &OwnedFd, made: &Made) -> io::Result<()> {
    let stat = identity::stat(descriptor)?;
    let has_owner = (stat.stx_uid, stat.stx_gid) == (made.uid, made.gid);
    if !has_owner {
        let (uid, gid) = (Uid::from_raw(made.uid), Gid::from_raw(made.gid));
        chownat(descriptor, c"", Some(uid), Some(gid), AtFlags::EMPTY_PATH)?;
    }
    let mode = u32::from(stat.stx_mode) & 0o7777;
    let is_link = matches!(made.what, What::Symlink { .. });
    if !is_link && (mode != made.mode || !has_owner && made.mode & 0o6000 != 0) {
        chmod(path_of(descriptor), Mode::from_raw_mode(made.mode))?;
    }
    Ok(())
}

pub fn link(node: &Node, dir: &Node, name: &[u8]) -> io::Result<()> {
    let descriptor = node.descriptor()?;
    // The path is the kernel's own link, and what it leads to is not followed further.
    linkat(CWD, path_of(&descriptor), &*dir.descriptor()?, name, AtFlags::SYMLINK_FOLLOW)?;
    node.note_name(dir, name);
    node.unpin();
    Ok(())
}

pub fn unlink(shared: &Arc<Shared>, dir: &Node, name: &[u8], kind: Kind) -> io::Result<()> {
    let parent = dir.descriptor()?;
    let is_directory = kind == Kind::Directory;
    let flags = if is_directory { AtFlags::REMOVEDIR } else { AtFlags::empty() };
    let pinned = pin_last_name(shared, &parent, name)?;
    unpin_unless(pinned, unlinkat(&*parent, name, flags).map_err(io::Error::from))
}

pub fn rename(shared: &Arc<Shared>, from: (&Node, &[u8]), to: (&Node, &[u8])) -> io::Result<()> {
    let (from_dir, to_dir) = (from.0.descriptor()?, to.0.descriptor()?);
    let moved = moved(shared, &from_dir, from.1);
    let pinned = pin_last_name(shared, &to_dir, to.1)?;
    let renamed = renameat(&*from_dir, from.1, &*to_dir, to.1).map_err(io::Error::from);
    unpin_unless(pinned, renamed)?;
    if let Some(moved) = moved {
        moved.note_name(to.0, to.1);
    }
    Ok(())
}

pub fn exchange(
    shared: &Arc<Shared>,
    one: (&Node, &[u8]),
    other: (&Node, &[u8]),
) -> io::Result<()> {
    let (one_dir, other_dir) = (one.0.descriptor()?, other.0.descriptor()?);
    let moved = (moved(shared, &one_dir, one.1), moved(shared, &other_dir, other.1));
    renameat_with(&*one_dir, one.1, &*other_dir, other.1, RenameFlags::EXCHANGE)?;
    if let Some(moved) = moved.0 {
        moved.note_name(other.0, other.1);
    }
    if let Some(moved) = moved.1 {
        moved.note_name(one.0, one.1);
    }
    Ok(())
}

fn stat_name(dir: &OwnedFd, name: &[u8]) -> io::Result<Stat> {
    Ok(statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)?)
}

/// Who is moved, where that must be known to find it again.
fn moved(shared: &Arc<Shared>, dir: &OwnedFd, name: &[u8]) -> Option<Node> {
    if shared.opens_by_handle {
        return None;
    }
    stat_name(dir, name).ok().and_then(|stat| shared.known(stat.st_ino))
}

/// Pins the object whose last name this is, so that who has it open keeps it.
fn pin_last_name(shared: &Arc<Shared>, dir: &OwnedFd, name: &[u8]) -> io::Result<Option<Node>> {
    let Ok(stat) = stat_name(dir, name) else { return Ok(None) };
    let is_directory = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
    if stat.st_nlink > 1 && !is_directory {
        return Ok(None);
    }
    let known = shared.known(stat.st_ino);
    known.map(|node| node.pin().map(|()| node)).transpose()
}

fn unpin_unless(pinned: Option<Node>, done: io::Result<()>) -> io::Result<()> {
    if let (Some(node), Err(_)) = (&pinned, &done) {
        node.unpin();
    }
    done
}
