//! Processes that share databases with strategy `maw`, and die, are stopped or panic (feature
//! `kill-points`).
//!
//! A writer is this program again, with its task in its environment. It commits to one database, to
//! another one, and to both at once. It says each number on its standard output when SQLite has
//! acknowledged the commit. A reader looks at both databases in one transaction.
//!
//! What must hold, by number in the tests:
//!
//! 1. A reader never sees a part of a transaction. The balances of both databases add up to zero,
//!    and both have counted the same number of common transactions.
//! 2. Every number that was said is in the databases at the end.
//! 3. Of the others, at most one for each death is there: the one that the writer was about to say.
//! 4. The databases are sound.
//! 5. Every commit and every read succeeds within [`GOES_ON`], whoever dies.
//! 6. After the last close each database is one plain file.
mod deaths;
mod panics;
mod readers;
mod soak;
mod stops;
mod worker;

use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, Once, PoisonError};
use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode, OpenFlags, ffi};
use tempfile::TempDir;

/// Somebody who waits longer than this waits for ever.
const GOES_ON: Duration = Duration::from_secs(40);

const MODES: [&str; 3] = ["delete", "truncate", "persist"];

/// Two databases in one folder.
struct Pair {
    dir: TempDir,
}

impl Pair {
    fn new() -> Pair {
        let pair = Pair { dir: tempfile::tempdir().unwrap() };
        for path in pair.paths() {
            create(&path);
        }
        // Some transactions have it, too. It stays as SQLite alone makes it.
        create(&pair.dir.path().join("c.db"));
        pair
    }

    fn paths(&self) -> [PathBuf; 2] {
        paths_in(self.dir.path())
    }

    /// The names of all files.
    fn files(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.dir.path()).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

fn paths_in(dir: &Path) -> [PathBuf; 2] {
    [dir.join("a.db"), dir.join("b.db")]
}

unsafe extern "C" fn on_log(_: *mut c_void, code: c_int, message: *const c_char) {
    // SAFETY: SQLite passes a string.
    let text = unsafe { CStr::from_ptr(message) }.to_string_lossy();
    // Deaths and locks make everyday answers.
    let is_everyday = matches!(
        code & 0xff,
        ffi::SQLITE_WARNING
            | ffi::SQLITE_NOTICE
            | ffi::SQLITE_BUSY
            | ffi::SQLITE_ERROR
            | ffi::SQLITE_READONLY
    );
    // No database is ever missing here.
    let is_wrong = ["oneflush: internal", "this log stays", "--forget"]
        .iter()
        .any(|wrong| text.contains(wrong));
    if !is_everyday || is_wrong {
        eprintln!("SQLite: {code}: {text}");
    }
}

/// Called before any use of SQLite. A failure is explained by SQLite's error log.
fn setup() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let callback: unsafe extern "C" fn(*mut c_void, c_int, *const c_char) = on_log;
        // SAFETY: SQLite is not in use yet: every test comes through here first.
        unsafe {
            ffi::sqlite3_config(ffi::SQLITE_CONFIG_LOG, callback, std::ptr::null_mut::<c_void>());
        }
        oneflush_vfs::register().unwrap();
    });
}

/// Opens a database as strategy `maw` does, and attaches another one.
fn open(main: &Path, other: &Path, mode: &str, more: &str) -> rusqlite::Result<Connection> {
    open_for(Duration::from_millis(500), main, other, mode, more)
}

fn open_for(
    busy: Duration,
    main: &Path,
    other: &Path,
    mode: &str,
    more: &str,
) -> rusqlite::Result<Connection> {
    setup();
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_URI;
    let uri = |path: &Path| {
        format!("file:{}?vfs=oneflush&strategy=maw&atomic=log&{more}", path.display())
    };
    let db = Connection::open_with_flags(uri(main), flags)?;
    db.busy_timeout(busy)?;
    db.execute("ATTACH ?1 AS other", [uri(other)])?;
    for of in ["main", "other"] {
        db.execute_batch(&format!(
            "PRAGMA {of}.journal_mode={mode}; PRAGMA {of}.synchronous=full; \
             PRAGMA {of}.cache_size=20"
        ))?;
    }
    Ok(db)
}

/// Opens one database alone.
fn open_alone(path: &Path) -> Connection {
    setup();
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_URI;
    let uri = format!("file:{}?vfs=oneflush&strategy=maw&atomic=log", path.display());
    insist("one alone", || {
        let db = Connection::open_with_flags(&uri, flags)?;
        db.busy_timeout(Duration::from_secs(5))?;
        db.query_row("SELECT count(*) FROM kept", [], |_| Ok(()))?;
        Ok(db)
    })
}

