"""Stock SQLite, old and new, reads, writes and checkpoints the live database from other processes, while ours write.

A strategy that keeps SQLite alone out of a live database is met by Oneflush in the old and the new SQLite, and by its shell; and
stock SQLite, which tries all the time, must see nothing and do no harm.
"""

import os
import sqlite3
import subprocess
import sys
import time

import compat

SECONDS = 6
FILE = "live.db"
HERE = os.path.dirname(os.path.abspath(__file__))
KINDS = ["ours-system", "ours-apsw", "stock-system", "stock-apsw"]
SHELL_WRITER = 100
# Who writes, reads and checkpoints; the first two are always ours.
WRITERS = ["ours-system", "ours-apsw"] * 2 if compat.IS_GUARDED else KINDS
REFUSED = KINDS[2:] if compat.IS_GUARDED else []


def start(kind, role, writer):
    python = os.environ["PYTHON_APSW"] if kind.endswith("apsw") else sys.executable
    command = [python, f"{HERE}/process.py", kind, role, FILE, str(writer), str(SECONDS)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def shell_writes():
    """The sqlite3 shell, started anew for every few transactions."""
    done, until = 0, time.monotonic() + SECONDS
    while time.monotonic() < until:
        lines = "".join(
            f"BEGIN IMMEDIATE; INSERT INTO item VALUES({SHELL_WRITER}, {number}, 'shell');"
            f"UPDATE total SET commits = commits + 1 WHERE writer = {SHELL_WRITER}; COMMIT;"
            for number in range(done + 1, done + 4)
        )
        compat.our_shell(FILE, lines) if compat.IS_GUARDED else compat.shell(FILE, lines)
        done += 3
    return done


db = compat.connect(FILE)
db.execute("PRAGMA journal_mode=WAL")
db.execute("CREATE TABLE item(writer INTEGER, number INTEGER, word TEXT, PRIMARY KEY(writer, number))")
db.execute("CREATE TABLE total(writer INTEGER PRIMARY KEY, commits INTEGER)")
db.execute("CREATE INDEX words ON item(word)")
db.executemany("INSERT INTO total VALUES(?, 0)", [(n,) for n in [*range(len(WRITERS)), SHELL_WRITER]])

writers = [start(kind, "writes", n) for n, kind in enumerate(WRITERS)]
others = [start(kind, "reads", 0) for kind in WRITERS] + [start(kind, "checkpoints", 0) for kind in WRITERS[2:]]
others += [start(kind, "is-refused", 0) for kind in REFUSED]
expected = {SHELL_WRITER: shell_writes()}
answers = [[int(word) for word in process.communicate()[0].split()] or [0, 0] for process in writers + others]
for number, (commits, _) in enumerate(answers[: len(WRITERS)]):
    expected[number] = commits
snapshots = [count for count, _ in answers[len(WRITERS) :]]
for process, name in zip(writers + others, WRITERS + WRITERS + ["checkpointer"] * 2 + REFUSED):
    compat.check(f"exit code of {name}", process.returncode, 0)
for number, commits in [*expected.items(), *enumerate(snapshots)]:
    compat.check(f"process {number} got to work", commits > 0, True)

FOUND = "SELECT group_concat(writer || '=' || n) FROM (SELECT writer, count(*) AS n FROM item GROUP BY writer ORDER BY writer)"
wanted = ",".join(f"{writer}={commits}" for writer, commits in sorted(expected.items()))
compat.check("rows, by ours, still open", compat.value(db, FOUND), wanted)
compat.check("rows, by a shell, ours still open", compat.look(compat.connect, FILE, FOUND), wanted)
db.close()
compat.check("rows, by the shell", compat.shell(FILE, FOUND), wanted)
compat.integrity(FILE)
newest = "import apsw; db = apsw.Connection('live.db'); print(apsw.sqlite_lib_version(), db.pragma('integrity_check'))"
version, sound = subprocess.run([os.environ["PYTHON_APSW"], "-c", newest], capture_output=True, text=True).stdout.split()
compat.check("integrity, by the newest SQLite", sound, "ok")
longest = [ms for _, ms in answers[: len(WRITERS)]]
said = f"{expected[0] + expected[1]} commits of ours, longest {max(longest[:2])} ms"
if compat.IS_GUARDED:
    others = f"{expected[2] + expected[3]} of other processes of ours, {expected[SHELL_WRITER]} of oneflush shell; stock SQLite refused {sum(snapshots[6:])} times"
else:
    others = f"{expected[2] + expected[3] + expected[SHELL_WRITER]} of stock SQLite, longest {max(longest[2:])} ms"
print(f"neighbours: ok ({sqlite3.sqlite_version} and {version} beside {compat.STRATEGY}: {said}; {others}; "
      f"{sum(snapshots[:4])} snapshots, {sum(snapshots[4:6])} checkpoints)")
