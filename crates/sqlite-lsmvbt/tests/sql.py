"""SQL on the drop-in library: LD_LIBRARY_PATH=… python3 sql.py FOLDER [CASE…].

Each case gets a folder of its own. One of BOTH runs on each engine, and answers the same."""

import datetime
import functools
import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time


def connect(path, engine="lsmvbt", **how):
    how.setdefault("isolation_level", None)
    parameters = f"?engine={engine}" if engine else ""
    db = sqlite3.connect(f"file:{path}{parameters}", uri=True, **how)
    if engine == "sqlite":
        db.execute("PRAGMA synchronous=OFF")
    return db


def rows(db, sql, *values):
    return db.execute(sql, values).fetchall()


def one(db, sql, *values):
    return db.execute(sql, values).fetchone()[0]


def is_lsmvbt(path):
    with open(path, "rb") as file:
        return file.read(16) == b"Oneflush mvbt 1\n"


def sound(db, schema="main"):
    found = rows(db, f"PRAGMA {schema}.integrity_check")
    assert found == [("ok",)], found


def fails(kind, text, call, *arguments):
    try:
        call(*arguments)
    except kind as error:
        assert text in str(error), error
        return error
    raise AssertionError(f"nothing failed with {text}")


# ---- One connection, on both engines: the answers are the same ----


def ddl_and_indexes(path, engine):
    db = connect(path, engine)
    db.execute("CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT, c REAL, d BLOB)")
    db.execute("CREATE INDEX tb ON t(b, c DESC)")
    db.execute("CREATE UNIQUE INDEX td ON t(d) WHERE d IS NOT NULL")
    db.execute("CREATE TABLE w(k TEXT COLLATE NOCASE PRIMARY KEY, v) WITHOUT ROWID")
    db.execute("CREATE VIEW v AS SELECT b, count(*) AS n FROM t GROUP BY b")
    with_rows = [(n, f"name{n % 37}", n / 3, bytes([n % 256]) * (n % 50) + str(n).encode()) for n in range(3000)]
    db.execute("BEGIN")
    db.executemany("INSERT INTO t VALUES(?,?,?,?)", with_rows)
    db.executemany("INSERT INTO w VALUES(?,?)", [(f"Key{n:05}", "v" * (n % 300)) for n in range(2000)])
    db.execute("COMMIT")
    fails(sqlite3.IntegrityError, "UNIQUE", db.execute, "INSERT INTO w VALUES('kEY00007', 1)")
    fails(sqlite3.IntegrityError, "UNIQUE", db.execute, "INSERT INTO t VALUES(5,1,1,1)")
    assert one(db, "SELECT count(*) FROM t WHERE b='name5'") == 81
    assert rows(db, "SELECT a FROM t WHERE b='name5' ORDER BY c LIMIT 2") == [(5,), (42,)]
    assert one(db, "SELECT sum(n) FROM v") == 3000
    db.execute("DELETE FROM t WHERE a % 3 = 0")
    db.execute("UPDATE t SET b='other' WHERE a % 5 = 0")
    db.execute("UPDATE w SET v='short' WHERE k < 'key00100'")
    db.execute("DELETE FROM w WHERE k BETWEEN 'KEY01000' AND 'key01499'")
    assert one(db, "SELECT count(*) FROM t") == 2000
    assert one(db, "SELECT count(*) FROM t WHERE b='other'") == 400
    assert one(db, "SELECT count(*) FROM w") == 1500
    assert one(db, "SELECT count(*) FROM w WHERE v='short'") == 100
    db.execute("ALTER TABLE t ADD COLUMN e DEFAULT 7")
    db.execute("ALTER TABLE t RENAME COLUMN c TO cc")
    assert one(db, "SELECT sum(e) FROM t") == 14000
    db.execute("DROP INDEX tb")
    db.execute("REINDEX")
    db.execute("ANALYZE")
    db.execute("CREATE TABLE gone(x)")
    db.execute("DROP TABLE gone")
    sound(db)
    before = rows(db, "SELECT * FROM t ORDER BY a")
    db.close()
    db = connect(path, None)
    assert rows(db, "SELECT * FROM t ORDER BY a") == before
    assert is_lsmvbt(path) == (engine == "lsmvbt")
    sound(db)


def long_rows(path, engine):
    db = connect(path, engine)
    db.execute("CREATE TABLE t(a INTEGER PRIMARY KEY, b)")
    db.execute("CREATE INDEX tb ON t(b)")
    texts = {n: ("x%d" % n) * (10 ** (n % 5)) for n in range(60)}
    db.executemany("INSERT INTO t VALUES(?,?)", list(texts.items()))
    assert dict(rows(db, "SELECT a, b FROM t")) == texts
    for n, text in texts.items():
        assert rows(db, "SELECT a FROM t WHERE b=?", text) == [(n,)]
    db.execute("UPDATE t SET b = b || '!'")
    db.execute("DELETE FROM t WHERE a % 2")
    assert dict(rows(db, "SELECT a, b FROM t")) == {n: t + "!" for n, t in texts.items() if n % 2 == 0}
    db.execute("INSERT INTO t VALUES(100, zeroblob(1000000))")
    assert one(db, "SELECT length(b) FROM t WHERE a=100") == 1000000
    assert one(db, "SELECT b = zeroblob(1000000) FROM t WHERE a=100") == 1
    sound(db)


