//! ftrace's text: `trace` and `trace_pipe` of tracefs, and `trace-cmd report`.
//!
//! ```text
//!             sh-3397  [000] ...2   263.580825: block_rq_insert: …   Linux 3.x to 5.13: 4 flags
//!             sh-3397  [000] ...1.  263.580825: …                    since 5.14: 5 flags
//!             sh-3397  [000]        263.580825: …                    without `irq-info`; trace-cmd
//!             sh-3397  ( 3390) [000] ...1. 263.580825: …             with `record-tgid`;
//!                                                                    (-----): not known
//! CPU:1 [LOST 3551 EVENTS]                 # entries-in-buffer/entries-written: 425/18981
//! CPU:1 [27 EVENTS DROPPED]                trace-cmd
//! ```
//!
//! The name is set right in 16 columns. Its end is therefore known even if the name holds spaces,
//! dashes or brackets. A longer name has no dash in the 17th column. Then the first "-PID [CPU]" is
//! looked for. Times are the trace clock's. The clock must count in seconds (`local`, `global`,
//! `mono`, `boot`; not `counter` and `x86-tsc`).

use super::line::{Interner, Line};
use super::text::{self, Cursor};
use super::tracepoint::{self, Head};

/// The column of the dash behind a name in the kernel's and trace-cmd's own layout.
const DASH_COLUMN: usize = 16;

pub(super) fn line(line: &[u8], names: &mut Interner) -> Line {
    match line.first() {
        None => return Line::Nothing,
        Some(b'#') => return heading(line),
        Some(b'C') => {
            if let Some(lost) = lost(line) {
                return Line::Lost(lost);
            }
            if line.starts_with(b"CPU ") && line.ends_with(b" is empty") {
                return Line::Nothing;
            }
        }
        _ => {}
    }
    let Some((head, event)) = head(line) else {
        return if is_beside_events(line) { Line::Nothing } else { Line::NotUnderstood };
    };
    let mut cursor = Cursor::new(event);
    match cursor.until(b':') {
        Some(name) => {
            cursor.spaces();
            tracepoint::line(name, cursor.rest, &head, names)
        }
        // The function tracer and others print no name.
        None => Line::Ignored,
    }
}

/// Whether only ftrace writes such a line.
pub(super) fn recognizes(line: &[u8]) -> bool {
    line.starts_with(b"# tracer:") || lost(line).is_some() || head(line).is_some()
}

fn heading(line: &[u8]) -> Line {
    let written = line.strip_prefix(b"# entries-in-buffer/entries-written: ").and_then(|rest| {
        let mut cursor = Cursor::new(rest);
        let held = cursor.number()?;
        cursor.eat(b"/")?;
        cursor.number()?.checked_sub(held)
    });
    match written {
        Some(overwritten) if overwritten > 0 => Line::Lost(Some(overwritten)),
        _ => Line::Nothing,
    }
}

/// Outer `None`: no such line. Inner `None`: the trace does not say how many.
fn lost(line: &[u8]) -> Option<Option<u64>> {
    let mut cursor = Cursor::new(line);
    cursor.eat(b"CPU:")?;
    cursor.number()?;
    cursor.eat(b" [")?;
    let words = cursor.until(b']')?;
    let number = words.split(|b| *b == b' ').find_map(text::whole_number);
    (words.starts_with(b"LOST ") || words.ends_with(b"EVENTS DROPPED")).then_some(number)
}

/// Lines of stack traces, trace-cmd's "cpus=4", and notes about buffers.
fn is_beside_events(line: &[u8]) -> bool {
    let line = line.trim_ascii();
    line.is_empty()
        || line.starts_with(b"=>")
        || line.starts_with(b"cpus=")
        || line.starts_with(b"##### CPU ")
}

fn head(line: &[u8]) -> Option<(Head<'_>, &[u8])> {
    if line.get(DASH_COLUMN) == Some(&b'-')
        && let Some(found) = head_at(line, DASH_COLUMN)
    {
        return Some(found);
    }
    memchr::memchr_iter(b'-', line).take(DASHES_MAX).find_map(|dash| head_at(line, dash))
}

/// Dashes that can stand in a name before the one behind it.
const DASHES_MAX: usize = 64;

fn head_at(line: &[u8], dash: usize) -> Option<(Head<'_>, &[u8])> {
    let comm = line[..dash].trim_ascii();
    let mut cursor = Cursor::new(&line[dash + 1..]);
    let thread = cursor.number_u32()?;
    cursor.eat(b" ")?;
    cursor.spaces();
    let mut process = 0;
    if cursor.eat(b"(").is_some() {
        process = text::whole_number(cursor.until(b')')?.trim_ascii())
            .and_then(|n| u32::try_from(n).ok())
            .unwrap_or(0);
        cursor.spaces();
    }
    cursor.eat(b"[")?;
    cursor.number()?;
    cursor.eat(b"]")?;
    cursor.eat(b" ")?;
    cursor.spaces();
    let time_ns = match time(&mut cursor) {
        Some(time_ns) => time_ns,
        None => {
            cursor.word();
            time(cursor.spaces())?
        }
    };
    cursor.spaces();
    Some((Head { time_ns, thread, process, comm }, cursor.rest))
}

/// "263.580732:". Anything else leaves the cursor where it was.
fn time(cursor: &mut Cursor) -> Option<u64> {
    let mut ahead = *cursor;
    let time_ns = ahead.seconds()?;
    ahead.eat(b":")?;
    *cursor = ahead;
    Some(time_ns)
}

#[cfg(test)]
mod tests;
