"""Threads, processes, forks, kills."""

import multiprocessing
import os
import signal
import sqlite3
import subprocess
import sys
import threading

import pytest

import oneflush

STRATEGIES = ["plain", "eager", "waldio", "maw"]


def count(strategy, name="app.db"):
    connection = oneflush.connect(name, strategy, timeout=30)
    found = connection.execute("SELECT count(*), count(DISTINCT a) FROM t").fetchone()
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()
    return found


def make(strategy):
    connection = oneflush.connect("app.db", strategy)
    connection.execute("CREATE TABLE t(a)")
    connection.close()


def insert(strategy, numbers):
    connection = oneflush.connect("app.db", strategy, timeout=30)
    for number in numbers:
        with connection:
            connection.execute("INSERT INTO t VALUES (?)", (number,))
    connection.close()


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_threads_write_side_by_side(strategy):
    make(strategy)
    parts = [range(part, 200, 8) for part in range(8)]
    threads = [threading.Thread(target=insert, args=(strategy, part)) for part in parts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert count(strategy) == (200, 200)


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
@pytest.mark.parametrize("strategy", ["plain", "eager"])
def test_processes_of_multiprocessing_write_side_by_side(strategy, method):
    make(strategy)
    context = multiprocessing.get_context(method)
    parts = [range(part, 100, 4) for part in range(4)]
    processes = [context.Process(target=insert, args=(strategy, part)) for part in parts]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * 4
    assert count(strategy) == (100, 100)


@pytest.mark.parametrize("strategy", ["plain", "eager"])
def test_a_child_opens_its_own_connection_while_the_parents_is_open(strategy):
    parent = oneflush.connect("app.db", strategy, timeout=30)
    parent.execute("CREATE TABLE t(a)")
    context = multiprocessing.get_context("fork")
    child = context.Process(target=insert, args=(strategy, range(50)))
    child.start()
    for number in range(50, 100):
        with parent:
            parent.execute("INSERT INTO t VALUES (?)", (number,))
    child.join()
    assert child.exitcode == 0
    parent.close()
    assert count(strategy) == (100, 100)


WRITER = """
import oneflush, sys
db = oneflush.connect("app.db", sys.argv[1])
number = 0
while True:
    with db:
        db.execute("INSERT INTO t VALUES (?)", (number,))
    print(number, flush=True)
    number += 1
"""


def killed_writer(strategy):
    """A writer that is killed in the middle; the number of commits that it acknowledged."""
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, strategy], stdout=subprocess.PIPE, text=True
    )
    said = [writer.stdout.readline() for _ in range(50)]
    writer.send_signal(signal.SIGKILL)
    said += writer.stdout.read().splitlines()
    writer.wait()
    return len(said)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_after_kill_9_all_that_was_acknowledged_is_there(strategy):
    make(strategy)
    acknowledged = killed_writer(strategy)
    found, distinct = count(strategy)
    # One more commit may have been made and not been acknowledged.
    assert acknowledged <= found <= acknowledged + 1
    assert found == distinct


@pytest.mark.parametrize("strategy", ["eager", "waldio", "maw"])
def test_recover_makes_a_plain_file_of_what_a_kill_has_left(strategy, stock):
    make(strategy)
    acknowledged = killed_writer(strategy)
    assert "file is not a database" in stock("app.db", "SELECT count(*) FROM t")
    looked = oneflush.recover("app.db", dry_run=True)
    assert looked["recovered"] is False
    assert looked["log"]["strategy"] == strategy
    assert oneflush.recover("app.db")["recovered"] is True
    assert os.listdir() == ["app.db"]
    connection = sqlite3.connect("app.db")
    (found,) = connection.execute("SELECT count(*) FROM t").fetchone()
    connection.close()
    assert acknowledged <= found <= acknowledged + 1
    assert oneflush.recover("app.db")["recovered"] is False


def test_a_lost_log_is_an_error_with_the_way_out_and_can_be_given_up():
    make("eager")
    killed_writer("eager")
    os.remove("app.db-oneflush")
    with pytest.raises(oneflush.RecoveryError, match=r"its log is missing.*--accept-loss"):
        oneflush.recover("app.db")
    assert oneflush.recover("app.db", accept_loss=True)
    assert count("plain")[0] >= 50


def test_an_end_without_a_close_leaves_a_plain_file(python, stock):
    code = """
        import oneflush
        db = oneflush.connect("app.db", "eager")
        db.execute("CREATE TABLE t(a)")
        db.execute("INSERT INTO t VALUES (1)")
        db.commit()
    """
    python(code)
    assert stock("app.db", "SELECT * FROM t") == "[(1,)]"


def test_while_eager_is_in_use_stock_sqlite_is_refused_and_plain_refuses_nobody(stock):
    for strategy, expected in (("eager", "file is not a database"), ("plain", "[(0,)]")):
        connection = oneflush.connect(f"{strategy}.db", strategy)
        connection.execute("CREATE TABLE t(a)")
        assert expected in stock(f"{strategy}.db", "SELECT count(*) FROM t")
        connection.close()


def test_threads_that_load_at_the_same_time_all_succeed(python):
    code = """
        import oneflush, threading
        barrier, found = threading.Barrier(16), []
        def open_one(number):
            barrier.wait()
            db = oneflush.connect(f"{number}.db", "eager")
            found.append(oneflush.strategy(db))
            db.close()
        threads = [threading.Thread(target=open_one, args=(n,)) for n in range(16)]
        [thread.start() for thread in threads], [thread.join() for thread in threads]
        print(found == ["eager"] * 16)
    """
    assert python(code).stdout == "True\n"
