//! The seatbelt: a program that opens and closes its own database takes no lock of SQLite's away.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use oneflush_testing::{dies_with_test, has_programs, named, wait_until};
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

/// What may happen to a file that is in use.
#[derive(Clone, Copy, Debug)]
enum Harm {
    Removed,
    Replaced,
}

impl Harm {
    fn to(self, file: &str) {
        match self {
            Harm::Removed => fs::remove_file(file).unwrap(),
            Harm::Replaced => {
                let other = format!("{file}.other");
                fs::copy(file, &other).unwrap();
                fs::rename(other, file).unwrap();
            }
        }
    }
}

#[test]
fn what_was_acknowledged_in_files_that_were_removed_or_replaced_is_saved_and_nothing_follows() {
    let cases: [(&str, &str, &[&str]); 8] = [
        ("plain", "wal", &["", "-shm", "-wal"]),
        ("eager", "wal", &["", "-shm", "-oneflush-wal", "-oneflush"]),
        ("waldio", "wal", &["", "-shm", "-waldio"]),
        ("maw&atomic=log", "delete", &["", "-maw"]),
        ("auto", "wal", &["", "-shm", "-wal"]),
        ("plain", "delete", &[""]),
        ("eager", "truncate", &[""]),
        ("waldio", "persist", &[""]),
    ];
    for (strategy, mode, ends) in cases {
        for (end, harm) in
            ends.iter().flat_map(|end| [Harm::Removed, Harm::Replaced].map(|harm| (*end, harm)))
        {
            let what = format!("{strategy} {mode}: {end:?} {harm:?}");
            let (_dir, path) = scratch();
            let db = create_in(&path, &format!("strategy={strategy}"), mode);
            take_said(&path);
            harm.to(&format!("{}{end}", path.display()));
            let refused = db.execute_batch("UPDATE total SET n = n + 1");
            assert!(refused.is_err(), "{what}: it was acknowledged");
            assert!(db.execute_batch("UPDATE total SET n = n + 1").is_err(), "{what}: the next");
            // A database file that is removed beside a journal is asked for at the close alone.
            drop(db);
            let said = take_said(&path);
            assert_eq!(said.matches("removed or replaced").count(), 1, "{what}: {said}");
            let orphan = path.with_file_name("a.db-orphan-0");
            assert_eq!(commits::check(&open_stock(&orphan)), Ok(3), "{what}");
            if !end.is_empty() {
                // The close neither copied nor deleted what is no file of its own.
                assert_eq!(
                    fs::exists(format!("{}{end}", path.display())).unwrap(),
                    matches!(harm, Harm::Replaced),
                    "{what}"
                );
            }
        }
    }
}

/// No call of the WAL index tells of commits there.
#[test]
fn what_was_acknowledged_in_exclusive_mode_is_saved_as_well() {
    for by_close in [false, true] {
        let (_dir, path) = scratch();
        drop(create(&path, "strategy=plain"));
        let db = open_with(&path, "strategy=plain").unwrap();
        db.execute_batch("PRAGMA locking_mode=exclusive; PRAGMA synchronous=full").unwrap();
        commits::make(&db, 2);
        take_said(&path);
        Harm::Replaced.to(path.to_str().unwrap());
        if !by_close {
            assert!(commits::try_make(&db).is_err());
        }
        drop(db);
        let said = take_said(&path);
        assert!(said.contains("removed or replaced"), "by a close: {by_close}: {said}");
        // Without the index the commit that was refused counts as well.
        let found = commits::check(&open_stock(&path.with_file_name("a.db-orphan-0")));
        let more = i64::from(!by_close);
        assert!((5..=5 + more).contains(&found.clone().unwrap()), "{by_close}: {found:?}");
    }
}

/// SQLite copies nothing when it closes such a database.
#[test]
fn what_was_acknowledged_beside_a_database_file_that_was_replaced_is_saved_by_a_close() {
    for strategy in ["plain", "eager", "waldio"] {
        let (_dir, path) = scratch();
        let db = create(&path, &format!("strategy={strategy}"));
        take_said(&path);
        Harm::Replaced.to(path.to_str().unwrap());
        drop(db);
        let said = take_said(&path);
        assert!(said.contains("removed or replaced"), "{strategy}: {said}");
        let orphan = path.with_file_name("a.db-orphan-0");
        assert_eq!(commits::check(&open_stock(&orphan)), Ok(3), "{strategy}");
    }
}

