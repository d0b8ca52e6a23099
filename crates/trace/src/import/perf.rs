//! `perf script`'s text, of tracepoints (`perf record -e 'block:*' -e 'ext4:ext4_sync_file_*'`).
//!
//! ```text
//! python3 26847 [000] 36564.359962:         block:block_rq_issue: 7,0 WS 1024 () 18310 + 2 …
//! python3 26847/26850 [000] 36564.359962: … with `-F +pid`: process and thread
//! python3 26847 36564.359962:          1 …  without a processor (`-F -cpu`), with a period
//!                                           (`-F +period`)
//! python3 26847 [000] 36564.359962: PERF_RECORD_LOST lost 12      with `--show-lost-events`
//! ```
//!
//! Blanks stand before the name. The name may hold spaces, so the head is read backwards. It begins
//! at the first time that has a process id before it.

use super::line::{Interner, Line};
use super::text::{self, Cursor};
use super::tracepoint::{self, Head};

pub(super) fn line(line: &[u8], names: &mut Interner) -> Line {
    let Some((head, rest)) = head(line) else {
        return if is_beside_events(line) { Line::Nothing } else { Line::NotUnderstood };
    };
    let mut cursor = Cursor::new(rest);
    let mut word = cursor.spaces().word();
    if text::is_number(word) {
        word = cursor.spaces().word();
    }
    cursor.spaces();
    if word.starts_with(b"PERF_RECORD_LOST") {
        return Line::Lost(cursor.eat(b"lost").and_then(|()| cursor.spaces().number()));
    }
    let name = word.strip_suffix(b":").unwrap_or(word);
    let name = name.rsplit(|b| *b == b':').next().unwrap_or(name);
    tracepoint::line(name, cursor.rest, &head, names)
}

pub(super) fn recognizes(line: &[u8]) -> bool {
    head(line).is_some()
}

/// Comments, and the addresses of call chains (`-g`).
fn is_beside_events(line: &[u8]) -> bool {
    let trimmed = line.trim_ascii();
    let address = trimmed.iter().take_while(|b| b.is_ascii_hexdigit()).count();
    trimmed.is_empty() || trimmed.starts_with(b"#") || (line.starts_with(b"\t") && address >= 4)
}

/// Colons that can stand in a name before the one behind the time.
const COLONS_MAX: usize = 16;

fn head(line: &[u8]) -> Option<(Head<'_>, &[u8])> {
    memchr::memchr_iter(b':', line).take(COLONS_MAX).find_map(|colon| {
        let rest = line[colon + 1..].strip_prefix(b" ")?;
        let (before, time) = last_word(&line[..colon])?;
        let time_ns = text::whole_seconds(time)?;
        let (mut before, mut id) = last_word(before)?;
        if let Some(cpu) = id.strip_prefix(b"[").and_then(|id| id.strip_suffix(b"]")) {
            text::is_number(cpu).then_some(())?;
            (before, id) = last_word(before)?;
        }
        let mut cursor = Cursor::new(id);
        let (mut process, mut thread) = (0, cursor.number_u32()?);
        if cursor.eat(b"/").is_some() {
            process = thread;
            thread = cursor.number_u32()?;
        }
        let comm = before.trim_ascii();
        (cursor.rest.is_empty() && !comm.is_empty())
            .then_some((Head { time_ns, thread, process, comm }, rest))
    })
}

/// The last word of a text and what stands before it.
fn last_word(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let text = text.trim_ascii_end();
    let n = text.iter().rev().take_while(|b| **b != b' ').count();
    (n > 0).then(|| text.split_at(text.len() - n))
}

#[cfg(test)]
mod tests;
