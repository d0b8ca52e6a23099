//! `oneflush shell DB`: the `sqlite3` shell, with the extension loaded and the database open
//! through Oneflush.
//!
//! This process becomes the shell (`exec`). So the terminal, Ctrl-C and the exit code are the
//! shell's own. The shell opens the file of its command line before anything can be loaded. It is
//! therefore given only `:memory:`, and loads and opens by `-cmd`.
//!
//! After a failed `.open` the shell would go on in memory, where a user's rows would be lost. A
//! query that fails there ends the shell, because of `-bail`, before it takes any input. Oneflush's
//! messages go to stderr (`ONEFLUSH_LOG`), since they say why it has refused a database.

use std::ffi::OsString;
use std::io::{self, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use clap::{Args, ValueEnum};
use oneflush_measure::handover;
use oneflush_vfs::StrategyKind;

use crate::engine::Engine;
use crate::failure::Failure;
use crate::library::{self, EXTENSION, LibraryError, SQLITE};
use crate::run::{self, RunError};
use crate::uri;

const EXAMPLES: &str = "Examples:
  oneflush shell app.db                              interactively
  oneflush shell app.db \"SELECT * FROM item\"        one query
  oneflush shell -header -csv app.db \"SELECT 1 AS n\"  sqlite3's own options
  oneflush shell -readonly app.db                    nothing is written
  oneflush shell app.db < script.sql
  oneflush shell app.db \".backup copy.db\"           a plain copy while in use
  oneflush shell --strategy eager app.db             a new program's database,
                                                     tried by hand
  oneflush shell --engine lsmvbt app.db              a new one of LS-MVBT

Which strategy: a database that is in use with eager, waldio or maw, or was
when it crashed, can only be read with that, so that is taken for it (the shell
joins the programs that use it, or recovers it). For all others it is auto,
which leaves plain SQLite files. --strategy and ONEFLUSH_STRATEGY go before
that.

A database of LS-MVBT is opened by its own engine, without a strategy. --engine
says what a new one is to be. That needs liboneflush_sqlite3.so beside oneflush,
which the sqlite3 of PATH gets in the place of its own, or oneflush-sqlite3.

It takes the sqlite3 of PATH, 3.40 or newer, and becomes it. ~/.sqliterc is read
before the database is open. Oneflush's messages go to standard error, unless
ONEFLUSH_LOG is off, syslog or a file.";

const SHELL: &str = "sqlite3";
/// What the shell says of a library that it was not built with, before it ends.
const MISMATCH: &str = "version mismatch";
/// SQLite's shell with both engines, as `make sqlite-lsmvbt` leaves it.
const OWN_SHELL: &str = "oneflush-sqlite3";
const VERSION_MIN: (u32, u32) = (3, 40);

/// For how long the first look at the database waits for others.
const TIMEOUT_MS: u32 = 5000;

/// Reads the database, and shows nothing.
const FIRST_LOOK: &str = "SELECT 1 FROM sqlite_schema WHERE 0";

/// Options for how the shell opens the file of its command line. Here that is no file, so only
/// `-readonly` can be kept.
const OPENERS: [&str; 6] = ["append", "deserialize", "maxsize", "nofollow", "vfs", "zip"];
const READ_ONLY: &str = "readonly";

/// Shows nothing, and fails where main has no file.
const IS_OPEN: &str = "SELECT json_extract('{}', file || 'the database was not opened') FROM \
    pragma_database_list WHERE name = 'main' AND file = ''";

/// Options of the shell that take the next argument as their value, or the next two.
const WITH_A_VALUE: [&str; 10] = [
    "cmd",
    "heap",
    "init",
    "maxsize",
    "mmap",
    "newline",
    "nullvalue",
    "separator",
    "sorterref",
    "vfs",
];
const WITH_TWO_VALUES: [&str; 2] = ["lookaside", "pagecache"];

const STRATEGY: &str = "--strategy";
const ENGINE: &str = "--engine";

#[derive(Args)]
#[command(
    after_help = EXAMPLES,
    override_usage = "oneflush shell [--strategy NAME] [OPTIONS OF sqlite3] DATABASE [SQL]...
       oneflush shell [--engine NAME] [OPTIONS OF sqlite3] DATABASE [SQL]..."
)]
pub struct Options {
    /// How to open it: auto, stock, plain, eager, waldio or maw
    #[arg(long, value_name = "NAME")]
    strategy: Option<StrategyKind>,
    /// The engine of a new database: sqlite or lsmvbt
    #[arg(long, value_name = "NAME")]
    engine: Option<Engine>,
    /// The database file, and what sqlite3 takes before and behind it: options, SQL, dot-commands
    #[arg(
        required = true,
        value_name = "ARGS",
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    arguments: Vec<OsString>,
}

