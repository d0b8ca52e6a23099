"""Forks with open connections: `fork.py [MODE]…`. Every combination of these is a scene:

- the parent forks between two transactions or within one;
- the child does nothing, commits by an inherited connection that was idle, or by one of its own;
- the parent goes on, then is killed, or closes; the child lives on, and is killed, or closes.

Meanwhile both open and close the files of the database. While the child lives, another process must
be able to write. When both have ended it must get the exclusive lock, be the last to close, and find
all that was acknowledged. Whether it gets the lock beside a child that does nothing is only told.
"""

import collections
import itertools
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import belt

MODES = ["plain", "eager", "waldio"]
SCENES = list(itertools.product(("between", "within"), ("idle", "inherited", "own"),
                                ("killed", "closes"), ("killed", "closes")))
PARENT, CHILD, OTHER = range(3)
ROWS_EACH = 20
PATIENCE_S = 60


def parent(mode, file, folder, moment, use):
    """Prints the child's process id. SIGTERM is the wish that it closes."""
    ending = []
    signal.signal(signal.SIGTERM, lambda *_: ending.append(True))
    belt.Probe(file)
    writer = belt.Writer(mode, file, f"{folder}/{PARENT}", PARENT)
    for _ in range(ROWS_EACH):
        writer.commit()
    idle = belt.connect(mode, file, timeout=10)
    idle.execute("SELECT count(*) FROM kept").fetchall()
    if moment == "within":
        writer.number += 1
        writer.db.execute("BEGIN IMMEDIATE")
        belt.insert(writer.db, PARENT, writer.number)
    child = os.fork()
    if child == 0:
        if use == "idle":
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            signal.pause()
        belt.Probe(file)
        writer = belt.Writer(mode, file, f"{folder}/{CHILD}", CHILD,
                             db=idle if use == "inherited" else None)
    else:
        print(child, flush=True)
        if moment == "within":
            writer.db.execute("COMMIT")
            writer.acknowledge()
    while not ending:
        writer.commit()
        # SQLite polls for its locks: who writes without a pause keeps the others out.
        time.sleep(0.002)
    writer.close()
    if child:
        idle.close()
    print(f"errors {dict(writer.errors)}" if writer.errors else "", flush=True)
    os._exit(0)


def other(mode, file, what, number):
    """Another process: commits a row, or gets the exclusive lock and is the last to close."""
    try:
        db = belt.connect(mode, file, timeout=10 if what == "writes" else 1)
        if what == "writes":
            belt.insert(db, OTHER, int(number))
        else:
            db.execute("SELECT count(*) FROM kept").fetchall()
            db.execute("PRAGMA journal_mode=DELETE").fetchall()
            db.execute("PRAGMA journal_mode=WAL").fetchall()
            db.execute("SELECT count(*) FROM kept").fetchall()
        db.close()
        print("ok" if what == "writes" or not os.path.exists(file + "-shm") else "not the last")
    except belt.Error as error:
        print(belt.name_of(error))


def ask_other(mode, file, what, number=0):
    command = [sys.executable, __file__, "other", mode, file, what, str(number)]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


def wait_for_rows(folder, who, count):
    until = time.monotonic() + PATIENCE_S
    record = f"{folder}/{who}"
    while not os.path.exists(record) or len(belt.acknowledged(record)) < count:
        if time.monotonic() > until:
            return f"process {who} does not get on"
        time.sleep(0.01)
    return ""


def play(mode, moment, use, parent_end, child_end):
    """What is wrong, a list; and what another process answers beside the child."""
    folder = tempfile.mkdtemp(prefix=f"{mode}-fork-", dir=".")
    file = f"{folder}/belt.db"
    belt.create(file)
    command = [sys.executable, __file__, "parent", mode, file, folder, moment, use]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    child = int(process.stdout.readline() or 0)
    if not child:
        return ["the parent has ended before the fork"], ""
    ends = {"killed": signal.SIGKILL, "closes": signal.SIGTERM}
    wrong = [wait_for_rows(folder, PARENT, 3 * ROWS_EACH)]
    if use != "idle":
        wrong += [wait_for_rows(folder, CHILD, ROWS_EACH)]
    process.send_signal(ends[parent_end])
    process.wait()
    if use != "idle":
        so_far = len(belt.acknowledged(f"{folder}/{CHILD}"))
        wrong += [wait_for_rows(folder, CHILD, so_far + ROWS_EACH)]
    written = ask_other(mode, file, "writes", 1)
    beside = ask_other(mode, file, "last close") if use == "idle" else ""
    os.kill(child, ends[child_end])
    # To the end of the child too.
    said = process.stdout.read().split("\n")
    last = ask_other(mode, file, "last close")
    wrong += [f"another process writes: {written}"] if written != "ok" else []
    wrong += [f"the last close: {last}"] if last != "ok" else []
    wrong += [line for line in said if any(word in line for word in belt.DAMAGE)]
    records = {who: belt.acknowledged(f"{folder}/{who}") for who in (PARENT, CHILD)
               if os.path.exists(f"{folder}/{who}")}
    wrong += belt.harms(mode, file, {**records, OTHER: [1] if written == "ok" else []})
    wrong = [one for one in wrong if one]
    if not wrong:
        shutil.rmtree(folder)
    return wrong, beside


def main(modes):
    """How many scenes went wrong."""
    bad = 0
    for mode in modes:
        beside = collections.Counter()
        for scene in SCENES:
            wrong, answer = play(mode, *scene)
            bad += bool(wrong)
            beside[answer] += bool(answer)
            if wrong:
                print(f"fork, {mode}, {' '.join(scene)}: {'; '.join(wrong)}", flush=True)
        print(f"fork, {mode}: {len(SCENES)} scenes; the exclusive lock beside a child that does "
              f"nothing: {dict(+beside)}", flush=True)
    return bad


if __name__ == "__main__":
    roles = {"parent": parent, "other": other}
    if sys.argv[1:2] and sys.argv[1] in roles:
        roles[sys.argv[1]](*sys.argv[2:])
    else:
        print(f"fork: {main(sys.argv[1:] or MODES)} scenes went wrong")
