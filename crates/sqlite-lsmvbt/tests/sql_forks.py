"""Cases of `sql.py`: a child of a fork with the connections of its parent."""

import os
import sqlite3
import subprocess
import sys

from sql_base import connect, fails, one, rows, sound


def said():
    """What this process and its children have told people."""
    with open(os.environ["ONEFLUSH_LOG"]) as log:
        return log.read()


def in_child(work):
    """Runs it in a child of a fork. It has to succeed."""
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException as error:
            print(f"in the child: {error!r}", file=sys.stderr, flush=True)
            os._exit(1)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def another_process(path, sql):
    """What one that knows nothing of all this is answered."""
    code = "import sqlite3, sys\n" \
        "try: print(sqlite3.connect(sys.argv[1], isolation_level=None, timeout=0).execute(sys.argv[2]).fetchall())\n" \
        "except sqlite3.Error as error: print(error)"
    return subprocess.run([sys.executable, "-c", code, path, sql], capture_output=True, text=True, check=True).stdout.strip()


def forked_idle(folder):
    """A pool makes its connections, and its processes are forked then. Each use in a child was
    "bad parameter or other API misuse"."""
    path = f"{folder}/db"
    db, second = connect(path), connect(path)
    db.execute("PRAGMA max_page_count=5000")
    db.execute("CREATE TABLE t(a)")
    db.execute("INSERT INTO t VALUES(1)")
    assert one(second, "SELECT count(*) FROM t") == 1

    def goes_on():
        db.execute("INSERT INTO t VALUES(2)")
        assert one(db, "PRAGMA max_page_count") == 5000
        assert one(second, "SELECT count(*) FROM t") == 2
        second.execute("INSERT INTO t VALUES(3)")

        def and_its_child():
            db.execute("INSERT INTO t VALUES(4)")
            db.close()
        in_child(and_its_child)
        db.close()
        second.execute("INSERT INTO t VALUES(5)")
        second.close()

    in_child(goes_on)
    db.execute("INSERT INTO t VALUES(6)")
    assert rows(second, "SELECT a FROM t ORDER BY a") == [(n,) for n in range(1, 7)]
    # One that only closes does nothing to the others.
    in_child(lambda: (db.close(), second.close()))
    in_child(lambda: None)
    db.execute("INSERT INTO t VALUES(7)")
    sound(db)
    db.close()
    second.close()
    assert os.listdir(folder) == ["db"]


def forked_in_transaction(folder):
    """The child of a process that writes had the writer's lock of its parent in its hands: a rollback
    there let others write beside the parent."""
    path = f"{folder}/db"
    db, reader = connect(path), connect(path)
    db.execute("CREATE TABLE t(a INTEGER PRIMARY KEY, b)")
    db.executemany("INSERT INTO t VALUES(?, zeroblob(3000))", [(n,) for n in range(100)])
    reader.execute("PRAGMA cache_size=-1")
    reader.execute("BEGIN")
    assert one(reader, "SELECT a FROM t") == 0
    db.execute("BEGIN")
    db.execute("INSERT INTO t VALUES(1000, 'of the parent')")

    def refused():
        db.execute("INSERT INTO t VALUES(1001, 'of the child')")
        fails(sqlite3.Error, "", db.execute, "COMMIT")
        assert not db.in_transaction
        assert one(db, "SELECT count(*) FROM t") == 100
        fails(sqlite3.OperationalError, "locked", db.execute, "INSERT INTO t VALUES(1002, '')")
        # Pages that it has not in memory may belong to others by now.
        fails(sqlite3.Error, "", rows, reader, "SELECT b FROM t")
        reader.execute("ROLLBACK")
        assert len(rows(reader, "SELECT b FROM t")) == 100

    db.execute("PRAGMA busy_timeout=0")
    in_child(refused)
    assert "it was opened before a fork" in said() and "[OF-821]" in said(), said()
    in_child(db.close)
    assert another_process(path, "INSERT INTO t VALUES(1003, '')") == "database is locked"
    db.execute("COMMIT")
    assert rows(db, "SELECT * FROM t WHERE a>99") == [(1000, "of the parent")]
    # The parent's reader has kept its version from those who write.
    for n in range(20):
        db.execute("UPDATE t SET b = zeroblob(3000 + ?)", (n,))
    assert rows(reader, "SELECT b FROM t") == [(bytes(3000),)] * 100
    sound(db)


def forked_with_a_snapshot(folder):
    path = f"{folder}/db"
    db, other = connect(path), connect(path)
    db.execute("PRAGMA oneflush_retain='100 versions'")
    db.execute("CREATE TABLE t(a)")
    db.execute("INSERT INTO t VALUES(1)")
    version = other.execute("PRAGMA oneflush_history").fetchone()[0].split('"to":')[1].split(",")[0]
    other.execute(f"PRAGMA oneflush_snapshot={version}")
    db.execute("INSERT INTO t VALUES(2)")

    def reads_on():
        assert one(other, "SELECT count(*) FROM t") == 1
        assert one(other, "PRAGMA oneflush_snapshot") == version
        fails(sqlite3.OperationalError, "readonly", other.execute, "INSERT INTO t VALUES(3)")
        other.execute("PRAGMA oneflush_snapshot=latest")
        assert one(other, "SELECT count(*) FROM t") == 2

    in_child(reads_on)
    db.execute("PRAGMA oneflush_retain=off")
    db.execute("INSERT INTO t VALUES(3)")
    db.execute("INSERT INTO t VALUES(4)")
    in_child(lambda: fails(sqlite3.Error, "", one, other, "SELECT count(*) FROM t"))
    assert f"version {version} cannot be read" in said(), said()
    assert one(other, "SELECT count(*) FROM t") == 1


def forked_and_replaced(folder):
    """The name leads to another file than the connection of the parent has."""
    path = f"{folder}/db"
    db, copy = connect(path), connect(f"{folder}/other")
    for one_db in db, copy:
        one_db.execute("CREATE TABLE t(a)")
    copy.close()
    os.rename(path, f"{folder}/aside")
    os.rename(f"{path}-shm", f"{folder}/aside-shm")
    os.rename(f"{folder}/other", path)
    in_child(lambda: fails(sqlite3.Error, "", db.execute, "INSERT INTO t VALUES(1)"))
    assert "another file is there since the fork" in said(), said()
