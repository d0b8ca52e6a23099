//! `strace -f -ttt -yy -T`'s text: what threads asked of files. It shows no device, so sectors are
//! offsets in files. Text of other options is read as far as it goes: with other times or none
//! ([`stamp`]), with descriptors without names ([`descriptors`]).
//!
//! ```text
//! 26989 1795199476.845520 fdatasync(6</tmp/s0.db-journal>) = 0 <0.000600>      with -o
//! [pid 26989] 1795199476.845520 …                                              to the terminal
//! 26990 1795199476.842279 pwrite64(4</tmp/s1.db>, "SQLite f"..., 4096, 0 <unfinished ...>
//! 26990 1795199476.842362 <... pwrite64 resumed>) = 4096 <0.000055>
//! ```
//!
//! A call in one line begins at its time and takes what `-T` says. Another thread's line may
//! interrupt a call: "unfinished" begins the call, "resumed" ends it. An interrupted write is one
//! event, at its end. An interrupted sync is two events.
//!
//! Some writes are durable when they return: with `RWF_DSYNC` or `RWF_SYNC`, or of a file opened
//! with `O_DSYNC` or `O_SYNC`. Such a write is told as a write inside of a sync. SQLite's lock for
//! writing in WAL mode is `fcntl(…, F_SETLK, {…, l_start=120, l_len=1})`.
//!
//! To the terminal, strace also writes notes of its own into a line: `clone(…strace: Process 27013
//! attached`. The rest of the line is the next one.
//!
//! `write` and `read` do not say the offset in the file. They do so if the same thread has placed
//! itself by `lseek` on the same descriptor before. Else their offset is [`OFFSET_UNKNOWN`].

use std::borrow::Cow;
use std::collections::HashMap;

use super::line::{Interner, Line};
use super::text::Cursor;
use crate::model::{Action, Actor, Event, Flags};

mod call;
mod descriptors;
mod stamp;

use call::{Call, Control, Kind};
use descriptors::{Descriptors, Open};
use stamp::{Stamp, Stamps};

/// The `sector` of a write or read whose offset in the file the trace does not say.
pub const OFFSET_UNKNOWN: u64 = u64::MAX;

/// Limit of the threads that can be within a call, and of the bytes that are kept of such a call.
const UNFINISHED_MAX: usize = 4096;
const UNFINISHED_BYTES_MAX: usize = 8 << 10;

/// Limit of the threads whose place in a file is kept.
const PLACES_MAX: usize = 1 << 16;

#[derive(Debug, Default)]
pub(super) struct Strace {
    unfinished: HashMap<u32, Box<[u8]>>,
    places: HashMap<u32, Place>,
    joined: Vec<u8>,
    /// The begin of a line into which strace wrote a note of its own.
    interrupted: Vec<u8>,
    stamps: Stamps,
    descriptors: Descriptors,
    /// Calls on descriptors whose file is unknown.
    nameless_count: u64,
}

/// The place of a thread in the file of a descriptor.
#[derive(Debug)]
struct Place {
    descriptor: u64,
    offset: u64,
}

/// What a trace does not say because options were missing.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Lacks {
    pub times: Option<&'static str>,
    /// Syncs and writes of files without a name.
    pub nameless_count: u64,
}

/// The actor and the time.
#[derive(Clone, Copy)]
struct Head {
    thread: u32,
    time_ns: u64,
}

pub(super) fn recognizes(line: &[u8]) -> bool {
    head(line).is_some_and(|head| match head.stamp {
        // Many texts look like a call.
        Stamp::Missing => {
            call::name(head.rest).is_some_and(|name| Kind::of(name).is_some())
                && has_result(head.rest)
        }
        _ => {
            is_note(head.rest) || head.rest.starts_with(b"<... ") || call::name(head.rest).is_some()
        }
    })
}

/// `) = 0`, or that the result comes later.
fn has_result(rest: &[u8]) -> bool {
    rest.ends_with(b"<unfinished ...>")
        || memchr::memmem::rfind(rest, b") ").is_some_and(|at| {
            let behind = rest[at + 2..].trim_ascii_start();
            behind.strip_prefix(b"= ").is_some_and(|result| {
                let is_one = |byte: &u8| byte.is_ascii_digit() || *byte == b'?';
                result.starts_with(b"-1 ") || result.first().is_some_and(is_one)
            })
        })
}

/// Signals and ends.
fn is_note(rest: &[u8]) -> bool {
    rest.starts_with(b"+++ ") || rest.starts_with(b"--- ") || rest.starts_with(b"???")
}

/// What stands before the call, and the call.
struct Begin<'a> {
    thread: u32,
    stamp: Stamp,
    rest: &'a [u8],
}

