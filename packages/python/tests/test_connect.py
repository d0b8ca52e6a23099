import os
import pathlib
import sqlite3
import sys

import pytest

import oneflush


def rows(connection):
    return connection.execute("SELECT count(*) FROM t").fetchone()[0]


@pytest.mark.parametrize("strategy", ["plain", "eager", "waldio", "maw", "stock", "auto", None])
def test_commits_are_there_for_stock_sqlite_after_the_close(strategy, stock):
    connection = oneflush.connect("app.db", strategy)
    assert type(connection) is sqlite3.Connection
    connection.execute("CREATE TABLE t(a)")
    for number in range(100):
        with connection:
            connection.execute("INSERT INTO t VALUES (?)", (number,))
    assert oneflush.strategy(connection) == {"auto": "plain", None: "plain"}.get(strategy, strategy)
    assert oneflush.stats(connection)["commits"]["count"] >= 100
    connection.close()
    assert stock("app.db", "SELECT count(*), sum(a) FROM t") == "[(100, 4950)]"
    assert stock("app.db", "PRAGMA integrity_check") == "[('ok',)]"
    assert set(os.listdir()) <= {"app.db", "app.db-oneflush-kept"}


def test_what_eager_logs_is_in_its_statistics():
    with_log = oneflush.connect("app.db", strategy="eager")
    with_log.execute("CREATE TABLE t(a)")
    before = oneflush.stats(with_log)["eager"]["log"]["logged_bytes"]
    with with_log:
        with_log.execute("INSERT INTO t VALUES (1)")
    assert oneflush.stats(with_log)["eager"]["log"]["logged_bytes"] - before == 4096
    assert oneflush.checkpoint(with_log)["held_up"] is False
    with_log.close()


def test_arguments_of_sqlite3_go_on_to_it():
    class Own(sqlite3.Connection):
        def cursor(self, *_):
            raise AssertionError("not for Oneflush")

    connection = oneflush.connect(
        "app.db",
        "plain",
        timeout=1.5,
        detect_types=sqlite3.PARSE_DECLTYPES,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=7,
        factory=Own,
    )
    assert type(connection) is Own
    assert connection.isolation_level is None
    assert sqlite3.Connection.cursor(connection).execute("PRAGMA busy_timeout").fetchone() == (
        1500,
    )
    assert oneflush.strategy(connection) == "plain"
    connection.close()


@pytest.mark.skipif(sys.version_info < (3, 12), reason="autocommit came with Python 3.12")
def test_autocommit_false_has_its_transaction_from_the_start():
    connection = oneflush.connect("app.db", "eager", autocommit=False)
    assert connection.in_transaction
    assert oneflush.strategy(connection) == "eager"
    connection.execute("CREATE TABLE t(a)")
    connection.rollback()
    assert connection.execute("SELECT count(*) FROM sqlite_schema").fetchone() == (0,)
    connection.close()


def test_rows_and_text_of_the_programs_own_kind_do_not_disturb_the_questions():
    connection = oneflush.connect("app.db", "eager")
    connection.row_factory = lambda cursor, row: {"name": cursor.description[0][0]}
    connection.text_factory = bytes
    assert oneflush.strategy(connection) == "eager"
    assert oneflush.stats(connection)["strategy"] == "eager"
    connection.close()


@pytest.mark.parametrize("name", [":memory:", b":memory:", "", "file::memory:?cache=shared"])
def test_a_database_in_memory_is_sqlites_own(name):
    connection = oneflush.connect(name, "eager", uri=True)
    connection.execute("CREATE TABLE t(a)")
    assert rows(connection) == 0
    assert oneflush.strategy(connection) is None
    for question in (oneflush.stats, oneflush.checkpoint):
        with pytest.raises(oneflush.NotInUseError, match="in memory"):
            question(connection)
    assert os.listdir() == []


ODD_NAMES = [
    "with space.db",
    "100%25.db",
    "a?b=c&d.db",
    "a#b.db",
    "ü \N{SNOWMAN}.db",
    "new\nline.db",
    "file:a.db",
    "a+b;c,'\".db",
    "-dash.db",
]


