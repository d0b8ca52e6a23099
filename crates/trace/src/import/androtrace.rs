//! AndroTrace's `.uio` files: the requests that an Android kernel 3.4 with AndroTrace's patch
//! recorded (Lim, Lee, Won: "AndroTrace", INFLOW'15). The layout is that of `androtrace_define.h`
//! and of the order of writing in `androtrace.c`, github.com/ESOS-Lab/AndroTrace. It is packed and
//! little-endian; bit fields begin at the lowest bit.
//!
//! ```text
//!  0 type      u8    1 request, 4 suspend (one byte of kind follows; its size field is 0)
//!  1 size      u8    bytes behind this head, modulo 256
//!  2 date      u32   year-2000:4 month:4 day:5 hour:5 minute:6 second:6 -:2   Korean time (UTC+9)
//!  6 nsec      u32
//! 10 file_type u8    0 none, 1 database, 2 rollback journal, 3 WAL …
//! 11 bits      u8    issue:1 (else completion)  rwbs:2 (1 write, 2 sync)  ws:1  discard:1  flush:1
//! 12 major u8, minor u8, block_type u8 (0 metadata, 1 journal, 2 data, 3 anonymous, 4 none)
//! 15 sector u32, length u32 (sectors), pname_len u8
//! 24 pname[pname_len], fname_len u8, fname[fname_len]
//!    and with ws: fs_id u8, bits u8, t_id u32, journal_type u8
//! ```
//! There are no process ids, and a file's name is without its folder.

use std::io;

use super::line::{Interner, Line};
use super::source::Source;
use crate::model::{Action, Actor, Content, DeviceId, Event, Flags, SECTOR_BYTES};

const HEAD_BYTES: usize = 10;
const REQUEST_BYTES: usize = 14;
const SYNC_WRITE_BYTES: usize = 7;

/// The longest record: all lengths are of one byte.
const RECORD_BYTES_MAX: usize = HEAD_BYTES + REQUEST_BYTES + 255 + 1 + 255 + SYNC_WRITE_BYTES;

/// Records that must follow each other for a file to be AndroTrace's.
const RECORDS_TO_RECOGNIZE: usize = 4;

/// Four records of the right form at the begin, or fewer up to the end of the file.
pub(super) fn recognizes(begin: &[u8], ended: bool) -> bool {
    let mut rest = begin;
    for n in 0..RECORDS_TO_RECOGNIZE {
        match size(rest) {
            Size::Is(size) => rest = &rest[size..],
            Size::CutOff => return ended && n > 0,
            Size::None => return false,
        }
    }
    true
}

/// The kind of record at the begin of some bytes.
enum Size {
    /// A record of so many bytes, all of them present.
    Is(usize),
    /// The begin of a record, or nothing.
    CutOff,
    /// No record.
    None,
}

fn size(bytes: &[u8]) -> Size {
    let fields = match bytes.first() {
        None => return Size::CutOff,
        Some(1) => REQUEST_BYTES,
        Some(4) => 1,
        Some(_) => return Size::None,
    };
    if bytes.len() < HEAD_BYTES + fields {
        return Size::CutOff;
    }
    if time_ns(bytes).is_none() {
        return Size::None;
    }
    if bytes[0] == 4 {
        return if bytes[1] == 0 && (1..=10).contains(&bytes[10]) {
            Size::Is(HEAD_BYTES + 1)
        } else {
            Size::None
        };
    }
    let (process_bytes, sync_write) = (bytes[23] as usize, bytes[11] & 8 != 0);
    let Some(&file_bytes) = bytes.get(HEAD_BYTES + REQUEST_BYTES + process_bytes) else {
        return Size::CutOff;
    };
    let behind_head = REQUEST_BYTES
        + process_bytes
        + 1
        + file_bytes as usize
        + if sync_write { SYNC_WRITE_BYTES } else { 0 };
    // Only this field says the sum of the others. Linux names of threads have at most 15 bytes.
    if behind_head % 256 != bytes[1] as usize || process_bytes > 16 || bytes[14] > 4 {
        return Size::None;
    }
    if bytes.len() < HEAD_BYTES + behind_head {
        Size::CutOff
    } else {
        Size::Is(HEAD_BYTES + behind_head)
    }
}

