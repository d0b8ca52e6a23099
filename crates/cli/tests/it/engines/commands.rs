//! Each command that takes the path of a database, with one of LS-MVBT.

use serde_json::Value;

use super::*;
use crate::common::assert_refused;

fn database(sandbox: &Sandbox) -> PathBuf {
    let path = sandbox.path().join("app.db");
    of_engine(&path, "lsmvbt").execute_batch(SOME).unwrap();
    path
}

#[test]
fn stats_says_the_mode_the_pages_and_the_trees() {
    let sandbox = Sandbox::new();
    let path = database(&sandbox);
    let before = fs::read(&path).unwrap();
    let text = said(&sandbox, "stats", &path, &[]);
    for words in
        ["lsmvbt: neither a journal nor a WAL", "of 4096 bytes, ", " free", "3 tables, 1 index"]
    {
        assert!(text.contains(words), "{words}: {text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    let json: Value = serde_json::from_str(&said(&sandbox, "stats", &path, &["--json"])).unwrap();
    assert_eq!((&json["engine"], &json["journal_mode"]), (&"lsmvbt".into(), &"lsmvbt".into()));
    let check = sandbox.oneflush().args(["mvbt", "check", "--json"]).arg(&path).output().unwrap();
    let check: Value = serde_json::from_str(&stdout(&check)).unwrap();
    assert_eq!((&json["pages"], &json["version"]), (&check["pages"], &check["version"]));
    assert_eq!(json["free_pages"], check["free_pages"]);
    assert_eq!(json["trees"][1]["name"], "t");
    assert!(fs::read(&path).unwrap() == before, "nothing is changed");
}

#[test]
fn stats_is_told_while_a_program_writes() {
    let sandbox = Sandbox::new();
    let path = database(&sandbox);
    let db = of_engine(&path, "lsmvbt");
    db.execute_batch("BEGIN IMMEDIATE; INSERT INTO t(v) VALUES (1)").unwrap();
    let text = said(&sandbox, "stats", &path, &[]);
    assert!(text.contains("a program has it open"), "{text}");
    db.execute_batch("COMMIT").unwrap();
}

#[test]
fn a_dump_has_the_names_that_sql_has_given() {
    let sandbox = Sandbox::new();
    let path = database(&sandbox);
    let output = sandbox.oneflush().args(["mvbt", "dump"]).arg(&path).output().unwrap();
    let text = stdout(&output);
    assert!(output.status.success(), "{}", stderr(&output));
    for words in ["name in SQL", "  sqlite_schema\n", "  t\n", "  index by_v\n", "  a b\n"] {
        assert!(text.contains(words), "{words}: {text}");
    }
}

#[test]
fn there_is_nothing_to_recover() {
    let sandbox = Sandbox::new();
    let path = database(&sandbox);
    for arguments in [&[][..], &["--dry-run"], &["--accept-loss"]] {
        let text = said(&sandbox, "recover", &path, arguments);
        assert!(text.contains("LS-MVBT, which has no log; there is nothing to recover"), "{text}");
    }
    let json: Value = serde_json::from_str(&said(&sandbox, "recover", &path, &["--json"])).unwrap();
    assert_eq!((&json["engine"], &json["recovered"]), (&"lsmvbt".into(), &false.into()));
}

#[test]
fn a_trial_is_refused_with_the_way_out() {
    let sandbox = Sandbox::new();
    let path = database(&sandbox);
    let output = oneflush(&sandbox, "try", &path, &[]);
    assert_refused(&output, 3, &["app.db", "LS-MVBT", "oneflush try ", "--engine sqlite"]);
}

#[test]
fn a_database_of_sqlite_is_named_by_the_commands_of_mvbt() {
    let sandbox = Sandbox::new();
    let path = sandbox.path().join("app.db");
    open(&path).execute_batch(SOME).unwrap();
    for command in ["check", "dump", "history"] {
        let output = sandbox.oneflush().args(["mvbt", command]).arg(&path).output().unwrap();
        assert_refused(
            &output,
            1,
            &["app.db", "SQLite's own engine", "oneflush stats", "[OF-707]"],
        );
    }
}

/// What a command makes for itself was of LS-MVBT then, also where it measured SQLite.
#[test]
fn the_variable_for_programs_does_not_change_what_a_command_makes() {
    let sandbox = Sandbox::new();
    let path = sandbox.path().join("app.db");
    open(&path).execute_batch(SOME).unwrap();
    let mut command = sandbox.oneflush();
    command.arg("convert").arg(&path).args(["--reserve", "24"]).env("ONEFLUSH_ENGINE", "lsmvbt");
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(!is_lsmvbt(&path));
    let dir = sandbox.open_directory("dir");
    let mut command = sandbox.oneflush();
    command
        .args(["bench", "--modes", "wal:stock", "-n", "5", "--rounds", "1", "--dir"])
        .arg(&dir)
        .env("ONEFLUSH_ENGINE", "lsmvbt");
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
}
