"""Scenes that are played in a plain directory and through the mount, and must answer the same.

A scene is a function of a directory and of `see`, which notes an answer under a name. It is played in a process of its own.
Where the mount answers otherwise, that must stand in `differences.json` with its reason.
"""

import errno
import json
import os
import pathlib
import pickle
import re
import signal
import sys
import time
import traceback

import told

LISTED = json.loads((pathlib.Path(__file__).parent.parent / "differences.json").read_text())
SECONDS_MAX = 120
LINE_MAX = 600


def answer(act, *arguments, **options):
    """What a call answers: its value, or the name of its error."""
    try:
        return act(*arguments, **options)
    except OSError as error:
        return errno.errorcode.get(error.errno, str(error))


def apart(act):
    """Answers what another process answers, which may become another user. Its failure is ours."""
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(ours)
        try:
            done = (True, act())
        except BaseException:
            done = (False, traceback.format_exc())
        with open(theirs, "wb") as pipe:
            pickle.dump(done, pipe)
        os._exit(0)
    os.close(theirs)
    with open(ours, "rb") as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    if not said:
        raise RuntimeError("a process died")
    is_good, value = pickle.loads(said)
    if not is_good:
        raise RuntimeError(value)
    return value


def as_user(uid, gid, groups, act, *arguments, **options):
    """Answers what a call answers to another user."""

    def become():
        os.setgroups(groups)
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
        return answer(act, *arguments, **options)

    return apart(become)


def observe(scene, folder):
    seen = []

    def see(what, value):
        seen.append((what, value))

    def act():
        os.umask(0o022)
        signal.alarm(SECONDS_MAX)
        os.chdir(folder)
        scene(str(folder), see)
        return seen

    return apart(act)


def because(scene, what, plain, ours):
    for entry in LISTED:
        fields = [("case", told.CASE), ("scene", scene), ("what", what), ("plain", str(plain)), ("ours", str(ours))]
        if all(re.fullmatch(entry[field], value, re.DOTALL) for field, value in fields):
            return entry["because"]
    return None


def play(place, scenes):
    """Answers how many answers were compared, and how many of them are other ones with a reason."""
    answers = different = worse = 0
    for scene in scenes:
        name = scene.__name__
        began = time.monotonic()
        folders = [place.control / name, place.at / name]
        for folder in folders:
            folder.mkdir(exist_ok=True)
            # Other users come here, too.
            folder.chmod(0o777)
        plain, ours = (observe(scene, folder) for folder in folders)
        if [what for what, _ in plain] != [what for what, _ in ours]:
            told.fail(f"{name}: not the same was seen:\n{plain}\n{ours}")
        for (what, plain_answer), (_, our_answer) in zip(plain, ours):
            answers += 1
            if plain_answer != our_answer:
                reason = because(name, what, plain_answer, our_answer)
                different, worse = different + 1, worse + (reason is None)
                print(f"{name}: {what}: plain {plain_answer!r}, mounted {our_answer!r}: {reason or 'NOT AS GOOD'}"[:LINE_MAX], flush=True)
        print(f"{name}: {time.monotonic() - began:.1f} s", flush=True)
    if worse:
        sys.exit(1)
    return answers, different
