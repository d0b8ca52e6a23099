//! blkparse's text in its default form: `%D %2c %8s %5T.%9t %5p %2a %3d` and then, by the action
//! (blkparse(1), `blkparse_fmt.c`):
//!
//! ```text
//! 8,0    3       11     0.009507758   697  Q  WS 223490 + 8 [kjournald]       (1)
//! 8,0    3       12     0.009507758   697  Q FWS [kjournald]                  no data: a flush
//! 8,0    1        3     0.009561214     0  C  WS 223490 + 8 [0]               [error] (2)
//! 8,0    3        1     0.009538213   697  D   N 36 (12 00 00 00 24 00) [sd]  passed through (3)
//! 8,0    3       10     0.009506713   697  A  WS 223490 + 8 <- (8,1) 223427
//! (1) also G, I, D; with `-t` "(  12345)" before the name
//! (2) a flush: `C FWS 0 [0]`
//! (3) bytes and command, no sector
//! ```
//!
//! Q, I, D, C and A are read. G, M, F, P, U, S, X, B and m say nothing more here. Sums stand behind
//! the last event ("CPU0 (sda):").

use super::line::{Interner, Line};
use super::rwbs;
use super::text::{self, Cursor};
use crate::model::{Action, Actor, DeviceId, Event, Flags, NameId, SECTOR_BYTES};

/// blkparse's letters. Outer `None`: no letter of blkparse's. Inner `None`: a letter that means
/// nothing here.
pub(super) fn action(letters: &[u8]) -> Option<Option<Action>> {
    Some(match letters {
        b"Q" => Some(Action::Queue),
        b"I" => Some(Action::Insert),
        b"D" => Some(Action::Issue),
        b"C" => Some(Action::Complete),
        // Its own numbers come with the line.
        b"A" => Some(Action::Remap { from: DeviceId { major: 0, minor: 0 }, from_sector: 0 }),
        b"G" | b"M" | b"F" | b"P" | b"U" | b"UT" | b"S" | b"X" | b"B" | b"R" | b"m" => None,
        _ => return None,
    })
}

struct Head<'a> {
    device: DeviceId,
    time_ns: u64,
    thread: u32,
    action: Option<Action>,
    rwbs: &'a [u8],
}

pub(super) fn line(line: &[u8], names: &mut Interner) -> Line {
    let Some((head, body)) = head(line) else {
        return if is_sum(line) { Line::Nothing } else { Line::NotUnderstood };
    };
    let Some(action) = head.action else { return Line::Ignored };
    event(&head, action, body, names).map_or(Line::NotUnderstood, Line::Event)
}

pub(super) fn recognizes(line: &[u8]) -> bool {
    head(line).is_some()
}

fn head(line: &[u8]) -> Option<(Head<'_>, &[u8])> {
    let mut cursor = Cursor::new(line);
    let device = cursor.spaces().device()?;
    cursor.eat(b" ")?;
    cursor.spaces().number()?;
    cursor.eat(b" ")?;
    cursor.spaces().number()?;
    cursor.eat(b" ")?;
    let time_ns = cursor.spaces().seconds()?;
    cursor.eat(b" ")?;
    let thread = cursor.spaces().number_u32()?;
    cursor.eat(b" ")?;
    let action = action(cursor.spaces().word())?;
    let rwbs = cursor.spaces().word();
    cursor.spaces();
    Some((Head { device, time_ns, thread, action, rwbs }, cursor.rest))
}

fn event(head: &Head, action: Action, body: &[u8], names: &mut Interner) -> Option<Event> {
    let flags = rwbs::flags(head.rwbs)?;
    if let Action::Remap { .. } = action {
        return remap(head, flags, body);
    }
    let last = text::in_brackets(body)?;
    let (mut sector, mut bytes) = (0, 0);
    let mut cursor = Cursor::new(body);
    if let Some(number) = cursor.number() {
        if cursor.spaces().eat(b"+").is_some() {
            bytes = cursor.spaces().number()?.checked_mul(SECTOR_BYTES)?;
            sector = number;
        } else if action == Action::Complete {
            // The end of a write's flushes: no bytes, but the write's sector, if the kernel gives
            // the sector.
            sector = number;
        }
        if bytes == 0 && sector == u64::MAX {
            sector = 0;
        }
    } else if !(body.starts_with(b"[") || body.starts_with(b"(")) {
        return None;
    }
    // At a completion the bracket holds the error.
    let name = if action == Action::Complete { None } else { names.id(last) };
    Some(request(head, action, flags, (sector, bytes), name))
}

/// `223490 + 8 <- (8,1) 223427`
fn remap(head: &Head, flags: Flags, body: &[u8]) -> Option<Event> {
    let mut cursor = Cursor::new(body);
    let place = cursor.place()?;
    let action = cursor.remap()?;
    Some(request(head, action, flags, place, None))
}

/// `place`: sector and bytes. `name`: the thread's.
fn request(
    head: &Head,
    action: Action,
    flags: Flags,
    (sector, bytes): (u64, u64),
    name: Option<NameId>,
) -> Event {
    let actor = Actor { thread: head.thread, process: 0, name };
    Event { device: head.device, sector, bytes, flags, ..Event::plain(head.time_ns, action, actor) }
}

/// Sums behind the events, and notes before them ("Input file sda.blktrace.0 added").
fn is_sum(line: &[u8]) -> bool {
    const BEGINS: [&[u8]; 16] = [
        b"CPU",
        b"Total",
        b"Throughput",
        b"Events",
        b"Skips",
        b"Input file",
        b" Reads",
        b" Read ",
        b" Writes",
        b" PC ",
        b" IO unplugs",
        b" Merges",
        b" Timer",
        b" Write ",
        b" Discard",
        b" Rewrites",
    ];
    line.trim_ascii().is_empty() || BEGINS.iter().any(|begin| line.starts_with(begin))
}

#[cfg(test)]
mod tests;
