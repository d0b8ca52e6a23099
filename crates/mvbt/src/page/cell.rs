//! The bytes of a cell. No byte of a cell ever changes (docs/mvbt-format.md).
//!
//! ```text
//! leaf, integer tree    start 6 │ length │ key │ payload … │ [first overflow page 6]
//! leaf, record tree     start 6 │ length │       record …  │ [first overflow page 6]
//! inner, integer tree   start 6 │ child 6 │ key
//! inner, record tree    start 6 │ child 6 │ length │ record … │ [first overflow page 6]
//! ```

use crate::bytes::{get_u48, push_u48, push_varint, unzigzag, varint, zigzag};
use crate::page::HEADER_BYTES;
use crate::{PageNo, Version};

/// The longest payload: what SQLite's limits allow.
pub const PAYLOAD_BYTES_MAX: u64 = i32::MAX as u64;
pub const START_BYTES: usize = 6;
pub const CHILD_BYTES: usize = 6;
/// What a cell has beside its payload at most, and its places in two directories.
const OVERHEAD_BYTES: usize = START_BYTES + CHILD_BYTES + 5 + 10 + 6 + 4;

/// What the cells of a page look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// A tree of records, or of integer keys.
    pub is_record: bool,
    pub is_inner: bool,
}

/// Payload or record: what of it is in the cell, and where the rest is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Content<'a> {
    pub length: u64,
    pub local: &'a [u8],
    pub overflow: Option<PageNo>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell<'a> {
    pub start: Version,
    /// 0 in a leaf.
    pub child: PageNo,
    /// 0 in a record tree.
    pub key: i64,
    pub content: Content<'a>,
    /// All of the cell.
    pub bytes: &'a [u8],
}

/// So many cells of a record tree fit in a page, at least. An inner page of two cells would
/// be full again after each other split: a tree of some fifty rows got higher than 200 levels.
const RECORDS_MIN: usize = 6;
/// Of those of an integer tree, whose inner pages have no payloads.
const PAYLOADS_MIN: usize = 2;

/// How many bytes of so long a content are in the cell.
pub fn local_bytes(page_bytes: usize, length: u64, is_record: bool) -> usize {
    let room = page_bytes - HEADER_BYTES;
    let share = room / if is_record { RECORDS_MIN } else { PAYLOADS_MIN };
    if length <= (share - OVERHEAD_BYTES) as u64 { length as usize } else { share / 4 }
}

/// The version from which on a cell lives, of its bytes alone. None: they are too few.
pub fn start(cell: &[u8]) -> Option<Version> {
    cell.get(..START_BYTES).map(|bytes| Version(get_u48(bytes, 0)))
}

/// The cell at `at`, if it lies in the page and makes sense.
#[inline]
pub fn parse(page: &[u8], at: usize, shape: Shape) -> Option<Cell<'_>> {
    let mut to = at.checked_add(START_BYTES)?;
    page.get(at..to)?;
    let start = Version(get_u48(page, at));
    let mut child = PageNo(0);
    if shape.is_inner {
        page.get(to..to + CHILD_BYTES)?;
        child = PageNo(get_u48(page, to));
        to += CHILD_BYTES;
        (child.0 > 0).then_some(())?;
    }
    let (key, content);
    if shape.is_inner && !shape.is_record {
        let (raw, after) = varint(page, to)?;
        (key, to) = (unzigzag(raw), after);
        content = Content { length: 0, local: page.get(to..to)?, overflow: None };
    } else {
        (key, content, to) = key_and_content(page, to, shape.is_record)?;
    }
    Some(Cell { start, child, key, content, bytes: &page[at..to] })
}

