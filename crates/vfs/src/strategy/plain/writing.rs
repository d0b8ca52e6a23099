//! Writes of `plain` to the WAL: what has to be there before them, and one write for a frame.
//!
//! SQLite writes a frame in two parts, one right after the other: its header and its page. A header
//! that is held back is written together with its page. Nothing else comes between, except where a
//! header ends at the end of a sector that SQLite wants to sync. So a held header is written before
//! anything else that comes to the WAL.
//!
//! A header that no page will follow must not be held back, because SQLite may publish the frame
//! next. Such a header is written over another one. SQLite does so when it has the checksums of a
//! transaction that has written pages twice.

use std::sync::atomic::Ordering::Relaxed;

use super::Plain;
use crate::engine::{Held, doing};
use crate::error::Error;
use crate::names::wal_path;
use crate::port::{Below, SyncRequest};
use crate::sync::lock;
use crate::wal_file::FRAME_HEADER_BYTES;

/// What is to be written to the WAL now.
pub enum Next<'a> {
    /// Nothing yet: the data is held back.
    Held,
    /// A whole frame, and its offset.
    Frame(&'a [u8], u64),
    /// The held header, if there is one, and then the data as SQLite wrote it.
    AsItIs,
}

/// Decides what is to be written when SQLite writes `data` to the WAL.
fn next<'a>(held: &'a mut Held, data: &[u8], offset: u64) -> Next<'a> {
    let is_header = data.len() == FRAME_HEADER_BYTES;
    if held.len() == 0 && is_header && offset > 0 && !held.is_written_over(offset) {
        held.add(data, offset);
        return Next::Held;
    }
    if held.len() > 0 && held.is_continued_at(offset) && data.len() > FRAME_HEADER_BYTES {
        held.add(data, offset);
        return held.take().map_or(Next::AsItIs, |(frame, offset)| Next::Frame(frame, offset));
    }
    if offset == 0 {
        // A WAL begins anew, in front of its old frames.
        held.begin_anew();
    } else {
        held.reaches(offset + data.len() as u64);
    }
    Next::AsItIs
}

impl Plain {
    /// SQLite writes to the WAL.
    pub(super) fn write_frames(
        &self,
        wal: &dyn Below,
        data: &[u8],
        offset: u64,
    ) -> Result<(), Error> {
        self.doing.store(doing::WRITES, Relaxed);
        let mut held = lock(&self.held);
        match next(&mut held, data, offset) {
            Next::Held => Ok(()),
            Next::Frame(frame, offset) => self.write_parts(wal, frame, offset, FRAME_HEADER_BYTES),
            Next::AsItIs => {
                if let Some((header, offset)) = held.take() {
                    self.write_parts(wal, header, offset, 0)?;
                }
                self.write_parts(wal, data, offset, 0)
            }
        }
    }

    /// Writes a header that is held back.
    pub(super) fn write_header_held(&self, wal: &dyn Below) -> Result<(), Error> {
        if self.doing.load(Relaxed) != doing::WRITES {
            // A connection that only reads comes here for every page.
            return Ok(());
        }
        match lock(&self.held).take() {
            Some((header, offset)) => self.write_parts(wal, header, offset, 0),
            None => Ok(()),
        }
    }

    /// Writes what SQLite has written in two parts. The first part may be empty.
    fn write_parts(
        &self,
        wal: &dyn Below,
        data: &[u8],
        offset: u64,
        first_bytes: usize,
    ) -> Result<(), Error> {
        self.prepare_wal(wal, offset, data.len())?;
        let Err(code) = wal.write(data, offset) else {
            let (first, second) = data.split_at(first_bytes);
            if !first.is_empty() {
                self.wrote(first, offset);
            }
            self.wrote(second, offset + first_bytes as u64);
            return Ok(());
        };
        self.store().salts.forget();
        Err(code.into())
    }