/// Every table's rows are spread over pages, so that half of a transaction would be seen.
fn create(path: &Path) {
    setup();
    let db = Connection::open_with_flags_and_vfs(path, OpenFlags::default(), "unix").unwrap();
    db.execute_batch(
        "PRAGMA page_size=1024; PRAGMA auto_vacuum=full;
         CREATE TABLE balances(slot INTEGER PRIMARY KEY, amount, filler);
         CREATE TABLE common(n);
         CREATE TABLE kept(writer, number, kind, filler, PRIMARY KEY(writer, number));
         CREATE TABLE ballast(b);
         INSERT INTO common VALUES (0);
         WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n LIMIT 12)
         INSERT INTO balances SELECT i, 0, randomblob(600) FROM n;",
    )
    .unwrap();
}

/// `SQLITE_BUSY`. For who only reads also `SQLITE_READONLY_ROLLBACK`: a writer has to play back a
/// hot journal. And `SQLITE_CANTOPEN`: SQLite opens the super-journal that a journal names, and
/// another process, which plays back the other database's, has just deleted it.
fn is_busy(error: &rusqlite::Error) -> bool {
    let code = error.sqlite_error().map(|error| error.extended_code);
    code == Some(ffi::SQLITE_READONLY_ROLLBACK)
        || matches!(
            error.sqlite_error_code(),
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::CannotOpen)
        )
}

/// Held while a process is started, and during a last close. Between fork and exec a child has
/// copies of all descriptors, with their locks. A close then finds the log in use, and leaves it.
static STARTS: Mutex<()> = Mutex::new(());

fn without_starts() -> MutexGuard<'static, ()> {
    STARTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// This program again, running one test: the work of a process of its own.
fn again(test: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    // A child that panics on purpose reads megabytes of symbols for its backtrace.
    command.args(["--exact", test, "--nocapture"]).env("RUST_BACKTRACE", "0");
    command
}

/// Looks again and again until the condition holds. False: it did not hold by the deadline.
fn is_so_by(deadline: Instant, mut is_so: impl FnMut() -> bool) -> bool {
    while Instant::now() < deadline {
        if is_so() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    false
}

/// Does it again while it is told that the database is busy (invariant 5).
fn insist<T>(about: &str, mut act: impl FnMut() -> rusqlite::Result<T>) -> T {
    let began = Instant::now();
    loop {
        match act() {
            Ok(done) => return done,
            Err(error) => {
                assert!(is_busy(&error), "{about}: {error}, {:?}", error.sqlite_error());
                assert!(began.elapsed() < GOES_ON, "{about}: it does not go on");
                // Two that lock the databases in opposite orders would meet again and again.
                let mixed = began.elapsed().as_nanos() as u64 ^ u64::from(std::process::id());
                std::thread::sleep(Duration::from_millis(1 + mixed % 61));
            }
        }
    }
}

/// What a transaction that reads both databases sees. The answer is what is wrong.
fn look(db: &Connection) -> rusqlite::Result<Result<i64, String>> {
    let seen = (|| {
        db.execute_batch("BEGIN")?;
        db.query_row(
            "SELECT (SELECT sum(amount) FROM main.balances),
                    (SELECT sum(amount) FROM other.balances),
                    (SELECT n FROM main.common), (SELECT n FROM other.common),
                    (SELECT count(*) FROM main.kept WHERE kind = 2),
                    (SELECT count(*) FROM other.kept WHERE kind = 2)",
            [],
            |row| Ok([0, 1, 2, 3, 4, 5].map(|at| row.get::<_, i64>(at).unwrap_or(i64::MIN))),
        )
    })();
    let _ = db.execute_batch("ROLLBACK");
    let [main, other, common, also, kept, too] = seen?;
    // Invariant 1.
    if main + other != 0 || [common, common, common] != [also, kept, too] {
        return Ok(Err(format!(
            "balances {main} and {other}, counters {common} and {also}, rows {kept} and {too}"
        )));
    }
    Ok(Ok(common))
}

fn integrity(db: &Connection) -> rusqlite::Result<String> {
    db.query_row("SELECT group_concat(integrity_check) FROM pragma_integrity_check", [], |row| {
        row.get(0)
    })
}
