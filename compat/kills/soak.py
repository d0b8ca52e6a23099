"""Writers that are killed again and again: `compat/soak --kills N | --seconds S [--strategy S] …`.

Eight processes write to one database with ids of their own, and record each id outside of it when its commit was
acknowledged. Each is killed (SIGKILL) at a random moment and started again. At the end every recorded id must be in the
database, once; at most one id a kill may be there that was not recorded (committed, and killed before it was
recorded); the counters that each transaction moves must agree with the rows; the database must be sound. Stock SQLite looks at it,
and from time to time also while the writers are alive; with `eager` or `waldio`, which keep it out of a live database, that look is by them.
"""

import argparse
import os
import random
import shutil
import signal
import sys
import tempfile
import time

import compat
import written

LOOK_EVERY_KILLS = 50


def arguments():
    parser = argparse.ArgumentParser(prog="compat/soak", description="Kills writers; nothing acknowledged may be lost.")
    length = parser.add_mutually_exclusive_group(required=True)
    length.add_argument("--kills", type=int, metavar="N", help="until N kills")
    length.add_argument("--seconds", type=float, metavar="S", help="for S seconds")
    parser.add_argument("--processes", type=int, default=8, metavar="N", help="writers (default: 8)")
    parser.add_argument("--strategy", default="plain",
                        help="of the writers; several, with commas between, one after the other (default: plain)")
    parser.add_argument("--seed", type=int, help="of the moments of the kills (default: ONEFLUSH_TEST_SEED, else by the clock)")
    parser.add_argument("--directory", metavar="DIR", help="where the database is to be (default: a new one in build/)")
    parser.add_argument("--python", default=sys.executable, metavar="FILE", help="the Python that the writers run in")
    return parser.parse_args()


def kill_some(chance, writers):
    # Sometimes all at once, so that nobody is left who knows the WAL index.
    chosen = writers if chance.random() < 0.05 else [chance.choice(writers)]
    for writer in chosen:
        writer.process.send_signal(signal.SIGKILL)
    for writer in chosen:
        writer.kill()
    return chosen


def soak(options, chance, database, folder):
    strategies = options.strategy.split(",")
    looks = next((one for one in ("eager", "waldio") if one in strategies), None)
    writers = [written.Writer(number, strategies[number % len(strategies)], folder, database, python=options.python)
               for number in range(options.processes)]
    began = told = time.monotonic()
    kills = 0
    try:
        while kills < options.kills if options.kills else time.monotonic() - began < options.seconds:
            # Also right after the start: recovery is a moment to be killed in.
            time.sleep(chance.choice([0.0, 0.02, 0.1, 0.2, 0.3]) * chance.random())
            chosen = kill_some(chance, writers)
            kills += len(chosen)
            if kills % LOOK_EVERY_KILLS < len(chosen):
                written.check_holds(database, written.records(writers), strategy=looks)
            for writer in chosen:
                writer.start()
            if time.monotonic() - told > 10 and sys.stderr.isatty():
                told = time.monotonic()
                print(f"{kills} kills", file=sys.stderr)
    except BaseException:
        for writer in writers:
            writer.process.kill()
        raise
    for writer in writers:
        writer.kill()
    return writers, kills, time.monotonic() - began


def main():
    options = arguments()
    seed = options.seed
    if seed is None:
        seed = int(os.environ.get("ONEFLUSH_TEST_SEED") or time.time_ns() % 1_000_000)
    base = options.directory or os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "build", "compat")
    os.makedirs(base, exist_ok=True)
    folder = os.path.abspath(tempfile.mkdtemp(prefix="soak-", dir=base))
    database = os.path.join(folder, "soak.db")
    written.create(database, options.processes)
    writers, kills, took = soak(options, random.Random(seed), database, folder)
    records = written.records(writers)
    acknowledged = sum(map(len, records.values()))
    guards = next((one for one in ("eager", "waldio") if one in options.strategy), None)
    if guards:
        # The first to open it recovers it, and leaves a plain file.
        written.check_holds(database, records, strategy=guards)
        compat.check("files that are left", sorted(name for name in os.listdir(folder) if name.startswith("soak.db")), ["soak.db"])
    rows = written.check_holds(database, records, {writer.number: writer.kills for writer in writers})
    if acknowledged < kills:
        compat.fail(f"only {acknowledged} commits in {kills} kills: the writers did not get to work")
    shutil.rmtree(folder)
    print(f"soak: ok ({options.strategy}, {options.processes} processes, {kills} kills in {took:.0f} s, {acknowledged} commits "
          f"acknowledged, all there once, {rows - acknowledged} more that a kill kept from being recorded, seed {seed})")


main()
