//! The text that the kernel's tracepoints print. Which tool wrote the text before it does not
//! matter (ftrace, trace-cmd, perf).
//!
//! ```text
//! block_bio_queue:      DEV RWBS SECTOR + COUNT [COMM]
//! block_rq_insert:      DEV RWBS BYTES (CMD) SECTOR + COUNT [PRIO] [COMM]
//!                       PRIO from Linux 6.10: `be,0,4` (perf: `0x2,0,4`)
//! block_rq_issue:       the same
//! block_rq_complete:    DEV RWBS (CMD) SECTOR + COUNT [PRIO] [ERROR]
//! block_bio_complete:   DEV RWBS SECTOR + COUNT [ERROR]    only of devices without a queue: dm, md
//! block_bio_remap:      DEV RWBS SECTOR + COUNT <- (DEV) SECTOR
//! block_rq_remap:       the same, and a number
//! ext4_sync_file_enter: dev M,N ino I parent P datasync D
//! …_exit:               dev M,N ino I ret R
//! f2fs_sync_file_enter: dev = (M,N), ino = I, …
//! …_exit:               the same
//! ext4_unlink_enter:    dev M,N ino I size S parent P
//! ext4_truncate_enter:  dev M,N ino I blocks B
//!                       B: what the file had; its new size is not said
//! f2fs_unlink_exit:     dev = (M,N), ino = I, …, ret = R
//!                       …_enter names the folder's inode, so it is not read
//! f2fs_truncate:        dev = (M,N), ino = I, pino = P, …, i_size = S, …       S: the new size
//! ext4_da_write_end:    dev M,N ino I pos P len L copied C
//! f2fs_write_end:       dev = (M,N), ino = I, pos = P, …
//! posix_lock_inode:     … dev=0xM:0xN ino=0xI … fl_type=F_WRLCK fl_start=S fl_end=E ret=R
//! tracing_mark_write:   what a program wrote into trace_marker
//!                       trace-cmd, perf: `print: tracing_mark_write: …`
//! ```
//!
//! `oneflush trace` adds to them (`docs/trace.md`):
//!
//! ```text
//! block_bio_queue:      … [COMM] oneflush=data dev M,N ino I
//!                       or oneflush=journal, oneflush=metadata
//! oneflush_file:        dev M,N ino I name PATH
//!                       the inode's name from here on; \ooo for odd bytes
//! oneflush_engine:      dev M,N ino I lsmvbt page P head O at M,N SECTOR + COUNT
//!                       the file is a database of LS-MVBT from here on, its pages have P bytes,
//!                       and what is at its offset O is there on the device; one line for each
//!                       piece of its first 40 KiB; `head …` may be missing; page 0: it is none
//!                       any more
//! oneflush_layer:       dev M,N on a file of dev M,N ino I
//!                       a loop device, and the place of its file; I may be missing
//! oneflush_area:        where the file system's journal is; for a human reader
//! ```
//!
//! COUNT is in sectors of 512 bytes. BYTES is not used: in kernels before 4.11 it is 0 for all that
//! carries data. A flush has the sector 0 or, from some places, 2⁶⁴-1. A write that asked for
//! flushes ends by a completion of 0 bytes at its own sector, which is kept.
//!
//! Of writes into the page cache, only those of a header's length are read (of a WAL or of a
//! frame). Of locks, only SQLite's for writing in WAL mode are read. `block_rq_error` repeats
//! `block_rq_complete`. `block_io_start` repeats `block_rq_insert` and `block_rq_issue`. Neither is
//! read.

use super::line::{Interner, Line};
use super::rwbs;
use super::text::{self, Cursor};
use crate::escape::unescape;
use crate::model::{
    Action, Actor, Content, DeviceId, Event, FRAME_HEADER_BYTES, FRAME_UNIT_BYTES, NameId,
    PAGE_UNIT_BYTES, WAL_HEADER_BYTES, WRITE_LOCK_AT,
};

/// What stands before the event: the actor and the time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head<'a> {
    pub time_ns: u64,
    pub thread: u32,
    pub process: u32,
    pub comm: &'a [u8],
}

