//! Where the result goes: standard output, or a file that is replaced only when everything is in it.
//!
//! Only whole lines are handed to the kernel, so whoever reads the output, or kills the program, has no half of one.

use std::fs::{File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tempfile::NamedTempFile;

const BUFFER_BYTES: usize = 64 << 10;
/// Whoever watches a trace that is being recorded waits no longer for a line that could be told.
const DELAY: Duration = Duration::from_millis(200);

pub struct Output {
    to: To,
    lines: String,
    flushed: Instant,
}

enum To {
    Stdout,
    /// Something that cannot be replaced: a device, a pipe.
    Special(PathBuf, File),
    Replaced(PathBuf, NamedTempFile),
}

impl Output {
    /// `None`: standard output.
    pub fn new(path: Option<&Path>) -> Result<Output, String> {
        let to = match path {
            None => To::Stdout,
            Some(path) => file(path)
                .map_err(|error| format!("{}: cannot be written: {error}; choose another with -o", path.display()))?,
        };
        Ok(Output { to, lines: String::new(), flushed: Instant::now() })
    }

    pub fn name(&self) -> String {
        match &self.to {
            To::Stdout => "standard output".to_owned(),
            To::Special(path, _) | To::Replaced(path, _) => path.display().to_string(),
        }
    }

    /// `text` without its line feed.
    pub fn line(&mut self, text: &str) -> io::Result<()> {
        self.lines.push_str(text);
        self.lines.push('\n');
        if self.lines.len() >= BUFFER_BYTES || self.flushed.elapsed() >= DELAY {
            self.flush()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        let lines = self.lines.as_bytes();
        match &mut self.to {
            To::Stdout => {
                let mut stdout = io::stdout().lock();
                stdout.write_all(lines)?;
                stdout.flush()?;
            }
            To::Special(_, file) => file.write_all(lines)?,
            To::Replaced(_, file) => file.write_all(lines)?,
        }
        self.lines.clear();
        self.flushed = Instant::now();
        Ok(())
    }

    pub fn finish(mut self) -> Result<(), String> {
        match self.flush() {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
            Err(error) => return Err(format!("{}: {error}", self.name())),
            Ok(()) => {}
        }
        match self.to {
            To::Replaced(path, file) => {
                file.persist(&path).map(drop).map_err(|error| format!("{}: {}", path.display(), error.error))
            }
            To::Stdout | To::Special(..) => Ok(()),
        }
    }
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
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let permissions = known.map_or(Permissions::from_mode(0o666), |known| known.permissions());
    let file = tempfile::Builder::new().prefix(".oneflush-").permissions(permissions).tempfile_in(folder)?;
    Ok(To::Replaced(path, file))
}

/// A trace must not be replaced by what is found in it.
pub fn check_is_no_input(output: &Path, traces: &[PathBuf]) -> Result<(), String> {
    let Ok(output) = output.canonicalize() else { return Ok(()) };
    let is_it = |trace: &&PathBuf| trace.canonicalize().is_ok_and(|trace| trace == output);
    match traces.iter().find(is_it) {
        Some(trace) => Err(format!("-o {}: is one of the traces; choose another file", trace.display())),
        None => Ok(()),
    }
}
