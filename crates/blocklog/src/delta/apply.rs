//! Makes a page of its base and a delta. Any bytes may be in the delta.

use super::ROW_PAGES_MAX;
use crate::Error;
use crate::varint;

/// `page` holds the base before the call, and the page after it. On an error it is unchanged.
pub fn apply(delta: &[u8], page: &mut [u8]) -> Result<(), Error> {
    let mut copies = false;
    for operation in Operations::new(delta, page.len(), 0, page.len()) {
        copies |= matches!(operation?, Operation::Copy { .. });
    }
    // A copy reads the base, which an earlier operation may have overwritten in the page.
    let base = if copies { page.to_vec() } else { Vec::new() };
    for operation in Operations::new(delta, page.len(), 0, page.len()) {
        operation?.apply(&base, page);
    }
    Ok(())
}

/// Makes `page` of page `own` of a row: the bases of a record's pages, one behind the other. The
/// delta may copy from all of the row. On an error `page` is unchanged.
pub fn apply_in_row(delta: &[u8], row: &[u8], own: usize, page: &mut [u8]) -> Result<(), Error> {
    let own_at = own * page.len();
    let operations = || Operations::new(delta, page.len(), own_at, row.len());
    let base = row
        .get(own_at..own_at + page.len())
        .ok_or(Error::BadDelta { what: "its page is not in the row" })?;
    operations().try_for_each(|operation| operation.map(drop))?;
    let operations = operations();
    page.copy_from_slice(base);
    for operation in operations {
        operation?.apply(row, page);
    }
    Ok(())
}

/// The pages that a delta copies from, a bit each. A row has `pages` pages, at most 64.
pub fn sources(delta: &[u8], page_bytes: usize, own: usize, pages: usize) -> Result<u64, Error> {
    if pages > ROW_PAGES_MAX || own >= pages {
        return Err(Error::BadDelta {
            what: "its record has too many pages for copies between them",
        });
    }
    let mut sources = 0;
    for operation in Operations::new(delta, page_bytes, own * page_bytes, pages * page_bytes) {
        if let Operation::Copy { from, length, .. } = operation? {
            sources |= pages_of(from, length, page_bytes);
        }
    }
    Ok(sources)
}

/// The pages of a row that a stretch of it touches, a bit each.
pub(super) fn pages_of(from: usize, length: usize, page_bytes: usize) -> u64 {
    (from / page_bytes..=(from + length - 1) / page_bytes).fold(0, |pages, page| pages | 1 << page)
}

enum Operation<'a> {
    Bytes {
        at: usize,
        bytes: &'a [u8],
    },
    /// `from` is a place in the row.
    Copy {
        at: usize,
        from: usize,
        length: usize,
    },
}

impl Operation<'_> {
    fn apply(&self, row: &[u8], page: &mut [u8]) {
        match *self {
            Operation::Bytes { at, bytes } => page[at..at + bytes.len()].copy_from_slice(bytes),
            Operation::Copy { at, from, length } => {
                page[at..at + length].copy_from_slice(&row[from..from + length])
            }
        }
    }
}

/// The operations of a delta. Everything that they name is inside the page of `page_bytes`, or
/// inside its row.
struct Operations<'a> {
    rest: &'a [u8],
    at: usize,
    page_bytes: usize,
    own_at: usize,
    row_bytes: usize,
}

impl<'a> Operations<'a> {
    fn new(delta: &'a [u8], page_bytes: usize, own_at: usize, row_bytes: usize) -> Operations<'a> {
        Operations { rest: delta, at: 0, page_bytes, own_at, row_bytes }
    }

    fn take(&mut self) -> Result<Operation<'a>, &'static str> {
        const CUT_OFF: &str = "it ends in the middle of an operation";
        const OUTSIDE: &str = "it reaches beyond its page";
        let skip = varint::take(&mut self.rest).ok_or(CUT_OFF)?;
        let length_bytes = varint::take(&mut self.rest).ok_or(CUT_OFF)?;
        let length = length_bytes as usize;
        let at = self.at.checked_add((skip >> 1) as usize).ok_or(OUTSIDE)?;
        let end = at.checked_add(length).filter(|end| *end <= self.page_bytes).ok_or(OUTSIDE)?;
        if length == 0 {
            return Err("an operation is empty");
        }
        self.at = end;
        if skip & 1 == 0 {
            let bytes = varint::take_bytes(&mut self.rest, length_bytes).ok_or(CUT_OFF)?;
            return Ok(Operation::Bytes { at, bytes });
        }
        let zigzag = varint::take(&mut self.rest).ok_or(CUT_OFF)?;
        let shift = (zigzag >> 1) as i32 ^ -((zigzag & 1) as i32);
        let from = (self.own_at + at).checked_add_signed(shift as isize).ok_or(OUTSIDE)?;
        from.checked_add(length).filter(|end| *end <= self.row_bytes).ok_or(OUTSIDE)?;
        Ok(Operation::Copy { at, from, length })
    }
}

impl<'a> Iterator for Operations<'a> {
    type Item = Result<Operation<'a>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let operation = self.take();
        if operation.is_err() {
            self.rest = &[];
        }
        Some(operation.map_err(|what| Error::BadDelta { what }))
    }
}