/// By it a writer would write over frames of acknowledged commits.
#[test]
fn an_older_index_that_another_program_writes_over_the_one_in_use_is_made_anew() {
    for strategy in ["plain", "eager", "waldio"] {
        for by_another in [false, true] {
            let what = format!("{strategy}, the next commit is another process's: {by_another}");
            let options = format!("strategy={strategy}");
            let (_dir, path) = scratch();
            let db = create(&path, &options);
            let mut other = Other::begin(&path, &options);
            let index = format!("{}-shm", path.display());
            let older = fs::read(&index).unwrap();
            commits::make(&db, 2);
            assert!(other.does("UPDATE total SET n = n + 0").starts_with("ok"), "{what}");
            commits::make(&db, 2);
            take_said(&path);
            fs::write(&index, &older).unwrap();
            if by_another {
                // Without a busy handler it is told "busy" once.
                let answers = [(); 2].map(|()| other.does("UPDATE total SET n = n + 0"));
                assert_eq!(answers, [BUSY, "ok"], "{what}");
            }
            db.busy_timeout(std::time::Duration::from_secs(2)).unwrap();
            commits::make(&db, 2);
            let said = take_said(&path);
            assert_eq!(said.contains("[OF-243]"), !by_another, "{what}: {said}");
            drop((db, other));
            let again = open_with(&path, &options).unwrap();
            assert_eq!(commits::check(&again), Ok(9), "{what}");
        }
    }
}

/// Another life of the WAL has other salts, and they need not be the next ones.
#[test]
fn an_older_index_of_a_wal_that_was_cut_since_loses_nothing() {
    for commits_since in [0, 2] {
        let (_dir, path) = scratch();
        let db = create(&path, "strategy=plain");
        db.busy_timeout(std::time::Duration::from_secs(2)).unwrap();
        let index = format!("{}-shm", path.display());
        let older = fs::read(&index).unwrap();
        db.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
        commits::make(&db, commits_since);
        fs::write(&index, &older).unwrap();
        // By that index SQLite may read frames of the WAL that are not there, and fail.
        let more = (0..2).filter(|_| commits::try_make(&db).is_ok()).count();
        drop(db);
        let all = 3 + commits_since + more;
        assert_eq!(commits::check(&open_stock(&path)), Ok(all as i64), "{commits_since}");
    }
}

/// Who has only read has acknowledged nothing. A restored backup is none of its business.
#[test]
fn a_reader_saves_nothing_where_the_database_file_was_replaced() {
    for mode in ["truncate", "delete"] {
        let (_dir, path) = scratch();
        drop(create_in(&path, "strategy=plain", mode));
        let db = open_with(&path, "strategy=plain").unwrap();
        assert_eq!(commits::check(&db), Ok(3));
        Harm::Replaced.to(path.to_str().unwrap());
        drop(db);
        assert!(!fs::exists(path.with_file_name("a.db-orphan-0")).unwrap(), "{mode}");
    }
}

/// A close and a checkpoint go by the index alone.
#[test]
fn a_wal_is_neither_copied_nor_deleted_by_an_older_index() {
    for by_close in [false, true] {
        let (_dir, path) = scratch();
        let db = create(&path, "strategy=plain");
        let index = format!("{}-shm", path.display());
        let older = fs::read(&index).unwrap();
        commits::make(&db, 4);
        fs::write(&index, &older).unwrap();
        if !by_close {
            for _ in 0..2 {
                let _ = db.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)");
            }
        }
        drop(db);
        assert_eq!(commits::check(&open_stock(&path)), Ok(7), "by a close: {by_close}");
    }
}

/// Pages of two databases must not become one.
#[test]
fn a_database_of_maw_that_another_program_writes_over_takes_no_commit() {
    // Of the epoch, whose pages the log writes back, or from before it.
    for is_of_epoch in [true, false] {
        let (_dir, path) = scratch();
        let db = create_in(&path, "strategy=maw&atomic=log&log_size=1048576", "delete");
        let older = fs::read(&path).unwrap();
        if !is_of_epoch {
            let epochs =
                |db: &Connection| common::stats(db)["maw"]["log"]["epochs"].as_u64().unwrap();
            let before = epochs(&db);
            while epochs(&db) < before + 2 {
                commits::make(&db, 1);
            }
        }
        commits::make(&db, 2);
        let made = db.query_row("SELECT n FROM total", [], |row| row.get::<_, i64>(0)).unwrap();
        take_said(&path);
        fs::write(&path, &older).unwrap();
        for _ in 0..2 {
            assert!(db.execute_batch("UPDATE total SET n = n + 1").is_err());
        }
        let said = take_said(&path);
        assert!(said.contains("another program has written over the database file"), "{said}");
        drop(db);
        let again = open_with(&path, "strategy=maw").map(|db| commits::check(&db));
        if is_of_epoch {
            assert_eq!(again.unwrap(), Ok(made));
        } else {
            assert!(!again.is_ok_and(|found| found.is_ok()), "it has pages of both");
            assert!(take_said(&path).contains("[OF-314]"));
        }
    }
}

