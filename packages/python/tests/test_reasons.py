"""An open that is refused: SQLite's exception, with Oneflush's reason."""

import os
import sqlite3
import sys

import pytest

import oneflush


def refused(*arguments, **options):
    with pytest.raises(sqlite3.Error) as caught:
        oneflush.connect(*arguments, **options)
    return str(caught.value)


def test_the_reason_stands_in_the_exception_and_also_when_it_is_refused_again():
    first = oneflush.connect("app.db", "eager")
    words = (
        f"unable to open database file: {os.getcwd()}/app.db: strategy plain was asked for, but "
        f"this process has the database open with strategy eager; use that, or close it first "
        f"[OF-119]"
    )
    assert [refused("app.db", "plain") for _ in range(3)] == [words] * 3
    other = refused("app.db", "waldio")
    assert "strategy waldio was asked for" in other
    assert other.endswith("[OF-119]")
    first.close()
    oneflush.connect("app.db", "plain").close()


def test_the_exception_stays_sqlites_own():
    first = oneflush.connect("app.db", "eager")
    with pytest.raises(sqlite3.OperationalError) as caught:
        oneflush.connect("app.db", "plain")
    assert type(caught.value) is sqlite3.OperationalError
    if sys.version_info >= (3, 11):
        assert caught.value.sqlite_errorname == "SQLITE_CANTOPEN"
    first.close()


def test_a_refusal_that_comes_with_the_first_read_is_explained(python):
    stock = sqlite3.connect("app.db")
    stock.execute("PRAGMA journal_mode=WAL")
    stock.execute("CREATE TABLE t(a)")
    code = 'import oneflush; oneflush.connect("app.db", "eager")'
    ended = python(code, check=False)
    assert "the database is open elsewhere with SQLite's own WAL" in ended.stderr
    assert "[OF-107]" in ended.stderr
    stock.close()


def test_another_databases_reason_is_not_taken():
    first = oneflush.connect("app.db", "eager")
    refused("app.db", "plain")
    assert refused("no such folder/app.db", "eager") == (
        "unable to open database file: no such folder/app.db"
    )
    first.close()


def test_what_is_no_database_says_so_with_its_name():
    with open("text.db", "w") as file:
        file.write("no database\n" * 100)
    assert refused("text.db", "plain").startswith("file is not a database: text.db")


@pytest.mark.parametrize("place", ["stderr", "./messages.log", "off", ""])
def test_the_place_that_the_user_has_chosen_for_messages_stays(place, python, tmp_path):
    code = """
        import oneflush, os
        first = oneflush.connect("app.db", "eager")
        try:
            oneflush.connect("app.db", "plain")
        except Exception as error:
            print(error)
        print(oneflush.messages())
        print(repr(os.environ["ONEFLUSH_LOG"]))
    """
    ended = python(code, ONEFLUSH_LOG=place)
    said, messages, variable = ended.stdout.splitlines()
    assert variable == repr(place)
    in_file = place in ("./messages.log", "")
    assert ("[OF-119]" in said) == in_file
    assert ("[OF-119]" in messages) == in_file
    assert ("[OF-119]" in ended.stderr) == (place == "stderr")
    assert ("standard error" in said) == (place == "stderr")
    assert ("ONEFLUSH_LOG=off hides" in said) == (place == "off")
    assert ("messages.log" in os.listdir()) == (place == "./messages.log")


def test_the_processs_own_file_goes_with_it_and_comes_again_when_it_was_tidied_away(
    python, tmp_path
):
    (tmp_path / "temporary").mkdir()
    code = """
        import oneflush, os, shutil
        first = oneflush.connect("app.db", "eager")
        (own,) = os.listdir("temporary")
        shutil.rmtree(f"temporary/{own}")
        try:
            oneflush.connect("app.db", "plain")
        except Exception as error:
            print(error)
        if os.fork() == 0:
            raise SystemExit(0)
        os.wait()
        print(os.listdir("temporary") == [own])
    """
    ended = python(code, TMPDIR=str(tmp_path / "temporary"))
    said, is_there_after_the_child = ended.stdout.splitlines()
    assert "[OF-119]" in said
    assert is_there_after_the_child == "True"
    assert os.listdir("temporary") == []


def test_without_a_folder_for_temporary_files_only_the_reason_is_missing(python):
    # tempfile tries some folders of its own, so only a full disk or the like takes all away.
    code = """
        import oneflush, tempfile
        def none(**_):
            raise FileNotFoundError("no usable temporary directory")
        tempfile.mkdtemp = none
        first = oneflush.connect("app.db", "eager")
        try:
            oneflush.connect("app.db", "plain")
        except Exception as error:
            print(error)
    """
    assert python(code).stdout == "unable to open database file: app.db\n"
