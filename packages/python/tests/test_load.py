import os
import pathlib
import shutil
import sqlite3
import subprocess
import sys

import pytest

import oneflush

MODULES = ["sqlite3", "pysqlite3", "apsw"]


def opened(module, name):
    """A connection of a driver, by its own means."""
    driver = pytest.importorskip(module)
    if module == "apsw":
        flags = driver.SQLITE_OPEN_READWRITE | driver.SQLITE_OPEN_CREATE | driver.SQLITE_OPEN_URI
        return driver.Connection(name, flags=flags)
    return driver.connect(name, uri=True)


def value(connection, sql):
    return connection.cursor().execute(sql).fetchone()[0]


@pytest.mark.parametrize("module", MODULES)
def test_load_serves_the_sqlite_of_the_connection_and_only_databases_opened_afterwards(module):
    early = opened(module, "app.db")
    loader = opened(module, ":memory:")
    oneflush.load(loader)
    assert oneflush.strategy(early) is None
    early.close()
    connection = opened(module, oneflush.uri("app.db", "eager"))
    assert value(connection, "PRAGMA journal_mode=wal") == "wal"
    connection.cursor().execute("CREATE TABLE t(a)")
    assert oneflush.strategy(connection) == "eager"
    assert oneflush.stats(connection)["eager"]["log"]["records"] >= 1
    assert oneflush.checkpoint(connection)["held_up"] is False
    # ATTACH opens a database too, by a connection that itself goes on as before.
    loader.cursor().execute("ATTACH ? AS other", [oneflush.uri("other.db", "plain")])
    assert value(loader, "PRAGMA other.oneflush_strategy").startswith("plain")
    loader.close()
    connection.close()


@pytest.mark.parametrize("module", MODULES)
def test_extension_loading_is_off_again_afterwards(module):
    connection = opened(module, ":memory:")
    oneflush.load(connection)
    with pytest.raises(Exception, match=r"not authorized|no such function"):
        value(connection, "SELECT load_extension('nothing')")
    connection.close()


@pytest.mark.parametrize("module", MODULES)
def test_load_with_default_and_options_counts_for_every_name(module, python):
    pytest.importorskip(module)
    code = """
        import importlib, oneflush, os, sys
        module = importlib.import_module(sys.argv[1])
        connect = getattr(module, "connect", None) or module.Connection
        before = dict(os.environ)
        oneflush.load(connect(":memory:"), default=True, strategy="eager", durability="full")
        assert dict(os.environ) == before
        db = connect("app.db")
        db.cursor().execute("PRAGMA journal_mode=wal").fetchall()
        print(oneflush.strategy(db))
        oneflush.load(connect(":memory:"), strategy="plain")
        other = connect("other.db")
        other.cursor().execute("PRAGMA journal_mode=wal").fetchall()
        print(oneflush.strategy(other))
    """
    assert python(code, module).stdout.split() == ["eager", "plain"]


def test_two_sqlites_of_a_process_have_it_side_by_side():
    apsw = pytest.importorskip("apsw")
    oneflush.load(apsw.Connection(":memory:"))
    ours = oneflush.connect("app.db", "plain")
    ours.execute("CREATE TABLE t(a)")
    ours.execute("INSERT INTO t VALUES (1)")
    ours.commit()
    theirs = opened("apsw", oneflush.uri("other.db", "eager"))
    value(theirs, "PRAGMA journal_mode=wal")
    assert (oneflush.strategy(ours), oneflush.strategy(theirs)) == ("plain", "eager")
    ours.close()
    theirs.close()


def test_enable_makes_every_open_of_this_process_one_of_oneflush(python):
    code = """
        import oneflush, os, sqlite3
        early = sqlite3.connect("app.db")
        before = dict(os.environ)
        oneflush.enable(strategy="eager", log_size=1 << 20)
        assert dict(os.environ) == before
        print(oneflush.strategy(early))
        early.close()
        db = sqlite3.connect("app.db")
        db.execute("PRAGMA journal_mode=WAL")
        print(oneflush.strategy(db))
        print(oneflush.strategy(oneflush.connect("other.db")))
        print(oneflush.strategy(sqlite3.connect("file:app.db?vfs=unix&mode=rwc", uri=True)))
    """
    assert python(code).stdout.split() == ["None", "eager", "eager", "None"]


def test_enable_without_default_serves_uris_only(python):
    code = """
        import oneflush, sqlite3
        oneflush.enable(default=False)
        print(oneflush.strategy(sqlite3.connect("app.db")))
        print(oneflush.strategy(sqlite3.connect(oneflush.uri("app.db"), uri=True)))
    """
    assert python(code, ONEFLUSH_DEFAULT="1").stdout.splitlines() == [
        "None",
        "plain (inactive: journal_mode=delete)",
    ]


