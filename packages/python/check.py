"""What a user does with the installed package, each with a line of its own.

Runs in a folder that is empty but for the venv, with nothing of the project but the package.
"""

from __future__ import annotations

import contextlib
import glob
import os
import pathlib
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator

import oneflush

DIST = os.environ["DIST"]
COMMAND = os.path.join(os.path.dirname(sys.executable), "oneflush")
COMMITS = 100


def run(*command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    environment = {**os.environ, **variables}
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


def succeed(*command: str, **variables: str) -> str:
    """Return what a command printed, which must succeed."""
    ended = run(*command, **variables)
    assert ended.returncode == 0, f"{command}: {ended.stderr}"
    return ended.stdout.strip()


def python(code: str, *arguments: str, **variables: str) -> str:
    """Return what code printed in a new Python."""
    return succeed(sys.executable, "-c", code, *arguments, **variables)


@contextlib.contextmanager
def refused(kind: type[Exception], *words: str) -> Iterator[None]:
    """Demand an exception with these words."""
    try:
        yield
    except kind as error:
        for word in words:
            assert word in str(error), error
    else:
        raise AssertionError(f"{kind.__name__} was not raised")


def look(opened: sqlite3.Connection) -> tuple[int, int]:
    """Return the number of rows, and of different ones, of a sound database."""
    assert opened.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    found: tuple[int, int] = opened.execute("SELECT count(n), count(DISTINCT n) FROM t").fetchone()
    opened.close()
    return found


def make(strategy: oneflush.Strategy) -> None:
    """Make a database with an empty table."""
    made = oneflush.connect("app.db", strategy)
    made.execute("CREATE TABLE t(n)")
    made.close()


def this_place_has_no_compiler_and_nothing_of_the_project() -> None:
    """Otherwise the rest would show little."""
    assert [name for name in ("cc", "gcc", "cargo", "rustc") if shutil.which(name)] == []
    assert not os.path.exists(os.path.join(DIST, "..", "Cargo.toml"))
    assert oneflush.program_path().startswith(sys.prefix)


def program_library_and_package_have_one_version() -> None:
    """The command is the program in the package."""
    assert succeed(COMMAND, "--version") == f"oneflush {oneflush.__version__}"
    assert succeed(sys.executable, "-m", "oneflush", "--version").endswith(oneflush.__version__)


def commits(strategy: oneflush.Strategy) -> None:
    """100 commits are there, for stock SQLite too."""
    make(strategy)
    connection = oneflush.connect("app.db", strategy)
    assert connection.execute("PRAGMA oneflush_strategy").fetchone() == (strategy,)
    assert oneflush.strategy(connection) == strategy
    for number in range(COMMITS):
        with connection:
            connection.execute("INSERT INTO t VALUES (?)", (number,))
    assert oneflush.stats(connection)["commits"]["count"] >= COMMITS
    connection.close()
    assert look(sqlite3.connect("app.db")) == (COMMITS, COMMITS)


WRITER = """
import oneflush, sys
db, number = oneflush.connect("app.db", sys.argv[1]), 0
while True:
    with db:
        db.execute("INSERT INTO t VALUES (?)", (number,))
    print(number, flush=True)
    number += 1
"""


def killed_writer(strategy: oneflush.Strategy) -> int:
    """Return how many commits a writer had acknowledged when it was killed."""
    make(strategy)
    command = [sys.executable, "-c", WRITER, strategy]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        said = [writer.stdout.readline() for _ in range(COMMITS)]
        writer.send_signal(signal.SIGKILL)
        return len(said) + len(writer.stdout.readlines())


def kill_and_reopen(strategy: oneflush.Strategy) -> None:
    """All that was acknowledged is there after the next open."""
    acknowledged = killed_writer(strategy)
    found, distinct = look(oneflush.connect("app.db", strategy))
    assert acknowledged <= found == distinct <= acknowledged + 1, (acknowledged, found)
    assert look(sqlite3.connect("app.db")) == (found, distinct)


def kill_and_recover(strategy: oneflush.Strategy) -> None:
    """The same after `oneflush recover`, and before it stock SQLite is refused."""
    acknowledged = killed_writer(strategy)
    with refused(sqlite3.DatabaseError, "file is not a database"):
        sqlite3.connect("app.db").execute("SELECT * FROM t")
    assert "it is a plain database file now" in succeed(COMMAND, "recover", "app.db")
    assert os.listdir() == ["app.db"]
    found, distinct = look(sqlite3.connect("app.db"))
    assert acknowledged <= found == distinct <= acknowledged + 1, (acknowledged, found)


def bad_input_is_said_with_the_way_out() -> None:
    """An unknown strategy, the wrong journal mode, two strategies, a folder that is not there."""
    with refused(oneflush.OptionError, '"fast"', "allowed: auto, stock, plain, eager"):
        oneflush.connect("app.db", "fast")  # type: ignore[call-overload]
    old = sqlite3.connect("old.db")
    old.execute("CREATE TABLE t(n)")
    old.close()
    with refused(oneflush.JournalModeError, "old.db", 'journal_mode="wal"', '"keep"'):
        oneflush.connect("old.db", "eager")
    first = oneflush.connect("app.db", "eager")
    with refused(sqlite3.OperationalError, f"{os.getcwd()}/app.db", "[OF-119]"):
        oneflush.connect("app.db", "plain")
    first.close()
    with refused(sqlite3.OperationalError, "no folder/app.db"):
        oneflush.connect("no folder/app.db", "plain")
    with refused(oneflush.RecoveryError, "missing.db: No such file"):
        oneflush.recover("missing.db")


def a_package_for_another_machine_says_so() -> None:
    """The folder of the packages was copied to another machine, or lost a file."""
    shutil.copytree(os.path.dirname(oneflush.__file__), "packages/oneflush")
    built = pathlib.Path("packages/oneflush/_built.py")
    text = built.read_text()
    code = "import oneflush; oneflush.connect('app.db')"
    built.write_text(text.replace("-linux-", "-elsewhere-"))
    ended = run(sys.executable, "-c", code, PYTHONPATH="packages")
    assert "oneflush.PlatformError: the package oneflush in" in ended.stderr, ended.stderr
    assert "-elsewhere-gnu, and this Python is for" in ended.stderr, ended.stderr
    built.write_text(text)
    os.remove("packages/oneflush/native/liboneflush.so")
    ended = run(sys.executable, "-c", code, PYTHONPATH="packages")
    assert "liboneflush.so is missing" in ended.stderr, ended.stderr


def pip_takes_the_wheel_of_the_platform() -> None:
    """Each wheel of DIST for its own platform, and none for others."""
    wheels = {wheel.split("-none-")[1][:-4]: wheel for wheel in glob.glob(f"{DIST}/*.whl")}
    machines = {"x86_64": 62, "aarch64": 183}
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    for number, tags in enumerate(wheels):
        for tag in tags.split("."):
            place = f"{number}-{tag}"
            succeed(
                *pip, "--no-index", "--find-links", DIST, "--only-binary=:all:", "--no-deps",
                "--platform", tag, "--target", place, "oneflush",
            )  # fmt: skip
            (info,) = pathlib.Path(place).glob("*.dist-info/WHEEL")
            assert f"Tag: py3-none-{tag}\n" in info.read_text()
            for file in pathlib.Path(place, "oneflush", "native").iterdir():
                header = file.read_bytes()[:20]
                (machine,) = (found for name, found in machines.items() if name in tag)
                assert header[:5] == b"\x7fELF\x02", file
                assert int.from_bytes(header[18:20], "little") == machine, file
    for tag in ("manylinux2014_i686", "win_amd64", "macosx_11_0_arm64", "linux_armv7l"):
        ended = run(
            *pip, "--no-index", "--find-links", DIST, "--only-binary=:all:", "--no-deps",
            "--platform", tag, "--target", tag, "oneflush",
        )  # fmt: skip
        assert "No matching distribution found for oneflush" in ended.stderr, tag


def oneflush_run_serves_a_program_that_knows_nothing_of_it() -> None:
    """The program finds both libraries."""
    code = (
        "import sqlite3; db = sqlite3.connect('app.db'); db.execute('PRAGMA journal_mode=WAL');"
        "print(*db.execute('PRAGMA oneflush_strategy').fetchone())"
    )
    command = [COMMAND, "run", "--strategy", "eager", "--", "/usr/bin/python3", "-c", code]
    assert succeed(*command) == "eager"


def the_lines_of_oneflush_try_switch_it_on() -> None:
    """As a program, with a strategy that is no default."""
    install, *lines = succeed(COMMAND, "try", "--language", "python").splitlines()
    assert install == "pip install oneflush", install
    code = "\n".join(lines).replace("plain", "eager")
    code += "\nimport sqlite3\nlibrary = sqlite3.connect('app.db')"
    code += "\nprint(oneflush.strategy(db), oneflush.strategy(library))"
    assert python(code) == "eager eager", code


def sqlalchemy_works() -> None:
    """One line, and asyncio."""
    code = """
import asyncio
from oneflush.sqlalchemy import create_async_engine, create_engine
from sqlalchemy import text
engine = create_engine("sqlite:///alchemy.db", strategy="eager")
with engine.begin() as db:
    db.execute(text("CREATE TABLE t(n)"))
    db.execute(text("INSERT INTO t VALUES (1)"))
engine.dispose()
async def work():
    engine = create_async_engine("sqlite+aiosqlite:///alchemy.db", "eager")
    async with engine.begin() as db:
        await db.execute(text("INSERT INTO t VALUES (2)"))
        print((await db.execute(text("PRAGMA oneflush_strategy"))).scalar())
    await engine.dispose()
asyncio.run(work())
"""
    assert python(code) == "eager"
    assert look(sqlite3.connect("alchemy.db")) == (2, 2)


def django_works() -> None:
    """Migrations and rows."""
    succeed(sys.executable, "-m", "django", "startproject", "site_of_ours", ".")
    with open("site_of_ours/settings.py", "a") as settings:
        settings.write(
            "\nDATABASES['default'] = {'ENGINE': 'oneflush.django', 'NAME': 'site.db', "
            "'OPTIONS': {'strategy': 'eager'}}\n"
        )
    succeed(sys.executable, "manage.py", "migrate", "--verbosity", "0")
    code = (
        "from django.contrib.auth.models import User as U; U.objects.create(username='one');"
        "from django.db import connection as c;"
        "print(U.objects.count(), c.cursor().execute('PRAGMA oneflush_strategy').fetchone()[0])"
    )
    said = succeed(sys.executable, "manage.py", "shell", "-c", code)
    assert said.splitlines()[-1] == "1 eager", said
    count = sqlite3.connect("site.db").execute("SELECT count(*) FROM auth_user").fetchone()
    assert count == (1,)


def apsw_works() -> None:
    """A SQLite of its own."""
    code = """
import apsw, oneflush
oneflush.load(apsw.Connection(":memory:"), default=True, strategy="eager")
db = apsw.Connection("app.db")
db.pragma("journal_mode", "wal")
db.execute("CREATE TABLE t(n); INSERT INTO t VALUES (1)")
print(oneflush.strategy(db))
"""
    assert python(code) == "eager"
    assert look(sqlite3.connect("app.db")) == (1, 1)


CHECKS: list[tuple[Callable[..., None], tuple[str, ...]]] = [
    (this_place_has_no_compiler_and_nothing_of_the_project, ()),
    (program_library_and_package_have_one_version, ()),
    *((commits, (strategy,)) for strategy in ("plain", "eager", "waldio", "maw")),
    *((kill_and_reopen, (strategy,)) for strategy in ("plain", "eager", "waldio", "maw")),
    *((kill_and_recover, (strategy,)) for strategy in ("eager", "waldio", "maw")),
    (bad_input_is_said_with_the_way_out, ()),
    (a_package_for_another_machine_says_so, ()),
    (pip_takes_the_wheel_of_the_platform, ()),
    (oneflush_run_serves_a_program_that_knows_nothing_of_it, ()),
    (the_lines_of_oneflush_try_switch_it_on, ()),
    (sqlalchemy_works, ()),
    (django_works, ()),
    (apsw_works, ()),
]


def main() -> int:
    """Run all checks, each in a folder of its own."""
    failed = 0
    home = os.getcwd()
    for check, arguments in CHECKS:
        name = " ".join([check.__name__.replace("_", " "), *arguments])
        with tempfile.TemporaryDirectory(dir=home) as folder:
            os.chdir(folder)
            try:
                check(*arguments)
            except Exception:
                failed += 1
                print(f"FAILED {name}\n{traceback.format_exc()}", flush=True)
            else:
                print(f"ok     {name}", flush=True)
            os.chdir(home)
    print(f"python: {len(CHECKS) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