def records_that_are_gone(path, engine):
    """Inner pages may have records that are deleted: no search may take them for some that are there."""
    db = connect(path, engine)
    db.execute("CREATE TABLE t(a, b, c)")
    db.execute("CREATE INDEX ta ON t(a, b)")
    db.execute("CREATE TABLE w(k, v, PRIMARY KEY(k, v)) WITHOUT ROWID")
    everything = [(n, n % 3, "x" * 40) for n in range(3000)]
    db.execute("BEGIN")
    db.executemany("INSERT INTO t VALUES(?,?,?)", everything)
    db.executemany("INSERT INTO w VALUES(?,?)", [(n, c) for n, _, c in everything])
    db.execute("DELETE FROM t WHERE a % 10 <> 5")
    db.execute("DELETE FROM w WHERE k % 10 <> 5")
    db.execute("COMMIT")
    for n in range(3000):
        there = [(n,)] if n % 10 == 5 else []
        assert rows(db, "SELECT a FROM t INDEXED BY ta WHERE a=?", n) == there, n
        assert rows(db, "SELECT a FROM t INDEXED BY ta WHERE a=? ORDER BY a DESC, b DESC", n) == there, n
        assert rows(db, "SELECT k FROM w WHERE k=?", n) == there, n
        assert rows(db, "SELECT k FROM w WHERE k=? ORDER BY v DESC", n) == there, n
    sound(db)


def triggers_and_foreign_keys(path, engine):
    db = connect(path, engine)
    db.execute("PRAGMA foreign_keys=ON")
    db.executescript("""
        CREATE TABLE p(id INTEGER PRIMARY KEY, n);
        CREATE TABLE c(id INTEGER PRIMARY KEY AUTOINCREMENT, p REFERENCES p ON DELETE CASCADE);
        CREATE TABLE log(what);
        CREATE TRIGGER ti AFTER INSERT ON c BEGIN
            INSERT INTO log VALUES('c' || new.id); UPDATE p SET n = n + 1 WHERE id = new.p; END;
        CREATE TRIGGER td AFTER DELETE ON c BEGIN DELETE FROM log WHERE what = 'c' || old.id; END;
    """)
    db.executemany("INSERT INTO p VALUES(?,0)", [(n,) for n in range(20)])
    db.executemany("INSERT INTO c(p) VALUES(?)", [(n % 20,) for n in range(200)])
    assert rows(db, "SELECT DISTINCT n FROM p") == [(10,)]
    db.execute("DELETE FROM p WHERE id < 10")
    assert one(db, "SELECT count(*) FROM c") == 100 == one(db, "SELECT count(*) FROM log")
    fails(sqlite3.IntegrityError, "FOREIGN KEY", db.execute, "INSERT INTO c(p) VALUES(1)")
    assert one(db, "SELECT seq FROM sqlite_sequence") == 200
    # An UPDATE that changes what it scans.
    db.execute("UPDATE c SET id = id + 1000 WHERE id > 100")
    assert one(db, "SELECT count(*) FROM c WHERE id > 1000") == one(db, "SELECT count(*) FROM c WHERE id > 100")
    sound(db)


def statement_aborts(path, engine):
    db = connect(path, engine)
    db.execute("CREATE TABLE t(a INTEGER PRIMARY KEY, b UNIQUE)")
    db.executemany("INSERT INTO t VALUES(?,?)", [(n, n) for n in range(100)])
    db.execute("BEGIN")
    db.execute("INSERT INTO t VALUES(1000, 1000)")
    fails(sqlite3.IntegrityError, "UNIQUE", db.execute, "UPDATE t SET b = CASE a WHEN 50 THEN 60 ELSE b + 5000 END")
    fails(sqlite3.IntegrityError, "UNIQUE", db.execute, "INSERT INTO t SELECT a + 2000, b + 99 FROM t")
    assert one(db, "SELECT count(*) FROM t") == 101
    assert one(db, "SELECT sum(b) FROM t") == 99 * 50 + 1000
    db.execute("INSERT OR FAIL INTO t VALUES(2000, 2000)")
    fails(sqlite3.IntegrityError, "UNIQUE", db.execute, "INSERT OR FAIL INTO t VALUES(2001, 2001), (2002, 5), (2003, 2003)")
    assert one(db, "SELECT count(*) FROM t") == 103
    db.execute("INSERT OR IGNORE INTO t SELECT a + 3000, b + 10 FROM t WHERE a < 100")
    db.execute("INSERT OR REPLACE INTO t VALUES(7, 8)")
    assert rows(db, "SELECT a FROM t WHERE b = 8") == [(7,)]
    fails(sqlite3.IntegrityError, "UNIQUE", db.execute, "INSERT OR ROLLBACK INTO t VALUES(5000, 1)")
    assert not db.in_transaction
    assert one(db, "SELECT count(*) FROM t") == 100
    sound(db)


def savepoints(path, engine):
    db = connect(path, engine)
    db.execute("CREATE TABLE t(a INTEGER PRIMARY KEY, b)")

    def state():
        return [a for a, in rows(db, "SELECT a FROM t ORDER BY a")]

    db.execute("SAVEPOINT outermost")
    db.execute("INSERT INTO t VALUES(1,1)")
    db.execute("SAVEPOINT inner1")
    db.execute("INSERT INTO t VALUES(2,2)")
    db.execute("SAVEPOINT inner2")
    db.execute("INSERT INTO t VALUES(3,3)")
    db.execute("CREATE TABLE u(x)")
    db.execute("INSERT INTO u VALUES(1)")
    db.execute("ROLLBACK TO inner2")
    assert state() == [1, 2]
    fails(sqlite3.OperationalError, "no such table", db.execute, "SELECT * FROM u")
    db.execute("INSERT INTO t VALUES(4,4)")
    db.execute("RELEASE inner2")
    db.execute("ROLLBACK TO inner1")
    assert state() == [1]
    db.execute("INSERT INTO t VALUES(5,5)")
    db.execute("RELEASE inner1")
    db.execute("ROLLBACK TO outermost")
    assert state() == []
    db.execute("INSERT INTO t VALUES(6,6)")
    db.execute("RELEASE outermost")
    assert state() == [6] and not db.in_transaction
    # Inside a transaction, many of them.
    db.execute("BEGIN")
    for n in range(100, 130):
        db.execute(f"SAVEPOINT s{n}")
        db.executemany("INSERT INTO t VALUES(?,?)", [(n * 1000 + m, "x" * 100) for m in range(50)])
        if n % 3 == 0:
            db.execute(f"ROLLBACK TO s{n}")
        if n % 2 == 0:
            db.execute(f"RELEASE s{n}")
    db.execute("COMMIT")
    assert one(db, "SELECT count(*) FROM t") == 1 + 20 * 50
    # A reader goes on over what a savepoint takes back.
    db.execute("BEGIN")
    reader = db.execute("SELECT a FROM t ORDER BY a")
    seen = [reader.fetchone()[0] for _ in range(10)]
    db.execute("SAVEPOINT s")
    db.execute("INSERT INTO t VALUES(-5,-5)")
    db.execute("DELETE FROM t WHERE a = ?", (seen[3],))
    db.execute("ROLLBACK TO s")
    assert len(seen) + len(reader.fetchall()) == 1 + 20 * 50
    db.execute("COMMIT")
    sound(db)


