"""Random SQL on both engines at once, whose answers are compared: random_sql.py FOLDER SEED STEPS."""

import random
import sqlite3
import sys


def connect(folder, engine):
    db = sqlite3.connect(f"file:{folder}/{engine}?engine={engine}", uri=True, isolation_level=None, cached_statements=0)
    db.execute("PRAGMA synchronous=OFF")
    db.execute("PRAGMA recursive_triggers=ON")
    return db


def value(rng):
    kind = rng.randrange(12)
    if kind < 4:
        return str(rng.randrange(60))
    if kind < 6:
        return f"'{chr(97 + rng.randrange(26)) * rng.choice((1, 2, 5, 40, 300))}'"
    if kind == 6:
        return f"zeroblob({rng.choice((0, 10, 5000, 70000))})"
    if kind == 7:
        return f"'{rng.choice(('A', 'a', 'B', 'b')) * rng.choice((3, 3000, 9000))}'"
    if kind == 8:
        return "NULL"
    if kind == 9:
        return f"{rng.randrange(100) / 7}"
    if kind == 10:
        return f"x'{rng.randbytes(rng.choice((1, 30, 900))).hex()}'"
    return str(rng.randrange(-(2 ** 62), 2 ** 62))


def where(rng, key):
    kind = rng.randrange(6)
    low = rng.randrange(60)
    if kind == 0:
        return f"{key} = {value(rng)}"
    if kind == 1:
        return f"{key} BETWEEN {low} AND {low + rng.randrange(30)}"
    if kind == 2:
        return f"{key} > {value(rng)}"
    if kind == 3:
        return f"{key} < {value(rng)}"
    if kind == 4:
        return f"b = {value(rng)}"
    return f"c > {value(rng)} AND {key} < {low}"


def statement(rng, depth):
    """A statement, and how many savepoints are open behind it."""
    table, key = rng.choice((("t", "a"), ("w", "a"), ("u", "rowid")))
    word = rng.choice(("INSERT", "INSERT", "REPLACE", "INSERT OR IGNORE", "INSERT OR FAIL", "INSERT OR ROLLBACK"))
    kind = rng.randrange(100)
    if kind < 30:
        rows = ",".join(f"({value(rng)},{value(rng)},{value(rng)})" for _ in range(rng.choice((1, 1, 3, 20))))
        return f"{word} INTO {table}(a,b,c) VALUES{rows}", depth
    if kind < 36:
        return (f"INSERT INTO {table}(a,b,c) VALUES({value(rng)},{value(rng)},{value(rng)}) "
                f"ON CONFLICT DO UPDATE SET c = excluded.c, b = b || 'x'"), depth
    if kind < 44:
        return f"DELETE FROM {table} WHERE {where(rng, key)}", depth
    if kind < 54:
        column = rng.choice("abc")
        how = rng.choice(("UPDATE", "UPDATE OR REPLACE", "UPDATE OR IGNORE", "UPDATE OR FAIL"))
        new = rng.choice((value(rng), f"{column} + 1", f"{column} || 'y'", "substr(b, 1, 5)"))
        return f"{how} {table} SET {column} = {new} WHERE {where(rng, key)}", depth
    if kind < 60:
        other = rng.choice("twu")
        return f"{word} INTO {table}(a,b,c) SELECT a, c, b FROM {other} WHERE {where(rng, 'a')} ORDER BY 1, 2, 3", depth
    if kind < 72:
        order = rng.choice(("", "ORDER BY 1", "ORDER BY b, 1", "ORDER BY c DESC, 1", "ORDER BY 1 DESC"))
        return f"SELECT {key}, a, b, c FROM {table} WHERE {where(rng, key)} {order or 'ORDER BY 1'}", depth
    if kind < 76:
        return f"SELECT count(*), sum(length(b)), max(a), min(c) FROM {table}", depth
    if kind < 82:
        return f"SAVEPOINT s{depth}", depth + 1
    if kind < 86:
        return f"ROLLBACK TO s{rng.randrange(depth) if depth else 0}", depth
    if kind < 90:
        return f"RELEASE s{rng.randrange(depth) if depth else 0}", depth
    if kind < 93:
        return "BEGIN", depth
    if kind < 96:
        return "COMMIT", 0
    if kind < 97:
        return "ROLLBACK", 0
    return rng.choice((
        "VACUUM", f"DELETE FROM {table}", "PRAGMA integrity_check", "REINDEX", "ANALYZE",
        "CREATE INDEX IF NOT EXISTS extra ON t(c, b)", "DROP INDEX IF EXISTS extra",
        "CREATE TABLE IF NOT EXISTS later(x PRIMARY KEY, y) WITHOUT ROWID", "DROP TABLE IF EXISTS later",
        "INSERT INTO later SELECT a, b FROM t WHERE a IS NOT NULL")), depth


