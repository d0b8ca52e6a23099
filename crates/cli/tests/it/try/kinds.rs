//! Databases of all kinds: each is tried, and all beside it is as it was.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use super::*;

fn folder(sandbox: &Sandbox) -> PathBuf {
    sandbox.open_directory("data")
}

#[test]
fn a_database_in_wal_mode_is_compared_in_wal_mode() {
    let sandbox = Sandbox::new();
    let path = folder(&sandbox).join("app.db");
    make(&path, "wal", 3_000);
    let found = tried(&sandbox, &path);
    assert_eq!(modes(&found), ["wal", "wal:plain", "wal:eager"]);
    assert_eq!(found["subject"]["database"]["journal"], "wal");
    assert_eq!(found["commit"]["table"], "messages");
    assert_eq!(found["commit"]["rows"], 3_000);
    assert_eq!(found["commit"]["indexes"], 1);
    for one in found["measured"].as_array().unwrap() {
        assert!(one["commits"].as_u64().unwrap() > 0, "{one}");
        assert!(one["commits_per_s"].as_f64().unwrap() > 0.0, "{one}");
        assert!(one["bytes_per_commit"].as_f64().unwrap() >= 512.0, "{one}");
    }
    let writers: Vec<_> =
        found["measured"].as_array().unwrap().iter().map(|one| &one["writers"]).collect();
    assert_eq!(writers, [1, 8, 1, 8, 1, 8]);
}

#[test]
fn a_database_in_a_rollback_mode_is_compared_with_wal_mode_too() {
    let sandbox = Sandbox::new();
    let data = folder(&sandbox);
    for mode in ["delete", "truncate", "persist"] {
        let path = data.join(format!("{mode}.db"));
        make(&path, mode, 1_000);
        let found = tried(&sandbox, &path);
        let maw = format!("{mode}:maw");
        assert_eq!(modes(&found), [mode, "wal", "wal:plain", "wal:eager", &maw]);
        assert_eq!(found["subject"]["database"]["journal"], mode);
        assert_eq!(found["advice"]["needs_wal"], found["advice"]["strategy"].is_string());
    }
}

/// As after a kill: the last commits are in the WAL, and nobody has the database open.
#[test]
fn what_is_in_the_wal_only_is_tried_too_and_stays_there() {
    let sandbox = Sandbox::new();
    let data = folder(&sandbox);
    let (live, path) = (sandbox.path().join("live.db"), data.join("app.db"));
    make(&live, "wal", 300);
    let db = open(&live);
    db.execute_batch("PRAGMA wal_autocheckpoint = 0").unwrap();
    db.execute_batch("INSERT INTO messages(v) SELECT v || 'more' FROM messages").unwrap();
    copy_of_live(&live, &path, &["-wal"]);
    let found = tried(&sandbox, &path);
    assert_eq!(found["commit"]["rows"], 600);
    assert!(found["subject"]["database"]["side_bytes"].as_u64().unwrap() > 10_000);
    assert!(with_suffix(&path, "-wal").exists() && !with_suffix(&path, "-shm").exists());
}

/// As after a loss of power in a transaction: pages that were never committed are in the file.
#[test]
fn a_hot_journal_is_rolled_back_in_the_copy_and_stays_beside_the_original() {
    let sandbox = Sandbox::new();
    let data = folder(&sandbox);
    let (live, path) = (sandbox.path().join("live.db"), data.join("app.db"));
    make(&live, "delete", 3_000);
    let db = open(&live);
    db.execute_batch(
        "PRAGMA cache_size = 5; BEGIN; DELETE FROM messages WHERE id > 300;
        UPDATE messages SET v = v || 'more'",
    )
    .unwrap();
    copy_of_live(&live, &path, &["-journal"]);
    let found = tried(&sandbox, &path);
    assert_eq!(found["commit"]["rows"], 3_000, "as before the transaction");
    assert!(with_suffix(&path, "-journal").metadata().unwrap().len() > 10_000);
}

#[test]
fn page_sizes_encodings_and_schemas_are_theirs() {
    let sandbox = Sandbox::new();
    let data = folder(&sandbox);
    let schema = "CREATE TABLE t(a PRIMARY KEY, rowid TEXT, b REFERENCES u(x), CHECK (b > 100));
        CREATE TRIGGER no BEFORE UPDATE ON t BEGIN SELECT raise(ABORT, 'no'); END;
        CREATE TABLE few(v);
        CREATE TABLE without(a PRIMARY KEY, b) WITHOUT ROWID;
        CREATE VIRTUAL TABLE words USING fts5(text);
        CREATE VIEW all_of_t AS SELECT * FROM t;
        CREATE INDEX by_b ON t(b) WHERE b > 3;
        CREATE INDEX of_length ON t(length(a))";
    let rows = "PRAGMA foreign_keys = off; PRAGMA ignore_check_constraints = on;
        WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000)
        INSERT INTO t SELECT 'key' || i, hex(zeroblob(i % 900)), i % 10 FROM n;
        INSERT INTO without SELECT a, b FROM t; INSERT INTO without SELECT a || 'b', b FROM t;
        INSERT INTO few VALUES(1)";
    for (at, pragmas) in [
        "page_size = 512",
        "page_size = 65536",
        "encoding = 'UTF-16le'; PRAGMA auto_vacuum = full",
        "auto_vacuum = incremental; PRAGMA secure_delete = on; PRAGMA journal_mode = wal",
    ]
    .iter()
    .enumerate()
    {
        let path = data.join(format!("{at}.db"));
        let pragmas = format!("PRAGMA {pragmas}");
        open(&path).execute_batch(&format!("{pragmas}; {schema}; {rows}")).unwrap();
        let found = tried(&sandbox, &path);
        assert_eq!(found["commit"]["table"], "t", "{pragmas}");
        assert_eq!(found["commit"]["indexes"], 3, "{pragmas}");
    }
}