fn head(line: &[u8]) -> Option<Begin<'_>> {
    let mut cursor = Cursor::new(line);
    let mut thread = 0;
    if cursor.eat(b"[pid").is_some() {
        thread = cursor.spaces().number_u32()?;
        let name_and_end = cursor.until(b']')?;
        (name_and_end.is_empty() || name_and_end.starts_with(b"<")).then_some(())?;
    } else {
        let mut ahead = cursor;
        if let Some(number) = ahead.spaces().number()
            && !ahead.rest.starts_with(b".")
            && !ahead.rest.starts_with(b":")
        {
            thread = u32::try_from(number).ok()?;
            if ahead.eat(b"<").is_some() {
                ahead.until(b'>')?;
            }
            cursor = ahead;
        }
    }
    let stamp = stamp::stamp(&mut cursor)?;
    let rest = cursor.rest;
    let is_strace = stamp != Stamp::Missing
        || is_note(rest)
        || rest.starts_with(b"<... ")
        || call::name(rest).is_some();
    is_strace.then_some(Begin { thread, stamp, rest })
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
        // A line of its own says that the rest of the call is not in the trace.
        if head(line).is_some() {
            return self.whole_line(line, names);
        }
        joined.extend_from_slice(line);
        self.whole_line(&joined, names)
    }

    fn whole_line(&mut self, line: &[u8], names: &mut Interner) -> Line {
        let begin = head(line).and_then(|begin| {
            Some((
                Head { thread: begin.thread, time_ns: self.stamps.time_ns(begin.stamp)? },
                begin.rest,
            ))
        });
        let Some((head, rest)) = begin else {
            let said_by_strace = line.trim_ascii().is_empty() || line.starts_with(b"strace: ");
            return if said_by_strace { Line::Nothing } else { Line::NotUnderstood };
        };
        if is_note(rest) {
            if rest.starts_with(b"+++ exited") || rest.starts_with(b"+++ killed") {
                self.descriptors.ended(head.thread);
            }
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
        // A call that the thread began before and never ended must not be joined with this call's
        // end.
        self.unfinished.remove(&head.thread);
        let kept = self.unfinished.len() < UNFINISHED_MAX && begun.len() <= UNFINISHED_BYTES_MAX;
        if kept {
            self.unfinished.insert(head.thread, begun.trim_ascii_end().into());
        }
        if kind != Kind::Sync {
            return if kept { Line::Nothing } else { Line::NotUnderstood };
        }
        match call::file_of_begun(begun) {
            Some((descriptor, file)) => {
                let file = self.named(head.thread, descriptor, file);
                Line::Event(event(head, Action::SyncEnter, file.as_deref(), names))
            }
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
        // If strace was attached to a running process, the begin of the call is not in the trace.
        let Some(begun) =
            self.unfinished.remove(&head.thread).filter(|begun| begun.starts_with(name))
        else {
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

    /// `resumed`: the begin of the call has been told already.
    fn call(&mut self, head: Head, call: &Call, resumed: bool, names: &mut Interner) -> Line {
        let file = self.file_of(head.thread, call);
        let file = file.as_deref();
        // Only the end is known of a call that another line interrupted.
        let exit_ns =
            if resumed { head.time_ns } else { head.time_ns.saturating_add(call.took_ns) };
        let exit = Head { time_ns: exit_ns, ..head };
        match call.kind {
            Kind::Sync => synced(head, exit, call, resumed, file, names),
            Kind::Open | Kind::Close | Kind::Duplicate | Kind::Clone => {
                self.descriptors_change(head.thread, call, file);
                Line::Ignored
            }
            Kind::Control => match (call.control, call.result) {
                (Some(Control::Lock), Some(_)) => {
                    Line::Event(event(head, Action::WriteLock, file, names))
                }
                (Some(Control::Unlock), Some(_)) => {
                    Line::Event(event(head, Action::WriteUnlock, file, names))
                }
                (Some(Control::Duplicate), Some(to)) => {
                    self.descriptors.duplicated(head.thread, call.descriptor, to);
                    Line::Ignored
                }
                _ => Line::Ignored,
            },
            Kind::Seek => {
                if let Some(offset) = call.result {
                    self.place(head.thread, call.descriptor, offset);
                }
                Line::Nothing
            }
            // A truncation to another size than 0 does not change what a file is.
            Kind::Truncate if call.offset != Some(0) => Line::Ignored,
            Kind::Truncate | Kind::Delete => {
                let action = if call.kind == Kind::Delete {
                    Action::FileDelete
                } else {
                    Action::FileTruncate
                };
                match call.result {
                    Some(_) if call.is_file => Line::Event(event(head, action, file, names)),
                    _ => Line::Ignored,
                }
            }
            Kind::Write | Kind::Read => self.transferred(head, exit, call, file, names),
        }
    }

    /// The file of a call. Counts a call on a descriptor whose file is unknown.
    fn file_of<'a>(&mut self, thread: u32, call: &'a Call) -> Option<Cow<'a, [u8]>> {
        let said = call.file.as_deref().map(Cow::Borrowed);
        let is_on_descriptor =
            matches!(call.kind, Kind::Sync | Kind::Write | Kind::Truncate | Kind::Control);
        if !is_on_descriptor || !call.is_file {
            return said;
        }
        let mut file = self.named(thread, call.descriptor, said);
        if file.is_none() && call.kind == Kind::Write {
            let bytes = call.result.unwrap_or(0);
            let open = self.descriptors.guess(thread, call.descriptor, call.offset, bytes);
            file = open.and_then(Open::owned_name);
        }
        if file.is_none() && matches!(call.kind, Kind::Sync | Kind::Write) && call.result.is_some()
        {
            self.nameless_count += 1;
        }
        file
    }

    /// Notes what a call that succeeded has made of the descriptors.
    fn descriptors_change(&mut self, thread: u32, call: &Call, file: Option<&[u8]>) {
        let Some(result) = call.result else { return };
        match call.kind {
            Kind::Open => {
                let open = Open { name: file.map(Box::from), is_durable: call.is_durable };
                self.descriptors.opened(thread, result, open);
            }
            Kind::Close => self.descriptors.closed(thread, call.descriptor),
            Kind::Duplicate => self.descriptors.duplicated(thread, call.descriptor, result),
            Kind::Clone => {
                if let Some(child) = u32::try_from(result).ok().filter(|child| *child > 0) {
                    self.descriptors.cloned(thread, child, call.is_process);
                }
            }
            _ => {}
        }
    }

    /// A write or a read.
    fn transferred(
        &mut self,
        head: Head,
        exit: Head,
        call: &Call,
        file: Option<&[u8]>,
        names: &mut Interner,
    ) -> Line {
        let Some(bytes) = call.result else { return Line::Ignored };
        let sector = match call.offset {
            Some(offset) => offset,
            None => self.move_on(head.thread, call.descriptor, bytes),
        };
        // Only files are of interest.
        if bytes == 0 || !call.is_file {
            return Line::Ignored;
        }
        let action = if call.kind == Kind::Write { Action::FileWrite } else { Action::FileRead };
        let flags = Flags {
            write: action == Action::FileWrite,
            read: action == Action::FileRead,
            ..Flags::default()
        };
        let told = Event { sector, bytes, flags, ..event(head, action, file, names) };
        if action == Action::FileRead {
            return Line::Event(told);
        }
        if let Some(file) = file {
            self.descriptors.written(head.thread, file);
        }
        let opened = self.descriptors.get(head.thread, call.descriptor);
        if !call.is_durable && !opened.is_some_and(|open| open.is_durable) {
            return Line::Event(told);
        }
        let exit = event(exit, Action::SyncExit, file, names);
        Line::Three(event(head, Action::SyncEnter, file, names), told, exit)
    }

    /// The file of a descriptor. The call itself says it; if not, the call that opened the
    /// descriptor did.
    fn named<'a>(
        &mut self,
        thread: u32,
        descriptor: u64,
        said: Option<Cow<'a, [u8]>>,
    ) -> Option<Cow<'a, [u8]>> {
        if said.is_some() {
            return said;
        }
        self.descriptors.get(thread, descriptor)?.owned_name()
    }

    /// What a reader of the figures must know, and what to record with.
    pub fn lacks(&self) -> Lacks {
        Lacks { times: self.stamps.lacks(), nameless_count: self.nameless_count }
    }

    fn place(&mut self, thread: u32, descriptor: u64, offset: u64) {
        if self.places.len() >= PLACES_MAX {
            self.places.clear();
        }
        self.places.insert(thread, Place { descriptor, offset });
    }

    /// The place of the thread. Afterwards it is `bytes` further.
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

/// A sync, whose end is at `exit`. `resumed`: its begin has been told already.
fn synced(
    head: Head,
    exit: Head,
    call: &Call,
    resumed: bool,
    file: Option<&[u8]>,
    names: &mut Interner,
) -> Line {
    let exit = event(exit, Action::SyncExit, file, names);
    match (resumed, call.result) {
        // The process was killed in the call.
        (true, None) => Line::Nothing,
        (true, Some(_)) => Line::Event(exit),
        (false, None) => Line::Event(event(head, Action::SyncEnter, file, names)),
        (false, Some(_)) => Line::Two(event(head, Action::SyncEnter, file, names), exit),
    }
}

fn event(head: Head, action: Action, file: Option<&[u8]>, names: &mut Interner) -> Event {
    let actor = Actor { thread: head.thread, process: 0, name: None };
    let file = file.and_then(|file| names.id(file.trim_ascii()));
    Event { file, ..Event::plain(head.time_ns, action, actor) }
}

#[cfg(test)]
mod tests;
