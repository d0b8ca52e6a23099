//! Long payloads: a part in the cell, the rest in a chain of overflow pages.

use crate::page::cell::Content;
use crate::search::Source;
use crate::{Error, PageNo, Result};

/// No more memory is asked for at once than this, whatever a length claims.
const CAPACITY_BYTES_MAX: u64 = 1 << 20;

/// All of a payload.
pub fn read(source: &dyn Source, content: Content<'_>) -> Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(content.length.min(CAPACITY_BYTES_MAX) as usize);
    bytes.extend_from_slice(content.local);
    each(source, content, |_, payload| bytes.extend_from_slice(payload))?;
    Ok(bytes)
}

/// The overflow pages of a payload that were come by, so that no part has to begin at the first.
#[derive(Debug, Default)]
pub struct Walk {
    /// Each page, and at which byte of the payload it begins.
    pages: Vec<(u64, PageNo)>,
    /// Where the last one of them ends, and the page after it.
    end: u64,
    after: Option<PageNo>,
    /// The one that was read last: which it is, and its bytes.
    held: Option<(usize, Vec<u8>)>,
    /// A chain that is a ring comes back to this page (Brent).
    remembered: Option<PageNo>,
}

impl Walk {
    /// What follows is another payload.
    pub fn clear(&mut self) {
        self.pages.clear();
        self.held = None;
        self.remembered = None;
    }

    /// The page that has this byte of the payload: where it begins, and its bytes.
    fn page_with(
        &mut self,
        source: &dyn Source,
        content: Content<'_>,
        at: u64,
    ) -> Result<(u64, &[u8])> {
        if self.pages.is_empty() {
            (self.end, self.after) = (content.local.len() as u64, content.overflow);
        }
        while self.end <= at {
            self.go_on(source, content)?;
        }
        let index = self.pages.partition_point(|&(begin, _)| begin <= at) - 1;
        let (begin, no) = self.pages[index];
        if self.held.as_ref().is_none_or(|&(held, _)| held != index) {
            self.held = Some((index, source.overflow(no)?.0));
        }
        let (_, bytes) = self.held.as_ref().expect("it was read");
        Ok((begin, bytes))
    }

    fn go_on(&mut self, source: &dyn Source, content: Content<'_>) -> Result<()> {
        let Some(no) = self.after else {
            let page = content.overflow.unwrap_or(PageNo(0));
            return Err(Error::Damaged { page, what: "a long payload ends too early" });
        };
        if self.remembered == Some(no) {
            return Err(Error::ReachedTwice { page: no });
        }
        let (bytes, after) = source.overflow(no)?;
        if self.end + bytes.len() as u64 > content.length {
            return Err(Error::Damaged { page: no, what: "a long payload ends too late" });
        }
        let index = self.pages.len();
        if (index + 1).is_power_of_two() {
            self.remembered = Some(no);
        }
        self.pages.push((self.end, no));
        self.end += bytes.len() as u64;
        self.after = after;
        self.held = Some((index, bytes));
        Ok(())
    }
}

/// A part of a payload: from `offset` on, as much as the buffer takes. `walk`: of this payload.
pub fn read_part(
    source: &dyn Source,
    content: Content<'_>,
    offset: u64,
    buffer: &mut [u8],
    walk: &mut Walk,
) -> Result<()> {
    let length = buffer.len() as u64;
    if offset.checked_add(length).is_none_or(|end| end > content.length) {
        return Err(Error::Misuse { what: "a part of a payload begins or ends behind its end" });
    }
    let mut done = 0;
    while done < buffer.len() {
        let at = offset + done as u64;
        let (begin, bytes) = match content.local.get(at as usize..) {
            Some(local) if !local.is_empty() => (at, local),
            _ => walk.page_with(source, content, at)?,
        };
        let bytes = &bytes[(at - begin) as usize..];
        let count = bytes.len().min(buffer.len() - done);
        buffer[done..done + count].copy_from_slice(&bytes[..count]);
        done += count;
    }
    Ok(())
}

/// The overflow pages of a payload, in order, with what each holds.
pub fn each(
    source: &dyn Source,
    content: Content<'_>,
    mut call: impl FnMut(PageNo, &[u8]),
) -> Result<()> {
    each_until(source, content, |no, payload| {
        call(no, payload);
        true
    })
}

/// The same, as long as the call answers true.
pub fn each_until(
    source: &dyn Source,
    content: Content<'_>,
    mut call: impl FnMut(PageNo, &[u8]) -> bool,
) -> Result<()> {
    let mut left = content.length - content.local.len() as u64;
    let mut next = content.overflow;
    // A chain that is a ring comes back to a page that is remembered, for ever longer (Brent).
    let (mut remembered, mut steps, mut limit) = (None, 0_u64, 1);
    while left > 0 {
        let Some(no) = next else {
            let page = content.overflow.unwrap_or(PageNo(0));
            return Err(Error::Damaged { page, what: "a long payload ends too early" });
        };
        if remembered == Some(no) {
            return Err(Error::ReachedTwice { page: no });
        }
        steps += 1;
        if steps == limit {
            (remembered, limit) = (Some(no), 2 * limit);
        }
        let (payload, after) = source.overflow(no)?;
        if payload.len() as u64 > left {
            return Err(Error::Damaged { page: no, what: "a long payload ends too late" });
        }
        if !call(no, &payload) {
            return Ok(());
        }
        left -= payload.len() as u64;
        next = after;
    }
    Ok(())
}
