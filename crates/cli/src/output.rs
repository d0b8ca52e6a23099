//! Where the result goes: standard output, or a file that is replaced only when everything is in
//! it.
//!
//! Only whole lines are handed to the kernel. So a reader of the output, or somebody who kills the
//! program, has no half of one.

use std::fs::{File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tempfile::NamedTempFile;

use crate::failure::Failure;

const BUFFER_BYTES: usize = 64 << 10;
/// Whoever watches a trace that is being recorded waits no longer for a line that could be told.
const DELAY: Duration = Duration::from_millis(200);

pub struct Output {
    to: To,
    held: Vec<u8>,
    flushed: Instant,
}

enum To {
    Stdout,
    /// Something that cannot be replaced: a device, a pipe.
    Special(PathBuf, File),
    Replaced(PathBuf, NamedTempFile),
}

impl Output {
    pub fn stdout() -> Output {
        Output { to: To::Stdout, held: Vec::new(), flushed: Instant::now() }
    }

    /// The file that `option` names.
    pub fn named(option: &str, path: &Path) -> Result<Output, String> {
        let unwritable = |error| {
            format!("{}: cannot be written: {error}; choose another with {option}", path.display())
        };
        Ok(Output {
            to: file(path).map_err(unwritable)?,
            held: Vec::new(),
            flushed: Instant::now(),
        })
    }

    pub fn name(&self) -> String {
        match &self.to {
            To::Stdout => "standard output".to_owned(),
            To::Special(path, _) | To::Replaced(path, _) => path.display().to_string(),
        }
    }

    /// `text` without its line feed.
    pub fn line(&mut self, text: &str) -> io::Result<()> {
        self.held.extend_from_slice(text.as_bytes());
        self.held.push(b'\n');
        self.hand_over()
    }

    fn hand_over(&mut self) -> io::Result<()> {
        if self.held.len() >= BUFFER_BYTES || self.flushed.elapsed() >= DELAY {
            self.flush()?;
        }
        Ok(())
    }

    pub fn finish(mut self) -> Result<(), String> {
        match self.flush() {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
            Err(error) => return Err(format!("{}: {error}", self.name())),
            Ok(()) => {}
        }
        match self.to {
            To::Replaced(path, file) => file
                .persist(&path)
                .map(drop)
                .map_err(|error| format!("{}: {}", path.display(), error.error)),
            To::Stdout | To::Special(..) => Ok(()),
        }
    }
}

/// For what is not made of lines.
impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.held.extend_from_slice(bytes);
        self.hand_over()?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.to {
            To::Stdout => {
                let mut stdout = io::stdout().lock();
                stdout.write_all(&self.held)?;
                stdout.flush()?;
            }
            To::Special(_, file) => file.write_all(&self.held)?,
            To::Replaced(_, file) => file.write_all(&self.held)?,
        }
        self.held.clear();
        self.flushed = Instant::now();
        Ok(())
    }
}

/// A result that is told all at once; whoever reads may have seen enough of it (`| head`).
pub fn print(text: &str) -> Result<(), Failure> {
    let mut output = Output::stdout();
    output.held.extend_from_slice(text.as_bytes());
    output.finish().map_err(Failure::failed)
}

/// One of several results, each told all at once. False: whoever reads has seen enough.
pub fn print_next(text: &str) -> Result<bool, Failure> {
    let mut output = Output::stdout();
    output.held.extend_from_slice(text.as_bytes());
    match output.flush() {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Failure::failed(format!("{}: {error}", output.name()))),
    }
}

/// In lines of so many characters, between words; a longer word has a line of its own.
pub fn folded(text: &str, chars_max: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last_mut().map(|line| line.chars().count()).unwrap_or_default();
        match lines.last_mut() {
            Some(last) if line == 0 => last.push_str(word),
            Some(last) if line + 1 + word.chars().count() <= chars_max => {
                last.push(' ');
                last.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

fn file(path: &Path) -> io::Result<To> {
    // A link stays, and what it leads to is replaced.
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    if path.is_dir() {
        return Err(io::Error::from(io::ErrorKind::IsADirectory));
    }
    let known = path.metadata().ok();
    if known.as_ref().is_some_and(|known| !known.is_file()) {
        let file = File::options().write(true).open(&path)?;
        return Ok(To::Special(path, file));
    }
    let folder =
        path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let permissions = known.map_or(Permissions::from_mode(0o666), |known| known.permissions());
    let file = tempfile::Builder::new()
        .prefix(".oneflush-")
        .permissions(permissions)
        .tempfile_in(folder)?;
    Ok(To::Replaced(path, file))
}

/// A trace must not be replaced by what is found in it.
pub fn check_is_no_input(option: &str, output: &Path, traces: &[PathBuf]) -> Result<(), String> {
    let Ok(output) = output.canonicalize() else { return Ok(()) };
    let is_it = |trace: &&PathBuf| trace.canonicalize().is_ok_and(|trace| trace == output);
    match traces.iter().find(is_it) {
        Some(trace) => {
            Err(format!("{option} {}: is one of the traces; choose another file", trace.display()))
        }
        None => Ok(()),
    }
}
