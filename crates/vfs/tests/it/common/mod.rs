//! What the tests of strategies share: databases, their files as a crash leaves them, and SQLite's
//! error log.

pub mod atomic_place;
pub mod damaged;
pub mod own_xfs;

use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, Once, PoisonError};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, ffi};
use serde_json::Value;
use tempfile::TempDir;

static LOG: Mutex<Vec<String>> = Mutex::new(Vec::new());

unsafe extern "C" fn on_log(_: *mut c_void, _: c_int, message: *const c_char) {
    // SAFETY: SQLite passes a string.
    let text = unsafe { CStr::from_ptr(message) }.to_string_lossy().into_owned();
    LOG.lock().unwrap_or_else(PoisonError::into_inner).push(text);
}

/// A strategy that has a log, and what a crash leaves of it: the log alone, the log with what it
/// may stand on, and all files.
#[derive(Clone, Copy, Debug)]
pub struct Logged {
    pub strategy: &'static str,
    pub log: &'static [&'static str],
    pub with_image: &'static [&'static str],
    pub all: &'static [&'static str],
}

pub const LOGGED: [Logged; 2] = [
    Logged {
        strategy: "eager",
        log: &["-oneflush"],
        with_image: &["-oneflush", "-oneflush-wal"],
        all: &["-oneflush", "-oneflush-wal", "-oneflush-shm"],
    },
    Logged {
        strategy: "waldio",
        log: &["-waldio"],
        with_image: &["-waldio"],
        all: &["-waldio", "-oneflush-shm"],
    },
];

impl Logged {
    pub fn open(&self, path: &Path) -> rusqlite::Result<Connection> {
        open_with(path, &format!("strategy={}", self.strategy))
    }

    pub fn read_only(&self, path: &Path) -> rusqlite::Result<Connection> {
        open_with(path, &format!("strategy={}&mode=ro", self.strategy))
    }

    /// A new database in WAL mode, made with these PRAGMAs.
    pub fn create(&self, path: &Path, pragmas: &str) -> Connection {
        let db = self.open(path).unwrap();
        db.execute_batch(&format!("{pragmas}; PRAGMA journal_mode=wal; PRAGMA synchronous=full"))
            .unwrap();
        commits::create(&db);
        db
    }

    /// A connection to a database that is there.
    pub fn joined(&self, path: &Path) -> Connection {
        try_open(path, self.strategy).unwrap()
    }

    /// The files as a crash would leave them, without the image.
    pub fn after_crash(&self, path: &Path) -> Connection {
        self.joined(&crash(path, self.log))
    }
}

/// Opens a database that is there, and reads it.
pub fn try_open(path: &Path, strategy: &str) -> rusqlite::Result<Connection> {
    let db = open_with(path, &format!("strategy={strategy}"))?;
    db.execute_batch("PRAGMA synchronous=full; SELECT count(*) FROM sqlite_schema")?;
    Ok(db)
}

/// After the last close: a plain file, alone, with all commits.
pub fn assert_plain(path: &Path, expected: i64) {
    assert_eq!(files(path), [""]);
    assert_eq!(commits::check(&open_stock(path)), Ok(expected));
}

/// Called before any use of SQLite.
pub fn setup() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: SQLite is not in use yet: every test comes through here first.
        unsafe {
            let callback: unsafe extern "C" fn(*mut c_void, c_int, *const c_char) = on_log;
            ffi::sqlite3_config(ffi::SQLITE_CONFIG_LOG, callback, std::ptr::null_mut::<c_void>());
        }
        oneflush_vfs::register().unwrap();
    });
}

/// Takes the messages of Oneflush about this database out of SQLite's error log.
pub fn take_said(database: &Path) -> String {
    let name = database.display().to_string();
    let mut log = LOG.lock().unwrap_or_else(PoisonError::into_inner);
    let (said, others): (Vec<String>, Vec<String>) =
        log.drain(..).partition(|line| line.contains(&name));
    *log = others;
    let ours: Vec<String> =
        said.into_iter().filter(|line| line.starts_with("oneflush: ")).collect();
    ours.join("\n")
}

pub fn open_with(path: &Path, parameters: &str) -> rusqlite::Result<Connection> {
    setup();
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_URI;
    let db = Connection::open_with_flags(
        format!("file:{}?vfs=oneflush&{parameters}", path.display()),
        flags,
    )?;
    db.busy_timeout(Duration::from_secs(2))?;
    Ok(db)
}

/// `SQLITE_FCNTL_RESERVE_BYTES`: for a database without content.
pub fn reserve(db: &Connection, reserved: u8) {
    let mut bytes = std::ffi::c_int::from(reserved);
    // SAFETY: the connection is open, and the number lives during the call.
    let code = unsafe {
        ffi::sqlite3_file_control(
            db.handle(),
            c"main".as_ptr(),
            ffi::SQLITE_FCNTL_RESERVE_BYTES,
            (&raw mut bytes).cast(),
        )
    };
    assert_eq!(code, ffi::SQLITE_OK);
}

/// SQLite alone, as another program would open the file.
pub fn open_stock(path: &Path) -> Connection {
    setup();
    let db = Connection::open_with_flags_and_vfs(path, OpenFlags::default(), "unix").unwrap();
    db.busy_timeout(Duration::from_secs(5)).unwrap();
    db
}

