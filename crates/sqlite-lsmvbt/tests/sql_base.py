"""What the cases of `sql.py` share: connections, answers, and what has to hold or to fail."""

import sqlite3


def connect(path, engine="lsmvbt", **how):
    how.setdefault("isolation_level", None)
    parameters = f"?engine={engine}" if engine else ""
    db = sqlite3.connect(f"file:{path}{parameters}", uri=True, **how)
    if engine == "sqlite":
        db.execute("PRAGMA synchronous=OFF")
    return db


def rows(db, sql, *values):
    return db.execute(sql, values).fetchall()


def one(db, sql, *values):
    return db.execute(sql, values).fetchone()[0]


def is_lsmvbt(path):
    with open(path, "rb") as file:
        return file.read(16) == b"Oneflush mvbt 1\n"


def sound(db, schema="main"):
    found = rows(db, f"PRAGMA {schema}.integrity_check")
    assert found == [("ok",)], found


def fails(kind, text, call, *arguments):
    try:
        call(*arguments)
    except kind as error:
        assert text in str(error), error
        return error
    raise AssertionError(f"nothing failed with {text}")