/// What the command line asks for.
#[derive(Debug, Default, PartialEq, Eq)]
struct Asked {
    database: Option<PathBuf>,
    strategy: Option<StrategyKind>,
    engine: Option<Engine>,
    /// For the shell, without the database.
    arguments: Vec<OsString>,
}

/// Reads the arguments as the shell does. Options may stand anywhere, and of the rest the first is
/// the database.
fn read(given: &[OsString]) -> Result<Asked, String> {
    let mut asked = Asked::default();
    let mut rest = given.iter();
    while let Some(argument) = rest.next() {
        let text = argument.to_str().unwrap_or_default();
        if text == "--" {
            continue;
        }
        if let Some(name) = value_of(STRATEGY, text, &mut rest) {
            let name = name.ok_or("--strategy: a name is missing [OF-528]")?;
            asked.strategy = Some(name.parse().map_err(|error| format!("{error}"))?);
            continue;
        }
        if let Some(name) = value_of(ENGINE, text, &mut rest) {
            let name = name.ok_or("--engine: a name is missing [OF-529]")?;
            asked.engine = Some(Engine::from_str(&name, true).map_err(|_| {
                format!("--engine: \"{name}\" is no engine; allowed: lsmvbt, sqlite [OF-530]")
            })?);
            continue;
        }
        let Some(option) = names(std::slice::from_ref(argument)).next() else {
            match (&asked.database, text.strip_prefix("-A").or_else(|| text.strip_prefix("--A"))) {
                // Behind it stands what `.archive` takes.
                (_, Some(_)) => {
                    asked.arguments.extend(std::iter::once(argument).chain(rest.by_ref()).cloned())
                }
                (None, None) => asked.database = Some(PathBuf::from(argument)),
                (Some(_), None) => asked.arguments.push(argument.clone()),
            }
            continue;
        };
        asked.arguments.push(argument.clone());
        let values = usize::from(WITH_A_VALUE.contains(&option))
            + 2 * usize::from(WITH_TWO_VALUES.contains(&option));
        asked.arguments.extend(rest.by_ref().take(values).cloned());
    }
    Ok(asked)
}

/// The value of an option, if this argument is that option. The inner `None`: the value is missing.
fn value_of<'a>(
    option: &str,
    argument: &str,
    rest: &mut impl Iterator<Item = &'a OsString>,
) -> Option<Option<String>> {
    match argument.strip_prefix(option)? {
        "" => Some(rest.next().map(|value| value.to_string_lossy().into_owned())),
        value => value.strip_prefix('=').map(|value| Some(value.to_owned())),
    }
}

