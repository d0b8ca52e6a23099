//! Whether a file is a database of LS-MVBT, by its first bytes, and where its head is on the
//! device.
//!
//! The file is opened only to read. Nothing is locked, and its time of access stays. The recorder
//! has no locks of its own, which a close would take away.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use crate::kernel::{Area, FileSystem, Volume};
use crate::model::{LSMVBT_HEAD_BYTES, LSMVBT_MAGIC};

/// What the recording says of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Lsmvbt {
    pub page_bytes: u32,
    /// Offsets in the file, and where they are on the disk. Empty: nobody knows it, or the file
    /// system may write it elsewhere each time.
    pub head: Vec<(u64, Area)>,
}

/// Where the anchor has the size of a page.
const PAGE_BYTES_AT: usize = 20;

/// `None`: the file is something else, or is gone.
pub(super) fn of(path: &Path, inode: u64, volume: &Volume) -> Option<Lsmvbt> {
    let file = open(path).ok()?;
    let metadata = file.metadata().ok()?;
    if !metadata.is_file() || metadata.ino() != inode {
        return None;
    }
    let mut anchor = [0; PAGE_BYTES_AT + 4];
    file.read_exact_at(&mut anchor, 0).ok()?;
    let page_bytes = u32::from_le_bytes(anchor[PAGE_BYTES_AT..].try_into().ok()?);
    if !anchor.starts_with(LSMVBT_MAGIC) || page_bytes == 0 {
        return None;
    }
    // Others write what is changed to another place.
    let stays = matches!(volume.file_system, FileSystem::Ext4 | FileSystem::Xfs);
    let mut head = if stays { pieces(&file).unwrap_or_default() } else { Vec::new() };
    for (_, area) in &mut head {
        *area = Area { start: area.start + volume.start_bytes, end: area.end + volume.start_bytes };
    }
    Some(Lsmvbt { page_bytes, head })
}

/// Nobody waits at a pipe, and no time of access is written.
fn open(path: &Path) -> io::Result<File> {
    let flags = libc::O_NONBLOCK | libc::O_NOFOLLOW;
    let quiet = OpenOptions::new().read(true).custom_flags(flags | libc::O_NOATIME).open(path);
    // Only the owner and root may ask for that.
    quiet.or_else(|_| OpenOptions::new().read(true).custom_flags(flags).open(path))
}

/// `FS_IOC_FIEMAP` of `linux/fs.h`, and its structures of `linux/fiemap.h`.
const FS_IOC_FIEMAP: libc::Ioctl = 0xC020_660B_u32 as libc::Ioctl;
/// Each block of the head may lie elsewhere.
const EXTENTS_COUNT_MAX: usize = (LSMVBT_HEAD_BYTES / 4096) as usize;
/// The place on the device is not known, or is not that of the bytes.
const NOT_PLAIN: u32 = 0x2 | 0x4 | 0x8 | 0x80 | 0x100 | 0x200 | 0x400;

#[repr(C)]
#[derive(Default)]
struct Map {
    start: u64,
    length: u64,
    flags: u32,
    mapped_extents: u32,
    extent_count: u32,
    reserved: u32,
    extents: [Extent; EXTENTS_COUNT_MAX],
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Extent {
    logical: u64,
    physical: u64,
    length: u64,
    reserved_words: [u64; 2],
    flags: u32,
    reserved: [u32; 3],
}

const _: () = assert!(size_of::<Map>() == 32 + 56 * EXTENTS_COUNT_MAX);

/// Where the head of the file is on the volume. Empty if a part of it is nowhere.
fn pieces(file: &File) -> io::Result<Vec<(u64, Area)>> {
    let mut map =
        Map { length: LSMVBT_HEAD_BYTES, extent_count: EXTENTS_COUNT_MAX as u32, ..Map::default() };
    // SAFETY: the descriptor is open. `map` is the head and as many extents as it says, which the
    // call fills.
    if unsafe { libc::ioctl(file.as_raw_fd(), FS_IOC_FIEMAP, &raw mut map) } < 0 {
        return Err(io::Error::last_os_error());
    }
    let mut pieces = Vec::new();
    let mut at = 0;
    for extent in map.extents.iter().take(map.mapped_extents as usize) {
        if extent.logical != at || extent.flags & NOT_PLAIN != 0 || at >= LSMVBT_HEAD_BYTES {
            break;
        }
        let length = extent.length.min(LSMVBT_HEAD_BYTES - at);
        pieces.push((at, Area { start: extent.physical, end: extent.physical + length }));
        at += length;
    }
    if at < LSMVBT_HEAD_BYTES {
        pieces.clear();
    }
    Ok(pieces)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_regular_file_with_the_first_bytes_is_one() {
        let folder = tempfile::tempdir().unwrap();
        let volume = Volume {
            name: "none".to_owned(),
            disk: (0, 0),
            partition: None,
            start_bytes: 0,
            file_system: FileSystem::Other,
            mount_point: folder.path().to_owned(),
            inode_dev: (0, 0),
        };
        let path = folder.path().join("a.db");
        let mut anchor = LSMVBT_MAGIC.to_vec();
        anchor.extend([1, 0, 0, 0, 0, 0x10, 0, 0]);
        std::fs::write(&path, &anchor).unwrap();
        let inode = path.metadata().unwrap().ino();
        let found = of(&path, inode, &volume);
        assert_eq!(found, Some(Lsmvbt { page_bytes: 4096, head: Vec::new() }));
        assert_eq!(of(&path, inode + 1, &volume), None, "another file has this name now");
        assert_eq!(of(folder.path(), folder.path().metadata().unwrap().ino(), &volume), None);
        for bytes in [&b"SQLite format 3\0 and more"[..], b"Oneflush", b""] {
            std::fs::write(&path, bytes).unwrap();
            assert_eq!(of(&path, inode, &volume), None);
        }
    }
}
