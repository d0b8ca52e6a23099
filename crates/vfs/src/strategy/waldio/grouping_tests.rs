//! A buffer whose write fails.

use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use oneflush_blocklog::{DirectFile, Storage, Uuid};

use super::grouping::{Added, Form, Grouping};
use super::in_use::InUse;
use super::slot_file::SlotFile;
use crate::config::Layout;
use crate::error::Code;
use crate::strategy::board::{Board, Private};
use crate::strategy::log_files::LogFile;
use crate::wal_file::FRAME_HEADER_BYTES;

const PAGE_BYTES: usize = 4096;

/// A file whose writes fail on demand.
struct Failing {
    file: DirectFile,
    fails: Arc<AtomicBool>,
}

impl Failing {
    fn unless_it_fails(&self) -> io::Result<&DirectFile> {
        if self.fails.load(SeqCst) { Err(io::Error::from_raw_os_error(5)) } else { Ok(&self.file) }
    }
}

impl Storage for Failing {
    fn block_bytes(&self) -> usize {
        self.file.block_bytes()
    }

    fn alignment_bytes(&self) -> usize {
        self.file.alignment_bytes()
    }

    fn size_bytes(&self) -> io::Result<u64> {
        self.file.size_bytes()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_at(buffer, offset)
    }

    fn write_durable(&self, blocks: &[u8], offset: u64) -> io::Result<()> {
        self.unless_it_fails()?.write_durable(blocks, offset)
    }

    fn write(&self, blocks: &[u8], offset: u64) -> io::Result<()> {
        self.unless_it_fails()?.write(blocks, offset)
    }

    fn flush(&self) -> io::Result<()> {
        self.file.flush()
    }

    fn extend(&self, size_bytes: u64) -> io::Result<()> {
        self.file.extend(size_bytes)
    }

    fn zero(&self, range: Range<u64>) -> io::Result<()> {
        self.file.zero(range)
    }

    fn cut(&self, size_bytes: u64) -> io::Result<()> {
        self.file.cut(size_bytes)
    }
}

/// A log whose writes fail on demand, with one frame in the buffer.
fn with_a_frame(fails: &Arc<AtomicBool>) -> (tempfile::TempDir, Arc<InUse>, Arc<Grouping>) {
    let dir = tempfile::tempdir().unwrap();
    let file = DirectFile::open(&dir.path().join("a.db-waldio"), true).unwrap();
    let storage = LogFile(Box::new(Failing { file, fails: Arc::clone(fails) }));
    let file = SlotFile::create(storage, Uuid([7; 16]), PAGE_BYTES as u32, Layout::Embed).unwrap();
    let board = Board::new(Arc::new(Private::default()));
    assert_eq!(board.join(), Ok(true));
    let log = Arc::new(InUse { file: Arc::new(file), board });
    let grouping = Arc::new(Grouping::default());
    let frame = vec![0; FRAME_HEADER_BYTES + PAGE_BYTES];
    log.file.lay_out(1, 64 << 10).unwrap();
    assert_eq!(grouping.add(&log, Form::Waits, 1, &frame), Ok(Added::Buffered));
    (dir, log, grouping)
}

/// A checkpoint wrote the buffer, which failed. A flush leader had waited for that. Then it found
/// nothing to write, flushed, and acknowledged the commits that were lost.
#[test]
fn a_buffer_whose_write_failed_is_not_taken_for_one_that_was_written() {
    let fails = Arc::new(AtomicBool::new(false));
    let (_dir, _, grouping) = with_a_frame(&fails);
    fails.store(true, SeqCst);
    assert_eq!(grouping.write_out(), Err(Code::IOERR_WRITE));
    assert_eq!(grouping.write_out(), Err(Code::IOERR_WRITE), "it was not written meanwhile");
    // Nothing is written any more, also where it would succeed (invariant 3).
    fails.store(false, SeqCst);
    assert_eq!(grouping.write_out(), Err(Code::IOERR_WRITE));
    grouping.stop();
    assert_eq!(grouping.write_out(), Ok(()));
}

/// Nothing is wrong with what is buffered when code panics elsewhere. Where it cannot be written,
/// others hear so and see no frame that is in no slot.
#[test]
fn after_a_panic_what_is_buffered_is_written_or_the_log_has_failed() {
    let fails = Arc::new(AtomicBool::new(false));
    let (_dir, log, grouping) = with_a_frame(&fails);
    grouping.panicked();
    assert!(!grouping.has_frames());
    assert_eq!(log.board.failure(), None);
    let (_dir, log, grouping) = with_a_frame(&fails);
    fails.store(true, SeqCst);
    grouping.panicked();
    assert!(log.board.failure().is_some());
    assert!(grouping.has_frames());
}
