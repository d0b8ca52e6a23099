"""Python's own sqlite3 module: the extension is loaded into one connection, a URI opens the database through it."""

import glob
import json
import os
import sqlite3
import subprocess
import sys

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


def check(what, found, expected):
    if found != expected:
        sys.exit(f"python-sqlite3: {what}: {found!r} instead of {expected!r}")


def value(db, sql):
    return db.execute(sql).fetchone()[0]


def stats(db):
    return json.loads(value(db, "PRAGMA oneflush_stats"))


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
    uri = f"file:{file}?vfs=oneflush&strategy={strategy}&atomic={atomic}"
    return sqlite3.connect(uri, uri=True, isolation_level=None)


def write_and_read(strategy, mode, grows, stays, files, atomic="log"):
    print(f"{strategy}, journal_mode={mode}, atomic={atomic}", flush=True)
    file = f"{strategy}-{mode}-{atomic}.db"
    db = connect(file, strategy, atomic)
    check("PRAGMA journal_mode", value(db, f"PRAGMA journal_mode={mode}"), mode)
    check("PRAGMA oneflush_strategy", value(db, "PRAGMA oneflush_strategy"), strategy)
    db.execute("PRAGMA synchronous=FULL")
    db.execute("CREATE TABLE item(id INTEGER PRIMARY KEY, word TEXT)")

    before = stats(db)
    for n in range(1, ROWS + 1):
        db.execute("INSERT INTO item VALUES(?, ?)", (n, f"word {n}"))
    db.execute("BEGIN")
    db.execute("INSERT INTO item VALUES(99, 'rolled back')")
    check("rows before the rollback", value(db, "SELECT count(*) FROM item"), ROWS + 1)
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
    check("rows", value(db, SUMMARY), EXPECTED)
    db.close()

    db = connect(file, strategy, atomic)
    check("strategy after the reopen", value(db, "PRAGMA oneflush_strategy"), strategy)
    check("journal mode after the reopen", value(db, "PRAGMA journal_mode"), mode)
    check("rows after the reopen", value(db, SUMMARY), EXPECTED)
    check("PRAGMA integrity_check", value(db, "PRAGMA integrity_check"), "ok")
    db.close()

    check("files beside the closed database", beside(file), "")
    check("plain SQLite", plain_sqlite(file), f"{EXPECTED}\nok\n")


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
for each in ROUNDS:
    write_and_read(*each)
if os.environ.get("CLIENT_F2FS"):
    write_and_read(*F2FS_ROUND)
refuse_unknown_strategy()
version = ".".join(map(str, sys.version_info[:3]))
print(f"python-sqlite3: ok (SQLite {sqlite3.sqlite_version}, Python {version})")