/// `name` without its system ("block:") and its colon.
pub(super) fn line(name: &[u8], body: &[u8], head: &Head, names: &mut Interner) -> Line {
    let event = match name {
        b"block_bio_queue" => request(body, Action::Queue, head, names),
        b"block_rq_insert" => request(body, Action::Insert, head, names),
        b"block_rq_issue" => request(body, Action::Issue, head, names),
        b"block_rq_complete" => request(body, Action::Complete, head, names),
        b"block_bio_complete" => bio_complete(body, head, names),
        b"block_bio_remap" | b"block_rq_remap" => remap(body, head, names),
        b"ext4_sync_file_enter" => ext4_file(body, Action::SyncEnter, head, names),
        b"ext4_sync_file_exit" => ext4_file(body, Action::SyncExit, head, names),
        b"f2fs_sync_file_enter" => f2fs_file(body, Action::SyncEnter, head, names),
        b"f2fs_sync_file_exit" => f2fs_file(body, Action::SyncExit, head, names),
        b"ext4_unlink_enter" => return removed(ext4_inode(body), Action::FileDelete, head, names),
        b"ext4_truncate_enter" => {
            return removed(ext4_inode(body), Action::FileTruncate, head, names);
        }
        b"f2fs_unlink_exit" => return f2fs_unlinked(body, head, names),
        b"f2fs_truncate" => return f2fs_truncated(body, head, names),
        b"ext4_da_write_end" | b"ext4_write_end" => return ext4_written(body, head, names),
        b"f2fs_write_end" => return f2fs_written(body, head, names),
        b"posix_lock_inode" => return locked(body, head, names),
        b"tracing_mark_write" | b"print" => marker(body, head, names),
        b"oneflush_file" => {
            return file_name(body, names).map_or(Line::NotUnderstood, |()| Line::Nothing);
        }
        b"oneflush_engine" => engine(body, head, names),
        b"oneflush_layer" => layer(body, head, names),
        b"oneflush_area" => return Line::Nothing,
        _ => return Line::Ignored,
    };
    event.map_or(Line::NotUnderstood, Line::Event)
}

fn request(body: &[u8], action: Action, head: &Head, names: &mut Interner) -> Option<Event> {
    let mut cursor = Cursor::new(body);
    let device = cursor.device()?;
    let flags = rwbs::flags(cursor.spaces().word())?;
    cursor.spaces();
    if matches!(action, Action::Insert | Action::Issue) {
        cursor.number()?;
        cursor.spaces();
    }
    if action != Action::Queue {
        cursor.eat(b"(")?;
        cursor.until(b')')?;
        cursor.spaces();
    }
    let (sector, bytes) = cursor.place()?;
    // The bracket at the end also shows that the line is whole.
    let comm = text::in_brackets(cursor.rest)?;
    let comm = if head.comm == b"<...>" && action != Action::Complete { comm } else { head.comm };
    let (content, file) = match memchr::memmem::rfind(cursor.rest, WHOSE) {
        Some(at) if action == Action::Queue => whose(&cursor.rest[at + WHOSE.len()..], names)?,
        _ => (None, None),
    };
    let actor = actor(head, comm, names);
    Some(Event {
        device,
        sector,
        bytes,
        flags,
        content,
        file,
        ..Event::plain(head.time_ns, action, actor)
    })
}

fn bio_complete(body: &[u8], head: &Head, names: &mut Interner) -> Option<Event> {
    let (mut cursor, event) = placed(body, Action::Complete, head, names)?;
    text::in_brackets(cursor.spaces().rest)?;
    Some(event)
}

fn remap(body: &[u8], head: &Head, names: &mut Interner) -> Option<Event> {
    let (mut cursor, event) = placed(body, Action::Complete, head, names)?;
    Some(Event { action: cursor.remap()?, ..event })
}

/// `DEV RWBS SECTOR + COUNT`
fn placed<'a>(
    body: &'a [u8],
    action: Action,
    head: &Head,
    names: &mut Interner,
) -> Option<(Cursor<'a>, Event)> {
    let mut cursor = Cursor::new(body);
    let device = cursor.device()?;
    let flags = rwbs::flags(cursor.spaces().word())?;
    let (sector, bytes) = cursor.spaces().place()?;
    let actor = actor(head, head.comm, names);
    Some((
        cursor,
        Event { device, sector, bytes, flags, ..Event::plain(head.time_ns, action, actor) },
    ))
}

/// `dev M,N on a file of dev M,N ino I`
fn layer(body: &[u8], head: &Head, names: &mut Interner) -> Option<Event> {
    let mut cursor = Cursor::new(body);
    cursor.eat(b"dev ")?;
    let device = cursor.device()?;
    cursor.eat(b" on a file of dev ")?;
    let below = cursor.device()?;
    let file = match cursor.eat(b" ino ") {
        Some(()) => names.inode(below, cursor.number()?),
        None => None,
    };
    Some(Event {
        device,
        file,
        ..Event::plain(head.time_ns, Action::OnFileOf { below }, actor(head, head.comm, names))
    })
}

