//! What this process knows of the WAL's present generation, so that it can leave out a sync that would find nothing to do.
//!
//! A checkpoint syncs the WAL before it copies pages, because some connection may have written frames without a sync
//! (`synchronous=NORMAL`). Where the last frame was written by this process, and flushed, that sync is a flush for nothing: a flush
//! covers all of the file that was written before it, by whomever. Frames that another process wrote behind our last show: as
//! another header, or as a frame that carries the generation's salts ("WAL file format": salt-1 and salt-2 of a valid frame are those
//! of the header).
//!
//! Invariant, cited in code and tests: [`Salts::is_durable`] is true only if the last frame of the WAL's present generation was
//! written by this process, and a flush that began after its last write succeeded.

use crate::port::Below;
use crate::sync::{Mutex, lock};
use crate::wal_file::{self, FRAME_HEADER_BYTES};

const HEADER_BYTES: usize = wal_file::HEADER_BYTES as usize;
/// Where the salts stand in the header and in the header of a frame, and how long they are together.
const HEADER_SALTS: std::ops::Range<usize> = 16..24;
const FRAME_SALTS: std::ops::Range<usize> = 8..16;
/// In the header of a frame that ends a commit: the size of the database then.
const FRAME_COMMIT: std::ops::Range<usize> = 4..8;

#[derive(Default)]
pub struct Salts(Mutex<State>);

#[derive(Default)]
struct State {
    /// Counts the writes of this process to the file; what a flush covers is all writes up to the count when it began.
    writes: u64,
    flushed: u64,
    known: Option<Known>,
}

struct Known {
    salts: [u8; 8],
    /// Where the next frame goes.
    end_bytes: u64,
    /// Of the frames that were written with the present write lock: where the last header was written, and whether its frame ends a commit; where the one
    /// furthest back is.
    last_header: Option<(u64, bool)>,
    furthest_header: u64,
}

impl Known {
    fn new(salts: [u8; 8], end_bytes: u64) -> Known {
        Known { salts, end_bytes, last_header: None, furthest_header: 0 }
    }
}

impl Salts {
    /// The file was opened or cut, or a write failed: nothing is known of its contents.
    pub fn forget(&self) {
        lock(&self.0).known = None;
    }

    /// A write to the WAL is done. True: it is not where the last one of this process ended, so another has written in between.
    pub fn wrote(&self, data: &[u8], offset: u64) -> bool {
        let mut state = lock(&self.0);
        state.writes += 1;
        let end_bytes = offset + data.len() as u64;
        let salts_at = |range| data.get(range).and_then(|salts| <[u8; 8]>::try_from(salts).ok());
        let salts = match data.len() {
            _ if offset == 0 => salts_at(HEADER_SALTS),
            // Zeros until SQLite has the checksums, which it writes last: headers alone, in front of their pages.
            FRAME_HEADER_BYTES => salts_at(FRAME_SALTS).filter(|salts| *salts != [0; 8]),
            _ => None,
        };
        let is_behind_others =
            state.known.as_ref().is_some_and(|known| salts == Some(known.salts) && offset > known.end_bytes);
        state.known = match (state.known.take(), salts) {
            (Some(known), None) => Some(Known { end_bytes: known.end_bytes.max(end_bytes), ..known }),
            (Some(known), Some(salts)) if known.salts == salts => {
                Some(Known { end_bytes: known.end_bytes.max(end_bytes), ..known })
            }
            (_, Some(salts)) => Some(Known::new(salts, end_bytes)),
            (None, None) => None,
        };
        if let (Some(known), FRAME_HEADER_BYTES) = (&mut state.known, data.len()) {
            known.last_header = Some((offset, data[FRAME_COMMIT] != [0; 4]));
            known.furthest_header = known.furthest_header.max(offset);
        }
        is_behind_others
    }

    /// The writer is about to give the write lock back. If what it wrote does not end with a commit, it was rolled back, or a part of it: another
    /// process writes its frames in that place, and in front of where ours seem to end.
    pub fn released(&self) {
        let mut state = lock(&self.0);
        let Some(known) = &mut state.known else { return };
        let furthest = std::mem::take(&mut known.furthest_header);
        if known.last_header.take().is_some_and(|(offset, commits)| !commits || offset < furthest) {
            state.known = None;
        }
    }

