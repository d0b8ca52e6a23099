//! What is refused, with words that lead out, and is left as it was.

use std::fs;
use std::io::Read;
use std::mem::ManuallyDrop;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use oneflush_testing::{Running, in_own_mounts, named, wait_until};
use rusqlite::{Connection, OpenFlags};
use rustix::fs::{FallocateFlags, fallocate};

use super::*;
use crate::common::crashed::side;
use crate::common::{assert_refused, crashed, skip_unless_root};

#[track_caller]
fn refused(sandbox: &Sandbox, database: &Path, reserve: &str, words: &[&str]) {
    let before = bytes(database);
    let output = convert(sandbox, database, &["--reserve", reserve]);
    assert_refused(&output, code(words), words);
    assert!(bytes(database) == before, "it is as it was");
}

/// Somebody is in the way, the file cannot be read, or what it is forbids the conversion.
fn code(words: &[&str]) -> i32 {
    let has = |code| words.contains(&code);
    if has("[OF-601]") {
        75
    } else if has("[OF-617]") {
        1
    } else {
        3
    }
}

/// The descriptor stays open: its close would take the locks of the test's own connections away.
fn bytes(database: &Path) -> Option<Vec<u8>> {
    let mut file = ManuallyDrop::new(fs::File::open(database).ok()?);
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).ok().map(|_| bytes)
}

#[test]
fn what_is_no_database_is_refused_by_name() {
    let sandbox = Sandbox::new();
    let at = |name: &str| sandbox.path().join(name);
    refused(&sandbox, &at("none.db"), "24", &["none.db", "No such file", "[OF-617]"]);
    refused(&sandbox, sandbox.path(), "24", &["not a regular file", "[OF-614]"]);
    fs::write(at("notes.txt"), "a text that is long enough to be a header".repeat(9)).unwrap();
    refused(&sandbox, &at("notes.txt"), "24", &["notes.txt", "or encrypted", "[OF-618]"]);
    fs::write(at("empty.db"), "").unwrap();
    refused(&sandbox, &at("empty.db"), "24", &["empty.db", "no page yet", "[OF-615]"]);
    assert!(Command::new("mkfifo").arg(at("pipe.db")).status().unwrap().success());
    let pipe = convert(&sandbox, &at("pipe.db"), &["--reserve", "24"]);
    assert_refused(&pipe, 3, &["pipe.db", "not a regular file"]);
    // As SQLCipher with a header that is not encrypted leaves one.
    make(&at("mixed.db"), "delete", 100);
    let mut bytes = fs::read(at("mixed.db")).unwrap();
    for (n, byte) in bytes[32..].iter_mut().enumerate() {
        *byte = byte.wrapping_mul(31) ^ (n as u8).wrapping_mul(97) ^ 0x5a;
    }
    fs::write(at("mixed.db"), bytes).unwrap();
    refused(&sandbox, &at("mixed.db"), "24", &["mixed.db", "[OF-"]);
}

#[test]
fn a_number_that_sqlite_or_somebody_else_forbids_is_refused() {
    let sandbox = Sandbox::new();
    let path = sandbox.path().join("a.db");
    let usage = convert(&sandbox, &path, &["--reserve", "256"]);
    assert_refused(&usage, 2, &["256", "0..=255"]);
    open(&path).execute_batch("PRAGMA page_size = 512; CREATE TABLE t(id, v)").unwrap();
    refused(&sandbox, &path, "33", &["480", "512", "at most 32", "[OF-606]"]);
    refused(&sandbox, &path, "8", &["cksumvfs", "--force", "[OF-616]"]);
    converted(&sandbox, &path, &["--reserve", "8", "--force"]);
    for number in ["24", "0", "7"] {
        refused(&sandbox, &path, number, &["8 bytes of each page", "--force", "[OF-605]"]);
    }
}