def changes_under_a_scan(path, engine):
    db = connect(path, engine)
    db.execute("CREATE TABLE t(a INTEGER PRIMARY KEY, b)")
    db.execute("CREATE INDEX tb ON t(b)")
    db.execute("BEGIN")
    db.executemany("INSERT INTO t VALUES(?,?)", [(n, n * 7 % 1000) for n in range(1000)])
    seen = []
    # Python is a row ahead.
    for a, b in db.execute("SELECT a, b FROM t NOT INDEXED ORDER BY a"):
        seen.append(a)
        if a % 4 == 0:
            db.execute("DELETE FROM t WHERE a IN (?, ?)", (a, a + 2))
    assert seen == [n for n in range(1000) if n % 4 != 2], seen[:10]
    assert one(db, "SELECT count(*) FROM t") == 500
    db.execute("DELETE FROM t")
    db.executemany("INSERT INTO t VALUES(?,?)", [(n, n) for n in range(500)])
    # Rows that an index scan meets are moved before it.
    seen = []
    for a, b in db.execute("SELECT a, b FROM t INDEXED BY tb WHERE b >= 0 ORDER BY b"):
        seen.append(a)
        db.execute("UPDATE t SET b = -1 - b WHERE a = ?", (a,))
    assert seen == list(range(500))
    seen = []
    for a, in db.execute("SELECT a FROM t ORDER BY a DESC"):
        seen.append(a)
        db.execute("DELETE FROM t WHERE a = ?", (a,))
    assert seen == list(range(499, -1, -1))
    # A commit while others read on.
    db.executemany("INSERT INTO t VALUES(?,?)", [(n, n) for n in range(300)])
    db.execute("COMMIT")
    reader = db.execute("SELECT a FROM t ORDER BY a")
    head = [reader.fetchone()[0] for _ in range(5)]
    db.execute("INSERT INTO t VALUES(1000, 1000)")
    db.execute("BEGIN")
    db.execute("DELETE FROM t WHERE a < 10")
    db.execute("COMMIT")
    assert head + [a for a, in reader] == [0, 1, 2, 3, 4, 5] + list(range(10, 300)) + [1000]
    # Each row changes the row that comes behind it, in a transaction of its own.
    seen = []
    for a, in db.execute("SELECT a FROM t WHERE a < 40 ORDER BY a"):
        seen.append(a)
        db.execute("DELETE FROM t WHERE a = ?", (a + 2,))
    reader = db.execute("SELECT a FROM t ORDER BY a")
    left = one(db, "SELECT count(*) FROM t")
    head = [reader.fetchone()[0] for _ in range(5)]
    db.execute("BEGIN")
    db.execute("INSERT INTO t VALUES(2000, 2000)")
    db.execute("ROLLBACK")
    assert len(head + [a for a, in reader]) == left
    sound(db)
    return seen


def functions_that_write(path, engine):
    """A function of the program begins, commits and rolls back transactions between two columns of a row."""
    db = connect(path, engine)
    db.execute("CREATE TABLE t(a INTEGER PRIMARY KEY, b, c, d)")
    db.execute("CREATE TABLE u(x)")
    db.executemany("INSERT INTO t VALUES(?,?,?,?)", [(n, f"b{n}", f"c{n}" * (n % 200), f"d{n}") for n in range(300)])
    calls = []

    def writes(n):
        calls.append(n)
        if n % 3 == 0:
            db.execute("INSERT INTO u VALUES(?)", (str(n) * 300,))
        elif n % 3 == 1:
            db.execute("BEGIN IMMEDIATE")
            db.execute("DELETE FROM u WHERE rowid % 2")
            db.execute("COMMIT")
        else:
            db.execute("SAVEPOINT s")
            db.execute("INSERT INTO u VALUES(1)")
            db.execute("RELEASE s")
        return n

    db.create_function("writes", 1, writes)
    for order in "", "ORDER BY a DESC":
        found = rows(db, f"SELECT a, b, writes(a), c, d FROM t {order}")
        assert sorted(found) == [(n, f"b{n}", n, f"c{n}" * (n % 200), f"d{n}") for n in range(300)]
    assert len(calls) == 600
    sound(db)
    # Nobody is left who reads an older version.
    other = connect(path, engine)
    other.execute("DROP TABLE u")
    other.close()
    db.close()
    return one(connect(path, None), "SELECT count(*) FROM t")


