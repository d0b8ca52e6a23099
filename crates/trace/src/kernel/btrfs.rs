//! btrfs: which logical addresses lie where on the device.
//!
//! Files and trees live in a logical address space. Chunks of 8 MiB to 1 GiB map it to the device.
//! The block events speak of the device, the file system's own events of logical addresses. The map
//! is read from the chunk tree with BTRFS_IOC_TREE_SEARCH. Structures: `linux/btrfs_tree.h`.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

const BTRFS_IOC_TREE_SEARCH: libc::Ioctl = 0xD000_9411_u32 as libc::Ioctl;
const CHUNK_TREE: u64 = 3;
const FIRST_CHUNK_TREE_OBJECT: u64 = 256;
const CHUNK_ITEM_KEY: u32 = 228;
const ITEM_HEADER_BYTES: usize = 32;
const CHUNK_HEADER_BYTES: usize = 48;
const STRIPE_BYTES: usize = 32;
const STRIPED_PROFILES: u64 = 1 << 3 | 1 << 6 | 1 << 7 | 1 << 8;

/// All on one device: a copy for each stripe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Chunk {
    pub(super) logical: u64,
    pub(super) length_bytes: u64,
    pub(super) physical: Vec<u64>,
}

#[repr(C)]
struct SearchKey {
    tree_id: u64,
    min_objectid: u64,
    max_objectid: u64,
    min_offset: u64,
    max_offset: u64,
    min_transid: u64,
    max_transid: u64,
    min_type: u32,
    max_type: u32,
    nr_items: u32,
    unused: u32,
    unused_more: [u64; 4],
}

#[repr(C)]
struct SearchArgs {
    key: SearchKey,
    buffer: [u8; 4096 - size_of::<SearchKey>()],
}

const _: () = assert!(size_of::<SearchArgs>() == 4096);

/// The chunks of the file system that `path` is on.
pub(super) fn chunks(path: &Path) -> io::Result<Vec<Chunk>> {
    let file = File::open(path)?;
    let mut chunks = Vec::new();
    let mut min_offset = 0;
    loop {
        let mut args = SearchArgs {
            key: SearchKey {
                tree_id: CHUNK_TREE,
                min_objectid: FIRST_CHUNK_TREE_OBJECT,
                max_objectid: FIRST_CHUNK_TREE_OBJECT,
                min_offset,
                max_offset: u64::MAX,
                min_transid: 0,
                max_transid: u64::MAX,
                min_type: CHUNK_ITEM_KEY,
                max_type: CHUNK_ITEM_KEY,
                nr_items: u32::MAX,
                unused: 0,
                unused_more: [0; 4],
            },
            buffer: [0; 4096 - size_of::<SearchKey>()],
        };
        // SAFETY: the descriptor is open, and `args` is the 4096 bytes that this call reads and
        // fills.
        if unsafe { libc::ioctl(file.as_raw_fd(), BTRFS_IOC_TREE_SEARCH, &raw mut args) } < 0 {
            return Err(io::Error::last_os_error());
        }
        let found = parse(&args.buffer, args.key.nr_items as usize).ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidData, "chunk tree of an unknown form")
        })?;
        let Some(last) = found.last() else { return Ok(chunks) };
        min_offset = last.logical + 1;
        chunks.extend(found);
    }
}

/// Items as the call returns them: header (transid, objectid, offset, type, length), then the
/// chunk.
fn parse(buffer: &[u8], items: usize) -> Option<Vec<Chunk>> {
    let mut chunks = Vec::new();
    let mut at = 0;
    for _ in 0..items {
        let header = buffer.get(at..at + ITEM_HEADER_BYTES)?;
        let logical = u64::from_ne_bytes(header[16..24].try_into().ok()?);
        let item_bytes = u32::from_ne_bytes(header[28..32].try_into().ok()?) as usize;
        let item = buffer.get(at + ITEM_HEADER_BYTES..at + ITEM_HEADER_BYTES + item_bytes)?;
        let length_bytes = u64::from_le_bytes(item.get(..8)?.try_into().ok()?);
        let profile = u64::from_le_bytes(item.get(24..32)?.try_into().ok()?);
        let stripes = u16::from_le_bytes(item.get(44..46)?.try_into().ok()?) as usize;
        if profile & STRIPED_PROFILES != 0 {
            return None;
        }
        let physical = (0..stripes)
            .map(|stripe| {
                let start = CHUNK_HEADER_BYTES + stripe * STRIPE_BYTES + 8;
                Some(u64::from_le_bytes(item.get(start..start + 8)?.try_into().ok()?))
            })
            .collect::<Option<Vec<u64>>>()?;
        chunks.push(Chunk { logical, length_bytes, physical });
        at += ITEM_HEADER_BYTES + item_bytes;
    }
    Some(chunks)
}

/// The logical address of a byte on the device.
pub(super) fn logical(chunks: &[Chunk], physical: u64) -> Option<u64> {
    chunks.iter().find_map(|chunk| {
        let start = chunk
            .physical
            .iter()
            .find(|&&start| (start..start + chunk.length_bytes).contains(&physical))?;
        Some(chunk.logical + (physical - start))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_copies_of_a_dup_chunk_have_one_logical_address() {
        let chunks = [Chunk { logical: 1000, length_bytes: 100, physical: vec![5000, 7000] }];
        assert_eq!(logical(&chunks, 5010), Some(1010));
        assert_eq!(logical(&chunks, 7099), Some(1099));
        assert_eq!(logical(&chunks, 7100), None);
    }

    #[test]
    fn truncated_items_are_refused() {
        assert_eq!(parse(&[0; 40], 1), None);
        assert_eq!(parse(&[], 0), Some(Vec::new()));
    }
}
