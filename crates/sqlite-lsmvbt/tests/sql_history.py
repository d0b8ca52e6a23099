"""Cases of `sql.py`: what a connection tells about its engine, and what tables held before."""

import datetime
import functools
import json
import os
import sqlite3
import time

from sql_base import connect, fails, is_lsmvbt, one, rows, sound


def stats_and_retain(folder):
    # Behind links, as SQLite names it.
    path = f'{os.path.realpath(folder)}/a "quoted" \\ name'
    db = connect(path.replace(" ", "%20"))
    answer = lambda pragma: json.loads(one(db, f"PRAGMA {pragma}"))
    db.execute("CREATE TABLE t(a INTEGER PRIMARY KEY, b)")
    before = answer("oneflush_stats")
    assert before["database"] == path and before["strategy"] == before["engine"] == "lsmvbt"
    assert one(db, "PRAGMA oneflush_strategy") == "lsmvbt"
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
