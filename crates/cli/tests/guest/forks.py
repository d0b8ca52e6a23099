"""Children of a fork that use the connections of their parent, which were idle, as a pool does that was filled before the fork."""

import multiprocessing
import os
import signal
import sqlite3
import sys
import time
import traceback

CHILDREN = 6
EACH = 40


def connect():
    db = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=30)
    db.execute("PRAGMA journal_mode=WAL")
    return db


def insert(db, who, count=EACH):
    for n in range(count):
        db.execute("INSERT INTO t(who, v) VALUES(?, ?)", (who, "x" * (n % 300)))


def fork(action):
    """Its process id. A child's status is 0 if the action succeeded."""
    child = os.fork()
    if child:
        return child
    try:
        action()
        code = 0
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stderr.flush()
    os._exit(code)


def ended(*children):
    return [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]


def check(db, rows):
    found = db.execute("SELECT count(*) FROM t").fetchone()[0]
    assert found == rows, (found, rows)
    assert db.execute("PRAGMA integrity_check").fetchone()[0] == "ok"


def by_inherited_connections():
    """Each child has a pool of two, the parent goes on, a child closes its copies and another does not."""
    pool = [connect(), connect()]
    pool[0].execute("CREATE TABLE t(n INTEGER PRIMARY KEY, who, v)")
    insert(pool[1], -1)
    pool[0].execute("SELECT count(*) FROM t").fetchall()

    def work(who):
        for n in range(EACH):
            insert(pool[n % 2], who, 1)
            pool[(n + 1) % 2].execute("SELECT max(n) FROM t").fetchall()
        if who % 2:
            for db in pool:
                db.close()

    children = [fork(lambda who=who: work(who)) for who in range(CHILDREN)]
    insert(pool[0], -2)
    assert ended(*children) == [0] * CHILDREN
    insert(pool[1], -3)
    check(pool[0], (CHILDREN + 3) * EACH)
    for db in pool:
        db.close()


def started_again():
    """Runs of a program that opens what the run before has closed, reads, and forks: the WAL was kept, also where it is long."""
    for run, count in enumerate([20, 20, 60, 3, 40]):
        db = connect()
        db.execute("CREATE TABLE IF NOT EXISTS t(n INTEGER PRIMARY KEY, who, v)")
        db.execute("SELECT count(*) FROM t").fetchall()
        assert ended(fork(lambda: insert(db, run, count)), fork(lambda: insert(db, run, count))) == [0, 0]
        db.close()
    db = connect()
    check(db, 2 * (20 + 20 + 60 + 3 + 40))
    db.close()


def of_children():
    """A child's child, and one that has used the connection before it forks."""
    db = connect()
    db.execute("CREATE TABLE t(n INTEGER PRIMARY KEY, who, v)")

    def child():
        assert ended(fork(lambda: insert(db, 1))) == [0]
        insert(db, 2)
        assert ended(fork(lambda: insert(db, 3))) == [0]
        insert(db, 4)

    assert ended(fork(child)) == [0]
    insert(db, 5)
    check(db, 5 * EACH)
    db.close()


def opened_again():
    """A child opens the database itself, and leaves what it has inherited alone, or closes it."""
    db = connect()
    db.execute("CREATE TABLE t(n INTEGER PRIMARY KEY, who, v)")

    def child(closes):
        if closes:
            db.close()
        own = connect()
        insert(own, 1)
        assert own.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
        own.close()

    assert ended(fork(lambda: child(True)), fork(lambda: child(False))) == [0, 0]
    insert(db, 2)
    check(db, 3 * EACH)
    db.close()


def parent_ends():
    """A daemon: the parent is gone before the child uses what it has inherited."""
    ready, done = os.pipe(), os.pipe()
    db = None

    def parent():
        nonlocal db
        db = connect()
        db.execute("CREATE TABLE t(n INTEGER PRIMARY KEY, who, v)")
        insert(db, 1)

        def daemon():
            os.read(ready[0], 1)
            insert(db, 2)
            db.close()
            os.write(done[1], b"x")

        fork(daemon)

    assert ended(fork(parent)) == [0]
    os.close(done[1])
    os.write(ready[1], b"x")
    assert os.read(done[0], 1) == b"x", "the daemon failed"
    db = connect()
    check(db, 2 * EACH)
    db.close()


