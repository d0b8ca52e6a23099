"""A writer of `written.py`: `writer.py DATABASE RECORD WRITER STRATEGY PAUSE`; goes on until it is
killed, or, at a SIGTERM, until its transaction is done.

With a PAUSE, in seconds, between its commits it is a polite application, which leaves the checkpoints to SQLite; without, it
also runs checkpoints of all kinds itself.

A commit's id is written into the record only when SQLite has acknowledged the commit. The record is opened for appending
and a line of it is one write of a few bytes, so a SIGKILL leaves it whole or without the line.
"""

import os
import random
import signal
import sqlite3
import sys
import time

import compat

file, record, writer, strategy, pause = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4], float(sys.argv[5])
chance = random.Random(os.getpid())


def begin_at(db):
    """Behind whatever this writer has committed, acknowledged or not: an id is never used twice."""
    return compat.value(db, "SELECT coalesce(max(number), 0) FROM kept WHERE writer = ?", writer) + 1


def transaction(db, number):
    """Mostly one row; sometimes many pages, an update of what all write, a large one with a rollback inside."""
    kind = chance.random()
    db.execute("BEGIN IMMEDIATE" if chance.random() < 0.5 else "BEGIN")
    db.execute("INSERT INTO kept VALUES(?, ?, ?)", (writer, number, "x" * chance.randrange(20, 400)))
    db.execute("UPDATE total SET commits = commits + 1 WHERE writer = ?", (writer,))
    if kind < 0.02:
        db.execute("INSERT INTO ballast SELECT randomblob(3000) FROM generate LIMIT 200")
    elif kind < 0.04:
        db.execute("DELETE FROM ballast")
    elif kind < 0.08:
        db.execute("SAVEPOINT inner_one")
        db.execute("INSERT INTO kept VALUES(?, ?, 'never committed')", (writer, -number))
        db.execute("ROLLBACK TO inner_one")
        db.execute("RELEASE inner_one")
    db.execute("COMMIT")


def run():
    log = os.open(record, os.O_WRONLY | os.O_APPEND)
    db = compat.connect(file, strategy)
    db.execute("PRAGMA synchronous=FULL")
    # Small, so that checkpoints and resets of the WAL happen all the time; and sometimes by more than one process.
    db.execute(f"PRAGMA wal_autocheckpoint={chance.choice([20, 100, 1000])}")
    db.execute("PRAGMA cache_size=50")
    number = begin_at(db)
    ending = []
    signal.signal(signal.SIGTERM, lambda *_: ending.append(True))
    while not ending:
        try:
            transaction(db, number)
        except sqlite3.OperationalError as error:
            if db.in_transaction:
                db.execute("ROLLBACK")
            # A transaction that began as a reader is refused when another has written: the application tries again.
            if "locked" not in str(error):
                raise
            continue
        os.write(log, f"{number}\n".encode())
        number += 1
        time.sleep(pause)
        if not pause and chance.random() < 0.002:
            compat.value(db, f"PRAGMA wal_checkpoint({chance.choice(['PASSIVE', 'FULL', 'RESTART', 'TRUNCATE'])})")
        if chance.random() < 0.005:
            db.close()
            db = compat.connect(file, strategy)
            db.execute("PRAGMA synchronous=FULL")
    db.close()


run()
