//! `oneflush run -- CMD…`: an unmodified program with Oneflush as its default VFS.
//!
//! This process becomes the program (`execve`), with `liboneflush_preload.so` in `LD_PRELOAD`. That
//! library lets the program's own SQLite load `liboneflush.so` when the first database is opened.
//! So nothing stands between a supervisor and the program. Signals, process number, exit status,
//! terminal, descriptors and job control are the program's own.
//!
//! With `--engine` the program gets another `libsqlite3.so.0` instead (`run/engine.rs`).

mod engine;
mod error;
mod linker;
mod program;

use std::ffi::{OsStr, OsString};
use std::io;
use std::process::Command;

use clap::Args;
use oneflush_measure::handover;
use oneflush_vfs::{OptionError, StrategyKind};

use crate::engine::Engine;
use crate::failure::Failure;
use crate::library::{self, EXTENSION, PRELOAD};
pub(crate) use error::RunError;
use linker::{before, preloadable};
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

/// That a process ends which opens a database without Oneflush, for the library that is preloaded.
const REQUIRE_VARIABLE: &str = "ONEFLUSH_RUN_REQUIRE";

/// What SQLite's shell was built from, for the one that is preloaded.
pub(crate) const SHELL_SOURCE: &str = "ONEFLUSH_SHELL_SOURCE";
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