def test_a_wrong_variable_is_said_at_the_load(python):
    code = 'import oneflush; oneflush.connect("app.db")'
    ended = python(code, check=False, ONEFLUSH_STRATEGY="fast")
    assert "LoadError" in ended.stderr
    assert 'environment variable ONEFLUSH_STRATEGY: "fast"' in ended.stderr
    assert "allowed: auto, stock, plain" in ended.stderr


def test_what_is_no_connection_or_a_closed_one_is_refused():
    with pytest.raises(TypeError, match="a connection of sqlite3 or apsw is wanted"):
        oneflush.load("app.db")
    closed = sqlite3.connect(":memory:")
    closed.close()
    if hasattr(closed, "enable_load_extension"):
        with pytest.raises(sqlite3.ProgrammingError, match="closed"):
            oneflush.load(closed)


def test_oneflush_run_has_loaded_it_already_and_its_options_stay(python):
    code = """
        import oneflush, sqlite3
        db = oneflush.connect("app.db")
        print(oneflush.strategy(db))
        maps = open("/proc/self/maps")
        print(len({line.split()[-1] for line in maps if "liboneflush.so" in line}))
        oneflush.enable(strategy="plain")
        print(oneflush.strategy(oneflush.connect("other.db")))
    """
    run = [oneflush.program_path(), "run", "--strategy", "eager", "--"]
    assert python(code, prefix=run).stdout.split() == ["eager", "1", "plain"]


def test_a_second_copy_of_the_library_is_not_put_over_the_first(python, tmp_path):
    copy = str(shutil.copy(oneflush.library_path(), tmp_path))
    code = """
        import oneflush, os, sqlite3, sys
        import ctypes, _sqlite3
        # Somebody else loads his copy, by whatever means this Python has.
        os.environ["ONEFLUSH_DEFAULT"] = "1"
        sqlite = ctypes.CDLL(_sqlite3.__file__)
        db = ctypes.c_void_p()
        sqlite.sqlite3_open(b":memory:", ctypes.byref(db))
        sqlite.sqlite3_enable_load_extension(db, 1)
        assert sqlite.sqlite3_load_extension(db, sys.argv[1].encode(), None, None) == 0
        oneflush.enable(strategy="eager")
        print(oneflush.strategy(oneflush.connect("app.db")))
        print(*{line.split()[-1] for line in open("/proc/self/maps") if "liboneflush.so" in line})
    """
    assert python(code, copy).stdout.split() == ["eager", copy]


OTHER_VERSION = """
#include <stddef.h>
const char *oneflush_version(void) { return "9.8.7"; }
int sqlite3_oneflush_init(void *db, char **error, const void *api) { return 256; }
"""


def compiled(source, output):
    if shutil.which("cc") is None:
        pytest.skip("no C compiler")
    pathlib.Path("source.c").write_text(source)
    command = ["cc", "-shared", "-fPIC", "-o", output, "source.c"]
    subprocess.run(command, check=True)
    return os.path.abspath(output)


def test_another_version_in_the_same_process_is_named(python):
    os.mkdir("other")
    library = compiled(OTHER_VERSION, "other/liboneflush.so")
    code = """
        import ctypes, sys
        ctypes.CDLL(sys.argv[1])
        import oneflush
        oneflush.enable()
    """
    ended = python(code, library, check=False)
    assert f"loaded Oneflush 9.8.7 from {library}, and the package is" in ended.stderr


def test_a_sqlite_that_can_load_no_extension_is_said_with_the_way_out(python):
    """Python's module may lack the method, and its library the function, too."""
    library = os.environ.get("ONEFLUSH_TEST_SQLITE_WITHOUT_EXTENSIONS")
    if not os.path.isdir(library or ""):
        pytest.skip("ONEFLUSH_TEST_SQLITE_WITHOUT_EXTENSIONS names no folder with such a library")
    if hasattr(sqlite3.Connection, "enable_load_extension"):
        pytest.skip("this Python's module needs a library that can load extensions")
    code = """
        import oneflush, sqlite3
        for call in (oneflush.enable, lambda: oneflush.load(sqlite3.connect(":memory:"))):
            try:
                call()
            except oneflush.LoadError as error:
                print(error)
        print(sqlite3.connect(":memory:").execute("SELECT 1").fetchone())
    """
    said = python(code, LD_LIBRARY_PATH=library).stdout.splitlines()
    for line in said[:2]:
        assert "Python's module sqlite3 cannot load extensions" in line
        assert "pip install apsw" in line
        assert "oneflush run -- python" in line
    assert said[2] == "(1,)"


def test_a_python_without_enable_load_extension_is_served_all_the_same():
    if hasattr(sqlite3.Connection, "enable_load_extension"):
        pytest.skip("this Python has enable_load_extension")
    connection = oneflush.connect("app.db", "eager")
    assert oneflush.strategy(connection) == "eager"
    connection.close()
    connection = sqlite3.connect(":memory:")
    oneflush.load(connection)
    connection.close()
    assert sys.modules["_sqlite3"]
