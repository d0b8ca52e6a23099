"""`oneflush try` on databases that programs of others have made.

Each program makes its database as it always does. `oneflush try` measures a copy of it, within its time, and says so in
80 columns. All files of the program are as they were, byte by byte, and nothing is beside them. Then the program goes on.
"""

import hashlib
import json
import os
import pathlib
import subprocess
import sys
import time

import diskcache

ONEFLUSH = os.environ["ONEFLUSH"]
SECONDS = int(os.environ["TRY_SECONDS"])
HERE = pathlib.Path.cwd()


def run(*command, **options):
    return subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True, **options).stdout


def files(folder):
    """Names and hashes of all files below it."""
    return {
        path: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.rglob("*")) if path.is_file()
    }


def diskcache_of_pypi():
    """The cache of a web program, in WAL mode."""
    folder = HERE / "diskcache"
    with diskcache.Cache(folder) as cache:
        for number in range(3000):
            cache.set(f"page {number}", "text " * (number % 60), expire=3600, tag="page")
    yield folder / "cache.db"
    with diskcache.Cache(folder) as cache:
        assert len(cache) == 3000 and cache["page 7"] == "text " * 7 and cache.check() == []


def subversion_of_debian():
    """The database of a working copy."""
    tree, repository, copy = HERE / "tree", HERE / "repository", HERE / "svn"
    tree.mkdir()
    for number in range(1500):
        (tree / f"file-{number}.txt").write_text(f"{number}\n")
    run("svnadmin", "create", repository)
    run("svn", "import", "-q", "-m", "first", tree, f"file://{repository}")
    run("svn", "checkout", "-q", f"file://{repository}", copy)
    yield copy / ".svn" / "wc.db"
    (copy / "file-3.txt").write_text("more\n")
    assert run("svn", "status", copy).split() == ["M", str(copy / "file-3.txt")]
    run("svn", "commit", "-q", "-m", "second", copy)


def fossil_of_debian():
    """A repository is one database."""
    folder, work = HERE / "fossil", HERE / "fossil-work"
    folder.mkdir()
    work.mkdir()
    home = {**os.environ, "HOME": str(HERE), "USER": "somebody", "FOSSIL_HOME": str(HERE)}
    fossil = lambda *words: run("fossil", *words, cwd=work, env=home)
    fossil("init", folder / "repo.fossil")
    fossil("open", "--force", folder / "repo.fossil")
    for number in range(400):
        (work / f"file-{number}.txt").write_text(f"{number} {'text ' * (number % 90)}\n")
    fossil("addremove")
    fossil("commit", "--no-warnings", "-m", "first")
    yield folder / "repo.fossil"
    (work / "file-3.txt").write_text("more\n")
    fossil("commit", "--no-warnings", "-m", "second")
    assert "second" in fossil("timeline", "-n", "1")


def ipython_of_pypi():
    """What somebody has typed, from many sessions."""
    folder = HERE / "ipython"
    home = {**os.environ, "IPYTHONDIR": str(folder), "HOME": str(HERE)}
    ipython = lambda text: run(sys.executable, "-m", "IPython", "--no-banner", "--simple-prompt", input=text, env=home)
    ipython("\n".join(f"number_{n} = {n}" for n in range(400)) + "\n")
    yield folder / "profile_default" / "history.sqlite"
    assert "number_7 = 7" in ipython("%history -g number_7\n")


found = []
for make in [diskcache_of_pypi, subversion_of_debian, fossil_of_debian, ipython_of_pypi]:
    name = make.__name__.replace("_of_", " of ")
    steps = make()
    database = next(steps)
    before = files(database.parent)
    began = time.monotonic()
    text = run(ONEFLUSH, "try", "--seconds", SECONDS, database)
    took = time.monotonic() - began
    print(f"{name}, {took:.1f} s\n{text}", flush=True)
    assert took < 60, took
    # A path cannot be wrapped.
    assert max(len(line) for line in text.splitlines() if str(database) not in line) <= 80
    answer = json.loads(run(ONEFLUSH, "try", "--seconds", 1, "--json", database))
    assert answer["commit"]["table"], "a table of theirs"
    assert all(one["commits"] > 0 for one in answer["measured"])
    assert files(database.parent) == before, "something was changed beside it"
    # The program goes on, and finds what it has left.
    for _ in steps:
        pass
    found.append(f"{name}: {answer['commit']['table']}")
print(f"try: ok ({'; '.join(found)})")
