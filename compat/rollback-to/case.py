"""SQLite 3.40.1 leaves frames without checksums at a commit after ROLLBACK TO, if the transaction had spilled its cache and written a page twice.

Whoever recovers the WAL does not find that commit, nor any behind it. Each scene commits so, commits once more, copies the files as a crash would leave
them, and opens the copy. SQLite alone shows whether the SQLite of this system has the fault; through Oneflush nothing may be missing.
"""

import itertools
import os
import shutil
import sqlite3

import compat

MARK = b"x" * 300


def commit(db, changed_before, changed_after, twice):
    """The savepoint spills rows from `changed_before` on, then writes the others over; after it is taken back, rows below `changed_after` change."""
    db.execute("PRAGMA cache_size=10")
    db.execute("BEGIN")
    db.execute("SAVEPOINT s")
    db.execute("UPDATE t SET b = randomblob(300) WHERE a >= ?", (changed_before,))
    for _ in range(2):
        db.execute("UPDATE t SET b = randomblob(300) WHERE a < ?", (changed_before,))
    db.execute("ROLLBACK TO s")
    for _ in range(2 if twice else 1):
        db.execute("UPDATE t SET b = ? WHERE a < ?", (MARK, changed_after))
    db.execute("COMMIT")
    db.execute("INSERT INTO t VALUES (1000, 'later')")


def play(name, connect, exclusive, synchronous, *of_commit):
    """What the live database and the copy say."""
    os.mkdir(name)
    live, copy = f"{name}/live.db", f"{name}/copy"
    db = connect(live)
    for pragma in ("page_size=512", f"locking_mode={exclusive}", "journal_mode=WAL", f"synchronous={synchronous}", "wal_autocheckpoint=0"):
        db.execute(f"PRAGMA {pragma}").fetchall()
    db.execute("CREATE TABLE t (a INTEGER PRIMARY KEY, b)")
    db.execute("WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 200) INSERT INTO t SELECT i, zeroblob(300) FROM n")
    commit(db, *of_commit)
    os.mkdir(copy)
    for file in os.listdir(name):
        if os.path.isfile(f"{name}/{file}") and not file.endswith("-shm"):
            shutil.copy(f"{name}/{file}", f"{copy}/{file}")
    looks = []
    for look in (db, connect(f"{copy}/live.db")):
        rows = compat.value(look, "SELECT count(*) FROM t WHERE b = ?", MARK)
        later = compat.value(look, "SELECT count(*) FROM t WHERE a = 1000")
        looks.append((rows, later, compat.value(look, "PRAGMA integrity_check")))
        look.close()
    return looks


# With NORMAL, what eager has committed does not outlive a loss of power, and a copy of the files is one.
synchronous = ["FULL"] if compat.IS_GUARDED else ["FULL", "NORMAL"]
scenes = list(itertools.product(["NORMAL", "EXCLUSIVE"], synchronous, [50, 100, 190], [5, 30, 200], [False, True]))
lost_alone = 0
for at, scene in enumerate(scenes):
    live, copy = play(f"stock-{at}", compat.connect_stock, *scene)
    lost_alone += live != copy
    live, copy = play(f"ours-{at}", compat.connect, *scene)
    compat.check(f"{scene}: live", live, (scene[3] - 1, 1, "ok"))
    compat.check(f"{scene}: after a crash", copy, live)
has_fault = sqlite3.sqlite_version_info == (3, 40, 1)
if has_fault and not lost_alone:
    compat.fail("SQLite alone has lost nothing, so this shows nothing")
print(f"{compat.CASE}: ok (SQLite {sqlite3.sqlite_version}, {len(scenes)} scenes; alone it lost commits in {lost_alone})")
