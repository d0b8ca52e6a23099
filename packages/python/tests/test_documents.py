"""Every block of code in README.md and book.md runs, and prints what the page says.

A section (`## …`) is run from top to bottom, all in one folder. `python` is a script, `file=NAME`
writes it to a file first, `sh` is a script of bash, and `text` is what all since the last `text`
have printed. A block with DATABASES is the settings of a new Django project.
"""

import importlib.util
import os
import pathlib
import re
import subprocess
import sys

import pytest

PACKAGE = pathlib.Path(__file__).resolve().parents[1]
BLOCK = re.compile(r"^```(\w+)(?: file=(\S+))?\n(.*?)^```$", re.M | re.S)
IMPORTED = re.compile(r"^(?:from|import) (apsw|flask|fastapi|sqlalchemy)\b", re.M)

DJANGO = """
django-admin startproject site_of_ours .
cat settings_of_the_page.py >> site_of_ours/settings.py
python manage.py migrate --verbosity 0
python manage.py shell -c "
from django.db import connection
print(connection.cursor().execute('PRAGMA oneflush_strategy').fetchone()[0])" | tail -n 1
"""


def run(*command):
    environment = {
        **os.environ,
        "PATH": f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}",
        "PIP_NO_INDEX": "1",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }
    ended = subprocess.run(
        command, capture_output=True, text=True, env=environment, timeout=300, check=False
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def bash(script):
    return run("bash", "-euo", "pipefail", "-c", script)


@pytest.mark.parametrize("page", ["README.md", "book.md"])
def test_the_page_does_what_it_says(page):
    text = (PACKAGE / page).read_text()
    for name in {*IMPORTED.findall(text), "django", "aiosqlite"}:
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed")
    blocks, compared = 0, 0
    for section in re.split(r"^## ", text, flags=re.M):
        printed = ""
        for language, file, body in BLOCK.findall(section):
            blocks += 1
            if language == "text":
                assert printed == body, section.splitlines()[0]
                printed, compared = "", compared + 1
            elif file:
                pathlib.Path(file).write_text(body)
            elif "DATABASES" in body:
                import django

                if django.VERSION < (5, 1):  # transaction_mode came with it
                    body = re.sub(r', "transaction_mode": "\w+"', "", body)
                pathlib.Path("settings_of_the_page.py").write_text(body)
                assert bash(DJANGO) == "eager\n"
            elif language == "python":
                printed += run(sys.executable, "-c", body)
            else:
                said = bash(body)
                printed += "" if body.startswith(("pip install", "oneflush recover")) else said
    assert blocks >= 15
    assert compared >= 6
    assert len(BLOCK.findall(text)) * 2 == len(re.findall(r"^```", text, flags=re.M))


@pytest.mark.parametrize("page", ["README.md", "book.md"])
def test_lines_are_short(page):
    lines = (PACKAGE / page).read_text().splitlines()
    assert [line for line in lines if len(line) > 100] == []
