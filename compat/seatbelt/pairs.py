"""Pairs of lock states: `pairs.py [STRATEGY]`. One process gets into a state, and another tries an
action at once, with no busy timeout. Each is stock SQLite or ours. What they answer must be what
two processes of stock SQLite answer; a strategy that keeps stock SQLite out has only pairs of its
own. A difference is printed, and is an error unless EXCUSES has its reason. The same must hold if
ours opens and closes the files of the database after each statement. Stock SQLite which does that
is the control: it must differ.

States that last too short for that are frozen: the process is stopped once it has a certain lock.
"""

import collections
import fcntl
import itertools
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

import belt

INSERT = "INSERT INTO kept(payload) VALUES('pair')"
READ = "SELECT count(*) FROM kept"
FREEZE_TRIES = 50
# They keep stock SQLite out of a live database.
GUARDED = ("eager", "waldio")

# "os_unix.c", "wal.c": the first byte that readers of a database lock; locks of the WAL index.
SHARED = ("", 0x4000_0002)
WRITE, CHECKPOINT, RECOVER = (("-shm", 120 + number) for number in range(3))

# The database to begin with, what is done by the process A in the state and by C, a third one,
# and for a frozen state the lock: the last step has it.
State = collections.namedtuple("State", "begins steps frozen", defaults=[None])
STATES = {
    "idle": State("wal", [f"A {INSERT}"]),
    "reader": State("wal", [f"A {INSERT}", "A BEGIN", f"A {READ}"]),
    "reader of the file alone": State(
        "wal", [f"A {INSERT}", "A PRAGMA wal_checkpoint(TRUNCATE)", "A BEGIN", f"A {READ}"]),
    "reader of an old mark": State(
        "wal", [f"A {INSERT}", "A BEGIN", f"A {READ}", f"C {INSERT}"]),
    "readers of two marks": State(
        "wal", [f"A {INSERT}", "A BEGIN", f"A {READ}", f"C {INSERT}", "C BEGIN", f"C {READ}"]),
    "writer": State("wal", ["A BEGIN IMMEDIATE", f"A {INSERT}"]),
    "begin exclusive": State("wal", ["A BEGIN EXCLUSIVE"]),
    "locking_mode=EXCLUSIVE": State("wal", ["A PRAGMA locking_mode=EXCLUSIVE", f"A {INSERT}"]),
    "locking_mode=EXCLUSIVE later": State(
        "wal", [f"A {INSERT}", "A PRAGMA locking_mode=EXCLUSIVE", f"A {INSERT}"]),
    "checkpoint": State(
        "left", [f"A {READ}", "A PRAGMA wal_checkpoint(PASSIVE)"], CHECKPOINT),
    "full checkpoint that waits": State(
        "wal", [f"C {INSERT}", "C BEGIN", f"C {READ}", f"A {INSERT}", "A PRAGMA busy_timeout=20000",
                "A PRAGMA wal_checkpoint(FULL)"], WRITE),
    "recovery": State("left", [f"A {READ}"], RECOVER),
    "last close": State("left", [f"A {READ}", "A close"], SHARED),
    "journal_mode=DELETE": State("left", [f"A {READ}", "A PRAGMA journal_mode=DELETE"], SHARED),
    "rollback reader": State("delete", ["A BEGIN", f"A {READ}"]),
    "rollback writer": State("delete", ["A BEGIN IMMEDIATE", f"A {INSERT}"]),
    "rollback pending": State(
        "delete", ["C BEGIN", f"C {READ}", "A BEGIN IMMEDIATE", f"A {INSERT}", "A COMMIT"]),
    "rollback exclusive": State("delete", ["A BEGIN EXCLUSIVE", f"A {INSERT}"]),
    "rollback locking_mode=EXCLUSIVE": State(
        "delete", ["A PRAGMA locking_mode=EXCLUSIVE", f"A {INSERT}"]),
}
ACTIONS = {
    "reads": [READ],
    "writes": [INSERT],
    "begins a transaction": ["BEGIN IMMEDIATE"],
    "begins an exclusive one": ["BEGIN EXCLUSIVE", "ROLLBACK"],
    **{f"{kind} checkpoint": [f"PRAGMA wal_checkpoint({kind})"]
       for kind in ("passive", "full", "restart", "truncate")},
    **{f"journal_mode={mode}": [f"PRAGMA journal_mode={mode}"] for mode in ("delete", "wal")},
    "locking_mode=EXCLUSIVE": ["PRAGMA locking_mode=EXCLUSIVE", INSERT, READ],
    "last close": [READ, "close"],
}
# Who is in the state, who tries the action, and whether they open and close the files.
Pair = collections.namedtuple("Pair", "a b probes is_control", defaults=[False])
# Regular expressions for the strategy, pair, state and action, and why the answer is as good.
EXCUSES = [
    (".*", ".*files closed", "rollback .*", ".*", "the belt is for WAL mode; as stock SQLite alone"),
    (".*", ".*files closed", "locking_mode=EXCLUSIVE",
     "journal_mode=delete|locking_mode=EXCLUSIVE|last close",
     "the first one could not open the WAL, and has SQLite's shared lock alone"),
]


