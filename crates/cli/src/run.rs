//! `oneflush run -- CMD…`: an unmodified program with Oneflush as its default VFS.
//!
//! The program is started with `liboneflush_preload.so` in `LD_PRELOAD`, which lets the program's own SQLite load
//! `liboneflush.so` when the first database is opened.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use clap::Args;
use oneflush_vfs::StrategyKind;
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::Failure;
use crate::library::{self, EXTENSION, LibraryError};

const EXAMPLES: &str = "Examples:
  oneflush run -- sqlite3 app.db \"PRAGMA oneflush_stats\"
  oneflush run --strategy stock -- python3 app.py

The program must link libsqlite3.so dynamically, as the sqlite3 shell and
Python's sqlite3 module do. For one that has SQLite built in, load the extension
instead: SELECT load_extension('liboneflush.so'), or ONEFLUSH_DEFAULT=1 with the
driver's own way.";

const PRELOAD: &str = "liboneflush_preload.so";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Options {
    /// Strategy for every database that names none in its URI: auto, stock, plain or eager
    #[arg(long, value_name = "NAME")]
    strategy: Option<StrategyKind>,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum RunError {
    #[error("{0}")]
    Library(#[from] LibraryError),
    #[error("{} cannot be preloaded: its path has a space or a colon; set TMPDIR to one without", .0.display())]
    Unpreloadable(PathBuf),
    #[error("cannot start {command}: {source}")]
    Start { command: String, source: std::io::Error },
    #[error("cannot make a temporary file: {0}")]
    Mark(std::io::Error),
    #[error("cannot listen for signals: {0}")]
    Signals(std::io::Error),
    #[error("lost {command}: {source}")]
    Wait { command: String, source: std::io::Error },
}

/// The exit code is the program's own; 128 and the signal's number if a signal ended it.
pub fn main(options: &Options) -> Result<ExitCode, Failure> {
    run(options).map(ExitCode::from).map_err(Failure::failed)
}

fn run(options: &Options) -> Result<u8, RunError> {
    let variables = options.strategy.map(|strategy| ("ONEFLUSH_STRATEGY", OsString::from(strategy.name())));
    with_variables(&options.command, variables)
}

/// Runs `program` with Oneflush as its default VFS, and with these environment variables.
pub(crate) fn with_variables(
    program: &[OsString],
    variables: impl IntoIterator<Item = (&'static str, OsString)>,
) -> Result<u8, RunError> {
    let extension = library::find(EXTENSION)?;
    let preload = library::find(PRELOAD)?;
    let marks = tempfile::tempdir().map_err(RunError::Mark)?;
    let mark = marks.path().join("loaded");
    let preload = preloadable(preload, marks.path())?;
    let name = program[0].to_string_lossy().into_owned();

    let mut command = Command::new(&program[0]);
    command
        .args(&program[1..])
        .env("LD_PRELOAD", preloads(&preload))
        .env("ONEFLUSH_EXTENSION", extension)
        .env("ONEFLUSH_EXPECTED_VERSION", oneflush_vfs::VERSION)
        .env("ONEFLUSH_RUN_MARK", &mark)
        .env("ONEFLUSH_DEFAULT", "1")
        .envs(variables);
    // The terminal sends Ctrl-C to the program too, and it decides; this process waits for it and cleans up.
    let mut signals = Signals::new([SIGINT, SIGQUIT, SIGTERM, SIGHUP]).map_err(RunError::Signals)?;
    let mut child = command.spawn().map_err(|source| RunError::Start { command: name.clone(), source })?;
    let pid = Pid::from_child(&child);
    let forwarder = signals.handle();
    let listener = std::thread::spawn(move || {
        for signal in signals.forever() {
            let signal = match signal {
                SIGTERM => Signal::TERM,
                SIGHUP => Signal::HUP,
                _ => continue,
            };
            // A program that has just ended needs no signal.
            let _ = kill_process(pid, signal);
        }
    });
    let status = child.wait().map_err(|source| RunError::Wait { command: name.clone(), source });
    forwarder.close();
    let _ = listener.join();
    let status = status?;
    if !mark.exists() {
        eprintln!(
            "oneflush run: {name} opened no database through libsqlite3.so, so Oneflush was not in use; \
             a program with SQLite built in needs the extension: see oneflush run --help"
        );
    }
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1);
    Ok(u8::try_from(code).unwrap_or(1))
}

/// The dynamic linker splits `LD_PRELOAD` at spaces and colons, so a path that has some is preloaded through a link.
fn preloadable(library: PathBuf, folder: &Path) -> Result<PathBuf, RunError> {
    let splits = |path: &Path| path.as_os_str().as_encoded_bytes().iter().any(|byte| b" :".contains(byte));
    if !splits(&library) {
        return Ok(library);
    }
    let link = folder.join(PRELOAD);
    if splits(&link) {
        return Err(RunError::Unpreloadable(link));
    }
    std::os::unix::fs::symlink(&library, &link).map_err(RunError::Mark)?;
    Ok(link)
}

/// What the user preloads already stays, behind ours.
fn preloads(ours: &Path) -> OsString {
    let mut all = ours.as_os_str().to_owned();
    if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
        all.push(":");
        all.push(others);
    }
    all
}
