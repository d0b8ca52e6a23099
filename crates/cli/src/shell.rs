//! `oneflush shell DB`: the `sqlite3` shell, with the extension loaded and the database open through Oneflush.
//!
//! This process becomes the shell (`exec`), so the terminal, Ctrl-C and the exit code are the shell's own. The shell opens the file that its
//! command line names before anything can be loaded; so it is given none but `:memory:`, and loads and opens by `-cmd`.
//! A failed `.open` makes the shell go on in memory, where a user's rows would be lost: a query that fails there ends it, because of `-bail`, before
//! it takes any input. Meanwhile SQLite's error log goes to stderr, since it says why Oneflush has refused a database.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;
use oneflush_vfs::StrategyKind;

use crate::library::{self, EXTENSION, LibraryError};
use crate::{Failure, uri};

const EXAMPLES: &str = "Examples:
  oneflush shell app.db                                interactively
  oneflush shell app.db -- -json \"SELECT * FROM item\"  one query; behind --
                                                       stands what sqlite3 takes
  oneflush shell app.db -- -readonly                   nothing is written
  oneflush shell app.db < script.sql
  oneflush shell app.db -- \".backup copy.db\"           a plain copy while in use
  oneflush shell app.db --strategy eager               a new program's database,
                                                       tried by hand

Which strategy: a database that is in use with strategy eager, or was when it
crashed, can only be read with eager, so that is taken for it (the shell joins
the programs that use it, or recovers it). For all others it is auto, which
leaves plain SQLite files. --strategy and ONEFLUSH_STRATEGY go before that.

It takes the sqlite3 of PATH, 3.40 or newer. ~/.sqliterc is read before the
database is open.";

const SHELL: &str = "sqlite3";
const VERSION_MIN: (u32, u32) = (3, 40);

/// For how long the first look at the database waits for others.
const TIMEOUT_MS: u32 = 5000;

/// Reads the database, and shows nothing.
const FIRST_LOOK: &str = "SELECT 1 FROM sqlite_schema WHERE 0";

/// Options of how the shell opens the file on its command line, which here is none. Of them only `-readonly` can be kept.
const OPENERS: [&str; 6] = ["append", "deserialize", "maxsize", "nofollow", "vfs", "zip"];
const READ_ONLY: &str = "readonly";

/// Shows nothing, and fails where main has no file.
const IS_OPEN: &str = "SELECT json_extract('{}', file || 'the database was not opened') FROM pragma_database_list WHERE name = 'main' AND file = ''";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Options {
    /// The database file
    database: PathBuf,
    /// How to open it: auto, stock, plain or eager
    #[arg(long, value_name = "NAME")]
    strategy: Option<StrategyKind>,
    /// Options, SQL and dot-commands for sqlite3
    #[arg(last = true, value_name = "ARGS")]
    arguments: Vec<OsString>,
}

#[derive(Debug, thiserror::Error)]
enum ShellError {
    #[error("{0}")]
    Library(#[from] LibraryError),
    #[error("there is no {SHELL} in PATH; install the SQLite shell (Debian: apt install sqlite3), {wanted}", wanted = wanted())]
    Missing,
    #[error(
        "{} is {found}; Oneflush needs {wanted}. Put a newer one before it in PATH",
        .shell.display(), wanted = wanted()
    )]
    TooOld { shell: PathBuf, found: String },
    #[error("{} -version says {said:?}, which is no version of SQLite; is it the SQLite shell?", .shell.display())]
    NotTheShell { shell: PathBuf, said: String },
    #[error("cannot start {}: {source}", .shell.display())]
    Start { shell: PathBuf, source: io::Error },
    #[error("{}: {source}", .database.display())]
    Database { database: PathBuf, source: io::Error },
}

fn wanted() -> String {
    format!("version {}.{} or newer", VERSION_MIN.0, VERSION_MIN.1)
}

