"""The shell oneflush-sqlite3 with databases of LS-MVBT: python3 shell.py SHELL FOLDER."""

import os
import subprocess
import sys

SHELL, FOLDER = os.path.abspath(sys.argv[1]), sys.argv[2]


def shell(database, *commands, engine="lsmvbt"):
    words = [SHELL, "-batch", "-bail", f"file:{database}?engine={engine}"]
    done = subprocess.run(words, input="\n".join(commands) + "\n", capture_output=True, text=True, cwd=FOLDER)
    assert done.returncode == 0 and not done.stderr, (commands, done)
    return done.stdout


def is_lsmvbt(name):
    with open(os.path.join(FOLDER, name), "rb") as file:
        return file.read(16) == b"Oneflush mvbt 1\n"


SCHEMA = """CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT, c REAL);
CREATE INDEX tb ON t(b);
CREATE TABLE w(k TEXT PRIMARY KEY, v) WITHOUT ROWID;
CREATE VIEW v AS SELECT b FROM t;
CREATE TRIGGER tr AFTER DELETE ON t BEGIN DELETE FROM w WHERE k = old.b; END;
"""
FILL = """WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<500)
INSERT INTO t SELECT i, 'name ' || i, i / 4.0 FROM n;
INSERT INTO w SELECT b, randomblob(a * 9) FROM t;"""


def made():
    shell("app", SCHEMA, FILL)
    assert is_lsmvbt("app")
    assert shell("app", "PRAGMA journal_mode;") == "lsmvbt\n"
    assert shell("app", ".tables").split() == ["t", "v", "w"]
    said = shell("app", ".schema")
    assert all(line.rstrip(";") in said for line in SCHEMA.splitlines()), said
    assert "tb" in shell("app", ".indexes").split()
    return shell("app", ".dump")


def same(name, dump, engine="lsmvbt"):
    assert is_lsmvbt(name) == (engine == "lsmvbt"), name
    assert shell(name, ".dump", engine=engine) == dump, name
    assert shell(name, "PRAGMA integrity_check;", engine=engine) == "ok\n"


def main():
    dump = made()
    for engine in "lsmvbt", "sqlite":
        shell(f"read-{engine}", dump, engine=engine)
        same(f"read-{engine}", dump, engine)
        # What .backup, .clone and .save make anew gets the engine of the environment.
        os.environ["ONEFLUSH_ENGINE"] = engine
        for command in "backup", "save", "clone":
            # SQLite's own .clone does not open the database itself.
            said = shell("app", "SELECT 1 WHERE 0;", f".{command} {command}-{engine}")
            assert command == "clone" or not said, said
            same(f"{command}-{engine}", dump, engine)
        shell("app", f"VACUUM INTO 'file:vacuum-{engine}?engine={engine}';")
        same(f"vacuum-{engine}", dump, engine)
        del os.environ["ONEFLUSH_ENGINE"]
    shell("restored", ".restore backup-sqlite")
    same("restored", dump)
    with open(os.path.join(FOLDER, "rows.csv"), "w") as file:
        file.writelines(f'{n},"a ""quoted"" {n}"\n' for n in range(3000))
    shell("app", ".mode csv", "CREATE TABLE i(a INTEGER PRIMARY KEY, b);", ".import rows.csv i")
    assert shell("app", "SELECT count(*), max(b) FROM i;") == '3000|a "quoted" 999\n'
    if "recover" in shell("app", ".help"):
        said = shell("app", ".recover")
        shell("recovered", said)
        assert shell("recovered", "SELECT count(*) FROM t;") == "500\n"
    # A database of SQLite stays what it is.
    shell("stock", SCHEMA, FILL, engine="sqlite")
    assert not is_lsmvbt("stock")
    assert shell("stock", "PRAGMA journal_mode;", engine="lsmvbt") == "delete\n"
    print("oneflush-sqlite3: ok")


main()
