//! Numbers in as few bytes as they need: seven bits a byte, lowest first. The top bit says that
//! more follow (LEB128).

pub(crate) fn put(out: &mut Vec<u8>, mut value: u32) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Takes a number off the front. `None`, if it does not end, or is larger than a `u32`.
pub(crate) fn take(bytes: &mut &[u8]) -> Option<u32> {
    let mut value = 0u64;
    for shift in (0..35).step_by(7) {
        let (first, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            return u32::try_from(value).ok();
        }
    }
    None
}

/// Takes `length` bytes off the front.
pub(crate) fn take_bytes<'a>(bytes: &mut &'a [u8], length: u32) -> Option<&'a [u8]> {
    let (taken, rest) = bytes.split_at_checked(length as usize)?;
    *bytes = rest;
    Some(taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trips_and_refuses_what_does_not_end_or_fit() {
        for value in [0, 1, 127, 128, 16_383, 16_384, u32::MAX] {
            let mut out = Vec::new();
            put(&mut out, value);
            let mut rest = &out[..];
            assert_eq!((take(&mut rest), rest.len()), (Some(value), 0));
            assert_eq!(take(&mut &out[..out.len() - 1]), None);
        }
        assert_eq!(take(&mut &[0xff, 0xff, 0xff, 0xff, 0x1f][..]), None);
        assert_eq!(take(&mut &[0x80; 9][..]), None);
    }
}
