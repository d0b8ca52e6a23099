//! `oneflush run --engine` and `oneflush shell --engine`, with the real shell, the real Python, and
//! the library as `make sqlite-lsmvbt` leaves it beside what `make build` leaves (`ONEFLUSH_BUILT`,
//! see `run.rs`).

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use oneflush_testing::{built, skip};
use tempfile::TempDir;

const LIBRARY: &str = "liboneflush_sqlite3.so";

struct Work {
    folder: PathBuf,
    dir: TempDir,
}

impl Work {
    fn new(programs: &[&str]) -> Option<Work> {
        let folder = built(programs)?;
        if !folder.join(LIBRARY).exists() {
            skip(format_args!("`make sqlite-lsmvbt` has not left {LIBRARY} beside the program"));
            return None;
        }
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("tmp")).unwrap();
        Some(Work { folder, dir })
    }

    fn oneflush(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.folder.join("oneflush"));
        command
            .args(arguments)
            .current_dir(self.dir.path())
            .stdin(Stdio::null())
            .env("TMPDIR", self.dir.path().join("tmp"))
            .env("HOME", "/nonexistent");
        for variable in ["ONEFLUSH_STRATEGY", "ONEFLUSH_ENGINE", "ONEFLUSH_LOG"] {
            command.env_remove(variable);
        }
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.oneflush(&[&["run"], arguments].concat()).output().unwrap()
    }

    fn is_lsmvbt(&self, name: &str) -> bool {
        fs::read(self.dir.path().join(name)).unwrap().starts_with(b"Oneflush mvbt 1\n")
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[track_caller]
fn said(output: &Output) -> String {
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(text(&output.stderr), "");
    text(&output.stdout)
}

impl Work {
    /// A shell that takes the library: a distribution's takes only its own version.
    fn with_shell() -> Option<Work> {
        let work = Work::new(&["sqlite3"])?;
        let output = work.run(&["--engine", "lsmvbt", "--", "sqlite3", ":memory:", "SELECT 1"]);
        if text(&output.stderr).contains("version mismatch") {
            skip("the sqlite3 of PATH takes only the SQLite that it was built with");
            return None;
        }
        Some(work)
    }
}

const SQL: &str = "CREATE TABLE t(v); INSERT INTO t VALUES (1); PRAGMA journal_mode";

#[test]
fn the_shell_and_its_children_make_databases_of_the_engine() {
    let Some(work) = Work::with_shell() else { return };
    let output = work.run(&["--engine", "lsmvbt", "--", "sqlite3", "a.db", SQL]);
    assert_eq!(said(&output), "lsmvbt\n");
    let script = format!("sqlite3 b.db '{SQL}'");
    let output = work.run(&["--engine", "lsmvbt", "--", "sh", "-c", &script]);
    assert_eq!(said(&output), "lsmvbt\n");
    assert!(work.is_lsmvbt("a.db") && work.is_lsmvbt("b.db"));
    // An existing one says itself what it is. Of a new one the engine is named.
    let output = work.run(&["--engine", "sqlite", "--", "sqlite3", "c.db", SQL]);
    assert_eq!(said(&output), "delete\n");
    for (engine, name, mode) in [("sqlite", "a.db", "lsmvbt\n"), ("lsmvbt", "c.db", "delete\n")] {
        let sql = "PRAGMA journal_mode";
        let output = work.run(&["--engine", engine, "--", "sqlite3", name, sql]);
        assert_eq!(said(&output), mode);
    }
}

#[test]
fn python_gets_the_library_that_it_loads_late() {
    for python in ["/usr/bin/python3", "python3"] {
        let Some(work) = Work::new(&[python]) else { return };
        let program = "
import sqlite3
db = sqlite3.connect('a.db')
with db:
    db.execute('CREATE TABLE t(v)')
    db.execute('INSERT INTO t VALUES (7)')
one = lambda sql: db.execute(sql).fetchone()[0]
print(one('PRAGMA journal_mode'), one('SELECT v FROM t'))";
        let output = work.run(&["--engine", "lsmvbt", "--", python, "-c", program]);
        assert_eq!(said(&output), "lsmvbt 7\n", "{python}");
        assert!(work.is_lsmvbt("a.db"));
    }
}

#[test]
fn the_folder_with_the_link_is_one_and_is_refused_where_others_may_write() {
    let Some(work) = Work::new(&["python3"]) else { return };
    let open = "import sqlite3; print(sqlite3.connect('a.db').execute('SELECT 1').fetchone()[0])";
    let run = || work.run(&["--engine", "lsmvbt", "--", "python3", "-c", open]);
    for _ in 0..2 {
        assert_eq!(said(&run()), "1\n");
    }
    let made: Vec<PathBuf> = fs::read_dir(work.dir.path().join("tmp"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    assert_eq!(made.len(), 1, "{made:?}");
    fs::set_permissions(&made[0], fs::Permissions::from_mode(0o777)).unwrap();
    let output = run();
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(message.contains("others may write") && message.contains("[OF-514]"), "{message}");
}

#[test]
fn an_engine_and_a_strategy_exclude_each_other() {
    let Some(work) = Work::new(&["sqlite3"]) else { return };
    let output = work.run(&["--engine", "lsmvbt", "--strategy", "plain", "--", "sqlite3", "a.db"]);
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(message.contains("--strategy") && message.contains("[OF-513]"), "{message}");
    let output = work.run(&["--engine", "sqlight", "--", "sqlite3", "a.db"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("lsmvbt"), "{}", text(&output.stderr));
}

#[test]
fn a_program_without_libsqlite3_is_told_so_as_without_an_engine() {
    let Some(work) = Work::new(&[]) else { return };
    let output = work.run(&["--engine", "lsmvbt", "--", "true"]);
    assert!(output.status.success());
    let message = text(&output.stderr);
    assert!(
        message.contains("true opened no database") && message.contains("[OF-507]"),
        "{message}"
    );
}

/// `DT_RPATH` goes before `LD_LIBRARY_PATH`.
#[test]
fn a_program_with_a_sqlite_of_its_own_ends_before_it_opens_anything() {
    let Some(work) = Work::new(&["cc"]) else { return };
    let Some(stock) = stock_library() else { return };
    let own = work.dir.path().join("own");
    fs::create_dir(&own).unwrap();
    symlink(stock, own.join("libsqlite3.so.0")).unwrap();
    let source = work.dir.path().join("program.c");
    fs::write(
        &source,
        "int sqlite3_open(const char*, void**); int main(void) { void *db; \
        return sqlite3_open(\"a.db\", &db); }",
    )
    .unwrap();
    let built = Command::new("cc")
        .arg(&source)
        .arg("-o")
        .arg(work.dir.path().join("program"))
        .arg(own.join("libsqlite3.so.0"))
        .arg(format!("-Wl,--disable-new-dtags,-rpath,{}", own.display()))
        .status()
        .unwrap();
    assert!(built.success());
    let output = work.run(&["--engine", "lsmvbt", "--", "./program"]);
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(message.contains("a SQLite of its own") && message.contains("[OF-516]"), "{message}");
    assert!(!work.dir.path().join("a.db").exists());
}

fn stock_library() -> Option<PathBuf> {
    let triplet = format!("{}-linux-gnu", std::env::consts::ARCH);
    let folders = [Path::new("/usr/lib").join(&triplet), Path::new("/lib").join(triplet)];
    let found =
        folders.iter().map(|folder| folder.join("libsqlite3.so.0")).find(|path| path.exists());
    if found.is_none() {
        skip("there is no libsqlite3.so.0 of the system");
    }
    found
}

/// The shell of a distribution takes only its own library, and so `oneflush shell` opened no
/// database of LS-MVBT.
#[test]
fn the_shell_command_opens_databases_of_both_engines() {
    let Some(work) = Work::new(&["sqlite3"]) else { return };
    let shell =
        |arguments: &[&str]| work.oneflush(&[&["shell"], arguments].concat()).output().unwrap();
    assert_eq!(said(&shell(&["--engine", "lsmvbt", "a.db", SQL])), "lsmvbt\n");
    assert!(work.is_lsmvbt("a.db"));
    // What is there needs no option.
    assert_eq!(said(&shell(&["a.db", "SELECT v FROM t"])), "1\n");
    assert_eq!(said(&shell(&["-readonly", "a.db", "SELECT v FROM t"])), "1\n");
    assert_eq!(said(&shell(&["b.db", "--engine=sqlite", SQL])), "delete\n");
    let refused = shell(&["a.db", "--strategy", "eager", "SELECT 1"]);
    let message = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1), "{message}");
    assert!(message.contains("no strategy") && message.contains("[OF-531]"), "{message}");
}

/// A shell that finds its library wrong all the same.
#[test]
fn a_shell_that_takes_no_other_sqlite_is_refused_with_the_way_out() {
    let Some(work) = Work::new(&["sh"]) else { return };
    if work.folder.join("oneflush-sqlite3").exists() {
        return;
    }
    let programs = work.dir.path().join("bin");
    fs::create_dir(&programs).unwrap();
    let script = "#!/bin/sh\ncase $1 in\n-version) echo '3.40.1 2022-12-28' ;;\n\
        *) echo 'SQLite header and source version mismatch' >&2; exit 1 ;;\nesac\n";
    fs::write(programs.join("sqlite3"), script).unwrap();
    fs::set_permissions(programs.join("sqlite3"), fs::Permissions::from_mode(0o755)).unwrap();
    let refused = work
        .oneflush(&["shell", "--engine", "lsmvbt", "a.db", SQL])
        .env("PATH", &programs)
        .output()
        .unwrap();
    let message = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1), "{message}");
    assert!(message.contains("oneflush-sqlite3") && message.contains("[OF-532]"), "{message}");
    assert!(!work.dir.path().join("a.db").exists());
}