/// The next record of `source`; `None` at its end. Behind damage nothing can be found again, so the
/// rest is one record not understood.
pub(super) fn record(
    source: &mut Source,
    names: &mut Interner,
    damaged: &mut Vec<u8>,
) -> io::Result<Option<Line>> {
    let bytes = source.peek(RECORD_BYTES_MAX)?;
    let (line, used) = match size(bytes) {
        _ if bytes.is_empty() => return Ok(None),
        Size::Is(size) if bytes[0] == 1 => {
            (event(&bytes[..size], names).map_or(Line::NotUnderstood, Line::Event), size)
        }
        Size::Is(size) => (Line::Ignored, size),
        Size::CutOff => {
            source.cut_off_in_record();
            return Ok(None);
        }
        Size::None => {
            damaged.clear();
            damaged.extend_from_slice(bytes);
            while !source.peek(1)?.is_empty() {
                let held = source.held().len();
                source.advance(held);
            }
            source.cut_off.get_or_insert("behind a damaged record nothing can be read");
            return Ok(Some(Line::NotUnderstood));
        }
    };
    source.advance(used);
    Ok(Some(line))
}

fn event(record: &[u8], names: &mut Interner) -> Option<Event> {
    let process_end = 24 + record[23] as usize;
    let process = &record[24..process_end];
    let file = &record[process_end + 1..process_end + 1 + record[process_end] as usize];
    let bits = record[11];
    let (write, discard, flush) = (bits >> 1 & 1 != 0, bits & 16 != 0, bits & 32 != 0);
    Some(Event {
        time_ns: time_ns(record)?,
        action: if bits & 1 != 0 { Action::Issue } else { Action::Complete },
        device: DeviceId { major: record[12].into(), minor: record[13].into() },
        sector: u32_at(record, 15).into(),
        bytes: u64::from(u32_at(record, 19)) * SECTOR_BYTES,
        flags: Flags {
            write: write && !discard,
            read: !write && !discard,
            discard,
            sync: bits >> 2 & 1 != 0,
            preflush: flush,
            ..Flags::default()
        },
        actor: Actor {
            thread: 0,
            process: 0,
            name: (!process.is_empty()).then(|| names.id(process)).flatten(),
        },
        content: match record[14] {
            0 => Some(Content::Metadata),
            1 => Some(Content::Journal),
            2 => Some(Content::Data),
            _ => None,
        },
        file: (!file.is_empty()).then(|| names.id(file)).flatten(),
    })
}

fn u32_at(record: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(record[at..at + 4].try_into().expect("four bytes"))
}

/// Nanoseconds since 1970, UTC; `None` if the head's date is no date.
fn time_ns(head: &[u8]) -> Option<u64> {
    let date = u32_at(head, 2);
    let field = |at: u32, bits: u32| u64::from(date >> at & ((1 << bits) - 1));
    let (year, month, day) = (2000 + field(0, 4), field(4, 4), field(8, 5));
    let (hour, minute, second) = (field(13, 5), field(18, 6), field(24, 6));
    let nanosecond = u64::from(u32_at(head, 6));
    let valid = (1..=12).contains(&month)
        && day >= 1
        && hour < 24
        && minute < 60
        && second < 60
        && nanosecond < 1_000_000_000;
    let seconds = ((days(year, month, day) * 24 + hour) * 60 + minute) * 60 + second;
    (valid && date >> 30 == 0).then(|| (seconds - 9 * 3600) * 1_000_000_000 + nanosecond)
}

/// Days from 1970-01-01 to a day of this century.
fn days(year: u64, month: u64, day: u64) -> u64 {
    // Years begin in March here. The leap day is then the last day of a year.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let before_1970_03_01 = 1969 * 365 + 1969 / 4 - 1969 / 100 + 1969 / 400 + 306;
    year * 365 + year / 4 - year / 100 + year / 400 + (month * 153 + 2) / 5 + day
        - 1
        - before_1970_03_01
}

#[cfg(test)]
mod tests;
