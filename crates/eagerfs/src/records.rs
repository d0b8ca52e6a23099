//! Entries as records of a log.

use oneflush_blocklog::{Error, Head, Log, Storage};

/// The kind of a record whose payload is a row of entries.
pub const KIND: u8 = 17;

/// How long a lane is that has room for this record. Behind it a release fits, which is due when
/// the lane cannot be made longer, and then the block that the log keeps.
pub fn lane_bytes<S: Storage>(log: &Log<S>, head: &Head, payload: &[u8]) -> u64 {
    head.position + log.record_bytes(payload.len()) + for_release(log)
}

fn for_release<S: Storage>(log: &Log<S>) -> u64 {
    2 * log.storage().block_bytes() as u64
}

/// Appends a record, durably. The lanes are made longer where that is needed.
pub fn append<S: Storage>(log: &Log<S>, head: &Head, payload: &[u8]) -> Result<Head, Error> {
    let head = log.grow(head, lane_bytes(log, head, payload))?;
    log.append(&head, KIND, payload)
}

/// The same for the first record of the next epoch.
pub fn begin_epoch<S: Storage>(log: &Log<S>, head: &Head, payload: &[u8]) -> Result<Head, Error> {
    let begin = Head { position: 0, ..*head };
    let head = log.grow(head, lane_bytes(log, &begin, payload))?;
    log.begin_epoch(&head, KIND, payload)
}

/// Releases the epoch before the head's.
pub fn release<S: Storage>(log: &Log<S>, head: &Head) -> Result<Head, Error> {
    let head = log.grow(head, head.position + for_release(log))?;
    log.release(&head, oneflush_blocklog::Epoch(head.epoch.0.saturating_sub(1)))
}
