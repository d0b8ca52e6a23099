//! `strace -f -ttt -yy -T`'s text: what threads asked of files. It shows no device, so sectors are offsets in files.
//!
//! ```text
//! 26989 1795199476.845520 fdatasync(6</tmp/s0.db-journal>) = 0 <0.000600>                           with -o
//! [pid 26989] 1795199476.845520 …                                                                   to the terminal
//! 26990 1795199476.842279 pwrite64(4</tmp/s1.db>, "SQLite format 3\0"..., 4096, 0 <unfinished ...>
//! 26990 1795199476.842362 <... pwrite64 resumed>) = 4096 <0.000055>
//! ```
//! A call in one line begins at its time and takes what `-T` says. One that another thread's line interrupts is begun by
//! "unfinished" and ended by "resumed": a write is an event of its end, a sync is two events.
//!
//! To the terminal strace writes notes of its own also into a line: `clone(…strace: Process 27013 attached`, and the rest of the line
//! is the next one.
//!
//! `write` and `read` do not say where in the file. They do so if the same thread has placed itself by `lseek` on the same
//! descriptor before, else their offset is [`OFFSET_UNKNOWN`].

use std::collections::HashMap;

use super::line::{Interner, Line};
use super::text::Cursor;
use crate::model::{Action, Actor, Event, Flags};

mod call;

use call::{Call, Kind};

/// The `sector` of a write or read of which the trace does not say where in the file it is.
pub const OFFSET_UNKNOWN: u64 = u64::MAX;

/// Threads that can be within a call, and bytes that are kept of such a call.
const UNFINISHED_MAX: usize = 4096;
const UNFINISHED_BYTES_MAX: usize = 8 << 10;

/// Threads of which the place in a file is kept.
const PLACES_MAX: usize = 1 << 16;

/// -ttt counts from 1970; a smaller number of seconds is another option's (`-r`: since the last line).
const TIME_NS_MIN: u64 = 1_000_000 * 1_000_000_000;

#[derive(Debug, Default)]
pub(super) struct Strace {
    unfinished: HashMap<u32, Box<[u8]>>,
    places: HashMap<u32, Place>,
    joined: Vec<u8>,
    /// The begin of a line into which strace wrote a note of its own.
    interrupted: Vec<u8>,
}

/// Where a thread is in the file of a descriptor.
#[derive(Debug)]
struct Place {
    descriptor: u64,
    offset: u64,
}

/// Who, and when.
#[derive(Clone, Copy)]
struct Head {
    thread: u32,
    time_ns: u64,
}

pub(super) fn recognizes(line: &[u8]) -> bool {
    head(line).is_some_and(|(_, rest)| is_note(rest) || rest.starts_with(b"<... ") || call::name(rest).is_some())
}

/// Signals and ends.
fn is_note(rest: &[u8]) -> bool {
    rest.starts_with(b"+++ ") || rest.starts_with(b"--- ") || rest.starts_with(b"???")
}

fn head(line: &[u8]) -> Option<(Head, &[u8])> {
    let mut cursor = Cursor::new(line);
    let mut thread = 0;
    if cursor.eat(b"[pid").is_some() {
        thread = cursor.spaces().number_u32()?;
        let name_and_end = cursor.until(b']')?;
        (name_and_end.is_empty() || name_and_end.starts_with(b"<")).then_some(())?;
    } else {
        let mut ahead = cursor;
        let number = ahead.spaces().number()?;
        if !ahead.rest.starts_with(b".") {
            thread = u32::try_from(number).ok()?;
            if ahead.eat(b"<").is_some() {
                ahead.until(b'>')?;
            }
            cursor = ahead;
        }
    }
    let time_ns = cursor.spaces().seconds()?;
    cursor.eat(b" ")?;
    (time_ns >= TIME_NS_MIN).then_some((Head { thread, time_ns }, cursor.spaces().rest))
}

/// What stands before "strace: Process 27013 attached" in a line of a call.
fn before_note(line: &[u8]) -> Option<&[u8]> {
    let line = line.strip_suffix(b" attached")?;
    let digits = line.iter().rev().take_while(|b| b.is_ascii_digit()).count();
    let begin = line[..line.len() - digits].strip_suffix(b"strace: Process ")?;
    (digits > 0 && head(begin).is_some()).then_some(begin)
}

impl Strace {
    pub fn line(&mut self, line: &[u8], names: &mut Interner) -> Line {
        if let Some(begin) = before_note(line) {
            self.interrupted.clear();
            self.interrupted.extend_from_slice(begin);
            return Line::Nothing;
        }
        if self.interrupted.is_empty() {
            return self.whole_line(line, names);
        }
        let mut joined = std::mem::take(&mut self.interrupted);
        // A line of its own says that the call's rest is not in the trace.
        if head(line).is_some() {
            return self.whole_line(line, names);
        }
        joined.extend_from_slice(line);
        self.whole_line(&joined, names)
    }

    fn whole_line(&mut self, line: &[u8], names: &mut Interner) -> Line {
        let Some((head, rest)) = head(line) else {
            let said_by_strace = line.trim_ascii().is_empty() || line.starts_with(b"strace: ");
            return if said_by_strace { Line::Nothing } else { Line::NotUnderstood };
        };
        if is_note(rest) {
            return Line::Nothing;
        }
        if let Some(resumed) = rest.strip_prefix(b"<... ") {
            return self.resumed(head, resumed, names);
        }
        let Some(name) = call::name(rest) else { return Line::NotUnderstood };
        let Some(kind) = Kind::of(name) else { return Line::Ignored };
        if let Some(begun) = rest.strip_suffix(b"<unfinished ...>") {
            return self.unfinished(head, kind, begun, names);
        }
        match call::whole(kind, rest) {
            Some(call) => self.call(head, &call, false, names),
            None => Line::NotUnderstood,
        }
    }

