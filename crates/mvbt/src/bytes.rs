//! Little-endian numbers at fixed offsets, and numbers in as few bytes as they need (LEB128).

pub use oneflush_blocklog::bytes::{get_u16, get_u32, get_u64, put};

#[inline]
pub fn get_u48(bytes: &[u8], at: usize) -> u64 {
    u64::from(get_u32(bytes, at)) | u64::from(get_u16(bytes, at + 4)) << 32
}

#[inline]
pub fn put_u48(bytes: &mut [u8], at: usize, value: u64) {
    put(bytes, at, &value.to_le_bytes()[..6]);
}

#[inline]
pub fn push_u48(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(&value.to_le_bytes()[..6]);
}

/// Seven bits a byte, lowest first. The top bit says that more follow.
pub fn push_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// A number at `at`, and where the next byte stands. `None` if the number does not end in the
/// slice, or does not fit.
#[inline]
pub fn varint(bytes: &[u8], at: usize) -> Option<(u64, usize)> {
    let first = *bytes.get(at)?;
    if first < 0x80 {
        return Some((u64::from(first), at + 1));
    }
    let second = *bytes.get(at + 1)?;
    let low = u64::from(first & 0x7f) | u64::from(second & 0x7f) << 7;
    if second < 0x80 {
        return Some((low, at + 2));
    }
    let third = *bytes.get(at + 2)?;
    let low = low | u64::from(third & 0x7f) << 14;
    if third < 0x80 { Some((low, at + 3)) } else { varint_behind(low, bytes, at + 3) }
}

/// What follows three bytes.
fn varint_behind(mut value: u64, bytes: &[u8], at: usize) -> Option<(u64, usize)> {
    for (index, &byte) in bytes.get(at..)?.iter().take(7).enumerate() {
        let shift = 7 * (index + 3);
        if shift == 63 && byte > 1 {
            return None;
        }
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some((value, at + index + 1));
        }
    }
    None
}

/// Small numbers of either sign become small numbers.
#[inline]
pub fn zigzag(value: i64) -> u64 {
    (value << 1 ^ value >> 63) as u64
}

#[inline]
pub fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_round_trip_and_refuse_what_does_not_end_or_fit() {
        for value in [0, 1, 127, 128, 16_383, 16_384, u64::from(u32::MAX), u64::MAX >> 1, u64::MAX]
        {
            let mut out = vec![9];
            push_varint(&mut out, value);
            assert_eq!(varint(&out, 1), Some((value, out.len())));
            assert_eq!(varint(&out[..out.len() - 1], 1), None);
        }
        assert_eq!(varint(&[0xff; 12], 0), None);
        assert_eq!(varint(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2], 0), None);
        assert_eq!(varint(&[], 0), None);
    }

    #[test]
    fn keys_of_both_signs_survive() {
        for key in [0, 1, -1, 63, -64, i64::MAX, i64::MIN] {
            assert_eq!(unzigzag(zigzag(key)), key);
        }
        assert_eq!(zigzag(-64), 127);
    }

    #[test]
    fn six_bytes_hold_a_version() {
        let mut bytes = [0; 8];
        put_u48(&mut bytes, 1, (1 << 48) - 2);
        assert_eq!(get_u48(&bytes, 1), (1 << 48) - 2);
        let mut out = Vec::new();
        push_u48(&mut out, 0x0102_0304_0506);
        assert_eq!(get_u48(&out, 0), 0x0102_0304_0506);
    }
}
