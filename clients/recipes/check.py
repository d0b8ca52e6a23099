#!/usr/bin/env python3
"""Runs the blocks of a page, such as docs/recipes.md, as they stand: check.py PAGE FOLDER.

Of the fenced blocks of each section (`## …`)
- `file=NAME` is written to a file,
- `sh` is run by bash, all of a section as one script in FOLDER,
- `sh once` is run again only where the block has changed: what it installs stays,
- `sh docker` is run where there is a daemon of Docker,
- `text` is what the section must print.

/usr/local, /srv and /var/lib/note stand for folders below FOLDER, so nothing of the machine is
changed. `target` and `oneflush` there are links to this project, and `build/wheel` to what DIST
names.
"""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys

PAGE, FOLDER = map(pathlib.Path, sys.argv[1:])
ROOT = pathlib.Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```(\w+)(?: (\S+))?\n(.*?)^```$", re.M | re.S)
PLACES = ["/usr/local", "/srv", "/var/lib/note"]
# What a section cannot be run without, beside what the clients' common part installs.
NEEDS = {
    "better-sqlite3 with workers": ["node", "npm"],
    "Go": ["go"],
    "Rust": ["cargo"],
    "systemd": ["systemd-analyze"],
}
SECONDS_MAX = 300


def local(text):
    for place in PLACES:
        text = re.sub(rf"(?<![\w.]){place}(?=[/\s]|$)", f"{FOLDER}{place}", text)
    return text


def bash(script, environment):
    """The script's output; what it leaves running is ended."""
    command = ["bash", "-euo", "pipefail", "-c", script]
    child = subprocess.Popen(
        command, cwd=FOLDER, env=environment, stdout=subprocess.PIPE, stderr=sys.stderr,
        stdin=subprocess.DEVNULL, text=True, start_new_session=True)
    try:
        output, _ = child.communicate(timeout=SECONDS_MAX)
        return child.returncode, output
    except subprocess.TimeoutExpired:
        return 124, f"no end after {SECONDS_MAX} s"
    finally:
        try:
            os.killpg(child.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def has_docker():
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    return shutil.which("docker") and subprocess.run(["docker", "info"], **quiet).returncode == 0


def run(title, text, environment):
    """The word ok if the section does what it says, else why not."""
    script, expected = [], ""
    for language, kind, body in BLOCK.findall(text):
        kind = kind or ""
        if kind.startswith("file="):
            file = FOLDER / kind.removeprefix("file=")
            file.parent.mkdir(parents=True, exist_ok=True)
            copy = FOLDER / "srv" / file.name
            for path in (file, copy):
                path.write_text(local(body))
        elif language == "text":
            expected += body
        elif (language, kind) == ("sh", "once"):
            stamp = FOLDER / f".once-{re.sub('[^a-z0-9]+', '-', title.lower())}"
            if not stamp.exists() or stamp.read_text() != body:
                code, output = bash(local(body), environment)
                if code != 0:
                    return f"exit code {code} of: {body}{output}"
                stamp.write_text(body)
        elif (language, kind) == ("sh", "docker"):
            if not has_docker():
                return "skipped, there is no daemon of Docker"
            script.append(body)
        elif language == "sh":
            script.append(body)
    if not script:
        return "ok"
    code, output = bash(local("".join(script)), environment)
    if code != 0 or output != expected:
        return f"exit code {code}; printed {output!r} in place of {expected!r}"
    return "ok"


def main():
    FOLDER.mkdir(parents=True, exist_ok=True)
    kept = {"venv", "node_modules", "package.json", "package-lock.json"}
    for path in FOLDER.iterdir():
        if path.name in kept or path.name.startswith(".once-"):
            continue
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    for place in PLACES:
        (FOLDER / place.lstrip("/")).mkdir(parents=True)
    release = pathlib.Path(os.environ["ONEFLUSH_PROGRAM"]).parent
    (FOLDER / "target").mkdir()
    (FOLDER / "target/release").symlink_to(release)
    (FOLDER / "oneflush").symlink_to(ROOT)
    if "DIST" in os.environ:
        (FOLDER / "build").mkdir()
        (FOLDER / "build/wheel").symlink_to(pathlib.Path(os.environ["DIST"]).resolve())
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ONEFLUSH_")}
    environment["PATH"] = f"{FOLDER}/usr/local/bin:{environment['PATH']}"

    sections = re.split(r"^## (.+)$", PAGE.read_text(), flags=re.M)[1:]
    failed = False
    for title, text in zip(sections[::2], sections[1::2]):
        missing = " ".join(command for command in NEEDS.get(title, []) if not shutil.which(command))
        if not missing:
            result = run(title, text, environment)
        elif os.environ.get("SKIP_MISSING") == "1":
            result = f"skipped, there is no {missing}"
        else:
            result = f"there is no {missing}"
        print(f"{title}: {result}", flush=True)
        failed |= result != "ok" and not result.startswith("skipped")
    sys.exit(failed)


main()