/// A collation that only the program has.
#[test]
fn what_only_the_program_defines_is_left_out() {
    if !oneflush_testing::has_programs(&["python3"]) {
        return;
    }
    let sandbox = Sandbox::new();
    let path = folder(&sandbox).join("app.db");
    let script = "import sqlite3, sys
db = sqlite3.connect(sys.argv[1])
db.create_collation('of_the_program', lambda one, other: (one > other) - (one < other))
db.execute('CREATE TABLE t(v TEXT COLLATE of_the_program UNIQUE)')
db.executemany('INSERT INTO t VALUES (?)', ((str(n),) for n in range(2000)))
db.execute('CREATE TABLE small(v)')
db.executemany('INSERT INTO small VALUES (?)', ((n,) for n in range(250)))
db.commit()";
    assert!(Command::new("python3").args(["-c", script]).arg(&path).status().unwrap().success());
    let found = tried(&sandbox, &path);
    assert_eq!(found["commit"]["table"], "small");
    open(&path).execute_batch("DROP TABLE small").unwrap();
    let found = tried(&sandbox, &path);
    assert!(found["commit"]["table"].is_null() && found["commit"]["rows"].as_u64() > Some(1_000));
}

#[test]
fn an_empty_file_is_an_empty_database_and_a_directory_gets_a_small_one() {
    let sandbox = Sandbox::new();
    let data = folder(&sandbox);
    fs::write(data.join("empty.db"), "").unwrap();
    let found = tried(&sandbox, &data.join("empty.db"));
    assert_eq!(
        (&found["subject"]["database"]["bytes"], &found["commit"]["table"]),
        (&0.into(), &Value::Null)
    );
    let before = look(&data);
    let output = command(&sandbox, &data).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(look(&data) == before);
    let text = stdout(&output);
    assert!(text.contains("\nDELETE (now)") && text.contains("a small database of ours"), "{text}");
}

#[test]
fn names_may_be_odd_and_lead_through_links() {
    let sandbox = Sandbox::new();
    let data = folder(&sandbox);
    for name in [&b"a b?c#d%41&mode=ro.db"[..], b"-rf", b"line\nfeed'\".db", b"\xff\xfe.db"] {
        let path = data.join(OsStr::from_bytes(name));
        make(&path, "wal", 300);
        assert_eq!(tried(&sandbox, &path)["commit"]["rows"], 300);
    }
    let link = sandbox.open_directory("links").join("link.db");
    std::os::unix::fs::symlink("../data/-rf", &link).unwrap();
    assert_eq!(tried(&sandbox, &link)["commit"]["rows"], 300);
}

#[test]
fn the_text_has_80_columns_and_says_what_is_compared_and_how_to_go_back() {
    let sandbox = Sandbox::new();
    let path = folder(&sandbox).join("a-name-long-enough-for-a-line-of-its-own.db");
    make(&path, "wal", 1_000);
    let output = command(&sandbox, &path).output().unwrap();
    let text = stdout(&output);
    assert!(output.status.success(), "{}", stderr(&output));
    let long: Vec<&str> = text.lines().filter(|line| line.chars().count() > 80).collect();
    assert!(long.is_empty(), "{long:#?}");
    for words in
        ["\nWAL (now) ", "\nplain ", "\neager ", "\none 4 KB write ", "1 writer", "8 writers"]
    {
        assert!(text.contains(words), "{words:?} is not in: {text}");
    }
    assert!(text.contains("one of the 1,000 rows of messages"), "{text}");
    assert!(text.contains("1 index entry"), "{text}");
    assert!(text.contains("Go back") || text.contains("stay with SQLite alone"), "{text}");
}

#[test]
fn a_table_may_be_named_and_the_text_says_which_one_it_is_and_why() {
    let sandbox = Sandbox::new();
    let path = folder(&sandbox).join("app.db");
    make(&path, "wal", 1_000);
    open(&path)
        .execute_batch("CREATE TABLE ids(v); INSERT INTO ids SELECT id FROM messages")
        .unwrap();
    let tried = |table: Option<&str>| {
        let mut command = sandbox.oneflush();
        command.args(["try", "--seconds", "1"]).arg(&path);
        command.args(table.map(|table| ["--table", table]).into_iter().flatten());
        let output = command.output().unwrap();
        (output.status.code(), stdout(&output).replace('\n', " "), stderr(&output))
    };
    let (code, text, said) = tried(Some("ids"));
    assert_eq!(code, Some(0), "{said}");
    assert!(text.contains("rows of ids to its end"), "{text}");
    assert!(text.contains("--table asked for it: 4 pages."), "{text}");
    let (_, text, _) = tried(None);
    assert!(text.contains("It is the largest of 2 tables: "), "{text}");
    let (code, _, said) = tried(Some("orders"));
    assert_eq!(code, Some(2));
    assert!(said.contains("there are ids and messages"), "{said}");
    sandbox.assert_nothing_left(&[]);
}

#[test]
fn a_language_alone_measures_nothing() {
    let sandbox = Sandbox::new();
    let output = sandbox.oneflush().args(["try", "--language", "python"]).output().unwrap();
    assert!(output.status.success() && stdout(&output).contains("import oneflush"));
    for arguments in [&["try"][..], &["try", "a.db", "--language", "cobol"]] {
        assert_eq!(sandbox.oneflush().args(arguments).output().unwrap().status.code(), Some(2));
    }
}
