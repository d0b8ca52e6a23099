//! What this process knows of the WAL under its present salts, so that needless syncs can be left
//! out.
//!
//! A checkpoint syncs the WAL before it copies pages. Some connection may have written frames
//! without a sync (`synchronous=NORMAL`). If this process wrote the last frame and flushed it, that
//! sync has nothing to do. A flush covers all of the file that was written before it, by whichever
//! process.
//!
//! Frames that another process wrote behind the last one of this process show in one of two ways:
//!
//! - the WAL has another header;
//! - a frame there carries the same salts ("WAL file format": salt-1 and salt-2 of a valid frame
//!   are those of the header).
//!
//! Invariant, cited in code and tests: [`Salts::is_durable`] is true only if both hold. This
//! process wrote the last frame under the WAL's present salts. A flush that began after its last
//! write succeeded.

use crate::port::Below;
use crate::sync::{Mutex, lock};
use crate::wal_file::{self, FRAME_HEADER_BYTES};

const HEADER_BYTES: usize = wal_file::HEADER_BYTES as usize;
/// Where the salts stand in the WAL's header and in the header of a frame. They are 8 bytes.
const HEADER_SALTS: std::ops::Range<usize> = 16..24;
const FRAME_SALTS: std::ops::Range<usize> = 8..16;
/// The size of the database in a frame's header. It is non-zero if the frame ends a commit.
const FRAME_COMMIT: std::ops::Range<usize> = 4..8;

#[derive(Default)]
pub struct Salts(Mutex<State>);

#[derive(Default)]
struct State {
    /// Counts the writes of this process to the file. A flush covers all writes up to the count
    /// when it began.
    writes: u64,
    flushed: u64,
    known: Option<Known>,
}

struct Known {
    salts: [u8; 8],
    /// Where the next frame goes.
    end_bytes: u64,
    /// The last header written under the present write lock: its offset, and whether its frame ends
    /// a commit. `furthest_header` is the offset of the header furthest back.
    last_header: Option<(u64, bool)>,
    furthest_header: u64,
}

impl Known {
    fn new(salts: [u8; 8], end_bytes: u64) -> Known {
        Known { salts, end_bytes, last_header: None, furthest_header: 0 }
    }
}

impl Salts {
    /// Forgets everything: the file was opened or cut, or a write failed.
    pub fn forget(&self) {
        lock(&self.0).known = None;
    }

    /// Notes a write to the WAL. True: another process has written between this write and the last
    /// one of this process.
    pub fn wrote(&self, data: &[u8], offset: u64) -> bool {
        let mut state = lock(&self.0);
        state.writes += 1;
        let end_bytes = offset + data.len() as u64;
        let salts_at = |range| data.get(range).and_then(|salts| <[u8; 8]>::try_from(salts).ok());
        let salts = match data.len() {
            _ if offset == 0 => salts_at(HEADER_SALTS),
            // Salts are zeros until SQLite has the checksums. It writes those last: headers alone,
            // in front of their pages.
            FRAME_HEADER_BYTES => salts_at(FRAME_SALTS).filter(|salts| *salts != [0; 8]),
            _ => None,
        };
        let is_behind_others = state
            .known
            .as_ref()
            .is_some_and(|known| salts == Some(known.salts) && offset > known.end_bytes);
        state.known = match (state.known.take(), salts) {
            (Some(known), None) => {
                Some(Known { end_bytes: known.end_bytes.max(end_bytes), ..known })
            }
            (Some(known), Some(salts)) if known.salts == salts => {
                Some(Known { end_bytes: known.end_bytes.max(end_bytes), ..known })
            }
            (_, Some(salts)) => Some(Known::new(salts, end_bytes)),
            (None, None) => None,
        };
        debug_assert!(
            state.known.as_ref().is_none_or(|known| end_bytes <= known.end_bytes),
            "invariant: no write of this process lies behind its last frame"
        );
        if let (Some(known), FRAME_HEADER_BYTES) = (&mut state.known, data.len()) {
            known.last_header = Some((offset, data[FRAME_COMMIT] != [0; 4]));
            known.furthest_header = known.furthest_header.max(offset);
        }
        is_behind_others
    }

    /// Notes that the writer is about to release the write lock.
    ///
    /// If what it wrote does not end with a commit, all or a part of it was rolled back. Another
    /// process will then write its frames in that place, in front of where this process's frames
    /// seem to end.
    pub fn released(&self) {
        let mut state = lock(&self.0);
        let Some(known) = &mut state.known else { return };
        let furthest = std::mem::take(&mut known.furthest_header);
        if known.last_header.take().is_some_and(|(offset, commits)| !commits || offset < furthest) {
            state.known = None;
        }
    }

    /// Notes that a write of this process made a kept WAL valid again. Its last frame ends at
    /// `end_bytes`.
    pub fn taken_up(&self, salts: [u8; 8], end_bytes: u64) {
        let mut state = lock(&self.0);
        state.writes += 1;
        state.known = Some(Known::new(salts, end_bytes));
    }

    /// Notes that a flush begins. One runs at a time. The answer is for [`Salts::flushed`].
    pub fn begin_flush(&self) -> u64 {
        lock(&self.0).writes
    }

    /// Notes that the flush that began with `writes` succeeded.
    pub fn flushed(&self, writes: u64) {
        let mut state = lock(&self.0);
        debug_assert!(writes <= state.writes, "invariant: a flush covers writes before its begin");
        state.flushed = state.flushed.max(writes);
    }

    /// Where the last known frame ends.
    pub fn end_bytes(&self) -> Option<u64> {
        lock(&self.0).known.as_ref().map(|known| known.end_bytes)
    }

    /// True if this file has the salts that this process writes with. It is then that WAL, and no
    /// other of its name.
    pub fn is_of(&self, wal: &dyn Below) -> bool {
        lock(&self.0).known.as_ref().is_some_and(|known| has_salts(wal, known.salts))
    }

    pub fn is_durable(&self, wal: &dyn Below) -> bool {
        let state = lock(&self.0);
        let Some(known) = state.known.as_ref().filter(|_| state.flushed == state.writes) else {
            return false;
        };
        if !has_salts(wal, known.salts) {
            return false;
        }
        let mut next = [0; FRAME_HEADER_BYTES];
        // A short read is filled with zeros. The end of the file is no frame either.
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

    /// Writes a frame as SQLite does: its header, then its page.
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
            salts.wrote(
                &[&frame(1)[..4], &[0; 4], &frame(1)[8..FRAME_HEADER_BYTES]].concat(),
                at as u64,
            );
            salts.wrote(&frame(1)[FRAME_HEADER_BYTES..], (at + FRAME_HEADER_BYTES) as u64);
        };
        let second = HEADER_BYTES + FRAME_BYTES;
        // A transaction, then a part of one, which commits in front of it.
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
            // A frame of another process, which nobody has synced.
            wal.extend(frame(1));
            assert!(!salts.is_durable(&wal), "{part}");
        }
    }

    /// Writes headers as SQLite does when a transaction has written a page twice.
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
        // A frame of another process, which nobody has synced.
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
