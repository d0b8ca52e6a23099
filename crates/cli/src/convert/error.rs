//! Why a database is not converted. Where nothing else is said, it is as it was.

use std::io;
use std::path::{Path, PathBuf};

use oneflush_vfs::{InspectError, User, shown_name};
use rusqlite::ErrorCode;

use crate::engine::Engine;
use crate::failure::Failure;

/// "The usable size is not allowed to be less than 480": "Database File Format", section 1.3.4.
pub const USABLE_MIN: u32 = 480;

#[derive(Debug, thiserror::Error)]
pub enum ConvertError {
    #[error("{}: a program has the database open{}; end it, then convert [OF-601]",
        shown_name(.database), named(.users))]
    InUse { database: PathBuf, users: Vec<User> },
    #[error("{}: eager, waldio or maw was interrupted here, and the log has commits; first: \
        oneflush recover {} [OF-602]", shown_name(.0), shown_name(.0))]
    Guarded(PathBuf),
    #[error("{}: cannot be written: {source}; file and folder must be writable, so run this as the \
        owner [OF-603]", shown_name(.path))]
    ReadOnly { path: PathBuf, source: io::Error },
    #[error("{}: too little room: the conversion may need {needed_bytes} bytes more, and \
        {free_bytes} are free; make room in this file system; nothing was changed [OF-604]",
        shown_name(.database))]
    NoRoom { database: PathBuf, needed_bytes: u64, free_bytes: u64 },
    #[error("{}: {reserved} bytes of each page are reserved already, as by cksumvfs or SQLCipher, \
        whose data there would be lost; if nothing uses them: --force [OF-605]",
        shown_name(.database))]
    Reserved { database: PathBuf, reserved: u8 },
    #[error("{}: SQLite needs 480 bytes of a page, and this database has pages of {page_bytes}; \
        reserve at most {} [OF-606]", shown_name(.database), .page_bytes - USABLE_MIN)]
    TooMany { database: PathBuf, page_bytes: u32 },
    #[error("{}: the database is damaged, and a conversion could hide that; PRAGMA \
        integrity_check says: {found} [OF-607]", shown_name(.database))]
    Damaged { database: PathBuf, found: String },
    #[error("{}: a converted copy does not equal the database: {found}; the database is as it \
        was [OF-608]", shown_name(.database))]
    CopyDiffers { database: PathBuf, found: String },
    #[error("{}: was converted, and does not equal what it was: {found}; restore it from a \
        backup [OF-609]", shown_name(.database))]
    Differs { database: PathBuf, found: String },
    #[error("{}: interrupted; the database is as it was [OF-610]", shown_name(.0))]
    Interrupted(PathBuf),
    #[error("{}: is converted; interrupted while that was checked, so run PRAGMA \
        integrity_check [OF-611]", shown_name(.0))]
    InterruptedAfter(PathBuf),
    #[error("{}: {step}: SQLite says: {source}; the database is as it was [OF-612]",
        shown_name(.database))]
    Sqlite { database: PathBuf, step: &'static str, source: rusqlite::Error },
    #[error("{}: is converted, but {step} failed: SQLite says: {source}; the next open goes \
        on [OF-613]", shown_name(.database))]
    SqliteAfter { database: PathBuf, step: &'static str, source: rusqlite::Error },
    #[error("{}: not a regular file; name the database file itself [OF-614]", shown_name(.0))]
    NotAFile(PathBuf),
    #[error("{}: has no page yet; make a table in it, then convert [OF-615]", shown_name(.0))]
    Empty(PathBuf),
    #[error("{}: 8 reserved bytes tell cksumvfs that they are checksums, which SQLite alone does \
        not write; convert with cksumvfs, or --force [OF-616]", shown_name(.0))]
    Checksums(PathBuf),
    #[error("{}: {source} [OF-617]", shown_name(.path))]
    File { path: PathBuf, source: io::Error },
    #[error("{}: not a SQLite database, or encrypted; an encrypted one is converted by the program \
        that has its key [OF-618]", shown_name(.0))]
    NotADatabase(PathBuf),
    #[error("{}: {source}; only the database's own program defines this, so convert there: \
        SQLITE_FCNTL_RESERVE_BYTES, then VACUUM [OF-619]", shown_name(.database))]
    NeedsItsProgram { database: PathBuf, source: rusqlite::Error },
    #[error("{}: the disk is full; make room, then convert again; the database is as it \
        was [OF-620]", shown_name(.0))]
    Full(PathBuf),
    #[error("{}: is there already, and a copy goes into a new file; give another name [OF-621]",
        shown_name(.0))]
    Exists(PathBuf),
    #[error("{}: is a database of {engine} already; to copy it as it is: \
        VACUUM INTO [OF-622]", shown_name(.database))]
    SameEngine { database: PathBuf, engine: Engine },
    #[error("{}: a database of LS-MVBT, whose pages have no reserved bytes; for a copy in SQLite's \
        format: oneflush convert {} COPY --engine sqlite [OF-623]", shown_name(.0), shown_name(.0))]
    OfLsmvbt(PathBuf),
    #[error("{}: the copy does not equal the database: {found}; the copy was deleted [OF-624]",
        shown_name(.target))]
    TargetDiffers { target: PathBuf, found: String },
    #[error("{}: interrupted; the file was not made [OF-625]", shown_name(.0))]
    NotMade(PathBuf),
    #[error("{}: {step}: SQLite says: {source}; {} was not made [OF-626]",
        shown_name(.database), shown_name(.target))]
    Copy { database: PathBuf, target: PathBuf, step: &'static str, source: Box<rusqlite::Error> },
    #[error("{}: {source}; only the database's own program defines this, so copy there, by \
        VACUUM INTO 'file:COPY?engine=lsmvbt' or engine=sqlite [OF-627]", shown_name(.database))]
    CopyNeedsItsProgram { database: PathBuf, source: rusqlite::Error },
    #[error("{0}")]
    Inspect(#[from] InspectError),
}

impl ConvertError {
    /// Of a step before the database is changed, or whose change was rolled back.
    pub fn of_sqlite(database: &Path, step: &'static str, source: rusqlite::Error) -> ConvertError {
        let database = database.to_owned();
        match source.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                ConvertError::InUse { database, users: Vec::new() }
            }
            Some(ErrorCode::NotADatabase) => ConvertError::NotADatabase(database),
            Some(ErrorCode::DiskFull) => ConvertError::Full(database),
            _ if needs_its_program(&source) => ConvertError::NeedsItsProgram { database, source },
            _ => ConvertError::Sqlite { database, step, source },
        }
    }

    /// Of a copy into another engine.
    pub fn of_copy(
        database: &Path,
        target: &Path,
        step: &'static str,
        source: rusqlite::Error,
    ) -> ConvertError {
        match ConvertError::of_sqlite(database, step, source) {
            ConvertError::Full(_) => ConvertError::Full(target.to_owned()),
            ConvertError::NeedsItsProgram { database, source } => {
                ConvertError::CopyNeedsItsProgram { database, source }
            }
            ConvertError::Sqlite { database, step, source } => {
                let source = Box::new(source);
                ConvertError::Copy { database, target: target.to_owned(), step, source }
            }
            error => error,
        }
    }
}

