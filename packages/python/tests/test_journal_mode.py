import sqlite3
import subprocess
import sys

import pytest

import oneflush

WAL, DELETE = "wal", "delete"


def make(mode):
    made = sqlite3.connect("app.db")
    made.execute(f"PRAGMA journal_mode={mode}")
    made.execute("CREATE TABLE t(a)")
    made.close()


def mode_of(connection):
    return connection.execute("PRAGMA journal_mode").fetchone()[0]


def mode_of_file():
    with open("app.db", "rb") as file:
        return {1: DELETE, 2: WAL}[file.read(19)[18]]


@pytest.mark.parametrize(
    ("strategy", "mode"),
    [(None, WAL), ("auto", WAL), ("plain", WAL), ("eager", WAL), ("waldio", WAL)]
    + [("maw", DELETE), ("stock", DELETE)],
)
def test_a_new_database_gets_the_mode_of_the_strategy(strategy, mode):
    connection = oneflush.connect("app.db", strategy)
    assert mode_of(connection) == mode
    assert "inactive" not in oneflush.strategy(connection)
    connection.close()


@pytest.mark.parametrize(
    ("strategy", "mode", "other"),
    [("plain", DELETE, WAL), ("eager", DELETE, WAL), ("waldio", DELETE, WAL), ("maw", WAL, DELETE)],
)
def test_an_existing_database_keeps_its_mode_unless_the_caller_says_otherwise(
    strategy, mode, other
):
    make(mode)
    with pytest.raises(oneflush.JournalModeError) as refused:
        oneflush.connect("app.db", strategy)
    for words in ("app.db", f"journal_mode={mode}", f'journal_mode="{other}"', '"keep"'):
        assert words in str(refused.value)
    assert isinstance(refused.value, sqlite3.OperationalError)
    assert mode_of_file() == mode

    kept = oneflush.connect("app.db", strategy, journal_mode="keep")
    assert oneflush.strategy(kept) == f"{strategy} (inactive: journal_mode={mode})"
    kept.close()
    assert mode_of_file() == mode

    changed = oneflush.connect("app.db", strategy, journal_mode=other)
    assert (oneflush.strategy(changed), mode_of(changed)) == (strategy, other)
    changed.execute("INSERT INTO t VALUES (1)")
    changed.commit()
    changed.close()
    assert mode_of_file() == other
    again = oneflush.connect("app.db", strategy)
    assert oneflush.strategy(again) == strategy
    again.close()


def test_auto_leaves_an_existing_database_in_its_mode():
    make(DELETE)
    for strategy in (None, "auto"):
        connection = oneflush.connect("app.db", strategy)
        assert oneflush.strategy(connection) == "plain (inactive: journal_mode=delete)"
        connection.close()
    assert mode_of_file() == DELETE


def test_a_strategy_that_the_environment_names_counts_as_named(python):
    make(DELETE)
    code = 'import oneflush; oneflush.connect("app.db")'
    ended = python(code, check=False, ONEFLUSH_STRATEGY="eager")
    assert "JournalModeError: app.db is in journal_mode=delete" in ended.stderr


def test_reading_only_leaves_the_mode_alone():
    make(DELETE)
    connection = oneflush.connect("app.db", "eager", mode="ro")
    assert mode_of(connection) == DELETE
    connection.close()


def test_a_rollback_mode_of_the_callers_choice():
    for mode in ("truncate", "persist"):
        connection = oneflush.connect(f"{mode}.db", "maw", journal_mode=mode)
        assert (oneflush.strategy(connection), mode_of(connection)) == ("maw", mode)
        connection.close()


def test_a_mode_that_cannot_be_had_now_is_said_with_the_way_out():
    make(DELETE)
    other = sqlite3.connect("app.db", isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    with pytest.raises(sqlite3.OperationalError, match=r"locked.*app\.db"):
        oneflush.connect("app.db", "eager", journal_mode="wal", timeout=0.1)
    other.execute("COMMIT")
    other.execute("BEGIN")
    other.execute("SELECT * FROM t").fetchall()
    with pytest.raises(oneflush.JournalModeError, match=r'app\.db.*journal_mode="keep"'):
        oneflush.connect("app.db", "eager", journal_mode="wal", timeout=0.1)
    other.close()
    oneflush.connect("app.db", "eager", journal_mode="wal", timeout=0.1).close()


def test_an_unknown_mode_is_refused_before_anything_is_opened(tmp_path):
    with pytest.raises(oneflush.OptionError, match='"WAHL".*allowed: keep, wal'):
        oneflush.connect("app.db", "eager", journal_mode="WAHL")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("strategy", ["plain", "eager", "maw"])
def test_processes_that_all_make_the_database_agree(strategy):
    code = """if True:
        import oneflush, sys
        print("ready", flush=True)
        sys.stdin.readline()
        db = oneflush.connect("app.db", sys.argv[1], timeout=30)
        print(oneflush.strategy(db))
        db.close()
    """
    command = [sys.executable, "-c", code, strategy]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    processes = [subprocess.Popen(command, **pipes) for _ in range(8)]
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    assert [process.communicate()[0] for process in processes] == [f"{strategy}\n"] * 8
