"""Two SQLite libraries in one process, on one database: `two.py [STRATEGY]…`.

Python's sqlite3, APSW and pysqlite3 have a SQLite each. POSIX locks do not keep one of a process
from what the other has locked, and an unlock or a close by one takes the other's locks away.
Each pair of them is played in these ways:

- *stock*, the control: both by stock SQLite. It must do harm.
- *both*: both by ours. They exclude each other, or the second is refused. Nothing else may fail.
- *kept*: one by ours, one by stock SQLite. A connection of ours comes first and goes last. In WAL
  mode the same holds, in a rollback mode it is only told.
- *any*: the same, but ours may come later and go earlier. Only told.
- *locks*: stock SQLite opens, reads and closes within a transaction of ours. In WAL mode no other
  process can write then. In a rollback mode the transaction is refused. Both are counted.
"""

import collections
import itertools
import json
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time

import belt

try:
    import pysqlite3
except ImportError:
    pysqlite3 = None

LIBRARIES = {"sqlite3": sqlite3, "apsw": belt.apsw, "pysqlite3": pysqlite3}
LIBRARIES = {name: library for name, library in LIBRARIES.items() if library}
Error = tuple(library.Error for library in LIBRARIES.values())
JOURNALS = {"plain": ["wal", "delete"], "eager": ["wal"], "waldio": ["wal"], "maw": ["delete"]}
# What a refusal says: one by ours, and one of stock SQLite by a strategy that keeps it out.
REFUSED, KEPT_OUT = "CANTOPEN", "NOTADB"
CONTROL_RUNS, SECONDS, PATIENCE_S = 10, 3, 60


def connect(library, mode, file):
    vfs = "unix" if mode == "stock" else f"oneflush&strategy={mode}"
    uri = f"file:{file}?vfs={vfs}"
    if library == "apsw":
        db = belt.apsw.Connection(uri)
        db.set_busy_timeout(2000)
        return db
    return LIBRARIES[library].connect(uri, uri=True, timeout=2, isolation_level=None)


def load(library, mode):
    if mode != "stock":
        loader = connect(library, "stock", ":memory:")
        loader.enable_load_extension(True)
        loader.load_extension(os.environ["ONEFLUSH_EXTENSION_PATH"])
        loader.close()


def name_of(error):
    return getattr(error, "sqlite_errorname", belt.name_of(error)).removeprefix("SQLITE_")


def commit(library, mode, file, folder, writer, errors):
    """Most connections live for one row, so a library is without any again and again."""
    until, number = time.monotonic() + SECONDS, 0
    with open(f"{folder}/{writer}", "a", buffering=1) as record:
        while time.monotonic() < until:
            try:
                db = connect(library, mode, file)
                db.execute("PRAGMA synchronous=NORMAL")
                for _ in range(random.choice((1, 1, 1, 5, 20))):
                    number += 1
                    belt.insert(db, writer, number)
                    print(number, file=record)
                if random.random() < 0.1:
                    kind = random.choice(("PASSIVE", "FULL", "RESTART", "TRUNCATE"))
                    db.execute(f"PRAGMA wal_checkpoint({kind})").fetchall()
                db.close()
            except Error as error:
                errors[name_of(error)] += 1
                time.sleep(0.001)


def process(file, folder, kept, *players):
    """Each player is LIBRARY:MODE:WRITER; two threads, of this writer and the next."""
    players = [player.split(":") for player in players]
    errors = {":".join(player[:2]): collections.Counter() for player in players}
    for library, mode, _ in players:
        load(library, mode)
    if kept == "kept":
        first = connect(*players[0][:2], file)
        first.execute("SELECT count(*) FROM kept").fetchall()
    threads = [threading.Thread(target=commit, args=(library, mode, file, folder, int(writer) + one,
                                                     errors[f"{library}:{mode}"]))
               for library, mode, writer in players for one in (0, 1)]
    random.shuffle(threads)
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(json.dumps(errors))


def start(file, folder, *what):
    command = [sys.executable, __file__, "process", file, folder, *what]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            env={**os.environ, "ONEFLUSH_LOG": f"{folder}/messages"})


def locks(file, folder, journal, ours, theirs, mode, third):
    """Prints what is wrong."""
    load(ours, mode)
    db = connect(ours, mode, file)
    belt.insert(db, 0, 1)
    db.execute("BEGIN IMMEDIATE" if journal == "wal" else "BEGIN")
    db.execute("SELECT count(*) FROM kept").fetchall()
    other = connect(theirs, "stock", file)
    try:
        other.execute("SELECT count(*) FROM kept").fetchall()
    except Error as error:
        print("" if name_of(error) == KEPT_OUT else f"the other one: {name_of(error)}")
    other.close()
    if journal == "wal":
        start(file, folder, "any", f"sqlite3:{third}:1").communicate()
        print("another process writes" if any(belt.acknowledged(f"{folder}/1")) else "")
    try:
        belt.insert(db, 0, 2)
        print("" if journal == "wal" else "it is not refused")
        db.execute("COMMIT")
    except Error as error:
        print("" if journal != "wal" and "IOERR" in name_of(error) else name_of(error))
    db.close()
    ...
