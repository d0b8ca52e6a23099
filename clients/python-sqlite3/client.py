"""Python's own sqlite3 module: the extension is loaded into one connection, a URI opens the database through it."""

import json
import os
import sqlite3
import subprocess
import sys

ROWS = 20
EXPECTED = f"{ROWS}:" + ",".join(f"word {n}" for n in range(1, ROWS + 1))
SUMMARY = "SELECT count(*) || ':' || group_concat(word) FROM (SELECT word FROM item ORDER BY id)"
JOURNALS = {"wal": "wal", "delete": "rollback_journal"}


def check(what, found, expected):
    if found != expected:
        sys.exit(f"python-sqlite3: {what}: {found!r} instead of {expected!r}")


def value(db, sql):
    return db.execute(sql).fetchone()[0]


def stats(db):
    return json.loads(value(db, "PRAGMA oneflush_stats"))


def connect(file):
    return sqlite3.connect(f"file:{file}?vfs=oneflush&strategy=stock", uri=True, isolation_level=None)


def write_and_read(mode):
    file, journal = f"{mode}.db", JOURNALS[mode]
    db = connect(file)
    check("PRAGMA oneflush_strategy", value(db, "PRAGMA oneflush_strategy"), "stock")
    check("PRAGMA journal_mode", value(db, f"PRAGMA journal_mode={mode}"), mode)
    db.execute("PRAGMA synchronous=FULL")
    db.execute("CREATE TABLE item(id INTEGER PRIMARY KEY, word TEXT)")

    before = stats(db)
    for n in range(1, ROWS + 1):
        db.execute("INSERT INTO item VALUES(?, ?)", (n, f"word {n}"))
    db.execute("BEGIN")
    db.execute("INSERT INTO item VALUES(99, 'rolled back')")
    check("rows before the rollback", value(db, "SELECT count(*) FROM item"), ROWS + 1)
    db.execute("ROLLBACK")
    after = stats(db)
    check("commits counted", after["commits"]["count"] - before["commits"]["count"], ROWS)
    for role in JOURNALS.values():
        written = after["files"][role]["write_bytes"] - before["files"][role]["write_bytes"]
        check(f"{mode}: bytes counted for {role}", written > 0, role == journal)
    check("rows", value(db, SUMMARY), EXPECTED)
    db.close()

    db = connect(file)
    check("strategy after the reopen", value(db, "PRAGMA oneflush_strategy"), "stock")
    check("journal mode after the reopen", value(db, "PRAGMA journal_mode"), mode)
    check("rows after the reopen", value(db, SUMMARY), EXPECTED)
    check("PRAGMA integrity_check", value(db, "PRAGMA integrity_check"), "ok")
    db.close()

    # Another process, which never heard of Oneflush.
    sql = f"PRAGMA oneflush_strategy; {SUMMARY}; PRAGMA integrity_check"
    plain = subprocess.run([os.environ["SQLITE3"], "-batch", file, sql], capture_output=True, text=True)
    check("plain SQLite", plain.stdout + plain.stderr, f"{EXPECTED}\nok\n")


def refuse_unknown_strategy():
    try:
        sqlite3.connect("file:refused.db?vfs=oneflush&strategy=nonsense", uri=True).execute("PRAGMA schema_version")
    except sqlite3.OperationalError as error:
        check("the error for an unknown strategy", str(error), "unable to open database file")
    else:
        sys.exit("python-sqlite3: an unknown strategy was accepted")
    check("files left by the refused open", os.path.exists("refused.db"), False)


loader = sqlite3.connect(":memory:")
loader.enable_load_extension(True)
loader.load_extension(os.environ["ONEFLUSH_EXTENSION_PATH"])
loader.close()
for mode in JOURNALS:
    write_and_read(mode)
refuse_unknown_strategy()
version = ".".join(map(str, sys.version_info[:3]))
print(f"python-sqlite3: ok (SQLite {sqlite3.sqlite_version}, Python {version})")