def answer(db, sql):
    try:
        return db.execute(sql).fetchall()
    except sqlite3.Error as error:
        return f"{type(error).__name__}: {error}"


SCHEMA = """
    CREATE TABLE t(a INTEGER PRIMARY KEY, b, c);
    CREATE INDEX tb ON t(b); CREATE INDEX tcb ON t(c DESC, b COLLATE NOCASE);
    CREATE TABLE w(a, b COLLATE NOCASE, c, PRIMARY KEY(b, a)) WITHOUT ROWID;
    CREATE UNIQUE INDEX wc ON w(c, a);
    CREATE TABLE u(a UNIQUE, b, c UNIQUE);
    CREATE TABLE log(n INTEGER PRIMARY KEY, what);
    CREATE TRIGGER ti AFTER DELETE ON u WHEN old.a IS NOT NULL BEGIN INSERT INTO log(what) VALUES(old.a); END;
    CREATE TRIGGER tu AFTER UPDATE ON t WHEN new.c > 50 BEGIN DELETE FROM log WHERE what = new.a; END;
"""


def compare(folder, seed, steps):
    rng = random.Random(seed)
    pair = [connect(folder, engine) for engine in ("lsmvbt", "sqlite")]
    for db in pair:
        db.executescript(SCHEMA)
    depth, done, readers = 0, [], []
    for step in range(steps):
        if rng.randrange(8) == 0 and len(readers) < 4:
            # None of a WITHOUT ROWID table: the stock cursor looks for a saved record by one field more
            # than the key has, and meets a row again that was changed under it.
            table, key = rng.choice((("t", "a"), ("u", "rowid"), ("t", "b"), ("u", "c")))
            sql = f"SELECT a, b, c FROM {table} ORDER BY {key} {rng.choice(('', 'DESC'))}"
            readers.append([db.execute(sql) for db in pair])
            done.append(f"-- a reader of {sql}")
        if readers and rng.randrange(3) == 0:
            index = rng.randrange(len(readers))
            count = rng.choice((1, 3, 1000))
            try:
                fetched = [reader.fetchmany(count) for reader in readers[index]]
            except sqlite3.Error:
                fetched = []
                for reader in readers[index]:
                    try:
                        fetched.append(reader.fetchmany(count))
                    except sqlite3.Error as error:
                        fetched.append(str(error))
                fetched = []
            done.append(f"-- fetched {count} of reader {index}")
            assert not fetched or fetched[0] == fetched[1], (seed, step, done[-30:], fetched)
            if rng.randrange(2) == 0 or not fetched or len(fetched[0]) < count:
                for reader in readers.pop(index):
                    reader.close()
        sql, depth = statement(rng, depth)
        answers = [answer(db, sql) for db in pair]
        done.append(sql[:300])
        assert answers[0] == answers[1], (seed, step, done[-30:], answers[0][:400], answers[1][:400])
        assert pair[0].in_transaction == pair[1].in_transaction, (seed, step, done[-30:])
        if not pair[0].in_transaction:
            depth = 0
    for db in pair:
        for reader in readers:
            reader[pair.index(db)].close()
        if db.in_transaction:
            db.execute("COMMIT")
        assert answer(db, "PRAGMA integrity_check") == [("ok",)], (seed, answer(db, "PRAGMA integrity_check"))
    for table in "t", "w", "u", "log":
        answers = [answer(db, f"SELECT * FROM {table} ORDER BY 1, 2, 3") if table != "log" else
                   answer(db, "SELECT * FROM log") for db in pair]
        assert answers[0] == answers[1], (seed, table)


if __name__ == "__main__":
    compare(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