    /// A kept WAL was made valid again by a write of this process; its last frame ends at `end_bytes`.
    pub fn taken_up(&self, salts: [u8; 8], end_bytes: u64) {
        let mut state = lock(&self.0);
        state.writes += 1;
        state.known = Some(Known::new(salts, end_bytes));
    }

    /// A flush begins, one at a time. The answer is for [`Salts::flushed`].
    pub fn begin_flush(&self) -> u64 {
        lock(&self.0).writes
    }

    /// The flush that began with `writes` succeeded.
    pub fn flushed(&self, writes: u64) {
        let mut state = lock(&self.0);
        state.flushed = state.flushed.max(writes);
    }

    /// Where the last frame that is known ends.
    pub fn end_bytes(&self) -> Option<u64> {
        lock(&self.0).known.as_ref().map(|known| known.end_bytes)
    }

    /// True if this file has the generation that this process writes: it is that WAL, and no other of its name.
    pub fn is_of(&self, wal: &dyn Below) -> bool {
        lock(&self.0).known.as_ref().is_some_and(|known| has_salts(wal, known.salts))
    }

    pub fn is_durable(&self, wal: &dyn Below) -> bool {
        let state = lock(&self.0);
        let Some(known) = state.known.as_ref().filter(|_| state.flushed == state.writes) else { return false };
        if !has_salts(wal, known.salts) {
            return false;
        }
        let mut next = [0; FRAME_HEADER_BYTES];
        // A short read is filled with zeros: the end of the file is no frame either.
        let _ = wal.read(&mut next, known.end_bytes);
        next[FRAME_SALTS] != known.salts
    }
}