#[test]
fn a_database_that_somebody_has_open_is_refused_and_the_process_is_named() {
    let sandbox = Sandbox::new();
    let me = std::process::id().to_string();
    let path = sandbox.path().join("wal.db");
    make(&path, "wal", 100);
    let db = open(&path);
    db.query_row("SELECT count(*) FROM t", [], |_| Ok(())).unwrap();
    refused(&sandbox, &path, "24", &["wal.db", &me, "end it, then convert", "[OF-601]"]);
    let dry = convert(&sandbox, &path, &["--reserve", "24", "--dry-run"]);
    assert_refused(&dry, 75, &["wal.db", &me, "[OF-601]"]);
    drop(db);
    for begin in ["BEGIN; SELECT * FROM t", "BEGIN IMMEDIATE", "BEGIN EXCLUSIVE"] {
        let path = sandbox.path().join("delete.db");
        make(&path, "delete", 100);
        let db = open(&path);
        db.execute_batch(begin).unwrap();
        if begin.contains("SELECT") {
            db.query_row("SELECT * FROM t", [], |_| Ok(())).unwrap();
        }
        refused(&sandbox, &path, "24", &["delete.db", &me, "[OF-601]"]);
        drop(db);
        converted(&sandbox, &path, &["--reserve", "24"]);
        fs::remove_file(path).unwrap();
    }
}

#[test]
fn a_database_in_use_with_eager_is_refused_and_after_a_crash_recovered_first() {
    oneflush_vfs::register().unwrap();
    let sandbox = Sandbox::new();
    let path = sandbox.path().join("used.db");
    make(&path, "wal", 100);
    let uri = format!("file:{}?vfs=oneflush&strategy=eager", path.display());
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_URI;
    let db = Connection::open_with_flags(uri, flags).unwrap();
    db.execute("INSERT INTO t(v) VALUES (1)", []).unwrap();
    let output = convert(&sandbox, &path, &["--reserve", "24"]);
    assert_refused(&output, 75, &["used.db", &std::process::id().to_string(), "[OF-601]"]);
    drop(db);
    converted(&sandbox, &path, &["--reserve", "24"]);

    let path = sandbox.path().join("crashed.db");
    crashed::crashed(&path, &[]);
    refused(&sandbox, &path, "24", &["crashed.db", "oneflush recover", "[OF-602]"]);
    let dry = convert(&sandbox, &path, &["--reserve", "24", "--dry-run"]);
    assert_refused(&dry, 3, &["oneflush recover", "[OF-602]"]);
    assert!(sandbox.oneflush().arg("recover").arg(&path).status().unwrap().success());
    converted(&sandbox, &path, &["--reserve", "24"]);
    let rows = open(&path).query_row("SELECT count(*) FROM t", [], |row| row.get(0));
    assert_eq!((reserved(&path), rows), (24, Ok(crashed::ROWS as i64)));
}

#[test]
fn a_damaged_database_is_refused_and_the_damage_said() {
    let sandbox = Sandbox::new();
    let path = sandbox.path().join("a.db");
    make(&path, "delete", 2000);
    // An index without one of its rows: only integrity_check sees that.
    open(&path)
        .execute_batch(
            "PRAGMA writable_schema = on;
            CREATE TABLE u(v); CREATE INDEX by_u ON u(v); INSERT INTO u VALUES (1), (2);
            UPDATE sqlite_schema SET sql = 'CREATE INDEX by_u ON u(v) WHERE v > 1'
            WHERE name = 'by_u'",
        )
        .unwrap();
    open(&path).execute_batch("DELETE FROM u WHERE v = 1; INSERT INTO u VALUES (0)").unwrap();
    open(&path)
        .execute_batch(
            "PRAGMA writable_schema = on;
            UPDATE sqlite_schema SET sql = 'CREATE INDEX by_u ON u(v)' WHERE name = 'by_u'",
        )
        .unwrap();
    let quick: String = open(&path).query_row("PRAGMA quick_check", [], |row| row.get(0)).unwrap();
    assert_eq!(quick, "ok");
    refused(&sandbox, &path, "24", &["a.db", "damaged", "by_u", "[OF-607]"]);
}

#[test]
fn what_only_the_databases_own_program_defines_is_said() {
    let sandbox = Sandbox::new();
    let path = sandbox.path().join("a.db");
    // As a program with a collation of its own leaves it.
    open(&path)
        .execute_batch(
            "CREATE TABLE t(v COLLATE NOCASE UNIQUE); INSERT INTO t VALUES ('a'), ('b');
            PRAGMA writable_schema = on;
            UPDATE sqlite_schema SET sql = replace(sql, 'NOCASE', 'own')",
        )
        .unwrap();
    refused(&sandbox, &path, "24", &["a.db", "collation", "own", "[OF-619]"]);
}

