"""A directory or a file that must not be written. As root nothing is forbidden, so the scenes become somebody else first."""

import os
import signal

import compat
from scenes import ROWS, create, insert, main, scene, sound, tried

NOBODY = 65534
COUNT = "SELECT count(*) FROM item"
INSERT = "INSERT INTO item(word) VALUES('more')"


def become_nobody():
    if os.getuid() == 0:
        os.chown(".", NOBODY, NOBODY)
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)


def observe(connect):
    return {
        "read": tried(connect, "a.db", COUNT),
        "write": tried(connect, "a.db", INSERT),
        "read with mode=ro": tried(connect, "a.db", COUNT, mode="ro"),
        "write with mode=ro": tried(connect, "a.db", INSERT, mode="ro"),
        "read with immutable=1": tried(connect, "a.db", COUNT, mode="ro&immutable=1"),
    }


def kept_what_was_acknowledged(observed):
    rows = ROWS + sum(observed[how] == "ok" for how in ("write", "write with mode=ro"))
    compat.check("rows by the shell", compat.shell("a.db", COUNT), str(rows))
    compat.integrity("a.db")


def closed(connect, journal):
    become_nobody()
    db = connect("a.db")
    create(db, journal)
    db.close()
    os.chmod(".", 0o555)
    observed = observe(connect)
    os.chmod(".", 0o755)
    kept_what_was_acknowledged(observed)
    return observed


@scene
def read_only_directory_wal_closed(connect):
    return closed(connect, "wal")


@scene
def read_only_directory_rollback_journal(connect):
    return closed(connect, "delete")


@scene
def read_only_directory_wal_in_use(connect):
    """A writer had the database open when the directory became read-only, and goes on."""
    become_nobody()
    db = connect("a.db")
    create(db)
    os.chmod(".", 0o555)
    observed = observe(connect)
    insert(db, 5)
    observed["rows after the writer went on"] = tried(connect, "a.db", COUNT, mode="ro")
    db.close()
    os.chmod(".", 0o755)
    compat.integrity("a.db")
    return observed


@scene
def read_only_directory_after_a_crash(connect):
    """The writer was killed. Whoever cannot recover must not show a database without its commits, and not lose them."""
    become_nobody()
    child = os.fork()
    if child == 0:
        create(connect("a.db"))
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    os.chmod(".", 0o555)
    observed = {how: answer for how, answer in observe(connect).items() if "immutable" not in how}
    os.chmod(".", 0o755)
    db = connect("a.db")
    rows = ROWS + sum(observed[how] == "ok" for how in ("write", "write with mode=ro"))
    sound(db, rows, "when the directory can be written again")
    db.close()
    compat.integrity("a.db")
    return observed


@scene
def read_only_file(connect):
    become_nobody()
    db = connect("a.db")
    create(db)
    db.close()
    os.chmod("a.db", 0o444)
    observed = observe(connect)
    os.chmod("a.db", 0o644)
    kept_what_was_acknowledged(observed)
    return observed


@scene
def read_only_file_in_use(connect):
    become_nobody()
    db = connect("a.db")
    create(db)
    os.chmod("a.db", 0o444)
    observed = observe(connect)
    insert(db, 5)
    db.close()
    os.chmod("a.db", 0o644)
    compat.integrity("a.db")
    return observed


@scene
def read_only_side_files(connect):
    """The files beside the database may be read but not written: what a reader with fewer rights than the writer finds."""
    become_nobody()
    db = connect("a.db")
    create(db)
    names = [name for name in os.listdir(".") if name.startswith("a.db")]
    for name in names:
        os.chmod(name, 0o444)
    os.chmod(".", 0o555)
    observed = observe(connect)
    insert(db, 5)
    os.chmod(".", 0o755)
    for name in names:
        os.chmod(name, 0o644)
    db.close()
    compat.integrity("a.db")
    return observed


main()