def pool_worker(who):
    insert(POOLED, who)
    return POOLED.execute("SELECT count(*) FROM t WHERE who = ?", (who,)).fetchone()[0]


def with_multiprocessing():
    global POOLED
    POOLED = connect()
    POOLED.execute("CREATE TABLE t(n INTEGER PRIMARY KEY, who, v)")
    with multiprocessing.get_context("fork").Pool(4) as pool:
        assert pool.map(pool_worker, range(16)) == [EACH] * 16
    insert(POOLED, 99)
    check(POOLED, 17 * EACH)
    POOLED.close()


def in_transaction():
    """A connection that was in a transaction is refused in the child, with the reason; the others are not, and the parent does not notice."""
    writer, idle = connect(), connect()
    writer.execute("CREATE TABLE t(n INTEGER PRIMARY KEY, who, v)")
    insert(idle, 0)
    writer.execute("BEGIN IMMEDIATE")
    insert(writer, 1)

    def child():
        try:
            insert(writer, 2, 1)
            writer.execute("COMMIT")
            raise AssertionError("a transaction in two processes")
        except sqlite3.OperationalError as error:
            assert "unable to open" in str(error), error
        assert idle.execute("SELECT count(*) FROM t").fetchone()[0] == EACH
        # The parent has the write lock, and the child must see that.
        idle.execute("PRAGMA busy_timeout=50")
        try:
            insert(idle, 3)
            raise AssertionError("two writers")
        except sqlite3.OperationalError as error:
            assert "locked" in str(error), error

    assert ended(fork(child)) == [0]
    writer.execute("COMMIT")
    assert ended(fork(lambda: insert(idle, 4))) == [0]
    check(idle, 3 * EACH)
    writer.close()
    idle.close()


def closed_meanwhile():
    """The parent closes the database before the child uses its copy: the WAL that the copy would write to is gone."""
    db = connect()
    db.execute("CREATE TABLE t(n INTEGER PRIMARY KEY, who, v)")
    insert(db, 1)
    closed, told = os.pipe()

    def child():
        os.read(closed, 1)
        for _ in range(2):
            try:
                insert(db, 2)
                raise AssertionError("into a WAL that is gone")
            except sqlite3.OperationalError as error:
                assert "unable to open" in str(error), error
        db.close()
        own = connect()
        insert(own, 3)
        own.close()

    children = fork(child)
    db.close()
    os.write(told, b"x")
    assert ended(children) == [0]
    db = connect()
    check(db, 2 * EACH)
    db.close()


def while_checkpoints_run():
    """Several hundred forks of a program that checkpoints all the time: no child hangs, by its own database or the parent's."""
    db = connect()
    db.execute("CREATE TABLE t(n INTEGER PRIMARY KEY, who, v)")
    db.execute("PRAGMA wal_autocheckpoint=5")
    db.execute("PRAGMA synchronous=OFF")
    rows = 0

    def child(n):
        if n % 2:
            insert(db, n, 3)
        else:
            own = sqlite3.connect(f"{sys.argv[1]}-{n}")
            own.execute("PRAGMA journal_mode=WAL")
            own.execute("CREATE TABLE t(v)")
            own.close()
            for suffix in ["", "-wal", "-shm"]:
                if os.path.exists(f"{sys.argv[1]}-{n}{suffix}"):
                    os.unlink(f"{sys.argv[1]}-{n}{suffix}")

    for n in range(int(sys.argv[3])):
        insert(db, -1, 20)
        if n % 7 == 0:
            # `eager` has a reason of its own late.
            db.execute("PRAGMA oneflush_checkpoint").fetchall()
        rows += 20 + 3 * (n % 2)
        pid = fork(lambda: child(n))
        until = time.monotonic() + 60
        while True:
            found, status = os.waitpid(pid, os.WNOHANG)
            if found:
                break
            if time.monotonic() > until:
                os.kill(pid, signal.SIGKILL)
                raise AssertionError(f"child {n} hangs")
            time.sleep(0.0005)
        assert status == 0, status
    check(db, rows)
    db.close()


globals()[sys.argv[2]]()
for name in ["-oneflush", "-oneflush-wal", "-oneflush-shm"]:
    assert not os.path.exists(sys.argv[1] + name), name
assert sqlite3.connect(f"file:{sys.argv[1]}?vfs=unix", uri=True).execute("PRAGMA integrity_check").fetchone()[0] == "ok"
print("ok")
