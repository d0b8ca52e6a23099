"""What the cases share: connections with and without Oneflush, checks, and looking at a database from outside."""

import os
import sqlite3
import subprocess
import sys

CASE = os.environ.get("CASE", "compat")
STRATEGY = os.environ.get("STRATEGY", "plain")
# A strategy whose live database SQLite alone may not open.
IS_GUARDED = STRATEGY in ("eager", "waldio")
SHELL = "/usr/bin/sqlite3"
_loaded = False


def fail(what):
    sys.exit(f"{CASE}: {what}")


def check(what, found, expected):
    if found != expected:
        fail(f"{what}: {found!r} instead of {expected!r}")


def load_extension():
    """Once for a process; the VFS stays."""
    global _loaded
    if not _loaded:
        loader = sqlite3.connect(":memory:")
        loader.enable_load_extension(True)
        loader.load_extension(os.environ["ONEFLUSH_EXTENSION_PATH"])
        loader.close()
        _loaded = True


def connect(file, strategy=None, timeout=60.0, mode="rwc"):
    """Through Oneflush."""
    load_extension()
    uri = f"file:{file}?vfs=oneflush&strategy={strategy or STRATEGY}&mode={mode}"
    return sqlite3.connect(uri, uri=True, timeout=timeout, isolation_level=None)


def connect_stock(file, timeout=60.0, mode="rwc"):
    """With SQLite's own VFS."""
    return sqlite3.connect(f"file:{file}?vfs=unix&mode={mode}", uri=True, timeout=timeout, isolation_level=None)


def value(db, sql, *arguments):
    return db.execute(sql, arguments).fetchone()[0]


def shell(file, sql):
    """The answer of Debian's shell, in a process that never heard of Oneflush."""
    done = subprocess.run([SHELL, "-batch", "-cmd", ".timeout 60000", file, sql], capture_output=True, text=True)
    if done.returncode != 0:
        fail(f"{SHELL} {file} {sql!r}: {done.stderr.strip()}")
    return done.stdout.strip()


def our_shell(file, *lines):
    """The answer of `oneflush shell`, in a process of its own."""
    program = os.path.join(os.path.dirname(os.environ["ONEFLUSH_EXTENSION_PATH"]), "oneflush")
    command = [program, "shell", file, "--strategy", STRATEGY, "--", "-batch", "-cmd", ".timeout 60000", *lines]
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode != 0 or done.stderr:
        fail(f"oneflush shell {file} {lines}: exit code {done.returncode}: {done.stderr.strip()}")
    return done.stdout.strip()


def refused(file):
    """That SQLite alone does not open a live database that is guarded."""
    done = subprocess.run([SHELL, "-batch", "-cmd", ".timeout 60000", file, "SELECT count(*) FROM sqlite_schema"], capture_output=True,
                          text=True)
    check(f"{SHELL} at the live {file}", (done.returncode != 0, "not a database" in done.stderr, done.stdout), (True, True, ""))


def look(connect_by, file, sql):
    """The answer of a shell in another process at a live database: of one that never heard of Oneflush, where that is allowed."""
    if connect_by is connect_stock or not IS_GUARDED:
        return shell(file, sql)
    refused(file)
    return our_shell(file, sql)


def integrity(file):
    check(f"integrity of {file}, by stock SQLite", shell(file, "PRAGMA integrity_check"), "ok")
