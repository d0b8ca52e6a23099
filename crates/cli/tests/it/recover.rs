//! `oneflush recover` as a user meets it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use rusqlite::{Connection, OpenFlags};

use crate::common::crashed::{EAGER, MAW, ROWS, WALDIO, side};
use crate::common::{self, Sandbox};

fn crashed(sandbox: &Sandbox, name: &str) -> PathBuf {
    let database = sandbox.path().join(name);
    common::crashed::crashed(&database, &[]);
    database
}

fn log(database: &Path) -> PathBuf {
    side(database, "-oneflush")
}

fn count(database: &Path) -> rusqlite::Result<i64> {
    Connection::open_with_flags_and_vfs(database, OpenFlags::SQLITE_OPEN_READ_ONLY, "unix")?
        .query_row("SELECT count(*) FROM t", [], |row| row.get(0))
}

#[test]
fn it_leaves_one_plain_database_file_and_a_dry_run_changes_nothing() {
    for logged in [EAGER, WALDIO, MAW] {
        let sandbox = Sandbox::new();
        let database = sandbox.path().join("an app's 100%.db");
        logged.crashed_after(&database, &[], |_| {});
        let log = side(&database, logged.log);
        assert!(count(&database).is_err(), "SQLite alone is refused before");
        let dry =
            sandbox.oneflush().arg("recover").arg(&database).arg("--dry-run").output().unwrap();
        let text = String::from_utf8(dry.stdout).unwrap();
        assert!(dry.status.success() && text.contains("nothing was changed"), "{text}");
        assert!(log.exists() && count(&database).is_err());
        let done = sandbox.oneflush().arg("recover").arg(&database).output().unwrap();
        let text = String::from_utf8(done.stdout).unwrap();
        assert!(
            done.status.success() && text.contains("it is a plain database file now"),
            "{text}"
        );
        assert_eq!((log.exists(), count(&database)), (false, Ok(ROWS as i64)));
        let again =
            sandbox.oneflush().arg("recover").arg(&database).arg("--json").output().unwrap();
        let json: serde_json::Value = serde_json::from_slice(&again.stdout).unwrap();
        assert_eq!(
            (&json["recovered"], &json["log"]),
            (&serde_json::Value::Bool(false), &serde_json::Value::Null)
        );
    }
}

#[test]
fn what_cannot_be_recovered_is_refused_and_named_and_stays() {
    let sandbox = Sandbox::new();
    let database = crashed(&sandbox, "app.db");
    let bytes = fs::read(log(&database)).unwrap();
    fs::remove_file(log(&database)).unwrap();
    let fails = |what: &str| {
        let output = sandbox.oneflush().arg("recover").arg(&database).output().unwrap();
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(3), "{message}");
        assert!(message.contains(what) && message.contains("app.db"), "{message}");
        message
    };
    let message = fails("its log is missing");
    let codes = ["commits are lost [OF-302]. ", "keeps what can be kept [OF-318]\n"];
    assert!(message.contains(codes[0]) && message.ends_with(codes[1]), "{message}");
    let mut damaged = bytes.clone();
    damaged[300] ^= 1;
    fs::write(log(&database), &damaged).unwrap();
    fails("damaged");
    assert!(fs::read(log(&database)).unwrap() == damaged);
    fs::write(log(&database), bytes).unwrap();
    assert!(sandbox.oneflush().arg("recover").arg(&database).status().unwrap().success());
    let missing =
        sandbox.oneflush().arg("recover").arg(sandbox.path().join("none.db")).output().unwrap();
    assert_eq!(missing.status.code(), Some(1));
    assert!(String::from_utf8(missing.stderr).unwrap().contains("none.db"));
    // A pipe would be waited for, for ever.
    let pipe = sandbox.path().join("pipe.db");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let refused = sandbox.oneflush().arg("recover").arg(&pipe).output().unwrap();
    assert_eq!(refused.status.code(), Some(3));
    assert!(String::from_utf8(refused.stderr).unwrap().contains("pipe.db: not a regular file"));
}

/// Three strategies have a log, each under its own name. What the guard names counts, and a log
/// that is not this database's stays.
#[test]
fn of_two_logs_the_one_that_the_guard_names_is_recovered_and_the_other_stays() {
    for (ours, other) in [(EAGER, WALDIO), (WALDIO, EAGER), (MAW, EAGER), (WALDIO, MAW)] {
        let sandbox = Sandbox::new();
        let (database, of_another) = (sandbox.path().join("a.db"), sandbox.path().join("b.db"));
        ours.crashed_after(&database, &[], |_| {});
        other.crashed_after(&of_another, &[], |_| {});
        fs::copy(side(&of_another, other.log), side(&database, other.log)).unwrap();
        let run = |arguments: &[&str]| {
            let output =
                sandbox.oneflush().arg("recover").arg(&database).args(arguments).output().unwrap();
            let errors = String::from_utf8(output.stderr).unwrap();
            (output.status.code(), String::from_utf8(output.stdout).unwrap() + &errors)
        };
        let (code, text) = run(&["--dry-run", "--json"]);
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!((code, &json["log"]["strategy"]), (Some(0), &ours.strategy.into()), "{text}");
        let (code, text) = run(&[]);
        assert_eq!(code, Some(0), "{text}");
        assert_eq!(count(&database), Ok(ROWS as i64));
        assert!(!side(&database, ours.log).exists() && side(&database, other.log).exists());
        let (code, text) = run(&[]);
        assert!(code == Some(3) && text.contains("may hold commits of another"), "{text}");
        assert!(text.contains(other.log), "{text}");
    }
}