def upsert_and_returning(path, engine):
    db = connect(path, engine)
    db.execute("CREATE TABLE t(k TEXT PRIMARY KEY, n INT DEFAULT 1, UNIQUE(n, k)) WITHOUT ROWID")
    words = "the cat and the dog and the bird".split()
    for word in words:
        db.execute("INSERT INTO t(k) VALUES(?) ON CONFLICT(k) DO UPDATE SET n = n + 1", (word,))
    assert dict(rows(db, "SELECT k, n FROM t")) == {"the": 3, "cat": 1, "and": 2, "dog": 1, "bird": 1}
    assert rows(db, "DELETE FROM t WHERE n = 1 RETURNING k") == [("bird",), ("cat",), ("dog",)]
    assert rows(db, "UPDATE t SET n = n * 10 RETURNING k, n") == [("and", 20), ("the", 30)]
    db.execute("WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM c WHERE x<500) INSERT INTO t SELECT 'k'||x, x FROM c")
    assert one(db, "SELECT sum(n) FROM t") == 50 + 500 * 501 // 2
    sound(db)


def fts_json_rtree(path, engine):
    db = connect(path, engine)
    db.execute("CREATE VIRTUAL TABLE f USING fts5(title, body)")
    db.execute("BEGIN")
    for n in range(400):
        db.execute("INSERT INTO f VALUES(?,?)", (f"title {n}", f"body of number{n % 10} with words " * 5))
    db.execute("COMMIT")
    assert one(db, "SELECT count(*) FROM f WHERE f MATCH 'number3'") == 40
    db.execute("DELETE FROM f WHERE rowid <= 200")
    assert one(db, "SELECT count(*) FROM f WHERE f MATCH 'number3'") == 20
    db.execute("INSERT INTO f(f) VALUES('optimize')")
    db.execute("INSERT INTO f(f) VALUES('integrity-check')")
    db.execute("CREATE VIRTUAL TABLE r USING rtree(id, x0, x1)")
    db.executemany("INSERT INTO r VALUES(?,?,?)", [(n, n, n + 10) for n in range(500)])
    assert one(db, "SELECT count(*) FROM r WHERE x0 <= 100 AND x1 >= 100") == 11
    db.execute("CREATE TABLE j(doc)")
    db.executemany("INSERT INTO j VALUES(json_object('n', ?, 'l', json_array(?, 2)))", [(n, n) for n in range(50)])
    db.execute("CREATE INDEX jn ON j(doc ->> 'n')")
    assert one(db, "SELECT doc ->> '$.l[0]' FROM j WHERE doc ->> 'n' = 17") == 17
    assert one(db, "SELECT sum(value) FROM j, json_each(doc, '$.l')") == 49 * 25 + 100
    sound(db)


def blobs(path, engine):
    db = connect(path, engine)
    db.execute("CREATE TABLE t(a INTEGER PRIMARY KEY, b)")
    db.execute("INSERT INTO t VALUES(1, zeroblob(100000)), (2, zeroblob(10)), (3, zeroblob(5000))")
    if not hasattr(db, "blobopen"):
        return
    with db.blobopen("t", "b", 1) as blob:
        blob.seek(50000)
        blob.write(b"middle")
        blob.seek(49998)
        assert blob.read(10) == b"\0\0middle\0\0"
    with db.blobopen("t", "b", 2) as blob:
        blob.write(b"0123456789")
        fails(ValueError, "", blob.write, b"x")
        db.execute("UPDATE t SET b = 'new' WHERE a = 2")
        blob.seek(0)
        fails(sqlite3.OperationalError, "", blob.read)
    assert one(db, "SELECT substr(b, 50001, 6) FROM t WHERE a = 1") == b"middle"
    sound(db)


def vacuum(path, engine):
    db = connect(path, engine)
    db.execute("PRAGMA user_version=77")
    db.execute("PRAGMA application_id=99")
    db.execute("CREATE TABLE t(a INTEGER PRIMARY KEY, b)")
    db.execute("CREATE TABLE w(k PRIMARY KEY, v) WITHOUT ROWID")
    db.execute("CREATE INDEX tb ON t(b COLLATE NOCASE DESC)")
    db.execute("CREATE VIEW v AS SELECT * FROM t")
    db.execute("CREATE VIRTUAL TABLE f USING fts5(x)")
    db.execute("INSERT INTO f VALUES('some words')")
    db.execute("BEGIN")
    db.executemany("INSERT INTO t VALUES(?,?)", [(n, f"v{n}" * (n % 200)) for n in range(2000)])
    db.execute("INSERT INTO t VALUES(9999, ?)", ("long" * 50000,))
    db.executemany("INSERT INTO w VALUES(?,?)", [(f"k{n}", n) for n in range(500)])
    db.execute("DELETE FROM t WHERE a % 2")
    db.execute("COMMIT")
    before = rows(db, "SELECT * FROM t"), rows(db, "SELECT * FROM w"), rows(db, "SELECT type, name, sql FROM sqlite_schema")
    other = connect(path, engine)
    assert one(other, "SELECT count(*) FROM t") == 1000
    db.execute("VACUUM")
    for reader in db, other:
        assert (rows(reader, "SELECT * FROM t"), rows(reader, "SELECT * FROM w")) == before[:2]
        assert rows(reader, "SELECT type, name, sql FROM sqlite_schema ORDER BY name") == sorted(before[2], key=lambda row: row[1])
        assert rows(reader, "SELECT x FROM f WHERE f MATCH 'words'") == [("some words",)]
        sound(reader)
    assert (one(db, "PRAGMA user_version"), one(db, "PRAGMA application_id")) == (77, 99)
    db.execute("CREATE TABLE later(x)")
    db.execute("INSERT INTO later VALUES(1)")
    copy = path + "-copy"
    db.execute("VACUUM INTO ?", (copy,))
    assert is_lsmvbt(copy) == (engine == "lsmvbt")
    into = connect(copy, None)
    assert rows(into, "SELECT * FROM t") == before[0]
    sound(into)
    fails(sqlite3.OperationalError, "already exists", db.execute, "VACUUM INTO ?", (copy,))
    for other_engine in "lsmvbt", "sqlite":
        copy = f"{path}-{other_engine}"
        db.execute("VACUUM INTO ?", (f"file:{copy}?engine={other_engine}",))
        assert is_lsmvbt(copy) == (other_engine == "lsmvbt")
        into = connect(copy, None)
        assert rows(into, "SELECT * FROM t") == before[0] and rows(into, "SELECT * FROM w") == before[1]
        sound(into)


