"""git: a history with fixed dates, which must have the same hashes as in a plain directory, and a clone of this project."""

import os
import pathlib
import subprocess

import told
from place import HERE, Place, run
from tree import differences, tree

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
COMMITS = 20
# As safe as git can be: each object, reference and pack is synced.
SETTINGS = ["-c", "core.fsync=all", "-c", "core.fsyncMethod=fsync", "-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "gc.auto=0",
            "-c", "init.defaultBranch=main", "-c", "advice.detachedHead=false", "-c", "protocol.file.allow=always", "-c", "safe.directory=*"]
DATE = "2020-02-02T02:02:02Z"


class Repository:
    def __init__(self, path):
        self.path = path

    def __call__(self, *words, at=None):
        environment = {**os.environ, "GIT_CONFIG_NOSYSTEM": "1", "HOME": "/nonexistent", "GIT_AUTHOR_DATE": DATE, "GIT_COMMITTER_DATE": DATE}
        return run("git", *SETTINGS, *words, cwd=at or self.path, env=environment)


def history(folder):
    """Answers hashes and states that must not depend on where it is done."""
    git = Repository(folder / "history")
    git.path.mkdir()
    git("init", "-q")
    for number in range(told.times(COMMITS)):
        (git.path / f"file{number % 7}").write_text("line\n" * number + f"{number}\n")
        (git.path / f"dir{number % 5}").mkdir(exist_ok=True)
        (git.path / f"dir{number % 5}" / f"f{number}").write_text(str(number) * 500)
        git("add", "-A")
        git("commit", "-q", "-m", f"commit {number}")
        if number % 10 == 5:
            git("checkout", "-q", "-b", f"branch{number}", "HEAD~2")
            (git.path / f"on-branch{number}").write_text("x")
            git("add", "-A")
            git("commit", "-q", "-m", f"on branch {number}")
            git("checkout", "-q", "main")
            git("merge", "-q", "--no-ff", "-m", f"merge {number}", f"branch{number}")
        if number % 10 == 9:
            git("tag", "-a", "-m", f"tag {number}", f"v{number}")
    git("mv", "file1", "moved")
    git("stash", "-q")
    git("stash", "pop", "-q")
    git("commit", "-q", "-a", "-m", "moved")
    git("checkout", "-q", "-b", "rebased", "HEAD~5")
    (git.path / "rebased").write_text("r")
    git("add", "-A")
    git("commit", "-q", "-m", "rebased")
    git("rebase", "-q", "main")
    seen = [git("rev-parse", "HEAD", "main"), git("show-ref"), git("status", "--porcelain"), git("fsck", "--full", "--strict")]
    git("gc", "-q", "--prune=now")
    git("worktree", "add", "-q", "../worktree", "main")
    git("repack", "-q", "-a", "-d", "-f")
    seen += [git("fsck", "--full", "--strict"), git("log", "--format=%H %T %s"), git("count-objects"), git("status", "--porcelain")]
    git("clone", "-q", ".", "../second")
    git("clone", "-q", "--shared", ".", "../third")
    second = Repository(folder / "second")
    (second.path / "more").write_text("more")
    second("add", "-A")
    second("commit", "-q", "-m", "more")
    second("push", "-q", "origin", "HEAD:pushed")
    git("fetch", "-q", "../third")
    return seen + [git("rev-parse", "pushed"), git("diff", "main", "pushed", "--stat"), second("fsck")]


def clone(folder):
    git = Repository(folder / "project")
    # Others may commit to the project meanwhile.
    git("clone", "-q", "--no-local", HERE / "fs" / "project.git", git.path, at=folder)
    seen = [git("rev-parse", "HEAD"), git("status", "--porcelain"), git("fsck", "--no-dangling")]
    git("gc", "-q")
    return seen + [git("status", "--porcelain"), git("fsck", "--no-dangling"), git("count-objects")]


def main():
    told.check("git", subprocess.run(["git", "--version"], capture_output=True).returncode, 0)
    with Place() as place:
        acts = [history] + ([clone] if (ROOT / ".git").exists() else [])
        if len(acts) > 1:
            Repository(place.fs)("clone", "-q", "--bare", "--no-local", ROOT, "project.git")
        for act in acts:
            plain, ours = act(place.control), act(place.at)
            told.check(act.__name__, ours, plain)
        left = {}
        for top in (place.control, place.at):
            # What git makes by time and process.
            left[top] = {name: seen for name, seen in tree(top, False).items() if b".git/" not in name and not name.endswith(b".git")}
        if found := differences(left[place.control], left[place.at]):
            told.fail("what is checked out, plain and mounted:\n" + "\n".join(found))
        syncs = place.stats()["syncs"]
    clones = ", a clone of the project" if len(acts) > 1 else ""
    told.ok(f"{told.times(COMMITS)} commits with branches, merges, a rebase, gc, repack, clones, a push{clones}: the same hashes as in a plain "
            f"directory, {syncs} syncs")


main()
