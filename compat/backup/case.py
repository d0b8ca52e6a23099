"""Copies of the live database, by each way that SQLite has, while two processes write through Oneflush.

A copy is a snapshot: sound, each writer's rows from 1 without a gap, nothing missing of what was acknowledged before the copying
began.
"""

import sqlite3
import subprocess

import compat
import written

FILE = "live.db"
WRITERS = 2
ROUNDS = 3


def vacuum_into(connect, copy):
    db = connect(FILE)
    db.execute(f"VACUUM INTO '{copy}'")
    db.close()


def online_backup(pages):
    def back_up(connect, copy):
        source, target = connect(FILE), compat.connect_stock(copy)
        source.backup(target, pages=pages, sleep=0.001)
        source.close()
        target.close()
    return back_up


def into_a_database_of_ours(connect, copy):
    """The target, too, is one of our files; a WAL database, as the source is."""
    source, target = connect(FILE), compat.connect(copy)
    source.backup(target)
    source.close()
    target.close()


def by_shell(connect, line):
    return compat.our_shell(FILE, line) if connect is compat.connect else compat.shell(FILE, line)


def shell_backup(connect, copy):
    """What people have in their scripts."""
    compat.check("what .backup says", by_shell(connect, f".backup {copy}"), "")


def shell_dump(connect, copy):
    with open(copy + ".sql", "w") as dump:
        dump.write(by_shell(connect, ".dump"))
    with open(copy + ".sql") as dump:
        subprocess.run([compat.SHELL, "-batch", copy], stdin=dump, check=True)


WAYS = {
    "vacuum-into": vacuum_into,
    "backup-api": online_backup(-1),
    # In steps, between which writers commit: then SQLite begins anew, so the steps are not too small.
    "backup-api-in-steps": online_backup(1000),
    "backup-api-into-ours": into_a_database_of_ours,
    "shell-backup": shell_backup,
    "shell-dump": shell_dump,
}

WHO = [("ours", compat.connect)]
if not compat.IS_GUARDED:
    WHO.append(("stock", compat.connect_stock))

written.create(FILE, WRITERS)
writers = [written.Writer(number, compat.STRATEGY, ".", FILE) for number in range(WRITERS)]
copies = rows = 0
try:
    written.wait_for_all(writers)
    if compat.IS_GUARDED:
        compat.refused(FILE)
    for turn in range(ROUNDS):
        for who, connect in WHO:
            for name, copy_by in WAYS.items():
                before = written.records(writers)
                copy = f"{name}-by-{who}-{turn}.db"
                copy_by(connect, copy)
                rows = written.check_holds(copy, before)
                compat.integrity(copy)
                copies += 1
finally:
    for writer in writers:
        writer.process.kill()
for writer in writers:
    writer.kill()
records = written.records(writers)
acknowledged = sum(map(len, records.values()))
if compat.IS_GUARDED:
    # The first to open it recovers it, and leaves a plain file.
    written.check_holds(FILE, records, strategy=compat.STRATEGY)
written.check_holds(FILE, records, {writer.number: writer.kills for writer in writers})
compat.check("commits beside the copies", acknowledged > copies, True)
print(f"backup: ok ({compat.STRATEGY}, SQLite {sqlite3.sqlite_version}: {copies} copies in {len(WAYS)} ways, the last with {rows} "
      f"rows, beside {acknowledged} commits)")
