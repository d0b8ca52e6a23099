//! The frames of a transaction that is being written, in memory until the commit is complete.
//!
//! SQLite writes a header and a page for each frame. In a transaction larger than its cache it also
//! writes pages again that it has written, and headers after that (`walRewriteChecksums`). In a
//! file of slots each of these would be a read and a write. So frames are kept here and written
//! once. Beyond a limit the oldest are written and forgotten. If SQLite changes one of them, it is
//! read again.
//!
//! A commit is complete when the frame that ends it has its page and a header with checksums.
//! SQLite may publish it after that without a call.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use super::slots::Geometry;
use crate::error::Code;
use crate::wal_file::FRAME_HEADER_BYTES;

/// Frames of so many bytes are kept.
const BYTES_MAX: usize = 8 << 20;

#[derive(Default)]
pub struct Transaction {
    frames: BTreeMap<u32, Frame>,
    /// The last frame that was written since the transaction began.
    last: u32,
    /// The frame that ends the commit, if it was written.
    ending: Option<u32>,
}

struct Frame {
    bytes: Vec<u8>,
    is_dirty: bool,
    has_page: bool,
}

impl Transaction {
    /// Begins a transaction. What is left of another was rolled back.
    pub fn begin(&mut self) {
        *self = Transaction::default();
    }

    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// SQLite writes `data` into a frame, from byte `at` on. `read` reads a frame that was written
    /// before. True: the commit is complete.
    pub fn write(
        &mut self,
        geometry: &Geometry,
        frame: u32,
        at: usize,
        data: &[u8],
        read: impl FnOnce(&mut [u8]) -> Result<(), Code>,
    ) -> Result<bool, Code> {
        let frame_bytes = geometry.frame_bytes() as usize;
        // SQLite begins a frame with its header. So one that is gone on with was written: a VFS
        // above may write the end of a frame after the commit that the frame is behind.
        let is_new = frame > self.last && at == 0;
        let known = match self.frames.entry(frame) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(place) => {
                let mut bytes = vec![0; frame_bytes];
                if !is_new && data.len() != frame_bytes {
                    read(&mut bytes)?;
                }
                place.insert(Frame { bytes, is_dirty: true, has_page: !is_new })
            }
        };
        self.last = self.last.max(frame);
        let was_finished = is_finished(&known.bytes);
        // Without its page, a header is written when a page follows, or to get its checksums.
        let gets_checksums = !was_finished && known.bytes[..8] == data[..8.min(data.len())];
        if at == 0 && data.len() <= FRAME_HEADER_BYTES && !gets_checksums {
            known.has_page = false;
        }
        known.bytes[at..at + data.len()].copy_from_slice(data);
        known.is_dirty = true;
        known.has_page |= at + data.len() == frame_bytes;
        let is_complete = is_finished(&known.bytes) && known.has_page;
        if at == 0 {
            let ends_commit = known.bytes[4..8] != [0; 4];
            match self.ending {
                _ if ends_commit => self.ending = Some(frame),
                // A frame behind the end, or in place of it: that commit failed.
                Some(ending) if frame >= ending => self.ending = None,
                _ => {}
            }
        }
        Ok(self.ending == Some(frame) && is_complete)
    }

    /// Copies a part of a frame. False: the frame is not here.
    pub fn read(&self, frame: u32, at: usize, buffer: &mut [u8]) -> bool {
        match self.frames.get(&frame) {
            Some(known) => {
                buffer.copy_from_slice(&known.bytes[at..at + buffer.len()]);
                true
            }
            None => false,
        }
    }

    /// Keeps frames that were read, as far as they are not here. SQLite reads all frames behind one
    /// that it wrote over.
    pub fn keep(&mut self, first: u32, frames: &[u8], frame_bytes: usize) {
        for (frame, bytes) in (first..).zip(frames.chunks_exact(frame_bytes)) {
            self.frames.entry(frame).or_insert_with(|| Frame {
                bytes: bytes.to_vec(),
                is_dirty: false,
                has_page: true,
            });
        }
    }

    pub fn last(&self) -> u32 {
        self.last
    }

    /// The bytes of the frames here are more than are kept.
    pub fn is_large(&self, frame_bytes: usize) -> bool {
        self.frames.len() * frame_bytes > BYTES_MAX
    }

    /// Frames that were changed and not written, in runs. Of a complete commit those behind its end
    /// are left out: they were taken back.
    pub fn dirty_runs(&self) -> Vec<(u32, Vec<u8>)> {
        let mut runs: Vec<(u32, Vec<u8>)> = Vec::new();
        let mut next = 0;
        for (&frame, known) in &self.frames {
            if !known.is_dirty || self.ending.is_some_and(|ending| frame > ending) {
                continue;
            }
            match runs.last_mut().filter(|_| frame == next) {
                Some((_, bytes)) => bytes.extend_from_slice(&known.bytes),
                None => runs.push((frame, known.bytes.clone())),
            }
            next = frame + 1;
        }
        runs
    }

    /// All frames here are written.
    pub fn written(&mut self) {
        self.frames.values_mut().for_each(|frame| frame.is_dirty = false);
    }

    /// Forgets frames, which are written, so that half of what is kept is left.
    pub fn shrink(&mut self, frame_bytes: usize) {
        let kept = BYTES_MAX / 2 / frame_bytes;
        while self.frames.len() > kept {
            self.frames.pop_first();
        }
    }

    /// Gives out the whole frames up to `last`, and forgets all.
    pub fn publish(&mut self, last: u32, mut with: impl FnMut(u32, &[u8])) {
        for (frame, known) in std::mem::take(&mut self.frames) {
            if frame <= last && known.has_page {
                with(frame, &known.bytes);
            }
        }
        self.begin();
    }
}

