//! One system call in strace's notation: `name(argument, …) = result <seconds>`.
//!
//! Arguments are split at commas that stand in no string, bracket or `<…>`. Forms:
//!
//! | text | what it is |
//! |---|---|
//! | `4</path>` | a descriptor |
//! | `2</dev/null<char 1:3>>`, `3<socket:[17]>` | a descriptor, with `-yy` |
//! | `4</path>(deleted)` | a file that has no name any more |
//! | `4</path (deleted)>` | the same before strace 5.16 |
//! | `"name"` | a path that the program gave |
//!
//! A relative path is known if a folder stands before it (`unlinkat(AT_FDCWD</folder>, "name",
//! 0)`). In paths strace escapes what is not printable, and `<` and `>`, as C does.

use std::borrow::Cow;

use super::super::text::{self, Cursor};
use crate::model::WRITE_LOCK_AT;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Sync,
    Write,
    Read,
    Seek,
    Truncate,
    Delete,
    Open,
    Close,
    Duplicate,
    /// A lock, or a copy of a descriptor.
    Control,
    Clone,
}

impl Kind {
    /// The kind of a call. `None` for calls that mean nothing here.
    pub fn of(name: &[u8]) -> Option<Kind> {
        Some(match name {
            b"fsync" | b"fdatasync" | b"sync_file_range" => Kind::Sync,
            b"write" | b"writev" | b"pwrite64" | b"pwritev" | b"pwritev2" => Kind::Write,
            b"read" | b"readv" | b"pread64" | b"preadv" | b"preadv2" => Kind::Read,
            b"lseek" | b"_llseek" => Kind::Seek,
            b"truncate" | b"ftruncate" | b"truncate64" | b"ftruncate64" => Kind::Truncate,
            b"unlink" | b"unlinkat" => Kind::Delete,
            b"open" | b"openat" | b"creat" => Kind::Open,
            b"close" => Kind::Close,
            b"dup" | b"dup2" | b"dup3" => Kind::Duplicate,
            b"fcntl" | b"fcntl64" => Kind::Control,
            b"clone" | b"clone3" | b"fork" | b"vfork" => Kind::Clone,
            _ => return None,
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Control {
    Lock,
    Unlock,
    Duplicate,
}

/// A call from its begin to its end.
#[derive(Debug)]
pub(super) struct Call<'a> {
    pub kind: Kind,
    /// 0 if the file is named by its path.
    pub descriptor: u64,
    pub file: Option<Cow<'a, [u8]>>,
    /// The descriptor may be one of a file: it is not known to be something else.
    pub is_file: bool,
    /// Offset in the file, as the call says. Of a truncation, the new size.
    pub offset: Option<u64>,
    /// `None` if the call failed or did not return.
    pub result: Option<u64>,
    /// What the call writes is durable when it returns (`RWF_DSYNC`, `RWF_SYNC`). Of an opening:
    /// all that is written to the descriptor is durable (`O_DSYNC`, `O_SYNC`).
    pub is_durable: bool,
    /// Of `Control`: the action on SQLite's lock for writing in WAL mode, or the copy of the
    /// descriptor.
    pub control: Option<Control>,
    /// Of `Clone`: the child has descriptors of its own.
    pub is_process: bool,
    /// 0 where the trace does not say it.
    pub took_ns: u64,
}

/// The name before the first parenthesis.
pub(super) fn name(text: &[u8]) -> Option<&[u8]> {
    let n = text
        .iter()
        .take_while(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || **b == b'_')
        .count();
    (n > 0 && text.get(n) == Some(&b'(')).then(|| &text[..n])
}

/// `None` if the text is not in strace's notation.
pub(super) fn whole(kind: Kind, text: &[u8]) -> Option<Call<'_>> {
    let mut cursor = Cursor::new(text);
    let name = cursor.until(b'(')?;
    let (arguments, rest) = arguments(cursor.rest)?;
    let descriptor = match name {
        b"unlink" | b"truncate" | b"truncate64" => named(None, arguments[0])?,
        b"unlinkat" | b"openat" => named(Some(arguments[0]), arguments[1])?,
        b"open" | b"creat" => named(None, arguments[0])?,
        _ if kind == Kind::Clone => Descriptor { number: 0, file: None, is_file: false },
        _ => descriptor(arguments[0])?,
    };
    let is_folder =
        name == b"unlinkat" && memchr::memmem::find(arguments[2], b"AT_REMOVEDIR").is_some();
    // A call with a position has it as its fourth argument: pwrite64(fd, data, count, AT),
    // pwritev(fd, vectors, count, AT[, flags]).
    let offset = match kind {
        Kind::Truncate => Some(text::whole_number(arguments[1].trim_ascii())?),
        _ if name.starts_with(b"p") && matches!(kind, Kind::Write | Kind::Read) => {
            Some(text::whole_number(arguments[3].trim_ascii())?)
        }
        _ => None,
    };
    let mut cursor = Cursor::new(rest);
    cursor.spaces().eat(b"=")?;
    cursor.spaces();
    let result = if cursor.eat(b"?").is_some() || cursor.eat(b"-").is_some() {
        None
    } else {
        Some(cursor.number()?)
    };
    let has = |text: &[u8], flags: &[&[u8]]| {
        text.split(|b| *b == b'|').any(|flag| flags.contains(&flag.trim_ascii()))
    };
    let is_durable = match name {
        b"openat" => has(arguments[2], &[b"O_DSYNC", b"O_SYNC"]),
        b"open" => has(arguments[1], &[b"O_DSYNC", b"O_SYNC"]),
        b"pwritev2" => has(arguments[4], &[b"RWF_DSYNC", b"RWF_SYNC"]),
        _ => false,
    };
    let control =
        if kind == Kind::Control { control(arguments[1].trim_ascii(), arguments[2]) } else { None };
    let is_process = kind == Kind::Clone && memchr::memmem::find(text, b"CLONE_FILES").is_none();
    // With -y, a call that opens a file says after the result which file it opened.
    let opened = if kind == Kind::Open && cursor.eat(b"<").is_some() {
        angle_end(cursor.rest)
            .map(|n| unescaped(&cursor.rest[..n]))
            .filter(|path| path.starts_with(b"/"))
    } else {
        None
    };
    let took = memchr::memrchr(b'<', cursor.rest)
        .and_then(|at| Cursor::new(&cursor.rest[at + 1..]).seconds());
    Some(Call {
        kind,
        descriptor: descriptor.number,
        file: opened.or(descriptor.file),
        is_file: descriptor.is_file && !is_folder,
        offset,
        result,
        is_durable,
        control,
        is_process,
        took_ns: took.unwrap_or(0),
    })
}

/// `F_SETLK, {l_type=F_WRLCK, l_whence=SEEK_SET, l_start=120, l_len=1}`
fn control(command: &[u8], lock: &[u8]) -> Option<Control> {
    match command {
        b"F_DUPFD" | b"F_DUPFD_CLOEXEC" => return Some(Control::Duplicate),
        b"F_SETLK" | b"F_SETLKW" | b"F_OFD_SETLK" | b"F_OFD_SETLKW" | b"F_SETLK64"
        | b"F_SETLKW64" => {}
        _ => return None,
    }
    let number = |label: &[u8]| {
        let at = memchr::memmem::find(lock, label)? + label.len();
        Cursor::new(&lock[at..]).number()
    };
    if (number(b"l_start="), number(b"l_len=")) != (Some(WRITE_LOCK_AT), Some(1)) {
        return None;
    }
    let is = |kind: &[u8]| memchr::memmem::find(lock, kind).is_some();
    if is(b"l_type=F_WRLCK") {
        Some(Control::Lock)
    } else {
        is(b"l_type=F_UNLCK").then_some(Control::Unlock)
    }
}

/// Descriptor and file of a call of which only the begin is known. `None` in another notation.
pub(super) fn file_of_begun(begun: &[u8]) -> Option<(u64, Option<Cow<'_, [u8]>>)> {
    let mut cursor = Cursor::new(begun);
    cursor.until(b'(')?;
    let Descriptor { number, file, .. } = descriptor(cursor.rest)?;
    Some((number, file))
}

/// A file that a call names by a string. The string is relative to `folder` unless it begins with a
/// slash.
fn named<'a>(folder: Option<&'a [u8]>, argument: &'a [u8]) -> Option<Descriptor<'a>> {
    let path = argument.trim_ascii().strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    let file = if path.starts_with(b"/") {
        Some(unescaped(path))
    } else {
        folder.and_then(angled).map(|folder| {
            let mut whole = unescaped(folder).into_owned();
            if !whole.ends_with(b"/") {
                whole.push(b'/');
            }
            whole.extend_from_slice(&unescaped(path));
            Cow::Owned(whole)
        })
    };
    Some(Descriptor { number: 0, file, is_file: true })
}

/// The path of `AT_FDCWD</path>` or `3</path>`.
fn angled(argument: &[u8]) -> Option<&[u8]> {
    let at = memchr::memchr(b'<', argument)? + 1;
    let rest = &argument[at..];
    let path = &rest[..angle_end(rest)?];
    path.starts_with(b"/").then_some(path)
}

struct Descriptor<'a> {
    number: u64,
    file: Option<Cow<'a, [u8]>>,
    is_file: bool,
}

fn descriptor(argument: &[u8]) -> Option<Descriptor<'_>> {
    let mut cursor = Cursor::new(argument);
    let number = cursor.spaces().number()?;
    if cursor.eat(b"<").is_none() {
        return Some(Descriptor { number, file: None, is_file: true });
    }
    let n = angle_end(cursor.rest)?;
    let path = &cursor.rest[..n];
    let path = path.strip_suffix(b" (deleted)").unwrap_or(path);
    // A device's own numbers stand behind its path.
    let (path, device) = match memchr::memchr(b'<', path) {
        Some(at) => (&path[..at], &path[at..]),
        None => (path, &path[..0]),
    };
    let is_file = path.starts_with(b"/") && !device.starts_with(b"<char ");
    Some(Descriptor { number, file: is_file.then(|| unescaped(path)), is_file })
}