    fn unfinished(&mut self, head: Head, kind: Kind, begun: &[u8], names: &mut Interner) -> Line {
        // What a thread began before and never ended must not be taken for the begin of this one's end.
        self.unfinished.remove(&head.thread);
        let kept = self.unfinished.len() < UNFINISHED_MAX && begun.len() <= UNFINISHED_BYTES_MAX;
        if kept {
            self.unfinished.insert(head.thread, begun.trim_ascii_end().into());
        }
        if kind != Kind::Sync {
            return if kept { Line::Nothing } else { Line::NotUnderstood };
        }
        match call::file_of_begun(begun) {
            Some(file) => Line::Event(event(head, Action::SyncEnter, file.as_deref(), names)),
            None => Line::NotUnderstood,
        }
    }

    /// `resumed`: "pwrite64 resumed>) = 4096 <0.000055>".
    fn resumed(&mut self, head: Head, resumed: &[u8], names: &mut Interner) -> Line {
        let mut cursor = Cursor::new(resumed);
        let name = cursor.word();
        if cursor.eat(b" resumed>").is_none() {
            return Line::NotUnderstood;
        }
        let Some(kind) = Kind::of(name) else { return Line::Ignored };
        // Its begin is not in the trace where strace was attached to a running process.
        let Some(begun) = self.unfinished.remove(&head.thread).filter(|begun| begun.starts_with(name)) else {
            return match kind {
                Kind::Sync => Line::Event(event(head, Action::SyncExit, None, names)),
                _ => Line::Ignored,
            };
        };
        let mut joined = std::mem::take(&mut self.joined);
        joined.clear();
        joined.extend_from_slice(&begun);
        joined.push(b' ');
        joined.extend_from_slice(cursor.rest);
        let line = match call::whole(kind, &joined) {
            Some(call) => self.call(head, &call, true, names),
            None => Line::NotUnderstood,
        };
        self.joined = joined;
        line
    }

    /// `resumed`: its begin has been told already.
    fn call(&mut self, head: Head, call: &Call, resumed: bool, names: &mut Interner) -> Line {
        let file = call.file.as_deref();
        match call.kind {
            Kind::Sync => {
                let exit_ns = if resumed { head.time_ns } else { head.time_ns.saturating_add(call.took_ns) };
                let exit = event(Head { time_ns: exit_ns, ..head }, Action::SyncExit, file, names);
                match (resumed, call.result) {
                    // The process was killed in it.
                    (true, None) => Line::Nothing,
                    (true, Some(_)) => Line::Event(exit),
                    (false, None) => Line::Event(event(head, Action::SyncEnter, file, names)),
                    (false, Some(_)) => Line::Two(event(head, Action::SyncEnter, file, names), exit),
                }
            }
            Kind::Seek => {
                if let Some(offset) = call.result {
                    self.place(head.thread, call.descriptor, offset);
                }
                Line::Nothing
            }
            // A truncation to another size than 0 leaves a file what it is.
            Kind::Truncate if call.offset != Some(0) => Line::Ignored,
            Kind::Truncate | Kind::Delete => {
                let action = if call.kind == Kind::Delete { Action::FileDelete } else { Action::FileTruncate };
                match call.result {
                    Some(_) if call.is_file => Line::Event(event(head, action, file, names)),
                    _ => Line::Ignored,
                }
            }
            Kind::Write | Kind::Read => {
                let Some(bytes) = call.result else { return Line::Ignored };
                let sector = match call.offset {
                    Some(offset) => offset,
                    None => self.move_on(head.thread, call.descriptor, bytes),
                };
                // Of all that can be written to, only files are of interest.
                if bytes == 0 || !call.is_file {
                    return Line::Ignored;
                }
                let action = if call.kind == Kind::Write { Action::FileWrite } else { Action::FileRead };
                let flags =
                    Flags { write: action == Action::FileWrite, read: action == Action::FileRead, ..Flags::default() };
                Line::Event(Event { sector, bytes, flags, ..event(head, action, file, names) })
            }
        }
    }

    fn place(&mut self, thread: u32, descriptor: u64, offset: u64) {
        if self.places.len() >= PLACES_MAX {
            self.places.clear();
        }
        self.places.insert(thread, Place { descriptor, offset });
    }

    /// Where the thread was; it is `bytes` further then.
    fn move_on(&mut self, thread: u32, descriptor: u64, bytes: u64) -> u64 {
        match self.places.get_mut(&thread) {
            Some(place) if place.descriptor == descriptor => {
                let offset = place.offset;
                place.offset = offset.saturating_add(bytes);
                offset
            }
            _ => OFFSET_UNKNOWN,
        }
    }
}

fn event(head: Head, action: Action, file: Option<&[u8]>, names: &mut Interner) -> Event {
    let actor = Actor { thread: head.thread, process: 0, name: None };
    let file = file.and_then(|file| names.id(file.trim_ascii()));
    Event { file, ..Event::plain(head.time_ns, action, actor) }
}

#[cfg(test)]
mod tests;
