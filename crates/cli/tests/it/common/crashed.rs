//! Databases in use with a strategy that has a log, as the end of their process leaves them.

use std::fs;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};

/// How many rows such a database has, all of them in its log.
pub const ROWS: usize = 40;

/// A file beside a database, whose name need not be UTF-8.
pub fn side(database: &Path, suffix: &str) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// A strategy that has a log, the log's suffix, and what else an open needs.
pub struct Logged {
    pub strategy: &'static str,
    pub log: &'static str,
    parameters: &'static str,
    journal_mode: &'static str,
}

pub const EAGER: Logged = Logged {
    strategy: "eager",
    log: "-oneflush",
    parameters: "checkpoints=sqlite",
    journal_mode: "wal",
};
pub const WALDIO: Logged = Logged { strategy: "waldio", log: "-waldio", ..EAGER };
/// The database file is that of the time before the rows, as a loss of power may leave it.
pub const MAW: Logged =
    Logged { strategy: "maw", log: "-maw", parameters: "atomic=log", journal_mode: "delete" };

/// A database of this path, in use with `eager`, with what `more` does to it, copied with its log
/// and the files of these suffixes.
pub fn crashed_after(database: &Path, suffixes: &[&str], more: impl FnOnce(&Connection)) {
    EAGER.crashed_after(database, suffixes, more);
}

impl Logged {
    /// The same with this strategy.
    pub fn crashed_after(
        &self,
        database: &Path,
        suffixes: &[&str],
        more: impl FnOnce(&Connection),
    ) {
        oneflush_vfs::register().unwrap();
        let live = database.with_file_name("live.db");
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_URI;
        let (live_name, strategy) = (live.display(), self.strategy);
        let Logged { parameters, journal_mode, .. } = self;
        let uri = format!("file:{live_name}?vfs=oneflush&strategy={strategy}&{parameters}");
        let db = Connection::open_with_flags(uri, flags).unwrap();
        db.execute_batch(&format!(
            "PRAGMA journal_mode={journal_mode}; PRAGMA synchronous=full;
             PRAGMA wal_autocheckpoint=0"
        ))
        .unwrap();
        db.execute_batch(
            "CREATE TABLE t(v); CREATE TABLE u(v); INSERT INTO u VALUES (hex(zeroblob(9000)))",
        )
        .unwrap();
        db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
        // Not in WAL mode: reading the file ends the locks of this process on it.
        let before = (self.journal_mode != "wal").then(|| fs::read(&live).unwrap());
        for row in 0..ROWS {
            db.execute("INSERT INTO t VALUES (?)", [row as i64]).unwrap();
        }
        more(&db);
        for suffix in ["", self.log].iter().chain(suffixes) {
            fs::copy(side(&live, suffix), side(database, suffix)).unwrap();
        }
        if let Some(before) = before {
            fs::write(database, before).unwrap();
        }
        drop(db);
        fs::remove_file(live).unwrap();
    }
}

pub fn crashed(database: &Path, suffixes: &[&str]) {
    crashed_after(database, suffixes, |_| {});
}

/// The blocks in which the records of the newest epoch begin, in their order.
pub fn records(log: &[u8]) -> Vec<usize> {
    let number = |at: usize| u64::from_le_bytes(log[at..at + 8].try_into().unwrap());
    let blocks = (4096..log.len()).step_by(4096).filter(|&at| log[at..at + 4] == *b"1FLR");
    let epoch = blocks.clone().map(|at| number(at + 8)).max().unwrap();
    let mut found: Vec<usize> = blocks.filter(|&at| number(at + 8) == epoch).collect();
    found.sort_by_key(|&at| number(at + 16));
    found
}