def pragmas(path, engine):
    db = connect(path, engine)
    other = connect(path, engine)
    db.execute("CREATE TABLE t(a)")
    version = one(other, "PRAGMA data_version")
    mine = one(db, "PRAGMA data_version")
    db.execute("INSERT INTO t VALUES(1)")
    assert one(other, "PRAGMA data_version") != version
    assert one(db, "PRAGMA data_version") == mine
    assert one(db, "PRAGMA page_size") == 4096
    assert one(db, "PRAGMA page_count") > 0
    assert one(db, "PRAGMA encoding") == "UTF-8"
    mode = one(db, "PRAGMA journal_mode")
    assert mode == ("lsmvbt" if engine == "lsmvbt" else "delete"), mode
    if engine == "lsmvbt":
        assert one(db, "PRAGMA journal_mode=wal") == "lsmvbt"
        assert rows(db, "PRAGMA wal_checkpoint") == [(0, -1, -1)]
    assert one(db, "PRAGMA quick_check") == "ok"
    for pragma in ("cache_size=100", "synchronous=off", "mmap_size=1000000", "cache_spill=0", "secure_delete=1",
                   "locking_mode=normal", "incremental_vacuum", "shrink_memory", "optimize", "max_page_count=100000",
                   "auto_vacuum", "freelist_count", "journal_size_limit=5", "wal_autocheckpoint"):
        rows(db, f"PRAGMA {pragma}")
    assert one(db, "PRAGMA schema_version") >= 1
    small = connect(path + "-small", engine)
    small.execute("PRAGMA page_size=1024")
    small.execute("CREATE TABLE t(a)")
    small.close()
    assert one(connect(path + "-small", None), "PRAGMA page_size") == 1024
    db.execute("PRAGMA max_page_count=60")
    if engine == "lsmvbt":
        db.execute("BEGIN")
        error = fails(sqlite3.OperationalError, "full", lambda: [
            db.execute("INSERT INTO t VALUES(randomblob(3000))") for _ in range(1000)])
        if db.in_transaction:
            db.execute("ROLLBACK")
        assert rows(db, "SELECT * FROM t") == [(1,)]
    sound(db)


def text_encodings(path, engine):
    db = connect(path, engine)
    db.execute("PRAGMA encoding='UTF-16le'")
    db.execute("CREATE TABLE t(a PRIMARY KEY)")
    words = ["häuser", "z", "Ω", "日本", "a" * 3000]
    db.executemany("INSERT INTO t VALUES(?)", [(word,) for word in words])
    db.close()
    db = connect(path, None)
    assert one(db, "PRAGMA encoding") == "UTF-16le"
    assert [w for w, in rows(db, "SELECT a FROM t ORDER BY a")] == sorted(words)
    assert rows(db, "SELECT a FROM t WHERE a = 'Ω'") == [("Ω",)]
    sound(db)


def serialized(path, engine):
    db = connect(path, engine)
    db.execute("CREATE TABLE t(a PRIMARY KEY, b)")
    db.executemany("INSERT INTO t VALUES(?,?)", [(n, "x" * n) for n in range(30)])
    image = db.serialize()
    assert image.startswith(b"SQLite format 3\0")
    copy = sqlite3.connect(":memory:")
    copy.deserialize(image)
    assert rows(copy, "SELECT * FROM t") == rows(db, "SELECT * FROM t")
    sound(copy)


BOTH = [ddl_and_indexes, long_rows, records_that_are_gone, triggers_and_foreign_keys, statement_aborts, savepoints,
        changes_under_a_scan, functions_that_write, upsert_and_returning, fts_json_rtree, blobs, vacuum, pragmas, text_encodings,
        serialized]


# ---- Both engines at once ----


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


def two_connections(folder):
    path = f"{folder}/db"
    a, b = connect(path, timeout=0), connect(path, timeout=0)
    a.execute("CREATE TABLE t(a)")
    a.execute("INSERT INTO t VALUES(1)")
    # A reader keeps its snapshot, and nobody waits.
    b.execute("BEGIN")
    assert one(b, "SELECT count(*) FROM t") == 1
    a.execute("INSERT INTO t VALUES(2)")
    assert one(b, "SELECT count(*) FROM t") == 1
    # It may not write on an old snapshot.
    fails(sqlite3.OperationalError, "locked", b.execute, "INSERT INTO t VALUES(3)")
    b.execute("ROLLBACK")
    assert one(b, "SELECT count(*) FROM t") == 2
    # On the newest one it may.
    b.execute("BEGIN")
    assert one(b, "SELECT count(*) FROM t") == 2
    b.execute("INSERT INTO t VALUES(3)")
    fails(sqlite3.OperationalError, "locked", a.execute, "INSERT INTO t VALUES(4)")
    fails(sqlite3.OperationalError, "locked", a.execute, "BEGIN IMMEDIATE")
    assert one(a, "SELECT count(*) FROM t") == 2
    b.execute("COMMIT")
    assert one(a, "SELECT count(*) FROM t") == 3
    # A change of the schema.
    a.execute("ALTER TABLE t ADD COLUMN b")
    assert len(rows(b, "SELECT * FROM t")[0]) == 2
    b.execute("DROP TABLE t")
    fails(sqlite3.OperationalError, "no such table", a.execute, "SELECT * FROM t")
    # The busy handler waits.
    b.execute("CREATE TABLE u(x)")
    b.execute("BEGIN IMMEDIATE")

    def writes_later():
        waits = connect(path, timeout=20)
        waits.execute("INSERT INTO u VALUES(1)")

    thread = threading.Thread(target=writes_later)
    thread.start()
    time.sleep(0.3)
    b.execute("INSERT INTO u VALUES(2)")
    b.execute("COMMIT")
    thread.join()
    assert sorted(rows(b, "SELECT x FROM u")) == [(1,), (2,)]
    sound(a)


