//! Block 0: which log this is, and how to read it. It is written once, as the last step of a log's
//! creation, and never again.
//!
//! All of it is in the block's first 512 bytes, one sector, so it is there whole or not at all. The
//! bytes are in `docs/log-format.md`. In every future version the text, the magic number, the
//! version and the checksum keep their places. So an older Oneflush can tell a newer log from a
//! damaged one.

use crate::bytes::{get_u32, put};
use crate::layout::{CHUNK_BYTES, Layout, is_block_size};
use crate::{Error, Uuid};

/// What a user sees who looks into the file.
const TEXT: &[u8] = b"Oneflush log. It may hold commits of the database beside it: open that with \
    Oneflush, or run: oneflush recover DATABASE\n";
/// The same in the log of a directory.
const TEXT_OF_DIRECTORY: &[u8] = b"Oneflush log. It may hold synced contents of the directory \
    beside it: mount that with oneflush mount, or run: oneflush recover --fs DIRECTORY\n";
/// A shorter beginning of the text also says that a file is a log of ours.
const TEXT_MARK_BYTES: usize = 13;

/// Version 2: copies between the pages of a record. Version 3: small chunks first.
pub(crate) const FORMAT_VERSION: u32 = 3;
/// Version 4: the log of a directory. It is laid out as version 3 is.
pub(crate) const FORMAT_VERSION_OF_DIRECTORY: u32 = 4;
/// The page size in the header of a directory's log. It has no meaning.
pub(crate) const PAGE_BYTES_OF_DIRECTORY: u32 = 4096;
/// The last version with chunks of equal size.
pub(crate) const FORMAT_VERSION_OF_EQUAL_CHUNKS: u32 = 2;
const FORMAT_VERSION_OLDEST: u32 = 1;
const FORMAT_VERSION_NEWEST: u32 = FORMAT_VERSION_OF_DIRECTORY;
const MAGIC: [u8; 8] = *b"1FLUSHLG";

pub(crate) const HEADER_BYTES: usize = 512;
const TEXT_BYTES: usize = 256;
const AT_MAGIC: usize = TEXT_BYTES;
const AT_VERSION: usize = AT_MAGIC + 8;
const AT_BLOCK_BYTES: usize = AT_VERSION + 4;
const AT_CHUNK_BYTES: usize = AT_BLOCK_BYTES + 4;
const AT_PAGE_BYTES: usize = AT_CHUNK_BYTES + 4;
const AT_UUID: usize = AT_PAGE_BYTES + 4;
const AT_RESERVED: usize = AT_UUID + 16;
const AT_CRC: usize = HEADER_BYTES - 4;

const _: () = assert!(TEXT.len() < TEXT_BYTES && TEXT_OF_DIRECTORY.len() < TEXT_BYTES);
const _: () = assert!(AT_RESERVED < AT_CRC);
const _: () = assert!(
    HEADER_BYTES == crate::layout::BLOCK_BYTES_MIN,
    "the header is in one sector of every device"
);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileHeader {
    pub(crate) version: u32,
    pub(crate) block_bytes: u32,
    pub(crate) page_bytes: u32,
    pub(crate) uuid: Uuid,
}

impl FileHeader {
    pub(crate) fn layout(&self) -> Layout {
        let block_bytes = u64::from(self.block_bytes);
        if self.version > FORMAT_VERSION_OF_EQUAL_CHUNKS {
            Layout::new(block_bytes)
        } else {
            Layout::of_equal_chunks(block_bytes)
        }
    }