/// The frame has its salts and checksums.
fn is_finished(frame: &[u8]) -> bool {
    frame[8..FRAME_HEADER_BYTES] != [0; 16]
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;
    use crate::config::Layout;

    fn geometry() -> Geometry {
        Geometry::new(Layout::Embed, 512, 4096)
    }

    fn header(ends: bool, is_finished: bool) -> [u8; FRAME_HEADER_BYTES] {
        let mut header = [0; FRAME_HEADER_BYTES];
        header[3] = 7;
        header[7] = u8::from(ends);
        header[8..].fill(u8::from(is_finished));
        header
    }

    struct Written(Transaction);

    impl Written {
        fn write(&mut self, frame: u32, at: usize, data: &[u8]) -> bool {
            self.0.write(&geometry(), frame, at, data, |_| panic!("frame {frame} is read")).unwrap()
        }

        fn frame(&mut self, frame: u32, ends: bool, is_finished: bool) -> bool {
            assert!(!self.write(frame, 0, &header(ends, is_finished)));
            self.write(frame, FRAME_HEADER_BYTES, &[frame as u8; 512])
        }

        fn runs(&self) -> Vec<(u32, usize)> {
            self.0.dirty_runs().iter().map(|(first, bytes)| (*first, bytes.len() / 536)).collect()
        }
    }

    #[test]
    fn a_commit_is_complete_with_the_page_of_its_last_frame() {
        let mut written = Written(Transaction::default());
        assert!(!written.frame(11, false, true));
        assert!(written.frame(12, true, true));
        assert_eq!(written.runs(), [(11, 2)]);
        written.0.written();
        assert_eq!(written.runs(), []);
        let mut published = Vec::new();
        written.0.publish(11, |frame, bytes| published.push((frame, bytes.len())));
        assert_eq!(published, [(11, 536)]);
        assert!(written.0.is_empty());
    }

    #[test]
    fn a_commit_with_frames_written_over_is_complete_with_the_header_of_its_last_frame() {
        let mut written = Written(Transaction::default());
        for frame in 1..=3 {
            assert!(!written.frame(frame, false, frame == 1));
        }
        assert!(!written.write(1, FRAME_HEADER_BYTES, &[9; 512]));
        assert!(!written.frame(4, true, false));
        for frame in 1..=3 {
            assert!(!written.write(frame, 0, &header(false, true)));
        }
        assert!(written.write(4, 0, &header(true, true)));
        assert_eq!(written.runs(), [(1, 4)]);
        let mut page = [0; 512];
        assert!(written.0.read(1, FRAME_HEADER_BYTES, &mut page) && page == [9; 512]);
    }

    #[test]
    fn frames_behind_the_end_were_taken_back_and_are_not_written() {
        let mut written = Written(Transaction::default());
        for frame in 1..=5 {
            written.frame(frame, false, true);
        }
        assert!(written.frame(2, true, true));
        assert_eq!(written.runs(), [(1, 2)]);
        assert!(!written.frame(3, false, true), "the next transaction, without a begin");
        assert!(written.frame(4, true, true));
    }

    /// SQLite fills sectors with a frame behind the commit, and may sync in the middle of it. The
    /// VFS that simulates crashes in SQLite's tests writes the rest after the publication.
    #[test]
    fn a_frame_that_is_gone_on_with_after_the_publication_was_written_before() {
        let (geometry, mut transaction) = (geometry(), Transaction::default());
        let mut half = header(true, true).to_vec();
        half.resize(300, 5);
        let is_complete = transaction.write(&geometry, 3, 0, &half, |_| panic!()).unwrap();
        assert!(!is_complete && transaction.dirty_runs().len() == 1);
        transaction.publish(3, |frame, _| panic!("half of frame {frame}"));
        let read = |frame: &mut [u8]| {
            frame[..300].copy_from_slice(&half);
            Ok(())
        };
        transaction.write(&geometry, 3, 300, &[6; 236], read).unwrap();
        let runs = transaction.dirty_runs();
        assert_eq!(runs, [(3, [&half[..], &[6; 236]].concat())]);
    }

    #[test]
    fn what_is_kept_has_a_limit_and_a_forgotten_frame_is_read_again() {
        let geometry = Geometry::new(Layout::Embed, 65_536, 4096);
        let frame_bytes = geometry.frame_bytes() as usize;
        let mut transaction = Transaction::default();
        let mut frame = 0;
        while !transaction.is_large(frame_bytes) {
            frame += 1;
            let bytes = vec![frame as u8; frame_bytes];
            transaction.write(&geometry, frame, 0, &bytes, |_| panic!()).unwrap();
        }
        transaction.written();
        transaction.shrink(frame_bytes);
        assert!(!transaction.read(1, 0, &mut [0; 24]) && transaction.read(frame, 0, &mut [0; 24]));
        let mut reads = 0;
        transaction
            .write(&geometry, 1, FRAME_HEADER_BYTES, &[5; 65_536], |frame| {
                reads += 1;
                frame.fill(4);
                Ok(())
            })
            .unwrap();
        let mut header = [0; 24];
        assert!(transaction.read(1, 0, &mut header) && header == [4; 24] && reads == 1);
    }
}
