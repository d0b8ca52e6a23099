//! The two engines of a database in SQL: SQLite's B-tree, and LS-MVBT.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use clap::ValueEnum;
use oneflush_mvbt::inspect::MAGIC;

/// As URIs, `ONEFLUSH_ENGINE` and `--engine` name them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Engine {
    Sqlite,
    Lsmvbt,
}

/// What a new database gets if nobody names an engine.
pub const VARIABLE: &str = "ONEFLUSH_ENGINE";

/// "Database File Format", section 1.3.1.
const OF_SQLITE: &[u8; 16] = b"SQLite format 3\0";

impl Engine {
    /// As URIs name it.
    pub fn word(self) -> &'static str {
        match self {
            Engine::Sqlite => "sqlite",
            Engine::Lsmvbt => "lsmvbt",
        }
    }

    /// What the first bytes of the file say. `None` also if it cannot be read: the opening that
    /// follows says why.
    pub fn of(path: &Path) -> Option<Engine> {
        match &first_bytes(path).ok()? {
            MAGIC => Some(Engine::Lsmvbt),
            OF_SQLITE => Some(Engine::Sqlite),
            _ => None,
        }
    }

    pub fn is_lsmvbt(path: &Path) -> bool {
        Engine::of(path) == Some(Engine::Lsmvbt)
    }
}

/// What this program makes itself is of the engine that it names. To be called before there is a
/// second thread.
pub fn forget_variable() {
    // SAFETY: nobody else reads the environment meanwhile, as the caller promises.
    unsafe { std::env::remove_var(VARIABLE) };
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Engine::Sqlite => "SQLite",
            Engine::Lsmvbt => "LS-MVBT",
        })
    }
}

/// Only of a regular file: to open a pipe would wait.
fn first_bytes(path: &Path) -> io::Result<[u8; 16]> {
    let mut bytes = [0; 16];
    if path.metadata()?.is_file() {
        File::open(path)?.read_exact(&mut bytes)?;
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_bytes_tell_the_engine() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db");
        assert!(!Engine::is_lsmvbt(&path));
        for (bytes, is_lsmvbt) in [
            (&b"Oneflush mvbt 1\n and more"[..], true),
            (b"Oneflush mvbt 1", false),
            (b"SQLite format 3\0 and more", false),
            (b"", false),
        ] {
            std::fs::write(&path, bytes).unwrap();
            assert_eq!(Engine::is_lsmvbt(&path), is_lsmvbt, "{bytes:?}");
        }
        assert!(!Engine::is_lsmvbt(folder.path()));
    }
}
