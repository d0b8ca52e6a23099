"""APSW, with its own SQLite inside. It shows SQLite's error log, so a refused open is checked word by word here."""

import glob
import json
import os
import subprocess
import sys

import apsw

ROWS = 20
EXPECTED = f"{ROWS}:" + ",".join(f"word {n}" for n in range(1, ROWS + 1))
SUMMARY = "SELECT count(*) || ':' || group_concat(word) FROM (SELECT word FROM item ORDER BY id)"
# Numbers of PRAGMA oneflush_stats. `files` counts what SQLite writes, wherever the strategy puts it.
WAL, JOURNAL = "files.wal.write_bytes", "files.rollback_journal.write_bytes"
# Strategy, journal mode, a number that grows, a number that stays, the files beside the open database.
ROUNDS = (
    ("stock", "wal", WAL, JOURNAL, "-shm -wal"),
    ("stock", "delete", JOURNAL, WAL, "-journal"),
    ("eager", "wal", "eager.log.logged_bytes", JOURNAL, "-oneflush -oneflush-shm -oneflush-wal -shm"),
    ("waldio", "wal", WAL, JOURNAL, "-oneflush-shm -shm -waldio"),
    ("maw", "delete", "maw.log.logged_bytes", "maw.ordinary", "-maw -oneflush-shm"),
)
# The same with F2FS's atomic write, where CLIENT_F2FS says that the folder is on F2FS. Two numbers stay.
F2FS_ROUND = ("maw", "delete", "maw.atomic", "maw.ordinary maw.log.logged_bytes", "", "f2fs")
FLAGS = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE | apsw.SQLITE_OPEN_URI


def check(what, found, expected):
    if found != expected:
        sys.exit(f"python-apsw: {what}: {found!r} instead of {expected!r}")


def stats(db):
    return json.loads(db.pragma("oneflush_stats"))


def growth(before, after, path):
    for name in path.split("."):
        before, after = before[name], after[name]
    return after - before


def beside(file):
    return " ".join(sorted(name.removeprefix(file) for name in glob.glob(f"{file}-*")))


def plain_sqlite(file):
    """Another process, which never heard of Oneflush."""
    sql = f"PRAGMA oneflush_strategy; {SUMMARY}; PRAGMA integrity_check"
    shell = subprocess.run([os.environ["SQLITE3"], "-batch", file, sql], capture_output=True, text=True)
    return shell.stdout + shell.stderr


def connect(file, strategy, atomic):
    # Without `atomic=log` there would be no log on F2FS. The other strategies do not care.
    return apsw.Connection(f"file:{file}?vfs=oneflush&strategy={strategy}&atomic={atomic}", flags=FLAGS)


def write_and_read(strategy, mode, grows, stays, files, atomic="log"):
    print(f"{strategy}, journal_mode={mode}, atomic={atomic}", flush=True)
    file = f"{strategy}-{mode}-{atomic}.db"
    db = connect(file, strategy, atomic)
    check("PRAGMA journal_mode", db.pragma("journal_mode", mode), mode)
    check("PRAGMA oneflush_strategy", db.pragma("oneflush_strategy"), strategy)
    db.pragma("synchronous", "FULL")
    db.execute("CREATE TABLE item(id INTEGER PRIMARY KEY, word TEXT)")

    before = stats(db)
    for n in range(1, ROWS + 1):
        db.execute("INSERT INTO item VALUES(?, ?)", (n, f"word {n}"))
    db.execute("BEGIN")
    db.execute("INSERT INTO item VALUES(99, 'rolled back')")
    check("rows before the rollback", db.execute("SELECT count(*) FROM item").get, ROWS + 1)
    check("files beside the open database", beside(file), files)
    is_plain = strategy == "stock" or atomic == "f2fs"
    meanwhile = EXPECTED if is_plain else "file is not a database"
    answer = plain_sqlite(file)
    check(f"{meanwhile} from plain SQLite meanwhile: {answer}", meanwhile in answer, True)
    db.execute("ROLLBACK")
    after = stats(db)
    check("commits counted", after["commits"]["count"] - before["commits"]["count"], ROWS)
    for number in (grows, *stays.split()):
        check(f"growth of {number}", growth(before, after, number) > 0, number == grows)
    check("rows", db.execute(SUMMARY).get, EXPECTED)
    db.close()

    db = connect(file, strategy, atomic)
    check("strategy after the reopen", db.pragma("oneflush_strategy"), strategy)
    check("journal mode after the reopen", db.pragma("journal_mode"), mode)
    check("rows after the reopen", db.execute(SUMMARY).get, EXPECTED)
    check("PRAGMA integrity_check", db.pragma("integrity_check"), "ok")
    db.close()

    check("files beside the closed database", beside(file), "")
    check("plain SQLite", plain_sqlite(file), f"{EXPECTED}\nok\n")


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
for each in ROUNDS:
    write_and_read(*each)
if os.environ.get("CLIENT_F2FS"):
    write_and_read(*F2FS_ROUND)
refuse_unknown_strategy()
print(f"python-apsw: ok (SQLite {apsw.sqlite_lib_version()}, apsw {apsw.apsw_version()})")
