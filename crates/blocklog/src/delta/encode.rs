//! Finding what changed, eight bytes at a time.

use crate::bytes::{get_u32, get_u64};
use crate::varint;

/// This many equal bytes end a run. The beginning of a run costs two or three bytes, so shorter
/// gaps are cheaper inside of it.
pub(super) const GAP_BYTES: usize = 4;
/// A copy has at least this many bytes: one word, so that one comparison finds it.
pub(super) const COPY_BYTES_MIN: usize = 8;
/// Copies are looked for in this many first bytes of a run. The shifted pointers come right behind
/// the new pointer. The limit bounds the time for a page that is new altogether.
const COPY_SEARCH_BYTES: usize = 32;
/// The width of a pointer.
const SHIFT_STEP: isize = 2;

/// Appends the delta that makes `page` of `base`. Both must have the same length.
pub fn encode(base: &[u8], page: &[u8], out: &mut Vec<u8>) {
    assert_eq!(base.len(), page.len(), "versions of one page have one length");
    encode_against(base, page, out);
}

/// Appends the delta that makes `page` of zeros: the page without its zero gaps.
pub fn encode_from_zeros(page: &[u8], out: &mut Vec<u8>) {
    encode_against(Zeros, page, out);
}

/// The old version, as the search sees it.
trait Base: Copy {
    fn half_word(self, at: usize) -> u32;
    fn word(self, at: usize) -> u64;
    /// How many bytes from `at` on are the same here and in the page.
    fn same_bytes(self, page: &[u8], at: usize) -> usize;
    /// How many bytes of the page from `at` on are here from `from` on. 0: too few for a copy.
    fn bytes_to_copy(self, from: isize, page: &[u8], at: usize) -> usize;
}

impl Base for &[u8] {
    fn half_word(self, at: usize) -> u32 {
        get_u32(self, at)
    }
    fn word(self, at: usize) -> u64 {
        get_u64(self, at)
    }
    fn same_bytes(self, page: &[u8], at: usize) -> usize {
        common_bytes(&self[at..], &page[at..])
    }
    fn bytes_to_copy(self, from: isize, page: &[u8], at: usize) -> usize {
        let Some(old) = usize::try_from(from).ok().and_then(|from| self.get(from..)) else {
            return 0;
        };
        let new = &page[at..];
        if old.len() < COPY_BYTES_MIN
            || new.len() < COPY_BYTES_MIN
            || get_u64(old, 0) != get_u64(new, 0)
        {
            return 0;
        }
        common_bytes(old, new)
    }
}

#[derive(Clone, Copy)]
struct Zeros;

impl Base for Zeros {
    fn half_word(self, _at: usize) -> u32 {
        0
    }
    fn word(self, _at: usize) -> u64 {
        0
    }
    fn same_bytes(self, page: &[u8], at: usize) -> usize {
        let page = &page[at..];
        let done =
            32 * page.as_chunks::<32>().0.iter().take_while(|chunk| **chunk == [0; 32]).count();
        done + page[done..].iter().take_while(|byte| **byte == 0).count()
    }
    fn bytes_to_copy(self, _from: isize, _page: &[u8], _at: usize) -> usize {
        0
    }
}

/// How many first bytes are the same. Compares 128 and 32 bytes at a time, since most of a page is
/// equal, then finds the place in a word.
pub(super) fn common_bytes(old: &[u8], new: &[u8]) -> usize {
    let mut done = common_chunks::<128>(old, new);
    done += common_chunks::<32>(&old[done..], &new[done..]);
    let length = old.len().min(new.len());
    while done + 8 <= length {
        let differs = get_u64(old, done) ^ get_u64(new, done);
        if differs != 0 {
            return done + differs.trailing_zeros() as usize / 8;
        }
        done += 8;
    }
    done + old[done..].iter().zip(&new[done..]).take_while(|(old, new)| old == new).count()
}

/// How many bytes are the same in whole chunks. The comparison of a chunk has no early exit, so it
/// is compiled for many bytes at once.
fn common_chunks<const BYTES: usize>(old: &[u8], new: &[u8]) -> usize {
    let differs = |old: &[u8; BYTES], new: &[u8; BYTES]| {
        old.iter().zip(new).fold(0, |seen, (old, new)| seen | (old ^ new))
    };
    let chunks = old.as_chunks::<BYTES>().0.iter().zip(new.as_chunks::<BYTES>().0);
    BYTES * chunks.take_while(|(old, new)| differs(old, new) == 0).count()
}

fn encode_against<B: Base>(base: B, page: &[u8], out: &mut Vec<u8>) {
    // The place behind the last operation.
    let mut done = 0;
    // The shift of the last copy. A second new pointer shifts what is behind it by two more.
    let mut shift = 0;
    let mut at = base.same_bytes(page, 0);
    while at < page.len() {
        let (end, copy) = run_end(base, page, at, shift);
        if end > at {
            put_bytes(out, at - done, &page[at..end]);
            done = end;
        }
        if let Some((copy_shift, length)) = copy {
            put_copy(out, end - done, length, copy_shift);
            done = end + length;
            shift = copy_shift;
        }
        at = done + base.same_bytes(page, done);
    }
}

/// Puts the operation for new bytes, `skip` bytes behind the operation before.
pub(super) fn put_bytes(out: &mut Vec<u8>, skip: usize, bytes: &[u8]) {
    varint::put(out, (skip as u32) << 1);
    varint::put(out, bytes.len() as u32);
    out.extend_from_slice(bytes);
}

/// Puts the operation for a copy.
pub(super) fn put_copy(out: &mut Vec<u8>, skip: usize, length: usize, shift: isize) {
    varint::put(out, (skip as u32) << 1 | 1);
    varint::put(out, length as u32);
    varint::put(out, (((shift << 1) ^ (shift >> (isize::BITS - 1))) as usize) as u32);
}

/// The end of the run that begins at `start`: before equal bytes, before something to copy (its
/// shift and length), or with the page.
fn run_end<B: Base>(
    base: B,
    page: &[u8],
    start: usize,
    last_shift: isize,
) -> (usize, Option<(isize, usize)>) {
    let mut at = start;
    while at < page.len() {
        let search = at < start + COPY_SEARCH_BYTES;
        if !search && at + 8 <= page.len() && !has_zero_byte(get_u64(page, at) ^ base.word(at)) {
            // No byte of the eight is equal, so none ends the run.
            at += 8;
            continue;
        }
        // Equal bytes come before copies. A stretch of one value offers both, and equal bytes cost
        // nothing.
        let equal = if at + GAP_BYTES <= page.len() {
            get_u32(page, at) == base.half_word(at)
        } else {
            at + base.same_bytes(page, at) == page.len()
        };
        if equal {
            return (at, None);
        }
        if search {
            let copies = [last_shift - SHIFT_STEP, last_shift + SHIFT_STEP, last_shift].into_iter();
            let best = copies
                .filter(|shift| *shift != 0)
                .map(|shift| (shift, base.bytes_to_copy(at as isize + shift, page, at)))
                .max_by_key(|(_, length)| *length);
            if let Some(found) = best.filter(|(_, length)| *length >= COPY_BYTES_MIN) {
                return (at, Some(found));
            }
        }
        at += 1;
    }
    (at, None)
}

fn has_zero_byte(word: u64) -> bool {
    const ONES: u64 = u64::MAX / 255;
    word.wrapping_sub(ONES) & !word & (ONES << 7) != 0
}
