"""An application with Python's sqlite3 module: no extension, no URI; `oneflush run` does the rest."""

import json
import os
import sqlite3
import subprocess
import sys
import threading

ROWS = 20
EXPECTED = f"{ROWS}:" + ",".join(f"word {n}" for n in range(1, ROWS + 1))
SUMMARY = "SELECT count(*) || ':' || group_concat(word) FROM (SELECT word FROM item ORDER BY id)"
JOURNALS = {"wal": "wal", "delete": "rollback_journal"}


def check(what, found, expected):
    if found != expected:
        sys.exit(f"run-python: {what}: {found!r} instead of {expected!r}")


def value(db, sql):
    return db.execute(sql).fetchone()[0]


def stats(db):
    return json.loads(value(db, "PRAGMA oneflush_stats"))


def insert(file, first):
    """Every second row, on a connection of its own thread."""
    db = sqlite3.connect(file, timeout=20, isolation_level=None)
    for n in range(first, ROWS + 1, 2):
        db.execute("INSERT INTO item VALUES(?, ?)", (n, f"word {n}"))
    db.close()


def write_and_read(mode):
    file, journal = f"{mode}.db", JOURNALS[mode]
    db = sqlite3.connect(file, timeout=20)
    check("PRAGMA oneflush_strategy", value(db, "PRAGMA oneflush_strategy"), "stock")
    check("PRAGMA journal_mode", value(db, f"PRAGMA journal_mode={mode}"), mode)
    db.execute("CREATE TABLE item(id INTEGER PRIMARY KEY, word TEXT)")

    before = stats(db)
    threads = [threading.Thread(target=insert, args=(file, first)) for first in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    db.execute("INSERT INTO item VALUES(99, 'rolled back')")
    check("rows before the rollback", value(db, "SELECT count(*) FROM item"), ROWS + 1)
    db.rollback()
    after = stats(db)
    check("commits counted", after["commits"]["count"] - before["commits"]["count"], ROWS)
    for role in JOURNALS.values():
        written = after["files"][role]["write_bytes"] - before["files"][role]["write_bytes"]
        check(f"{mode}: bytes counted for {role}", written > 0, role == journal)
    check("rows", value(db, SUMMARY), EXPECTED)
    db.close()

    db = sqlite3.connect(file)
    check("strategy after the reopen", value(db, "PRAGMA oneflush_strategy"), "stock")
    check("journal mode after the reopen", value(db, "PRAGMA journal_mode"), mode)
    check("rows after the reopen", value(db, SUMMARY), EXPECTED)
    check("PRAGMA integrity_check", value(db, "PRAGMA integrity_check"), "ok")
    db.close()

    # Another process, and without what `oneflush run` put into the environment of this one.
    plain = {name: word for name, word in os.environ.items() if name != "LD_PRELOAD"}
    sql = f"PRAGMA oneflush_strategy; {SUMMARY}; PRAGMA integrity_check"
    shell = subprocess.run([os.environ["SQLITE3"], "-batch", file, sql], capture_output=True, text=True, env=plain)
    check("plain SQLite", shell.stdout + shell.stderr, f"{EXPECTED}\nok\n")


def refuse_unknown_strategy():
    """The environment variable that `--strategy` stands for, in a process that inherits the rest."""
    code = "import sqlite3; sqlite3.connect('refused.db').execute('CREATE TABLE t(a)')"
    environment = {**os.environ, "ONEFLUSH_STRATEGY": "nonsense"}
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    check("an unknown strategy was refused", child.returncode, 1)
    for words in ("environment variable ONEFLUSH_STRATEGY", '"nonsense"', "allowed: auto, stock"):
        check(f"{words} in the message {child.stderr}", words in child.stderr, True)
    check("files left by the refused open", os.path.exists("refused.db"), False)


for mode in JOURNALS:
    write_and_read(mode)
refuse_unknown_strategy()
version = ".".join(map(str, sys.version_info[:3]))
print(f"run-python: ok (SQLite {sqlite3.sqlite_version}, Python {version})")
