//! A page of a long payload: fresh, written once (I7).

use oneflush_blocklog::Uuid;

use crate::bytes::{get_u32, get_u64, put};
use crate::{Error, PageNo, Result, TreeId, Version};

const CHECKSUM_AT: usize = 32;
const PAYLOAD_AT: usize = 36;

/// How much of a payload one page holds.
pub fn payload_bytes(page_bytes: usize) -> usize {
    page_bytes - PAYLOAD_AT
}

pub struct OverflowPage<'a> {
    pub version: Version,
    pub next: Option<PageNo>,
    pub payload: &'a [u8],
    pub checksum: u32,
}

/// The page, and its checksum.
pub fn encode(
    page_bytes: usize,
    no: PageNo,
    tree: TreeId,
    uuid: Uuid,
    content: &OverflowPage<'_>,
) -> (Box<[u8]>, u32) {
    let mut page = vec![0; page_bytes].into_boxed_slice();
    put(&mut page, 0, &no.0.to_le_bytes());
    put(&mut page, 8, &tree.0.to_le_bytes());
    put(&mut page, 12, &(content.payload.len() as u32).to_le_bytes());
    put(&mut page, 16, &content.version.0.to_le_bytes());
    put(&mut page, 24, &content.next.map_or(0, |next| next.0).to_le_bytes());
    put(&mut page, PAYLOAD_AT, content.payload);
    let checksum = checksum(&page, content.payload.len(), uuid);
    put(&mut page, CHECKSUM_AT, &checksum.to_le_bytes());
    (page, checksum)
}

pub fn decode(page: &[u8], no: PageNo, uuid: Uuid) -> Result<OverflowPage<'_>> {
    let damaged = |what| Error::Damaged { page: no, what };
    if get_u64(page, 0) != no.0 {
        return Err(damaged("it has another page's number"));
    }
    let length = get_u32(page, 12) as usize;
    if length == 0 || length > payload_bytes(page.len()) {
        return Err(damaged("its payload has an impossible length"));
    }
    let found = get_u32(page, CHECKSUM_AT);
    if checksum(page, length, uuid) != found {
        return Err(damaged("it is no overflow page with a right checksum"));
    }
    let next = get_u64(page, 24);
    Ok(OverflowPage {
        version: Version(get_u64(page, 16)),
        next: (next > 0).then_some(PageNo(next)),
        payload: &page[PAYLOAD_AT..PAYLOAD_AT + length],
        checksum: found,
    })
}

fn checksum(page: &[u8], length: usize, uuid: Uuid) -> u32 {
    let sum = crc32c::crc32c_append(crc32c::crc32c(&uuid.0), &page[..CHECKSUM_AT]);
    crc32c::crc32c_append(sum, &page[PAYLOAD_AT..PAYLOAD_AT + length])
}
