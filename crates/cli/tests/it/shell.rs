//! `oneflush shell`, with the real shell and the extension as `make build` leaves it
//! (`ONEFLUSH_BUILT`, see `run.rs`).

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use oneflush_testing::{Running, built};
use tempfile::TempDir;

fn shell(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(folder.join("oneflush"));
    // The user's own ~/.sqliterc has no say here.
    command
        .arg("shell")
        .args(arguments)
        .stdin(Stdio::null())
        .env("HOME", "/nonexistent")
        .env_remove("ONEFLUSH_STRATEGY");
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn answer(output: &Output) -> (Option<i32>, String, String) {
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

fn said(what: &str) -> (Option<i32>, String, String) {
    (Some(0), what.to_owned(), String::new())
}

fn database() -> (TempDir, String) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("an app's 100%.db").display().to_string();
    (dir, path)
}

/// A database as a crash leaves it that was in use with `eager`: copied while the shell has it
/// open.
fn crashed(folder: &Path) -> (TempDir, String) {
    let (dir, path) = database();
    let copy = format!("{path}.copy");
    let sql = "PRAGMA journal_mode=wal; PRAGMA synchronous=full; CREATE TABLE t(v); INSERT INTO t \
        VALUES (1),(2),(3);";
    let copying = format!(".system cp \"{path}\" \"{copy}\"");
    let copying_log = format!(".system cp \"{path}-oneflush\" \"{copy}-oneflush\"");
    let output = shell(folder, &[&path, "--strategy", "eager", "--", sql, &copying, &copying_log])
        .output()
        .unwrap();
    assert_eq!(answer(&output), said("wal\n"));
    (dir, copy)
}

#[test]
fn sql_arguments_and_standard_input_reach_the_database_through_oneflush() {
    let Some(folder) = built(&["sqlite3"]) else { return };
    let (_dir, path) = database();
    let sql = "PRAGMA journal_mode=wal; CREATE TABLE t(v); INSERT INTO t VALUES ('a row'); PRAGMA \
        oneflush_strategy;";
    let output =
        shell(&folder, &[&path, "--strategy", "eager", "--", sql, ".vfsname"]).output().unwrap();
    assert_eq!(answer(&output), said("wal\neager\noneflush/unix\n"));
    let mut child = Running::start(
        shell(&folder, &[&path, "--", "-json"]).stdin(Stdio::piped()).stdout(Stdio::piped()),
    );
    child
        .stdin
        .take()
        .unwrap()
        .write_all(b"INSERT INTO t VALUES ('more');\nSELECT v FROM t;\n")
        .unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(answer(&output), said("[{\"v\":\"a row\"},\n{\"v\":\"more\"}]\n"));
}

/// `oneflush shell app.db "SQL"` was refused: everything for the shell had to stand behind `--`.
#[test]
fn it_takes_its_arguments_as_sqlite3_does() {
    let Some(folder) = built(&["sqlite3"]) else { return };
    let (_dir, path) = database();
    let ran = |arguments: &[&str]| answer(&shell(&folder, arguments).output().unwrap());
    let by_sqlite3 = |arguments: &[&str]| {
        answer(
            &Command::new("sqlite3")
                .args(arguments)
                .stdin(Stdio::null())
                .env("HOME", "/nonexistent")
                .output()
                .unwrap(),
        )
    };
    assert_eq!(
        ran(&[&path, "CREATE TABLE t(v, w); INSERT INTO t VALUES (1, NULL), (2, 'b c')"]),
        said("")
    );
    for arguments in [
        vec![&path, "SELECT * FROM t", "SELECT count(*) FROM t"],
        vec!["-header", "-csv", &path, "SELECT * FROM t"],
        vec!["-separator", "; ", "-nullvalue", "NULL", &path, "SELECT * FROM t"],
        vec![&path, "-json", "SELECT * FROM t"],
        vec!["-cmd", ".mode line", &path, "SELECT * FROM t", ".schema"],
    ] {
        assert_eq!(ran(&arguments), by_sqlite3(&arguments), "{arguments:?}");
    }
    let (code, out, message) = ran(&[&path, "SELECT nope", "SELECT 'went on'"]);
    assert!(
        code != Some(0) && out.is_empty() && message.contains("no such column: nope"),
        "{code:?} {out} {message}"
    );
    let strategy = |arguments: &[&str]| ran(&[&["--strategy", "stock", &path], arguments].concat());
    assert_eq!(strategy(&["PRAGMA oneflush_strategy"]), said("stock\n"));
    let (code, out, message) = ran(&["-header", "-csv"]);
    assert!(
        code == Some(2) && out.is_empty() && message.contains("which database?"),
        "{code:?} {out} {message}"
    );
}

#[test]
fn a_guarded_database_is_opened_with_eager_and_any_other_with_auto() {
    let Some(folder) = built(&["sqlite3"]) else { return };
    let (_dir, path) = crashed(&folder);
    let strategy = |arguments: &[&str]| {
        let output =
            shell(&folder, &[&[&path, "--"], arguments, &["PRAGMA oneflush_strategy"]].concat())
                .output();
        text(&output.unwrap().stdout)
    };
    let recovering =
        shell(&folder, &[&path, "--", "PRAGMA oneflush_strategy; SELECT count(*) FROM t"])
            .output()
            .unwrap();
    assert_eq!(
        (recovering.status.code(), text(&recovering.stdout)),
        (Some(0), "eager\n3\n".to_owned())
    );
    assert_eq!(strategy(&[]), "plain\n", "closed, it is a plain file");
    let by_environment = shell(&folder, &[&path, "--", "PRAGMA oneflush_strategy"])
        .env("ONEFLUSH_STRATEGY", "stock")
        .output();
    assert_eq!(answer(&by_environment.unwrap()), said("stock\n"));
}

#[test]
fn it_joins_the_programs_that_use_the_database_with_eager() {
    let Some(folder) = built(&["sqlite3"]) else { return };
    let (_dir, path) = database();
    let inner = format!(
        "{} shell \"{path}\" -- \"INSERT INTO t VALUES (2); PRAGMA oneflush_strategy\"",
        folder.join("oneflush").display()
    );
    let mut child = Running::start(
        shell(&folder, &[&path, "--strategy", "eager"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped()),
    );
    let script = format!(
        "PRAGMA journal_mode=wal; CREATE TABLE t(v);\nINSERT INTO t VALUES (1);\n.system \
            {inner}\nSELECT count(*) FROM t;\n"
    );
    child.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let mut lines: Vec<String> = text(&output.stdout).lines().map(str::to_owned).collect();
    // Two programs print.
    lines.sort();
    assert_eq!(lines, ["2", "eager", "wal"], "{}", text(&output.stderr));
}

#[test]
fn the_exit_code_is_the_shells_and_an_error_in_a_script_does_not_end_it() {
    let Some(folder) = built(&["sqlite3"]) else { return };
    let (_dir, path) = database();
    assert_eq!(shell(&folder, &[&path, "--", ".exit 7"]).status().unwrap().code(), Some(7));
    let mut child = Running::start(
        shell(&folder, &[&path]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()),
    );
    child.stdin.take().unwrap().write_all(b"SELECT nope;\nSELECT 'went on';\n").unwrap();
    assert_eq!(text(&child.wait_with_output().unwrap().stdout), "went on\n");
    let output = shell(&folder, &[&path, "--", "-bail", "SELECT nope", "SELECT 'went on'"])
        .output()
        .unwrap();
    assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(1), ""));
}

