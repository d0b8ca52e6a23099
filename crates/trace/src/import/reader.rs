//! Hands out a trace's events one by one, whatever its format, and keeps the account of the rest.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::blktrace::Processes;
use super::detect::{self, Format, LOOKED_AT_BYTES};
use super::line::{Interner, Line};
use super::source::{Source, Text};
use super::strace::Strace;
use super::{
    FACTS_FORMAT, Facts, ImportError, Skipped, androtrace, blkparse, blktrace, facts, ftrace, most,
    perf,
};
use crate::model::{Event, Names};

/// Reads a trace from its begin to its end.
pub struct Reader {
    name: String,
    format: Format,
    /// Several parts if blktrace wrote a file for each processor.
    parts: Vec<Part>,
    shared: Shared,
    /// Time of the newest event so far.
    newest_ns: u64,
}

/// What all parts of a trace fill.
#[derive(Default)]
struct Shared {
    names: Interner,
    skipped: Skipped,
    facts: Facts,
    processes: Processes,
}

/// Why a part gives no more events.
enum Fault {
    Read(io::Error),
    /// The recording is of this format.
    Newer(u64),
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Fault {
        Fault::Read(error)
    }
}

struct Part {
    source: Source,
    strace: Strace,
    /// Lines or records read.
    number: u64,
    /// The second and third event of a line whose first event is handed out.
    more: [Option<Event>; 2],
    /// The next event of this part, where parts are merged.
    next: Option<Event>,
    damaged: Vec<u8>,
}

/// Opens a trace in any of the known formats. Any one of blktrace's files for each processor
/// (`sda.blktrace.0` …) stands for all.
pub fn open(path: &Path) -> Result<Reader, ImportError> {
    open_through(path, |file| file)
}

/// The same. Every file is read through the reader that `wrap` makes of it.
pub fn open_through<R: Read + Send + 'static>(
    path: &Path,
    wrap: impl Fn(File) -> R,
) -> Result<Reader, ImportError> {
    let name = path.display().to_string();
    let open_file = |path: &Path| match open_to_read(path) {
        Ok(file) => Ok(wrap(file)),
        Err(source) => Err(ImportError::Open { name: path.display().to_string(), source }),
    };
    let parts = parts(path);
    if parts.len() < 2 {
        return Reader::from_read(name, open_file(path)?);
    }
    let mut reader: Option<Reader> = None;
    for part in parts {
        match (Reader::from_read(part.display().to_string(), open_file(&part)?), &mut reader) {
            // An empty file: its processor did nothing.
            (Err(ImportError::Empty { .. }), _) => {}
            (Err(error), _) => return Err(error),
            (Ok(first), None) => reader = Some(Reader { name: name.clone(), ..first }),
            (Ok(mut more), Some(reader)) => reader.parts.append(&mut more.parts),
        }
    }
    let mut reader = reader.ok_or(ImportError::Empty { name })?;
    if reader.parts.len() > 1 {
        for n in 0..reader.parts.len() {
            reader.parts[n].next = reader.advance(n)?;
        }
    }
    Ok(reader)
}

/// A pipe is opened at once, whether somebody writes to it or not. Who reads it through a reader
/// that polls can be interrupted while it waits.
fn open_to_read(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    let flags = rustix::fs::OFlags::NONBLOCK.bits() as i32;
    File::options().read(true).custom_flags(flags).open(path)
}

/// The files that are one trace with this one, itself among them. They are all files of the form
/// `x.blktrace.N` beside it. Empty if `path` is not of that form.
pub fn parts(path: &Path) -> Vec<PathBuf> {
    let numbered = |name: &str| {
        let (base, number) = name.rsplit_once('.')?;
        (base.ends_with(".blktrace")
            && !number.is_empty()
            && number.bytes().all(|b| b.is_ascii_digit()))
        .then(|| (base.to_owned(), number.parse::<u32>().ok()))
    };
    let Some((base, _)) = path.file_name().and_then(|name| numbered(name.to_str()?)) else {
        return Vec::new();
    };
    let folder =
        path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let Ok(entries) = folder.read_dir() else { return Vec::new() };
    let mut parts: Vec<(Option<u32>, PathBuf)> = entries
        .flatten()
        .filter_map(|entry| {
            let (its_base, number) = numbered(entry.file_name().to_str()?)?;
            (its_base == base).then(|| (number, entry.path()))
        })
        .collect();
    parts.sort();
    parts.into_iter().map(|(_, path)| path).collect()
}

