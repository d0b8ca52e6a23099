"""Cases of `sql.py`: several connections, threads and processes on one database."""

import signal
import sqlite3
import subprocess
import sys
import threading
import time

from sql_base import connect, fails, one, rows, sound


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


def vacuum_beside_writers(folder):
    """VACUUM copies twice, and others may commit between both copies. No row of theirs goes."""
    path = f"{folder}/db"
    db = connect(path, timeout=60)
    db.execute("CREATE TABLE t(thread, n, filler)")
    db.execute("CREATE TABLE old(a INTEGER PRIMARY KEY, b)")
    acknowledged, errors, is_over = [0, 0], [], threading.Event()

    def works(thread):
        try:
            mine = connect(path, timeout=60)
            while not is_over.is_set():
                mine.execute("BEGIN IMMEDIATE")
                mine.execute("INSERT INTO t VALUES(?,?,?)", (thread, acknowledged[thread], "x" * 200))
                mine.execute("COMMIT")
                acknowledged[thread] += 1
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=works, args=(thread,)) for thread in range(2)]
    for thread in threads:
        thread.start()
    for _ in range(12):
        db.execute("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 2000) "
                   "INSERT OR REPLACE INTO old SELECT i, randomblob(300) FROM n")
        db.execute("DELETE FROM old WHERE a % 20")
        db.execute("VACUUM")
    is_over.set()
    for thread in threads:
        thread.join()
    assert not errors, errors
    assert min(acknowledged) > 0, acknowledged
    for thread in range(2):
        kept = [n for (n,) in rows(db, "SELECT n FROM t WHERE thread=? ORDER BY n", thread)]
        assert kept == list(range(acknowledged[thread])), (thread, len(kept), acknowledged)
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
