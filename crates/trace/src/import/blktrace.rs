//! blktrace's records, version 7 (`include/uapi/linux/blktrace_api.h`). They are in the byte order
//! of the machine that wrote them.
//!
//! ```text
//!  0 magic    u32  0x65617407: "eat" and the version
//!  4 sequence u32
//!  8 time     u64  nanoseconds since that machine's boot
//! 16 sector   u64
//! 24 bytes    u32
//! 28 action   u32  what happened in the lower half, the request's categories in the upper
//! 32 pid      u32  the thread
//! 36 device   u32  major << 20 | minor
//! 40 cpu      u32
//! 44 error    u16
//! 46 pdu_len  u16  bytes that follow the record
//! ```
//! The category "notify" is no request. Its kind 0 names a process (16 bytes follow), 1 says what
//! time of day it is, 2 is a message.
//!
//! A remap is followed by the device and sector that it was asked of: `u32` from, `u32` to, `u64`
//! sector. Their high byte is always first.
//!
//! blktrace writes one file for each processor, `sda.blktrace.0` and so on. [`open`](super::open)
//! reads them all and merges them by time. Bytes between records that are no record are passed over
//! up to the next magic. They count as one record that is not understood.

use std::io;

use super::line::{Interner, Line};
use super::source::{LINE_BYTES_MAX, Source};
use crate::model::{Action, Actor, DeviceId, Event, Flags, NameId};

const MAGIC: u32 = 0x6561_7407;
const RECORD_BYTES: usize = 48;

// Categories (BLK_TC_*), after the shift by 16.
const READ: u32 = 1 << 0;
const WRITE: u32 = 1 << 1;
const FLUSH: u32 = 1 << 2;
const SYNC: u32 = 1 << 3;
const NOTIFY: u32 = 1 << 10;
const AHEAD: u32 = 1 << 11;
const META: u32 = 1 << 12;
const DISCARD: u32 = 1 << 13;
const FUA: u32 = 1 << 15;

/// Marks records of a cgroup, with its number behind them.
const CGROUP: u32 = 1 << 8;

/// Threads of which the name is kept. The limit is more than a machine has. It keeps a damaged
/// trace from filling the memory.
const PROCESSES_MAX: usize = 1 << 20;

/// The names of threads, from notify records of all processors.
#[derive(Debug, Default)]
pub(super) struct Processes {
    names: std::collections::HashMap<u32, NameId>,
}

impl Processes {
    pub fn name(&self, thread: u32) -> Option<NameId> {
        self.names.get(&thread).copied()
    }

    fn set(&mut self, thread: u32, name: NameId) {
        if self.names.len() < PROCESSES_MAX || self.names.contains_key(&thread) {
            self.names.insert(thread, name);
        }
    }
}

pub(super) fn recognizes(begin: &[u8]) -> bool {
    big_endian(begin).is_some()
}

/// The byte order by the magic. `None` without a magic.
fn big_endian(bytes: &[u8]) -> Option<bool> {
    let magic: [u8; 4] = bytes.get(..4)?.try_into().ok()?;
    [false, true].into_iter().find(|big| u32_at(&magic, 0, *big) == MAGIC)
}

/// The next record of `source`; `None` at its end. Names of threads go to `processes`, and events
/// have none.
pub(super) fn record(
    source: &mut Source,
    names: &mut Interner,
    processes: &mut Processes,
    damaged: &mut Vec<u8>,
) -> io::Result<Option<Line>> {
    let head = source.peek(RECORD_BYTES)?;
    if head.is_empty() {
        return Ok(None);
    }
    if head.len() < 4 {
        source.cut_off_in_record();
        return Ok(None);
    }
    let Some(big) = big_endian(head) else {
        damaged.clear();
        damaged.extend_from_slice(head);
        pass_over(source)?;
        return Ok(Some(Line::NotUnderstood));
    };
    let pdu_bytes = if head.len() == RECORD_BYTES { u16_at(head, 46, big) as usize } else { 0 };
    let size = RECORD_BYTES + pdu_bytes;
    let record = source.peek(size)?;
    if record.len() < size {
        source.cut_off_in_record();
        return Ok(None);
    }
    let line = line(record, big, names, processes);
    if line == Line::NotUnderstood {
        damaged.clear();
        damaged.extend_from_slice(&record[..RECORD_BYTES]);
    }
    source.advance(size);
    Ok(Some(line))
}

