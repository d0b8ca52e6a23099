//! Why a trial was not made. The original is as it was, and nothing of the trial is left.

use std::io;
use std::path::{Path, PathBuf};

use oneflush_vfs::{InspectError, User, shown_name};

use crate::database::DatabaseError;
use crate::floor::FloorError;
use crate::place::PlaceError;

#[derive(Debug, thiserror::Error)]
pub enum TrialError {
    #[error("{}: cannot be read: {source}", shown_name(.path))]
    Read { path: PathBuf, source: io::Error },
    #[error("{}: neither a file nor a directory; name a database, or a directory on the file \
        system that you mean", shown_name(.0))]
    NotAFile(PathBuf),
    #[error("{}: not a SQLite database, or an encrypted one; without its key only its place can \
        be measured: oneflush try {}", shown_name(.path), shown_name(.directory))]
    NotADatabase { path: PathBuf, directory: PathBuf },
    #[error("{}: in use with {strategy} already{}; its program can ask PRAGMA oneflush_stats; \
        try it after the last close, or its place: oneflush try {}",
        shown_name(.path), named(.users), shown_name(.directory))]
    Guarded { path: PathBuf, strategy: &'static str, users: Vec<User>, directory: PathBuf },
    #[error("{}: eager, waldio or maw was interrupted here, and the log has commits; first: \
        oneflush recover {}", shown_name(.0), shown_name(.0))]
    Interrupted(PathBuf),
    #[error("{}: a crash left it in the middle of a transaction over several databases, and only \
        their program may end that; open it with the program, then try again", shown_name(.0))]
    ManyDatabases(PathBuf),
    #[error("{}: was changed each time while it was copied{}; try again when less is written, or \
        try its place: oneflush try {}",
        shown_name(.path), named(.users), shown_name(.directory))]
    Changing { path: PathBuf, users: Vec<User>, directory: PathBuf },
    #[error("{}: too little room in {}: the copy and its logs need {needed_bytes} bytes, and \
        {free_bytes} are free; --dir names another directory", shown_name(.path),
        shown_name(.directory))]
    NoRoom { path: PathBuf, directory: PathBuf, needed_bytes: u64, free_bytes: u64 },
    #[error("{}: {bytes} bytes cannot be copied in the time there is; about this is enough: \
        --seconds {seconds}; or try its place: oneflush try {}",
        shown_name(.path), shown_name(.directory))]
    TooLarge { path: PathBuf, bytes: u64, seconds: u64, directory: PathBuf },
    #[error("{}: cannot be copied to {}: {source}", shown_name(.path), shown_name(.to))]
    Copy { path: PathBuf, to: PathBuf, source: io::Error },
    #[error("{}: the disk became full while the copy was measured; --dir names another directory",
        shown_name(.0))]
    Full(PathBuf),
    #[error("--table {}: there is no such table; {}", shown_name(Path::new(.table)),
        listed(.tables))]
    NoTable { table: String, tables: Vec<String> },
    #[error("--table {}: cannot be used: a table needs 200 rows and a rowid, and SQLite alone has \
        to be able to change it", shown_name(Path::new(.0)))]
    UselessTable(String),
    #[error("{}: no directory for the copy: {source}; --dir names one that you may write to, best \
        on the same file system", shown_name(.directory))]
    Place { directory: PathBuf, source: PlaceError },
    #[error("{}: a sync fails here, so no commit can be durable: {reason}",
        shown_name(.directory))]
    NoSync { directory: PathBuf, reason: String },
    #[error("{}: SQLite says of the copy: {source}; if the database needs its own program, try its \
        place: oneflush try {}", shown_name(.path), shown_name(.directory))]
    Schema { path: PathBuf, source: rusqlite::Error, directory: PathBuf },
    #[error("{mode} with {writers}: {source}")]
    Measure { mode: String, writers: String, source: DatabaseError },
    #[error("{mode}: the copy does not have what was committed: {found}")]
    Contents { mode: String, found: String },
    #[error("interrupted; nothing is left of the trial")]
    Stopped,
    #[error("{}: {source}", shown_name(.directory))]
    Io { directory: PathBuf, source: io::Error },
    #[error(transparent)]
    Floor(#[from] FloorError),
    #[error(transparent)]
    Inspect(#[from] InspectError),
    #[error(transparent)]
    TakeAway(PlaceError),
}

fn named(users: &[User]) -> String {
    let users: Vec<_> = users.iter().map(|user| format!("{} {}", user.pid, user.command)).collect();
    if users.is_empty() { String::new() } else { format!(" ({})", users.join(", ")) }
}

/// "there are a, b and c"
fn listed(tables: &[String]) -> String {
    let names: Vec<_> = tables.iter().map(|name| shown_name(Path::new(name))).collect();
    match &names[..] {
        [] => "the database has none".to_owned(),
        [only] => format!("there is {only}"),
        [most @ .., last] => format!("there are {} and {last}", most.join(", ")),
    }
}