impl Reader {
    /// Reads a trace out of anything that can be read. `name` stands in messages.
    pub fn from_read(
        name: impl Into<String>,
        read: impl Read + Send + 'static,
    ) -> Result<Reader, ImportError> {
        Self::new(name.into(), read, None)
    }

    /// The same for a caller who knows the format: nothing is looked for.
    pub fn with_format(
        name: impl Into<String>,
        read: impl Read + Send + 'static,
        format: Format,
    ) -> Result<Reader, ImportError> {
        Self::new(name.into(), read, Some(format))
    }

    fn new(
        name: String,
        read: impl Read + Send + 'static,
        format: Option<Format>,
    ) -> Result<Reader, ImportError> {
        let unreadable = |source| ImportError::Read { name: name.clone(), after: 0, source };
        let mut source = Source::new(read).map_err(unreadable)?;
        let is_looked_for = format.is_none();
        let format = match format {
            Some(format) => format,
            None => loop {
                if let Some(format) = detect::format(source.held(), source.ended()) {
                    break format;
                }
                if source.cut_off.is_some() && !source.held().contains(&b'\n') {
                    return Err(ImportError::CutOff { name });
                }
                if source.ended() && source.held().is_empty() {
                    return Err(ImportError::Empty { name });
                }
                if source.ended() || source.held().len() >= LOOKED_AT_BYTES {
                    return Err(ImportError::Unknown {
                        name,
                        bytes: source.held().len(),
                        hint: detect::hint(source.held()),
                        looked_for: detect::looked_for(),
                    });
                }
                source.fill().map_err(unreadable)?;
            },
        };
        // Not where the format is given: a reader of what comes should not wait for it.
        if is_looked_for && format == Format::Ftrace {
            while facts::may_follow(source.held()) && !source.ended() {
                let held = source.held().len();
                source.fill().map_err(unreadable)?;
                if source.held().len() >= LOOKED_AT_BYTES || source.held().len() == held {
                    break;
                }
            }
            if let Some(format) = facts::newer(source.held()) {
                return Err(ImportError::Newer { name, format, known: FACTS_FORMAT });
            }
        }
        let part = Part {
            source,
            strace: Strace::default(),
            number: 0,
            more: [None; 2],
            next: None,
            damaged: Vec::new(),
        };
        Ok(Reader { name, format, parts: vec![part], shared: Shared::default(), newest_ns: 0 })
    }

    /// The next event, in the order of the trace; `None` at its end.
    #[expect(
        clippy::should_implement_trait,
        reason = "an iterator of results would go on after an error"
    )]
    pub fn next(&mut self) -> Result<Option<Event>, ImportError> {
        let event = match self.parts.len() {
            1 => self.advance(0)?,
            _ => {
                let Some(earliest) = (0..self.parts.len())
                    .filter(|n| self.parts[*n].next.is_some())
                    .min_by_key(|n| self.parts[*n].next.map(|event| event.time_ns))
                else {
                    return Ok(None);
                };
                let event = self.parts[earliest].next.take();
                self.parts[earliest].next = self.advance(earliest)?;
                event
            }
        };
        if let Some(event) = event
            && event.has_time()
        {
            // A call is told when it ends, and therefore not in the order of the beginnings.
            let is_behind = event.time_ns < self.newest_ns && self.format != Format::Strace;
            self.shared.skipped.disordered += u64::from(is_behind);
            self.newest_ns = self.newest_ns.max(event.time_ns);
        }
        Ok(event.map(|mut event| {
            // Not earlier: the file of a processor that is merged later may name a thread.
            if self.format == Format::Blktrace {
                event.actor.name = self.shared.processes.name(event.actor.thread);
            }
            event
        }))
    }

    pub fn names(&self) -> &Names {
        &self.shared.names.names
    }

    pub fn format(&self) -> Format {
        self.format
    }

    /// The times say how long things took, as far as the trace was read.
    pub fn has_times(&self) -> bool {
        self.parts.iter().all(|part| part.strace.lacks().times.is_none())
    }

    /// What the recording says of itself, as far as it was read.
    pub fn facts(&self) -> &Facts {
        &self.shared.facts
    }

    /// The lines and records up to here that gave no event.
    pub fn skipped(&self) -> &Skipped {
        &self.shared.skipped
    }

    fn advance(&mut self, part: usize) -> Result<Option<Event>, ImportError> {
        let part = &mut self.parts[part];
        part.advance(self.format, &mut self.shared).map_err(|fault| {
            let name = self.name.clone();
            match fault {
                Fault::Read(source) => ImportError::Read { name, after: part.number, source },
                Fault::Newer(format) => ImportError::Newer { name, format, known: FACTS_FORMAT },
            }
        })
    }
}

