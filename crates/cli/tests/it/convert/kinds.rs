//! What stays as it was, for databases of many kinds.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::time::Duration;

use rusqlite::backup::Backup;
use rusqlite::types::Value;
use rusqlite::{Connection, OpenFlags};

use super::*;
use crate::common::crashed::side;

#[test]
fn a_conversion_reserves_the_bytes_and_the_file_stays_the_same_file() {
    let sandbox = Sandbox::new();
    for mode in ["wal", "delete", "truncate", "persist"] {
        let path = sandbox.path().join(format!("{mode}.db"));
        make(&path, mode, 2000);
        let link = sandbox.path().join(format!("{mode}-link.db"));
        fs::hard_link(&path, &link).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let (before, was) = (content(&path), fs::metadata(&path).unwrap());
        let said = converted(&sandbox, &path, &["--reserve", "24"]);
        assert!(said.contains("24 of 4096 bytes of each page are reserved; before"), "{said}");
        assert!(said.contains("2000 rows of 1 tables"), "{said}");
        let is = fs::metadata(&path).unwrap();
        assert_eq!((is.ino(), is.mode(), is.uid()), (was.ino(), was.mode(), was.uid()));
        assert_eq!(fs::metadata(&link).unwrap().ino(), is.ino());
        assert_eq!((reserved(&path), content(&path)), (24, before), "{mode}");
        let kept = if mode == "wal" { "wal" } else { "delete" };
        assert_eq!(
            open(&path).pragma_query_value(None, "journal_mode", |row| row.get(0)),
            Ok(kept.to_owned())
        );
        assert_eq!(beside(&path), Vec::<PathBuf>::new());
    }
}

#[test]
fn what_is_right_already_is_said_and_left_alone_even_while_it_is_in_use() {
    let sandbox = Sandbox::new();
    let path = sandbox.path().join("a.db");
    make(&path, "wal", 100);
    converted(&sandbox, &path, &["--reserve", "24"]);
    let before = fs::read(&path).unwrap();
    let db = open(&path);
    db.query_row("SELECT count(*) FROM t", [], |_| Ok(())).unwrap();
    for more in [&["--dry-run"][..], &[], &["--force"]] {
        let said = converted(&sandbox, &path, &[&["--reserve", "24"], more].concat());
        assert!(said.contains("are reserved already; nothing was changed"), "{said}");
    }
    assert!(fs::read(&path).unwrap() == before);
}

#[test]
fn a_dry_run_says_the_figures_and_changes_nothing() {
    let sandbox = Sandbox::new();
    let path = sandbox.path().join("a.db");
    make(&path, "wal", 2000);
    let before = fs::read(&path).unwrap();
    let said = converted(&sandbox, &path, &["--reserve", "24", "--dry-run"]);
    for words in ["0 of 4096 bytes", "and 24 would be", "MiB needed", "nothing was changed"] {
        assert!(said.contains(words), "{words}: {said}");
    }
    let json = converted(&sandbox, &path, &["--reserve", "24", "--dry-run", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json["converted"], &json["reserved_bytes_before"]), (&false.into(), &0.into()));
    assert!(json["needed_bytes"].as_u64().unwrap() >= 2 * before.len() as u64, "{json}");
    assert!(json["pages"].is_null() && json["rows"].is_null(), "{json}");
    assert!(fs::read(&path).unwrap() == before && beside(&path).is_empty());
    let json = converted(&sandbox, &path, &["--reserve", "24", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json["converted"], &json["rows"]), (&true.into(), &2000.into()));
}

#[test]
fn the_number_is_lowered_and_raised_again_with_force() {
    let sandbox = Sandbox::new();
    let path = sandbox.path().join("a.db");
    make(&path, "wal", 1000);
    let before = content(&path);
    for (number, force) in
        [("24", None), ("255", Some("--force")), ("0", Some("--force")), ("1", None)]
    {
        let arguments: Vec<&str> = ["--reserve", number].into_iter().chain(force).collect();
        converted(&sandbox, &path, &arguments);
        assert_eq!(
            (reserved(&path).to_string(), content(&path)),
            (number.to_owned(), before.clone())
        );
    }
    let stats = sandbox.oneflush().arg("stats").arg(&path).output().unwrap();
    assert!(stdout(&stats).contains("0 free, 1 byte reserved in each"), "{}", stdout(&stats));
}

