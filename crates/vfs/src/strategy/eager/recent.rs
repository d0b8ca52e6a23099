//! Frames and pages in memory, so that an append need not read back what was just written. Both
//! only save reads: the image has what is missing here.

use rustc_hash::FxHashMap;

use crate::wal_file::{FRAME_HEADER_BYTES, FrameHeader};

/// This many bytes of frames are kept at most. A large transaction writes more, and is read back.
const FRAMES_BYTES_MAX: usize = 1 << 20;

/// A vector with a larger capacity is copied and not handed on.
const HANDED_ON_BYTES_MAX: usize = 256 << 10;

/// This many pages are kept at most.
const PAGES_MAX: usize = 1024;

/// The frames that this process wrote last, without a gap.
#[derive(Default)]
pub struct Frames {
    first: u32,
    bytes: Vec<u8>,
    /// The board's generation. Frames of another generation have the same numbers.
    generation: u64,
}

impl Frames {
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub fn is_of(&self, generation: u64) -> bool {
        self.generation == generation
    }

    /// Takes frames that were written out of `bytes`. `first` is their first frame, and is whole.
    /// The contents of `bytes` have no meaning afterwards.
    pub fn take(&mut self, generation: u64, first: u32, bytes: &mut Vec<u8>, page_bytes: usize) {
        let frame_bytes = FRAME_HEADER_BYTES + page_bytes;
        let behind = self.first + (self.bytes.len() / frame_bytes) as u32;
        if first != behind
            || !self.is_of(generation)
            || self.bytes.len() + bytes.len() > FRAMES_BYTES_MAX
        {
            self.bytes.clear();
            self.first = first;
            self.generation = generation;
        }
        if bytes.len() > FRAMES_BYTES_MAX || !bytes.len().is_multiple_of(frame_bytes) {
            return;
        }
        if self.bytes.is_empty()
            && self.bytes.capacity().max(bytes.capacity()) <= HANDED_ON_BYTES_MAX
        {
            std::mem::swap(&mut self.bytes, bytes);
        } else {
            self.bytes.extend_from_slice(bytes);
        }
    }

    /// Takes the frames of one commit.
    pub fn append(&mut self, frames: &mut Frames, page_bytes: usize) {
        self.take(frames.generation, frames.first, &mut frames.bytes, page_bytes);
        frames.clear();
    }

    /// Gives away all frames, for a commit's log record. `spare` lends its memory to the frames
    /// that come next.
    pub fn hand_over(&mut self, spare: &mut Frames) -> Frames {
        std::mem::replace(self, std::mem::take(spare))
    }

    /// Takes over the memory of frames that are not needed any more.
    pub fn reuse(&mut self, mut frames: Frames) {
        if frames.bytes.capacity() <= HANDED_ON_BYTES_MAX {
            frames.clear();
            *self = frames;
        }
    }

    pub fn get(&self, frame: u32, page_bytes: usize) -> Option<(FrameHeader, &[u8])> {
        let frame_bytes = FRAME_HEADER_BYTES + page_bytes;
        let at = frame.checked_sub(self.first)? as usize * frame_bytes;
        let (header, page) =
            self.bytes.get(at..at + frame_bytes)?.split_first_chunk::<FRAME_HEADER_BYTES>()?;
        Some((FrameHeader::decode(header), page))
    }

    pub fn clear(&mut self) {
        self.bytes.clear();
        self.first = 0;
    }
}

/// The versions of pages that the log has.
#[derive(Default)]
pub struct Pages(FxHashMap<u32, Box<[u8]>>);

impl Pages {
    pub fn get(&self, page_no: u32) -> Option<&[u8]> {
        self.0.get(&page_no).map(|page| &page[..])
    }

    pub fn put(&mut self, page_no: u32, page: &[u8]) {
        if let Some(known) = self.0.get_mut(&page_no) {
            known.copy_from_slice(page);
            return;
        }
        if self.0.len() >= PAGES_MAX {
            self.0.clear();
        }
        self.0.insert(page_no, page.into());
    }

    pub fn forget(&mut self, page_no: u32) {
        self.0.remove(&page_no);
    }

    pub fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE_BYTES: usize = 512;

    fn frame(page_no: u32) -> Vec<u8> {
        let mut frame = vec![page_no as u8; FRAME_HEADER_BYTES + PAGE_BYTES];
        frame[..4].copy_from_slice(&page_no.to_be_bytes());
        frame
    }

    #[test]
    fn frames_without_a_gap_are_kept_and_others_replace_them() {
        let mut frames = Frames::default();
        frames.take(1, 5, &mut [frame(1), frame(2)].concat(), PAGE_BYTES);
        frames.take(1, 7, &mut frame(3), PAGE_BYTES);
        let page_no = |frames: &Frames, at| {
            frames.get(at, PAGE_BYTES).map(|(header, page)| (header.page_no, page[0]))
        };
        assert_eq!(
            (4..9).map(|at| page_no(&frames, at)).collect::<Vec<_>>(),
            [None, Some((1, 1)), Some((2, 2)), Some((3, 3)), None]
        );
        frames.take(1, 6, &mut frame(4), PAGE_BYTES);
        assert_eq!(
            (4..9).map(|at| page_no(&frames, at)).collect::<Vec<_>>(),
            [None, None, Some((4, 4)), None, None]
        );
        frames.take(2, 7, &mut frame(5), PAGE_BYTES);
        assert_eq!(
            (6..9).map(|at| page_no(&frames, at)).collect::<Vec<_>>(),
            [None, Some((5, 5)), None]
        );
        assert!(frames.is_of(2) && !frames.is_of(1));
        frames.clear();
        assert_eq!(page_no(&frames, 7), None);
    }

    #[test]
    fn the_memory_of_frames_is_handed_on_unless_it_is_much() {
        let (mut written, mut unlogged, mut spare) =
            (Frames::default(), Frames::default(), Frames::default());
        let mut held = frame(1);
        let address = held.as_ptr();
        written.take(1, 5, &mut held, PAGE_BYTES);
        unlogged.append(&mut written, PAGE_BYTES);
        assert!(written.is_empty() && held.is_empty());
        let logged = unlogged.hand_over(&mut spare);
        assert!(unlogged.is_empty());
        assert_eq!(logged.get(5, PAGE_BYTES).map(|(header, _)| header.page_no), Some(1));
        assert_eq!(logged.bytes.as_ptr(), address);
        spare.reuse(logged);
        assert!(spare.is_empty() && spare.bytes.as_ptr() == address);

        let mut many = frame(2).repeat(HANDED_ON_BYTES_MAX / (FRAME_HEADER_BYTES + PAGE_BYTES) + 1);
        let (address, frames) = (many.as_ptr(), many.len() / (FRAME_HEADER_BYTES + PAGE_BYTES));
        written.take(1, 6, &mut many, PAGE_BYTES);
        assert_eq!(many.as_ptr(), address, "it was copied");
        assert!(written.get(5 + frames as u32, PAGE_BYTES).is_some());
        let kept = spare.bytes.as_ptr();
        spare.reuse(written);
        assert_eq!(spare.bytes.as_ptr(), kept);
    }

    #[test]
    fn more_frames_than_are_kept_are_not_kept_in_part() {
        let mut frames = Frames::default();
        let mut many = frame(1).repeat(FRAMES_BYTES_MAX / (FRAME_HEADER_BYTES + PAGE_BYTES) + 1);
        frames.take(1, 1, &mut many, PAGE_BYTES);
        assert!(frames.get(1, PAGE_BYTES).is_none());
    }
}
