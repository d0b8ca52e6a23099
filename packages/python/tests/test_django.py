"""A project of Django, made and used by its own commands."""

import os
import pathlib
import shutil
import sqlite3
import subprocess
import sys

import pytest

import oneflush

pytest.importorskip("django")

MODELS = """
from django.db import models

class Item(models.Model):
    words = models.CharField(max_length=100)
    owner = models.ForeignKey("auth.User", null=True, on_delete=models.CASCADE)
"""

TESTS = """
import os
import threading

import oneflush
from django.db import connection, transaction
from django.test import TestCase, TransactionTestCase

from shop.models import Item


def strategy():
    connection.ensure_connection()
    return oneflush.strategy(connection.connection)


class Rows(TestCase):
    def test_rows(self):
        Item.objects.create(words="one")
        self.assertEqual(Item.objects.count(), 1)
        self.assertEqual(str(strategy()), os.environ["EXPECTED"])

    def test_rollback(self):
        try:
            with transaction.atomic():
                Item.objects.create(words="one")
                raise KeyError
        except KeyError:
            pass
        self.assertEqual(Item.objects.count(), 0)


class More(TransactionTestCase):
    def test_rows(self):
        Item.objects.bulk_create(Item(words="word") for _ in range(1000))
        self.assertEqual(Item.objects.filter(words__regex="^w").count(), 1000)

    def test_other_thread(self):
        Item.objects.create(words="one")
        found = []
        def look():
            found.append(Item.objects.count())
            connection.close()
        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
        self.assertEqual(found, [1])
"""


class Site:
    """A project, and its commands."""

    def __init__(self, options, test=None):
        self.manage("startproject", "site_of_ours", ".", program=["-m", "django"])
        self.manage("startapp", "shop")
        pathlib.Path("shop/models.py").write_text(MODELS)
        pathlib.Path("shop/tests.py").write_text(TESTS)
        with open("site_of_ours/settings.py", "a") as settings:
            settings.write(
                f"\nINSTALLED_APPS += ['shop']\n"
                f"DATABASES['default']['ENGINE'] = 'oneflush.django'\n"
                f"DATABASES['default']['OPTIONS'] = {options!r}\n"
                f"DATABASES['default']['TEST'] = {test or {}!r}\n"
            )

    @staticmethod
    def manage(*arguments, program=("manage.py",), check=True, given=None, **variables):
        ended = subprocess.run(
            [sys.executable, *program, *arguments],
            capture_output=True,
            text=True,
            input=given,
            env={**os.environ, **variables},
            timeout=300,
            check=False,
        )
        if check:
            assert ended.returncode == 0, ended.stderr
        return ended

    def shell(self, code):
        return self.manage("shell", "-c", code).stdout.splitlines()[-1:]


ADD = """
from shop.models import Item
from django.db import connection, transaction
import oneflush
for number in range(100):
    with transaction.atomic():
        Item.objects.create(words=str(number))
print(Item.objects.count(), oneflush.strategy(connection.connection))
"""


@pytest.mark.parametrize("strategy", ["plain", "eager", "maw"])
def test_migrations_and_rows(strategy, stock):
    site = Site({"strategy": strategy})
    site.manage("makemigrations", "shop")
    site.manage("migrate", "--verbosity", "0")
    assert site.shell(ADD) == [f"100 {strategy}"]
    assert site.shell(ADD) == [f"200 {strategy}"]
    assert stock("db.sqlite3", "SELECT count(*) FROM shop_item") == "[(200,)]"
    assert stock("db.sqlite3", "PRAGMA integrity_check") == "[('ok',)]"
    site.manage("check")
    site.manage("flush", "--no-input")


def test_djangos_own_options_go_on_to_it():
    options = {"strategy": "eager", "durability": "full", "timeout": 7, "cached_statements": 9}
    import django

    if django.VERSION >= (5, 1):
        options |= {
            "transaction_mode": "IMMEDIATE",
            "init_command": "PRAGMA synchronous=NORMAL; PRAGMA cache_size=-4000",
        }
    site = Site(options)
    site.manage("makemigrations", "shop")
    site.manage("migrate", "--verbosity", "0")
    assert site.shell(ADD) == ["100 eager"]
    code = (
        "from django.db import connection as c; print(c.cursor().execute('PRAGMA {}').fetchone())"
    )
    assert site.shell(code.format("busy_timeout")) == ["(7000,)"]
    if django.VERSION >= (5, 1):
        assert site.shell(code.format("cache_size")) == ["(-4000,)"]


