"""One process at the live database: `process.py KIND ROLE DATABASE WRITER SECONDS`.

KIND    ours-system, stock-system (Python's own SQLite), ours-apsw, stock-apsw (the newest SQLite)
ROLE    writes, reads, checkpoints

Prints how often it did that (acknowledged commits, consistent snapshots, checkpoints) and how long the longest took, in ms. A row is never there without the
counter that the same transaction moved.
"""

import os
import random
import sys
import time

import compat

kind, role, file, writer, seconds = sys.argv[1:4] + [int(sys.argv[4]), float(sys.argv[5])]


def connect_apsw(ours):
    import apsw

    if ours:
        loader = apsw.Connection(":memory:")
        loader.enable_load_extension(True)
        loader.load_extension(os.environ["ONEFLUSH_EXTENSION_PATH"])
        loader.close()
    vfs = f"oneflush&strategy={compat.STRATEGY}" if ours else "unix"
    flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_URI
    db = apsw.Connection(f"file:{file}?vfs={vfs}", flags=flags)
    db.set_busy_timeout(60_000)
    return db


def connect():
    ours, library = kind.split("-")
    if library == "apsw":
        db = connect_apsw(ours == "ours")
    else:
        db = compat.connect(file) if ours == "ours" else compat.connect_stock(file)
    db.execute("PRAGMA synchronous=FULL")
    db.execute("PRAGMA wal_autocheckpoint=100")
    return db


def write(db, number):
    db.execute("BEGIN IMMEDIATE")
    db.execute("INSERT INTO item VALUES(?, ?, ?)", (writer, number, f"{kind} {number} " + "x" * random.randrange(300)))
    db.execute("UPDATE total SET commits = commits + 1 WHERE writer = ?", (writer,))
    db.execute("COMMIT")
    # SQLite polls for the write lock: a process that writes without a pause keeps the others out for seconds.
    time.sleep(0.002)


def read(db):
    db.execute("BEGIN")
    rows = compat.value(db, "SELECT count(*) FROM item")
    counted = compat.value(db, "SELECT sum(commits) FROM total")
    db.execute("COMMIT")
    if rows != counted:
        sys.exit(f"{kind} sees {rows} rows, but the counters say {counted}")
    time.sleep(0.005)


def checkpoint(db):
    compat.value(db, f"PRAGMA wal_checkpoint({random.choice(['PASSIVE', 'FULL', 'RESTART', 'TRUNCATE'])})")
    time.sleep(0.05)


done, longest = 0, 0.0
db = connect()
until = time.monotonic() + seconds
while (began := time.monotonic()) < until:
    if role == "writes":
        write(db, done + 1)
    elif role == "reads":
        read(db)
    else:
        checkpoint(db)
    done += 1
    longest = max(longest, time.monotonic() - began)
    # A neighbour that comes and goes.
    if random.random() < 0.01:
        db.close()
        db = connect()
db.close()
print(done, round(1000 * longest))
