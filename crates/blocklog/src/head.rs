//! What names a log, and the place where its next record goes.

use std::fmt;

use crate::{Epoch, Error, Lsn};

/// Names one log file. It is part of every checksum, so no block of another log is taken for one of
/// this.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Uuid(pub [u8; 16]);

impl Uuid {
    /// A random one (version 4).
    pub fn random() -> Result<Uuid, Error> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes)
            .map_err(|reason| Error::Io { doing: "draw a random UUID", source: reason.into() })?;
        bytes[6] = bytes[6] & 0x0f | 0x40;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        Ok(Uuid(bytes))
    }
}

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, byte) in self.0.iter().enumerate() {
            if matches!(index, 4 | 6 | 8 | 10) {
                f.write_str("-")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

/// Where the next record goes, and what binds it to the record before. Plain data, kept by the
/// caller.
///
/// | head | comes from | what may follow |
/// |---|---|---|
/// | of epoch 0 | `create`, or `empty_head` | a begin |
/// | of an epoch | `begin_epoch`, `append`, `grow`, or [`scan`](crate::Log::scan) | any |
/// | unsure | an append that failed, or whose process died in it | a scan |
///
/// **A head is good only while the fate of every append from it is known.**
///
/// After a failed append, or the death of its process, the log may have the record or not. Take a
/// new head from `scan` before anything else is appended. Appending to the old head could leave two
/// histories, one in each lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    pub epoch: Epoch,
    /// Position in the epoch's lane, in bytes. A multiple of the log's block.
    pub position: u64,
    /// The last record's number; 0 before any. The next record gets this plus one.
    pub lsn: Lsn,
    /// The last record's checksum.
    pub previous: u32,
    /// The length of each lane now, in bytes.
    pub lane_bytes: u64,
}