    pub(crate) fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        let is_of_directory = self.version == FORMAT_VERSION_OF_DIRECTORY;
        put(&mut bytes, 0, if is_of_directory { TEXT_OF_DIRECTORY } else { TEXT });
        put(&mut bytes, AT_MAGIC, &MAGIC);
        put(&mut bytes, AT_VERSION, &self.version.to_le_bytes());
        put(&mut bytes, AT_BLOCK_BYTES, &self.block_bytes.to_le_bytes());
        put(&mut bytes, AT_CHUNK_BYTES, &(CHUNK_BYTES as u32).to_le_bytes());
        put(&mut bytes, AT_PAGE_BYTES, &self.page_bytes.to_le_bytes());
        put(&mut bytes, AT_UUID, &self.uuid.0);
        let crc = crc32c::crc32c(&bytes[..AT_CRC]);
        put(&mut bytes, AT_CRC, &crc.to_le_bytes());
        bytes
    }

    /// `bytes`: the first 512 bytes of the file, or more.
    pub(crate) fn decode(bytes: &[u8]) -> Result<FileHeader, Error> {
        let text_matches = bytes[..TEXT_MARK_BYTES] == TEXT[..TEXT_MARK_BYTES];
        if !text_matches && bytes[AT_MAGIC..AT_VERSION] != MAGIC {
            return Err(Error::NotALog);
        }
        // The checksum comes first: a flipped bit in the version must not pass for a newer format.
        if crc32c::crc32c(&bytes[..AT_CRC]) != get_u32(bytes, AT_CRC) {
            return Err(Error::HeaderDamaged);
        }
        let version = get_u32(bytes, AT_VERSION);
        match version {
            FORMAT_VERSION_OLDEST..=FORMAT_VERSION_NEWEST => {}
            newer if newer > FORMAT_VERSION_NEWEST => {
                return Err(Error::NewerFormat { found: newer, known: FORMAT_VERSION_NEWEST });
            }
            _ => return Err(Error::HeaderDamaged),
        }
        let block_bytes = get_u32(bytes, AT_BLOCK_BYTES);
        let page_bytes = get_u32(bytes, AT_PAGE_BYTES);
        let sound = is_block_size(block_bytes as usize)
            && is_page_size(page_bytes)
            && u64::from(get_u32(bytes, AT_CHUNK_BYTES)) == CHUNK_BYTES;
        if !sound {
            return Err(Error::HeaderDamaged);
        }
        let uuid = Uuid(std::array::from_fn(|index| bytes[AT_UUID + index]));
        Ok(FileHeader { version, block_bytes, page_bytes, uuid })
    }
}

/// The page sizes that SQLite allows.
pub(crate) fn is_page_size(bytes: u32) -> bool {
    bytes.is_power_of_two() && (512..=65_536).contains(&bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: FileHeader = FileHeader {
        version: FORMAT_VERSION,
        block_bytes: 4096,
        page_bytes: 1024,
        uuid: Uuid([7; 16]),
    };

    /// These bytes with a right checksum.
    fn sealed(mut bytes: [u8; HEADER_BYTES]) -> [u8; HEADER_BYTES] {
        let crc = crc32c::crc32c(&bytes[..AT_CRC]);
        put(&mut bytes, AT_CRC, &crc.to_le_bytes());
        bytes
    }

    const OF_DIRECTORY: FileHeader = FileHeader {
        version: FORMAT_VERSION_OF_DIRECTORY,
        page_bytes: PAGE_BYTES_OF_DIRECTORY,
        ..HEADER
    };

    #[test]
    fn decodes_what_it_encoded_and_begins_with_a_line_for_people() {
        for (header, end) in [
            (HEADER, "oneflush recover DATABASE"),
            (OF_DIRECTORY, "oneflush mount, or run: oneflush recover --fs DIRECTORY"),
        ] {
            let bytes = header.encode();
            assert_eq!(FileHeader::decode(&bytes).unwrap(), header);
            let text = std::str::from_utf8(&bytes[..TEXT_BYTES]).unwrap();
            let line = text.lines().next().unwrap();
            assert!(line.ends_with(end), "{line}");
        }
    }

    #[test]
    fn every_flipped_bit_is_damage_and_never_another_log() {
        for (header, bit) in
            [HEADER, OF_DIRECTORY].iter().flat_map(|h| (0..HEADER_BYTES * 8).map(move |b| (h, b)))
        {
            let mut bytes = header.encode();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(matches!(FileHeader::decode(&bytes), Err(Error::HeaderDamaged)), "bit {bit}");
        }
    }

    #[test]
    fn a_newer_format_is_named_and_other_files_are_not_ours() {
        let mut bytes = HEADER.encode();
        put(&mut bytes, AT_VERSION, &5u32.to_le_bytes());
        assert!(matches!(
            FileHeader::decode(&sealed(bytes)),
            Err(Error::NewerFormat { found: 5, known: 4 })
        ));
        let mut sqlite = [0; HEADER_BYTES];
        put(&mut sqlite, 0, b"SQLite format 3\0");
        assert!(matches!(FileHeader::decode(&sqlite), Err(Error::NotALog)));
    }

    #[test]
    fn sizes_that_no_log_has_are_damage_in_spite_of_a_right_checksum() {
        for (at, value) in [
            (AT_BLOCK_BYTES, 0u32),
            (AT_BLOCK_BYTES, 256),
            (AT_BLOCK_BYTES, 5000),
            (AT_CHUNK_BYTES, 1),
        ]
        .into_iter()
        .chain([(AT_PAGE_BYTES, 0), (AT_PAGE_BYTES, 131_072), (AT_VERSION, 0)])
        {
            let mut bytes = HEADER.encode();
            put(&mut bytes, at, &value.to_le_bytes());
            assert!(
                matches!(FileHeader::decode(&sealed(bytes)), Err(Error::HeaderDamaged)),
                "{value} at {at}"
            );
        }
    }
}
