"""Random operations of all kinds on small trees, as fsstress of xfstests does them.

By one process at a time: each answer must be that of a plain directory. By many at once in one tree: afterwards the lower must
have what the mount shows, and nothing may have hung.
"""

import os
import signal
import time

import told
from acts import Acts
from place import Place
from scenes import apart, because
from tree import differences, tree

SEEDS = 4
STEPS = 1500
PROCESSES = 8
SECONDS = 6
STUCK_S = 100


def alone(folder, seed):
    folder.mkdir()

    def act():
        os.umask(0o022)
        signal.alarm(STUCK_S)
        os.chdir(folder)
        acts = Acts(seed)
        return [acts.step() for _ in range(told.times(STEPS))]

    return apart(act)


def compare(place, seed):
    plain, ours = alone(place.control / str(seed), seed), alone(place.at / str(seed), seed)
    differ = 0
    for number, (one, other) in enumerate(zip(plain, ours)):
        if one == other:
            continue
        what = f"{one[0][0]}"
        reason = because("alone", what, one[1], other[1])
        print(f"seed {seed}, step {number}: {one[0]}: plain {one[1]!r}, mounted {other[1]!r}: {reason or 'NOT AS GOOD'}", flush=True)
        differ += 1
        if reason is None:
            for step in plain[max(0, number - 60):number + 1]:
                print(f"    {step}")
            told.fail(f"a mounted tree answers otherwise, seed {seed}, step {number}")
    left = differences(tree(place.control / str(seed), False), tree(place.at / str(seed), False))
    if left:
        told.fail(f"seed {seed}: plain and mounted:\n" + "\n".join(left))
    return len(plain), differ


def in_another(act):
    """In a process of its own: another cuts the file meanwhile, and whoever touches what was cut dies by it."""

    def run(*arguments):
        child = os.fork()
        if child == 0:
            os._exit(act(*arguments) is None)
        os.waitpid(child, 0)

    return run


def together(folder, seconds):
    """Answers how much was done."""
    folder.mkdir()
    end = time.monotonic() + seconds

    def act(number):
        os.umask(0o022)
        os.chdir(folder)
        acts = Acts(told.SEED * 1000 + number)
        acts._map = in_another(acts._map)
        while time.monotonic() < end:
            acts.step()
        os._exit(0)

    children = {}
    for number in range(PROCESSES):
        child = os.fork()
        if child == 0:
            act(number)
        children[child] = number
    limit = time.monotonic() + seconds + STUCK_S
    while children:
        child, how = os.waitpid(-1, os.WNOHANG)
        if child == 0:
            if time.monotonic() > limit:
                told.fail(f"processes hang: {sorted(children.values())}")
            time.sleep(0.05)
        elif child in children:
            told.check(f"how process {children.pop(child)} ended", how, 0)


def main():
    with Place(mount=("--allow-other", "--threshold", "60000", "--log-size", "16M")) as place:
        steps = differ = 0
        for seed in range(told.SEED, told.SEED + SEEDS):
            done, other = compare(place, seed)
            steps, differ = steps + done, differ + other
        before = int(place.stats()["operations"])
        together(place.at / "together", told.times(SECONDS))
        done = int(place.stats()["operations"]) - before
    told.ok(f"{steps} operations answered as in a plain directory, {differ} otherwise with a reason; "
            f"{done} operations on names by {PROCESSES} at once, and the same tree in the lower")


main()