fn has_salts(wal: &dyn Below, salts: [u8; 8]) -> bool {
    let mut header = [0; HEADER_BYTES];
    wal.read(&mut header, 0).is_ok() && header[HEADER_SALTS] == salts
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;
    use crate::test_wal::Wal;

    fn header(salts: u8) -> [u8; HEADER_BYTES] {
        let mut header = [0; HEADER_BYTES];
        header[HEADER_SALTS].fill(salts);
        header
    }

    const FRAME_BYTES: usize = FRAME_HEADER_BYTES + 512;

    fn frame(salts: u8) -> [u8; FRAME_BYTES] {
        let mut frame = [0; FRAME_BYTES];
        frame[FRAME_SALTS].fill(salts);
        frame[FRAME_COMMIT].fill(1);
        frame
    }

    /// As SQLite writes a frame: its header, then its page.
    fn write_frame(salts: &Salts, of: u8, offset: usize) -> bool {
        let frame = frame(of);
        let is_behind_others = salts.wrote(&frame[..FRAME_HEADER_BYTES], offset as u64);
        salts.wrote(&frame[FRAME_HEADER_BYTES..], (offset + FRAME_HEADER_BYTES) as u64);
        is_behind_others
    }

    /// A header and one frame by this process, flushed.
    fn written() -> (Salts, Wal) {
        let (salts, wal) = (Salts::default(), Wal::default());
        wal.extend(header(1));
        wal.extend(frame(1));
        salts.wrote(&header(1), 0);
        write_frame(&salts, 1, HEADER_BYTES);
        salts.flushed(salts.begin_flush());
        (salts, wal)
    }

    #[test]
    fn what_this_process_wrote_and_flushed_is_durable() {
        let (salts, wal) = written();
        assert!(salts.is_durable(&wal));
        wal.extend(frame(7));
        assert!(salts.is_durable(&wal), "a frame of an older generation does not count");
    }

    #[test]
    fn a_write_after_the_flush_began_is_not_covered_by_it() {
        let (salts, wal) = written();
        let began_at = salts.begin_flush();
        write_frame(&salts, 1, HEADER_BYTES + FRAME_BYTES);
        salts.flushed(began_at);
        assert!(!salts.is_durable(&wal));
    }

    #[test]
    fn frames_of_another_process_are_seen_at_the_end_and_covered_in_between() {
        let (salts, wal) = written();
        wal.extend(frame(1));
        assert!(!salts.is_durable(&wal));
        wal.extend(frame(1));
        assert!(write_frame(&salts, 1, HEADER_BYTES + 2 * FRAME_BYTES));
        assert!(!write_frame(&salts, 1, HEADER_BYTES + 3 * FRAME_BYTES));
        wal.extend(frame(1));
        assert!(!salts.is_durable(&wal));
        salts.flushed(salts.begin_flush());
        assert!(salts.is_durable(&wal));
    }

    #[test]
    fn frames_that_were_rolled_back_do_not_hide_those_of_another_process() {
        let spill = |salts: &Salts, at: usize| {
            salts.wrote(&[&frame(1)[..4], &[0; 4], &frame(1)[8..FRAME_HEADER_BYTES]].concat(), at as u64);
            salts.wrote(&frame(1)[FRAME_HEADER_BYTES..], (at + FRAME_HEADER_BYTES) as u64);
        };
        let second = HEADER_BYTES + FRAME_BYTES;
        // A transaction; and a part of one, which commits in front of it.
        for part in [false, true] {
            let (salts, wal) = written();
            salts.released();
            assert!(salts.is_durable(&wal), "it ended with a commit");
            (0..3).for_each(|frame| spill(&salts, second + frame * FRAME_BYTES));
            if !part {
                salts.released();
            }
            wal.extend(frame(1));
            write_frame(&salts, 1, second);
            salts.flushed(salts.begin_flush());
            salts.released();
            // Another process's, which nobody has synced.
            wal.extend(frame(1));
            assert!(!salts.is_durable(&wal), "{part}");
        }
    }

    /// As SQLite does where a transaction has written a page twice.
    #[test]
    fn frames_whose_checksums_are_written_last_end_with_their_pages() {
        let (salts, wal) = written();
        let places = [HEADER_BYTES + FRAME_BYTES, HEADER_BYTES + 2 * FRAME_BYTES];
        let end = HEADER_BYTES + 3 * FRAME_BYTES;
        for offset in places {
            let header = [&frame(1)[..8], &[0; 16]].concat();
            salts.wrote(&header, offset as u64);
            salts.wrote(&frame(1)[FRAME_HEADER_BYTES..], (offset + FRAME_HEADER_BYTES) as u64);
        }
        for offset in places {
            wal.extend(frame(1));
            salts.wrote(&frame(1)[..FRAME_HEADER_BYTES], offset as u64);
        }
        assert_eq!(salts.end_bytes(), Some(end as u64));
        salts.flushed(salts.begin_flush());
        assert!(salts.is_durable(&wal));
        // Another process's, which nobody has synced.
        wal.extend(frame(1));
        assert!(!salts.is_durable(&wal));
        assert!(write_frame(&salts, 1, end + FRAME_BYTES));
    }

    #[test]
    fn a_generation_that_another_process_began_is_seen() {
        let (salts, wal) = written();
        wal.set(0, &header(2));
        wal.set(32, &frame(2));
        assert!(!salts.is_durable(&wal));
        wal.extend(frame(2));
        write_frame(&salts, 2, HEADER_BYTES + FRAME_BYTES);
        assert!(!salts.is_durable(&wal));
        salts.flushed(salts.begin_flush());
        assert!(salts.is_durable(&wal));
    }

    #[test]
    fn a_wal_is_told_from_another_of_its_name() {
        let (salts, wal) = written();
        assert!(salts.is_of(&wal));
        wal.extend(frame(1));
        assert!(salts.is_of(&wal), "whoever wrote the last frame");
        assert!(!salts.is_of(&Wal::default()));
        wal.set(0, &header(2));
        assert!(!salts.is_of(&wal));
    }

    #[test]
    fn nothing_is_known_of_a_file_that_was_only_opened() {
        assert!(!Salts::default().is_durable(&Wal::default()));
        let (salts, wal) = written();
        salts.forget();
        assert!(!salts.is_durable(&wal) && !salts.is_of(&wal));
    }
}
