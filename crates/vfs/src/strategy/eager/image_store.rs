//! How this process puts frames into the image: by a store to the file's mapped memory where
//! possible, else by a write.
//!
//! A store to memory that the file has no room for ends the process, where a write has an error.
//! Invariants, cited by number:
//!
//! 1. A process that stores, cuts the image or makes it longer has SQLite's write lock, or is alone
//!    with the image.
//! 2. A store reaches no further than the board's size of the file. The board is told of a cut
//!    before the cut, and of more bytes after they are there.
//! 3. A page is stored to only if the memory was asked for it a short time ago, and nobody has cut
//!    the image since.
//!
//! | state | left when |
//! |---|---|
//! | `Untried` | [`WRITES_BEFORE`] writes were made: the image is mapped, or cannot be |
//! | `Mapped` | the memory is not there, or a store fails |
//! | `Impossible` | the last connection closes the image |

use std::ops::Range;
use std::time::Duration;

use crate::error::Code;
use crate::port::Below;
use crate::stats::clock;
use crate::strategy::board::Board;
use crate::strategy::log_files::{IMAGE_MEMORY_BYTES, ImageMemory};
use crate::sync::{Mutex, lock};
use crate::wal_file::HEADER_BYTES;

/// The memory is mapped after this many writes. A program that opens, commits a few times and
/// closes has no use for it.
const WRITES_BEFORE: u32 = 4;
/// The memory is asked for this much at once. Asking makes it dirty. With larger pieces the kernel
/// would write back more than was stored.
const PIECE_BYTES: u64 = 16 << 10;
const PIECES: usize = (IMAGE_MEMORY_BYTES / PIECE_BYTES) as usize;
/// A piece is asked for again after this time (invariant 3). The kernel does not take away a page
/// that was stored to and not written out.
const ASKED_FOR: Duration = Duration::from_secs(10);

#[derive(Default)]
pub struct ImageStore(Mutex<State>);

enum State {
    /// This many writes were made without memory.
    Untried(u32),
    /// Memory is not tried again while the image is open.
    Impossible,
    Mapped(Mapped),
}

impl Default for State {
    fn default() -> State {
        State::Untried(0)
    }
}

struct Mapped {
    memory: Box<dyn ImageMemory>,
    /// The board's count of cuts for which `until_ns` holds.
    cuts: u64,
    /// Until when each piece need not be asked for again, by the monotonic clock.
    until_ns: Box<[u64; PIECES]>,
}

impl ImageStore {
    /// Puts `data` into the image. `map` maps the image that begins with the given bytes.
    pub fn put(
        &self,
        board: &Board,
        image: &dyn Below,
        data: &[u8],
        offset: u64,
        map: impl FnOnce(&[u8]) -> Option<Box<dyn ImageMemory>>,
    ) -> Result<(), Code> {
        let mut state = lock(&self.0);
        match &mut *state {
            State::Untried(writes) if *writes < WRITES_BEFORE => *writes += 1,
            State::Untried(_) => {
                *state = begin(board, image, map).map_or(State::Impossible, State::Mapped)
            }
            State::Impossible => {}
            State::Mapped(mapped) => {
                let range = offset..offset + data.len() as u64;
                // Invariant 2.
                if range.end <= board.image_bytes().min(IMAGE_MEMORY_BYTES) {
                    if mapped.is_ready(board, range, clock::now_ns())
                        && mapped.memory.store(data, offset)
                    {
                        debug_assert_eq!(
                            board.image_cuts(),
                            mapped.cuts,
                            "invariant 1: nobody cuts the image while this process stores"
                        );
                        return Ok(());
                    }
                    *state = State::Impossible;
                }
            }
        }
        image.write(data, offset)
    }

    /// True if somebody else has cut the image, so that a store may end the process. Asked before
    /// each of them. Between the question and the store there is a microsecond.
    pub fn is_cut(&self, board: &Board, image: &dyn Below) -> Result<bool, Code> {
        let is_mapped = matches!(*lock(&self.0), State::Mapped(_));
        Ok(is_mapped && image.size_bytes()? < board.image_bytes())
    }

    /// The last connection of this process closes the image.
    pub fn closed(&self) {
        *lock(&self.0) = State::default();
    }
}