    /// Does what has to be done before `len` bytes are written at `offset`.
    fn prepare_wal(&self, wal: &dyn Below, offset: u64, len: usize) -> Result<(), Error> {
        self.forget_closing();
        if offset == 0 {
            // This is a new header. Another process may have cut or deleted the file since.
            self.store().extent.forget();
            self.header_unsynced.store(true, Relaxed);
            // The frames under the old salts no longer matter.
            *lock(&self.store().left) = false;
            self.unsynced_frames.store(false, Relaxed);
            return Ok(());
        }
        self.store().mend(wal, offset)?;
        let flush = || self.sync_shared(wal, SyncRequest::ALL);
        if self.promises_full() && self.header_unsynced.load(Relaxed) {
            // Frames with the new salts must not reach the disk before their header. The old header
            // would make a part of the old frames valid.
            flush()?;
        }
        // This must come after the header. Zeros over a file that was cut need not reach the device
        // before the header does. The device would then have the first frames under the old salts,
        // and a header that makes them valid.
        let store = self.store();
        store.extent.reserve(
            wal,
            offset + len as u64,
            self.options.prealloc_bytes,
            |new| store.files.extend_without_writing(&wal_path(&store.path), new),
            flush,
        )?;
        self.unsynced_frames.store(true, Relaxed);
        Ok(())
    }

    fn wrote(&self, data: &[u8], offset: u64) {
        if self.store().salts.wrote(data, offset) {
            self.shared.meets_outsiders();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wal_file::HEADER_BYTES;

    const PAGE: [u8; 512] = [9; 512];
    const HEADER: [u8; FRAME_HEADER_BYTES] = [3; FRAME_HEADER_BYTES];
    const FRAME_BYTES: u64 = (FRAME_HEADER_BYTES + PAGE.len()) as u64;

    fn writes(frames: &mut Held, data: &[u8], offset: u64) -> Option<(Vec<u8>, u64)> {
        match next(frames, data, offset) {
            Next::Held => None,
            Next::Frame(frame, offset) => Some((frame.to_vec(), offset)),
            Next::AsItIs => Some((data.to_vec(), offset)),
        }
    }

    fn write_frame(frames: &mut Held, offset: u64) {
        assert_eq!(writes(frames, &HEADER, offset), None);
        let page_at = offset + FRAME_HEADER_BYTES as u64;
        assert_eq!(writes(frames, &PAGE, page_at), Some(([&HEADER[..], &PAGE].concat(), offset)));
        assert_eq!(frames.take(), None);
    }

    #[test]
    fn a_header_is_written_with_its_page() {
        let mut frames = Held::default();
        write_frame(&mut frames, HEADER_BYTES);
        write_frame(&mut frames, HEADER_BYTES + FRAME_BYTES);
    }

    #[test]
    fn headers_and_pages_that_are_written_over_others_are_written_at_once() {
        let mut frames = Held::default();
        write_frame(&mut frames, HEADER_BYTES);
        write_frame(&mut frames, HEADER_BYTES + FRAME_BYTES);
        for offset in [HEADER_BYTES, HEADER_BYTES + FRAME_BYTES] {
            assert_eq!(writes(&mut frames, &HEADER, offset), Some((HEADER.to_vec(), offset)));
        }
        let page_at = HEADER_BYTES + FRAME_HEADER_BYTES as u64;
        assert_eq!(writes(&mut frames, &PAGE, page_at), Some((PAGE.to_vec(), page_at)));
        // The next transaction may begin in front of what this one has written and taken back.
        frames.end_transaction();
        write_frame(&mut frames, HEADER_BYTES);
    }

    #[test]
    fn what_comes_in_between_finds_the_header_first() {
        let mut frames = Held::default();
        assert_eq!(writes(&mut frames, &HEADER, HEADER_BYTES), None);
        assert_eq!(frames.take(), Some((&mut HEADER.to_vec(), HEADER_BYTES)));
        let page_at = HEADER_BYTES + FRAME_HEADER_BYTES as u64;
        assert_eq!(writes(&mut frames, &PAGE, page_at), Some((PAGE.to_vec(), page_at)));

        let second = HEADER_BYTES + FRAME_BYTES;
        assert_eq!(writes(&mut frames, &HEADER, second), None);
        // A part of a page up to a sector's end is a page too. A page somewhere else is not.
        assert_eq!(writes(&mut frames, &PAGE, second + 100), Some((PAGE.to_vec(), second + 100)));
        assert_eq!(frames.take(), Some((&mut HEADER.to_vec(), second)));
    }

    #[test]
    fn a_new_wal_begins_in_front_of_the_old_frames() {
        let mut frames = Held::default();
        write_frame(&mut frames, HEADER_BYTES + FRAME_BYTES);
        let header = [1; HEADER_BYTES as usize];
        assert_eq!(writes(&mut frames, &header, 0), Some((header.to_vec(), 0)));
        write_frame(&mut frames, HEADER_BYTES);
    }
}