/// All rows of all tables and views, and the schema.
fn everything(db: &Connection) -> Vec<Vec<Value>> {
    let rows = |sql: &str| -> Vec<Vec<Value>> {
        let mut statement = db.prepare(sql).unwrap();
        let columns = statement.column_count();
        let rows = statement.query_map([], |row| (0..columns).map(|at| row.get(at)).collect());
        rows.unwrap().map(Result::unwrap).collect()
    };
    let mut all = rows("SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY 1, 2, 3");
    let names: Vec<String> =
        rows("SELECT name FROM sqlite_schema WHERE type IN ('table', 'view') ORDER BY 1")
            .into_iter()
            .map(
                |row| {
                    if let Value::Text(name) = &row[0] { name.clone() } else { panic!("{row:?}") }
                },
            )
            .collect();
    for name in names {
        let mut found = rows(&format!("SELECT * FROM \"{}\"", name.replace('"', "\"\"")));
        found.sort_by_cached_key(|row| format!("{row:?}"));
        all.extend(found);
    }
    for name in ["user_version", "application_id", "page_size", "auto_vacuum", "encoding"] {
        all.extend(rows(&format!("PRAGMA {name}")));
    }
    all
}

const MANY_KINDS: &str = "
    PRAGMA user_version = -5; PRAGMA application_id = 252006673;
    CREATE TABLE plain(a, b BLOB, c REAL DEFAULT 1.5, CHECK (a <> 'never'));
    CREATE TABLE \"odd \"\" name\"(\"a b\" TEXT COLLATE NOCASE UNIQUE);
    CREATE TABLE counted(id INTEGER PRIMARY KEY AUTOINCREMENT, v TEXT NOT NULL) STRICT;
    CREATE TABLE keyed(k TEXT, n INT, v, PRIMARY KEY (k, n DESC)) WITHOUT ROWID;
    CREATE TABLE made(a INT, twice INT AS (a * 2) STORED, thrice INT AS (a * 3) VIRTUAL);
    CREATE INDEX partly ON plain(a, length(b)) WHERE a > 3;
    CREATE INDEX by_made ON made(thrice);
    CREATE VIEW seen AS SELECT k, n FROM keyed WHERE n > 5;
    CREATE TABLE heard(what);
    CREATE TRIGGER hears AFTER INSERT ON counted BEGIN INSERT INTO heard VALUES (new.v); END;
    CREATE VIRTUAL TABLE words USING fts5(text, tokenize = 'porter');
    CREATE VIRTUAL TABLE areas USING rtree(id, x0, x1);
    CREATE TABLE child(id INT REFERENCES counted(id));
    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300)
    INSERT INTO plain SELECT i, zeroblob(i * 7), i / 3.0 FROM n;
    INSERT INTO plain VALUES (NULL, zeroblob(100000), 'text');
    INSERT INTO \"odd \"\" name\" VALUES ('Grüße'), ('x');
    INSERT INTO counted(v) SELECT 'v' || a FROM plain WHERE a IS NOT NULL;
    DELETE FROM counted WHERE id > 290;
    INSERT INTO keyed SELECT 'k' || a, a, b FROM plain WHERE a < 100;
    INSERT INTO made(a) SELECT a FROM plain;
    INSERT INTO words SELECT 'running the ' || a || ' words' FROM plain;
    INSERT INTO areas SELECT a, a, a + 10 FROM plain WHERE a IS NOT NULL;
    INSERT INTO child VALUES (3), (NULL);
    ANALYZE;
    CREATE TABLE gone(v); INSERT INTO gone SELECT zeroblob(900) FROM plain; DROP TABLE gone;";

