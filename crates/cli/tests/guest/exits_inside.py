"""A program that calls `exit()` from inside SQLite: out of a callback that SQLite calls while it holds the connection's mutex.

Each scene commits 50 rows, begins a transaction of 20 more, and ends in the middle of what its name says."""

import ctypes
import os
import shutil
import sys
import threading
import time

C = ctypes.CDLL(None)
SQLITE = ctypes.CDLL("libsqlite3.so.0")
CONFIG_LOG = 16
MUTEX_STATIC_VFS1 = 11
PATH, STRATEGY = sys.argv[1].encode(), sys.argv[3]
OK, TRACE_STMT, UTF8 = 0, 1, 1
KEEP = []
LEAVES_AT_A_MESSAGE = False


@ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p)
def log(_, code, message):
    if LEAVES_AT_A_MESSAGE:
        C.exit(0)


# Before SQLite is in use: then the preload library finds the SQLite of a module.
SQLITE.sqlite3_config(CONFIG_LOG, log, None)
import sqlite3  # noqa: E402


def callback(result, *arguments):
    """A C function that ends the process."""
    leave = ctypes.CFUNCTYPE(result, *arguments)(lambda *_: C.exit(0))
    KEEP.append(leave)
    return leave


def connect():
    db = ctypes.c_void_p()
    assert C.sqlite3_open(PATH, ctypes.byref(db)) == OK
    run(db, "PRAGMA journal_mode=WAL; CREATE TABLE IF NOT EXISTS t(n)")
    assert strategy_of(db) == STRATEGY
    return db


def run(db, sql):
    code = SQLITE.sqlite3_exec(db, sql.encode(), None, None, None)
    assert code == OK, (sql, code)


def strategy_of(db):
    said = []
    row = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.POINTER(ctypes.c_char_p), ctypes.c_void_p)
    collect = row(lambda _, count, values, names: said.append(values[0].decode()) or 0)
    SQLITE.sqlite3_exec(db, b"PRAGMA oneflush_strategy", collect, None, None)
    return said[0]


def insert(db, count):
    for n in range(count):
        run(db, f"INSERT INTO t VALUES({n})")


def begun():
    """A connection with 50 rows, in a transaction that is to be nowhere."""
    db = connect()
    insert(db, 50)
    run(db, "BEGIN IMMEDIATE")
    insert(db, 20)
    return db


def busy_handler():
    begun()
    other = connect()
    SQLITE.sqlite3_busy_handler(other, callback(ctypes.c_int, ctypes.c_void_p, ctypes.c_int), None)
    run(other, "BEGIN IMMEDIATE")


def busy_handler_of_a_checkpoint():
    db, other = connect(), connect()
    insert(db, 50)
    run(other, "BEGIN; SELECT count(*) FROM t")
    insert(db, 1)
    run(db, "DELETE FROM t WHERE rowid = 51")
    SQLITE.sqlite3_busy_handler(db, callback(ctypes.c_int, ctypes.c_void_p, ctypes.c_int), None)
    run(db, "PRAGMA wal_checkpoint(TRUNCATE)")


def trace():
    db = begun()
    traced = callback(ctypes.c_int, ctypes.c_uint, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
    SQLITE.sqlite3_trace_v2(db, TRACE_STMT, traced, None)
    insert(db, 1)


def function(db=None):
    db = db or begun()
    called = callback(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)
    SQLITE.sqlite3_create_function_v2(db, b"leave", 0, UTF8, None, called, None, None, None)
    run(db, "INSERT INTO t VALUES(leave())")


def function_in_a_statement_that_spills():
    """Its pages are in the WAL already, more than the cache holds."""
    db = begun()
    run(db, "PRAGMA cache_size=5; CREATE TABLE large AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 500) "
            "SELECT randomblob(3000) FROM n")
    called = callback(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)
    SQLITE.sqlite3_create_function_v2(db, b"leave", 0, UTF8, None, called, None, None, None)
    run(db, "UPDATE large SET rowid = rowid + 1000 WHERE rowid < 500 OR leave()")


def function_with_a_mutex_of_the_vfs():
    """As out of a call of the system's that the VFS makes: whoever opens a file in this process waits for ever."""
    SQLITE.sqlite3_mutex_alloc.restype = ctypes.c_void_p
    db = begun()

    def leave(*_):
        SQLITE.sqlite3_mutex_enter(SQLITE.sqlite3_mutex_alloc(MUTEX_STATIC_VFS1))
        C.exit(0)

    called = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)(leave)
    KEEP.append(called)
    SQLITE.sqlite3_create_function_v2(db, b"leave", 0, UTF8, None, called, None, None, None)
    run(db, "INSERT INTO t VALUES(leave())")


def function_beside_an_idle_thread():
    """Another thread might be inside SQLite, for all that anybody can tell."""
    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
    function()


def function_beside_a_thread_that_commits():
    """Its rows are another table's."""
    db = begun()
    run(db, "ROLLBACK; CREATE TABLE told(n)")

    def work():
        mine = connect()
        SQLITE.sqlite3_busy_timeout(mine, 30_000)
        while True:
            run(mine, "INSERT INTO told VALUES(1)")

    threading.Thread(target=work, daemon=True).start()
    time.sleep(0.5)
    SQLITE.sqlite3_busy_timeout(db, 30_000)
    run(db, "BEGIN IMMEDIATE")
    insert(db, 20)
    function(db)


def log_callback():
    """A log that is another database's is set aside, with the board's lock in hand, and SQLite's error log is told."""
    global LEAVES_AT_A_MESSAGE, PATH
    db = connect()
    insert(db, 50)
    assert SQLITE.sqlite3_close(db) == OK
    mine, PATH = PATH, b"other.db"
    insert(connect(), 1)
    shutil.copy("other.db-oneflush", os.fsdecode(mine) + "-oneflush")
    PATH, LEAVES_AT_A_MESSAGE = mine, True
    connect()


def commit_hook():
    db = begun()
    SQLITE.sqlite3_commit_hook(db, callback(ctypes.c_int, ctypes.c_void_p), None)
    run(db, "COMMIT")


def progress_handler():
    db = begun()
    SQLITE.sqlite3_progress_handler(db, 1, callback(ctypes.c_int, ctypes.c_void_p), None)
    run(db, "UPDATE t SET n = n + 1")


for function_of_c, arguments in [
    ("sqlite3_exec", [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]),
    ("sqlite3_close", [ctypes.c_void_p]),
    ("sqlite3_mutex_enter", [ctypes.c_void_p]),
    ("sqlite3_busy_timeout", [ctypes.c_void_p, ctypes.c_int]),
    ("sqlite3_busy_handler", [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]),
    ("sqlite3_trace_v2", [ctypes.c_void_p, ctypes.c_uint, ctypes.c_void_p, ctypes.c_void_p]),
    ("sqlite3_create_function_v2", [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_int] + [ctypes.c_void_p] * 5),
    ("sqlite3_commit_hook", [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]),
    ("sqlite3_progress_handler", [ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]),
]:
    getattr(SQLITE, function_of_c).argtypes = arguments

globals()[sys.argv[2]]()
sys.exit("it went on")