#[derive(Debug, thiserror::Error)]
enum ShellError {
    #[error("{0}")]
    Library(#[from] LibraryError),
    #[error("{0}")]
    Run(#[from] RunError),
    #[error("{}: LS-MVBT has neither a journal nor a WAL, so it has no strategy; leave --strategy \
        out, or take a database of SQLite's own engine [OF-531]", .0.display())]
    NoStrategy(PathBuf),
    #[error("{} takes only the SQLite that it was built with, {version}, and {SQLITE} is another \
        one; `make sqlite-lsmvbt` with ONEFLUSH_SQLITE_AMALGAMATION=PATH, for a sqlite3.c beside \
        its shell.c, makes {OWN_SHELL}; put that beside the program [OF-532]", .shell.display())]
    OtherSqlite { shell: PathBuf, version: String },
    #[error("there is no {SHELL} in PATH; install the SQLite shell (Debian: apt install sqlite3), \
        {wanted} [OF-521]", wanted = wanted())]
    Missing,
    #[error(
        "{} is {found}; Oneflush needs {wanted}. Put a newer one before it in PATH [OF-522]",
        .shell.display(), wanted = wanted()
    )]
    TooOld { shell: PathBuf, found: String },
    #[error("{} -version says {said:?}, which is no version of SQLite; is it the SQLite \
        shell? [OF-523]", .shell.display())]
    NotTheShell { shell: PathBuf, said: String },
    #[error("cannot start {}: {source} [OF-524]", .shell.display())]
    Start { shell: PathBuf, source: io::Error },
    #[error("{}: {source} [OF-525]", .database.display())]
    Database { database: PathBuf, source: io::Error },
}

fn wanted() -> String {
    format!("version {}.{} or newer", VERSION_MIN.0, VERSION_MIN.1)
}

/// Returns only if there is no shell to become.
pub fn main(options: &Options) -> Result<(), Failure> {
    let mut asked = read(&options.arguments).map_err(Failure::usage)?;
    asked.strategy = asked.strategy.or(options.strategy);
    asked.engine = asked.engine.or(options.engine);
    if let Some(name) = names(&asked.arguments).find(|name| OPENERS.contains(name)) {
        return Err(Failure::usage(format!(
            "-{name}: Oneflush opens the database, so {SHELL} cannot choose how; leave the option \
                out, \
             or use {SHELL} without Oneflush [OF-526]"
        )));
    }
    let Some(database) = &asked.database else {
        return Err(Failure::usage(format!(
            "which database? Name its file, as in `oneflush shell app.db`; for one in memory use \
                {SHELL} without Oneflush [OF-527]"
        )));
    };
    let is_lsmvbt = Engine::is_lsmvbt(database);
    let became = match asked.engine.or(is_lsmvbt.then_some(Engine::Lsmvbt)) {
        Some(_) if asked.strategy.is_some() => Err(ShellError::NoStrategy(database.to_owned())),
        Some(engine) => become_shell_of(database, engine, &asked.arguments),
        None => become_shell(database, asked.strategy, &asked.arguments),
    };
    became.map_err(Failure::failed)
}

/// Of the shell's options, without their dashes, one or two. Behind `-A` stand those of `.archive`.
fn names(arguments: &[OsString]) -> impl Iterator<Item = &str> {
    let options = arguments.iter().filter_map(|argument| argument.to_str()?.strip_prefix('-'));
    options
        .map(|name| name.strip_prefix('-').unwrap_or(name))
        .take_while(|name| !name.starts_with('A'))
}

fn become_shell(
    file: &Path,
    strategy: Option<StrategyKind>,
    arguments: &[OsString],
) -> Result<(), ShellError> {
    let of_database = |source| ShellError::Database { database: file.to_owned(), source };
    let database = std::path::absolute(file).map_err(of_database)?;
    let extension = library::find(EXTENSION)?;
    let shell = shell()?;
    let guarding = guarding(&database).map_err(of_database)?;
    let mut uri = match strategy {
        None if std::env::var_os("ONEFLUSH_STRATEGY").is_some() => uri::of(&database, None),
        None if guarding.is_some() => uri::of(&database, guarding),
        // Nobody has asked for a strategy, so nobody is told where it changes nothing.
        None => uri::of(&database, None) + "&strategy=auto",
        named => uri::of(&database, named),
    };
    if names(arguments).any(|name| name == READ_ONLY) {
        uri += "&mode=ro";
    }
    let mut command = Command::new(&shell);
    open_first(&mut command, Some(load(&extension)), &uri);
    if std::env::var_os(oneflush_vfs::LOG_VARIABLE).is_none() {
        command.env(oneflush_vfs::LOG_VARIABLE, "stderr");
    }
    let source = handover::become_program(command.arg(":memory:").args(arguments));
    Err(ShellError::Start { shell, source })
}

