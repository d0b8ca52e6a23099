//! Invariants 1 and 2: with `stock` the VFS below gets SQLite's own calls, and SQLite gets its
//! answers.

use std::path::Path;

use rusqlite::{Connection, OpenFlags, ffi};

use crate::recorder;

fn open(path: &Path, vfs: &str) -> Connection {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_URI;
    let uri = format!("file:{}?vfs={vfs}", path.display());
    Connection::open_with_flags(uri, flags).unwrap()
}

/// The calls that the VFS below saw while `work` used it, once directly and once through ours.
fn both_ways(work: impl Fn(&Path, &str)) -> (Vec<String>, Vec<String>) {
    let run = |vfs: &str| -> Vec<String> {
        let dir = tempfile::tempdir().unwrap();
        recorder::take();
        work(&dir.path().join("a.db"), vfs);
        recorder::take().into_iter().map(without_random_name).collect()
    };
    (run("unix-recorder"), run("oneflush&strategy=stock"))
}

/// A super-journal's name ends in 9 random characters.
fn without_random_name(call: String) -> String {
    match call.find("-mj") {
        Some(at) => format!("{}{}", &call[..at + 3], &call[at + 12..]),
        None => call,
    }
}

fn assert_same(work: impl Fn(&Path, &str)) -> Vec<String> {
    let (direct, through) = both_ways(work);
    for (at, (direct, through)) in direct.iter().zip(&through).enumerate() {
        assert_eq!(direct, through, "call {at}");
    }
    assert_eq!(direct.len(), through.len());
    direct
}

const TRANSACTIONS: &str = "
    CREATE TABLE t(id INTEGER PRIMARY KEY AUTOINCREMENT, v TEXT);
    INSERT INTO t(v) VALUES (printf('%.100c', 'x'));
    BEGIN; INSERT INTO t(v) VALUES ('a'); SAVEPOINT s; UPDATE t SET v = 'b'; ROLLBACK TO s; COMMIT;
    BEGIN; DELETE FROM t; ROLLBACK;
    WITH RECURSIVE c(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM c WHERE i < 500)
        INSERT INTO t(v) SELECT printf('%.300c', 'y') FROM c;
    VACUUM;
    PRAGMA integrity_check;";

#[test]
fn every_journal_mode_makes_the_same_calls_with_the_same_answers() {
    let _turn = recorder::begin();
    for mode in ["delete", "truncate", "persist", "memory", "off", "wal"] {
        for synchronous in ["off", "normal", "full", "extra"] {
            let calls = assert_same(|path, vfs| {
                let db = open(path, vfs);
                db.execute_batch(&format!(
                    "PRAGMA synchronous={synchronous}; PRAGMA journal_mode={mode};"
                ))
                .unwrap();
                db.execute_batch(TRANSACTIONS).unwrap();
            });
            assert!(
                calls.iter().any(|call| call.starts_with("xWrite")),
                "the recorder saw nothing"
            );
            assert_eq!(
                calls.iter().any(|call| call.starts_with("xSync")),
                synchronous != "off",
                "{mode}"
            );
        }
    }
}

#[test]
fn wal_with_two_connections_checkpoints_and_a_small_cache_makes_the_same_calls() {
    let _turn = recorder::begin();
    let calls = assert_same(|path, vfs| {
        let (one, two) = (open(path, vfs), open(path, vfs));
        one.execute_batch(
            "PRAGMA journal_mode=wal; PRAGMA cache_size=5; PRAGMA wal_autocheckpoint=20;",
        )
        .unwrap();
        one.execute_batch(TRANSACTIONS.replace("VACUUM;", "").as_str()).unwrap();
        for at in 0..50 {
            let connection = if at % 2 == 0 { &one } else { &two };
            connection.execute("INSERT INTO t(v) VALUES (?1)", [at.to_string()]).unwrap();
        }
        for kind in ["PASSIVE", "FULL", "RESTART", "TRUNCATE"] {
            two.query_row(&format!("PRAGMA wal_checkpoint({kind})"), [], |_| Ok(())).unwrap();
        }
    });
    for method in ["xShmMap", "xShmLock", "xShmBarrier", "xShmUnmap"] {
        assert!(calls.iter().any(|call| call.starts_with(method)), "{method} was not used");
    }
}

#[test]
fn memory_mapped_reads_and_exclusive_mode_make_the_same_calls() {
    let _turn = recorder::begin();
    let calls = assert_same(|path, vfs| {
        let db = open(path, vfs);
        db.execute_batch(
            "PRAGMA mmap_size=1048576; PRAGMA locking_mode=exclusive; PRAGMA journal_mode=wal;",
        )
        .unwrap();
        db.execute_batch(TRANSACTIONS).unwrap();
        drop(db);
        let db = open(path, vfs);
        db.execute_batch("PRAGMA mmap_size=1048576").unwrap();
        let rows: i64 =
            db.query_row("SELECT count(*) FROM t WHERE v LIKE 'y%'", [], |row| row.get(0)).unwrap();
        assert_eq!(rows, 500);
    });
    assert!(
        calls.iter().any(|call| call.starts_with("xFetch") && call.contains("false = 0")),
        "nothing was mapped"
    );
    assert!(calls.iter().any(|call| call.starts_with("xUnfetch")));
}

