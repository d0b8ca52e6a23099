//! `oneflush run -- CMD…`: an unmodified program with Oneflush as its default VFS.
//!
//! This process becomes the program (`execve`), with `liboneflush_preload.so` in `LD_PRELOAD`. That
//! library lets the program's own SQLite load `liboneflush.so` when the first database is opened.
//! So nothing stands between a supervisor and the program. Signals, process number, exit status,
//! terminal, descriptors and job control are the program's own.
//!
//! With `--engine` the program gets another `libsqlite3.so.0` instead (`run/engine.rs`).

mod engine;
mod program;

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;
use oneflush_measure::handover;
use oneflush_vfs::{OptionError, StrategyKind};

use crate::engine::Engine;
use crate::library::{self, EXTENSION, LibraryError, SQLITE};
use crate::{Failure, exit};
use program::Without;

const EXAMPLES: &str = "Examples:
  oneflush run -- sqlite3 app.db \"PRAGMA oneflush_stats\"
  oneflush run --strategy stock -- python3 app.py
  oneflush run --require -- /srv/app/server
  ONEFLUSH_LOG=/var/log/app/oneflush.log oneflush run -- python3 app.py
  oneflush run --engine lsmvbt -- python3 app.py   # new databases: LS-MVBT

What stands behind the program's name is the program's. `--` before the name may
be left out.

The program must link libsqlite3.so dynamically, as the sqlite3 shell and
Python's sqlite3 module do. For one that has SQLite built in, load the extension
instead: SELECT load_extension('liboneflush.so'), or ONEFLUSH_DEFAULT=1 with the
driver's own way. Oneflush is in one SQLite of a process, the first that opens a
database. Others go on without it. The first file that one of them opens is said
once. With --require the process ends there.

--engine gives the program another libsqlite3.so.0, which opens databases of
SQLite and of LS-MVBT. The engine is for new databases: a file that is there
says itself what it is. (The sqlite3 shell asks for the very SQLite that it was
built with: see oneflush shell.) A program that finds another libsqlite3.so.0 by
DT_RPATH is told so, and ends. One with SQLite built in goes on with that, and
is told so.

oneflush run becomes the program: process number, signals and exit status are
the program's own. Oneflush's messages go to standard error, unless ONEFLUSH_LOG
is off, syslog or a file.";

const PRELOAD: &str = "liboneflush_preload.so";
/// That a process ends which opens a database without Oneflush, for the library that is preloaded.
const REQUIRE_VARIABLE: &str = "ONEFLUSH_RUN_REQUIRE";