#[test]
fn databases_of_many_kinds_have_everything_that_they_had() {
    let sandbox = Sandbox::new();
    for (number, (page_bytes, reserve, mode, vacuum, encoding)) in [
        (512, 24, "wal", 0, "UTF-8"),
        (512, 32, "delete", 1, "UTF-16le"),
        (1024, 255, "wal", 2, "UTF-16be"),
        (4096, 24, "wal", 1, "UTF-8"),
        (4096, 24, "delete", 2, "UTF-8"),
        (16_384, 24, "delete", 0, "UTF-16le"),
        (65_536, 200, "wal", 0, "UTF-16be"),
    ]
    .into_iter()
    .enumerate()
    {
        let path = sandbox.path().join(format!("{number}.db"));
        let db = open(&path);
        db.execute_batch(&format!(
            "PRAGMA page_size = {page_bytes}; PRAGMA auto_vacuum = {vacuum};
            PRAGMA encoding = '{encoding}'; PRAGMA journal_mode = {mode};
            BEGIN; {MANY_KINDS} COMMIT"
        ))
        .unwrap();
        drop(db);
        let before = everything(&open(&path));
        assert!(before.len() > 1000);
        converted(&sandbox, &path, &["--reserve", &reserve.to_string()]);
        let db = open(&path);
        let after = everything(&db);
        let differs = before.iter().zip(&after).find(|(before, after)| before != after);
        let kind = format!("{page_bytes} {mode} {vacuum} {encoding}");
        assert!(differs.is_none() && before.len() == after.len(), "{kind}: {differs:?}");
        assert_eq!(i32::from(reserved(&path)), reserve);
        let found: i64 = db
            .query_row("SELECT count(*) FROM words WHERE words MATCH 'run'", [], |row| row.get(0))
            .unwrap();
        assert_eq!(found, 300);
        db.execute_batch("INSERT INTO counted(v) VALUES ('new'); PRAGMA integrity_check").unwrap();
        let last = db.query_row("SELECT max(id) FROM counted", [], |row| row.get::<_, i64>(0));
        assert_eq!(last, Ok(301), "AUTOINCREMENT goes on");
    }
}

/// The module of a virtual table need not be there, and neither need what only its program has.
#[test]
fn a_virtual_table_of_an_unknown_module_is_copied() {
    let sandbox = Sandbox::new();
    let path = sandbox.path().join("a.db");
    make(&path, "wal", 100);
    open(&path)
        .execute_batch(
            "PRAGMA writable_schema = on; INSERT INTO sqlite_schema VALUES \
            ('table', 'v', 'v', 0, 'CREATE VIRTUAL TABLE v USING nobody_knows(a)')",
        )
        .unwrap();
    converted(&sandbox, &path, &["--reserve", "24"]);
    let sql: String = open(&path)
        .query_row("SELECT sql FROM sqlite_schema WHERE name = 'v'", [], |row| row.get(0))
        .unwrap();
    assert_eq!(
        (sql.as_str(), reserved(&path)),
        ("CREATE VIRTUAL TABLE v USING nobody_knows(a)", 24)
    );
}

#[test]
fn any_name_is_converted_and_a_symlink_leads_to_its_target() {
    let sandbox = Sandbox::new();
    let names: [&[u8]; 5] =
        [b"a b.db", b"100%25?x=1#y.db", "d\u{e4}t\u{e4}.db".as_bytes(), b"n\xff.db", b"file:c.db"];
    for name in names {
        let path = sandbox.path().join(OsStr::from_bytes(name));
        make(&path, "wal", 100);
        let before = content(&path);
        // As a name in the folder, too: "file:" is no URI here.
        converted(&sandbox, Path::new(OsStr::from_bytes(name)), &["--reserve", "24"]);
        assert_eq!((reserved(&path), content(&path)), (24, before));
        assert_eq!(beside(&path), Vec::<PathBuf>::new());
    }
    let (folder, target) = (sandbox.path().join("folder"), sandbox.path().join("target.db"));
    fs::create_dir(&folder).unwrap();
    make(&target, "wal", 100);
    let link = folder.join("link.db");
    symlink("../target.db", &link).unwrap();
    converted(&sandbox, &link, &["--reserve", "24"]);
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!((reserved(&target), fs::read_dir(&folder).unwrap().count()), (24, 1));
}

