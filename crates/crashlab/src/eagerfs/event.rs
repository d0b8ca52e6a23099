//! What happened to a directory.

use super::image::{Change, Ino};

/// An object: its number and its generation.
pub type Key = (Ino, u64);

/// What happened, in order.
#[derive(Clone, Debug)]
pub enum Event {
    Changed(Change),
    Written { file: Key, offset: u64, bytes: Vec<u8> },
    Synced(Key),
    SyncedAll,
}

/// An event, and how many operations of the log's disk came before it.
#[derive(Clone, Debug)]
pub struct Happened {
    pub event: Event,
    pub log_ops: usize,
}
