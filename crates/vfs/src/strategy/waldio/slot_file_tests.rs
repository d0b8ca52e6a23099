//! Two processes use one log: each has a [`SlotFile`] of its own on the same real file.

use std::path::Path;

use oneflush_blocklog::{DirectFile, Uuid};

use super::slot_file::{SlotFile, Write};
use crate::config::Layout;
use crate::strategy::log_files::LogFile;
use crate::wal_file::{FRAME_HEADER_BYTES, HEADER_BYTES};

const PAGE_BYTES: usize = 4096;
const CHUNK_BYTES: u64 = 64 << 10;

fn file(path: &Path, create: bool) -> LogFile {
    LogFile(Box::new(DirectFile::open(path, create).unwrap()))
}

fn wal_header(life: u8) -> [u8; HEADER_BYTES as usize] {
    [life; HEADER_BYTES as usize]
}

/// A frame whose page has no gap: its displaced bytes go to the lane.
fn frame(life: u8, number: u32) -> Vec<u8> {
    let mut frame = vec![0; FRAME_HEADER_BYTES];
    frame[8..16].fill(life);
    frame[16..24].fill(1);
    frame.extend(
        (0..PAGE_BYTES).map(|at| 1 + (at as u32 * 7 + number * 13 + u32::from(life)) as u8 % 250),
    );
    frame
}

impl SlotFile {
    fn writes(&self, life: u8, frames: std::ops::RangeInclusive<u32>) {
        self.lay_out(*frames.end(), CHUNK_BYTES).unwrap();
        let first = *frames.start();
        let bytes: Vec<u8> = frames.flat_map(|number| frame(life, number)).collect();
        self.write_frames(first, &bytes, Write { is_first: true, durable: false }).unwrap();
    }

    fn has(&self, life: u8, frames: std::ops::RangeInclusive<u32>) {
        for number in frames {
            let mut page = vec![0; PAGE_BYTES];
            self.read_page(number, &mut page).unwrap();
            assert!(page == frame(life, number)[FRAME_HEADER_BYTES..], "frame {number}");
        }
    }
}

/// One process kept in mind that a piece of the lane was there, over a cut by the other. It wrote
/// an entry where the file then ended. The other found the piece cut off, and zeroed all of it: a
/// commit came back with zeros in a page.
#[test]
fn entries_of_the_lane_outlive_a_cut_by_another_process_and_the_making_of_their_piece() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.db-waldio");
    let one = SlotFile::create(file(&path, true), Uuid([7; 16]), PAGE_BYTES as u32, Layout::Embed)
        .unwrap();
    let other = SlotFile::open(file(&path, false)).unwrap();
    one.begin_wal(&wal_header(1)).unwrap();
    one.writes(1, 1..=40);
    one.has(1, 1..=40);
    other.cut().unwrap();
    other.begin_wal(&wal_header(2)).unwrap();
    other.writes(2, 1..=16);
    // As at the first use after the board says that the WAL has begun anew.
    one.read_wal_header().unwrap();
    one.writes(2, 17..=19);
    other.writes(2, 20..=20);
    one.has(2, 1..=20);
    other.has(2, 1..=20);
    // All slots were written before they were used: the file has no holes there.
    assert_eq!(one.slots_there().unwrap(), other.slots_there().unwrap());
}

/// A file that ends in a piece of the lane, as a crash may leave it.
#[test]
fn a_piece_of_the_lane_that_is_cut_off_keeps_its_entries() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.db-waldio");
    let one = SlotFile::create(file(&path, true), Uuid([7; 16]), PAGE_BYTES as u32, Layout::Embed)
        .unwrap();
    one.begin_wal(&wal_header(1)).unwrap();
    one.writes(1, 1..=3);
    let end = one.geometry().lane(2);
    std::fs::File::options().write(true).open(&path).unwrap().set_len(end).unwrap();
    let other = SlotFile::open(file(&path, false)).unwrap();
    other.writes(1, 4..=4);
    other.has(1, 1..=4);
}

/// SQLite does not check a frame that it knows to be published.
#[test]
fn a_page_under_other_salts_is_an_error_and_never_given_out() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.db-waldio");
    let one = SlotFile::create(file(&path, true), Uuid([7; 16]), PAGE_BYTES as u32, Layout::Embed)
        .unwrap();
    one.begin_wal(&wal_header(1)).unwrap();
    one.writes(1, 1..=3);
    let other = SlotFile::open(file(&path, false)).unwrap();
    one.begin_wal(&wal_header(2)).unwrap();
    one.writes(2, 1..=2);
    // It knows the salts before, and reads those of now.
    other.has(2, 1..=2);
    let mut page = vec![0; PAGE_BYTES];
    assert_eq!(other.read_page(3, &mut page), Err(crate::error::Code::CORRUPT));
}