#[test]
fn what_cannot_be_opened_ends_the_shell_with_the_reason_and_nothing_goes_to_memory() {
    let Some(folder) = built(&["sqlite3"]) else { return };
    let (dir, path) = crashed(&folder);
    let refused = |path: &str, strategy: &str, words: &[&str]| {
        let arguments =
            [path, "--strategy", strategy, "--", "CREATE TABLE lost(v)", "SELECT 'in memory'"];
        let (code, out, message) = answer(&shell(&folder, &arguments).output().unwrap());
        assert!(code != Some(0) && out.is_empty(), "{code:?}, {out}, {message}");
        for word in words {
            assert!(message.contains(word), "{word:?} is not in: {message}");
        }
    };
    fs::rename(format!("{path}-oneflush"), dir.path().join("aside")).unwrap();
    refused(&path, "eager", &["the log is missing", "Put it back"]);
    refused(&path, "plain", &["the log is missing", "Put it back"]);
    refused(
        &dir.path().join("no folder/a.db").display().to_string(),
        "auto",
        &["no folder/a.db: there is no such directory"],
    );
    refused(&path, "stock", &["not a database"]);
    fs::rename(dir.path().join("aside"), format!("{path}-oneflush")).unwrap();
    assert_eq!(
        text(&shell(&folder, &[&path, "--", "SELECT count(*) FROM t"]).output().unwrap().stdout),
        "3\n"
    );
}

