//! What a board says of the image and its frames: which are committed, written and logged, and
//! which pages they have.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use oneflush_blocklog::invariant;

use super::Board;
use super::words::{BITS_WORDS, FIRST_BITS, FIRST_PAGE, PAGES_WORDS, Word};
use crate::error::Code;
use crate::mutant::{self, Mutant};
use crate::port::Below;

impl Board {
    pub fn generation(&self) -> u64 {
        self.get(Word::Generation)
    }

    pub fn next_generation(&self) {
        self.changes();
        self.word(Word::Generation).fetch_add(1, SeqCst);
    }

    pub fn committed(&self) -> u32 {
        self.frame(Word::Committed)
    }

    pub fn written(&self) -> u32 {
        self.frame(Word::Written)
    }

    pub fn logged(&self) -> u32 {
        self.frame(Word::Logged)
    }

    pub fn note_committed(&self, frame: u32) {
        self.word(Word::Committed).fetch_max(u64::from(frame), SeqCst);
    }

    pub fn note_written(&self, frame: u32) {
        self.word(Word::Written).fetch_max(u64::from(frame), SeqCst);
    }

    /// The frames behind `kept` belong to a commit that failed.
    pub fn take_back(&self, kept: u32) {
        self.word(Word::Committed).fetch_min(u64::from(kept), SeqCst);
        self.word(Word::Written).fetch_min(u64::from(kept), SeqCst);
    }

    pub fn image_bytes(&self) -> u64 {
        self.get(Word::ImageBytes)
    }

    pub fn image_reaches(&self, bytes: u64) {
        self.word(Word::ImageBytes).fetch_max(bytes, SeqCst);
    }

    /// To be called before the image's file is made shorter.
    pub fn image_cut(&self, bytes: u64) {
        if mutant::is(Mutant::CutUntold) {
            return;
        }
        self.word(Word::ImageCuts).fetch_add(1, SeqCst);
        self.word(Word::ImageBytes).fetch_min(bytes, SeqCst);
    }

    pub fn cut_image(&self, image: &dyn Below, bytes: u64) -> Result<(), Code> {
        self.image_cut(bytes);
        invariant!(
            "E3",
            "the image is cut when the board has told those who store to it",
            self.image_bytes() <= bytes
        );
        image.truncate(bytes)
    }

    pub fn image_cuts(&self) -> u64 {
        self.get(Word::ImageCuts)
    }

    fn bit_of(&self, frame: u32) -> Option<(&AtomicU64, u64)> {
        let at = frame as usize / 64;
        (at < BITS_WORDS).then(|| (&self.0.words()[FIRST_BITS + at], 1 << (frame % 64)))
    }

    /// True if the log has the whole page of this frame. The frame must be the page's last that is
    /// logged.
    pub fn contains(&self, frame: u32) -> bool {
        frame <= self.frame(Word::Contained)
            || self.bit_of(frame).is_some_and(|(word, bit)| word.load(SeqCst) & bit != 0)
    }

    pub fn set_contained(&self, frame: u32) {
        self.changes();
        if let Some((word, bit)) = self.bit_of(frame) {
            word.fetch_or(bit, SeqCst);
        }
    }

    /// The log has the whole page of each frame up to this.
    pub fn set_all_contained(&self, upto: u32) {
        self.changes();
        self.set(Word::Contained, u64::from(upto));
    }

    /// Forgets for all frames that the log has their pages.
    pub fn forget_contained(&self) {
        self.changes();
        self.set(Word::Contained, 0);
        self.0.words()[FIRST_BITS..FIRST_PAGE].iter().for_each(|word| word.store(0, SeqCst));
    }

    fn pages(&self) -> &[AtomicU64] {
        &self.0.words()[FIRST_PAGE..]
    }

    /// The frame, which is being logged, is of this page.
    pub fn note_page(&self, frame: u32, page_no: u32) {
        self.changes();
        let generation = self.generation();
        if self.get(Word::PagesGeneration) != generation {
            self.pages().iter().for_each(|word| word.store(0, SeqCst));
            self.set(Word::PagesGeneration, generation);
        }
        self.pages()[frame as usize % PAGES_WORDS]
            .store(u64::from(frame) << 32 | u64::from(page_no), SeqCst);
    }

    /// The page of a frame up to `Logged`. `None`: the image has to be asked.
    pub fn page_of(&self, frame: u32) -> Option<u32> {
        let noted = self.pages()[frame as usize % PAGES_WORDS].load(SeqCst);
        let is_known =
            self.get(Word::PagesGeneration) == self.generation() && noted >> 32 == u64::from(frame);
        is_known.then_some(noted as u32).filter(|&page_no| page_no != 0)
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use std::sync::Arc;

    use oneflush_blocklog::Uuid;

    use super::super::Private;
    use super::*;

    #[test]
    fn which_page_a_frame_has_is_known_of_the_last_ones_of_a_generation() {
        let board = Board::new(Arc::new(Private::default()));
        board.begin(Uuid([1; 16]), 4096);
        assert_eq!(board.page_of(0), None);
        (1..=2000).for_each(|frame| board.note_page(frame, frame * 3));
        assert_eq!(
            [976, 977, 2000, 2001].map(|frame| board.page_of(frame)),
            [None, Some(977 * 3), Some(6000), None]
        );
        // The frames are taken back and logged again, with other pages.
        board.next_generation();
        assert_eq!(board.page_of(2000), None);
        board.note_page(1900, 7);
        assert_eq!([1899, 1900, 1901].map(|frame| board.page_of(frame)), [None, Some(7), None]);
        board.begin(Uuid([2; 16]), 4096);
        assert_eq!(board.page_of(1900), None);
    }
}
