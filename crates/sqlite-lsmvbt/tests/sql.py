"""SQL on the drop-in library: LD_LIBRARY_PATH=… python3 sql.py FOLDER [CASE…].

Each case gets a folder of its own. One of BOTH runs on each engine, and answers the same."""

import os
import sqlite3
import sys
import time

from sql_base import connect, fails, is_lsmvbt, one, rows, sound
from sql_engines import attached, backups, chosen
from sql_forks import forked_and_replaced, forked_idle, forked_in_transaction, forked_with_a_snapshot
from sql_history import snapshots, stats_and_retain
from sql_users import killed, many_threads, second_process, two_connections, vacuum_beside_writers


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
    # The file gives the room of deleted rows back, also where they lie between others.
    db.execute("CREATE TABLE many(a INTEGER PRIMARY KEY, b)")
    db.execute("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 20000) INSERT INTO many SELECT i, randomblob(300) FROM n")
    db.execute("DELETE FROM many WHERE a % 20")
    kept, full = rows(other, "SELECT * FROM many"), os.path.getsize(path)
    db.execute("VACUUM")
    cut = os.path.getsize(path)
    assert cut < full / 3, (full, cut)
    for reader in other, db:
        assert rows(reader, "SELECT * FROM many") == kept
        sound(reader)
    other.execute("INSERT INTO many SELECT a + 1, b FROM many")
    assert one(db, "SELECT count(*) FROM many") == 2000
    sound(db)
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

# Cases that open their own databases.
TOGETHER = [backups, attached, chosen, two_connections, stats_and_retain, snapshots, many_threads, vacuum_beside_writers, second_process, killed,
            forked_idle, forked_in_transaction, forked_with_a_snapshot, forked_and_replaced]


def main():
    folder, wanted = sys.argv[1], sys.argv[2:]
    os.environ["ONEFLUSH_LOG"] = os.path.join(folder, "log")
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
