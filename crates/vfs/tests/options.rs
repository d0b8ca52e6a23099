//! Options of an open: what is refused, how it is said, and that nothing is left behind.

use std::ffi::{c_char, c_int, c_void};
use std::path::Path;
use std::sync::{Mutex, Once};

use rusqlite::{Connection, OpenFlags, ffi};

static LOG: Mutex<Vec<String>> = Mutex::new(Vec::new());

unsafe extern "C" fn on_log(_: *mut c_void, _: c_int, message: *const c_char) {
    // SAFETY: SQLite passes a string.
    let text = unsafe { std::ffi::CStr::from_ptr(message) }.to_string_lossy().into_owned();
    LOG.lock().unwrap().push(text);
}

fn setup() {
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

fn open(path: &Path, parameters: &str) -> rusqlite::Result<Connection> {
    setup();
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_URI;
    Connection::open_with_flags(format!("file:{}?vfs=oneflush{parameters}", path.display()), flags)
}

#[test]
fn a_refused_option_is_logged_with_its_name_value_and_choices_and_creates_no_file() {
    let dir = tempfile::tempdir().unwrap();
    for (at, (parameters, words)) in [
        ("&strategy=eagre", ["strategy", "\"eagre\"", "auto, stock"]),
        ("&durability=half", ["durability", "\"half\"", "pragma, full"]),
        ("&strategy=stock&durability=full", ["durability=full", "stock", "PRAGMA synchronous"]),
        ("&group_commit=maybe", ["group_commit", "\"maybe\"", "on, off"]),
        ("&log_size=big", ["log_size", "\"big\"", "1 MiB"]),
    ]
    .into_iter()
    .enumerate()
    {
        let path = dir.path().join(format!("refused-{at}.db"));
        let error = open(&path, parameters).unwrap_err();
        assert_eq!(error.sqlite_error_code(), Some(rusqlite::ErrorCode::CannotOpen));
        assert!(!path.exists());
        let log = LOG.lock().unwrap();
        let name = path.display().to_string();
        let line = log.iter().find(|line| line.contains(&name)).unwrap_or_else(|| panic!("{name} not in {log:?}"));
        for word in words {
            assert!(line.contains(word), "{word} not in: {line}");
        }
    }
}

#[test]
fn every_allowed_value_opens() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.db");
    for parameters in [
        "",
        "&strategy=auto",
        "&strategy=stock",
        "&strategy=plain",
        "&durability=pragma",
        "&durability=full",
        "&prealloc=0",
        "&prealloc=65536",
        "&keep_wal=off",
        "&checkpoints=sqlite",
        "&group_commit=on",
        "&group_commit=off",
        "&log_size=1048576",
        "&cache=private&strategy=stock",
    ] {
        let db = open(&path, parameters).unwrap();
        db.execute_batch("CREATE TABLE IF NOT EXISTS t(v); INSERT INTO t VALUES (1)").unwrap();
    }
}

#[test]
fn an_attached_database_has_options_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(&dir.path().join("a.db"), "").unwrap();
    let other = dir.path().join("b.db");
    let attach = |strategy: &str| {
        db.execute_batch(&format!("ATTACH 'file:{}?vfs=oneflush&strategy={strategy}' AS b", other.display()))
    };
    attach("nonsense").unwrap_err();
    attach("stock").unwrap();
    let strategy: String = db.query_row("PRAGMA b.oneflush_strategy", [], |row| row.get(0)).unwrap();
    assert_eq!(strategy, "stock");
}

#[test]
fn temporary_and_in_memory_databases_work() {
    setup();
    for name in ["", ":memory:"] {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
        let db = Connection::open_with_flags_and_vfs(name, flags, oneflush_vfs::VFS_NAME).unwrap();
        db.execute_batch("PRAGMA cache_size=2; CREATE TABLE t(v); INSERT INTO t VALUES (zeroblob(1000000));").unwrap();
        let size: i64 = db.query_row("SELECT length(v) FROM t", [], |row| row.get(0)).unwrap();
        assert_eq!(size, 1_000_000);
    }
}