def agent():
    """Answers [mode, file, probes, what], each a line of JSON."""
    db = None
    for line in sys.stdin:
        mode, file, probes, what = json.loads(line)
        answer = "ok"
        try:
            if what == "open":
                db = belt.connect(mode, file, timeout=0)
            elif what == "close":
                db, closing = None, db
                if closing:
                    closing.close()
            else:
                answer = "".join(str(row[0]) for row in db.execute(what).fetchall()[:1]) or "ok"
        except belt.Error as error:
            answer = belt.name_of(error)
        if probes:
            belt.probe(file)
        print(json.dumps(answer), flush=True)


class Agent:
    """A process with one connection at a time."""

    def __init__(self):
        self.process = subprocess.Popen([sys.executable, __file__, "agent"], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def send(self, what):
        self.process.stdin.write(json.dumps([*self.place, what]) + "\n")
        self.process.stdin.flush()

    def receive(self):
        return json.loads(self.process.stdout.readline())

    def does(self, what):
        self.send(what)
        return self.receive()

    def opens(self, mode, file, probes=False):
        self.place = (mode, file, probes)
        return self.does("open")

    def freeze(self, what, lock):
        """Whether it was stopped with the lock, on its way through the statement."""
        suffix, byte = lock
        self.send(what)
        until = time.monotonic() + 0.5
        while time.monotonic() < until:
            if is_locked(self.place[1] + suffix, byte):
                os.kill(self.process.pid, signal.SIGSTOP)
                os.waitid(os.P_PID, self.process.pid, os.WSTOPPED)
                return is_locked(self.place[1] + suffix, byte)
        return False

    def goes_on(self):
        os.kill(self.process.pid, signal.SIGCONT)


def is_locked(file, byte):
    """Exclusively, by any process."""
    wanted = struct.pack("hhqqi4x", fcntl.F_RDLCK, os.SEEK_SET, byte, 1, 0)
    try:
        with open(file, "r+b") as one:
            return struct.unpack("hhqqi4x", fcntl.fcntl(one, fcntl.F_GETLK, wanted))[0] \
                == fcntl.F_WRLCK
    except FileNotFoundError:
        return False


def begin(folder):
    """The databases to begin with: `wal` and `delete`, closed; `left` with a WAL to recover."""
    for name in ("wal", "delete"):
        belt.create(f"{folder}/{name}")
        db = belt.connect("stock", f"{folder}/{name}")
        db.execute(f"PRAGMA journal_mode={name}").fetchall()
        db.close()
    db = belt.connect("stock", f"{folder}/wal")
    db.execute("PRAGMA wal_autocheckpoint=0").fetchall()
    db.execute("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 3000)"
               " INSERT INTO kept(payload) SELECT randomblob(3000) FROM n")
    for suffix in ("", "-wal"):
        shutil.copyfile(f"{folder}/wal{suffix}", f"{folder}/left{suffix}")
    db.execute("DELETE FROM kept")
    db.close()


def cell(agents, folder, pair, third, state, action, was_open):
    """What A and B answer; None if A was not caught in the state."""
    place = tempfile.mkdtemp(dir=folder)
    file = f"{place}/pair.db"
    for suffix in ("", "-wal"):
        if os.path.exists(f"{folder}/{state.begins}{suffix}"):
            shutil.copyfile(f"{folder}/{state.begins}{suffix}", file + suffix)
    a, b, c = agents
    # Beside ours stock SQLite opens and closes nothing.
    place_a, place_b = ((mode, file, pair.probes and (mode != "stock" or pair.is_control))
                        for mode in (pair.a, pair.b))
    steps = list(state.steps)
    answers = []
    if was_open:
        answers += [b.opens(*place_b), b.does(READ)]
    answers.append(a.opens(*place_a))
    if any(step.startswith("C") for step in steps):
        c.opens(third, file)
    last = steps.pop()[2:] if state.frozen else None
    answers += [{"A": a, "C": c}[step[0]].does(step[2:]) for step in steps]
    caught = not last or a.freeze(last, state.frozen)
    if caught:
        answers += ["|"] + ([] if was_open else [b.opens(*place_b)])
        answers += [b.does(sql) for sql in ACTIONS[action]]
        answers.append("index" if os.path.exists(file + "-shm") else "no index")
        b.does("close")
    if last:
        a.goes_on()
    if any(step.startswith("C") for step in steps):
        c.does("close")
    if last:
        answers.append(a.receive())
    a.does("close")
    shutil.rmtree(place)
    return " ".join(answers) if caught else None


def excuse(*found):
    return next((entry[-1] for entry in EXCUSES
                 if all(map(re.fullmatch, entry[:-1], found))), None)


def pairs_of(strategy):
    """The first is what the others are compared with."""
    yield Pair("stock", "stock", False)
    yield Pair("stock", "stock", True, is_control=True)
    for probes in (False, True):
        yield Pair(strategy, strategy, probes)
        if strategy not in GUARDED:
            yield Pair("stock", strategy, probes)
            yield Pair(strategy, "stock", probes)


def main(strategy):
    """Numbers of answers, of those that differ, of those without a reason; and of the control."""
    third = strategy if strategy in GUARDED else "stock"
    agents = {mode: (Agent(), Agent()) for mode in ("stock", strategy)}
    third_agent = Agent()
    count = different = worse = control = 0
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        begin(folder)
        for name, action, was_open in itertools.product(STATES, ACTIONS, (False, True)):
            state = STATES[name]
            if state.frozen and (was_open or strategy in GUARDED):
                continue
            expected = None
            for pair in pairs_of(strategy):
                # Who is stopped cannot open and close the files.
                if pair.probes and state.frozen:
                    continue
                three = (agents[pair.a][0], agents[pair.b][1], third_agent)
                is_stock = pair.a == pair.b == "stock"
                tries = (cell(three, folder, pair, "stock" if is_stock else third, state, action,
                              was_open) for _ in range(FREEZE_TRIES))
                found = next(filter(None, tries), "never caught in this state")
                expected = expected or found
                control += pair.is_control and found != expected
                count += not pair.is_control
                if found == expected or pair.is_control:
                    continue
                different += 1
                told = f"{pair.a} beside {pair.b}{', files closed' if pair.probes else ''}"
                because = excuse(strategy, told, name, action)
                worse += because is None
                print(f"{name}, {told}, {'open' if was_open else 'new'}: {action}: {found} instead "
                      f"of {expected}: {because or 'NOT AS GOOD'}", flush=True)
    return count, different, worse, control


if __name__ == "__main__":
    if sys.argv[1:] == ["agent"]:
        agent()
    else:
        count, different, worse, control = main(sys.argv[1] if sys.argv[1:] else "plain")
        print(f"pairs, {belt.LIBRARY}: {count} answers, {different} differ, {worse} without reason; "
              f"{control} of stock SQLite which closes the files")