/// `dev M,N ino I lsmvbt page P head O at M,N SECTOR + COUNT`
fn engine(body: &[u8], head: &Head, names: &mut Interner) -> Option<Event> {
    let mut cursor = Cursor::new(body);
    cursor.eat(b"dev ")?;
    let device = cursor.device()?;
    cursor.eat(b" ino ")?;
    let file = names.inode(device, cursor.number()?);
    cursor.eat(b" lsmvbt page ")?;
    let page_bytes = cursor.number_u32()?;
    let actor = actor(head, b"", names);
    let plain = |offset| Event {
        device,
        file,
        ..Event::plain(head.time_ns, Action::Lsmvbt { page_bytes, offset }, actor)
    };
    if cursor.eat(b" head ").is_none() {
        return Some(plain(0));
    }
    let event = plain(cursor.number_u32()?);
    cursor.eat(b" at ")?;
    let device = cursor.device()?;
    let (sector, bytes) = cursor.spaces().place()?;
    Some(Event { device, sector, bytes, ..event })
}

/// The mark between a queued request and its owner.
const WHOSE: &[u8] = b"] oneflush=";

fn whose(text: &[u8], names: &mut Interner) -> Option<(Option<Content>, Option<NameId>)> {
    let mut cursor = Cursor::new(text);
    match cursor.word() {
        b"journal" => Some((Some(Content::Journal), None)),
        b"metadata" => Some((Some(Content::Metadata), None)),
        b"data" => {
            cursor.eat(b" dev ")?;
            let device = cursor.device()?;
            cursor.eat(b" ino ")?;
            let inode = cursor.number()?;
            let content =
                if names.is_deleted(device, inode) { Content::DeletedData } else { Content::Data };
            Some((Some(content), names.inode(device, inode)))
        }
        _ => None,
    }
}

/// `dev M,N ino I name PATH`
fn file_name(body: &[u8], names: &mut Interner) -> Option<()> {
    let mut cursor = Cursor::new(body);
    cursor.eat(b"dev ")?;
    let device = cursor.device()?;
    cursor.eat(b" ino ")?;
    let inode = cursor.number()?;
    cursor.eat(b" name ")?;
    names.name_inode(device, inode, &unescape(cursor.rest));
    Some(())
}

fn ext4_file(body: &[u8], action: Action, head: &Head, names: &mut Interner) -> Option<Event> {
    let (device, inode) = ext4_inode(body)?;
    of_inode(device, inode, action, head, names)
}

fn f2fs_file(body: &[u8], action: Action, head: &Head, names: &mut Interner) -> Option<Event> {
    let (device, inode) = f2fs_inode(body)?;
    of_inode(device, inode, action, head, names)
}

fn ext4_inode(body: &[u8]) -> Option<(DeviceId, u64)> {
    let mut cursor = Cursor::new(body);
    cursor.eat(b"dev ")?;
    let device = cursor.device()?;
    cursor.eat(b" ino ")?;
    Some((device, cursor.number()?))
}

fn f2fs_inode(body: &[u8]) -> Option<(DeviceId, u64)> {
    let mut cursor = Cursor::new(body);
    cursor.eat(b"dev = (")?;
    let device = cursor.device()?;
    cursor.eat(b"), ino = ")?;
    Some((device, cursor.number()?))
}

/// A deletion or a truncation. A truncation says nothing if it only frees the blocks of a file that
/// was deleted before.
fn removed(
    inode: Option<(DeviceId, u64)>,
    action: Action,
    head: &Head,
    names: &mut Interner,
) -> Line {
    let Some((device, inode)) = inode else { return Line::NotUnderstood };
    if action == Action::FileTruncate && names.is_deleted(device, inode) {
        return Line::Ignored;
    }
    if action == Action::FileDelete {
        names.delete_inode(device, inode);
    }
    of_inode(device, inode, action, head, names).map_or(Line::NotUnderstood, Line::Event)
}

fn of_inode(
    device: DeviceId,
    inode: u64,
    action: Action,
    head: &Head,
    names: &mut Interner,
) -> Option<Event> {
    let file = names.inode(device, inode);
    Some(Event {
        device,
        file,
        ..Event::plain(head.time_ns, action, actor(head, head.comm, names))
    })
}

