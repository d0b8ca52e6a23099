//! Access control lists of new objects.
//!
//! A directory with a default list gives it to what is made in it, and then the umask does not
//! count. The lower does that by itself, as the kernel does in `posix_acl_create`. Here is only
//! computed which mode comes out, for the record of the making.

use crate::directory::{Directory, Extended};
use crate::lower::Lower;

/// Names of the attributes that hold the lists.
pub const ACCESS: &[u8] = b"system.posix_acl_access";
pub const DEFAULT: &[u8] = b"system.posix_acl_default";

pub fn is_list(name: &[u8]) -> bool {
    name == ACCESS || name == DEFAULT
}

/// True if the lower has access control lists.
pub fn has_lists(lower: &Directory) -> bool {
    match lower.extended(&lower.root(), ACCESS) {
        Ok(_) => true,
        Err(error) => error.raw_os_error() == Some(libc::ENODATA),
    }
}

const VERSION: u32 = 2;
const USER_OBJ: u16 = 0x01;
const GROUP_OBJ: u16 = 0x04;
const MASK: u16 = 0x10;
const OTHER: u16 = 0x20;

/// The mode that an object gets which is made with `mode` in a directory with this default list.
/// `None`: this is no list.
pub fn mode_in(list: &[u8], mode: u32) -> Option<u32> {
    let (version, entries) = list.split_first_chunk::<4>()?;
    if u32::from_le_bytes(*version) != VERSION || entries.len() % 8 != 0 {
        return None;
    }
    let mut user = None;
    let mut group = None;
    let mut mask = None;
    let mut other = None;
    for entry in entries.chunks_exact(8) {
        let permissions = u32::from(u16::from_le_bytes([entry[2], entry[3]])) & 7;
        match u16::from_le_bytes([entry[0], entry[1]]) {
            USER_OBJ => user = Some(permissions),
            GROUP_OBJ => group = Some(permissions),
            MASK => mask = Some(permissions),
            OTHER => other = Some(permissions),
            _ => {}
        }
    }
    let allowed = user? << 6 | mask.or(group)? << 3 | other?;
    Some(mode & !0o777 | mode & allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(entries: &[(u16, u16)]) -> Vec<u8> {
        let mut list = VERSION.to_le_bytes().to_vec();
        for (tag, permissions) in entries {
            list.extend_from_slice(&tag.to_le_bytes());
            list.extend_from_slice(&permissions.to_le_bytes());
            list.extend_from_slice(&u32::MAX.to_le_bytes());
        }
        list
    }

    #[test]
    fn the_mask_counts_for_the_group_where_there_is_one() {
        let plain = list(&[(USER_OBJ, 7), (GROUP_OBJ, 5), (OTHER, 0)]);
        assert_eq!(mode_in(&plain, 0o2666), Some(0o2640));
        let masked = list(&[(USER_OBJ, 6), (2, 7), (GROUP_OBJ, 7), (MASK, 3), (OTHER, 4)]);
        assert_eq!(mode_in(&masked, 0o777), Some(0o634));
    }

    #[test]
    fn what_is_no_list_is_none() {
        let good = list(&[(USER_OBJ, 7), (GROUP_OBJ, 5), (OTHER, 0)]);
        for length in 0..good.len() {
            assert_eq!(mode_in(&good[..length], 0o777), None);
        }
    }
}