@pytest.mark.parametrize("name", ODD_NAMES)
@pytest.mark.parametrize("how", ["str", "Path", "bytes", "absolute", "two slashes"])
def test_a_name_may_have_any_character(name, how, tmp_path):
    given = {
        "str": name,
        "Path": pathlib.Path(name),
        "bytes": os.fsencode(name),
        "absolute": str(tmp_path / name),
        "two slashes": f"/{tmp_path}/{name}",
    }[how]
    connection = oneflush.connect(given, "eager")
    connection.execute("CREATE TABLE t(a)")
    assert oneflush.strategy(connection) == "eager"
    connection.close()
    assert os.listdir() == [name]


def test_a_name_that_is_not_utf8_works_with_plain_files_and_is_refused_by_name():
    connection = oneflush.connect(b"\xff.db")
    connection.execute("CREATE TABLE t(a)")
    connection.close()
    assert b"\xff.db" in os.listdir(b".")
    with pytest.raises(sqlite3.OperationalError, match=r"not UTF-8; rename it .*\[OF-121\]"):
        oneflush.connect(os.fsdecode(b"\xff.db"), "eager")


def test_a_null_byte_is_refused_as_by_sqlite3():
    with pytest.raises(ValueError, match="null byte"):
        oneflush.connect("a\0b.db")


def test_a_uri_of_the_program_keeps_its_parameters():
    made = oneflush.connect("file:app%20one.db?cache=private#end", "plain", uri=True)
    made.execute("CREATE TABLE t(a)")
    made.close()
    connection = oneflush.connect("file:app%20one.db?mode=ro&strategy=plain", uri=True)
    assert oneflush.strategy(connection) == "plain"
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        connection.execute("INSERT INTO t VALUES (1)")
    connection.close()


@pytest.mark.parametrize(
    ("given", "strategy", "words"),
    [
        ("file:a.db?vfs=unix-dotfile", "plain", "vfs=unix-dotfile"),
        ("file:a.db?strategy=plain", "eager", "strategy=plain, and strategy=eager was asked for"),
        ("file:a.db?strategy=fast", None, "allowed: auto, stock, plain, eager, waldio, maw"),
    ],
)
def test_a_uri_that_contradicts_is_refused(given, strategy, words):
    with pytest.raises(oneflush.OptionError, match=words):
        oneflush.connect(given, strategy, uri=True)
    assert os.listdir() == []


def test_mode_says_whether_a_database_may_be_new_or_be_written():
    with pytest.raises(sqlite3.OperationalError, match="unable to open.*missing.db"):
        oneflush.connect("missing.db", "plain", mode="rw")
    oneflush.connect("app.db", "plain").close()
    connection = oneflush.connect("app.db", "plain", mode="ro")
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        connection.execute("CREATE TABLE t(a)")
    connection.close()


def test_a_file_that_may_only_be_read_is_read(tmp_path, python):
    made = oneflush.connect("app.db", "eager")
    made.execute("CREATE TABLE t(a)")
    made.close()
    os.chmod("app.db", 0o444)
    os.chmod(tmp_path, 0o777)
    # Root may write everything; another user may not.
    as_nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    for parent in list(tmp_path.parents)[:3]:
        os.chmod(parent, 0o755)
    code = """
        import oneflush
        for options in ({"mode": "ro"}, {}, {"strategy": "eager"}):
            db = oneflush.connect("app.db", **options)
            print(db.execute("SELECT count(*) FROM t").fetchone(), oneflush.strategy(db))
            try:
                db.execute("INSERT INTO t VALUES (1)")
            except Exception as error:
                print(error)
            db.close()
        print(*oneflush.messages())
    """
    prefix = as_nobody if os.getuid() == 0 else ()
    if python("import oneflush", prefix=prefix, check=False).returncode != 0:
        pytest.skip("this Python may not be started by another user")
    ended = python(code, prefix=prefix)
    said = ended.stdout.splitlines()
    refused = "attempt to write a readonly database"
    assert said[:4] == ["(0,) plain", refused] * 2
    assert said[4].startswith("(0,) eager")
    assert said[5] == refused
    assert "open for reading only, so strategy eager is not in force" in said[6]


def test_uri_serves_any_driver():
    made = oneflush.uri("a ?.db", "eager", mode="rwc", durability="full", keep_wal=False)
    assert made == (
        "file:a%20%3F.db?vfs=oneflush&strategy=eager&durability=full&keep_wal=off&mode=rwc"
    )
    oneflush.enable(default=False)
    connection = sqlite3.connect(made, uri=True)
    assert oneflush.strategy(connection) == "eager (inactive: journal_mode=delete)"
    connection.close()
