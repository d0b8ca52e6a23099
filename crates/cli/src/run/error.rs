//! Why there is no program to become.

use std::io;
use std::path::PathBuf;

use super::program::Without;
use crate::exit;
use crate::failure::Failure;
use crate::library::{LibraryError, PRELOAD, SQLITE};

/// As `env` and shells have them.
const CANNOT_EXECUTE: u8 = 126;
const NOT_FOUND: u8 = 127;

#[derive(Debug, thiserror::Error)]
pub enum RunError {
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