#[test]
fn a_database_file_that_another_program_writes_over_takes_no_commit_and_is_saved() {
    for strategy in ["plain", "eager", "waldio"] {
        let (_dir, path) = scratch();
        let db = create(&path, &format!("strategy={strategy}"));
        let backup = path.with_file_name("backup.db");
        db.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
        fs::copy(&path, &backup).unwrap();
        commits::make(&db, 1);
        // The WAL stays, and no later commit changes this page: there is something to compare.
        db.execute_batch("CREATE TABLE more(x)").unwrap();
        let reader = open_with(&path, &format!("strategy={strategy}")).unwrap();
        reader.execute_batch("BEGIN; SELECT count(*) FROM sqlite_schema").unwrap();
        db.execute_batch("PRAGMA wal_checkpoint").unwrap();
        commits::make(&db, 1);
        take_said(&path);
        // The content is what it was, whoever has touched and read it.
        assert!(Command::new("touch").arg(&path).status().unwrap().success());
        fs::read(&path).unwrap();
        commits::make(&db, 1);
        assert_eq!(take_said(&path), "", "{strategy}: touched");

        fs::copy(&backup, &path).unwrap();
        for _ in 0..2 {
            assert!(db.execute_batch("UPDATE total SET n = n + 1").is_err(), "{strategy}");
            assert!(db.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").is_err(), "{strategy}");
        }
        let said = take_said(&path);
        assert!(said.contains("another program has written over it"), "{strategy}: {said}");
        assert_eq!(said.matches("has written over it").count(), 1, "{strategy}: said once");
        let orphan = path.with_file_name("a.db-orphan-0");
        assert_eq!(commits::check(&open_stock(&orphan)), Ok(6), "{strategy}");
        drop((reader, db));
        assert_eq!(fs::read(&path).unwrap(), fs::read(&backup).unwrap(), "{strategy}: copied into");
    }
}

/// SQLite leaves out pages that have a newer frame, where a reader lets it copy a part only.
#[test]
fn a_page_that_a_checkpoint_has_left_out_is_no_other_programs() {
    let (_dir, path) = scratch();
    let db = create(&path, "strategy=plain");
    let reader = open_with(&path, "strategy=plain").unwrap();
    reader.execute_batch("BEGIN; SELECT count(*) FROM sqlite_schema").unwrap();
    commits::make(&db, 1);
    db.execute_batch("PRAGMA wal_checkpoint").unwrap();
    for _ in 0..2 {
        commits::make(&db, 1);
        assert!(Command::new("touch").arg(&path).status().unwrap().success());
    }
    commits::make(&db, 1);
    drop(reader);
    assert_eq!(commits::check(&db), Ok(7));
}

/// The WAL has begun anew, and only the header is there to be compared.
#[test]
fn a_database_file_whose_time_changes_is_told_or_refused_by_its_header() {
    for (change, is_refused) in [("", false), ("CREATE TABLE more(x)", true)] {
        let (_dir, path) = scratch();
        let db = create(&path, "strategy=plain");
        let backup = path.with_file_name("backup.db");
        db.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
        fs::copy(&path, &backup).unwrap();
        db.execute_batch(change).unwrap();
        commits::make(&db, 1);
        db.execute_batch("PRAGMA wal_checkpoint").unwrap();
        commits::make(&db, 1);
        take_said(&path);
        fs::copy(&backup, &path).unwrap();
        let committed = db.execute_batch("UPDATE total SET n = n + 1");
        let said = take_said(&path);
        assert_eq!(committed.is_err(), is_refused, "{change}: {said}");
        let told = if is_refused { "has written over it" } else { "no checkpoint did that" };
        assert!(said.contains(told), "{change}: {said}");
    }
}

/// Who closes last copies without a lock of the index, and what is kept of the WAL has its salts.
#[test]
fn a_look_at_the_database_file_does_not_outlive_the_last_wal() {
    for strategy in ["plain", "eager", "waldio"] {
        let (_dir, path) = scratch();
        let options = format!("strategy={strategy}");
        let db = create(&path, &options);
        commits::make(&db, 60);
        let idle = open_with(&path, &options).unwrap();
        drop(db);
        let mut other = Other::begin(&path, &options);
        assert_eq!(other.does("SELECT n FROM total"), "ok 63", "{strategy}");
        commits::make(&idle, 1);
        assert_eq!(commits::check(&idle), Ok(64), "{strategy}");
    }
}

#[test]
fn an_orphan_is_not_put_beside_a_wal_that_is_there() {
    let (_dir, path) = scratch();
    let db = create(&path, "strategy=plain");
    let orphan = |number| path.with_file_name(format!("a.db-orphan-{number}"));
    fs::write(path.with_file_name("a.db-orphan-0-wal"), "another").unwrap();
    fs::remove_file(format!("{}-wal", path.display())).unwrap();
    assert!(db.execute_batch("UPDATE total SET n = n + 1").is_err());
    assert!(!orphan(0).exists());
    assert_eq!(commits::check(&open_stock(&orphan(1))), Ok(3));
}

/// A checkpoint would copy whatever lies where the index says that there are frames.
#[test]
fn nothing_is_copied_from_a_wal_that_another_program_has_written_over() {
    let (_dir, path) = scratch();
    let db = create(&path, "strategy=plain");
    let wal = format!("{}-wal", path.display());
    let older = fs::read(&wal).unwrap();
    db.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
    commits::make(&db, 5);
    let before = fs::read(&path).unwrap();
    take_said(&path);
    // As `cp` does: the length and what was there are gone.
    fs::write(&wal, &older).unwrap();
    assert!(db.execute_batch("PRAGMA wal_checkpoint").is_err());
    let said = take_said(&path);
    assert!(said.contains("another program has written over its WAL"), "{said}");
    drop(db);
    assert!(fs::read(&path).unwrap() == before, "it was copied into the database file");
}

/// It is all that is left of acknowledged commits, and power may be lost after it is told.
#[test]
fn an_orphan_is_durable_file_by_file_and_in_its_folder() {
    if !has_programs(&["strace"]) {
        return;
    }
    let (dir, path) = scratch();
    let trace = path.with_extension("strace");
    let mut strace = Command::new("strace");
    strace.args(["-f", "-y", "-e", "trace=fsync,fdatasync", "-o", trace.to_str().unwrap()]);
    strace.arg(std::env::current_exe().unwrap());
    let mut other = Other::begin_by(strace, &path, "strategy=plain");
    for sql in ["PRAGMA journal_mode=wal", "CREATE TABLE t(n)", "INSERT INTO t VALUES(1)"] {
        assert!(other.does(sql).starts_with("ok"), "{sql}");
    }
    fs::remove_file(format!("{}-wal", path.display())).unwrap();
    assert!(other.does("INSERT INTO t VALUES(2)").starts_with("error"));
    drop(other.child.stdin.take());
    assert!(other.child.wait().unwrap().success());
    let trace = fs::read_to_string(trace).unwrap();
    let orphan = format!("{}-orphan-0", path.display());
    for synced in [orphan.clone(), format!("{orphan}-wal"), dir.path().display().to_string()] {
        // SQLite itself syncs by fdatasync.
        let is_synced = |line: &str| {
            line.contains(" fsync(")
                && line.contains(&format!("<{synced}>)"))
                && line.ends_with("= 0")
        };
        assert!(trace.lines().any(is_synced), "{synced}: {trace}");
    }
}

/// The reader is the first to see it, at its close, and may not write.
#[test]
fn a_reader_that_closes_leaves_it_to_a_writer_to_save_what_was_acknowledged() {
    let (_dir, path) = scratch();
    let db = create(&path, "strategy=plain");
    let reader = open_with(&path, "strategy=plain&mode=ro").unwrap();
    assert_eq!(commits::check(&reader), Ok(3));
    fs::remove_file(format!("{}-wal", path.display())).unwrap();
    drop(reader);
    assert!(db.execute_batch("UPDATE total SET n = n + 1").is_err());
    assert_eq!(commits::check(&open_stock(&path.with_file_name("a.db-orphan-0"))), Ok(3));
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
