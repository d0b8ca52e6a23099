//! Where the file system keeps its journal, read from the superblock.
//!
//! These are own parsers of a few fields. The tools that print the fields (debugfs, xfs_db) are not
//! always installed, and their output is not a format. Offsets: Linux
//! `Documentation/filesystems/ext4/super.rst` and `ifork.rst`; XFS `xfs_dsb` in
//! `fs/xfs/libxfs/xfs_format.h`.

use super::volume::{FileSystem, Volume};
use super::{KernelError, device};

/// The superblocks of ext4, XFS and F2FS are in it.
const HEAD_BYTES: usize = 4096;

/// Bytes on the device, `end` excluded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Area {
    pub start: u64,
    pub end: u64,
}

impl Area {
    pub(super) fn contains(self, byte: u64) -> bool {
        (self.start..self.end).contains(&byte)
    }
}

/// Where the journal is on the disk. Empty if the file system has no fixed journal. Also empty if
/// it keeps the journal at a place that the superblock alone does not say.
pub(super) fn journal(volume: &Volume) -> Result<Vec<Area>, KernelError> {
    let path = volume.path();
    let read = || device::read_at::<HEAD_BYTES>(volume, 0);
    let wrong = |what: &str| KernelError::Format { path: path.clone(), what: what.to_owned() };
    let areas = match volume.file_system {
        FileSystem::Ext4 => {
            ext4(&read()?).ok_or_else(|| wrong("no ext4 superblock with a journal"))?
        }
        FileSystem::Xfs => {
            xfs(&read()?).ok_or_else(|| wrong("no XFS superblock with an internal log"))?
        }
        FileSystem::Btrfs | FileSystem::F2fs | FileSystem::Other => Vec::new(),
    };
    let on_disk = |area: Area| Area {
        start: area.start + volume.start_bytes,
        end: area.end + volume.start_bytes,
    };
    Ok(areas.into_iter().map(on_disk).collect())
}

/// The identifier that btrfs's trace events carry. See `struct btrfs_super_block` in
/// `linux/btrfs_tree.h`.
pub(super) fn btrfs_fsid(volume: &Volume) -> Result<[u8; 16], KernelError> {
    const SUPERBLOCK_OFFSET: u64 = 64 << 10;
    const FSID_OFFSET: u64 = 0x20;
    device::read_at(volume, SUPERBLOCK_OFFSET + FSID_OFFSET)
}

/// A block of F2FS (`struct f2fs_super_block`, `linux/f2fs_fs.h`).
pub(super) fn f2fs_block_bytes(volume: &Volume) -> Result<u64, KernelError> {
    let head = device::read_at::<HEAD_BYTES>(volume, 0)?;
    let what = "no F2FS superblock".to_owned();
    f2fs(&head).ok_or_else(|| KernelError::Format { path: volume.path(), what })
}

fn f2fs(head: &[u8]) -> Option<u64> {
    const MAGIC: u64 = 0xF2F5_2010;
    let superblock = head.get(1024..)?;
    if le32(superblock, 0)? != MAGIC {
        return None;
    }
    // log_blocksize: 4 KiB, or the kernel's page.
    1u64.checked_shl(u32::try_from(le32(superblock, 16)?).ok()?)
}

fn le16(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?).into())
}

fn le32(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?).into())
}

fn be32(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?).into())
}

