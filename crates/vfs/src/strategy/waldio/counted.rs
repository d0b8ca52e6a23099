//! How the frames of a log stand, for the crash simulator: so a run can show what it has met.

use super::header::{HEADER_BYTES, LogHeader};
use super::slots::{LANE, WalSalts};
use crate::wal_file::{FRAME_HEADER_BYTES, HEADER_BYTES as WAL_HEADER_BYTES};

/// How many slots of a log have a frame of this kind. It need not be committed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlotCounts {
    /// The frame is as SQLite wrote it.
    pub plain: u32,
    /// The page's end is in a gap of the page.
    pub in_gap: u32,
    /// The page's end is in the lane.
    pub in_lane: u32,
    /// The frame is of an earlier life of the WAL, or a crash has garbled its header.
    pub earlier: u32,
}

/// `read` gives bytes of the log's file at an offset. `None`: that is no log.
pub fn count_slots(size_bytes: u64, read: impl Fn(u64, &mut [u8])) -> Option<SlotCounts> {
    let mut block = [0; HEADER_BYTES];
    read(0, &mut block);
    let geometry = LogHeader::decode(&block).ok()?.geometry;
    let mut wal_header = [0; WAL_HEADER_BYTES as usize];
    read(geometry.wal_header(), &mut wal_header);
    let salts = WalSalts::of(&wal_header);
    let mut counts = SlotCounts::default();
    for frame in 1..=geometry.slots(size_bytes) {
        let mut header = [0; FRAME_HEADER_BYTES];
        let end = geometry.slot(frame) + geometry.slot_bytes as u64;
        read(end - FRAME_HEADER_BYTES as u64, &mut header);
        if header == [0; FRAME_HEADER_BYTES] {
            continue;
        }
        let count = match salts.says(&header).filter(|_| geometry.displaces()) {
            None if salts.are_of(&header) => &mut counts.plain,
            None => &mut counts.earlier,
            Some(0) => &mut counts.plain,
            Some(says) if says & LANE != 0 => &mut counts.in_lane,
            Some(_) => &mut counts.in_gap,
        };
        *count += 1;
    }
    Some(counts)
}