#[test]
fn what_cannot_be_written_is_refused_before_anything_is_read() {
    let sandbox = Sandbox::new();
    let as_nobody = |path: &Path| {
        let mut command = sandbox.oneflush_as_nobody();
        command.arg("convert").arg(path).args(["--reserve", "24"]).output().unwrap()
    };
    let folder = sandbox.open_directory("folder");
    let path = folder.join("a.db");
    make(&path, "wal", 100);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).unwrap();
    assert_refused(&as_nobody(&path), 3, &["a.db", "Permission denied", "owner", "[OF-603]"]);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o555)).unwrap();
    assert_refused(&as_nobody(&path), 3, &["folder", "Permission denied", "[OF-603]"]);
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
    assert!(as_nobody(&path).status.success());
    assert_eq!(reserved(&path), 24);
}

const NO_ROOM: &str = named!(a_disk_without_room_is_refused_with_the_numbers);

#[test]
fn a_disk_without_room_is_refused_with_the_numbers() {
    if skip_unless_root("a file system of a few MiB") {
        return;
    }
    if !in_own_mounts(NO_ROOM, Duration::from_secs(240)) {
        return;
    }
    let sandbox = Sandbox::new();
    let small = sandbox.path().join("small");
    fs::create_dir(&small).unwrap();
    let command = |words: &[&str]| {
        assert!(Command::new("mount").args(words).arg(&small).status().unwrap().success());
    };
    command(&["-t", "tmpfs", "-o", "size=24m", "none"]);
    for mode in ["wal", "delete"] {
        let path = small.join("a.db");
        make(&path, mode, 50_000);
        refused(&sandbox, &path, "24", &["too little room", "are free", "[OF-604]"]);
        let dry = convert(&sandbox, &path, &["--reserve", "24", "--dry-run"]);
        assert_refused(&dry, 3, &["too little room", "[OF-604]"]);
        command(&["-o", "remount,size=80m"]);
        somebody_takes_the_room(&sandbox, &path);
        converted(&sandbox, &path, &["--reserve", "24", "--force"]);
        fs::remove_file(&path).unwrap();
        command(&["-o", "remount,size=24m"]);
    }
}

/// There was room at first, and then there is not.
fn somebody_takes_the_room(sandbox: &Sandbox, path: &Path) {
    let before = content(path);
    // On a busy machine the conversion may be at its end before the room is taken.
    for _ in 0..20 {
        let was = reserved(path);
        let wanted = if was == 24 { "25" } else { "24" };
        let mut child = Running::start(
            sandbox
                .oneflush()
                .arg("convert")
                .arg(path)
                .args(["--reserve", wanted, "--force"])
                .stdout(Stdio::piped())
                .stderr(Stdio::piped()),
        );
        let copy = side(path, "-oneflush-converting");
        wait_until("the copy", || copy.exists() || child.try_wait().unwrap().is_some());
        let taker = path.with_file_name("taker");
        let (file, mut taken) = (fs::File::create(&taker).unwrap(), 0);
        for bytes in [1 << 20, 4096] {
            while fallocate(&file, FallocateFlags::empty(), taken, bytes).is_ok() {
                taken += bytes;
            }
        }
        let output = child.wait_with_output().unwrap();
        // Its room is free when nobody has it open any more.
        drop(file);
        fs::remove_file(&taker).unwrap();
        if output.status.success() {
            continue;
        }
        // Either SQLite finds no room for the copy, or the copy is there and the journal has none.
        let is_full = stderr(&output).contains("[OF-620]");
        let words = if is_full { "the disk is full" } else { "are free" };
        assert_refused(&output, if is_full { 1 } else { 3 }, &["a.db", words]);
        assert_eq!((reserved(path), content(path)), (was, before));
        assert_eq!(beside(path), Vec::<PathBuf>::new());
        return;
    }
    panic!("the room was taken too late each time");
}