/// A folder, and the path of a database in it.
pub fn scratch() -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.db");
    (dir, path)
}

/// The same, with a database of SQLite alone in this mode that has commits.
pub fn scratch_with(mode: &str, count: usize) -> (TempDir, PathBuf) {
    setup();
    let (dir, path) = scratch();
    let db = open_stock(&path);
    db.query_row(&format!("PRAGMA journal_mode={mode}"), [], |_| Ok(())).unwrap();
    commits::create(&db);
    commits::make(&db, count);
    (dir, path)
}

pub fn side(path: &Path, suffix: &str) -> PathBuf {
    PathBuf::from(format!("{}{suffix}", path.display()))
}

/// The names of the files that begin with the database's name, without that name.
pub fn files(path: &Path) -> Vec<String> {
    let name = path.file_name().unwrap().to_str().unwrap();
    let entries = std::fs::read_dir(path.parent().unwrap()).unwrap();
    let names = entries.filter_map(|entry| {
        entry.unwrap().file_name().into_string().unwrap().strip_prefix(name).map(str::to_owned)
    });
    let mut files: Vec<String> = names.collect();
    files.sort();
    files
}

/// The files as they are, with these side files, under another name.
pub fn crash(path: &Path, side_files: &[&str]) -> PathBuf {
    let name = (0..)
        .map(|n| path.with_extension(format!("crash{n}.db")))
        .find(|name| !name.exists())
        .unwrap();
    std::fs::copy(path, &name).unwrap();
    for side_file in side_files {
        std::fs::copy(side(path, side_file), side(&name, side_file)).unwrap();
    }
    name
}

pub fn integrity(db: &Connection) -> String {
    db.query_row("PRAGMA integrity_check", [], |row| row.get(0))
        .unwrap_or_else(|error| error.to_string())
}

pub fn number(db: &Connection, sql: &str) -> i64 {
    db.query_row(sql, [], |row| row.get(0)).unwrap()
}

/// `PRAGMA oneflush_stats`.
pub fn stats(db: &Connection) -> Value {
    let json: String = db.query_row("PRAGMA oneflush_stats", [], |row| row.get(0)).unwrap();
    serde_json::from_str(&json).unwrap()
}

/// A number of `PRAGMA oneflush_stats`, by its JSON pointer.
pub fn statistic(db: &Connection, pointer: &str) -> u64 {
    let stats = stats(db);
    stats
        .pointer(pointer)
        .unwrap_or_else(|| panic!("{pointer} missing in {stats}"))
        .as_u64()
        .unwrap()
}

/// Rows of table `t`.
pub fn count(db: &Connection) -> i64 {
    number(db, "SELECT count(*) FROM t")
}

/// Makes this number of commits of one row each into table `t`.
pub fn insert(db: &Connection, rows: usize) {
    let mut statement = db.prepare("INSERT INTO t VALUES (randomblob(100))").unwrap();
    for _ in 0..rows {
        statement.execute([]).unwrap();
    }
}

/// Commits of an application that can be checked later. Row `n` has its content exactly if commit
/// `n` is there. The counter says how many commits there are.
pub mod commits {
    use rusqlite::Connection;

    const CONTENT: &str = "substr(replace(hex(zeroblob(40)), '00', n || ','), 1, 30 + n % 50)";

    pub fn create(db: &Connection) {
        db.execute_batch(
            "CREATE TABLE t(n INTEGER PRIMARY KEY, v); CREATE INDEX i ON t(v); CREATE \
            TABLE total(n)",
        )
        .unwrap();
        db.execute_batch("INSERT INTO total VALUES (0)").unwrap();
    }

    pub fn make(db: &Connection, count: usize) {
        for _ in 0..count {
            try_make(db).unwrap();
        }
    }

    pub fn try_make(db: &Connection) -> rusqlite::Result<()> {
        try_make_with(db, "")
    }

    /// A commit that does something else as well.
    pub fn try_make_with(db: &Connection, sql: &str) -> rusqlite::Result<()> {
        let insert = format!("INSERT INTO t SELECT n, {CONTENT} FROM total");
        db.execute_batch(&format!(
            "BEGIN IMMEDIATE; UPDATE total SET n = n + 1; {insert}; {sql}; COMMIT"
        ))
        .inspect_err(|_| {
            let _ = db.execute_batch("ROLLBACK");
        })
    }

    /// How many commits are there. They must be the first ones, whole, and the database must be
    /// sound. Otherwise the answer is what is wrong.
    pub fn check(db: &Connection) -> Result<i64, String> {
        let query = format!(
            "SELECT count(*), coalesce(max(n), 0), sum(v IS NOT {CONTENT}), (SELECT n FROM total) \
                FROM t"
        );
        let found = db.query_row(&query, [], |row| {
            Ok((
                row.get::<_, i64>(0)?,
                row.get::<_, i64>(1)?,
                row.get::<_, Option<i64>>(2)?,
                row.get::<_, i64>(3)?,
            ))
        });
        let (count, last, wrong, total) = found.map_err(|error| error.to_string())?;
        let sound = super::integrity(db);
        if (last, wrong.unwrap_or(0), total, sound.as_str()) != (count, 0, count, "ok") {
            return Err(format!(
                "{count} rows, the last {last}, {wrong:?} wrong, counter {total}, integrity {sound}"
            ));
        }
        Ok(count)
    }
}
