//! The seatbelt: a program that opens and closes its own database takes no lock of SQLite's away.

mod files;

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use oneflush_testing::{dies_with_test, named, wait_until};
use rusqlite::{Connection, ffi};

use crate::common::{self, commits, files, open_stock, open_with, scratch, take_said};

/// What another process opens the database with: options of ours, or this word.
const SQLITE_ALONE: &str = "alone";

/// Options with the seatbelt, and what another process uses beside them.
const BELTED: [(&str, &str); 4] = [
    ("strategy=plain", SQLITE_ALONE),
    ("strategy=stock&seatbelt=on", SQLITE_ALONE),
    ("strategy=eager", "strategy=eager"),
    ("strategy=waldio", "strategy=waldio"),
];

const BUSY: &str = "error 5";

/// Another process, which answers each line of SQL.
struct Other {
    child: Child,
    said: BufReader<ChildStdout>,
}

impl Other {
    fn begin(path: &Path, options: &str) -> Other {
        Other::begin_by(Command::new(std::env::current_exe().unwrap()), path, options)
    }

    /// The command ends with the program.
    fn begin_by(mut command: Command, path: &Path, options: &str) -> Other {
        command
            .args(["--exact", named!(is_another_process), "--nocapture"])
            .env("ONEFLUSH_TEST_SEATBELT", format!("{}|{options}", path.display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = dies_with_test(&mut command).spawn().unwrap();
        let said = BufReader::new(child.stdout.take().unwrap());
        let mut other = Other { child, said };
        assert_eq!(other.does("SELECT count(*) >= 0 FROM sqlite_schema"), "ok 1");
        other
    }

    fn does(&mut self, task: &str) -> String {
        writeln!(self.child.stdin.as_mut().unwrap(), "{task}").unwrap();
        let mut line = String::new();
        loop {
            line.clear();
            assert_ne!(self.said.read_line(&mut line).unwrap(), 0, "{task}: the process has ended");
            if let Some(answer) = line.trim().strip_prefix("answer: ") {
                return answer.to_owned();
            }
        }
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// This program again, as the other process.
#[test]
fn is_another_process() {
    let Ok(task) = std::env::var("ONEFLUSH_TEST_SEATBELT") else { return };
    let (path, options) = task.split_once('|').unwrap();
    let path = Path::new(path);
    common::setup();
    let open = || match options {
        SQLITE_ALONE => open_stock(path),
        options => open_with(path, options).unwrap(),
    };
    let mut db = Some(open());
    for line in std::io::stdin().lines() {
        let line = line.unwrap();
        let answer = match line.as_str() {
            "open" => {
                db = Some(open());
                "ok".to_owned()
            }
            "close" => {
                db = None;
                "ok".to_owned()
            }
            "copy" => {
                let _ = fs::read(path).unwrap();
                "ok".to_owned()
            }
            "fork" => format!("ok {}", child_that_waits()),
            sql => answer(db.as_ref().unwrap(), sql),
        };
        println!("\nanswer: {answer}");
    }
}

fn answer(db: &Connection, sql: &str) -> String {
    db.busy_timeout(std::time::Duration::ZERO).unwrap();
    let first = || {
        let mut statement = db.prepare(sql)?;
        let mut rows = statement.query([])?;
        let row = rows.next()?;
        row.map(|row| row.get::<_, rusqlite::types::Value>(0)).transpose()
    };
    match first() {
        Ok(None) => "ok".to_owned(),
        Ok(Some(rusqlite::types::Value::Integer(number))) => format!("ok {number}"),
        Ok(Some(rusqlite::types::Value::Text(text))) => format!("ok {text}"),
        Ok(Some(value)) => format!("ok {value:?}"),
        Err(error) => match error.sqlite_error() {
            Some(error) => format!("error {}", error.extended_code),
            None => format!("error {error}"),
        },
    }
}

/// A child that has all files of this process open and does nothing.
fn child_that_waits() -> libc::pid_t {
    // SAFETY: the child only sleeps.
    match unsafe { libc::fork() } {
        0 => loop {
            std::thread::sleep(std::time::Duration::from_secs(1));
        },
        child => child,
    }
}

/// Opens, reads and closes all files of the database, as a copy of them does.
fn copy_all(path: &Path) {
    for end in files(path) {
        let mut bytes = [0; 100];
        let mut file = File::open(format!("{}{end}", path.display())).unwrap();
        let _ = file.read(&mut bytes).unwrap();
    }
}

fn create(path: &Path, options: &str) -> Connection {
    create_in(path, options, "wal")
}

fn create_in(path: &Path, options: &str, mode: &str) -> Connection {
    let db = open_with(path, options).unwrap();
    db.execute_batch(&format!("PRAGMA journal_mode={mode}; PRAGMA synchronous=full")).unwrap();
    db.execute_batch("PRAGMA busy_timeout=0").unwrap();
    commits::create(&db);
    commits::make(&db, 3);
    db
}

const WRITES: &str = "BEGIN IMMEDIATE";

#[test]
fn a_copy_of_the_files_lets_no_other_process_write_checkpoint_or_close_for_the_last_time() {
    for (options, beside) in BELTED {
        let (_dir, path) = scratch();
        let db = create(&path, options);
        let mut other = Other::begin(&path, beside);

        db.execute_batch(WRITES).unwrap();
        copy_all(&path);
        assert_eq!(other.does(WRITES), BUSY, "{options}: while this process writes");
        db.execute_batch("ROLLBACK").unwrap();
        commits::make(&db, 1);

        db.execute_batch("BEGIN; SELECT count(*) FROM sqlite_schema").unwrap();
        copy_all(&path);
        assert_eq!(other.does("CREATE TABLE other(x)"), "ok", "{options}");
        assert_eq!(other.does("PRAGMA wal_checkpoint(TRUNCATE)"), "ok 1", "{options}: a reader");
        db.execute_batch("ROLLBACK").unwrap();

        copy_all(&path);
        let before = files(&path);
        assert_eq!(other.does("close"), "ok");
        assert_eq!(files(&path), before, "{options}: the other one was not the last");
        commits::make(&db, 1);
        assert_eq!(other.does("open"), "ok");
        assert_eq!(other.does("INSERT INTO other VALUES (1)"), "ok");
        assert_eq!(commits::check(&db), Ok(5), "{options}");
        assert_eq!(other.does("close"), "ok");
        db.close().unwrap();
        let plain = open_stock(&path);
        assert_eq!(commits::check(&plain), Ok(5), "{options}");
        assert_eq!(answer(&plain, "SELECT count(*) FROM other"), "ok 1");
        assert_eq!(answer(&plain, "PRAGMA integrity_check"), "ok ok");
    }
}

/// The fault that all this is about. If SQLite no longer has it, the seatbelt can go.
#[test]
fn without_the_seatbelt_a_copy_lets_two_processes_write() {
    let (_dir, path) = scratch();
    let db = create(&path, "strategy=plain&seatbelt=off");
    let mut other = Other::begin(&path, SQLITE_ALONE);
    db.execute_batch(WRITES).unwrap();
    assert_eq!(other.does(WRITES), BUSY);
    copy_all(&path);
    assert_eq!(other.does(WRITES), "ok");
}

/// Invariant 3 of `seatbelt.rs`.
#[test]
fn a_connection_of_ours_takes_no_lock_of_sqlites_away_in_the_same_process() {
    let (_dir, path) = scratch();
    let keeper = create(&path, "strategy=plain");
    let alone = open_stock(&path);
    drop(keeper);
    let mut other = Other::begin(&path, SQLITE_ALONE);
    for round in 0..3 {
        alone.execute_batch(WRITES).unwrap();
        let ours = open_with(&path, "strategy=plain").unwrap();
        assert_eq!(commits::check(&ours), Ok(3));
        drop(ours);
        assert_eq!(other.does(WRITES), BUSY, "round {round}");
        alone.execute_batch("ROLLBACK").unwrap();
    }
    let index = fs::canonicalize(format!("{}-shm", path.display())).unwrap();
    let descriptors = || {
        let all = fs::read_dir("/proc/self/fd").unwrap().flatten();
        all.filter(|one| fs::read_link(one.path()).is_ok_and(|to| to == index)).count()
    };
    assert_eq!(descriptors(), 2, "SQLite's and one that is parked");
    drop(alone);
    other.does("close");
    // The parked one goes with the next use.
    drop(open_with(&path, "strategy=plain").map(|db| commits::check(&db)));
    assert_eq!(descriptors(), 0);
}

/// Invariant 4 of `seatbelt.rs`.
#[test]
fn an_exclusive_lock_that_is_refused_leaves_the_seatbelt_on() {
    let (_dir, path) = scratch();
    let db = create(&path, "strategy=plain");
    let mut other = Other::begin(&path, SQLITE_ALONE);
    assert_eq!(answer(&db, "PRAGMA journal_mode=DELETE"), BUSY);
    copy_all(&path);
    assert_eq!(other.does("PRAGMA journal_mode=DELETE"), BUSY);
    let before = files(&path);
    other.does("close");
    assert_eq!(files(&path), before);
    assert_eq!(answer(&db, "PRAGMA journal_mode=DELETE"), "ok delete");
    assert_eq!(files(&path), [""]);
    assert_eq!(commits::check(&db), Ok(3));
}

#[test]
fn a_connection_whose_index_was_removed_while_it_was_without_locks_is_lost_and_says_so() {
    let (_dir, path) = scratch();
    let db = create(&path, "strategy=stock&seatbelt=on");
    let other = Other::begin(&path, SQLITE_ALONE);
    fs::remove_file(format!("{}-shm", path.display())).unwrap();
    assert_eq!(answer(&db, "PRAGMA journal_mode=DELETE"), BUSY);
    let code = ffi::SQLITE_IOERR_LOCK;
    assert_eq!(answer(&db, "SELECT count(*) FROM sqlite_schema"), format!("error {code}"));
    assert!(take_said(&path).contains("others have closed the database"));
    assert_eq!(answer(&db, "SELECT count(*) FROM sqlite_schema"), format!("error {code}"));
    assert_eq!(take_said(&path), "", "it is said once");
    drop(other);
}

#[test]
fn readers_of_other_processes_are_known_and_those_of_this_one_do_not_count() {
    let (_dir, path) = scratch();
    let db = create(&path, "strategy=plain");
    let reads_elsewhere = || {
        let mut answer: std::ffi::c_int = -1;
        // SAFETY: the connection is open, and the number lives during the call.
        let code = unsafe {
            ffi::sqlite3_file_control(
                db.handle(),
                c"main".as_ptr(),
                ffi::SQLITE_FCNTL_EXTERNAL_READER,
                (&raw mut answer).cast(),
            )
        };
        assert_eq!(code, ffi::SQLITE_OK);
        answer
    };
    db.execute_batch("BEGIN; SELECT count(*) FROM sqlite_schema").unwrap();
    assert_eq!(reads_elsewhere(), 0);
    let mut other = Other::begin(&path, SQLITE_ALONE);
    assert_eq!(other.does("BEGIN"), "ok");
    assert_eq!(reads_elsewhere(), 0);
    other.does("SELECT count(*) >= 0 FROM sqlite_schema");
    assert_eq!(reads_elsewhere(), 1);
}

/// A child shares the open files of its parent, and with them their locks (invariant 5).
#[test]
fn a_child_of_a_fork_keeps_no_lock_of_its_parent() {
    for (is_killed, is_used_before) in [(false, true), (true, true), (false, false), (true, false)]
    {
        let (_dir, path) = scratch();
        drop(create(&path, "strategy=plain"));
        let mut parent = Other::begin(&path, "strategy=plain");
        if !is_used_before {
            parent.does("close");
            parent.does("open");
        }
        let child = parent.does("fork");
        assert_eq!(parent.does("SELECT count(*) >= 0 FROM sqlite_schema"), "ok 1");
        let child: libc::pid_t = child.strip_prefix("ok ").unwrap().parse().unwrap();
        let mut third = Other::begin(&path, SQLITE_ALONE);
        assert_eq!(third.does("PRAGMA journal_mode=DELETE"), BUSY, "the parent lives");
        match is_killed {
            true => parent.kill(),
            false => assert_eq!(parent.does("close"), "ok"),
        }
        let what = format!("the last close; killed {is_killed}, used before {is_used_before}");
        wait_until(&what, || third.does("PRAGMA journal_mode=DELETE") == "ok delete");
        // SAFETY: a process of this test.
        assert_eq!(unsafe { libc::kill(child, libc::SIGKILL) }, 0, "the child lived");
    }
}

fn cancelled(db: &Connection) -> u64 {
    let json: String = db.query_row("PRAGMA oneflush_stats", [], |row| row.get(0)).unwrap();
    let stats: serde_json::Value = serde_json::from_str(&json).unwrap();
    stats["cancelled_locks"].as_u64().unwrap()
}

#[test]
fn in_a_rollback_mode_a_transaction_whose_locks_are_gone_is_refused_before_it_writes() {
    for strategy in ["plain", "stock&seatbelt=on", "maw"] {
        let (_dir, path) = scratch();
        let db = open_with(&path, &format!("strategy={strategy}")).unwrap();
        commits::create(&db);
        commits::make(&db, 2);
        let beside = if strategy == "maw" { "strategy=maw" } else { SQLITE_ALONE };
        let mut other = Other::begin(&path, beside);
        take_said(&path);
        db.execute_batch("BEGIN; SELECT * FROM sqlite_schema").unwrap();
        copy_all(&path);
        assert_eq!(
            other.does("CREATE TABLE other(x)"),
            "ok",
            "{strategy}: SQLite's locks are gone"
        );
        let refused = format!("error {}", ffi::SQLITE_IOERR_LOCK);
        assert_eq!(answer(&db, "CREATE TABLE third(x)"), refused, "{strategy}");
        assert!(take_said(&path).contains("took SQLite's locks away"));
        assert_eq!(cancelled(&db), 1);
        assert!(db.is_autocommit(), "SQLite has rolled back");
        commits::make(&db, 1);
        assert_eq!(commits::check(&db), Ok(3), "{strategy}");
        assert_eq!(answer(&db, "SELECT count(*) FROM other"), "ok 0", "{strategy}");
        assert_eq!(answer(&db, "PRAGMA integrity_check"), "ok ok", "{strategy}");
        assert_eq!(cancelled(&db), 1);
    }
}

/// A reader has its shared lock from before; another connection's refusal puts the locks back.
#[test]
fn in_a_rollback_mode_a_reader_from_before_does_not_write_on_what_it_has_read() {
    let (_dir, path) = scratch();
    let db = open_with(&path, "strategy=plain").unwrap();
    commits::create(&db);
    let reader = open_with(&path, "strategy=plain").unwrap();
    let mut other = Other::begin(&path, SQLITE_ALONE);
    reader.execute_batch("BEGIN; SELECT * FROM sqlite_schema").unwrap();
    copy_all(&path);
    assert_eq!(other.does("CREATE TABLE other(x)"), "ok");
    let refused = format!("error {}", ffi::SQLITE_IOERR_LOCK);
    assert_eq!(answer(&db, "CREATE TABLE third(x)"), refused);
    assert_eq!(answer(&reader, "CREATE TABLE third(x)"), refused);
    assert!(reader.is_autocommit(), "SQLite has rolled back");
    assert_eq!(answer(&reader, "CREATE TABLE third(x)"), "ok");
}

#[test]
fn in_wal_mode_cancelled_locks_are_counted_and_said_once_a_minute() {
    let (_dir, path) = scratch();
    let db = create(&path, "strategy=plain");
    take_said(&path);
    for round in 1..=2 {
        copy_all(&path);
        // It is asked once a second.
        std::thread::sleep(std::time::Duration::from_millis(1_050));
        commits::make(&db, 1);
        assert_eq!(cancelled(&db), round);
        assert_eq!(take_said(&path).contains("SQLite's own locks are gone"), round == 1);
    }
}

/// SQLite before 3.51.3 leaves such an index (`wal_reset.rs`).
#[test]
fn an_index_that_says_too_much_is_copied_is_mended_before_anybody_writes() {
    let (_dir, path) = scratch();
    let db = create(&path, "strategy=plain");
    let index = fs::OpenOptions::new().write(true).open(format!("{}-shm", path.display())).unwrap();
    const N_BACKFILL: u64 = 96;
    index.write_all_at(&1_000_u32.to_ne_bytes(), N_BACKFILL).unwrap();
    let seen = || answer(&open_stock(&path), "SELECT n FROM total");
    assert_ne!(seen(), "ok 3", "readers do not see what is in the WAL");
    assert_eq!(answer(&db, WRITES), BUSY);
    assert_eq!(seen(), "ok 3");
    assert_eq!(answer(&db, WRITES), "ok");
    db.execute_batch("ROLLBACK").unwrap();
    index.write_all_at(&1_000_u32.to_ne_bytes(), N_BACKFILL).unwrap();
    assert_eq!(answer(&db, "PRAGMA wal_checkpoint"), "ok 0");
    assert_eq!(commits::check(&db), Ok(3));
}

/// Its read mark tells that it is there.
#[test]
fn a_reader_of_sqlite_alone_whose_lock_on_the_database_is_gone_keeps_the_wal() {
    let (_dir, path) = scratch();
    let db = create(&path, "strategy=plain");
    let mut other = Other::begin(&path, SQLITE_ALONE);
    for (does, answer) in [("BEGIN", "ok"), ("SELECT n FROM total", "ok 3"), ("copy", "ok")] {
        assert_eq!(other.does(does), answer, "{does}");
    }
    drop(db);
    assert!(
        fs::exists(format!("{}-wal", path.display())).unwrap(),
        "it was deleted under a reader"
    );
    assert_eq!(other.does("SELECT n FROM total"), "ok 3");
}

/// SQLite asks for no lock of the WAL index while it has the database alone.
#[test]
fn in_exclusive_mode_a_copy_of_the_files_lets_nobody_in() {
    let (_dir, path) = scratch();
    let db = create(&path, "strategy=plain");
    let mut other = Other::begin(&path, SQLITE_ALONE);
    assert_eq!(answer(&db, "PRAGMA locking_mode=exclusive"), "ok exclusive");
    assert_eq!(answer(&db, WRITES), BUSY, "another process has the WAL");
    other.does("close");
    commits::make(&db, 1);
    copy_all(&path);
    other.does("open");
    for sql in [WRITES, "SELECT count(*) FROM sqlite_schema", "PRAGMA journal_mode=DELETE"] {
        assert!(other.does(sql).starts_with("error 5"), "{sql}");
    }
    commits::make(&db, 1);
    assert_eq!(answer(&db, "PRAGMA locking_mode=normal"), "ok normal");
    assert_eq!(commits::check(&db), Ok(5));
    assert_eq!(other.does("SELECT n FROM total"), "ok 5");
    db.execute_batch(WRITES).unwrap();
    assert_eq!(other.does(WRITES), BUSY);
}
