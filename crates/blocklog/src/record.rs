//! A record's header, and when a record is valid.
//!
//! A record is this header, then the payload, then zeros up to a whole block. It is **valid** when
//! all of these hold:
//!
//! - **V1** It begins with the magic number, and what is reserved is zero.
//! - **V2** The header's checksum is that of the log's UUID and the header.
//! - **V3** It stands where it says: this position, in the lane of its epoch. Epoch and LSN are at
//!   least 1.
//! - **V4** The lane is at least as long as it was when the record was written, and the record lies
//!   inside of that.
//! - **V5** Its epoch is the one that is read.
//! - **V6** Its LSN is one more than that of the record before it. The first of an epoch may have
//!   any.
//! - **V7** `previous` is the checksum of the record before it. For the first of an epoch it is
//!   that of UUID and epoch.
//! - **V8** The payload has the payload's checksum.
//!
//! V1 to V3 can be told from one block: such a record is *recognised*. A recognised record that
//! breaks V4, V6 or V7 is damage, since no loss of power makes one. V8 alone tells a torn record
//! from a whole one. Padding is not checked: nothing is in it.

use crate::Uuid;
use crate::bytes::{get_u16, get_u32, get_u64, put};
use crate::layout::{Layout, lane_of};
use crate::mutant::{self, Mutant};

/// "1FLR", read as bytes.
const MAGIC: u32 = u32::from_le_bytes(*b"1FLR");

// The fields that are looked at first stand first. Each is aligned to its size.
const AT_MAGIC: usize = 0;
const AT_KIND: usize = AT_MAGIC + 4;
const AT_FLAGS: usize = AT_KIND + 1;
const AT_RESERVED: usize = AT_FLAGS + 1;
const AT_EPOCH: usize = AT_RESERVED + 2;
const AT_LSN: usize = AT_EPOCH + 8;
const AT_POSITION: usize = AT_LSN + 8;
const AT_PAYLOAD_BYTES: usize = AT_POSITION + 8;
const AT_LANE_CHUNKS: usize = AT_PAYLOAD_BYTES + 4;
const AT_PREVIOUS: usize = AT_LANE_CHUNKS + 4;
const AT_PAYLOAD_CRC: usize = AT_PREVIOUS + 4;
const AT_HEADER_CRC: usize = AT_PAYLOAD_CRC + 4;
pub(crate) const HEADER_BYTES: usize = crate::layout::RECORD_HEADER_BYTES;

const _: () =
    assert!(HEADER_BYTES == AT_HEADER_CRC + 4 && HEADER_BYTES <= crate::layout::BLOCK_BYTES_MIN);
const _: () = assert!(
    AT_EPOCH.is_multiple_of(8) && AT_LSN.is_multiple_of(8) && AT_POSITION.is_multiple_of(8)
);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordHeader {
    pub(crate) kind: u8,
    pub(crate) epoch: u64,
    pub(crate) lsn: u64,
    pub(crate) position: u64,
    pub(crate) payload_bytes: u32,
    /// The lane's length when the record was written, in first chunks. It shows that a file was cut
    /// off later.
    pub(crate) lane_chunks: u32,
    pub(crate) previous: u32,
    pub(crate) payload_crc: u32,
}

/// `previous` of an epoch's first record (V7).
pub(crate) fn first_previous(uuid: Uuid, epoch: u64) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&uuid.0), &epoch.to_le_bytes())
}

impl RecordHeader {
    /// The header's bytes, and the record's checksum. The next record names that checksum as
    /// `previous`.
    pub(crate) fn encode(&self, uuid: Uuid) -> ([u8; HEADER_BYTES], u32) {
        let mut bytes = [0; HEADER_BYTES];
        put(&mut bytes, AT_MAGIC, &MAGIC.to_le_bytes());
        bytes[AT_KIND] = self.kind;
        put(&mut bytes, AT_EPOCH, &self.epoch.to_le_bytes());
        put(&mut bytes, AT_LSN, &self.lsn.to_le_bytes());
        put(&mut bytes, AT_POSITION, &self.position.to_le_bytes());
        put(&mut bytes, AT_PAYLOAD_BYTES, &self.payload_bytes.to_le_bytes());
        put(&mut bytes, AT_LANE_CHUNKS, &self.lane_chunks.to_le_bytes());
        put(&mut bytes, AT_PREVIOUS, &self.previous.to_le_bytes());
        put(&mut bytes, AT_PAYLOAD_CRC, &self.payload_crc.to_le_bytes());
        let crc = header_crc(uuid, &bytes);
        put(&mut bytes, AT_HEADER_CRC, &crc.to_le_bytes());
        (bytes, crc)
    }

    /// The record at this place, if it is recognised (V1 to V3), and its checksum.
    pub(crate) fn recognise(
        block: &[u8],
        uuid: Uuid,
        lane: u64,
        position: u64,
    ) -> Option<(RecordHeader, u32)> {
        if get_u32(block, AT_MAGIC) != MAGIC
            || block[AT_FLAGS] != 0
            || get_u16(block, AT_RESERVED) != 0
        {
            return None;
        }
        let crc = get_u32(block, AT_HEADER_CRC);
        if header_crc(uuid, block) != crc {
            return None;
        }
        let header = RecordHeader {
            kind: block[AT_KIND],
            epoch: get_u64(block, AT_EPOCH),
            lsn: get_u64(block, AT_LSN),
            position: get_u64(block, AT_POSITION),
            payload_bytes: get_u32(block, AT_PAYLOAD_BYTES),
            lane_chunks: get_u32(block, AT_LANE_CHUNKS),
            previous: get_u32(block, AT_PREVIOUS),
            payload_crc: get_u32(block, AT_PAYLOAD_CRC),
        };
        let stands_here = header.position == position && lane_of(header.epoch) == lane;
        (stands_here && header.epoch > 0 && header.lsn > 0).then_some((header, crc))
    }

    /// Bytes that the record takes of its lane.
    pub(crate) fn record_bytes(&self, layout: Layout) -> u64 {
        layout.record_bytes(u64::from(self.payload_bytes))
    }

    /// V4 holds.
    pub(crate) fn fits(&self, layout: Layout, lane_bytes: u64) -> bool {
        let lane_bytes_then = u64::from(self.lane_chunks) * layout.lane_unit_bytes();
        lane_bytes_then <= lane_bytes
            && self
                .position
                .checked_add(self.record_bytes(layout))
                .is_some_and(|end| end <= lane_bytes_then)
    }

    /// V8 holds.
    pub(crate) fn covers(&self, payload: &[u8]) -> bool {
        crc32c::crc32c(payload) == self.payload_crc || mutant::is(Mutant::UncheckedPayload)
    }
}

fn header_crc(uuid: Uuid, header: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&uuid.0), &header[..AT_HEADER_CRC])
}
/// True if the block begins as a record does, valid or not.
pub(crate) fn is_marked(block: &[u8]) -> bool {
    block.get(AT_MAGIC..AT_KIND).is_some_and(|bytes| *bytes == MAGIC.to_le_bytes())
}