/// Where the `>` stands that ends a `<` before this text. The arrow of sockets ("->") ends nothing.
fn angle_end(text: &[u8]) -> Option<usize> {
    let mut depth = 1;
    for at in memchr::memchr2_iter(b'<', b'>', text) {
        if text[at] == b'<' {
            depth += 1;
        } else if at == 0
            || text[at - 1] != b'-'
            || text.get(at + 1).is_none_or(|b| matches!(b, b',' | b')' | b' ' | b'('))
        {
            depth -= 1;
        }
        if depth == 0 {
            return Some(at);
        }
    }
    None
}

/// Arguments that are looked at; later ones are passed over.
const ARGUMENTS_MAX: usize = 5;

/// The arguments before the parenthesis that ends the call, and the text behind it.
fn arguments(text: &[u8]) -> Option<([&[u8]; ARGUMENTS_MAX], &[u8])> {
    let mut arguments = [&b""[..]; ARGUMENTS_MAX];
    let (mut n, mut start, mut depth) = (0, 0, 0u32);
    let mut at = 0;
    while at < text.len() {
        match text[at] {
            b'"' => at += string_end(&text[at + 1..])?,
            b'<' => at += 1 + angle_end(&text[at + 1..])?,
            b'(' | b'[' | b'{' => depth += 1,
            b')' if depth == 0 => {
                if n < ARGUMENTS_MAX {
                    arguments[n] = &text[start..at];
                }
                return Some((arguments, &text[at + 1..]));
            }
            b')' | b']' | b'}' => depth = depth.checked_sub(1)?,
            b',' if depth == 0 => {
                if n < ARGUMENTS_MAX {
                    arguments[n] = &text[start..at];
                }
                n += 1;
                start = at + 1;
            }
            _ => {}
        }
        at += 1;
    }
    None
}

