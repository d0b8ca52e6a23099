"""Places where a database is not at ease: each played with stock SQLite and with ours, in processes of their own.

A scene prints what it observed, and itself checks what must hold for both. Where ours answers otherwise than stock SQLite, the
difference is printed, and it is an error unless DIFFERENCES says why it is no worse.
"""

import atexit
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

import compat

HERE = os.path.dirname(os.path.abspath(__file__))
SECONDS_MAX = 300
AT_ONCE = 4

# What may differ (regular expressions), and why that is as good. "at least" is for numbers: ours, as a share of stock SQLite's.
DIFFERENCES = json.load(open(os.path.join(HERE, "differences.json")))


def place(name):
    """A new folder here, or, where others may not enter what this checkout lies in, among the temporary files: some scenes are another user's."""
    here = pathlib.Path.cwd()
    if all(folder.stat().st_mode & 0o001 for folder in (here, *here.parents)):
        folder = here / name
        folder.mkdir()
        return str(folder)
    folder = tempfile.mkdtemp(prefix=f"oneflush-{name}-")
    os.chmod(folder, 0o755)
    # What a scene has mounted is seen by nobody else.
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def play(module, scene, strategy):
    folder = place(f"{module}-{scene}-{strategy or 'unix'}")
    environment = {**os.environ, "STRATEGY": strategy} if strategy else os.environ
    command = [sys.executable, os.path.join(HERE, f"{module}.py"), scene, "ours" if strategy else "stock", folder]
    # Mounts of a scene are seen by nobody else, and go with it.
    command = ["unshare", "--mount", "--propagation", "private", *command]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX, env=environment)
    except subprocess.TimeoutExpired:
        compat.fail(f"{module}, {scene}, {strategy or 'stock SQLite'}: no end after {SECONDS_MAX} s")
    if done.returncode != 0:
        compat.fail(f"{module}, {scene}, {strategy or 'stock SQLite'}: {(done.stdout + done.stderr).strip()[-3000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def excuse(scene, observation, stock, ours):
    for entry in DIFFERENCES:
        if not re.fullmatch(entry.get("strategy", ".*"), compat.STRATEGY):
            continue
        if not (re.fullmatch(entry["scene"], scene) and re.fullmatch(entry["observation"], observation)):
            continue
        if "at least" in entry:
            fits = ours >= entry["at least"] * stock
        else:
            fits = re.fullmatch(entry["stock"], str(stock)) and re.fullmatch(entry["ours"], str(ours))
        if fits:
            return entry["because"]
    return None


def compare(scene, stock, ours):
    compat.check(f"{scene}: what was observed", list(ours), list(stock))
    worse = different = 0
    for observation, answer in stock.items():
        if ours[observation] == answer:
            print(f"{scene}: {observation}: {answer}")
            continue
        different += 1
        because = excuse(scene, observation, answer, ours[observation])
        worse += because is None
        print(f"{scene}: {observation}: stock SQLite {answer}, ours {ours[observation]}: {because or 'NOT AS GOOD'}")
    return len(stock), different, worse


def scenes():
    for module in ("read_only", "full_disk", "fork", "names"):
        listed = subprocess.run([sys.executable, os.path.join(HERE, f"{module}.py"), "list"], capture_output=True, text=True, check=True)
        for scene in listed.stdout.split():
            yield module, scene


def main():
    total = [0, 0, 0]
    # They wait for the disk, mostly.
    with ThreadPoolExecutor(AT_ONCE) as pool:
        plays = [(scene, pool.submit(play, module, scene, None), pool.submit(play, module, scene, compat.STRATEGY))
                 for module, scene in scenes()]
        for scene, stock, ours in plays:
            total = [a + b for a, b in zip(total, compare(scene, stock.result(), ours.result()))]
    observations, different, worse = total
    compat.check("answers that are worse than stock SQLite's", worse, 0)
    print(f"places: ok ({compat.STRATEGY} in {len(plays)} scenes: {observations} answers, {different} of them other than stock "
          f"SQLite's and no worse)")


main()
