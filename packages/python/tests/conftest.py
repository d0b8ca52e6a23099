"""The tests run against an installed wheel, and never against the sources beside them."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import textwrap

import pytest

import oneflush

HERE = pathlib.Path(__file__).resolve().parent


def pytest_configure(config):
    if HERE.parent in pathlib.Path(oneflush.__file__).resolve().parents:
        raise pytest.UsageError("oneflush is imported from the sources; run packages/python/test")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Each test works in a folder of its own, without variables of Oneflush."""
    for name in [name for name in os.environ if name.startswith("ONEFLUSH_")]:
        if not name.startswith("ONEFLUSH_TEST_"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def python():
    """Run code in a new Python, and return what has ended."""

    def run(code, *arguments, check=True, prefix=(), program=sys.executable, **variables):
        command = [*prefix, program, "-c", textwrap.dedent(code), *map(str, arguments)]
        ended = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=120,
            env={**os.environ, **variables},
        )
        if check:
            assert ended.returncode == 0, ended.stderr
        return ended

    return run


@pytest.fixture
def stock(python):
    """Run SQL on a database in another process, which never heard of Oneflush."""

    def run(database, sql):
        code = """
            import sqlite3, sys
            print(sqlite3.connect(sys.argv[1]).execute(sys.argv[2]).fetchall())
        """
        ended = python(code, database, sql, check=False)
        return ended.stdout.strip() or ended.stderr.strip().splitlines()[-1]

    return run
