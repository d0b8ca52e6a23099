"""The program of the example fleet's devices: app.py FOLDER MODE SEED COMMITS [--neighbour].

It has three databases in this journal mode, and commits some 20 times a second. With `--neighbour`
another process writes and synchronizes a log on the same file system, so that commits wait.
"""

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time

# Share of the commits, and bytes of a row.
DATABASES = {"telemetry.db": (0.6, 120), "messages.db": (0.3, 900), "settings.db": (0.1, 40)}
PAUSE_S = 0.05
# Of a database. So few that a recording of some seconds has checkpoints.
CHECKPOINT_COMMITS = 8
LOG_BYTES = 32 << 20


def write_log(path: str) -> None:
    """Until it is ended."""
    with open(path, "wb", buffering=0) as log:
        while True:
            log.seek(0)
            log.write(os.urandom(LOG_BYTES))
            os.fsync(log.fileno())


def work(folder: str, mode: str, seed: int, commits: int) -> None:
    draw = random.Random(seed)
    connections = {}
    for name in DATABASES:
        connection = sqlite3.connect(os.path.join(folder, name), isolation_level=None)
        connection.execute(f"PRAGMA journal_mode = {mode}")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("CREATE TABLE rows (id INTEGER PRIMARY KEY, name TEXT, content BLOB)")
        connection.execute("CREATE INDEX by_name ON rows (name)")
        connections[name] = connection
    shares = [share for share, _ in DATABASES.values()]
    counts = dict.fromkeys(DATABASES, 0)
    for _ in range(commits):
        time.sleep(PAUSE_S * draw.uniform(0.5, 1.5))
        name = draw.choices(list(DATABASES), shares)[0]
        content = draw.randbytes(int(DATABASES[name][1] * draw.uniform(0.5, 1.5)))
        row = (f"row {draw.randrange(10**6)}", content)
        connections[name].execute("INSERT INTO rows (name, content) VALUES (?, ?)", row)
        counts[name] += 1
        if mode == "WAL" and counts[name] % CHECKPOINT_COMMITS == 0:
            connections[name].execute("PRAGMA wal_checkpoint")
    for connection in connections.values():
        connection.close()


def main(arguments: list[str]) -> None:
    if arguments[0] == "--log":
        write_log(arguments[1])
    # The neighbour ends, too, when this program is asked to end.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    folder, mode, seed, commits = arguments[:4]
    log = os.path.join(folder, "neighbour.log")
    command = [sys.executable, __file__, "--log", log]
    neighbour = subprocess.Popen(command) if "--neighbour" in arguments else None
    try:
        work(folder, mode, int(seed), int(commits))
    finally:
        if neighbour:
            neighbour.kill()
            neighbour.wait()


if __name__ == "__main__":
    main(sys.argv[1:])
