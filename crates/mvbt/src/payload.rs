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

/// A part of a payload: from `offset` on, as much as the buffer takes.
pub fn read_part(
    source: &dyn Source,
    content: Content<'_>,
    offset: u64,
    buffer: &mut [u8],
) -> Result<()> {
    let length = buffer.len() as u64;
    if offset.checked_add(length).is_none_or(|end| end > content.length) {
        return Err(Error::Misuse { what: "a part of a payload begins or ends behind its end" });
    }
    let mut copy = |at: u64, bytes: &[u8]| {
        let (from, to) = (at.max(offset), (at + bytes.len() as u64).min(offset + length));
        if from < to {
            let part = &bytes[(from - at) as usize..(to - at) as usize];
            buffer[(from - offset) as usize..(to - offset) as usize].copy_from_slice(part);
        }
    };
    copy(0, content.local);
    let mut at = content.local.len() as u64;
    if offset + length > at {
        each(source, content, |_, payload| {
            copy(at, payload);
            at += payload.len() as u64;
        })?;
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
