"""pjdfstest, the suite of POSIX cases for file systems, in its rewrite of crates.io.

Each case of it runs in a plain directory and through the mount, and must end the same way. Cases of a file system that is
remounted read-only run through the mount only: the lower below a mount cannot be read-only.
"""

import os
import re
import subprocess

import told
from crates import crate
from place import Place
from scenes import because

CONFIGURATION = """
[features]
posix_fallocate = {}
rename_ctime = {}
utime_now = {}
utimensat = {}
[settings]
naptime = 0.02
allow_remount = %s
[dummy_auth]
entries = [["nobody", "nogroup"], ["daemon", "daemon"]]
"""
SECOND = "/dev/shm"
LINE = re.compile(r"^(\w+::\S+)\s+(ok|skipped|FAILED|failed.*)$", re.MULTILINE)
CASES_MIN = 390
REMOUNTS_MIN = 13


def results(place, folder, pattern="", remounts=False):
    """How each case ended, by its name."""
    configuration = place.folder / "pjdfstest.toml"
    configuration.write_text(CONFIGURATION % str(remounts).lower())
    command = [crate("pjdfstest"), "-c", configuration, "-p", folder, "-s", SECOND, *([pattern] if pattern else [])]
    environment = {**os.environ, "PATH": f"{own_mount(place)}:{os.environ['PATH']}"}
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", env=environment)
    ended = {name: how.lower() for name, how in LINE.findall(done.stdout)}
    total = re.search(r"(\d+) total$", done.stdout.strip())
    if total is None or int(total[1]) != len(ended):
        told.fail(f"it did not say how all cases ended:\n{(done.stdout + done.stderr)[-3000:]}")
    print(f"── in {folder}:\n{done.stdout}{done.stderr}", flush=True)
    return ended


def own_mount(place):
    """A `mount` that remounts by itself: libfuse's helper would start the program anew for that, and the suite asks for it."""
    programs = place.folder / "programs"
    programs.mkdir(exist_ok=True)
    (programs / "mount").write_text('#!/bin/sh\nexec /bin/mount -i "$@"\n')
    (programs / "mount").chmod(0o755)
    return programs


def main():
    crate("pjdfstest")
    with Place() as place:
        plain, ours = results(place, place.control), results(place, place.at)
        remounted = results(place, place.at, "erofs", remounts=True)
    told.check("the cases", sorted(ours), sorted(plain))
    worse, listed = [], 0
    for name, how in plain.items():
        if ours[name] != how:
            reason = because("pjdfstest", name, how, ours[name])
            print(f"{name}: plain {how}, mounted {ours[name]}: {reason or 'NOT AS GOOD'}")
            listed += reason is not None
            worse += [name] if reason is None else []
    worse += [name for name, how in remounted.items() if how != "ok"]
    told.check("cases that end otherwise", worse, [])
    if len(plain) < CASES_MIN or len(remounted) < REMOUNTS_MIN:
        told.fail(f"only {len(plain)} and {len(remounted)} cases were there")
    passed = sum(how == "ok" for how in ours.values()) + len(remounted)
    told.ok(f"{passed} cases passed, none failed; {listed} end otherwise than in a plain directory, with a reason")


main()
