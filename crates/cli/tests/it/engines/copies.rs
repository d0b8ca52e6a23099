//! `oneflush convert --engine`: the copy has everything, there and back.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;

use oneflush_testing::shared_data;
use rusqlite::types::Value;

use super::*;

/// All that SQL sees, read by another way than the command's own: one text a table.
fn contents(path: &Path) -> BTreeMap<String, String> {
    let db = open(path);
    let text = |sql: &str| -> String {
        let mut statement = db.prepare(sql).unwrap();
        let columns = statement.column_count();
        let rows = statement.query_map([], |row| {
            let values = (0..columns).map(|at| format!("{:?}", row.get::<_, Value>(at).unwrap()));
            Ok(values.collect::<Vec<_>>().join("|"))
        });
        rows.unwrap().map(Result::unwrap).collect::<Vec<_>>().join("\n")
    };
    assert_eq!(text("PRAGMA integrity_check"), "Text(\"ok\")");
    let mut all = BTreeMap::new();
    for name in ["user_version", "application_id", "encoding", "page_size"] {
        all.insert(format!("PRAGMA {name}"), text(&format!("PRAGMA {name}")));
    }
    all.insert("schema".into(), text("SELECT type, name, tbl_name, sql FROM sqlite_schema"));
    let tables = "SELECT name, wr FROM pragma_table_list WHERE type IN ('table', 'shadow')
        AND schema = 'main' AND name <> 'sqlite_schema'";
    let mut tables = db.prepare(tables).unwrap();
    let tables = tables.query_map([], |row| Ok((row.get(0)?, row.get(1)?)));
    let tables: Vec<(String, bool)> = tables.unwrap().map(Result::unwrap).collect();
    for (table, is_without) in tables {
        let quoted = format!("\"{}\"", table.replace('"', "\"\""));
        let mut columns = db.prepare("SELECT name FROM pragma_table_xinfo(?)").unwrap();
        let columns = columns.query_map([&table], |row| row.get(0)).unwrap();
        let columns: Vec<String> = columns.map(Result::unwrap).collect();
        let is_free = !columns.iter().any(|column| column == "_rowid_");
        let rowid = if is_without || !is_free { "" } else { "_rowid_, " };
        let all_columns = columns.iter().map(|column| {
            let column = format!("\"{}\"", column.replace('"', "\"\""));
            format!("typeof({column}), {column}, hex({column})")
        });
        let all_columns: Vec<String> = all_columns.collect();
        let sql = format!("SELECT {rowid}{} FROM {quoted} ORDER BY 1, 2", all_columns.join(", "));
        all.insert(table, text(&sql));
    }
    all
}

/// There and back. The databases are left.
fn round(sandbox: &Sandbox, path: &Path) -> (PathBuf, PathBuf) {
    let (there, back) = (path.with_extension("mvbt"), path.with_extension("back"));
    let text = convert(sandbox, path, &there, "lsmvbt");
    assert!(text.contains("a database of LS-MVBT, ") && is_lsmvbt(&there), "{text}");
    let text = convert(sandbox, &there, &back, "sqlite");
    assert!(text.contains("a database of SQLite, ") && !is_lsmvbt(&back), "{text}");
    let before = contents(path);
    for copy in [&there, &back] {
        let after = contents(copy);
        assert_eq!(before.keys().collect::<Vec<_>>(), after.keys().collect::<Vec<_>>());
        for (what, text) in &before {
            assert!(after[what] == *text, "{}: {what} differs", copy.display());
        }
        assert_eq!(beginning_with(copy), std::slice::from_ref(copy), "nothing lies beside it");
    }
    (there, back)
}

