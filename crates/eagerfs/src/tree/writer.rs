//! Where the next record goes, and how far the log has come.

use oneflush_blocklog::{Epoch, Head};

use crate::entry::Seq;
use crate::pack::Bases;

/// Where the log is.
#[derive(Debug)]
pub(super) struct Writer {
    pub head: Head,
    /// The epoch before, while it is not released.
    pub previous: Option<Epoch>,
    /// Of the head's epoch.
    pub bases: Bases,
    /// The last record that is durable, or had nothing in it, as they were taken.
    pub durable: u64,
    /// The number of the last bytes that the log has.
    pub bytes: Seq,
    /// The same when the head's epoch began.
    pub bytes_of_previous: Seq,
}

impl Writer {
    pub fn new(head: Head) -> Writer {
        Writer {
            head,
            previous: None,
            bases: Bases::default(),
            durable: 0,
            bytes: Seq(0),
            bytes_of_previous: Seq(0),
        }
    }

    pub fn oldest_live(&self) -> Epoch {
        self.previous.unwrap_or(self.head.epoch)
    }
}