def stats_and_retain(folder):
    path = f'{folder}/a "quoted" \\ name'
    db = connect(path.replace(" ", "%20"))
    answer = lambda pragma: json.loads(one(db, f"PRAGMA {pragma}"))
    db.execute("CREATE TABLE t(a INTEGER PRIMARY KEY, b)")
    before = answer("oneflush_stats")
    assert before["database"] == path and before["strategy"] == "lsmvbt"
    for n in range(10):
        db.execute("INSERT INTO t VALUES(?, ?)", (n, "x" * 1500))
    after = answer("oneflush_stats")
    grown = lambda *names: functools.reduce(lambda a, name: a[name], names, after) \
        - functools.reduce(lambda a, name: a[name], names, before)
    assert grown("commits", "count") == 10 and 10 <= grown("commits", "pages", "sum") < 60, (before, after)
    assert 10 <= grown("commits", "syncs", "sum") < 20 and grown("pages", "splits") >= 3
    assert grown("files", "main", "write_bytes") >= 10 * 4096
    assert after["pages"]["bytes"] == 4096 and after["pages"]["count"] >= after["pages"]["free"]
    db.execute("DROP TABLE t")
    assert answer("oneflush_stats")["pages"]["freed"] > after["pages"]["freed"]
    fails(sqlite3.OperationalError, "takes no value", db.execute, "PRAGMA oneflush_stats=1")
    # The cache has as many pages as it is told.
    db.execute("CREATE TABLE t(a INTEGER PRIMARY KEY, b)")
    db.executemany("INSERT INTO t VALUES(?, zeroblob(1500))", [(n,) for n in range(400)])
    read = lambda: (rows(db, "SELECT sum(length(b)) FROM t"), answer("oneflush_stats")["files"]["main"]["reads"])[1]
    for size, is_kept in ("-2000", True), ("64", False), ("-100", False), ("1000", True), ("64", False), ("-4000", True):
        db.execute(f"PRAGMA cache_size={size}")
        read()
        before_scan = read()
        assert (read() == before_scan) == is_kept, size
    db.execute("DROP TABLE t")
    fails(sqlite3.OperationalError, "oneflush_snapshot", db.execute, "PRAGMA oneflush_none")
    # What is kept.
    assert one(db, "PRAGMA oneflush_retain") == "off"
    found = answer("oneflush_history")
    assert found["retain"] is None and found["from"] == found["to"] and found["marks"] == []
    for said, text, kept in ("100 versions", "100 versions", {"versions": 100}), ("7 days", "604800000 ms", {
            "duration_ms": 604800000}), ("5min", "300000 ms", {"duration_ms": 300000}):
        assert one(db, f"PRAGMA oneflush_retain='{said}'") == text == one(db, "PRAGMA oneflush_retain")
        assert answer("oneflush_history")["retain"] == kept
    for nonsense in "0 versions", "12", "3 moons", "-1 days", "99999999999999999999 ms", "999999999999 days", "":
        fails(sqlite3.OperationalError, "oneflush_retain", db.execute, f"PRAGMA oneflush_retain='{nonsense}'")
    fails(sqlite3.OperationalError, "marks", db.execute, "PRAGMA oneflush_history=many")
    mark = answer("oneflush_history=1")["marks"][0]
    assert abs(mark["time_ms"] / 1000 - time.time()) < 100 and len(answer("oneflush_history=0")["marks"]) == 0
    assert mark["time"] == datetime.datetime.fromtimestamp(mark["time_ms"] / 1000, datetime.timezone.utc).strftime(
        "%Y-%m-%dT%H:%M:%S.") + f"{mark['time_ms'] % 1000:03}Z"
    # Beside others, in a transaction, and taken back with it.
    other = connect(path.replace(" ", "%20"), timeout=0)
    other.execute("BEGIN IMMEDIATE")
    db.execute("PRAGMA busy_timeout=0")
    fails(sqlite3.OperationalError, "locked", db.execute, "PRAGMA oneflush_retain=off")
    other.execute("PRAGMA oneflush_retain='9 versions'")
    other.execute("ROLLBACK")
    assert one(other, "PRAGMA oneflush_retain") == "300000 ms"
    other.execute("BEGIN")
    other.execute("CREATE TABLE u(x)")
    other.execute("PRAGMA oneflush_retain='9 versions'")
    other.execute("COMMIT")
    assert one(db, "PRAGMA oneflush_retain") == "9 versions"
    version = one(db, "PRAGMA data_version")
    assert one(db, "PRAGMA oneflush_retain=off") == "off"
    assert one(db, "PRAGMA data_version") == version
    fails(sqlite3.OperationalError, "version", db.execute, "PRAGMA oneflush_snapshot=1")
    read_only = sqlite3.connect(f"file:{path.replace(' ', '%20')}?mode=ro", uri=True)
    assert one(read_only, "PRAGMA oneflush_retain") == "off"
    fails(sqlite3.OperationalError, "readonly", read_only.execute, "PRAGMA oneflush_retain='9 versions'")
    sound(db)
    # A stock database has none of them.
    assert rows(connect(f"{folder}/stock", "sqlite"), "PRAGMA oneflush_stats") == []


