//! Right checksums for any bytes (docs/mvbt-format.md).

const SLOTS_AT: usize = 16;
const SLOT_BYTES: usize = 32;
const BLOCK_CHECKSUM_AT: usize = 4092;

/// Of an anchor, or of a commit block.
pub fn of_block(block: &mut [u8]) {
    let sum = crc32c::crc32c(&block[..BLOCK_CHECKSUM_AT]);
    block[BLOCK_CHECKSUM_AT..].copy_from_slice(&sum.to_le_bytes());
}

/// Of both directories, or of an overflow page. Where the bytes make no sense they stay wrong.
pub fn of_page(page: &mut [u8], uuid: &[u8; 16]) {
    let length = u32::from_le_bytes(*page[12..].first_chunk().unwrap()) as usize;
    if length > 0 {
        if let Some(payload) = page.get(36..36_usize.saturating_add(length)) {
            let sum = crc32c::crc32c_append(crc32c::crc32c(uuid), &page[..32]);
            let sum = crc32c::crc32c_append(sum, payload);
            page[32..36].copy_from_slice(&sum.to_le_bytes());
        }
        return;
    }
    for at in [SLOTS_AT, SLOTS_AT + SLOT_BYTES] {
        if let Some(sum) = of_directory(page, at, uuid) {
            page[at + 28..at + 32].copy_from_slice(&sum.to_le_bytes());
        }
    }
}

fn of_directory(page: &[u8], at: usize, uuid: &[u8; 16]) -> Option<u32> {
    let number = |at: usize| usize::from(u16::from_le_bytes(*page[at..].first_chunk().unwrap()));
    let (from, live, dead) = (number(at + 16), number(at + 18), number(at + 20));
    let rows = page.get(from..from + 2 * live + 10 * dead)?;
    let mut sum = crc32c::crc32c(uuid);
    for part in [&page[..SLOTS_AT], &page[at..at + 28], rows] {
        sum = crc32c::crc32c_append(sum, part);
    }
    let (is_record, is_inner) = (page[at + 6] & 4 != 0, page[at + 7] > 0);
    let live_places = rows[..2 * live].chunks(2);
    for row in live_places.chain(rows[2 * live..].chunks(10)) {
        let place = usize::from(u16::from_le_bytes([row[0], row[1]]));
        let end = cell_end(page, place, is_record, is_inner)?;
        sum = crc32c::crc32c_append(sum, page.get(place..end)?);
    }
    Some(sum)
}

fn cell_end(page: &[u8], place: usize, is_record: bool, is_inner: bool) -> Option<usize> {
    let mut to = place + 6 + if is_inner { 6 } else { 0 };
    let mut length = 0;
    if is_record || !is_inner {
        (length, to) = varint(page, to)?;
    }
    if !is_record {
        (_, to) = varint(page, to)?;
    }
    let local = local_bytes(page.len(), length, is_record);
    let chain = if (local as u64) < length { 6 } else { 0 };
    to.checked_add(local)?.checked_add(chain)
}

/// How much of a content is in its cell.
pub fn local_bytes(page_bytes: usize, length: u64, is_record: bool) -> usize {
    let room = page_bytes - 80;
    let share = room / if is_record { 6 } else { 2 };
    if length <= (share - 37) as u64 { length as usize } else { share / 4 }
}

fn varint(bytes: &[u8], mut at: usize) -> Option<(u64, usize)> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = *bytes.get(at)?;
        at += 1;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some((value, at));
        }
    }
    None
}

/// As the format writes numbers of any size.
pub fn push_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}
