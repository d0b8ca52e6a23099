"""A program with a handler for SIGUSR1 and a section that it guards by blocking it."""

import os
import signal
import sqlite3
import sys
import time

entered = []
read, write = os.pipe()
os.set_blocking(write, False)
# The wakeup descriptor is written by the handler in C, in whichever thread the kernel runs it.
signal.set_wakeup_fd(write, warn_on_full_buffer=False)
signal.signal(signal.SIGUSR1, lambda *_: entered.append(1))

db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("PRAGMA journal_mode=WAL")
db.execute("PRAGMA wal_autocheckpoint=1")
db.execute("CREATE TABLE t(v)")
for n in range(20):
    db.execute("INSERT INTO t VALUES(?)", (n,))


def names():
    tasks = os.listdir("/proc/self/task")
    return [open(f"/proc/self/task/{task}/comm").read().strip() for task in tasks]


def has_thread():
    """A thread gives itself its name, a moment after it was started."""
    until = time.monotonic() + 20
    while "oneflush-ckpt" not in names():
        assert time.monotonic() < until, names()
        time.sleep(0.01)


if sys.argv[2] == "plain":
    has_thread()
else:
    # It checkpoints later than SQLite asks for it: 1,000 frames, and the thread is there to wait for an idle database.
    db.executescript("BEGIN; " + "INSERT INTO t VALUES(zeroblob(6000000)); COMMIT; INSERT INTO t VALUES(1);")
    has_thread()

signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
os.kill(os.getpid(), signal.SIGUSR1)
time.sleep(0.2)
os.set_blocking(read, False)
try:
    print("the handler ran in the guarded section:", os.read(read, 16))
except BlockingIOError:
    print("guarded")
assert signal.SIGUSR1 in signal.sigpending()
signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGUSR1])
assert os.read(read, 16) and entered, "it comes afterwards"

for task in os.listdir("/proc/self/task"):
    status = open(f"/proc/self/task/{task}/status").read()
    blocked = int(status.split("SigBlk:")[1].split()[0], 16)
    if "oneflush" in status.split("\n")[0]:
        for number in [1, 2, 10, 12, 13, 14, 15, 17]:
            assert blocked >> (number - 1) & 1, (status, number)
        assert not blocked >> (signal.SIGSEGV - 1) & 1, "a fault of its own is the host's to handle"
    else:
        assert blocked == 0, status