/// The same with an engine, by a SQLite that has both.
fn become_shell_of(file: &Path, engine: Engine, arguments: &[OsString]) -> Result<(), ShellError> {
    let of_database = |source| ShellError::Database { database: file.to_owned(), source };
    let database = std::path::absolute(file).map_err(of_database)?;
    let (shell, mut command) = shell_of(engine)?;
    let mut uri = format!("{}?engine={}", uri::without_parameters(&database), engine.word());
    if names(arguments).any(|name| name == READ_ONLY) {
        uri += "&mode=ro";
    }
    open_first(&mut command, None, &uri);
    let source = handover::become_program(command.arg(":memory:").args(arguments));
    Err(ShellError::Start { shell, source })
}

/// Our own, which has both engines, or one of PATH with our library.
fn shell_of(engine: Engine) -> Result<(PathBuf, Command), ShellError> {
    if let Ok(own) = library::find(OWN_SHELL) {
        let command = Command::new(&own);
        return Ok((own, command));
    }
    let shell = shell()?;
    let mut command = run::with_engine(shell.as_os_str(), engine)?;
    let started = |source| ShellError::Start { shell: shell.clone(), source };
    let mut said = tried(run::with_engine(shell.as_os_str(), engine)?).map_err(started)?;
    if let Some(source) = source_of(&said) {
        command.env(run::SHELL_SOURCE, &source);
        let mut once_more = run::with_engine(shell.as_os_str(), engine)?;
        once_more.env(run::SHELL_SOURCE, source);
        said = tried(once_more).map_err(started)?;
    }
    if String::from_utf8_lossy(&said.stderr).contains(MISMATCH) {
        let version = Command::new(&shell).arg("-version").output().unwrap_or(said).stdout;
        let version = String::from_utf8_lossy(&version);
        let version = version.split(' ').next().unwrap_or_default().to_owned();
        return Err(ShellError::OtherSqlite { shell, version });
    }
    Ok((shell, command))
}

fn tried(mut command: Command) -> io::Result<Output> {
    command.env_remove("ONEFLUSH_RUN_PID").args([":memory:", "SELECT 1"]).output()
}

/// What the shell was built from, if it takes the library for too old or too new. It says that of
/// the library and then its own, a line each.
fn source_of(said: &Output) -> Option<String> {
    let said = String::from_utf8_lossy(&said.stderr);
    let (_, sources) = said.split_once(MISMATCH)?;
    sources.lines().nth(2).map(str::to_owned)
}

/// What the shell does before all else.
fn open_first(command: &mut Command, load: Option<OsString>, uri: &str) {
    command.arg("-bail");
    let lines = [
        format!(".open {uri}").into(),
        format!(".timeout {TIMEOUT_MS}").into(),
        FIRST_LOOK.into(),
        IS_OPEN.into(),
        ".timeout 0".into(),
        ".bail off".into(),
    ];
    for line in load.into_iter().chain(lines) {
        command.arg("-cmd").arg(line);
    }
}

/// Between quotation marks the shell knows the escapes of C.
fn load(extension: &Path) -> OsString {
    let mut line = b".load \"".to_vec();
    for &byte in extension.as_os_str().as_bytes() {
        if matches!(byte, b'"' | b'\\') {
            line.push(b'\\');
        }
        line.push(byte);
    }
    line.push(b'"');
    OsString::from_vec(line)
}

/// The strategy that the guard asks for. Without the log any strategy that has one says what is
/// missing.
fn guarding(database: &Path) -> io::Result<Option<StrategyKind>> {
    let mut header = Vec::new();
    match oneflush_vfs::open_database(database)
        .and_then(|file| file.take(20).read_to_end(&mut header))
    {
        Ok(_) if header.starts_with(b"SQLite format 3\0") && header.ends_with(&[3, 3]) => {
            Ok(oneflush_vfs::guarding_strategy(database)?.or(Some(StrategyKind::Eager)))
        }
        Ok(_) => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::NotFound => match database.parent() {
            Some(directory) if !directory.is_dir() => {
                Err(io::Error::new(error.kind(), "there is no such directory"))
            }
            _ => Ok(None),
        },
        Err(error) => Err(error),
    }
}

