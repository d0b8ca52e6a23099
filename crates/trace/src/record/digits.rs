//! Numbers as text. A recording is mostly numbers, and `write!` takes several times as long for
//! each. That time would be taken from the programs that are recorded.

/// The longest: 2^64.
const DIGITS_MAX: usize = 20;

/// `00` to `99`: two digits with one division.
const PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[0; 2]; 100];
    let mut n = 0;
    while n < 100 {
        pairs[n] = [b'0' + (n / 10) as u8, b'0' + (n % 10) as u8];
        n += 1;
    }
    pairs
};

pub(super) fn decimal(out: &mut Vec<u8>, number: u64) {
    aligned(out, number, 0, b' ');
}

pub(super) fn signed(out: &mut Vec<u8>, number: i64) {
    if number < 0 {
        out.push(b'-');
    }
    decimal(out, number.unsigned_abs());
}

/// At least `width` characters, filled up on the left.
pub(super) fn aligned(out: &mut Vec<u8>, mut number: u64, width: usize, fill: u8) {
    let mut digits = [fill; DIGITS_MAX];
    let mut at = DIGITS_MAX;
    while number >= 10 {
        at -= 2;
        digits[at..at + 2].copy_from_slice(&PAIRS[(number % 100) as usize]);
        number /= 100;
    }
    if number > 0 || at == DIGITS_MAX {
        at -= 1;
        digits[at] = b'0' + number as u8;
    }
    out.extend_from_slice(&digits[at.min(DIGITS_MAX.saturating_sub(width))..]);
}

pub(super) fn hexadecimal(out: &mut Vec<u8>, number: u64) {
    let digits = (u64::BITS - number.leading_zeros()).div_ceil(4).max(1);
    for digit in (0..digits).rev() {
        out.push(b"0123456789abcdef"[(number >> (4 * digit) & 15) as usize]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn numbers_are_what_the_standard_library_makes_of_them() {
        let powers = (0..64).map(|bit| 1u64 << bit).chain((0..20).map(|power| 10u64.pow(power)));
        for number in powers.flat_map(|power| [power - 1, power, power + 1]).chain([u64::MAX]) {
            assert_eq!(text(|out| decimal(out, number)), format!("{number}"));
            assert_eq!(
                text(|out| signed(out, number.cast_signed())),
                format!("{}", number.cast_signed())
            );
            assert_eq!(text(|out| aligned(out, number, 6, b'0')), format!("{number:06}"));
            assert_eq!(text(|out| aligned(out, number, 7, b' ')), format!("{number:>7}"));
            assert_eq!(text(|out| hexadecimal(out, number)), format!("{number:x}"));
        }
    }
}
