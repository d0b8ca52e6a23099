//! Making a page of its base and a delta, whatever the delta's bytes are.

use crate::Error;
use crate::varint;

/// `page` holds the base, and then the page. On an error it is unchanged.
pub fn apply(delta: &[u8], page: &mut [u8]) -> Result<(), Error> {
    let mut copies = false;
    for operation in Operations::new(delta, page.len()) {
        copies |= matches!(operation?, Operation::Copy { .. });
    }
    // A copy reads the base, and an earlier operation may have written there.
    let base = if copies { page.to_vec() } else { Vec::new() };
    for operation in Operations::new(delta, page.len()) {
        match operation? {
            Operation::Bytes { at, bytes } => page[at..at + bytes.len()].copy_from_slice(bytes),
            Operation::Copy { at, from, length } => page[at..at + length].copy_from_slice(&base[from..from + length]),
        }
    }
    Ok(())
}

enum Operation<'a> {
    Bytes { at: usize, bytes: &'a [u8] },
    Copy { at: usize, from: usize, length: usize },
}

/// The operations of a delta; all that they name is inside of a page of `page_bytes`.
struct Operations<'a> {
    rest: &'a [u8],
    at: usize,
    page_bytes: usize,
}

impl<'a> Operations<'a> {
    fn new(delta: &'a [u8], page_bytes: usize) -> Operations<'a> {
        Operations { rest: delta, at: 0, page_bytes }
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
        let from = at.checked_add_signed(shift as isize).ok_or(OUTSIDE)?;
        from.checked_add(length).filter(|end| *end <= self.page_bytes).ok_or(OUTSIDE)?;
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
