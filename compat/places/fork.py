"""fork() after an open. SQLite's documentation: a child must not use, nor even close, a connection of its parent.

So the parent must be unharmed whatever the child does that is allowed, and by a child that does nothing. What else a child
might do is observed, with an end to it: a child that hangs is an error.
"""

import json
import os
import signal
import sqlite3
import time

import compat
from scenes import ROWS, create, insert, main, scene, sound, sound_when_reopened

CHILD_SECONDS = 60
MORE_ROWS = 50
BEFORE = ROWS + MORE_ROWS


def in_child(action):
    """Runs it in a fork; its answer, or how the child ended."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            answer = str(action())
        except sqlite3.Error as error:
            answer = getattr(error, "sqlite_errorname", None) or str(error)
        except BaseException as error:
            answer = repr(error)
        os.write(writer, answer.encode())
        # No clean-up of what belongs to the parent.
        os._exit(0)
    os.close(writer)
    for _ in range(CHILD_SECONDS * 100):
        if os.waitpid(child, os.WNOHANG)[0]:
            with os.fdopen(reader) as answers:
                return answers.read() or "died"
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    compat.fail("the child hangs")


def parent_goes_on(connect, db, rows):
    """Past several automatic checkpoints."""
    db.execute("PRAGMA wal_autocheckpoint=20")
    insert(db, 100)
    sound(db, rows + 100, "by the parent")
    db.close()
    sound_when_reopened(connect, "a.db", rows + 100)
    compat.integrity("a.db")


def opened(connect):
    """Its commits have run automatic checkpoints, so whatever thread does them is there."""
    db = connect("a.db")
    create(db)
    db.execute("PRAGMA wal_autocheckpoint=20")
    insert(db, MORE_ROWS)
    # And is idle: what a thread holds at the moment of a fork nobody in the child lets go.
    time.sleep(0.5)
    return db


def commits_and_checkpoints(db):
    """Without checkpoints the WAL would become longer than that. A strategy with a log has no reason for one yet, so it is asked for one."""
    db.execute("PRAGMA wal_autocheckpoint=20")
    insert(db, 500)
    if os.path.exists("a.db-oneflush") or os.path.exists("a.db-waldio"):
        done = json.loads(compat.value(db, "PRAGMA oneflush_checkpoint"))
        return "checkpoints run" if done["wal_frames"] == done["copied_frames"] > 0 else str(done)
    wal = os.path.getsize("a.db-wal")
    return "checkpoints run" if wal < 3_000_000 else f"WAL of {wal} bytes"


@scene
def fork_and_the_child_does_nothing(connect):
    db = opened(connect)
    answer = in_child(lambda: "nothing")
    parent_goes_on(connect, db, BEFORE)
    return {"child": answer}


@scene
def fork_and_exec_of_a_shell(connect):
    """Stock SQLite's, where that is allowed."""
    db = opened(connect)
    answer = compat.look(connect, "a.db", "INSERT INTO item(word) VALUES('by the child'); SELECT count(*) FROM item")
    parent_goes_on(connect, db, BEFORE + 1)
    return {"rows that the child sees": answer}


@scene
def fork_before_the_open_in_the_child(connect):
    """The parent has closed everything: the child is a process like any other."""
    opened(connect).close()

    def child():
        db = connect("a.db")
        answer = commits_and_checkpoints(db)
        sound(db, BEFORE + 500, "by the child")
        db.close()
        return answer

    answer = in_child(child)
    parent_goes_on(connect, connect("a.db"), BEFORE + 500)
    return {"child": answer}


@scene
def fork_and_the_child_reads_by_the_inherited_connection(connect):
    """Not allowed. It must do no harm to the parent."""
    db = opened(connect)
    answer = in_child(lambda: compat.value(db, "SELECT count(*) FROM item"))
    parent_goes_on(connect, db, BEFORE)
    return {"child": answer}


@scene
def fork_and_the_child_writes_by_the_inherited_connection(connect):
    """Not allowed. Whatever the child was told, the parent agrees with it, and the database is sound."""
    db = opened(connect)

    def child():
        db.execute("INSERT INTO item(word) VALUES('by the child')")
        return "committed"

    answer = in_child(child)
    rows = compat.value(db, "SELECT count(*) FROM item")
    compat.check("rows after the child", rows, BEFORE + (answer == "committed"))
    parent_goes_on(connect, db, rows)
    return {"child": answer}


@scene
def fork_and_the_child_opens_the_database_anew(connect):
    """Not allowed either while the parent has it open, because SQLite's own tables of locks came with the fork."""
    db = opened(connect)

    answer = in_child(lambda: commits_and_checkpoints(connect("a.db", timeout=5)))
    rows = compat.value(db, "SELECT count(*) FROM item")
    parent_goes_on(connect, db, rows)
    return {"child": answer, "rows": rows}


main()
