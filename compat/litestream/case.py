"""Litestream replicates the live database to a file replica while two processes write through Oneflush.

A sync point: `litestream sync -wait` has answered. What was acknowledged before it was asked must be in whatever is restored
afterwards, also while the writers go on. At the end Litestream is ended as an operator does it (SIGTERM), and the restored
database must have exactly what the live one has.

The writers end politely here: docs/compatibility.md says what SIGKILL does to Litestream's copy, with stock SQLite.
"""

import os
import signal
import subprocess
import time

import compat
import written

LITESTREAM = os.environ["LITESTREAM"]
FILE = os.path.abspath("live.db")
REPLICA = os.path.abspath("replica")
SOCKET = os.path.abspath("socket")
WRITERS = 2
SYNC_POINTS = 4
# Litestream must get the write lock now and then, and itself keeps a reader open: stock SQLite's writers without a pause, or with a
# checkpoint that waits for that reader, keep it out for longer than it waits.
PAUSE = 0.002

CONFIG = f"""
socket:
  enabled: true
  path: {SOCKET}
dbs:
  - path: {FILE}
    busy-timeout: 10s
    checkpoint-interval: 1s
    min-checkpoint-page-count: 200
    replica:
      type: file
      path: {REPLICA}
      sync-interval: 200ms
"""


def litestream(*arguments):
    done = subprocess.run([LITESTREAM, *arguments], capture_output=True, text=True)
    compat.check(f"litestream {' '.join(arguments)}: {done.stdout}{done.stderr}", done.returncode, 0)


def restore(name, wanted, unrecorded=None):
    litestream("restore", "-config", "litestream.yml", "-o", name, FILE)
    rows = written.check_holds(name, wanted, unrecorded)
    compat.integrity(name)
    return rows


def wait_for_the_socket(daemon):
    until = time.monotonic() + written.PATIENCE_S
    while time.monotonic() < until:
        if os.path.exists(SOCKET):
            return
        if daemon.poll() is not None:
            break
        time.sleep(0.05)
    compat.fail(f"litestream did not start: {open('litestream.log').read()}")


with open("litestream.yml", "w") as config:
    config.write(CONFIG)
written.create(FILE, WRITERS)
writers = [written.Writer(number, compat.STRATEGY, ".", FILE, PAUSE) for number in range(WRITERS)]
log = open("litestream.log", "w")
daemon = subprocess.Popen([LITESTREAM, "replicate", "-config", "litestream.yml"], stdout=log, stderr=log)
try:
    wait_for_the_socket(daemon)
    for point in range(SYNC_POINTS):
        time.sleep(1.0)
        if point == 2:
            # An application that is updated and comes back.
            writers[0].end()
            writers[0].start()
        before = written.records(writers)
        litestream("sync", "-wait", "-socket", SOCKET, FILE)
        restore(f"restored-{point}.db", before)
    for writer in writers:
        writer.end()
    records = written.records(writers)
    litestream("sync", "-wait", "-socket", SOCKET, FILE)
    daemon.send_signal(signal.SIGTERM)
    daemon.wait(timeout=written.PATIENCE_S)
finally:
    for process in [daemon, *(writer.process for writer in writers)]:
        process.kill()
none = {writer.number: 0 for writer in writers}
rows = restore("restored-last.db", records, none)
compat.check("rows of the live database", written.check_holds(FILE, records, none), rows)
acknowledged = sum(map(len, records.values()))
compat.check("commits beside the replication", acknowledged > 20, True)
print(f"litestream: ok ({compat.STRATEGY}, Litestream {os.environ['LITESTREAM_VERSION']}: {acknowledged} commits acknowledged, "
      f"{SYNC_POINTS + 1} restores, nothing missing)")