fn begin(
    board: &Board,
    image: &dyn Below,
    map: impl FnOnce(&[u8]) -> Option<Box<dyn ImageMemory>>,
) -> Option<Mapped> {
    let mut header = [0; HEADER_BYTES as usize];
    image.read(&mut header, 0).ok()?;
    // The board may come from users who have died, and the image may be shorter than they left it.
    let size_bytes = image.size_bytes().ok()?;
    if size_bytes < board.image_bytes() {
        board.image_cut(size_bytes);
    }
    Some(Mapped {
        memory: map(&header)?,
        cuts: board.image_cuts(),
        until_ns: Box::new([0; PIECES]),
    })
}

impl Mapped {
    /// Asks the memory for the pieces of this range where that is due (invariant 3). False: they
    /// are not there.
    fn is_ready(&mut self, board: &Board, range: Range<u64>, now_ns: u64) -> bool {
        let cuts = board.image_cuts();
        if cuts != self.cuts {
            self.until_ns.fill(0);
            self.cuts = cuts;
        }
        for piece in range.start / PIECE_BYTES..range.end.div_ceil(PIECE_BYTES) {
            let until_ns = &mut self.until_ns[piece as usize];
            if now_ns < *until_ns {
                continue;
            }
            let (begin, end) = (piece * PIECE_BYTES, (piece + 1) * PIECE_BYTES);
            let image_bytes = board.image_bytes();
            if !self.memory.prepare(begin..end.min(image_bytes)) {
                return false;
            }
            // When the file becomes longer, the kernel takes away the page that its end was in.
            if end.next_multiple_of(self.memory.page_bytes()) <= image_bytes {
                *until_ns = now_ns + ASKED_FOR.as_nanos() as u64;
            }
        }
        true
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::strategy::Private;
    use crate::test_wal::Wal;

    /// Notes what it is asked for, and stores nothing. Its file has 1 MiB.
    #[derive(Clone)]
    struct Noted {
        asked: Arc<Mutex<Vec<Asked>, { crate::sync::ranks::STUB }>>,
        page_bytes: u64,
    }

    #[derive(Clone, Debug, PartialEq)]
    enum Asked {
        Prepare(Range<u64>),
        Store(u64),
    }
    use Asked::{Prepare, Store};

    impl ImageMemory for Noted {
        fn page_bytes(&self) -> u64 {
            self.page_bytes
        }

        fn prepare(&self, range: Range<u64>) -> bool {
            lock(&self.asked).push(Prepare(range.clone()));
            range.end <= 1 << 20
        }

        fn store(&self, _: &[u8], offset: u64) -> bool {
            lock(&self.asked).push(Store(offset));
            true
        }
    }

    struct Fixture {
        store: ImageStore,
        board: Board,
        image: Wal,
        noted: Noted,
    }

    impl Fixture {
        /// An image of this size, which the board knows.
        fn new(image_bytes: u64) -> Fixture {
            let board = Board::new(Arc::new(Private::default()));
            board.image_reaches(image_bytes);
            let image = Wal::default();
            image.extend(vec![7; image_bytes as usize]);
            let noted = Noted { asked: Arc::default(), page_bytes: 4096 };
            Fixture { store: ImageStore::default(), board, image, noted }
        }

        /// What the memory was asked for while this many bytes were put there.
        fn put(&self, len: usize, offset: u64) -> Vec<Asked> {
            let map = |header: &[u8]| {
                assert_eq!(header, [7; 32]);
                Some(Box::new(self.noted.clone()) as Box<dyn ImageMemory>)
            };
            self.store.put(&self.board, &self.image, &vec![1; len], offset, map).unwrap();
            std::mem::take(&mut *lock(&self.noted.asked))
        }

        fn mapped(image_bytes: u64) -> Fixture {
            Fixture::new(image_bytes).with_memory()
        }

        fn with_memory(self) -> Fixture {
            for _ in 0..=WRITES_BEFORE {
                assert_eq!(self.put(100, 32), []);
            }
            self
        }
    }

    #[test]
    fn the_first_frames_are_written_and_others_stored() {
        let fixture = Fixture::mapped(1 << 18);
        assert_eq!(fixture.put(100, 32), [Prepare(0..16_384), Store(32)]);
        assert_eq!(fixture.put(12_360, 132), [Store(132)]);
        assert_eq!(
            fixture.put(20_000, 16_000),
            [Prepare(16_384..32_768), Prepare(32_768..49_152), Store(16_000)]
        );
        let (_, written) = fixture.image.written();
        assert_eq!(written, 100);
        fixture.store.closed();
        assert_eq!(fixture.put(100, 32), []);
    }

    #[test]
    fn what_the_file_may_not_have_is_written() {
        let fixture = Fixture::mapped(100_000);
        assert_eq!(fixture.put(100, 99_900), [Prepare(98_304..100_000), Store(99_900)]);
        assert_eq!(fixture.put(100, 99_901), []);
        fixture.board.image_reaches(1 << 17);
        // Not all of the piece was there before.
        assert_eq!(fixture.put(100, 99_901), [Prepare(98_304..114_688), Store(99_901)]);
        fixture.board.image_reaches(IMAGE_MEMORY_BYTES * 2);
        assert_eq!(fixture.put(100, IMAGE_MEMORY_BYTES - 50), []);
    }

    // Pages of 64 KiB, as some kernels of aarch64 have. When the file becomes longer, the kernel
    // takes the page away that the end was in. A store to it may then find no room, and ends the
    // process.
    #[test]
    fn a_page_longer_than_a_piece_is_ready_only_if_the_file_has_all_of_it() {
        let mut fixture = Fixture::new(80_000);
        fixture.noted.page_bytes = 1 << 16;
        let fixture = fixture.with_memory();
        assert_eq!(fixture.put(100, 32), [Prepare(0..16_384), Store(32)]);
        assert_eq!(fixture.put(100, 32), [Store(32)]);
        assert_eq!(fixture.put(99, 65_536), [Prepare(65_536..80_000), Store(65_536)]);
        fixture.board.image_reaches(100_000);
        // The file has the whole piece now, and not the whole page.
        assert_eq!(fixture.put(99, 65_536), [Prepare(65_536..81_920), Store(65_536)]);
        assert_eq!(fixture.put(99, 65_536), [Prepare(65_536..81_920), Store(65_536)]);
        fixture.board.image_reaches(1 << 17);
        assert_eq!(fixture.put(99, 65_536), [Prepare(65_536..81_920), Store(65_536)]);
        assert_eq!(fixture.put(99, 65_536), [Store(65_536)]);
    }

    #[test]
    fn pages_are_asked_for_again_when_anybody_has_cut_the_image_and_after_a_while() {
        let fixture = Fixture::mapped(1 << 18);
        assert_eq!(fixture.put(100, 32).len(), 2);
        fixture.board.image_cut(32);
        assert_eq!(fixture.put(100, 32), []);
        fixture.board.image_reaches(1 << 18);
        assert_eq!(fixture.put(100, 32), [Prepare(0..16_384), Store(32)]);
        assert_eq!(fixture.put(100, 32), [Store(32)]);
        let State::Mapped(mapped) = &mut *lock(&fixture.store.0) else { panic!("not mapped") };
        let now_ns = clock::now_ns();
        assert!(mapped.is_ready(&fixture.board, 32..100, now_ns));
        assert_eq!(*lock(&fixture.noted.asked), []);
        assert!(mapped.is_ready(&fixture.board, 32..100, now_ns + ASKED_FOR.as_nanos() as u64));
        assert_eq!(*lock(&fixture.noted.asked), [Prepare(0..16_384)]);
    }

    #[test]
    fn memory_that_failed_once_is_not_asked_again() {
        let fixture = Fixture::mapped(2 << 20);
        assert_eq!(fixture.put(100, 1 << 20), [Prepare(1 << 20..(1 << 20) + PIECE_BYTES)]);
        assert_eq!(fixture.put(100, 32), []);
        assert_eq!(fixture.image.bytes()[1 << 20..(1 << 20) + 100], [1; 100]);
    }

    #[test]
    fn a_board_that_says_more_than_the_file_has_is_put_right() {
        let fixture = Fixture::new(1 << 18);
        fixture.board.image_reaches(1 << 19);
        for _ in 0..=WRITES_BEFORE {
            fixture.put(100, 32);
        }
        assert_eq!(fixture.board.image_bytes(), 1 << 18);
    }
}