#[test]
fn a_transaction_over_attached_databases_makes_the_same_calls() {
    let _turn = recorder::begin();
    let calls = assert_same(|path, vfs| {
        let db = open(path, vfs);
        let other = path.with_file_name("b.db");
        db.execute_batch(&format!("ATTACH 'file:{}?vfs={vfs}' AS b", other.display())).unwrap();
        db.execute_batch("CREATE TABLE t(v); CREATE TABLE b.t(v);").unwrap();
        db.execute_batch(
            "BEGIN; INSERT INTO main.t VALUES (1); INSERT INTO b.t VALUES (2); COMMIT;",
        )
        .unwrap();
    });
    assert!(
        calls.iter().any(|call| call.starts_with("xOpen a.db-mj")),
        "no super-journal was used"
    );
}

#[test]
fn a_database_path_that_is_a_directory_is_refused_as_by_sqlite() {
    let _turn = recorder::begin();
    let (direct, through) = both_ways(|path, vfs| {
        std::fs::create_dir(path).unwrap();
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_URI;
        let error =
            Connection::open_with_flags(format!("file:{}?vfs={vfs}", path.display()), flags)
                .unwrap_err();
        assert_eq!(error.sqlite_error_code(), Some(rusqlite::ErrorCode::CannotOpen), "{error}");
    });
    assert_eq!(direct, through);
}

#[test]
fn file_controls_sector_size_and_device_characteristics_are_those_of_the_vfs_below() {
    let _turn = recorder::begin();
    let calls = assert_same(|path, vfs| {
        let db = open(path, vfs);
        db.execute_batch("CREATE TABLE t(v)").unwrap();
        // The two that are left out take strings. SQLite itself passes these in the other tests.
        let takes_string =
            |op: &i32| matches!(*op, ffi::SQLITE_FCNTL_PRAGMA | ffi::SQLITE_FCNTL_TRACE);
        for op in (1..60).chain([9999]).filter(|op| !takes_string(op)) {
            // Long enough for the answer of every operation.
            let mut argument = [0u64; 16];
            // SAFETY: the connection is open and the argument is writable.
            unsafe {
                ffi::sqlite3_file_control(
                    db.handle(),
                    c"main".as_ptr(),
                    op,
                    argument.as_mut_ptr().cast(),
                );
                if matches!(op, ffi::SQLITE_FCNTL_VFSNAME | ffi::SQLITE_FCNTL_TEMPFILENAME) {
                    ffi::sqlite3_free(argument[0] as *mut std::ffi::c_void);
                }
            }
        }
        let mut file: *mut ffi::sqlite3_file = std::ptr::null_mut();
        // SAFETY: the file lives as long as the connection.
        unsafe {
            let answer = (&raw mut file).cast();
            ffi::sqlite3_file_control(
                db.handle(),
                c"main".as_ptr(),
                ffi::SQLITE_FCNTL_FILE_POINTER,
                answer,
            );
            let methods = &*(*file).pMethods;
            assert_eq!(methods.iVersion, 3);
            assert!(methods.xSectorSize.unwrap()(file) > 0);
            methods.xDeviceCharacteristics.unwrap()(file);
        }
    });
    assert!(
        calls.iter().any(|call| call.contains("xFileControl") && call.contains(" 9999 = 12")),
        "unknown one lost"
    );
    assert!(calls.iter().any(|call| call.starts_with("xDeviceCharacteristics")));
}

#[test]
fn the_vfs_has_just_the_methods_of_the_one_below() {
    let _turn = recorder::begin();
    // SAFETY: both are registered, and a registered VFS lives for ever.
    let (ours, below) = unsafe {
        (
            &*ffi::sqlite3_vfs_find(c"oneflush".as_ptr()),
            &*ffi::sqlite3_vfs_find(c"unix-recorder".as_ptr()),
        )
    };
    assert_eq!((ours.iVersion, ours.mxPathname), (below.iVersion, below.mxPathname));
    macro_rules! same {
        ($($method:ident)*) => { $(assert_eq!(ours.$method.is_some(), below.$method.is_some());)* };
    }
    same!(
        xOpen xDelete xAccess xFullPathname xDlOpen xDlError xDlSym xDlClose xRandomness xSleep
        xCurrentTime xGetLastError xCurrentTimeInt64 xSetSystemCall xGetSystemCall xNextSystemCall
    );
    // SAFETY: the VFS is ours; the system call is looked up by name in the VFS below.
    unsafe {
        let ours_ptr = ffi::sqlite3_vfs_find(c"oneflush".as_ptr());
        assert!(ours.xGetSystemCall.unwrap()(ours_ptr, c"open".as_ptr()).is_some());
        assert!(!ours.xNextSystemCall.unwrap()(ours_ptr, std::ptr::null()).is_null());
    }
}
