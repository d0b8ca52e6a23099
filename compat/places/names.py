"""One database by two names: two mount points, a symbolic link, a hard link."""

import os
import subprocess

import compat
from scenes import ROWS, create, insert, main, scene, sound, sound_when_reopened

CHILD = """
import compat, sys
from scenes import insert
db = getattr(compat, sys.argv[1])(sys.argv[2])
db.execute("PRAGMA wal_autocheckpoint=20")
insert(db, int(sys.argv[3]))
db.close()
"""


def writes(connect, file, rows):
    """Starts a process that does."""
    environment = {**os.environ, "PYTHONPATH": os.environ["PYTHONPATH"] + ":" + os.path.dirname(os.path.abspath(__file__))}
    return subprocess.Popen([compat.sys.executable, "-c", CHILD, connect.__name__, file, str(rows)], env=environment)


def both_at_once(connect, one, other):
    """Two connections of this process, and two processes, by both names, at the same time."""
    a = connect(one)
    create(a)
    b = connect(other)
    for _ in range(30):
        insert(a, 1)
        insert(b, 1)
    rows = ROWS + 60
    sound(a, rows, one)
    sound(b, rows, other)
    processes = [writes(connect, name, 150) for name in (one, other)]
    insert(a, 50)
    insert(b, 50)
    compat.check("exit codes of the writers", [process.wait() for process in processes], [0, 0])
    rows += 400
    sound(a, rows, one)
    sound(b, rows, other)
    compat.check("rows by the shell", compat.look(connect, other, "SELECT count(*) FROM item"), str(rows))
    a.close()
    insert(b, 1)
    b.close()
    sound_when_reopened(connect, one, rows + 1)
    compat.integrity(one)
    compat.integrity(other)
    return rows + 1


def side_files(folder):
    return sorted(name for name in os.listdir(folder) if name.endswith(("-wal", "-shm", "-journal")))


@scene
def two_mount_points(connect):
    os.mkdir("one")
    os.mkdir("other")
    subprocess.run(["mount", "--bind", "one", "other"], check=True)
    return {"rows": both_at_once(connect, "one/a.db", "other/a.db")}


@scene
def symbolic_link(connect):
    os.mkdir("real")
    os.mkdir("links")
    connect("real/a.db").close()
    os.symlink("../real/a.db", "links/b.db")
    rows = both_at_once(connect, "links/b.db", "real/a.db")
    db = connect("links/b.db")
    compat.value(db, "SELECT count(*) FROM item")
    observed = {"rows": rows, "side files at the link": side_files("links"), "side files at the file": side_files("real")}
    db.close()
    return observed


@scene
def symbolic_link_to_the_directory(connect):
    os.mkdir("real")
    os.symlink("real", "link")
    return {"rows": both_at_once(connect, "link/a.db", "real/a.db")}


@scene
def hard_link_one_name_after_the_other(connect):
    """SQLite documents that a database with two names in use at once gets corrupt: each name has a WAL of its own. One after
    the other is sound, if a clean close leaves nothing behind in the WAL of its name."""
    db = connect("one.db")
    create(db)
    db.close()
    os.link("one.db", "other.db")
    rows = ROWS
    for turn in range(20):
        for name in ("one.db", "other.db"):
            db = connect(name)
            sound(db, rows, f"{name}, turn {turn}")
            insert(db, 7)
            rows += 7
            db.close()
            for reader in ("one.db", "other.db"):
                compat.check(f"rows by the shell, {reader}", compat.shell(reader, "SELECT count(*) FROM item"), str(rows))
    return {"rows": rows, "warning": warning(connect)}


def warning(connect):
    """What SQLite's error log says of a file with two names."""
    lines = ".log stderr\n"
    if connect is compat.connect:
        lines += f".load {os.environ['ONEFLUSH_EXTENSION_PATH']}\n.open file:one.db?vfs=oneflush&strategy={compat.STRATEGY}\n"
    else:
        lines += ".open one.db\n"
    lines += "SELECT count(*) FROM item;\n"
    said = subprocess.run([compat.SHELL, "-batch", ":memory:"], input=lines, capture_output=True, text=True).stderr
    return "said" if "multiple links to file" in said else f"not said: {said}"


main()