/// The superblock holds a copy of the journal inode's block map (`s_jnl_blocks`).
fn ext4(head: &[u8]) -> Option<Vec<Area>> {
    const MAGIC: u64 = 0xEF53;
    const EXTENT_MAGIC: u64 = 0xF30A;
    const JOURNAL_BACKUP_IS_BLOCKS: u8 = 1;
    let superblock = head.get(1024..2048)?;
    if le16(superblock, 0x38)? != MAGIC || superblock[0xFD] != JOURNAL_BACKUP_IS_BLOCKS {
        return None;
    }
    let block_bytes = 1024u64.checked_shl(u32::try_from(le32(superblock, 0x18)?).ok()?)?;
    let map = superblock.get(0x10C..0x10C + 60)?;
    if le16(map, 0)? != EXTENT_MAGIC {
        return None;
    }
    let (entries, depth) = (le16(map, 2)?.min(4) as usize, le16(map, 6)?);
    if depth > 0 {
        // A journal in more than four pieces. Its threads are recognized by name instead.
        return Some(Vec::new());
    }
    (0..entries)
        .map(|entry| {
            let at = 12 + entry * 12;
            let blocks = le16(map, at + 4)?;
            let start = (le16(map, at + 6)? << 32 | le32(map, at + 8)?).checked_mul(block_bytes)?;
            Some(Area { start, end: start.checked_add(blocks * block_bytes)? })
        })
        .collect()
}

/// A block number of XFS is an allocation group and a block in it.
fn xfs(head: &[u8]) -> Option<Vec<Area>> {
    if head.get(..4)? != b"XFSB" {
        return None;
    }
    let block_bytes = be32(head, 4)?;
    let log_start = be32(head, 48)? << 32 | be32(head, 52)?;
    let group_blocks = be32(head, 84)?;
    let log_blocks = be32(head, 96)?;
    let group_shift = u32::from(*head.get(124)?);
    if log_start == 0 {
        // The log is on another device.
        return None;
    }
    let block = log_start.checked_shr(group_shift)?.checked_mul(group_blocks)?
        + (log_start & (1u64.checked_shl(group_shift)? - 1));
    let start = block.checked_mul(block_bytes)?;
    Some(vec![Area { start, end: start.checked_add(log_blocks.checked_mul(block_bytes)?)? }])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ext4_journal_extent_is_read_from_its_backup() {
        let mut head = [0; 4096];
        let sb = &mut head[1024..];
        sb[0x38..0x3A].copy_from_slice(&0xEF53u16.to_le_bytes());
        sb[0x18] = 2;
        sb[0xFD] = 1;
        sb[0x10C..0x10E].copy_from_slice(&0xF30Au16.to_le_bytes());
        sb[0x10E] = 1;
        sb[0x10C + 16..0x10C + 18].copy_from_slice(&8192u16.to_le_bytes());
        sb[0x10C + 20..0x10C + 24].copy_from_slice(&131_072u32.to_le_bytes());
        let journal = Area { start: 131_072 * 4096, end: (131_072 + 8192) * 4096 };
        assert_eq!(ext4(&head), Some(vec![journal]));
    }

    #[test]
    fn xfs_log_in_the_second_group_is_found() {
        let mut head = [0; 4096];
        head[..4].copy_from_slice(b"XFSB");
        head[4..8].copy_from_slice(&4096u32.to_be_bytes());
        head[48..56].copy_from_slice(&((2u64 << 16) | 6).to_be_bytes());
        head[84..88].copy_from_slice(&65_536u32.to_be_bytes());
        head[96..100].copy_from_slice(&16_384u32.to_be_bytes());
        head[124] = 16;
        let log = Area { start: (131_072 + 6) * 4096, end: (131_072 + 6 + 16_384) * 4096 };
        assert_eq!(xfs(&head), Some(vec![log]));
    }

    #[test]
    fn f2fs_block_size_is_read() {
        let mut head = [0; 4096];
        head[1024..1028].copy_from_slice(&0xF2F5_2010u32.to_le_bytes());
        head[1040..1044].copy_from_slice(&12u32.to_le_bytes());
        assert_eq!(f2fs(&head), Some(4096));
    }

    #[test]
    fn other_superblocks_are_refused_without_a_panic() {
        assert_eq!(f2fs(&[0; 4096]), None);
        assert_eq!(ext4(&[0; 4096]), None);
        assert_eq!(xfs(&[0xFF; 4096]), None);
        assert_eq!(ext4(&[0; 10]), None);
    }
}
