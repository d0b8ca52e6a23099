"""One process of the load: `process.py MODE DATABASE RECORD WRITER LIFE SECONDS`.

It commits rows, and writes the number of each that was acknowledged into the record, while a thread
of it opens and closes the files of the database. LIFE is how many rows a connection lives for; 0 is
to the end. An error is counted, and the connection is opened anew unless it is SQLITE_BUSY. Prints
the counts as JSON.
"""

import collections
import json
import os
import random
import sys
import time

import belt

mode, file, record = sys.argv[1:4]
writer, life = map(int, sys.argv[4:6])
until = time.monotonic() + float(sys.argv[6])
errors = collections.Counter()
chance = random.Random()


def opened():
    db = belt.connect(mode, file)
    try:
        # Small, so that checkpoints and resets of the WAL happen all the time.
        db.execute("PRAGMA wal_autocheckpoint=50").fetchall()
        db.execute("PRAGMA synchronous=NORMAL")
    except BaseException:
        db.close()
        raise
    return db


def main():
    log = os.open(record, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    belt.Probe(file)
    db, number, left = None, 0, 0
    while time.monotonic() < until:
        number += 1
        try:
            if db is None:
                db, left = opened(), life and chance.randint(1, life)
            belt.insert(db, writer, number)
            os.write(log, f"{number}\n".encode())
            left -= 1
            if left != 0:
                continue
        except belt.Error as error:
            errors[belt.name_of(error)] += 1
            if belt.name_of(error).startswith("BUSY"):
                continue
            if belt.name_of(error).startswith(belt.DAMAGE):
                break
        db = closed(db)
    closed(db)
    print(json.dumps(errors))


def closed(db):
    try:
        if db:
            db.close()
    except belt.Error as error:
        errors[belt.name_of(error)] += 1


main()
