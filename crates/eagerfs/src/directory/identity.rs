//! How an object of a real file system is recognised: its number, its file handle, and the time of
//! its birth.
//!
//! Proof: the handle's kind (4 bytes) and length (1 byte), the handle, then the birth's seconds
//! (8 bytes) and nanoseconds (4 bytes). All numbers are little-endian. What the file system does
//! not give is left out: length 0, or no birth.

use std::io;
use std::os::fd::AsFd;

use rustix::fs::{AtFlags, Statx, StatxFlags, statx};

use super::handle::{self, Handle};
use crate::lower::{Identity, Kind};

/// All that is asked of an object at once.
pub fn stat(object: impl AsFd) -> io::Result<Statx> {
    let asked = StatxFlags::BASIC_STATS | StatxFlags::BTIME | StatxFlags::MNT_ID;
    let flags = AtFlags::EMPTY_PATH | AtFlags::SYMLINK_NOFOLLOW;
    Ok(statx(object, c"", flags, asked)?)
}

pub fn identity(object: impl AsFd, stat: &Statx) -> io::Result<Identity> {
    let mut proof = Vec::with_capacity(32);
    match handle::of(object)? {
        Some(handle) => {
            proof.extend_from_slice(&handle.kind.to_le_bytes());
            proof.push(handle.bytes.len() as u8);
            proof.extend_from_slice(&handle.bytes);
        }
        None => proof.extend_from_slice(&[0; 5]),
    }
    if StatxFlags::from_bits_retain(stat.stx_mask).contains(StatxFlags::BTIME) {
        proof.extend_from_slice(&stat.stx_btime.tv_sec.to_le_bytes());
        proof.extend_from_slice(&stat.stx_btime.tv_nsec.to_le_bytes());
    }
    Ok(Identity { inode: stat.stx_ino, proof })
}

/// The handle in an identity. `None`: it has none, or was not written here.
pub fn handle_in(identity: &Identity) -> Option<Handle> {
    let (kind, rest) = identity.proof.split_first_chunk::<4>()?;
    let (length, rest) = rest.split_first()?;
    let bytes = rest.get(..usize::from(*length)).filter(|bytes| !bytes.is_empty())?;
    Some(Handle { kind: i32::from_le_bytes(*kind), bytes: bytes.to_vec() })
}

pub fn kind_of(mode: u32) -> Kind {
    match mode & libc::S_IFMT {
        libc::S_IFREG => Kind::File,
        libc::S_IFDIR => Kind::Directory,
        libc::S_IFLNK => Kind::Symlink,
        _ => Kind::Special,
    }
}