impl Part {
    fn advance(&mut self, format: Format, shared: &mut Shared) -> Result<Option<Event>, Fault> {
        if let Some(event) = self.more[0].take() {
            self.more.swap(0, 1);
            return Ok(Some(event));
        }
        loop {
            let read = match format {
                Format::Blktrace | Format::AndroTrace => self.record(format, shared)?,
                Format::Ftrace
                | Format::Blkparse
                | Format::Most
                | Format::Perf
                | Format::Strace => self.line(format, shared)?,
            };
            let Some(line) = read else {
                shared.skipped.cut_off = shared.skipped.cut_off.or(self.source.cut_off);
                shared.skipped.names_left_out = shared.names.left_out;
                let lacks = self.strace.lacks();
                shared.skipped.no_times = lacks.times;
                shared.skipped.nameless_calls = lacks.nameless_count;
                return Ok(None);
            };
            match line {
                Line::Event(event) => return Ok(Some(event)),
                Line::Two(first, second) => {
                    self.more = [Some(second), None];
                    return Ok(Some(first));
                }
                Line::Three(first, second, third) => {
                    self.more = [Some(second), Some(third)];
                    return Ok(Some(first));
                }
                Line::Ignored => shared.skipped.ignored += 1,
                Line::Lost(number) => shared.skipped.lost(number),
                Line::Nothing | Line::NotUnderstood => {}
            }
        }
    }

    fn line(&mut self, format: Format, shared: &mut Shared) -> Result<Option<Line>, Fault> {
        let Some(text) = self.source.line()? else { return Ok(None) };
        self.number += 1;
        let (range, whole) = match text {
            Text::Line(range) => (range, true),
            Text::TooLong(range) => {
                shared.skipped.not_understood(self.number, self.source.bytes(range));
                return Ok(Some(Line::NotUnderstood));
            }
            // Half a line may look like a whole one, with half a number in it.
            Text::Unended(_) if self.source.cut_off.is_some() => return Ok(None),
            Text::Unended(range) => {
                self.source.cut_off = Some("the last line has no end");
                (range, false)
            }
        };
        let bytes = self.source.bytes(range);
        if format == Format::Ftrace {
            shared.facts.line(bytes).map_err(Fault::Newer)?;
        }
        let names = &mut shared.names;
        let line = match format {
            Format::Ftrace => ftrace::line(bytes, names),
            Format::Blkparse => blkparse::line(bytes, names),
            Format::Most => most::line(bytes, names),
            Format::Perf => perf::line(bytes, names),
            Format::Strace => self.strace.line(bytes, names),
            Format::Blktrace | Format::AndroTrace => unreachable!("these are of records"),
        };
        if line == Line::NotUnderstood && whole {
            shared.skipped.not_understood(self.number, bytes);
        }
        Ok(Some(line))
    }

    fn record(&mut self, format: Format, shared: &mut Shared) -> io::Result<Option<Line>> {
        self.damaged.clear();
        let names = &mut shared.names;
        let line = if format == Format::Blktrace {
            blktrace::record(&mut self.source, names, &mut shared.processes, &mut self.damaged)?
        } else {
            androtrace::record(&mut self.source, names, &mut self.damaged)?
        };
        if line.is_some() {
            self.number += 1;
        }
        if line == Some(Line::NotUnderstood) {
            shared.skipped.not_understood_record(self.number, &self.damaged);
        }
        Ok(line)
    }
}
