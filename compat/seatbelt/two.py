"""Two SQLite libraries in one process, on one database: `two.py [STRATEGY]…`.

Python's sqlite3, APSW and pysqlite3 have a SQLite each. POSIX locks do not keep one of them from
what another has locked, and its unlock or close takes the other's locks away. Each pair is played:

- *stock*, the control: both by stock SQLite. It must do harm.
- *both*, with one thread each or two: both by ours. They wait for each other, or the open of one
  is refused. Nothing else may fail.
- *kept*, in WAL mode: one by ours, one by stock SQLite. The same must hold if a connection of ours
  is the first one and stays.
- *locks*: stock SQLite opens, reads and closes while ours has a transaction. In WAL mode no other
  process can write then. In a rollback mode the transaction is refused. Both are counted.
"""

import collections
import contextlib
import functools
import importlib.util
import itertools
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time

import belt

LIBRARIES = {name: importlib.import_module(name) for name in ("sqlite3", "apsw", "pysqlite3")
             if importlib.util.find_spec(name)}
Error = tuple(library.Error for library in LIBRARIES.values())
JOURNALS = {"plain": ["wal", "delete"], "eager": ["wal"], "waldio": ["wal"], "maw": ["delete"]}
# How ours refuses an open, and how stock SQLite is kept out by a strategy that does so.
REFUSED, KEPT_OUT = "CANTOPEN", "NOTADB"
CONTROL_RUNS, SECONDS, PATIENCE_S = 10, 1.5, 60
READ = "SELECT count(*) FROM kept"


def connect(library, mode, file):
    if mode != "stock":
        load(library)
    uri = f"file:{file}?vfs=" + ("unix" if mode == "stock" else f"oneflush&strategy={mode}")
    if library != "apsw":
        return LIBRARIES[library].connect(uri, uri=True, timeout=2, isolation_level=None)
    db = belt.apsw.Connection(uri, belt.apsw.SQLITE_OPEN_READWRITE | belt.apsw.SQLITE_OPEN_URI)
    db.set_busy_timeout(2000)
    return db


@functools.cache
def load(library):
    loader = connect(library, "stock", ":memory:")
    loader.enable_load_extension(True)
    loader.load_extension(os.environ["ONEFLUSH_EXTENSION_PATH"])


def name_of(error):
    return getattr(error, "sqlite_errorname", belt.name_of(error)).removeprefix("SQLITE_")


def commit(library, mode, writer, file, record, life, errors):
    """A connection lives for up to `life` rows, so a library has none again and again."""
    until, number = time.monotonic() + SECONDS, 0
    while time.monotonic() < until:
        try:
            # A connection that had an error is closed when the next one is open.
            db = connect(library, mode, file)
            db.execute("PRAGMA synchronous=OFF")
            for _ in range(random.randint(1, life)):
                number += 1
                belt.insert(db, int(writer), number)
                print(number, file=record, flush=True)
            if life > 1 and random.random() < 0.1:
                db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            db.close()
        except Error as error:
            errors[name_of(error)] += 1


def patiently(act):
    until = time.monotonic() + PATIENCE_S
    while True:
        try:
            return act()
        except Error as error:
            if not name_of(error).startswith("BUSY") or time.monotonic() > until:
                raise


def process(file, folder, way, *players):
    """Each player is LIBRARY:MODE:WRITER, with a thread. Prints their errors."""
    players = [player.split(":") for player in players]
    errors = collections.defaultdict(collections.Counter)
    if way == "kept":
        first = connect(*players[0][:2], file)
        patiently(lambda: first.execute(READ).fetchall())
    threads = [threading.Thread(target=commit, args=(
        *player, file, open(f"{folder}/{player[2]}", "w"), 1 if len(players) < 3 else 9,
        errors[" ".join(player[:2])])) for player in players]
    for step in (threading.Thread.start, threading.Thread.join):
        for thread in threads:
            step(thread)
    print(json.dumps(errors))