/// Bytes up to and with the quote that ends a string.
fn string_end(text: &[u8]) -> Option<usize> {
    let mut escaped = false;
    for (at, &b) in text.iter().enumerate() {
        match b {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return Some(at + 1),
            _ => {}
        }
    }
    None
}

fn unescaped(path: &[u8]) -> Cow<'_, [u8]> {
    if memchr::memchr(b'\\', path).is_none() {
        return Cow::Borrowed(path);
    }
    let mut out = Vec::with_capacity(path.len());
    let mut rest = path;
    while let Some((&b, behind)) = rest.split_first() {
        rest = behind;
        if b != b'\\' {
            out.push(b);
            continue;
        }
        let octal = rest.iter().take(3).take_while(|b| (b'0'..=b'7').contains(b)).count();
        if octal > 0 {
            out.push(
                rest[..octal].iter().fold(0u32, |value, b| value * 8 + u32::from(b - b'0')) as u8
            );
            rest = &rest[octal..];
        } else if let Some((&b, behind)) = rest.split_first() {
            rest = behind;
            out.push(match b {
                b'n' => b'\n',
                b't' => b'\t',
                b'r' => b'\r',
                b'v' => 0x0b,
                b'f' => 0x0c,
                other => other,
            });
        }
    }
    Cow::Owned(out)
}
