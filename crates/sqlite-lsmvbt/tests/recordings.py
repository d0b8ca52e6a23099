"""What two apps did with SQLite, on the drop-in library: LD_LIBRARY_PATH=… python3 recordings.py DATA FOLDER.

DATA has a folder for each app: loading.sql makes the tables, 0.sql and 1.sql are what two threads
then did at the same time. One statement a line."""

import hashlib
import sqlite3
import sys
import threading

APPS = ["facebook", "twitter"]


def connect(path, engine):
    db = sqlite3.connect(f"file:{path}?engine={engine}", uri=True, isolation_level=None, timeout=60)
    db.execute("PRAGMA synchronous=OFF")
    mode = db.execute("PRAGMA journal_mode").fetchone()[0]
    assert (mode == "lsmvbt") == (engine == "lsmvbt"), mode
    return db


def statements(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return [line for line in file.read().split("\n") if line.strip(" ;\r")]


def run(path, engine, lines):
    """The errors, in order."""
    db = connect(path, engine)
    failed = []
    for line in lines:
        try:
            db.execute(line).fetchall()
        except (sqlite3.Error, sqlite3.Warning) as error:
            failed.append(str(error))
    if db.in_transaction:
        db.execute("COMMIT")
    db.close()
    return failed


def contents(path, engine):
    db = connect(path, engine)
    found = db.execute("PRAGMA integrity_check").fetchall()
    assert found == [("ok",)], found
    tables = db.execute("SELECT name, sql FROM sqlite_schema ORDER BY type, name").fetchall()
    digest = hashlib.sha256(repr(tables).encode())
    count = 0
    for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type='table' ORDER BY name").fetchall():
        rows = sorted(map(repr, db.execute(f'SELECT * FROM "{name}"')))
        count += len(rows)
        digest.update(repr((name, rows)).encode())
    db.close()
    return count, digest.hexdigest()


def one_after_the_other(path, engine, parts):
    return [run(path, engine, part) for part in parts]


def at_once(path, engine, loading, workers):
    assert run(path, engine, loading) == []
    failed = [None] * len(workers)

    def work(index):
        failed[index] = run(path, engine, workers[index])

    threads = [threading.Thread(target=work, args=(index,)) for index in range(len(workers))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return failed


def main(data, folder):
    for app in APPS:
        parts = [statements(f"{data}/{app}/{name}.sql") for name in ("loading", "0", "1")]
        results = []
        for engine in ("sqlite", "lsmvbt"):
            path = f"{folder}/{app}-{engine}"
            failed = one_after_the_other(path, engine, parts)
            results.append((failed, contents(path, engine)))
        assert results[0] == results[1], f"{app}: the engines differ: {results}"
        failed, (count, _) = results[1]
        errors = sum(map(len, failed))
        path = f"{folder}/{app}-at-once"
        together = at_once(path, "lsmvbt", parts[0], parts[1:])
        locked = [text for worker in together for text in worker if "locked" in text]
        assert locked == [], f"{app}: somebody gave up for a lock: {locked}"
        contents(path, "lsmvbt")
        print(f"{app}: {sum(map(len, parts))} statements, {errors} errors on both, {count} rows")


main(*sys.argv[1:])
