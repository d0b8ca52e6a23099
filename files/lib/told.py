"""How a case says what it found."""

import os
import sys
import time

CASE = os.environ.get("CASE", "files")
IS_LONG = os.environ.get("FILES") == "long"
SEED = int(os.environ.get("ONEFLUSH_TEST_SEED", "3"))
SKIPPED = 77


def times(size):
    """So much, or ten times more where there is time."""
    return size * 10 if IS_LONG else size


def fail(what):
    print(f"{CASE}: {what}", file=sys.stderr, flush=True)
    sys.exit(1)


def check(what, found, expected):
    if found != expected:
        fail(f"{what}: {found!r} instead of {expected!r}")


def wait(seconds, otherwise, is_so):
    """Until it is so."""
    deadline = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > deadline:
            fail(f"{otherwise} after {seconds} s")
        time.sleep(0.01)


def skip(why):
    """What is not here and not ours to install."""
    if os.environ.get("SKIP_MISSING") != "1":
        fail(f"{why}; set SKIP_MISSING=1 to go on without this case")
    print(f"{CASE}: skipped, {why}", flush=True)
    sys.exit(SKIPPED)


def ok(what):
    print(f"{CASE}: ok ({what})", flush=True)
