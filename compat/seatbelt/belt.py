"""What the programs of this case share: a connection by a mode and by the library of this Python,
the rows that are written, and what must hold of them at the end.

A mode is `stock`, SQLite's own VFS, or the name of a strategy. The library is APSW where there is
one, else Python's own sqlite3. SEATBELT_URI is added to the URI of each connection of ours.
"""

import collections
import glob
import os
import random
import sqlite3
import threading
import time
import zlib

import compat

try:
    import apsw
except ImportError:
    apsw = None

LIBRARY = f"APSW {apsw.sqlite_lib_version()}" if apsw else f"sqlite3 {sqlite3.sqlite_version}"
Error = apsw.Error if apsw else sqlite3.Error
# How often each process opens and closes the files, a second; with 0 nothing may do harm.
PROBES = float(os.environ.get("SEATBELT_PROBES") or 50)
# What SQLite may never say of a database that nobody has damaged.
DAMAGE = ("CORRUPT", "NOTADB")


def uri(mode, file):
    if mode == "stock":
        return f"file:{file}?vfs=unix"
    load_extension()
    return f"file:{file}?vfs=oneflush&strategy={mode}{os.environ.get('SEATBELT_URI', '')}"


def connect(mode, file, timeout=2.0):
    if not apsw:
        return sqlite3.connect(uri(mode, file), uri=True, timeout=timeout, isolation_level=None,
                               check_same_thread=False)
    flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE | apsw.SQLITE_OPEN_URI
    db = apsw.Connection(uri(mode, file), flags=flags)
    db.set_busy_timeout(int(1000 * timeout))
    return db


def load_extension():
    if not apsw:
        compat.load_extension()
    elif "oneflush" not in apsw.vfs_names():
        loader = apsw.Connection(":memory:")
        loader.enable_load_extension(True)
        loader.load_extension(os.environ["ONEFLUSH_EXTENSION_PATH"])
        loader.close()


def name_of(error):
    """As "BUSY", or "IOERR_SHMMAP"."""
    if apsw:
        name = apsw.mapping_extended_result_codes.get(getattr(error, "extendedresult", None))
        name = name or apsw.mapping_result_codes.get(getattr(error, "result", None))
    else:
        name = getattr(error, "sqlite_errorname", None)
    return name.removeprefix("SQLITE_") if name else f"{type(error).__name__}: {error}"


def probe(file):
    """Opens, reads and closes all files of the database, as `cp DATABASE*` does."""
    for name in glob.glob(glob.escape(file) + "*"):
        try:
            with open(name, "rb") as one:
                one.read(4096)
        except OSError:
            pass


class Probe(threading.Thread):
    """Does that all the time."""

    def __init__(self, file):
        super().__init__(daemon=True)
        self.file = file
        if PROBES:
            self.start()

    def run(self):
        while True:
            probe(self.file)
            time.sleep(1 / PROBES)


def payload(writer, number):
    """Up to some hundred characters, which the row's key tells."""
    checksum = zlib.crc32(f"{writer} {number}".encode())
    return f"{checksum:08x}" * (1 + checksum % 60)


def create(file, mode="stock"):
    db = connect(mode, file)
    for sql in ("PRAGMA journal_mode=WAL",
                "CREATE TABLE kept(writer INTEGER, number INTEGER, payload TEXT,"
                " PRIMARY KEY(writer, number))",
                "CREATE INDEX payloads ON kept(payload)"):
        db.execute(sql).fetchall()
    db.close()


def insert(db, writer, number):
    db.execute("INSERT INTO kept VALUES(?, ?, ?)", (writer, number, payload(writer, number)))


class Writer:
    """Commits rows, and writes the number of each that was acknowledged into the record.

    A connection lives for up to `life` rows; 0 is to the end. An error is counted, and the next row
    is for a new connection, unless it is SQLITE_BUSY.
    """

    def __init__(self, mode, file, record, writer, life=0, db=None):
        self.mode, self.file, self.writer, self.life, self.db = mode, file, writer, life, db
        self.log = os.open(record, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self.number = self.left = 0
        self.errors = collections.Counter()
        self.sees_damage = False

    def open(self):
        self.db = connect(self.mode, self.file)
        self.left = self.life and random.randint(1, self.life)
        # Small, so that checkpoints and resets of the WAL happen all the time.
        self.db.execute("PRAGMA wal_autocheckpoint=50").fetchall()
        self.db.execute("PRAGMA synchronous=NORMAL")

    def commit(self):
        self.number += 1
        try:
            if self.db is None:
                self.open()
            insert(self.db, self.writer, self.number)
        except Error as error:
            if not self.note(error).startswith("BUSY"):
                self.close()
        else:
            self.acknowledge()
            self.left -= 1
            if self.left == 0:
                self.close()

    def acknowledge(self):
        os.write(self.log, f"{self.number}\n".encode())

    def note(self, error):
        name = name_of(error)
        self.errors[name] += 1
        self.sees_damage |= name.startswith(DAMAGE)
        return name

    def close(self):
        db, self.db = self.db, None
        try:
            if db:
                db.close()
        except Error as error:
            self.note(error)


def acknowledged(record):
    with open(record) as lines:
        return [int(line) for line in lines]


def harms(mode, file, records):
    """What is wrong with the database, by the records: {writer: numbers}; nothing, if all holds."""
    try:
        found = list(rows(mode, file))
    except Error as error:
        return [f"at the end: {name_of(error)}"]
    sound, kept = found[0], found[1:]
    wrong = [] if sound == "ok" else [f"integrity_check: {sound.splitlines()[0]}"]
    keys = [(writer, number) for writer, number, _ in kept]
    wanted = {(writer, number) for writer, numbers in records.items() for number in numbers}
    lost, twice = len(wanted - set(keys)), len(keys) - len(set(keys))
    false = sum(text != payload(writer, number) for writer, number, text in kept)
    counts = ((lost, f"of {len(wanted)} rows lost"), (twice, "rows twice"), (false, "rows false"))
    return wrong + [f"{count} {what}" for count, what in counts if count]


def rows(mode, file):
    """The answer of integrity_check, then the rows of the table, as it is without its indexes."""
    db = connect(mode, file, timeout=10)
    try:
        yield compat.value(db, "PRAGMA integrity_check")
        yield from db.execute("SELECT writer, number, payload FROM kept NOT INDEXED").fetchall()
    finally:
        db.close()
