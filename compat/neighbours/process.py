"""One process at the live database: `process.py KIND ROLE DATABASE WRITER SECONDS`.

KIND    ours-system, stock-system (Python's own SQLite), ours-apsw, stock-apsw (the newest SQLite)
ROLE    writes, reads, checkpoints, is-refused

Prints how often it did that (acknowledged commits, consistent snapshots, checkpoints, refusals) and how long the longest took, in ms. A
row is never there without the counter that the same transaction moved. Who is refused (a strategy may keep SQLite alone out of a live
database) sees nothing at all, by a read, a write or a change of the journal mode.
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


def connect_once():
    ours, library = kind.split("-")
    if library == "apsw":
        return connect_apsw(ours == "ours")
    return compat.connect(file) if ours == "ours" else compat.connect_stock(file)


def connect():
    db = connect_once()
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


def is_refused():
    db = connect_once()
    sql = random.choice(["SELECT count(*) FROM item", "INSERT INTO item VALUES(1000, 1, 'never')", "PRAGMA journal_mode=DELETE"])
    try:
        found = db.execute(sql).fetchall()
    except Exception as error:
        if "not a database" not in str(error):
            raise
    else:
        sys.exit(f"{kind} was not refused: {sql} says {found}")
    finally:
        db.close()
    time.sleep(0.01)


done, longest = 0, 0.0
db = None if role == "is-refused" else connect()
until = time.monotonic() + seconds
while (began := time.monotonic()) < until:
    if role == "writes":
        write(db, done + 1)
    elif role == "reads":
        read(db)
    elif role == "checkpoints":
        checkpoint(db)
    else:
        is_refused()
    done += 1
    longest = max(longest, time.monotonic() - began)
    # A neighbour that comes and goes.
    if db and random.random() < 0.01:
        db.close()
        db = connect()
if db:
    db.close()
print(done, round(1000 * longest))