/// What stands in a cell behind its start, and its child if it has one: length, key and content.
/// And where it ends. Not of an inner page of an integer tree.
#[inline]
pub fn key_and_content(
    page: &[u8],
    at: usize,
    is_record: bool,
) -> Option<(i64, Content<'_>, usize)> {
    let (length, mut to) = varint(page, at)?;
    (length <= PAYLOAD_BYTES_MAX).then_some(())?;
    let mut key = 0;
    if !is_record {
        let (raw, after) = varint(page, to)?;
        (key, to) = (unzigzag(raw), after);
    }
    let local = local_bytes(page.len(), length, is_record);
    let local = page.get(to..to.checked_add(local)?)?;
    to += local.len();
    let mut overflow = None;
    if (local.len() as u64) < length {
        page.get(to..to + 6)?;
        overflow = Some(PageNo(get_u48(page, to)));
        to += 6;
        (overflow != Some(PageNo(0))).then_some(())?;
    }
    Some((key, Content { length, local, overflow }, to))
}

/// The key of a cell of an integer tree that has been parsed once.
#[inline]
pub fn integer_key(page: &[u8], at: usize, is_inner: bool) -> i64 {
    let to = if is_inner {
        at + START_BYTES + CHILD_BYTES
    } else {
        varint(page, at + START_BYTES).map_or(page.len(), |(_, to)| to)
    };
    varint(page, to).map_or(0, |(raw, _)| unzigzag(raw))
}

/// `child` is given for a cell of an inner page, `key` for one of an integer tree.
pub fn encode(
    out: &mut Vec<u8>,
    start: Version,
    child: Option<PageNo>,
    key: Option<i64>,
    content: Content<'_>,
) {
    push_u48(out, start.0);
    if let Some(child) = child {
        push_u48(out, child.0);
    }
    if key.is_none() || child.is_none() {
        push_varint(out, content.length);
    }
    if let Some(key) = key {
        push_varint(out, zigzag(key));
    }
    out.extend_from_slice(content.local);
    if let Some(overflow) = content.overflow {
        push_u48(out, overflow.0);
    }
}

/// The same cell with another start.
pub fn begun_at(start: Version, cell: &[u8]) -> Vec<u8> {
    let mut cell = cell.to_vec();
    crate::bytes::put_u48(&mut cell, 0, start.0);
    cell
}

impl Content<'_> {
    pub const EMPTY: Content<'static> = Content { length: 0, local: &[], overflow: None };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_of_all_shapes_round_trip_and_a_cut_one_is_none() {
        let long = [7; 54];
        for (is_record, is_inner) in [(false, false), (false, true), (true, false), (true, true)] {
            let shape = Shape { is_record, is_inner };
            let long = &long[..if is_record { 18 } else { 54 }];
            for content in [
                Content { length: 3, local: b"abc", overflow: None },
                Content { length: 100_000, local: long, overflow: Some(PageNo(77)) },
            ] {
                let content = if is_inner && !is_record { Content::EMPTY } else { content };
                let child = is_inner.then_some(PageNo(5));
                let key = (!is_record).then_some(-3_000_000);
                let mut cell = Vec::new();
                encode(&mut cell, Version(9), child, key, content);
                let mut page = vec![0; 512];
                page[100..100 + cell.len()].copy_from_slice(&cell);
                let parsed = parse(&page, 100, shape).unwrap();
                let expected = Cell {
                    start: Version(9),
                    child: child.unwrap_or(PageNo(0)),
                    key: key.unwrap_or(0),
                    content,
                    bytes: &cell,
                };
                assert_eq!(parsed, expected);
                if let Some(key) = key {
                    assert_eq!(integer_key(&page, 100, is_inner), key);
                }
                let mut cut = vec![0; 512];
                let at = 512 - cell.len() + 1;
                cut[at..].copy_from_slice(&cell[..cell.len() - 1]);
                assert_eq!(parse(&cut, at, shape), None);
            }
        }
        assert_eq!(parse(&[0; 512], usize::MAX, Shape { is_record: true, is_inner: true }), None);
    }

    #[test]
    fn enough_of_the_largest_cells_fit_in_a_page_of_each_size() {
        for page_bytes in (9..=16).map(|bits| 1 << bits) {
            let room = page_bytes - HEADER_BYTES;
            for (is_record, least) in [(true, RECORDS_MIN), (false, PAYLOADS_MIN)] {
                for length in 0..=room as u64 {
                    let most = local_bytes(page_bytes, length, is_record) + OVERHEAD_BYTES;
                    assert!(least * most <= room, "{page_bytes} {length} {is_record}");
                }
            }
        }
    }
}
