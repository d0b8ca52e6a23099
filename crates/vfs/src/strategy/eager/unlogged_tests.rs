//! What is read from memory of commits that are not logged yet.

use std::sync::Arc;

use oneflush_blocklog::Uuid;

use super::recent::Frames;
use super::{EagerLog, wal_file};
use crate::test_stubs::NoLogs;

const PAGE_BYTES: usize = 512;
const FRAME_BYTES: usize = wal_file::FRAME_HEADER_BYTES + PAGE_BYTES;

fn offset_of_page(frame: u32) -> u64 {
    wal_file::HEADER_BYTES
        + u64::from(frame - 1) * FRAME_BYTES as u64
        + wal_file::FRAME_HEADER_BYTES as u64
}

/// A commit of frames 3 and 4, filled with these bytes.
fn log_with_a_commit() -> EagerLog {
    let log = EagerLog::new("/nonexistent/unlogged.db", Arc::new(NoLogs));
    let board = log.board();
    board.begin(Uuid([1; 16]), PAGE_BYTES);
    let mut frames = Frames::default();
    frames.take(
        board.generation(),
        3,
        &mut [[3; FRAME_BYTES], [4; FRAME_BYTES]].concat(),
        PAGE_BYTES,
    );
    log.note_commit(offset_of_page(4) - wal_file::FRAME_HEADER_BYTES as u64, &mut frames);
    log
}

fn read(log: &EagerLog, offset: u64, bytes: usize) -> Option<u8> {
    let mut page = vec![0; bytes];
    log.read_unlogged(&mut page, offset).then(|| page[bytes - 1])
}

#[test]
fn whole_pages_of_commits_that_are_kept_for_the_log_are_read_from_memory_and_nothing_else_is() {
    let log = log_with_a_commit();
    let page = |frame| read(&log, offset_of_page(frame), PAGE_BYTES);
    assert_eq!([2, 3, 4, 5].map(page), [None, Some(3), Some(4), None]);
    assert_eq!(read(&log, offset_of_page(3) + 1, PAGE_BYTES), None);
    assert_eq!(read(&log, offset_of_page(3), PAGE_BYTES - 1), None);
    assert_eq!(read(&log, 0, PAGE_BYTES), None);
}

#[test]
fn frames_that_somebody_has_taken_back_are_not_read_from_memory() {
    let log = log_with_a_commit();
    log.board().next_generation();
    assert_eq!(read(&log, offset_of_page(3), PAGE_BYTES), None);
}
