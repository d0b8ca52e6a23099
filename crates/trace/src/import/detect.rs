//! Which format a trace has, by its first bytes or lines. The file's name says nothing.

use std::fmt;

use super::{androtrace, blkparse, blktrace, ftrace, most, perf, strace};

/// A line of a known format must stand in so many bytes.
pub(super) const LOOKED_AT_BYTES: usize = 64 << 10;

/// The tool that wrote a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// `trace` and `trace_pipe` of tracefs, `trace-cmd report`.
    Ftrace,
    /// `blkparse` in its default form.
    Blkparse,
    /// `blkparse` in the form of MOST, the mobile storage analyzer. It has columns for the block's
    /// type and the file.
    Most,
    /// `blktrace`, or `blkparse -d`.
    Blktrace,
    /// `perf script`.
    Perf,
    /// `strace`, best with `-f -ttt -yy -T`.
    Strace,
    /// AndroTrace's `.uio` files.
    AndroTrace,
}

impl Format {
    /// In the order in which they are looked for.
    pub const ALL: [Format; 7] = [
        Format::Blktrace,
        Format::Ftrace,
        Format::Perf,
        Format::Most,
        Format::Blkparse,
        Format::Strace,
        Format::AndroTrace,
    ];

    /// As the refusal of another file names it.
    fn sign(self) -> &'static str {
        match self {
            Format::Ftrace => "ftrace text",
            Format::Blkparse => "blkparse text (also of MOST)",
            Format::Most => "",
            Format::Blktrace => "blktrace records",
            Format::Perf => "perf script",
            Format::Strace => "strace -f -ttt -yy -T",
            Format::AndroTrace => "AndroTrace (.uio)",
        }
    }

    fn recognizes_line(self, line: &[u8]) -> bool {
        match self {
            Format::Ftrace => ftrace::recognizes(line),
            Format::Blkparse => blkparse::recognizes(line),
            Format::Most => most::recognizes(line),
            Format::Perf => perf::recognizes(line),
            Format::Strace => strace::recognizes(line),
            Format::Blktrace | Format::AndroTrace => false,
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            Format::Ftrace => "ftrace text",
            Format::Blkparse => "blkparse text",
            Format::Most => "blkparse text of MOST",
            Format::Blktrace => "blktrace records",
            Format::Perf => "perf script text",
            Format::Strace => "strace text",
            Format::AndroTrace => "AndroTrace records",
        })
    }
}

/// The format of a trace. `None` asks for more bytes, if there are any. `ended`: `begin` is the
/// whole trace, so that its last line is whole too.
pub(super) fn format(begin: &[u8], ended: bool) -> Option<Format> {
    if blktrace::recognizes(begin) {
        return Some(Format::Blktrace);
    }
    let mut lines = begin;
    while let Some(n) =
        memchr::memchr(b'\n', lines).or((ended && !lines.is_empty()).then_some(lines.len()))
    {
        let line = lines[..n].strip_suffix(b"\r").unwrap_or(&lines[..n]);
        if let Some(format) = Format::ALL.into_iter().find(|format| format.recognizes_line(line)) {
            return Some(format);
        }
        lines = &lines[(n + 1).min(lines.len())..];
    }
    androtrace::recognizes(begin, ended).then_some(Format::AndroTrace)
}

/// All that was looked for, in one line.
pub(super) fn looked_for() -> String {
    let signs: Vec<&str> =
        Format::ALL.iter().map(|format| format.sign()).filter(|sign| !sign.is_empty()).collect();
    signs.join(", ")
}

/// `     0.123 ( 0.005 ms): app/1234 fdatasync(fd: 3</a.db>) = 0`
/// `     0.050 app/1234 block:block_rq_issue(dev: 266338304, sector: 22839309, …)`
fn is_perf_trace(begin: &[u8]) -> bool {
    let is_call = |line: &[u8]| {
        memchr::memmem::find(line, b" ms): ").is_some_and(|at| line[..at].contains(&b'('))
            && line.contains(&b'/')
    };
    let is_event = |line: &[u8]| {
        let mut words = line.split(|byte| *byte == b' ').filter(|word| !word.is_empty());
        let is_time =
            words.next().is_some_and(|word| word.contains(&b'.') && word[0].is_ascii_digit());
        let arguments = memchr::memchr(b'(', line).map(|at| &line[..at]);
        let is_named = |head: &[u8]| head.contains(&b'/') && head.contains(&b':');
        is_time && arguments.is_some_and(is_named)
    };
    let is_it = |line: &[u8]| is_call(line) || is_event(line);
    begin.split(|b| *b == b'\n').take(20).any(is_it)
}

/// Where the head of a file that is no trace is looked for.
const HINT_BYTES: usize = 4096;

/// What a file that is no trace of ours is, and the way out.
pub(super) fn hint(begin: &[u8]) -> Option<&'static str> {
    let blktrace_of_another_version = begin.starts_with(b"eat") || begin.get(1..4) == Some(b"tae");
    let has =
        |text: &[u8]| memchr::memmem::find(&begin[..begin.len().min(HINT_BYTES)], text).is_some();
    if begin.starts_with(b"PERFILE2") {
        Some("It is perf's own recording: `perf script -i FILE > trace.txt` makes text of it")
    } else if (has(b"TIME(s)") || has(b"TIME(ms)")) && has(b"COMM") && has(b"DISK") {
        Some(
            "It is the text of biosnoop, which has no flushes and no file names: record with \
                `oneflush trace`, \
             or with `trace-cmd record -e block -e ext4`, and convert that by `trace-cmd report`",
        )
    } else if begin.starts_with(b"Attaching ")
        || has(b"\nAttaching ")
        || begin.starts_with(b"@")
        || begin.starts_with(b"{\"type\": \"attached_probes\"")
    {
        Some(
            "It is the output of bpftrace, whose form is its program's own: record with `oneflush \
                trace`, \
             or with `trace-cmd record -e block -e ext4`, and convert that by `trace-cmd report`",
        )
    } else if is_perf_trace(begin) {
        Some(
            "It is the text of `perf trace`: record with `perf record -e 'block:*'` and convert \
                that by \
             `perf script > trace.txt`, or record calls with `strace -f -ttt -yy -T`",
        )
    } else if begin.starts_with(b"\x17\x08\x44tracing") {
        Some(
            "It is trace-cmd's own recording: `trace-cmd report -i FILE > trace.txt` makes text of \
                it",
        )
    } else if blktrace_of_another_version {
        Some(
            "It is blktrace's, of a version other than 7: `blkparse -i FILE > trace.txt` makes \
                text of it",
        )
    } else if begin.starts_with(b"SQLite format 3\0") {
        Some("It is a database, not a trace")
    } else if begin.starts_with(b"\xfd7zXZ\0")
        || begin.starts_with(b"BZh")
        || begin.starts_with(b"PK\x03\x04")
    {
        Some(
            "It is packed in a way that is not read here: unpack it first (gzip and zstd are read \
                as they are)",
        )
    } else {
        None
    }
}
