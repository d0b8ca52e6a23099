//! Opens databases in a mode, and brings a WAL into the state that a mode measures.

mod uri;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode, OpenFlags};
pub use uri::VfsError;
use uri::uri;

use crate::interrupt;
use crate::mode::{Journal, Mode};

/// Longer than any wait that a healthy device causes, so that contents depend on the SQL alone.
const BUSY_TIMEOUT: Duration = Duration::from_secs(60);
const CHECKPOINT_RETRY: Duration = Duration::from_millis(5);

/// A table that fills the WAL beyond an automatic checkpoint (1,000 frames), and stays in the
/// database. If it gave its pages back, the workload would use them again, at the cost of a write
/// of the free list.
pub const PREGROWN_TABLE: &str = "oneflush_pregrown";
const PREGROWN_PAGES: u32 = 1_100;

#[derive(Debug, thiserror::Error)]
pub enum DatabaseError {
    #[error("{0}")]
    Sqlite(#[from] rusqlite::Error),
    #[error(
        "asked for journal_mode={asked}, SQLite answered {answered}; this database cannot be \
            measured in this mode"
    )]
    JournalMode { asked: &'static str, answered: String },
    #[error("a checkpoint of the WAL did not finish; is the database open in another program?")]
    CheckpointBusy,
    #[error(transparent)]
    Vfs(#[from] VfsError),
}

impl DatabaseError {
    pub fn is_disk_full(&self) -> bool {
        let DatabaseError::Sqlite(error) = self else { return false };
        error.sqlite_error_code() == Some(ErrorCode::DiskFull)
    }
}

pub fn open(path: &Path, mode: &Mode) -> Result<Connection, DatabaseError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_URI
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(uri(path, mode)?, flags)?;
    // SQLite's own default, which the build that is linked here changes. Recordings were made with
    // it.
    connection.execute_batch("PRAGMA foreign_keys=OFF")?;
    configure(&connection, "main", mode)?;
    Ok(connection)
}

pub fn attach(
    connection: &Connection,
    path: &Path,
    schema: &str,
    mode: &Mode,
) -> Result<(), DatabaseError> {
    connection.execute(&format!("ATTACH DATABASE ?1 AS {schema}"), [uri(path, mode)?])?;
    configure(connection, schema, mode)
}

fn configure(connection: &Connection, schema: &str, mode: &Mode) -> Result<(), DatabaseError> {
    // First: the change to WAL below already needs locks that another connection may hold.
    connection.busy_timeout(BUSY_TIMEOUT)?;
    let asked = mode.journal.pragma();
    let answered: String =
        connection
            .query_row(&format!("PRAGMA {schema}.journal_mode={asked}"), [], |row| row.get(0))?;
    if answered != asked {
        return Err(DatabaseError::JournalMode { asked, answered });
    }
    if let Some(pages) = mode.parameters.checkpoint_pages() {
        connection.execute_batch(&format!("PRAGMA wal_autocheckpoint={pages}"))?;
    }
    connection
        .execute_batch(&format!("PRAGMA {schema}.synchronous={}", mode.synchronous.pragma()))?;
    Ok(())
}

/// Brings the WALs of all of a connection's databases to where the measurement begins. They are
/// then long enough or, if it begins with a `fresh` one, empty and removable. Journals need
/// nothing.
pub fn prepare_wal(
    connection: &Connection,
    schemas: &[String],
    mode: &Mode,
    fresh: bool,
) -> Result<(), DatabaseError> {
    for schema in schemas {
        match mode.journal {
            Journal::Wal | Journal::WalGrowing if fresh => {
                checkpoint(connection, schema, "TRUNCATE")?
            }
            Journal::Wal => {
                connection.execute_batch(&format!(
                    "BEGIN;
                     CREATE TABLE {schema}.{PREGROWN_TABLE}(filler BLOB);
                     WITH RECURSIVE counter(n) AS (VALUES(1) UNION ALL SELECT n + 1 FROM counter \
                     WHERE n < {PREGROWN_PAGES})
                     INSERT INTO {schema}.{PREGROWN_TABLE} SELECT zeroblob(4000) FROM counter;
                     COMMIT;"
                ))?;
                checkpoint(connection, schema, "RESTART")?;
            }
            _ => {}
        }
    }
    Ok(())
}

/// A passive checkpoint does what it can, which is all that it promises. Any other kind is repeated
/// while somebody else runs one, for example a strategy's own checkpointer. SQLite then answers
/// "busy" without waiting for the busy timeout.
pub fn checkpoint(connection: &Connection, schema: &str, kind: &str) -> Result<(), DatabaseError> {
    let sql = format!("PRAGMA {schema}.wal_checkpoint({kind})");
    let begun = Instant::now();
    loop {
        let busy: bool = connection.query_row(&sql, [], |row| row.get(0))?;
        if !busy || kind == "PASSIVE" {
            return Ok(());
        }
        if begun.elapsed() >= BUSY_TIMEOUT || interrupt::requested() {
            return Err(DatabaseError::CheckpointBusy);
        }
        std::thread::sleep(CHECKPOINT_RETRY);
    }
}

/// The files that SQLite and strategy `plain` leave beside a database, and the database.
pub fn files_of(database: &Path) -> [PathBuf; 5] {
    ["", "-journal", "-wal", "-shm", "-oneflush-kept"].map(|suffix| {
        let mut name = database.as_os_str().to_owned();
        name.push(suffix);
        PathBuf::from(name)
    })
}

/// What may be the WAL of a database: SQLite's, or what a strategy keeps in its place.
pub fn wals_of(database: &Path) -> [PathBuf; 3] {
    ["-wal", "-oneflush-wal", "-waldio"].map(|suffix| {
        let mut name = database.as_os_str().to_owned();
        name.push(suffix);
        PathBuf::from(name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A strategy that checkpoints in the background made the set-up fail, whenever the two met.
    #[test]
    fn a_checkpoint_waits_for_one_that_is_under_way() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.db");
        let mode = "wal:off:sqlite".parse().unwrap();
        let writer = open(&path, &mode).unwrap();
        writer.execute_batch("CREATE TABLE t(a); INSERT INTO t VALUES(1)").unwrap();
        // Another process takes the lock of a checkpoint, byte 121 of the WAL index, as SQLite
        // would.
        let shm = files_of(&path)[3].clone();
        let script = "import fcntl, os, struct, sys, time\n\
                      file = os.open(sys.argv[1], os.O_RDWR)\n\
                      fcntl.fcntl(file, fcntl.F_SETLK, struct.pack('hhqqi4x', fcntl.F_WRLCK, 0, \
                      121, 1, 0))\n\
                      print('locked', flush=True)\n\
                      time.sleep(0.3)\n";
        let mut other = std::process::Command::new("python3");
        let other = other.args(["-c", script]).arg(shm).stdout(std::process::Stdio::piped());
        if !oneflush_testing::has_programs(&["python3"]) {
            return;
        }
        let mut other = oneflush_testing::Running::start(other);
        let mut line = String::new();
        std::io::BufRead::read_line(
            &mut std::io::BufReader::new(other.stdout.take().unwrap()),
            &mut line,
        )
        .unwrap();
        assert_eq!(line, "locked\n");
        let busy: bool =
            writer.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0)).unwrap();
        assert!(busy, "the other process holds the lock, and SQLite does not wait for it");
        checkpoint(&writer, "main", "TRUNCATE").unwrap();
        assert!(other.wait().unwrap().success());
    }
}
