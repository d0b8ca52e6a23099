"""APSW, with its own SQLite inside. It shows SQLite's error log, so a refused open is checked word by word here."""

import json
import os
import subprocess
import sys

import apsw

ROWS = 20
EXPECTED = f"{ROWS}:" + ",".join(f"word {n}" for n in range(1, ROWS + 1))
SUMMARY = "SELECT count(*) || ':' || group_concat(word) FROM (SELECT word FROM item ORDER BY id)"
JOURNALS = {"wal": "wal", "delete": "rollback_journal"}
FLAGS = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE | apsw.SQLITE_OPEN_URI


def check(what, found, expected):
    if found != expected:
        sys.exit(f"python-apsw: {what}: {found!r} instead of {expected!r}")


def stats(db):
    return json.loads(db.pragma("oneflush_stats"))


def connect(file):
    return apsw.Connection(f"file:{file}?vfs=oneflush&strategy=stock", flags=FLAGS)


def write_and_read(mode):
    file, journal = f"{mode}.db", JOURNALS[mode]
    db = connect(file)
    check("PRAGMA oneflush_strategy", db.pragma("oneflush_strategy"), "stock")
    check("PRAGMA journal_mode", db.pragma("journal_mode", mode), mode)
    db.pragma("synchronous", "FULL")
    db.execute("CREATE TABLE item(id INTEGER PRIMARY KEY, word TEXT)")

    before = stats(db)
    for n in range(1, ROWS + 1):
        db.execute("INSERT INTO item VALUES(?, ?)", (n, f"word {n}"))
    db.execute("BEGIN")
    db.execute("INSERT INTO item VALUES(99, 'rolled back')")
    check("rows before the rollback", db.execute("SELECT count(*) FROM item").get, ROWS + 1)
    db.execute("ROLLBACK")
    after = stats(db)
    check("commits counted", after["commits"]["count"] - before["commits"]["count"], ROWS)
    for role in JOURNALS.values():
        written = after["files"][role]["write_bytes"] - before["files"][role]["write_bytes"]
        check(f"{mode}: bytes counted for {role}", written > 0, role == journal)
    check("rows", db.execute(SUMMARY).get, EXPECTED)
    db.close()

    db = connect(file)
    check("strategy after the reopen", db.pragma("oneflush_strategy"), "stock")
    check("journal mode after the reopen", db.pragma("journal_mode"), mode)
    check("rows after the reopen", db.execute(SUMMARY).get, EXPECTED)
    check("PRAGMA integrity_check", db.pragma("integrity_check"), "ok")
    db.close()

    # Another process, which never heard of Oneflush.
    sql = f"PRAGMA oneflush_strategy; {SUMMARY}; PRAGMA integrity_check"
    plain = subprocess.run([os.environ["SQLITE3"], "-batch", file, sql], capture_output=True, text=True)
    check("plain SQLite", plain.stdout + plain.stderr, f"{EXPECTED}\nok\n")


def refuse_unknown_strategy():
    log.clear()
    try:
        apsw.Connection("file:refused.db?vfs=oneflush&strategy=nonsense", flags=FLAGS)
    except apsw.CantOpenError:
        pass
    else:
        sys.exit("python-apsw: an unknown strategy was accepted")
    for words in ("URI parameter strategy", '"nonsense"', "allowed: auto, stock"):
        check(f"{words} in SQLite's error log {log}", any(words in line for line in log), True)
    check("files left by the refused open", os.path.exists("refused.db"), False)


log = []
apsw.config(apsw.SQLITE_CONFIG_LOG, lambda code, line: log.append(line))
loader = apsw.Connection(":memory:")
loader.enable_load_extension(True)
loader.load_extension(os.environ["ONEFLUSH_EXTENSION_PATH"])
loader.close()
check("VFSes", "oneflush" in apsw.vfs_names(), True)
for mode in JOURNALS:
    write_and_read(mode)
refuse_unknown_strategy()
print(f"python-apsw: ok (SQLite {apsw.sqlite_lib_version()}, apsw {apsw.apsw_version()})")
