"""A file system without space left, in the middle of a commit."""

import os
import sqlite3
import subprocess

import compat
from scenes import main, scene

MIB = 1 << 20
ROWS_A_TRANSACTION = 20


def mount_tmpfs():
    os.mkdir("disk")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "none", "disk"], check=True)


def mount_ext4():
    os.mkdir("disk")
    with open("image", "wb") as image:
        image.truncate(16 * MIB)
    subprocess.run(["mkfs.ext4", "-q", "-b", "4096", "-m", "0", "-J", "size=4", "image"], check=True)
    subprocess.run(["mount", "-o", "loop", "image", "disk"], check=True)


def commit(db):
    db.execute("BEGIN")
    try:
        for _ in range(ROWS_A_TRANSACTION):
            db.execute("INSERT INTO item(word) VALUES(hex(randomblob(1500)))")
        db.execute("COMMIT")
    except sqlite3.Error:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


def fill(db):
    """Commits until one fails; says how many did not, and how that one failed."""
    for commits in range(10_000):
        try:
            commit(db)
        except sqlite3.Error as error:
            return commits, error.sqlite_errorname
    compat.fail("the disk did not become full")


def there(db, commits, who):
    compat.check(f"rows, {who}", compat.value(db, "SELECT count(*) FROM item"), commits * ROWS_A_TRANSACTION)
    compat.check(f"integrity, {who}", compat.value(db, "PRAGMA integrity_check"), "ok")


def occupy(name, size):
    with open(name, "wb") as file:
        file.write(bytes(size))
        os.fsync(file.fileno())


def play(connect, autocheckpoint):
    os.chdir("disk")
    occupy("ballast", 3 * MIB)
    # With a strategy that has a log the last close needs room in the database file for all that was committed.
    place = os.statvfs(".")
    occupy("room for the close", place.f_bavail * place.f_bsize // 2)
    db = connect("a.db")
    compat.check("journal mode", compat.value(db, "PRAGMA journal_mode=WAL"), "wal")
    db.execute("PRAGMA synchronous=FULL")
    db.execute(f"PRAGMA wal_autocheckpoint={autocheckpoint}")
    db.execute("CREATE TABLE item(id INTEGER PRIMARY KEY, word TEXT)")
    commits, error = fill(db)
    compat.check("the error of the commit that had no space", error, "SQLITE_FULL")
    there(db, commits, "on the connection whose commit failed")
    again = fill(db)
    compat.check("the error of the next commit", again[1], "SQLITE_FULL")
    commits += again[0]
    compat.check("rows, by the shell, while the disk is full", compat.look(connect, "a.db", "SELECT count(*) FROM item"),
                 str(commits * ROWS_A_TRANSACTION))
    os.unlink("ballast")
    for _ in range(3):
        commit(db)
    commits += 3
    there(db, commits, "when there was space again")
    os.unlink("room for the close")
    db.close()
    db = connect("a.db")
    there(db, commits, "after a reopen")
    db.close()
    compat.integrity("a.db")
    os.chdir("..")
    subprocess.run(["umount", "disk"], check=True)
    return {"commits before the disk was full": commits - 3}


@scene
def full_tmpfs_without_checkpoints(connect):
    mount_tmpfs()
    return play(connect, 0)


@scene
def full_tmpfs_with_checkpoints(connect):
    mount_tmpfs()
    return play(connect, 200)


@scene
def full_ext4_without_checkpoints(connect):
    mount_ext4()
    return play(connect, 0)


@scene
def full_ext4_with_checkpoints(connect):
    mount_ext4()
    return play(connect, 200)


@scene
def full_disk_before_the_first_commit(connect):
    """No space at all for a WAL: the database that was there stays as it was."""
    mount_tmpfs()
    os.chdir("disk")
    stock = compat.connect_stock("a.db")
    stock.execute("PRAGMA journal_mode=WAL")
    stock.execute("CREATE TABLE item(id INTEGER PRIMARY KEY, word TEXT)")
    commit(stock)
    stock.close()
    db = connect("a.db")
    there(db, 1, "before")
    with open("ballast", "wb", buffering=0) as ballast:
        try:
            while ballast.write(bytes(4096)):
                pass
        except OSError:
            pass
    _, error = fill(db)
    there(db, 1, "while the disk is full")
    os.unlink("ballast")
    commit(db)
    there(db, 2, "when there was space again")
    db.close()
    compat.integrity("a.db")
    os.chdir("..")
    return {"the error": error}


main()
