//! Block 0 of the log: which log this is, and how it is laid out. It is written once, as the last
//! step of the log's creation, and never again.
//!
//! | offset | bytes | what |
//! |---|---|---|
//! | 0 | 256 | a line for people, then zeros |
//! | 256 | 8 | `1FLUSHWD` |
//! | 264 | 4 | version of the format |
//! | 268 | 4 | bytes of a block |
//! | 272 | 4 | bytes of a page |
//! | 276 | 4 | layout: 0 `embed`, 1 `pad512`, 2 `pad4k`, 3 `pad8k` |
//! | 280 | 16 | UUID |
//! | 508 | 4 | CRC32C of the 508 bytes before |
//!
//! Numbers are little-endian. All of it is in one sector, so it is there whole or not at all. Text,
//! magic, version and checksum keep their places in every future version.

use oneflush_blocklog::group::page_crc;
use oneflush_blocklog::{Error, Uuid};

use super::slots::Geometry;
use crate::config::Layout;

/// What a user sees who looks into the file.
const TEXT: &[u8] = b"Oneflush WAL. It may hold commits of the database beside it: open that with \
    Oneflush, or run: oneflush recover DATABASE\n";
/// A shorter beginning of the text also says that a file is a log of ours.
const TEXT_MARK_BYTES: usize = 12;
const MAGIC: [u8; 8] = *b"1FLUSHWD";
const FORMAT_VERSION: u32 = 1;

pub const HEADER_BYTES: usize = 512;
const AT_MAGIC: usize = 256;
const AT_VERSION: usize = AT_MAGIC + 8;
const AT_BLOCK_BYTES: usize = AT_VERSION + 4;
const AT_PAGE_BYTES: usize = AT_BLOCK_BYTES + 4;
const AT_LAYOUT: usize = AT_PAGE_BYTES + 4;
const AT_UUID: usize = AT_LAYOUT + 4;
const AT_CRC: usize = HEADER_BYTES - 4;

const _: () = assert!(TEXT.len() < AT_MAGIC && AT_UUID + 16 < AT_CRC);

/// What block 0 says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogHeader {
    pub geometry: Geometry,
    pub uuid: Uuid,
}

impl LogHeader {
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let Geometry { layout, page_bytes, block_bytes, .. } = self.geometry;
        let mut bytes = [0; HEADER_BYTES];
        bytes[..TEXT.len()].copy_from_slice(TEXT);
        bytes[AT_MAGIC..AT_VERSION].copy_from_slice(&MAGIC);
        let layout = Layout::ALL.iter().position(|&known| known == layout).unwrap_or_default();
        for (at, number) in [
            (AT_VERSION, FORMAT_VERSION),
            (AT_BLOCK_BYTES, block_bytes as u32),
            (AT_PAGE_BYTES, page_bytes as u32),
            (AT_LAYOUT, layout as u32),
        ] {
            bytes[at..at + 4].copy_from_slice(&number.to_le_bytes());
        }
        bytes[AT_UUID..AT_UUID + 16].copy_from_slice(&self.uuid.0);
        let crc = page_crc(&bytes[..AT_CRC]);
        bytes[AT_CRC..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// `bytes`: the first 512 bytes of the file, or more.
    pub fn decode(bytes: &[u8]) -> Result<LogHeader, Error> {
        let number = |at: usize| {
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        if bytes[..TEXT_MARK_BYTES] != TEXT[..TEXT_MARK_BYTES]
            && bytes[AT_MAGIC..AT_VERSION] != MAGIC
        {
            let is_zero = bytes[..HEADER_BYTES].iter().all(|&byte| byte == 0);
            return Err(if is_zero { Error::Unfinished } else { Error::NotALog });
        }
        // The checksum comes first: a flipped bit in the version must not pass for a newer format.
        if page_crc(&bytes[..AT_CRC]) != number(AT_CRC) {
            return Err(Error::HeaderDamaged);
        }
        match number(AT_VERSION) {
            FORMAT_VERSION => {}
            newer if newer > FORMAT_VERSION => {
                return Err(Error::NewerFormat { found: newer, known: FORMAT_VERSION });
            }
            _ => return Err(Error::HeaderDamaged),
        }
        let (block_bytes, page_bytes) = (number(AT_BLOCK_BYTES), number(AT_PAGE_BYTES));
        let layout = Layout::ALL.get(number(AT_LAYOUT) as usize);
        let is_sound = block_bytes.is_power_of_two()
            && (4096..=65_536).contains(&block_bytes)
            && page_bytes.is_power_of_two()
            && (512..=65_536).contains(&page_bytes);
        let Some(&layout) = layout.filter(|_| is_sound) else { return Err(Error::HeaderDamaged) };
        let mut uuid = [0; 16];
        uuid.copy_from_slice(&bytes[AT_UUID..AT_UUID + 16]);
        let geometry = Geometry::new(layout, page_bytes as usize, block_bytes as usize);
        Ok(LogHeader { geometry, uuid: Uuid(uuid) })
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    fn header() -> LogHeader {
        LogHeader { geometry: Geometry::new(Layout::Pad8k, 1024, 4096), uuid: Uuid([7; 16]) }
    }

    fn sealed(mut bytes: [u8; HEADER_BYTES]) -> [u8; HEADER_BYTES] {
        let crc = page_crc(&bytes[..AT_CRC]);
        bytes[AT_CRC..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    #[test]
    fn decodes_what_it_encoded_and_begins_with_a_line_for_people() {
        for layout in Layout::ALL {
            let geometry = Geometry::new(layout, 65_536, 4096);
            let header = LogHeader { geometry, ..header() };
            assert_eq!(LogHeader::decode(&header.encode()).unwrap(), header);
        }
        let bytes = header().encode();
        let line = std::str::from_utf8(&bytes[..TEXT.len()]).unwrap().trim_end();
        assert!(line.ends_with("oneflush recover DATABASE"), "{line}");
    }

    #[test]
    fn every_flipped_bit_is_damage_and_never_another_log() {
        for bit in 0..HEADER_BYTES * 8 {
            let mut bytes = header().encode();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(matches!(LogHeader::decode(&bytes), Err(Error::HeaderDamaged)), "bit {bit}");
        }
    }

    #[test]
    fn a_newer_format_is_named_and_other_files_are_not_ours() {
        let mut bytes = header().encode();
        bytes[AT_VERSION] = 2;
        assert!(matches!(
            LogHeader::decode(&sealed(bytes)),
            Err(Error::NewerFormat { found: 2, known: 1 })
        ));
        assert!(matches!(LogHeader::decode(&[0; HEADER_BYTES]), Err(Error::Unfinished)));
        assert!(matches!(LogHeader::decode(&[9; HEADER_BYTES]), Err(Error::NotALog)));
        for (at, value) in [(AT_BLOCK_BYTES, 5), (AT_PAGE_BYTES, 5), (AT_LAYOUT, 4)] {
            let mut bytes = header().encode();
            bytes[at] = value;
            let damaged = LogHeader::decode(&sealed(bytes));
            assert!(matches!(damaged, Err(Error::HeaderDamaged)), "{at}");
        }
    }
}