@pytest.mark.parametrize("parallel", [[], ["--parallel", "2"]])
def test_databases_for_tests_in_memory_go_on_working(parallel):
    site = Site({"strategy": "eager"})
    site.manage("makemigrations", "shop")
    before = sorted(os.listdir())
    ended = site.manage("test", *parallel, EXPECTED="None")
    assert "Ran 4 tests" in ended.stderr
    assert "OK" in ended.stderr
    assert sorted(os.listdir()) == before


@pytest.mark.parametrize("strategy", ["plain", "eager"])
@pytest.mark.parametrize("parallel", [[], ["--parallel", "2"]])
def test_databases_for_tests_in_files(strategy, parallel):
    site = Site({"strategy": strategy}, {"NAME": "test.sqlite3"})
    site.manage("makemigrations", "shop")
    for _ in range(2):
        ended = site.manage("test", *parallel, EXPECTED=strategy)
        assert "Ran 4 tests" in ended.stderr
        assert "OK" in ended.stderr
        assert [name for name in os.listdir() if name.startswith("test")] == []
    site.manage("test", "--keepdb", *parallel, EXPECTED=strategy)
    assert os.path.exists("test.sqlite3")
    ended = site.manage("test", "--keepdb", *parallel, EXPECTED=strategy)
    assert "OK" in ended.stderr
    ended = site.manage("test", "--no-input", *parallel, EXPECTED=strategy)
    assert "OK" in ended.stderr


@pytest.mark.skipif(shutil.which("sqlite3") is None, reason="there is no sqlite3 shell")
def test_dbshell_opens_the_database_beside_the_program():
    site = Site({"strategy": "eager"})
    site.manage("migrate", "--verbosity", "0")
    in_use = oneflush.connect("db.sqlite3", "eager")
    in_use.execute("SELECT * FROM auth_user").fetchall()
    sql = "SELECT count(*) FROM django_migrations; PRAGMA oneflush_strategy;"
    said = site.manage("dbshell", given=sql).stdout.split()
    assert int(said[0]) > 10
    assert said[1] == "eager"
    assert site.manage("dbshell", "--", "-json", "SELECT 1 AS n").stdout == '[{"n":1}]\n'
    in_use.close()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"strategy": "fast"}, "ImproperlyConfigured: DATABASES['default']['OPTIONS']: strategy:"),
        ({"strategy": "plain", "log_size": 5}, "allowed: a number of bytes from 1048576"),
        ({"strategie": "plain"}, "strategie"),
    ],
)
def test_a_wrong_option_is_an_error_of_the_settings(options, words):
    ended = Site(options).manage("migrate", check=False)
    assert words in ended.stderr
    assert not os.path.exists("db.sqlite3")


def test_an_existing_database_in_delete_mode_is_changed_only_if_that_is_said():
    made = sqlite3.connect("db.sqlite3")
    made.execute("CREATE TABLE old(a)")
    made.close()
    ended = Site({"strategy": "eager"}).manage("migrate", check=False)
    assert "django.db.utils.OperationalError: " in ended.stderr
    assert 'journal_mode="wal" changes the database' in ended.stderr
    shutil.rmtree("site_of_ours"), shutil.rmtree("shop"), os.remove("manage.py")
    site = Site({"strategy": "eager", "journal_mode": "wal"})
    site.manage("makemigrations", "shop")
    site.manage("migrate", "--verbosity", "0")
    assert site.shell(ADD) == ["100 eager"]


def test_a_refused_open_is_an_operational_error_with_the_reason():
    site = Site({"strategy": "eager"})
    site.manage("migrate", "--verbosity", "0")
    other = sqlite3.connect("db.sqlite3")
    other.execute("SELECT * FROM auth_user").fetchall()
    ended = site.manage("migrate", check=False)
    assert "django.db.utils.OperationalError: unable to open database file: " in ended.stderr
    assert "[OF-107]" in ended.stderr
    other.close()


def test_a_uri_as_the_name_works(tmp_path):
    site = Site({"strategy": "eager"})
    with open("site_of_ours/settings.py", "a") as settings:
        settings.write(f"DATABASES['default']['NAME'] = 'file:{tmp_path}/a.db?cache=private'\n")
    site.manage("makemigrations", "shop")
    site.manage("migrate", "--verbosity", "0")
    assert site.shell(ADD) == ["100 eager"]