/// The first `sqlite3` of PATH, if it is new enough.
fn shell() -> Result<PathBuf, ShellError> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_program = |file: &PathBuf| {
        file.metadata().is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
    };
    let shell = std::env::split_paths(&path)
        .map(|folder| folder.join(SHELL))
        .find(is_program)
        .ok_or(ShellError::Missing)?;
    let output = Command::new(&shell).arg("-version").output();
    let output = output.map_err(|source| ShellError::Start { shell: shell.clone(), source })?;
    let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    match version(&said) {
        Some(found) if found >= VERSION_MIN => Ok(shell),
        Some(_) => Err(ShellError::TooOld {
            shell,
            found: said.split(' ').next().unwrap_or_default().to_owned(),
        }),
        None => Err(ShellError::NotTheShell { shell, said }),
    }
}

/// Of "3.40.1 2022-12-28 …".
fn version(said: &str) -> Option<(u32, u32)> {
    let mut numbers = said.split(' ').next()?.split('.');
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_as_numbers() {
        assert_eq!(version("3.40.1 2022-12-28 14:03:47 df5c253c"), Some((3, 40)));
        assert!(
            version("3.9.2 2015").unwrap() < VERSION_MIN
                && version("3.100.0").unwrap() > VERSION_MIN
        );
        for said in ["", "GNU bash", "3", "3.x"] {
            assert_eq!(version(said), None, "{said}");
        }
    }

    fn asked(line: &str) -> Asked {
        read(&line.split(' ').map(OsString::from).collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn the_database_is_the_first_argument_that_is_no_option_and_no_options_value() {
        for (line, arguments) in [
            ("a.db SQL", "SQL"),
            ("-header -csv a.db SQL", "-header -csv SQL"),
            ("-separator a.db a.db SQL more", "-separator a.db SQL more"),
            ("--nullvalue NULL a.db -json SQL", "--nullvalue NULL -json SQL"),
            ("-lookaside 100 200 a.db SQL", "-lookaside 100 200 SQL"),
            ("-cmd .width a.db SQL", "-cmd .width SQL"),
            ("a.db -- -json SQL", "-json SQL"),
            ("a.db -Ac -v file", "-Ac -v file"),
        ] {
            let expected: Vec<OsString> = arguments.split(' ').map(OsString::from).collect();
            let found = asked(line);
            assert_eq!(
                (found.database, found.arguments),
                (Some("a.db".into()), expected),
                "{line}"
            );
        }
        assert_eq!(asked("-header -csv").database, None);
    }

    #[test]
    fn the_strategy_may_stand_before_and_behind_the_database() {
        for line in
            ["a.db --strategy eager SQL", "--strategy=eager a.db SQL", "a.db SQL --strategy eager"]
        {
            let found = asked(line);
            assert_eq!(
                (found.strategy, found.arguments),
                (Some(StrategyKind::Eager), vec!["SQL".into()]),
                "{line}"
            );
        }
        assert!(read(&["a.db".into(), "--strategy".into()]).is_err());
        for line in ["a.db --engine lsmvbt SQL", "--engine=lsmvbt a.db SQL"] {
            assert_eq!(asked(line).engine, Some(Engine::Lsmvbt), "{line}");
        }
        assert!(read(&["--engine=sqlight".into()]).unwrap_err().contains("lsmvbt, sqlite"));
        let error = read(&["a.db".into(), "--strategy".into(), "eagre".into()]).unwrap_err();
        assert!(error.contains("auto, stock"), "{error}");
    }

    #[test]
    fn the_path_of_the_extension_may_have_quotation_marks() {
        assert_eq!(load(Path::new("/a \"b\"\\c/x.so")), r#".load "/a \"b\"\\c/x.so""#);
    }
}
