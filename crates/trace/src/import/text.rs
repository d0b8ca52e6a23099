//! Walks over the bytes of one line.
//!
//! Every step that does not find what it wants gives `None`. An importer is therefore a row of `?`,
//! and a line that is not of its form costs nothing but itself. The text is bytes, because names in
//! traces are whatever a program called itself.

use crate::model::{Action, DeviceId, SECTOR_BYTES};

/// The rest of a line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cursor<'a> {
    pub rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    pub fn new(line: &'a [u8]) -> Self {
        Cursor { rest: line }
    }

    pub fn spaces(&mut self) -> &mut Self {
        let n = self.rest.iter().take_while(|b| **b == b' ').count();
        self.rest = &self.rest[n..];
        self
    }

    pub fn eat(&mut self, prefix: &[u8]) -> Option<()> {
        self.rest = self.rest.strip_prefix(prefix)?;
        Some(())
    }

    /// A decimal number; `None` if it does not fit.
    pub fn number(&mut self) -> Option<u64> {
        let mut value = 0u64;
        let mut n = 0;
        for &b in self.rest {
            let digit = b.wrapping_sub(b'0');
            if digit > 9 {
                break;
            }
            value = value.checked_mul(10)?.checked_add(u64::from(digit))?;
            n += 1;
        }
        self.rest = &self.rest[n..];
        (n > 0).then_some(value)
    }

    pub fn number_u32(&mut self) -> Option<u32> {
        u32::try_from(self.number()?).ok()
    }

    /// "8,0": major and minor number.
    pub fn device(&mut self) -> Option<DeviceId> {
        let major = self.number_u32()?;
        self.eat(b",")?;
        Some(DeviceId { major, minor: self.number_u32()? })
    }

    /// "223490 + 8": a sector, and the bytes of so many sectors. A flush has no sector, or 2⁶⁴-1.
    pub fn place(&mut self) -> Option<(u64, u64)> {
        let sector = self.number()?;
        self.spaces().eat(b"+")?;
        let bytes = self.spaces().number()?.checked_mul(SECTOR_BYTES)?;
        Some((if bytes == 0 && sector == u64::MAX { 0 } else { sector }, bytes))
    }

    /// "<- (8,1) 223427": the former place of a request.
    pub fn remap(&mut self) -> Option<Action> {
        self.spaces().eat(b"<- (")?;
        let from = self.device()?;
        self.eat(b")")?;
        Some(Action::Remap { from, from_sector: self.spaces().number()? })
    }

    /// The text before `end`, which is passed over; `None` if `end` does not come.
    pub fn until(&mut self, end: u8) -> Option<&'a [u8]> {
        let at = memchr::memchr(end, self.rest)?;
        let before = &self.rest[..at];
        self.rest = &self.rest[at + 1..];
        Some(before)
    }

    /// The text before the next space or the end; may be empty.
    pub fn word(&mut self) -> &'a [u8] {
        let n = self.rest.iter().take_while(|b| **b != b' ').count();
        let (word, rest) = self.rest.split_at(n);
        self.rest = rest;
        word
    }

    /// Seconds with 1 to 9 decimals, in nanoseconds.
    pub fn seconds(&mut self) -> Option<u64> {
        let whole = self.number()?;
        self.eat(b".")?;
        let digits = self.rest.iter().take_while(|b| b.is_ascii_digit()).count();
        if digits > 9 {
            return None;
        }
        let fraction = self.number()? * 10u64.pow(9 - digits as u32);
        whole.checked_mul(1_000_000_000)?.checked_add(fraction)
    }
}

/// Whether the whole text is a decimal number.
pub(super) fn is_number(text: &[u8]) -> bool {
    !text.is_empty() && text.iter().all(u8::is_ascii_digit)
}

/// The decimal number that is the whole text.
pub(super) fn whole_number(text: &[u8]) -> Option<u64> {
    let mut cursor = Cursor::new(text);
    let value = cursor.number()?;
    cursor.rest.is_empty().then_some(value)
}

/// The seconds with decimals that are the whole text, in nanoseconds.
pub(super) fn whole_seconds(text: &[u8]) -> Option<u64> {
    let mut cursor = Cursor::new(text);
    let time_ns = cursor.seconds()?;
    cursor.rest.is_empty().then_some(time_ns)
}

/// The text between the first `[` and the last `]`; `None` if either is missing.
pub(super) fn in_brackets(text: &[u8]) -> Option<&[u8]> {
    let open = memchr::memchr(b'[', text)?;
    let close = memchr::memrchr(b']', text)?;
    text.get(open + 1..close)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_with_any_number_of_decimals_are_nanoseconds() {
        for (text, ns) in
            [("263.580732", 263_580_732_000), ("0.000000001", 1), ("7.5", 7_500_000_000)]
        {
            assert_eq!(Cursor::new(text.as_bytes()).seconds(), Some(ns), "{text}");
        }
        for text in ["12", "1.", ".5", "1.0000000001", "99999999999999.0", "x"] {
            assert_eq!(Cursor::new(text.as_bytes()).seconds(), None, "{text}");
        }
    }

    #[test]
    fn a_number_that_does_not_fit_is_none() {
        assert_eq!(Cursor::new(b"18446744073709551615 ").number(), Some(u64::MAX));
        assert_eq!(Cursor::new(b"18446744073709551616").number(), None);
        assert_eq!(Cursor::new(b"4294967296").number_u32(), None);
    }

    #[test]
    fn brackets_in_a_name_belong_to_the_name() {
        assert_eq!(in_brackets(b"+ 8 [IntentService[]]"), Some(&b"IntentService[]"[..]));
        assert_eq!(in_brackets(b"+ 8 [sh"), None);
        assert_eq!(in_brackets(b"] ["), None);
    }
}