def locks(file, folder, journal, ours, mode, theirs, third):
    """Prints what is wrong, as `process` does."""
    db, is_wal = connect(ours, mode, file), journal == "wal"
    belt.insert(db, 0, 1)
    db.execute("BEGIN IMMEDIATE" if is_wal else "BEGIN")
    db.execute(READ).fetchall()
    # The strategy may keep it out.
    with contextlib.suppress(Error), contextlib.closing(connect(theirs, "stock", file)) as other:
        other.execute(READ).fetchall()
    start("process", file, folder, "", f"sqlite3:{third}:8").communicate()
    answer, written = "ok", len(belt.acknowledged(f"{folder}/8"))
    try:
        belt.insert(db, 0, 2)
        db.execute("COMMIT")
    except Error as error:
        answer = name_of(error)
    # In WAL mode a writer looks once a second.
    time.sleep(1.1)
    belt.insert(db, 0, 3)
    count = json.loads(db.execute("PRAGMA oneflush_stats").fetchall()[0][0])["cancelled_locks"]
    holds = count and ((answer, written) == ("ok", 0) if is_wal else answer.startswith("IOERR"))
    print(json.dumps({} if holds else {ours: {answer: 1, "counted": count, "rows": written}}))


def start(*what):
    command = ["timeout", "-s", "KILL", str(SECONDS + PATIENCE_S), sys.executable, __file__, *what]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True,
                            env={**os.environ, "ONEFLUSH_LOG": f"{what[2]}/messages"})


def play(strategy, journal, way, threads, a, b):
    """What is wrong, a list."""
    folder = tempfile.mkdtemp(prefix=f"{strategy}-two-", dir=".")
    file, third = f"{folder}/belt.db", "stock" if strategy == "plain" else strategy
    belt.create(file)
    belt.connect("stock", file).execute(f"PRAGMA journal_mode={journal}").fetchall()
    two = [f"{a}:{'stock' if way == 'stock' else strategy}:",
           f"{b}:{strategy if way == 'both' else 'stock'}:"] * threads
    commands = [["process", file, folder, way, *(f"{who}{one}" for one, who in enumerate(two))]]
    commands += [["process", file, folder, "", f"sqlite3:{third}:{one}"] for one in (8, 9)]
    if way == "locks":
        commands = [["locks", file, folder, journal, a, strategy, b, third]]
    wrong, fine = [], ("BUSY", REFUSED) if way == "both" else ("BUSY",)
    for one in [start(*command) for command in commands]:
        said = one.communicate()[0]
        wrong += [f"a process ended with {one.returncode}"] if one.returncode else []
        for who, errors in json.loads(said or "{}").items():
            is_out = who.endswith("stock") and strategy != "plain"
            bad = {name: count for name, count in errors.items()
                   if not name.startswith(fine) and not (is_out and name == KEPT_OUT)}
            wrong += [f"{who}: {bad}"] if bad else []
    if way != "locks":
        records = {one: belt.acknowledged(f"{folder}/{one}") for one in (*range(len(two)), 8, 9)}
        wrong += belt.harms(third, file, records)
    if not wrong:
        shutil.rmtree(folder)
    print(f"two, {strategy}, {journal}, {way}, {threads} threads, {a} and {b}: "
          f"{'; '.join(wrong) or 'ok'}", flush=True)
    return wrong


def main(strategies):
    """How many plays went wrong, of how many."""
    wrong, pairs = [], list(itertools.combinations(LIBRARIES, 2))
    for strategy, journal in ((one, journal) for one in strategies for journal in JOURNALS[one]):
        control = (play("plain", journal, "stock", 1, *pair) for pair in itertools.cycle(pairs))
        wrong.append(not any(itertools.islice(control, CONTROL_RUNS)))
        plays = [("both", 1, *pair) for pair in pairs] + [("both", 2, *pairs[-1])]
        for way in ("kept", "locks") if journal == "wal" else ("locks",):
            for first in LIBRARIES:
                other = random.choice([library for library in LIBRARIES if library != first])
                plays.append((way, 2, first, other))
        wrong += [bool(play(strategy, journal, *one)) for one in plays]
    return sum(wrong), len(wrong)


if __name__ == "__main__":
    if sys.argv[1:2] in (["process"], ["locks"]):
        {"process": process, "locks": locks}[sys.argv[1]](*sys.argv[2:])
    else:
        names = sys.argv[1:] or list(JOURNALS)
        wrong, count = main(names)
        if wrong:
            sys.exit(f"two: {wrong} of {count} plays went wrong")
        print(f"two: ok ({', '.join(names)}: {count} plays of {', '.join(LIBRARIES)})")
