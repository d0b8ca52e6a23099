"""Programs that end with connections open. Each scene is run in a process of its own, by `exit()` of C, which runs no finalizer of Python's."""

import ctypes
import os
import sqlite3
import subprocess
import sys
import threading
import time

C = ctypes.CDLL(None)
PATH = sys.argv[1]
LOG = {"eager": "-oneflush", "waldio": "-waldio"}[os.environ["ONEFLUSH_STRATEGY"]]


def connect():
    db = sqlite3.connect(PATH, isolation_level=None, timeout=30, check_same_thread=False)
    db.execute("PRAGMA journal_mode=WAL")
    db.execute("CREATE TABLE IF NOT EXISTS t(n)")
    return db


def insert(db, count=50):
    for n in range(count):
        db.execute("INSERT INTO t VALUES(?)", (n,))


def idle():
    one, other = connect(), connect()
    insert(one)
    other.execute("SELECT count(*) FROM t").fetchall()
    C.exit(0)


def system_exit():
    keep = connect()
    insert(keep)
    # A cycle that nobody collects, and a frame that stays.
    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
    sys.keep = [keep]
    sys.keep.append(sys.keep)
    sys.exit(0)


def reading():
    db = connect()
    insert(db)
    rows = db.execute("SELECT n FROM t")
    rows.fetchone()
    C.exit(0)


def writing():
    db, other = connect(), connect()
    insert(db)
    other.execute("BEGIN IMMEDIATE")
    insert(other, 20)
    C.exit(0)


def in_child():
    """The child leaves its own open, and its parent's alone."""
    db = connect()
    insert(db, 25)
    child = os.fork()
    if child == 0:
        insert(db, 25)
        C.exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert os.path.exists(PATH + LOG), "the parent has it open"
    db.execute("UPDATE t SET n = n")
    C.exit(0)


def beside_another_process():
    """Who has the database open goes on, and closes it."""
    db = connect()
    child = subprocess.run([sys.executable, __file__, PATH, "idle"])
    assert child.returncode == 0
    assert os.path.exists(PATH + LOG), "another has it open"
    insert(db, 1)
    db.execute("DELETE FROM t WHERE rowid = 51")
    C.exit(0)


def threads_at_work():
    """Threads commit until the very end. What they were told is there afterwards, whether the database was closed or not."""
    told = [0] * 4

    def work(me):
        db = connect()
        while True:
            db.execute("INSERT INTO t VALUES(?)", (me,))
            told[me] += 1

    first = connect()
    for me in range(4):
        threading.Thread(target=work, args=(me,), daemon=True).start()
    time.sleep(1.5)
    print(*told, flush=True)
    C.exit(0)


def used_afterwards():
    """A handler that was registered before ours runs after it: its use is an error, and does no harm."""
    db = None
    handler = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: late())

    def late():
        try:
            insert(db, 1)
            os.write(1, b"committed\n")
        except sqlite3.OperationalError as error:
            os.write(1, str(error).encode() + b"\n")
        db.close()

    C.__cxa_atexit(handler, None, None)
    db = connect()
    insert(db)
    C.exit(0)


globals()[sys.argv[2]]()