/// A connection without a transaction has no lock in the rollback modes. It sees the new pages.
#[test]
fn a_connection_that_waits_in_a_rollback_mode_goes_on_afterwards() {
    let sandbox = Sandbox::new();
    let path = sandbox.path().join("a.db");
    make(&path, "delete", 2000);
    let db = open(&path);
    let mut count = db.prepare("SELECT count(*), max(v) FROM t").unwrap();
    let mut read =
        || count.query_row([], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?)));
    let before = read().unwrap();
    converted(&sandbox, &path, &["--reserve", "24"]);
    assert_eq!(read().unwrap(), before);
    db.execute("INSERT INTO t(v) VALUES ('after')", []).unwrap();
    drop(count);
    drop(db);
    assert_eq!((content(&path).0, reserved(&path)), (2001, 24));
}

#[test]
fn plain_and_eager_go_on_with_a_converted_database() {
    oneflush_vfs::register().unwrap();
    let sandbox = Sandbox::new();
    for strategy in ["plain", "eager"] {
        let path = sandbox.path().join(format!("{strategy}.db"));
        make(&path, "wal", 500);
        let through = || {
            let uri = format!("file:{}?vfs=oneflush&strategy={strategy}", path.display());
            let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_URI;
            Connection::open_with_flags(uri, flags).unwrap()
        };
        let add = |count: usize| {
            let db = through();
            for _ in 0..count {
                db.execute("INSERT INTO t(v) VALUES (hex(randomblob(50)))", []).unwrap();
            }
        };
        // The last close of `plain` keeps its WAL beside the database.
        add(20);
        assert_eq!(beside(&path).len(), usize::from(strategy == "plain"));
        converted(&sandbox, &path, &["--reserve", "24"]);
        add(20);
        assert_eq!((content(&path).0, reserved(&path)), (540, 24), "{strategy}");
    }
}

#[test]
fn commits_that_a_crash_left_in_the_wal_are_converted_too() {
    let sandbox = Sandbox::new();
    let (live, path) = (sandbox.path().join("live.db"), sandbox.path().join("a.db"));
    let db = open(&live);
    db.execute_batch("PRAGMA journal_mode = wal; CREATE TABLE t(id INTEGER PRIMARY KEY, v)")
        .unwrap();
    db.execute_batch("INSERT INTO t(v) VALUES ('x'); INSERT INTO t(v) VALUES ('y')").unwrap();
    for suffix in ["", "-wal"] {
        fs::copy(side(&live, suffix), side(&path, suffix)).unwrap();
    }
    converted(&sandbox, &path, &["--reserve", "24"]);
    assert_eq!((reserved(&path), beside(&path).len(), content(&path).0), (24, 0, 2));
}

/// The file's header says what was before the last commit, which only the WAL has.
#[test]
fn a_conversion_that_a_crash_left_in_the_wal_counts() {
    let sandbox = Sandbox::new();
    let (live, path) = (sandbox.path().join("live.db"), sandbox.path().join("a.db"));
    make(&live, "wal", 100);
    converted(&sandbox, &live, &["--reserve", "24"]);
    let other = sandbox.path().join("other.db");
    fs::copy(&live, &other).unwrap();
    converted(&sandbox, &other, &["--reserve", "25", "--force"]);
    let mut db = open(&live);
    let was = content(&other);
    let other = open(&other);
    let backup = Backup::new(&other, &mut db).unwrap();
    backup.run_to_completion(1000, Duration::ZERO, None).unwrap();
    drop(backup);
    for suffix in ["", "-wal"] {
        fs::copy(side(&live, suffix), side(&path, suffix)).unwrap();
    }
    assert_eq!(reserved(&path), 24);
    let again = sandbox.path().join("again.db");
    for suffix in ["", "-wal"] {
        fs::copy(side(&path, suffix), side(&again, suffix)).unwrap();
    }
    let dry = converted(&sandbox, &again, &["--reserve", "24", "--dry-run"]);
    assert!(dry.contains("a WAL or journal beside it may say otherwise"), "{dry}");
    assert_eq!(reserved(&again), 24);
    let said = converted(&sandbox, &again, &["--reserve", "25"]);
    assert!(said.contains("25 of 4096 bytes of each page are reserved already"), "{said}");
    let said = converted(&sandbox, &path, &["--reserve", "24", "--force"]);
    assert!(said.contains("before it was 25"), "{said}");
    assert_eq!((reserved(&path), content(&path)), (24, was));
}
