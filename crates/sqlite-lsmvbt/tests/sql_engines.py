"""Cases of `sql.py`: both engines in one program: backups, attached databases, the choice."""

import os
import sqlite3

from sql_base import connect, fails, is_lsmvbt, one, rows, sound


def filled(db):
    db.executescript("""
        CREATE TABLE t(a INTEGER PRIMARY KEY, b); CREATE INDEX tb ON t(b DESC);
        CREATE TABLE w(k PRIMARY KEY, v) WITHOUT ROWID; CREATE VIEW v AS SELECT a FROM t;
        CREATE TABLE s(id INTEGER PRIMARY KEY AUTOINCREMENT); INSERT INTO s DEFAULT VALUES;
        PRAGMA user_version=5; BEGIN;""")
    db.executemany("INSERT INTO t VALUES(?,?)", [(n, "b" * (n % 3000)) for n in range(1000)])
    db.executemany("INSERT INTO w VALUES(?,?)", [(n, n) for n in range(1000)])
    db.execute("COMMIT")


def contents(db, schema="main"):
    tables = "t ORDER BY a", "w ORDER BY k", "s", "sqlite_sequence"
    return [rows(db, f"SELECT * FROM {schema}.{table}") for table in tables]


def backups(folder):
    engines = {"lsmvbt": "lsmvbt", "sqlite": "sqlite", "memory": None}
    for source in engines:
        for target in engines:
            if source != "lsmvbt" and target != "lsmvbt":
                continue
            path = lambda kind, name: ":memory:" if kind == "memory" else f"{folder}/{name}-{source}-{target}"
            opened = lambda kind, name: sqlite3.connect(":memory:", isolation_level=None) if kind == "memory" \
                else connect(path(kind, name), engines[kind])
            one_db, other = opened(source, "from"), opened(target, "to")
            filled(one_db)
            other.executescript("CREATE TABLE old(x UNIQUE); INSERT INTO old VALUES(1);")
            one_db.backup(other)
            assert contents(other) == contents(one_db), (source, target)
            assert one(other, "PRAGMA user_version") == 5
            fails(sqlite3.OperationalError, "no such table", other.execute, "SELECT * FROM old")
            sound(other)
            # It can be written, and copied once more over itself.
            other.execute("INSERT INTO t VALUES(5000, 'new')")
            one_db.backup(other, pages=3)
            assert contents(other) == contents(one_db)
            sound(other)


    # A temporary database that is not open yet.
    db = sqlite3.connect(":memory:", isolation_level=None)
    target = connect(f"{folder}/from-temp", "lsmvbt")
    target.execute("CREATE TABLE old(x)")
    db.backup(target, name="temp")
    assert rows(target, "SELECT * FROM sqlite_schema") == []
    sound(target)
    target.backup(db, name="temp")


def attached(folder):
    for main, aux in ("lsmvbt", "sqlite"), ("sqlite", "lsmvbt"), ("lsmvbt", "lsmvbt"):
        db = connect(f"{folder}/main-{main}-{aux}", main)
        db.execute("ATTACH ? AS aux", (f"file:{folder}/aux-{main}-{aux}?engine={aux}",))
        assert is_lsmvbt(f"{folder}/aux-{main}-{aux}") == (aux == "lsmvbt") or aux == "sqlite"
        filled(db)
        for table, sql in rows(db, "SELECT name, sql FROM sqlite_schema WHERE type='table' AND name IN ('t', 'w')"):
            db.execute(sql.replace(f"TABLE {table}", f"TABLE aux.{table}"))
        db.execute("CREATE INDEX aux.tb ON t(b DESC)")
        # As it stands, from tree to tree.
        for table in "t", "w":
            db.execute(f"INSERT INTO aux.{table} SELECT * FROM main.{table}")
        for table in "t", "w":
            assert rows(db, f"SELECT * FROM aux.{table} EXCEPT SELECT * FROM main.{table}") == []
            assert one(db, f"SELECT count(*) FROM aux.{table}") == 1000
        db.execute("CREATE TABLE u AS SELECT * FROM aux.t")
        db.execute("BEGIN")
        db.execute("DELETE FROM aux.t")
        db.execute("DELETE FROM main.w")
        db.execute("ROLLBACK")
        db.execute("UPDATE aux.t SET b = (SELECT main.t.b || '!' FROM main.t WHERE main.t.a = aux.t.a)")
        assert one(db, "SELECT count(*) FROM main.t JOIN aux.t USING(a) WHERE aux.t.b = main.t.b || '!'") == 1000
        assert one(db, "SELECT count(*) FROM main.w") == 1000
        db.execute("CREATE TEMP TABLE tmp AS SELECT * FROM aux.t LIMIT 10")
        db.execute("CREATE TEMP TRIGGER tt AFTER INSERT ON main.w BEGIN DELETE FROM t WHERE a = new.v; END")
        db.execute("INSERT INTO main.w VALUES('x', 5)")
        assert one(db, "SELECT count(*) FROM main.t") == 999
        sound(db, "main")
        sound(db, "aux")
        db.execute("VACUUM aux")
        sound(db, "aux")
        db.execute("DETACH aux")