/// Passes over the bytes up to the next magic, or to the end.
fn pass_over(source: &mut Source) -> io::Result<()> {
    source.advance(1);
    loop {
        let bytes = source.peek(LINE_BYTES_MAX)?;
        if bytes.len() < 4 {
            let rest = bytes.len();
            source.advance(rest);
            return Ok(());
        }
        match bytes.windows(4).position(|window| big_endian(window).is_some()) {
            Some(at) => {
                source.advance(at);
                return Ok(());
            }
            None => {
                let all_but_a_begin = bytes.len() - 3;
                source.advance(all_but_a_begin);
            }
        }
    }
}

fn line(record: &[u8], big: bool, names: &mut Interner, processes: &mut Processes) -> Line {
    let action = u32_at(record, 28, big);
    let (what, category) = (action & 0xffff & !CGROUP, action >> 16);
    let thread = u32_at(record, 32, big);
    if category & NOTIFY != 0 {
        if what == 0 {
            let comm = record[RECORD_BYTES..].split(|b| *b == 0).next().unwrap_or_default();
            if let Some(name) = names.id(comm) {
                processes.set(thread, name);
            }
        }
        return Line::Nothing;
    }
    let action = match what {
        1 => Action::Queue,
        7 => Action::Issue,
        8 => Action::Complete,
        12 => Action::Insert,
        15 if record.len() >= RECORD_BYTES + 16 => Action::Remap {
            from: device_number(u32_at(record, RECORD_BYTES, true)),
            from_sector: u64_at(record, RECORD_BYTES + 8, true),
        },
        2..=6 | 9..=11 | 13..=17 => return Line::Ignored,
        _ => return Line::NotUnderstood,
    };
    let device = match action {
        Action::Remap { .. } => u32_at(record, RECORD_BYTES + 4, true),
        _ => u32_at(record, 36, big),
    };
    let bytes = u64::from(u32_at(record, 24, big));
    let sector = u64_at(record, 16, big);
    // A write without bytes is the end of a write that asked for flushes.
    let has_place = bytes > 0 || category & WRITE != 0 && sector != u64::MAX;
    Line::Event(Event {
        time_ns: u64_at(record, 8, big),
        action,
        device: device_number(device),
        sector: if has_place { sector } else { 0 },
        bytes,
        flags: Flags {
            write: category & WRITE != 0 && category & DISCARD == 0,
            read: category & READ != 0,
            discard: category & DISCARD != 0,
            sync: category & SYNC != 0,
            preflush: category & FLUSH != 0,
            fua: category & FUA != 0,
            meta: category & META != 0,
            ahead: category & READ != 0 && category & AHEAD != 0,
        },
        actor: Actor { thread, process: 0, name: None },
        content: None,
        file: None,
    })
}

fn device_number(device: u32) -> DeviceId {
    DeviceId { major: device >> 20, minor: device & 0xf_ffff }
}

fn array_at<const N: usize>(record: &[u8], at: usize) -> [u8; N] {
    record[at..at + N].try_into().expect("a slice of N bytes")
}

fn u16_at(record: &[u8], at: usize, big: bool) -> u16 {
    let bytes = array_at(record, at);
    if big { u16::from_be_bytes(bytes) } else { u16::from_le_bytes(bytes) }
}

fn u32_at(record: &[u8], at: usize, big: bool) -> u32 {
    let bytes = array_at(record, at);
    if big { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
}

fn u64_at(record: &[u8], at: usize, big: bool) -> u64 {
    let bytes = array_at(record, at);
    if big { u64::from_be_bytes(bytes) } else { u64::from_le_bytes(bytes) }
}

#[cfg(test)]
mod tests;
