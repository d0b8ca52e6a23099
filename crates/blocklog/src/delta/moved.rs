//! Finding what moved. Where the free space of a page is in pieces, SQLite lays out the page anew,
//! and each cell is somewhere else. Where a page is full, cells go to its neighbours or to a new
//! page. All of these pages are in one record.
//!
//! The table of a row takes 1.5 us per 4096 bytes. So it is made only for the few records that are
//! long without it. The search itself is no slower than [`encode()`](super::encode()).

use super::ROW_PAGES_MAX;
use super::apply::pages_of;
use super::encode::{COPY_BYTES_MIN, GAP_BYTES, common_bytes, put_bytes, put_copy};
use crate::bytes::get_u64;

/// At most this many places with the same hash are looked at. Only a stretch of one value, or
/// nearly one, has more.
const TRIES_MAX: usize = 16;

/// The table has every fourth place of a row. A stretch is found up to three bytes behind its
/// beginning, and then followed backwards.
const STEP_BYTES: usize = 4;

/// The bases of a record's pages, one behind the other, and a table of where eight bytes are in
/// them.
pub struct Row<'a> {
    bytes: &'a [u8],
    page_bytes: usize,
    /// The first place of each hash, plus one. 0: there is none.
    first: Vec<u32>,
    /// The next place of the same hash, plus one, by place divided by the step.
    next: Vec<u32>,
    shift: u32,
}

impl<'a> Row<'a> {
    /// `bytes` are whole pages, 1 to 64.
    pub fn new(bytes: &'a [u8], page_bytes: usize) -> Row<'a> {
        assert!(
            page_bytes >= COPY_BYTES_MIN && bytes.len().is_multiple_of(page_bytes),
            "whole pages"
        );
        assert!(
            (1..=ROW_PAGES_MAX).contains(&(bytes.len() / page_bytes)),
            "a row has 1 to 64 pages"
        );
        let bits = (bytes.len() / STEP_BYTES).ilog2();
        let (first, next) = (vec![0; 1 << bits], vec![0; bytes.len() / STEP_BYTES]);
        let mut row = Row { bytes, page_bytes, first, next, shift: u64::BITS - bits };
        let mut behind = None;
        for at in (0..bytes.len() - COPY_BYTES_MIN + 1).step_by(STEP_BYTES).rev() {
            let word = get_u64(bytes, at);
            let hash = row.hash(word);
            let next = std::mem::replace(&mut row.first[hash], at as u32 + 1);
            // Of a stretch of one value the table has only the beginning, which reaches furthest.
            let step = at / STEP_BYTES;
            row.next[step] =
                if behind.replace(word) == Some(word) { row.next[step + 1] } else { next };
        }
        row
    }

    /// Appends the delta that makes `page` of page `own`. Copies come only from pages that
    /// `allowed` has a bit for. Answers the pages from which it copies.
    pub fn encode(&self, own: usize, page: &[u8], allowed: u64, out: &mut Vec<u8>) -> u64 {
        assert_eq!(self.page_bytes, page.len(), "versions of one page have one length");
        let own_at = own * self.page_bytes;
        let base = &self.bytes[own_at..own_at + self.page_bytes];
        let mut sources = 0;
        // The places behind the last operation, and behind the last bytes that are not new.
        let (mut done, mut known) = (0, 0);
        let mut at = 0;
        while at < page.len() {
            let same = common_bytes(&base[at..], &page[at..]);
            let (mut from, mut length) = self.longest(&page[at..], allowed);
            // What stays in its place needs no operation.
            let stays =
                (same >= GAP_BYTES || at + same == page.len()) && same + GAP_BYTES >= length;
            if !stays && length < COPY_BYTES_MIN {
                at += 1;
                continue;
            }
            while !stays
                && at > known
                && from % self.page_bytes > 0
                && self.bytes[from - 1] == page[at - 1]
            {
                (at, from, length) = (at - 1, from - 1, length + 1);
            }
            if known < at {
                put_bytes(out, known - done, &page[known..at]);
                done = at;
            }
            if stays {
                at += same;
            } else {
                put_copy(out, at - done, length, from as isize - (own_at + at) as isize);
                sources |= pages_of(from, length, self.page_bytes);
                at += length;
                done = at;
            }
            known = at;
        }
        if known < at {
            put_bytes(out, known - done, &page[known..at]);
        }
        sources
    }

    fn hash(&self, word: u64) -> usize {
        (word.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> self.shift) as usize
    }

    /// The longest beginning of `new` that an allowed page has: its place in the row, and its
    /// length.
    fn longest(&self, new: &[u8], allowed: u64) -> (usize, usize) {
        let mut best = (0, 0);
        if new.len() < COPY_BYTES_MIN {
            return best;
        }
        let mut place = self.first[self.hash(get_u64(new, 0))];
        for _ in 0..TRIES_MAX {
            let Some(at) = place.checked_sub(1).map(|at| at as usize) else { break };
            let page = at / self.page_bytes;
            if allowed & 1 << page != 0 {
                let length = common_bytes(&self.bytes[at..(page + 1) * self.page_bytes], new);
                if length > best.1 {
                    best = (at, length);
                }
            }
            place = self.next[at / STEP_BYTES];
        }
        best
    }
}
