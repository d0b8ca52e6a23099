//! Calls on files, one line each, in the file that `ONEFLUSH_TRACE` names.
//!
//! That is what `oneflush trace --vfs` records, without root. The lines are in strace's notation,
//! so that readers of its traces read them (`oneflush identify`):
//!
//! ```text
//! 3397 1795199476.842279 pwrite64(3</tmp/a.db>, ""..., 4096, 8192) = 4096 <0.000012>
//! 3397 1795199476.842300 fdatasync(3</tmp/a.db>) = 0 <0.001200>
//! ```
//! They are SQLite's calls, before a strategy makes others of them. Each line is appended by one
//! write, so the lines of several threads and processes do not mix. Without the variable a file has
//! no `Calls`, and a call costs one look at that.

use std::ffi::OsStr;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use oneflush_blocklog::belonging::hand_over;

use crate::config::OptionError;
use crate::error::Error;

static LOG: OnceLock<Option<fs::File>> = OnceLock::new();

/// This process has made the file, and no database was opened since.
static IS_NEW: AtomicBool = AtomicBool::new(false);

/// `ONEFLUSH_TRACE`: the file that gets the lines.
pub const VARIABLE: &str = "ONEFLUSH_TRACE";

/// A call on a file, with what strace would show of it.
#[derive(Clone, Copy, Debug)]
pub enum Call {
    Open,
    Write { bytes: usize, offset: u64 },
    Truncate { size_bytes: u64 },
    Sync,
    Delete,
}

/// An open file whose calls are written down.
#[derive(Debug)]
pub struct Calls {
    path: String,
    log: &'static fs::File,
}

/// Reads the variable and opens the file. Called once, before the first file is opened.
pub fn begin() -> Result<(), OptionError> {
    let Some(path) = std::env::var_os(VARIABLE).filter(|path| !path.is_empty()) else {
        LOG.get_or_init(|| None);
        return Ok(());
    };
    let path = Path::new(&path);
    let mut options = OpenOptions::new();
    options.append(true);
    let log = match options.clone().create_new(true).open(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            options.create(true).open(path)
        }
        made => made.inspect(|_| IS_NEW.store(true, Relaxed)),
    };
    let log = log.map_err(|error| OptionError::Trace {
        path: path.display().to_string(),
        reason: error.to_string(),
    })?;
    LOG.get_or_init(|| Some(log));
    Ok(())
}

/// Notes that a database was opened.
///
/// At the first one nothing is written down yet. A new file is then given to the database's owner,
/// who may be another than this process.
pub fn opened_database(path: &[u8]) {
    if let Some(Some(log)) = LOG.get()
        && IS_NEW.swap(false, Relaxed)
    {
        hand_over(log, Path::new(OsStr::from_bytes(path)));
    }
}

/// The beginning of a call. None: no calls are written down.
pub fn begins() -> Option<Began> {
    LOG.get()?.as_ref().map(|_| Began::now())
}

/// Writes down that SQLite has deleted a file, which took since `began`.
pub fn deleted(path: &[u8], began: Option<Began>) {
    if let (Some(calls), Some(began)) = (Calls::of(Some(path)), began) {
        calls.tell(Call::Delete, began, Ok(()));
    }
}

/// When a call began.
#[derive(Clone, Copy, Debug)]
pub struct Began {
    time: SystemTime,
    instant: Instant,
}

impl Began {
    fn now() -> Began {
        Began { time: SystemTime::now(), instant: Instant::now() }
    }
}

impl Calls {
    /// None: no calls are written down, or the file has no name.
    pub fn of(path: Option<&[u8]>) -> Option<Calls> {
        let log = LOG.get()?.as_ref()?;
        Some(Calls { path: escaped(path?), log })
    }

    pub fn around<T>(
        &self,
        call: Call,
        act: impl FnOnce() -> Result<T, Error>,
    ) -> Result<T, Error> {
        let began = Began::now();
        let result = act();
        self.tell(call, began, if result.is_ok() { Ok(()) } else { Err(()) });
        result
    }

    pub fn tell(&self, call: Call, began: Began, result: Result<(), ()>) {
        let line =
            line(rustix::thread::gettid().as_raw_nonzero().get(), &self.path, call, began, result);
        // A trace that cannot be written must not fail what it watches.
        let _ = (&*self.log).write_all(line.as_bytes());
    }
}

fn line(thread: i32, path: &str, call: Call, began: Began, result: Result<(), ()>) -> String {
    let seconds = |time: Duration| format!("{}.{:06}", time.as_secs(), time.subsec_micros());
    let time = seconds(began.time.duration_since(UNIX_EPOCH).unwrap_or_default());
    let (name, arguments, value) = match call {
        Call::Open => ("openat", format!("AT_FDCWD, \"{path}\", O_RDWR|O_CREAT"), 3),
        Call::Write { bytes, offset } => {
            ("pwrite64", format!("3<{path}>, \"\"..., {bytes}, {offset}"), bytes)
        }
        Call::Truncate { size_bytes } => ("ftruncate", format!("3<{path}>, {size_bytes}"), 0),
        Call::Sync => ("fdatasync", format!("3<{path}>"), 0),
        Call::Delete => ("unlink", format!("\"{path}\""), 0),
    };
    let value = match result {
        Ok(()) => value.to_string(),
        Err(()) => "-1 EIO (Input/output error)".to_owned(),
    };
    let took = seconds(began.instant.elapsed());
    format!("{thread} {time} {name}({arguments}) = {value} <{took}>\n")
}

/// The path as strace writes it: what could end a path or the line is octal.
fn escaped(path: &[u8]) -> String {
    let mut escaped = String::with_capacity(path.len());
    for chunk in path.utf8_chunks() {
        for c in chunk.valid().chars() {
            if c.is_ascii_control() || matches!(c, '"' | '\\' | '<' | '>') {
                escaped.push_str(&format!("\\{:03o}", u32::from(c)));
            } else {
                escaped.push(c);
            }
        }
        chunk.invalid().iter().for_each(|byte| escaped.push_str(&format!("\\{byte:03o}")));
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_as_strace_writes_them() {
        let began = Began {
            time: UNIX_EPOCH + Duration::from_micros(1_795_199_476_842_279),
            instant: Instant::now(),
        };
        let line = |call, result| {
            let line = line(7, &escaped(b"/a b<\"\n.db"), call, began, result);
            line.rsplit_once(" <").unwrap().0.to_owned()
        };
        assert_eq!(
            line(Call::Write { bytes: 4096, offset: 8192 }, Ok(())),
            r#"7 1795199476.842279 pwrite64(3</a b\074\042\012.db>, ""..., 4096, 8192) = 4096"#
        );
        assert_eq!(
            line(Call::Delete, Ok(())),
            r#"7 1795199476.842279 unlink("/a b\074\042\012.db") = 0"#
        );
        assert_eq!(escaped("/ä".as_bytes()), "/ä");
        assert_eq!(escaped(b"/\xe4"), r"/\344");
        assert!(line(Call::Sync, Err(())).ends_with(" = -1 EIO (Input/output error)"));
    }
}
