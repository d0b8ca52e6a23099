"""How a scene is named, started and ended; and what all of them do with a database."""

import json
import os
import sqlite3
import sys

import compat

ROWS = 20
_scenes = {}


def scene(function):
    """The function's name, with - for _, is the scene's. It gets `connect(file, **options)` and returns its observations."""
    _scenes[function.__name__.replace("_", "-")] = function
    return function


def attempt(action):
    """"ok" or the name of SQLite's error."""
    try:
        action()
    except sqlite3.Error as error:
        return getattr(error, "sqlite_errorname", None) or str(error)
    return "ok"


def tried(connect, file, sql, **options):
    """The answer of one statement on a connection of its own: its value, or the name of SQLite's error."""
    try:
        db = connect(file, **options)
        try:
            row = db.execute(sql).fetchone()
            return row[0] if row else "ok"
        finally:
            db.close()
    except sqlite3.Error as error:
        return getattr(error, "sqlite_errorname", None) or str(error)


def create(db, journal="wal"):
    compat.check("journal mode", compat.value(db, f"PRAGMA journal_mode={journal}"), journal)
    db.execute("PRAGMA synchronous=FULL")
    db.execute("CREATE TABLE item(id INTEGER PRIMARY KEY, word TEXT)")
    db.execute("CREATE INDEX words ON item(word)")
    insert(db, ROWS)


def insert(db, rows):
    for _ in range(rows):
        db.execute("INSERT INTO item(word) SELECT 'word ' || (count(*) + 1) FROM item")


def sound(db, rows, who):
    compat.check(f"rows, {who}", compat.value(db, "SELECT count(*) FROM item"), rows)
    compat.check(f"integrity, {who}", compat.value(db, "PRAGMA integrity_check"), "ok")


def sound_when_reopened(connect, file, rows):
    """The connection is closed: Python would keep it until its garbage is collected."""
    db = connect(file)
    sound(db, rows, f"{file}, after a reopen")
    db.close()


def main():
    if sys.argv[1:] == ["list"]:
        print("\n".join(_scenes))
        return
    name, who, folder = sys.argv[1:]
    compat.load_extension()
    os.chdir(folder)
    print(json.dumps(_scenes[name](compat.connect if who == "ours" else compat.connect_stock)))
