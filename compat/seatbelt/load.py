"""The load: `load.py [--mode MODE]… [--runs N] [--seconds S] [--until-harm] [--node FOLDER]`.

Processes commit to one WAL database, and each opens, reads and closes the files of that database
all the time. The kernel then drops all POSIX locks of the process on them. Some of the processes
open the database for a few commits only, so last closes, recoveries and checkpoints happen.

A run does harm if a process dies, if SQLite says that the database is damaged, or if afterwards
integrity_check is not `ok` or an acknowledged row is not there once. Errors are no harm.
"""

import argparse
import collections
import json
import os
import shutil
import subprocess
import sys
import tempfile

import belt

HERE = os.path.dirname(os.path.abspath(__file__))
# How many rows a connection of each process lives for; 0: to the end.
LIVES = [int(life) for life in os.environ.get("SEATBELT_LIVES", "0 0 0 0 0 0 5 5").split()]
SECONDS = float(os.environ.get("SEATBELT_SECONDS") or 10)
PATIENCE_S = 120
Outcome = collections.namedtuple("Outcome", "harms rows errors")


def start(mode, file, record, writer, life, seconds, node):
    command, environment = [sys.executable, os.path.join(HERE, "process.py")], os.environ
    if node:
        # Its SQLite knows no URIs.
        ours = {"ONEFLUSH_DEFAULT": "1", "ONEFLUSH_STRATEGY": mode} if mode != "stock" else {}
        command = ["node", os.path.join(HERE, "process.js")]
        environment = {**os.environ, **ours, "NODE_PATH": os.path.join(node, "node_modules")}
    command += [mode, file, record, str(writer), str(life), str(seconds)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            env=environment)


def run(mode, seconds=SECONDS, node=None):
    # The records lie elsewhere: what begins as the database does is opened and closed.
    folder = tempfile.mkdtemp(prefix=f"{mode}-", dir=".")
    file = os.path.join(folder, "belt.db")
    belt.create(file)
    records = [os.path.join(folder, f"acknowledged-{writer}") for writer in range(len(LIVES))]
    processes = [start(mode, file, record, writer, LIVES[writer], seconds, node)
                 for writer, record in enumerate(records)]
    wrong, errors = [], collections.Counter()
    for writer, process in enumerate(processes):
        try:
            out, said = process.communicate(timeout=seconds + PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            out, said = process.communicate()
        if process.returncode == 0:
            errors.update(json.loads(out))
        else:
            wrong.append(f"process {writer} ended with {process.returncode} {said[-300:]}".strip())
    wrong += [f"{count} times {name}" for name, count in errors.items()
              if name.startswith(belt.DAMAGE)]
    written = {writer: belt.acknowledged(record) for writer, record in enumerate(records)}
    wrong += [] if any(written.values()) else ["nobody committed anything"]
    # The first to open it may have to recover it.
    wrong += belt.harms(mode, file, written) or belt.harms("stock", file, written)
    if not wrong:
        shutil.rmtree(folder)
    return Outcome(wrong, sum(map(len, written.values())), dict(errors.most_common()))


def runs(mode, count, seconds=SECONDS, node=None, until_harm=False):
    """How many runs did harm, of how many; and how many rows were acknowledged in all."""
    harmful = rows = 0
    for number in range(1, count + 1):
        outcome = run(mode, seconds, node)
        harmful += bool(outcome.harms)
        rows += outcome.rows
        print(f"{mode}, run {number}, {outcome.rows} rows: {'; '.join(outcome.harms) or 'no harm'}"
              f"; errors: {outcome.errors}", flush=True)
        if until_harm and harmful:
            break
    return harmful, number, rows


def main():
    parser = argparse.ArgumentParser(prog="load.py", description="Shares of runs that do harm.")
    parser.add_argument("--mode", action="append", metavar="MODE", help="stock or a strategy")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--until-harm", action="store_true", help="no run after a harmful one")
    parser.add_argument("--node", metavar="FOLDER", help="by better-sqlite3, in node_modules there")
    options = parser.parse_args()
    for mode in options.mode or ["stock", "plain", "eager", "waldio"]:
        harmful, count, rows = runs(mode, options.runs, options.seconds, options.node,
                                    options.until_harm)
        library = "better-sqlite3" if options.node else belt.LIBRARY
        print(f"{mode}, {library}: {harmful} of {count} runs did harm; {rows} rows")


if __name__ == "__main__":
    main()