def chosen(folder):
    os.environ["ONEFLUSH_ENGINE"] = "lsmvbt"
    try:
        db = sqlite3.connect(f"{folder}/by-environment")
        db.execute("CREATE TABLE t(a)")
        db.close()
        assert is_lsmvbt(f"{folder}/by-environment")
        open(f"{folder}/empty", "w").close()
        db = sqlite3.connect(f"{folder}/empty")
        db.execute("CREATE TABLE t(a)")
        db.close()
        assert is_lsmvbt(f"{folder}/empty")
        # A loss of power while a database is made leaves an empty file. A program that asks for one
        # that is there (mode=rw) was refused, where SQLite alone opens it.
        open(f"{folder}/left", "w").close()
        os.chmod(f"{folder}/left", 0o640)
        db = sqlite3.connect(f"file:{folder}/left?mode=rw", uri=True)
        assert one(db, "SELECT count(*) FROM sqlite_schema") == 0
        db.execute("CREATE TABLE t(a)")
        db.close()
        assert is_lsmvbt(f"{folder}/left") and os.stat(f"{folder}/left").st_mode & 0o777 == 0o640
        fails(sqlite3.OperationalError, "", lambda: sqlite3.connect(f"file:{folder}/none?mode=rw", uri=True))
        open(f"{folder}/looked-at", "w").close()
        db = sqlite3.connect(f"file:{folder}/looked-at?mode=ro", uri=True)
        assert one(db, "SELECT count(*) FROM sqlite_schema") == 0
        fails(sqlite3.OperationalError, "readonly", db.execute, "CREATE TABLE t(a)")
        assert os.path.getsize(f"{folder}/looked-at") == 0
        connect(f"{folder}/by-uri", "sqlite").execute("CREATE TABLE t(a)")
        assert not is_lsmvbt(f"{folder}/by-uri")
        for memory in ":memory:", "":
            db = sqlite3.connect(memory)
            db.execute("CREATE TABLE t(a)")
            assert one(db, "PRAGMA journal_mode") != "lsmvbt"
        os.environ["ONEFLUSH_ENGINE"] = "other"
        fails(sqlite3.OperationalError, "", sqlite3.connect, f"{folder}/unknown")
    finally:
        del os.environ["ONEFLUSH_ENGINE"]
    fails(sqlite3.OperationalError, "", connect, f"{folder}/unknown", "other")
    assert not os.path.exists(f"{folder}/unknown")
    # What is there says it itself.
    db = connect(f"{folder}/by-uri", "lsmvbt")
    assert one(db, "PRAGMA journal_mode") == "delete"
    db = sqlite3.connect(f"{folder}/by-environment")
    assert one(db, "PRAGMA journal_mode") == "lsmvbt"
    # Read only.
    db = sqlite3.connect(f"file:{folder}/by-environment?mode=ro", uri=True)
    assert rows(db, "SELECT * FROM t") == []
    fails(sqlite3.OperationalError, "readonly", db.execute, "INSERT INTO t VALUES(1)")
    fails(sqlite3.OperationalError, "unable to open", connect, f"{folder}/none?mode=ro", "")
    # By a pragma, before anything is written.
    db = sqlite3.connect(f"{folder}/by-pragma", isolation_level=None)
    assert one(db, "PRAGMA journal_mode=lsmvbt") == "lsmvbt"
    db.execute("CREATE TABLE t(a)")
    db.execute("INSERT INTO t VALUES(1)")
    assert rows(db, "SELECT * FROM t") == [(1,)]
    assert one(db, "PRAGMA journal_mode=lsmvbt") == "lsmvbt"
    db.close()
    assert is_lsmvbt(f"{folder}/by-pragma")
    db = sqlite3.connect(f"{folder}/too-late", isolation_level=None)
    db.execute("CREATE TABLE t(a)")
    assert one(db, "PRAGMA journal_mode=lsmvbt") == "delete"
    # A damaged file.
    path = f"{folder}/by-pragma"
    bytes_there = bytearray(open(path, "rb").read())
    bytes_there[16:] = os.urandom(len(bytes_there) - 16)
    open(f"{folder}/damaged", "wb").write(bytes_there)
    fails(sqlite3.DatabaseError, "", lambda: sqlite3.connect(f"{folder}/damaged").execute("SELECT * FROM t"))
