"""The command `oneflush` of the package."""

import os
import pathlib
import shutil
import subprocess
import sys
import sysconfig

import pytest

import oneflush

COMMAND = os.path.join(sysconfig.get_path("scripts"), "oneflush")


def run(*arguments, **variables):
    environment = {**os.environ, **variables}
    return subprocess.run(
        arguments, capture_output=True, text=True, env=environment, check=False, timeout=60
    )


@pytest.mark.parametrize("how", ["command", "module", "link"])
def test_each_way_of_starting_it_is_the_program(how, tmp_path):
    link = tmp_path / "link"
    link.symlink_to(COMMAND)  # as pipx has it
    ways = {
        "command": [COMMAND],
        "module": [sys.executable, "-m", "oneflush"],
        "link": [str(link)],
    }
    ended = run(*ways[how], "--version")
    assert ended.stdout == f"oneflush {oneflush.__version__}\n"
    assert run(*ways[how], "stats", "missing.db").returncode == 1
    assert run(*ways[how], "nonsense").returncode == 2


def test_oneflush_run_finds_both_libraries_and_becomes_the_program(python):
    code = """if True:
        import os, sqlite3, sys
        db = sqlite3.connect("app.db")
        db.execute("PRAGMA journal_mode=WAL")
        print(os.getpid(), *db.execute("PRAGMA oneflush_strategy").fetchone())
    """
    command = [COMMAND, "run", "--strategy", "eager", "--", sys.executable, "-c", code]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    said, _ = process.communicate(timeout=60)
    assert said.split() == [str(process.pid), "eager"]


def test_the_program_gets_what_the_shell_gave_and_nothing_that_python_added():
    # A shell: a Python would ignore some signals and set LC_CTYPE itself.
    tool = ["/bin/sh", "-c", 'echo "[$LC_CTYPE]"; grep SigIgn /proc/self/status']
    variables = {"LC_ALL": "", "LANG": "C"}
    environment = {k: v for k, v in {**os.environ, **variables}.items() if k != "LC_CTYPE"}
    directly, by_command = (
        subprocess.run(
            [*program, "run", "--", *tool],
            capture_output=True,
            text=True,
            env=environment,
            check=True,
            restore_signals=True,
        ).stdout
        for program in ([oneflush.program_path()], [COMMAND])
    )
    assert by_command == directly
    assert directly.startswith("[]\n")


def test_a_name_that_begins_with_a_dash_is_no_option():
    connection = oneflush.connect("-dash.db", "eager")
    connection.close()
    assert oneflush.recover("-dash.db")["recovered"] is False


def test_a_missing_database_is_an_error_of_the_recovery():
    with pytest.raises(oneflush.RecoveryError, match=r"^missing\.db: No such file.*\[OF-331\]"):
        oneflush.recover("missing.db")


def test_a_program_that_may_not_be_executed_is_named(tmp_path):
    place = tmp_path / "packages"
    shutil.copytree(os.path.dirname(oneflush.__file__), place / "oneflush")
    program = place / "oneflush" / "native" / "oneflush"
    program.chmod(0o644)
    ended = run(sys.executable, "-m", "oneflush", "--version", PYTHONPATH=str(place))
    assert ended.returncode == 1
    assert ended.stderr.startswith(f"oneflush: {program}: Permission denied")


def wheel():
    dist = pathlib.Path(os.environ.get("ONEFLUSH_TEST_DIST", "/nonexistent"))
    found = list(dist.glob("*manylinux*x86_64.whl"))
    if not found:
        pytest.skip("ONEFLUSH_TEST_DIST has no wheel")
    return found[0]


@pytest.mark.parametrize("options", [["--user"], ["--target", "target"], ["--prefix", "prefix"]])
def test_other_kinds_of_installation(options, tmp_path):
    base = f"{sys.base_exec_prefix}/bin/python{sys.version_info[0]}.{sys.version_info[1]}"
    home = {"HOME": str(tmp_path), "PYTHONUSERBASE": str(tmp_path / "user"), "PYTHONPATH": ""}
    pip = [sys.executable, "-m", "pip", "--python", base, "install", "--no-index", "--no-deps"]
    if "--python" not in run(sys.executable, "-m", "pip", "--help").stdout:
        pytest.skip("this pip installs only for its own Python")
    ended = run(*pip, "--quiet", "--break-system-packages", *options, wheel(), **home)
    assert ended.returncode == 0, ended.stderr
    (command,) = tmp_path.rglob("bin/oneflush")
    (package,) = [path.parent.parent for path in tmp_path.rglob("oneflush/__init__.py")]
    path = {} if options == ["--user"] else {"PYTHONPATH": str(package)}
    code = "import sqlite3; print(*sqlite3.connect('a.db').execute('PRAGMA oneflush_strategy'))"
    ended = run(command, "run", "--", base, "-c", code, **{**home, **path})
    assert ended.stdout.strip() == "('plain (inactive: journal_mode=delete)',)", ended.stderr