def snapshots(folder):
    path = f"{folder}/db"
    db = connect(path)
    newest = lambda: json.loads(one(db, "PRAGMA oneflush_history"))["to"]
    db.execute("PRAGMA oneflush_retain='1000 versions'")
    db.execute("CREATE TABLE t(a INTEGER PRIMARY KEY, b)")
    db.execute("CREATE INDEX tb ON t(b)")
    db.executemany("INSERT INTO t VALUES(?, -1)", [(n,) for n in range(300)])
    versions = []
    for n in range(100):
        db.execute("UPDATE t SET b=? WHERE a % 3 = ?", (n, n % 3))
        versions.append((newest(), rows(db, "SELECT * FROM t")))
    reader = connect(path, timeout=0)
    for at, (version, there) in reversed(list(enumerate(versions))):
        assert one(reader, f"PRAGMA oneflush_snapshot={version}") == str(version) == one(reader, "PRAGMA oneflush_snapshot")
        assert rows(reader, "SELECT * FROM t") == there
        assert one(reader, "SELECT count(*) FROM t INDEXED BY tb WHERE b=?", at) == 100
    # data_version differs, and no row of one version is seen in another.
    seen = one(reader, "PRAGMA data_version")
    assert one(reader, "PRAGMA oneflush_snapshot=''") == "latest"
    assert one(reader, "PRAGMA data_version") != seen
    assert rows(reader, "SELECT * FROM t") == versions[-1][1]
    prepared = "SELECT sum(b) FROM t"
    for version, there in versions[::7]:
        reader.execute(f"PRAGMA oneflush_snapshot={version}")
        assert one(reader, prepared) == sum(b for _, b in there)
    # Nothing may be written, and temporary tables may.
    for sql in "INSERT INTO t VALUES(1000, 1)", "DELETE FROM t", "CREATE TABLE x(a)", "VACUUM", "PRAGMA user_version=1":
        fails(sqlite3.OperationalError, "readonly", reader.execute, sql)
    fails(sqlite3.OperationalError, "readonly", reader.execute, "PRAGMA oneflush_retain=off")
    reader.execute("BEGIN IMMEDIATE")
    fails(sqlite3.OperationalError, "readonly", reader.execute, "DELETE FROM t")
    reader.execute("CREATE TEMP TABLE kept AS SELECT * FROM t")
    reader.execute("COMMIT")
    assert rows(reader, "SELECT * FROM kept") == there
    sound(reader)
    # Copies have what is read.
    reader.execute(f"VACUUM INTO '{folder}/copy'")
    copy = connect(f"{folder}/copy", None)
    assert is_lsmvbt(f"{folder}/copy") and rows(copy, "SELECT * FROM t") == there
    memory = sqlite3.connect(":memory:")
    reader.backup(memory)
    assert rows(memory, "SELECT * FROM t") == there
    # In a transaction, or while a statement runs, it does not change.
    reader.execute("BEGIN")
    fails(sqlite3.OperationalError, "end the transaction", reader.execute, "PRAGMA oneflush_snapshot=latest")
    reader.execute("ROLLBACK")
    running = reader.execute("SELECT * FROM t")
    running.fetchone()
    fails(sqlite3.OperationalError, "end the transaction", reader.execute, "PRAGMA oneflush_snapshot=latest")
    running.close()
    # What is not kept, and what is none.
    fails(sqlite3.OperationalError, "version 1 cannot be read", reader.execute, "PRAGMA oneflush_snapshot=1")
    fails(sqlite3.OperationalError, "cannot be read", reader.execute, f"PRAGMA oneflush_snapshot={newest() + 1}")
    fails(sqlite3.OperationalError, "can be read", reader.execute, "PRAGMA oneflush_snapshot='1999-01-01'")
    for nonsense in "-1", "1.5", "yesterday", "2026-13-01", "1 2", "99999999999999999999":
        fails(sqlite3.OperationalError, "it is latest", reader.execute, f"PRAGMA oneflush_snapshot='{nonsense}'")
    assert one(reader, prepared) == sum(b for _, b in there)
    # The schema is that of the version, also for statements that are prepared.
    before = newest()
    db.execute("ALTER TABLE t ADD COLUMN c DEFAULT 'new'")
    db.execute("DROP INDEX tb")
    added = newest()
    db.execute("CREATE TABLE u(x)")
    db.execute("INSERT INTO u VALUES(5)")
    made = newest()
    db.execute("DROP TABLE t")
    db.execute("CREATE TABLE t(other)")
    names = lambda: [column[0] for column in reader.execute("SELECT * FROM t LIMIT 1").description]
    for _ in range(3):
        for version, columns, more in (before, ["a", "b"], "tb"), (added, ["a", "b", "c"], ""), (made, ["a", "b", "c"], "u"), (
                "latest", ["other"], "u"):
            reader.execute(f"PRAGMA oneflush_snapshot={version}")
            assert names() == columns, (version, names())
            there = [name for name, in rows(reader, "SELECT name FROM main.sqlite_schema WHERE name <> 't'")]
            assert there == [name for name in [more] if name], there
            if more != "u":
                fails(sqlite3.OperationalError, "no such table", reader.execute, "SELECT * FROM u")
            sound(reader)
    # Others write and vacuum meanwhile, and the version stays until it is left.
    reader.execute(f"PRAGMA oneflush_snapshot={before}")
    db.execute("PRAGMA oneflush_retain='1 versions'")
    db.execute("BEGIN")
    db.executemany("INSERT INTO t VALUES(?)", [("x" * 500,) for _ in range(2000)])
    db.execute("COMMIT")
    db.execute("VACUUM")
    for n in range(20):
        db.execute("UPDATE t SET other = other || ?", (n,))
        assert rows(reader, "SELECT * FROM t") == versions[-1][1]
    # What is kept goes back by a second more.
    time.sleep(1.1)
    db.execute("UPDATE t SET other = 'later'")
    fails(sqlite3.OperationalError, "cannot be read", db.execute, f"PRAGMA oneflush_snapshot={before}")
    reader.execute("PRAGMA oneflush_snapshot=latest")
    assert one(reader, "SELECT count(*) FROM t") == 2000
    reader.execute("INSERT INTO t VALUES(1)")
    fails(sqlite3.OperationalError, "cannot be read", reader.execute, f"PRAGMA oneflush_snapshot={before}")
    # By the time; beside another database, and closed while it reads.
    db.execute("PRAGMA oneflush_retain='1 hour'")
    # A time is noted at most once a second.
    time.sleep(1.1)
    db.execute("UPDATE t SET other = 'early'")
    time.sleep(1.5)
    early = datetime.datetime.now(datetime.timezone.utc)
    time.sleep(1.5)
    db.execute("UPDATE t SET other = 'late'")
    main = connect(f"{folder}/main", "sqlite")
    main.execute("ATTACH ? AS aux", (path,))
    offset = early.astimezone(datetime.timezone(datetime.timedelta(hours=2)))
    for text in early.strftime("%Y-%m-%d %H:%M:%S.%f"), early.strftime("%Y-%m-%dT%H:%M:%SZ"), offset.isoformat():
        assert int(one(main, f"PRAGMA aux.oneflush_snapshot='{text}'")) < newest()
        assert rows(main, "SELECT DISTINCT other FROM aux.t") == [("early",)]
        assert one(main, "PRAGMA aux.oneflush_snapshot=latest") == "latest"
        assert rows(main, "SELECT DISTINCT other FROM aux.t") == [("late",)]
    main.execute(f"PRAGMA aux.oneflush_snapshot='{text}'")
    main.execute("CREATE TABLE mine AS SELECT * FROM aux.t")
    main.execute("DETACH aux")
    assert rows(main, "SELECT DISTINCT other FROM mine") == [("early",)]
    sound(db)


