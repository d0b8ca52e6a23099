"""Writers that keep a record outside of the database, and what a database must hold by those records.

A writer (writer.py) writes an id into its record only after SQLite has acknowledged the commit. So every id of a record must
be in the database, and of those that are not in the record at most one for each time the writer was killed.
"""

import os
import signal
import subprocess
import sys
import time

import compat

# No machine is so busy that a writer does not commit by then.
PATIENCE_S = 120
LIBRARY = os.path.dirname(os.path.abspath(__file__))


def create(database, writers):
    """Made by stock SQLite, in WAL mode."""
    db = compat.connect_stock(database)
    db.executescript("""
        PRAGMA journal_mode=WAL;
        CREATE TABLE kept(writer INTEGER, number INTEGER, word TEXT, PRIMARY KEY(writer, number));
        CREATE INDEX words ON kept(word);
        CREATE TABLE total(writer INTEGER PRIMARY KEY, commits INTEGER);
        CREATE TABLE ballast(blob);
        CREATE VIEW generate AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n;
    """)
    db.executemany("INSERT INTO total VALUES(?, 0)", [(number,) for number in range(writers)])
    db.close()


class Writer:
    def __init__(self, number, strategy, folder, database, pause=0.0, python=sys.executable):
        self.number = number
        self.record = os.path.join(folder, f"acknowledged-{number}")
        self.errors = os.path.join(folder, f"errors-{number}")
        program = os.path.join(LIBRARY, "writer.py")
        self.command = [python, program, database, self.record, str(number), strategy, str(pause)]
        self.kills = 0
        open(self.record, "x").close()
        self.start()

    def start(self):
        with open(self.errors, "a") as errors:
            self.process = subprocess.Popen(self.command, stderr=errors, env={**os.environ, "PYTHONPATH": LIBRARY})

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        code = self.process.wait()
        self.kills += 1
        if code != -signal.SIGKILL:
            with open(self.errors) as errors:
                compat.fail(f"writer {self.number} ended by itself with {code}: {errors.read().strip()[-2000:]}")

    def end(self):
        self.process.terminate()
        compat.check(f"exit code of writer {self.number}", self.process.wait(), 0)

    def acknowledged(self):
        with open(self.record, "rb") as record:
            lines = record.read().split(b"\n")
        if lines.pop():
            compat.fail(f"{self.record} ends in the middle of a line")
        return [int(line) for line in lines]


def records(writers):
    return {writer.number: writer.acknowledged() for writer in writers}


def wait_for_all(writers):
    """Until each has committed: to start a process takes seconds where the machine is busy."""
    until = time.monotonic() + PATIENCE_S
    while not all(records(writers).values()):
        if time.monotonic() > until:
            compat.fail(f"not every writer has committed in {PATIENCE_S} s")
        time.sleep(0.05)


def check_holds(database, wanted, unrecorded=None, strategy=None):
    """That the database is sound and holds all that `wanted` (writer: ids) lists; returns the number of its rows.

    `unrecorded` (writer: number) limits how many rows may be there beyond that. Stock SQLite looks, or a strategy that is named."""
    db = compat.connect(database, strategy) if strategy else compat.connect_stock(database)
    db.execute("BEGIN")
    totals = dict(db.execute("SELECT writer, commits FROM total"))
    rows_by = {writer: [] for writer in wanted}
    for writer, number in db.execute("SELECT writer, number FROM kept ORDER BY writer, number"):
        rows_by[writer].append(number)
    compat.check(f"integrity_check of {database}", compat.value(db, "PRAGMA integrity_check"), "ok")
    db.execute("COMMIT")
    db.close()
    for writer, ids in wanted.items():
        rows, who = rows_by[writer], f"{database}, writer {writer}"
        lost = sorted(set(ids) - set(rows))
        if lost:
            compat.fail(f"{who}: {len(lost)} of {len(ids)} acknowledged commits are lost: {lost[:20]}")
        compat.check(f"{who}: ids that were recorded once", len(set(ids)), len(ids))
        compat.check(f"{who}: rows, from 1 without a gap", rows, list(range(1, len(rows) + 1)))
        compat.check(f"{who}: its counter", totals[writer], len(rows))
        if unrecorded is not None and len(rows) - len(ids) > unrecorded[writer]:
            compat.fail(f"{who}: {len(rows) - len(ids)} commits were not recorded, in {unrecorded[writer]} kills")
    return sum(map(len, rows_by.values()))