fn f2fs_unlinked(body: &[u8], head: &Head, names: &mut Interner) -> Line {
    // Failures are negative.
    match number_behind(body, b", ret = ") {
        Some(0) => removed(f2fs_inode(body), Action::FileDelete, head, names),
        _ if memchr::memmem::find(body, b", ret = -").is_some() => Line::Ignored,
        _ => Line::NotUnderstood,
    }
}

fn f2fs_truncated(body: &[u8], head: &Head, names: &mut Interner) -> Line {
    match number_behind(body, b", i_size = ") {
        Some(0) => removed(f2fs_inode(body), Action::FileTruncate, head, names),
        Some(_) => Line::Ignored,
        None => Line::NotUnderstood,
    }
}

fn ext4_written(body: &[u8], head: &Head, names: &mut Interner) -> Line {
    wal_written(body, [b" pos ", b" len "], ext4_file(body, Action::WalWrite, head, names))
}

fn f2fs_written(body: &[u8], head: &Head, names: &mut Interner) -> Line {
    wal_written(body, [b", pos = ", b", len = "], f2fs_file(body, Action::WalWrite, head, names))
}

/// A write that is no page alone, and placed like frames.
fn may_be_frames(position: u64, bytes: u64) -> bool {
    let is_of_units = |number: u64| number.is_multiple_of(FRAME_UNIT_BYTES);
    is_of_units(position) && is_of_units(bytes) && !bytes.is_multiple_of(PAGE_UNIT_BYTES)
}

fn wal_written(body: &[u8], labels: [&[u8]; 2], event: Option<Event>) -> Line {
    let [pos, len] = labels.map(|label| number_behind(body, label));
    match (event, pos, len) {
        (Some(event), Some(sector), Some(bytes))
            if [WAL_HEADER_BYTES, FRAME_HEADER_BYTES].contains(&bytes)
                || may_be_frames(sector, bytes) =>
        {
            Line::Event(Event { sector, bytes, ..event })
        }
        (Some(_), Some(_), Some(_)) => Line::Ignored,
        _ => Line::NotUnderstood,
    }
}

fn locked(body: &[u8], head: &Head, names: &mut Interner) -> Line {
    let text = |label: &[u8]| {
        let at = memchr::memmem::find(body, label)? + label.len();
        Some(Cursor::new(&body[at..]).word())
    };
    let hexadecimal = |text: &[u8]| {
        u64::from_str_radix(std::str::from_utf8(text).ok()?.strip_prefix("0x")?, 16).ok()
    };
    let parse = || {
        let device = text(b"dev=")?;
        let (major, minor) = device.split_at(device.iter().position(|&byte| byte == b':')?);
        let number = |text: &[u8]| u32::try_from(hexadecimal(text)?).ok();
        let device = DeviceId { major: number(major)?, minor: number(&minor[1..])? };
        Some((
            device,
            hexadecimal(text(b" ino=")?)?,
            text(b" fl_type=")?,
            number_behind(body, b" fl_start=")?,
            text(b" ret=")?,
        ))
    };
    let Some((device, inode, kind, start, result)) = parse() else { return Line::NotUnderstood };
    let action = match kind {
        b"F_WRLCK" => Action::WriteLock,
        b"F_UNLCK" => Action::WriteUnlock,
        _ => return Line::Ignored,
    };
    if start != WRITE_LOCK_AT
        || number_behind(body, b" fl_end=") != Some(WRITE_LOCK_AT)
        || result != b"0"
    {
        return Line::Ignored;
    }
    of_inode(device, inode, action, head, names).map_or(Line::NotUnderstood, Line::Event)
}

fn number_behind(body: &[u8], label: &[u8]) -> Option<u64> {
    let at = memchr::memmem::find(body, label)?;
    Cursor::new(&body[at + label.len()..]).number()
}

fn marker(body: &[u8], head: &Head, names: &mut Interner) -> Option<Event> {
    let body = body.trim_ascii();
    let body = body.strip_prefix(b"tracing_mark_write:").unwrap_or(body);
    let file = names.id(body.trim_ascii());
    Some(Event {
        file,
        ..Event::plain(head.time_ns, Action::Marker, actor(head, head.comm, names))
    })
}

/// "<...>" is the kernel's word for a name that it has forgotten.
fn actor(head: &Head, comm: &[u8], names: &mut Interner) -> Actor {
    let name = if comm.is_empty() || comm == b"<...>" { None } else { names.id(comm) };
    Actor { thread: head.thread, process: head.process, name }
}