#[test]
fn read_only_is_kept_and_other_options_of_how_a_file_is_opened_are_refused() {
    let Some(folder) = built(&["sqlite3"]) else { return };
    let (dir, path) = database();
    let made = shell(&folder, &[&path, "--", "CREATE TABLE t(v); INSERT INTO t VALUES (1)"])
        .output()
        .unwrap();
    assert_eq!(answer(&made), said(""));
    for strategy in ["stock", "plain", "eager"] {
        for option in ["-readonly", "--readonly"] {
            let read_only = |sql| {
                let arguments = [path.as_str(), "--strategy", strategy, "--", option, sql];
                answer(&shell(&folder, &arguments).output().unwrap())
            };
            let (code, _, message) = read_only("INSERT INTO t VALUES (2)");
            assert!(
                code != Some(0) && message.contains("readonly database"),
                "{strategy}: {message}"
            );
            // With eager it is said that a connection that only reads is as with SQLite alone.
            let (code, out, message) = read_only("SELECT count(*) FROM t");
            assert_eq!((code, out.as_str()), (Some(0), "1\n"), "{strategy}: {message}");
            assert_eq!(message.contains("open for reading only"), strategy == "eager", "{message}");
        }
    }
    let none = dir.path().join("none.db");
    let (code, ..) =
        answer(&shell(&folder, &[none.to_str().unwrap(), "--", "-readonly"]).output().unwrap());
    assert!(code != Some(0) && !none.exists());
    for option in ["-vfs", "--append", "-deserialize", "-nofollow", "-zip"] {
        let (code, out, message) =
            answer(&shell(&folder, &[&path, "--", option, "unix"]).output().unwrap());
        let named = format!("-{}:", option.trim_start_matches('-'));
        assert!(
            code == Some(2) && out.is_empty() && message.contains(&named),
            "{code:?}, {out}, {message}"
        );
        assert!(message.contains("without Oneflush"), "{message}");
    }
}

#[test]
fn a_missing_an_old_and_a_strange_sqlite3_are_refused_with_the_way_out() {
    let Some(folder) = built(&["sqlite3"]) else { return };
    let (dir, path) = database();
    let programs = dir.path().join("bin");
    fs::create_dir(&programs).unwrap();
    let refused = |words: &[&str]| {
        let (code, _, message) =
            answer(&shell(&folder, &[&path]).env("PATH", &programs).output().unwrap());
        assert_eq!(code, Some(1), "{message}");
        for word in words {
            assert!(message.contains(word), "{word:?} is not in: {message}");
        }
        assert!(!Path::new(&path).exists());
    };
    refused(&["no sqlite3 in PATH", "install", "3.40 or newer"]);
    let program = programs.join("sqlite3");
    fs::write(&program, "#!/bin/sh\necho '3.39.4 2022-09-29 15:55:41'\n").unwrap();
    refused(&["no sqlite3 in PATH"]);
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    refused(&["is 3.39.4", "3.40 or newer", "PATH"]);
    fs::write(&program, "#!/bin/sh\necho hello\n").unwrap();
    refused(&["\"hello\"", "is it the SQLite shell?"]);
}

/// A terminal, a query without end, Ctrl-C, one more query.
const AT_A_TERMINAL: &str = r#"
import os, pty, sys, time
child, terminal = pty.fork()
if child == 0:
    os.execv(sys.argv[1], sys.argv[1:])
seen = b""
def wait_for(what):
    global seen
    until = time.monotonic() + 120
    while what not in seen:
        if time.monotonic() > until:
            sys.exit(f"{what} did not come: {seen}")
        seen += os.read(terminal, 4096)
    seen = seen[seen.index(what) + len(what):]
wait_for(b"sqlite> ")
os.write(terminal, b"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "
         b"SELECT count(*) FROM n;\n")
wait_for(b"FROM n;")
# Before the query runs, Ctrl-C would interrupt nothing: it has used a processor for a fifth of a
# second.
def used_ticks():
    return sum(map(int, open(f"/proc/{child}/stat").read().rpartition(") ")[2].split()[11:13]))
before, until = used_ticks(), time.monotonic() + 120
while used_ticks() < before + 20:
    if time.monotonic() > until:
        sys.exit("the query does not run")
    time.sleep(0.01)
os.write(terminal, b"\x03")
wait_for(b"interrupted")
wait_for(b"sqlite> ")
os.write(terminal, b"SELECT 'still ' || 'here';\n")
wait_for(b"still here")
os.write(terminal, b".exit 3\n")
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"#;

#[test]
fn at_a_terminal_it_is_the_shell_and_ctrl_c_ends_the_query_only() {
    let Some(folder) = built(&["sqlite3", "python3"]) else { return };
    let (_dir, path) = database();
    let mut command = Command::new("python3");
    command
        .args(["-c", AT_A_TERMINAL])
        .arg(folder.join("oneflush"))
        .args(["shell", &path])
        .env("HOME", "/nonexistent");
    assert_eq!(answer(&command.output().unwrap()), said("3\n"));
}