impl From<ConvertError> for Failure {
    fn from(error: ConvertError) -> Failure {
        use ConvertError::*;
        match &error {
            InUse { .. } => Failure::again(error),
            // What the files are forbids it, and nothing was tried.
            Guarded(_)
            | ReadOnly { .. }
            | NoRoom { .. }
            | Reserved { .. }
            | TooMany { .. }
            | Damaged { .. }
            | NotAFile(_)
            | Empty(_)
            | Checksums(_)
            | NotADatabase(_)
            | NeedsItsProgram { .. }
            | Exists(_)
            | SameEngine { .. }
            | OfLsmvbt(_)
            | CopyNeedsItsProgram { .. } => Failure::refused(error),
            CopyDiffers { .. }
            | Differs { .. }
            | Interrupted(_)
            | InterruptedAfter(_)
            | Sqlite { .. }
            | SqliteAfter { .. }
            | File { .. }
            | Full(_)
            | TargetDiffers { .. }
            | NotMade(_)
            | Copy { .. }
            | Inspect(_) => Failure::failed(error),
        }
    }
}

fn needs_its_program(error: &rusqlite::Error) -> bool {
    let text = error.to_string();
    ["no such collation", "no such function", "unknown function", "unknown tokenizer"]
        .iter()
        .any(|words| text.contains(words))
}

fn named(users: &[User]) -> String {
    let users: Vec<_> = users.iter().map(|user| format!("{} {}", user.pid, user.command)).collect();
    if users.is_empty() { String::new() } else { format!(" ({})", users.join(", ")) }
}