#[test]
fn the_log_of_waldio_is_told_by_frames_and_its_layout() {
    let sandbox = Sandbox::new();
    let database = sandbox.path().join("a.db");
    WALDIO.crashed_after(&database, &[], |_| {});
    let dry = sandbox.oneflush().arg("recover").arg(&database).arg("--dry-run").output().unwrap();
    let text = String::from_utf8(dry.stdout).unwrap();
    assert!(text.contains(&format!("the log holds {ROWS} frames of 1 page;")), "{text}");
    let json =
        sandbox.oneflush().arg("recover").arg(&database).args(["--dry-run", "--json"]).output();
    let json: serde_json::Value = serde_json::from_slice(&json.unwrap().stdout).unwrap();
    let log = &json["log"];
    assert_eq!(
        (&log["frames"], &log["layout"], &log["records"], &log["frames_behind"]),
        (&ROWS.into(), &"embed".into(), &serde_json::Value::Null, &0.into())
    );
    let bytes = fs::metadata(side(&database, "-waldio")).unwrap().len();
    assert_eq!(log["log_bytes"], bytes);
    assert!(log["slots"].as_u64().unwrap() >= ROWS as u64, "{json}");
}

/// The guard alone is no commit: it is there as soon as the log is.
#[test]
fn the_log_of_maw_is_told_by_its_commits() {
    let sandbox = Sandbox::new();
    let database = sandbox.path().join("a.db");
    MAW.crashed_after(&database, &[], |_| {});
    let dry = |arguments: &[&str]| {
        let output =
            sandbox.oneflush().arg("recover").arg(&database).args(arguments).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let text = dry(&["--dry-run"]);
    // The making of the second table is a commit too.
    assert!(text.contains(&format!("the log holds {} records of ", ROWS + 2)), "{text}");
    let json: serde_json::Value = serde_json::from_str(&dry(&["--dry-run", "--json"])).unwrap();
    let log = &json["log"];
    assert_eq!((&log["strategy"], &log["frames"]), (&"maw".into(), &serde_json::Value::Null));
    let bytes = fs::metadata(side(&database, "-maw")).unwrap().len();
    assert_eq!(log["log_bytes"], bytes);
}

/// Two databases of one transaction: `a.db` and `b.db`, whose log has the commits of both, after a
/// kill.
fn crashed_together(sandbox: &Sandbox) -> [PathBuf; 2] {
    let paths = ["a.db", "b.db"].map(|name| sandbox.path().join(name));
    let uri = |path: &Path| format!("file:{}?vfs=oneflush&strategy=maw&atomic=log", path.display());
    let live = sandbox.path().join("live");
    fs::create_dir(&live).unwrap();
    oneflush_vfs::register().unwrap();
    let lives = ["a.db", "b.db"].map(|name| live.join(name));
    for path in &lives {
        Connection::open(uri(path)).unwrap().execute_batch("CREATE TABLE t(v)").unwrap();
    }
    let db = Connection::open(uri(&lives[0])).unwrap();
    db.execute_batch(&format!("ATTACH '{}' AS b", uri(&lives[1]))).unwrap();
    for _ in 0..3 {
        db.execute_batch("BEGIN; INSERT INTO t VALUES(1); INSERT INTO b.t VALUES(1); COMMIT")
            .unwrap();
    }
    for (from, to) in lives.iter().zip(&paths) {
        for suffix in ["", "-maw"] {
            fs::copy(side(from, suffix), side(to, suffix)).unwrap();
        }
    }
    drop(db);
    fs::remove_dir_all(live).unwrap();
    paths
}

#[test]
fn a_log_that_another_database_needs_stays_until_that_one_is_named_or_forgotten() {
    let said = |sandbox: &Sandbox, args: &[&str]| {
        let output = sandbox.oneflush().arg("recover").args(args).output().unwrap();
        let text = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
        (output.status.code(), text.concat())
    };
    let asides = |sandbox: &Sandbox| {
        let names = fs::read_dir(sandbox.path()).unwrap().map(|entry| entry.unwrap().file_name());
        names.filter(|name| name.to_str().unwrap().contains("-maw-")).count()
    };
    for forgets in [false, true] {
        let sandbox = Sandbox::new();
        let [a, b] = crashed_together(&sandbox);
        let renamed = sandbox.path().join("renamed.db");
        for suffix in ["", "-maw"] {
            fs::rename(side(&a, suffix), side(&renamed, suffix)).unwrap();
        }
        let [b, renamed] = [&b, &renamed].map(|path| path.to_str().unwrap());
        let (code, text) = said(&sandbox, &[b]);
        assert!(text.contains("stays, for it has commits of other databases"), "{text}");
        assert!(text.contains("a.db: not found") && text.contains("--forget FILE"), "{text}");
        assert_eq!((code, count(b.as_ref()), asides(&sandbox)), (Some(0), Ok(3), 1));

        let (code, text) = said(&sandbox, &[renamed]);
        assert_eq!(code, Some(3), "{text}");
        assert!(text.contains("--with") && !text.contains("[OF-302]"), "{text}");
        if forgets {
            let (code, text) = said(&sandbox, &[b, "--forget", "x.db"]);
            assert!(code == Some(1) && text.contains("[OF-351]"), "{text}");
            let (code, text) = said(&sandbox, &[b, "--forget", "a.db"]);
            assert_eq!((code, asides(&sandbox)), (Some(0), 0), "{text}");
            continue;
        }
        let (code, text) = said(&sandbox, &[renamed, "--with", b]);
        assert_eq!((code, count(renamed.as_ref())), (Some(0), Ok(3)), "{text}");
        let (code, text) = said(&sandbox, &[b, "--json"]);
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!((code, &json["stays"][0]["needed_by"][0]["found"]), (Some(0), &false.into()));
        let (code, text) = said(&sandbox, &[b, "--with", renamed]);
        assert_eq!((code, asides(&sandbox)), (Some(0), 0), "{text}");
    }
}