def many_threads(folder):
    path = f"{folder}/db"
    db = connect(path)
    db.execute("CREATE TABLE t(a INTEGER PRIMARY KEY, thread, n)")
    db.execute("CREATE INDEX tn ON t(thread, n)")
    errors = []

    def works(thread):
        try:
            mine = connect(path, timeout=60)
            for n in range(40):
                mine.execute("BEGIN IMMEDIATE")
                mine.execute("INSERT INTO t(thread, n) VALUES(?,?)", (thread, n))
                mine.execute("COMMIT")
                assert one(mine, "SELECT count(*) FROM t WHERE thread=?", thread) == n + 1
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=works, args=(thread,)) for thread in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors, errors
    assert one(db, "SELECT count(*) FROM t") == 160
    sound(db)


def second_process(folder):
    path = f"{folder}/db"
    db = connect(path)
    db.execute("CREATE TABLE t(a INTEGER PRIMARY KEY, b)")
    code = f"""
import sqlite3
db = sqlite3.connect({path!r}, isolation_level=None, timeout=60)
assert db.execute("PRAGMA journal_mode").fetchone() == ("lsmvbt",)
for n in range(50):
    db.execute("INSERT INTO t(b) VALUES('child')")
"""
    child = subprocess.Popen([sys.executable, "-c", code])
    db.execute("PRAGMA busy_timeout=60000")
    for n in range(50):
        db.execute("INSERT INTO t(b) VALUES('parent')")
    assert child.wait(60) == 0
    assert rows(db, "SELECT b, count(*) FROM t GROUP BY b") == [("child", 50), ("parent", 50)]
    sound(db)


def killed(folder):
    path = f"{folder}/db"
    db = connect(path)
    db.execute("CREATE TABLE t(a INTEGER PRIMARY KEY, b)")
    db.execute("CREATE INDEX tb ON t(b)")
    db.close()
    code = f"""
import sqlite3, sys
db = sqlite3.connect({path!r}, isolation_level=None)
n = db.execute("SELECT coalesce(max(a), 0) FROM t").fetchone()[0]
while True:
    db.execute("BEGIN")
    for m in range(10):
        db.execute("INSERT INTO t VALUES(?, ?)", (n + 1 + m, str(n) * 50))
    db.execute("COMMIT")
    n += 10
    print(n, flush=True)
"""
    for turn in range(6):
        child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
        durable = 0
        deadline = time.monotonic() + 0.05 + 0.06 * turn
        for line in child.stdout:
            durable = int(line)
            if time.monotonic() > deadline and durable > 20:
                break
        child.send_signal(signal.SIGKILL)
        child.wait()
        for line in child.stdout:
            durable = int(line) if line.endswith("\n") else durable
        child.stdout.close()
        db = connect(path)
        count = one(db, "SELECT count(*) FROM t")
        assert count % 10 == 0 and count >= durable, (count, durable)
        assert one(db, "SELECT max(a) FROM t") == count
        sound(db)
        db.close()


TOGETHER = [backups, attached, chosen, two_connections, stats_and_retain, snapshots, many_threads, second_process, killed]


def main():
    folder, wanted = sys.argv[1], sys.argv[2:]
    answers = {}
    cases = [(f"{case.__name__} {engine}", case, engine) for case in BOTH for engine in ("lsmvbt", "sqlite")]
    cases += [(case.__name__, case, None) for case in TOGETHER]
    for name, case, engine in cases:
        if wanted and not any(name.startswith(one) for one in wanted):
            continue
        place = os.path.join(folder, name.replace(" ", "-"))
        os.mkdir(place)
        began = time.monotonic()
        if engine:
            answer = case(os.path.join(place, "db"), engine)
            assert answers.setdefault(case, answer) == answer, (answers[case], answer)
        else:
            case(place)
        print(f"{name}: {time.monotonic() - began:.1f} s", flush=True)


if __name__ == "__main__":
    main()
