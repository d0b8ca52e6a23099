//! The mark in a lower that keeps the order of changes: which log, and how much of it the lower has
//! seen (T9, R8).

use oneflush_blocklog::Uuid;

use crate::numbers::Seq;

/// The first eight bytes of the log's UUID, and the number of an operation, its largest digit
/// first. So marks of one log compare as their numbers.
pub type Mark = [u8; 16];

/// The lower has seen everything up to this operation of the log.
pub fn mark_of(log: Uuid, seq: Seq) -> Mark {
    let mut mark = [0; 16];
    mark[..8].copy_from_slice(&log.0[..8]);
    mark[8..].copy_from_slice(&seq.0.to_be_bytes());
    mark
}

/// True if a mark is of this log, and says so of this operation.
pub fn reaches(mark: &Mark, log: Uuid, seq: Seq) -> bool {
    mark[..8] == log.0[..8] && *mark >= mark_of(log, seq)
}