/// What SQLite's shell was built from, for the one that is preloaded.
pub(crate) const SHELL_SOURCE: &str = "ONEFLUSH_SHELL_SOURCE";
/// As `env` and shells have them.
const CANNOT_EXECUTE: u8 = 126;
const NOT_FOUND: u8 = 127;

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Options {
    /// Strategy for every database that names none in its URI: auto, stock, plain, eager, waldio or
    /// maw
    #[arg(long, value_name = "NAME", value_parser = strategy)]
    strategy: Option<String>,
    /// Engine of new databases, without a strategy: lsmvbt, or sqlite. Existing ones of both open
    #[arg(long, value_name = "NAME")]
    engine: Option<Engine>,
    /// Do not start a program that cannot have Oneflush; end one that opens a database by another
    /// SQLite (exit code 3)
    #[arg(long)]
    require: bool,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// The word itself. A user of `auto` has not asked for `plain` by name, and is not told where it
/// changes nothing.
fn strategy(word: &str) -> Result<String, OptionError> {
    word.parse::<StrategyKind>().map(|_| word.to_owned())
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum RunError {
    #[error("{0}")]
    Library(#[from] LibraryError),
    #[error("{} cannot be preloaded: its path has a space or a colon; set TMPDIR to one \
        without [OF-503]", .0.display())]
    Unpreloadable(PathBuf),
    #[error("cannot start {command}: {source} [OF-504]")]
    Start { command: String, source: io::Error },
    #[error("{}: cannot be made, so that {PRELOAD} can be preloaded: {source}; set TMPDIR to \
        another folder [OF-505]", .link.display())]
    Link { link: PathBuf, source: io::Error },
    #[error(
        "--engine and --strategy exclude each other: a strategy is for the journal or WAL of \
        SQLite's own engine, and the library of --engine is not the extension; leave one of both \
        out [OF-513]"
    )]
    EngineAndStrategy,
    #[error("{}: cannot be made, so that the program finds {SQLITE}: {source}; set TMPDIR to \
        another folder [OF-514]", .folder.display())]
    Folder { folder: PathBuf, source: io::Error },
    #[error("{}: the dynamic linker splits this path; set TMPDIR to one without a colon or \
        semicolon [OF-515]", .0.display())]
    Split(PathBuf),
    #[error("{name} is not started: --require was given, and it {without} [OF-535]")]
    Required { name: String, without: Without },
}

impl From<RunError> for Failure {
    fn from(error: RunError) -> Failure {
        let code = match &error {
            RunError::Start { source, .. } if source.kind() == io::ErrorKind::NotFound => NOT_FOUND,
            RunError::Start { .. } => CANNOT_EXECUTE,
            RunError::EngineAndStrategy => 2,
            RunError::Required { .. } => exit::REFUSED,
            RunError::Library(_)
            | RunError::Unpreloadable(_)
            | RunError::Link { .. }
            | RunError::Folder { .. }
            | RunError::Split(_) => 1,
        };
        Failure::WithCode(error.into(), code)
    }
}

/// Returns only if there is no program to become.
pub fn main(options: &Options) -> Result<(), Failure> {
    if options.require
        && let Some(without) = program::without(&options.command[0])
    {
        let name = options.command[0].to_string_lossy().into_owned();
        return Err(RunError::Required { name, without }.into());
    }
    let require = options.require.then(|| (REQUIRE_VARIABLE, OsString::from("1")));
    if let Some(engine) = options.engine {
        let is_alone = options.strategy.is_none();
        return Ok(match is_alone {
            true => {
                becomes(&options.command, engine::variables(engine)?.into_iter().chain(require))
            }
            false => Err(RunError::EngineAndStrategy),
        }?);
    }
    let strategy =
        options.strategy.as_ref().map(|strategy| ("ONEFLUSH_STRATEGY", OsString::from(strategy)));
    Ok(with_variables(&options.command, strategy.into_iter().chain(require))?)
}

/// Becomes `program` with Oneflush as its default VFS, and with these environment variables.
pub(crate) fn with_variables(
    program: &[OsString],
    variables: impl IntoIterator<Item = (&'static str, OsString)>,
) -> Result<(), RunError> {
    let ours = [
        ("ONEFLUSH_EXTENSION", library::find(EXTENSION)?.into_os_string()),
        ("ONEFLUSH_EXPECTED_VERSION", oneflush_vfs::VERSION.into()),
        ("ONEFLUSH_DEFAULT", "1".into()),
    ];
    becomes(program, ours.into_iter().chain(variables))
}

fn becomes(
    program: &[OsString],
    variables: impl IntoIterator<Item = (&'static str, OsString)>,
) -> Result<(), RunError> {
    let name = program[0].to_string_lossy().into_owned();
    let source = handover::become_program(&mut command(program, variables)?);
    Err(RunError::Start { command: name, source })
}

/// `program`, with the library that is preloaded and with these environment variables.
fn command(
    program: &[OsString],
    variables: impl IntoIterator<Item = (&'static str, OsString)>,
) -> Result<Command, RunError> {
    let preload = preloadable(library::find(PRELOAD)?)?;
    let name = program[0].to_string_lossy();
    let without = program::without(&program[0]);
    if let Some(without) = without {
        eprintln!(
            "oneflush run: {name} {without}, so Oneflush cannot be loaded and is not in use; a \
                program with SQLite built in needs the extension: see oneflush run --help [OF-506]"
        );
    }
    let us = std::process::id().to_string();
    let mut command = Command::new(&program[0]);
    command.args(&program[1..]).env("ONEFLUSH_RUN_PID", &us);
    // Its dynamic linker would complain, and musl's would not start it.
    if without != Some(Without::Foreign) {
        command.env("LD_PRELOAD", before(&preload, "LD_PRELOAD"));
    }
    // Of another `oneflush run` that this one is a child of.
    for variable in ["ONEFLUSH_EXTENSION", engine::LIBRARY_VARIABLE, REQUIRE_VARIABLE, SHELL_SOURCE]
    {
        command.env_remove(variable);
    }
    if without.is_some() {
        command.env("ONEFLUSH_RUN_TOLD", us);
    }
    command.envs(variables);
    // The program may close descriptor 2 and open another file in its place.
    if let Ok(stderr) = rustix::fs::fstat(io::stderr()) {
        command.env(
            "ONEFLUSH_RUN_STDERR",
            format!("{}:{}:{}", std::process::id(), stderr.st_dev, stderr.st_ino),
        );
    }
    if std::env::var_os(oneflush_vfs::LOG_VARIABLE).is_none() {
        command.env(oneflush_vfs::LOG_VARIABLE, "stderr");
    }
    Ok(command)
}

/// A program whose SQLite has both engines. New databases are of this one.
pub(crate) fn with_engine(program: &OsStr, engine: Engine) -> Result<Command, RunError> {
    command(&[program.to_owned()], engine::variables(engine)?)
}

/// The dynamic linker splits `LD_PRELOAD` at spaces and colons. A path that has some is preloaded
/// through a link. The program and its children need the link for as long as they run, so the link
/// stays. Its name says whose it is and where it leads, so there is only one.
fn preloadable(library: PathBuf) -> Result<PathBuf, RunError> {
    let splits =
        |path: &Path| path.as_os_str().as_encoded_bytes().iter().any(|byte| b" :".contains(byte));
    if !splits(&library) {
        return Ok(library);
    }
    let user = rustix::process::geteuid().as_raw();
    let metadata =
        library.metadata().map_err(|source| RunError::Link { link: library.clone(), source })?;
    let name = format!("oneflush-preload-{user}-{:x}-{:x}.so", metadata.dev(), metadata.ino());
    let link = std::env::temp_dir().join(name);
    if splits(&link) {
        return Err(RunError::Unpreloadable(link));
    }
    let made = |source| RunError::Link { link: link.clone(), source };
    match std::os::unix::fs::symlink(&library, &link) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            // A link of somebody else could lead to his code.
            let is_ours = fs::symlink_metadata(&link).is_ok_and(|link| link.uid() == user);
            if !is_ours {
                return Err(made(io::Error::new(
                    error.kind(),
                    "it is there and belongs to somebody else",
                )));
            }
            if fs::read_link(&link).is_ok_and(|target| target == library) {
                return Ok(link);
            }
            replace(&library, &link).map_err(made)?;
        }
        linked => linked.map_err(made)?,
    }
    Ok(link)
}

/// In one step: others may be about to use the link.
fn replace(library: &Path, link: &Path) -> io::Result<()> {
    let new = link.with_extension(format!("{}.new", std::process::id()));
    std::os::unix::fs::symlink(library, &new)?;
    fs::rename(&new, link)
}

/// What the user has in the variable already stays, behind ours.
fn before(ours: &Path, variable: &str) -> OsString {
    let mut all = ours.as_os_str().to_owned();
    if let Some(others) = std::env::var_os(variable).filter(|others| !others.is_empty()) {
        all.push(":");
        all.push(others);
    }
    all
}