/// Returns only if there is no shell to become.
pub fn main(options: &Options) -> Result<(), Failure> {
    if let Some(name) = names(&options.arguments).find(|name| OPENERS.contains(name)) {
        return Err(Failure::usage(format!(
            "-{name}: Oneflush opens the database, so {SHELL} cannot choose how; leave the option out, \
             or use {SHELL} without Oneflush"
        )));
    }
    become_shell(options).map_err(Failure::failed)
}

/// Of the shell's options, without their dashes, one or two. Behind `-A` stand those of `.archive`.
fn names(arguments: &[OsString]) -> impl Iterator<Item = &str> {
    let options = arguments.iter().filter_map(|argument| argument.to_str()?.strip_prefix('-'));
    options.map(|name| name.strip_prefix('-').unwrap_or(name)).take_while(|name| !name.starts_with('A'))
}

fn become_shell(options: &Options) -> Result<(), ShellError> {
    let of_database = |source| ShellError::Database { database: options.database.clone(), source };
    let database = std::path::absolute(&options.database).map_err(of_database)?;
    let extension = library::find(EXTENSION)?;
    let shell = shell()?;
    let is_guarded = is_guarded(&database).map_err(of_database)?;
    let strategy = match options.strategy {
        None if std::env::var_os("ONEFLUSH_STRATEGY").is_some() => None,
        None if is_guarded => Some(StrategyKind::Eager),
        None => Some(StrategyKind::Plain),
        named => named,
    };
    let mut uri = uri::of(&database, strategy);
    if names(&options.arguments).any(|name| name == READ_ONLY) {
        uri += "&mode=ro";
    }
    let mut command = Command::new(&shell);
    command.arg("-bail");
    for line in [
        load(&extension),
        ".log stderr".into(),
        format!(".open {uri}").into(),
        format!(".timeout {TIMEOUT_MS}").into(),
        FIRST_LOOK.into(),
        ".log off".into(),
        IS_OPEN.into(),
        ".timeout 0".into(),
        ".bail off".into(),
    ] {
        command.arg("-cmd").arg(line);
    }
    let source = command.arg(":memory:").args(&options.arguments).exec();
    Err(ShellError::Start { shell, source })
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

/// The guard of `eager` is "file format write version, read version" 3 in the database header.
fn is_guarded(database: &Path) -> io::Result<bool> {
    let mut header = Vec::new();
    match File::open(database).and_then(|file| file.take(20).read_to_end(&mut header)) {
        Ok(_) => Ok(header.starts_with(b"SQLite format 3\0") && header.ends_with(&[3, 3])),
        Err(error) if error.kind() == io::ErrorKind::NotFound => match database.parent() {
            Some(directory) if !directory.is_dir() => Err(io::Error::new(error.kind(), "there is no such directory")),
            _ => Ok(false),
        },
        Err(error) => Err(error),
    }
}

/// The first `sqlite3` of PATH, if it is new enough.
fn shell() -> Result<PathBuf, ShellError> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_program =
        |file: &PathBuf| file.metadata().is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0);
    let shell =
        std::env::split_paths(&path).map(|folder| folder.join(SHELL)).find(is_program).ok_or(ShellError::Missing)?;
    let output = Command::new(&shell).arg("-version").output();
    let output = output.map_err(|source| ShellError::Start { shell: shell.clone(), source })?;
    let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    match version(&said) {
        Some(found) if found >= VERSION_MIN => Ok(shell),
        Some(_) => Err(ShellError::TooOld { shell, found: said.split(' ').next().unwrap_or_default().to_owned() }),
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
        assert!(version("3.9.2 2015").unwrap() < VERSION_MIN && version("3.100.0").unwrap() > VERSION_MIN);
        for said in ["", "GNU bash", "3", "3.x"] {
            assert_eq!(version(said), None, "{said}");
        }
    }

    #[test]
    fn the_path_of_the_extension_may_have_quotation_marks() {
        assert_eq!(load(Path::new("/a \"b\"\\c/x.so")), r#".load "/a \"b\"\\c/x.so""#);
    }
}