#[test]
fn every_kind_of_table_and_value_is_the_same_there_and_back() {
    let sandbox = Sandbox::new();
    for (encoding, page_bytes) in [("UTF-8", 4096), ("UTF-16le", 512), ("UTF-16be", 65536)] {
        let path = sandbox.path().join(format!("{encoding}.db"));
        open(&path)
            .execute_batch(&format!(
                "PRAGMA encoding = '{encoding}'; PRAGMA page_size = {page_bytes};
                PRAGMA user_version = -7; PRAGMA application_id = 4711; {SOME};
                CREATE TABLE free(v); INSERT INTO free VALUES (1), (2), (3), (4);
                DELETE FROM free WHERE v = 2; UPDATE free SET _rowid_ = -9 WHERE v = 3;
                CREATE TABLE \"odd \"\" name\"(rowid TEXT, oid, _rowid_, \"c \"\" d\");
                INSERT INTO \"odd \"\" name\" VALUES ('x', 1, 2, 3), ('y', 4, 5, 6);
                CREATE TABLE counted(id INTEGER PRIMARY KEY AUTOINCREMENT, v);
                INSERT INTO counted(v) VALUES (1), (2); DELETE FROM counted WHERE id = 2;
                CREATE TABLE made(a, b AS (a || 'v'), c AS (a || 's') STORED);
                CREATE INDEX by_b ON made(b) WHERE a > 1; CREATE INDEX by_x ON made(lower(c) DESC);
                INSERT INTO made VALUES (1), (2), ('z');
                CREATE TABLE values_(v); INSERT INTO values_ VALUES (NULL), (0), (1), (-1),
                    (9223372036854775807), (-9223372036854775808), (1.0), (0.1), (-0.0), (9e999),
                    (1e-310), (''), (x''), (x'00ff'), ('a' || char(0) || 'b'), ('ä€𝄞'),
                    (zeroblob(200000)), (hex(zeroblob(60000)));
                CREATE TABLE real_(v REAL); INSERT INTO real_ VALUES (5), (5.5), ('text');
                CREATE TABLE strict_(a INT, b BLOB) STRICT; INSERT INTO strict_ VALUES (1, x'01');
                CREATE TABLE nocase(v COLLATE NOCASE UNIQUE); INSERT INTO nocase VALUES ('Aa');
                CREATE VIEW seen AS SELECT v FROM t; CREATE TRIGGER fires AFTER INSERT ON t
                    BEGIN INSERT INTO free VALUES (new.v); END;
                CREATE VIRTUAL TABLE words USING fts5(a, b); INSERT INTO words VALUES ('x y', 'z');
                CREATE VIRTUAL TABLE bare USING fts5(a, content='');
                INSERT INTO bare(rowid, a) VALUES (7, 'one two');
                CREATE VIRTUAL TABLE boxes USING rtree(id, x0, x1);
                INSERT INTO boxes VALUES (1, 2.5, 3.5);
                CREATE TABLE empty(a, b UNIQUE); ANALYZE"
            ))
            .unwrap();
        let (there, _) = round(&sandbox, &path);
        // What a virtual table finds.
        let found: i64 = open(&there)
            .query_row("SELECT count(*) FROM words WHERE words MATCH 'y'", [], |row| row.get(0))
            .unwrap();
        assert_eq!(found, 1, "{encoding}");
    }
}

#[test]
fn the_databases_of_two_apps_are_the_same_there_and_back() {
    for app in ["facebook", "twitter"] {
        let Some(folder) = shared_data(&format!("sql/{app}")) else { return };
        let sandbox = Sandbox::new();
        let path = sandbox.path().join("app.db");
        let db = open(&path);
        let mut run = 0;
        for file in ["loading.sql", "0.sql"] {
            let text = fs::read_to_string(folder.join(file)).unwrap();
            // Some statements fail, as they did in the app.
            run += text.lines().filter(|line| db.execute_batch(line).is_ok()).count();
        }
        drop(db);
        assert!(run > 300, "{app}: {run}");
        round(&sandbox, &path);
    }
}

#[test]
fn the_copy_is_of_one_moment_while_others_write() {
    let sandbox = Sandbox::new();
    for (mode, engine, other) in [("wal", "sqlite", "lsmvbt"), ("", "lsmvbt", "sqlite")] {
        let path = sandbox.path().join(format!("{engine}.db"));
        let db = of_engine(&path, engine);
        if !mode.is_empty() {
            db.pragma_update(None, "journal_mode", mode).unwrap();
        }
        db.execute_batch("CREATE TABLE t(v); INSERT INTO t VALUES ('committed')").unwrap();
        db.execute_batch("BEGIN; INSERT INTO t VALUES ('open')").unwrap();
        let copy = sandbox.path().join(format!("of-{engine}.db"));
        convert(&sandbox, &path, &copy, other);
        db.execute_batch("COMMIT").unwrap();
        let rows = |path: &Path| -> String {
            let sql = "SELECT group_concat(v) FROM t";
            open(path).query_row(sql, [], |row| row.get(0)).unwrap()
        };
        assert_eq!((rows(&copy).as_str(), rows(&path).as_str()), ("committed", "committed,open"));
    }
}

#[test]
fn a_dry_run_makes_nothing_and_json_has_the_figures() {
    let sandbox = Sandbox::new();
    let (path, copy) = (sandbox.path().join("a.db"), sandbox.path().join("b.db"));
    open(&path).execute_batch(&format!("PRAGMA auto_vacuum = full; {SOME}")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    let to = copy.to_str().unwrap();
    let text = said(&sandbox, "convert", &path, &[to, "--engine", "lsmvbt", "--dry-run"]);
    for words in ["would be the same database", "MiB needed", "nothing was changed", "auto_vacuum"]
    {
        assert!(text.contains(words), "{words}: {text}");
    }
    assert!(beginning_with(&copy).is_empty());
    let json = said(&sandbox, "convert", &path, &[to, "--engine", "lsmvbt", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["engine_before"], "sqlite");
    assert_eq!(json["engine"], "lsmvbt");
    assert_eq!(
        (&json["converted"], &json["rows"], &json["tables"], &json["indexes"]),
        (&true.into(), &501.into(), &2.into(), &1.into())
    );
    assert_eq!(json["auto_vacuum_lost"], true);
    assert_eq!(json["bytes"], copy.metadata().unwrap().len());
    assert_eq!(copy.metadata().unwrap().permissions().mode() & 0o777, 0o640);
}
