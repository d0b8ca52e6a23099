"""A loss of power: a copy of the disk at a moment, which lacks what the kernel had not written yet, and what is made of it then."""

import pathlib
import time

import told
from place import HERE, PROGRAM, attach, is_sound, run

COPIES_MAX = 50


def writes_of(loop):
    """How many writes the disk has had, and how many it has just now."""
    fields = pathlib.Path(f"/sys/block/{pathlib.Path(loop).name}/stat").read_text().split()
    return fields[4], fields[8]


def image_of_now(place):
    """Nothing was written to the disk while it was copied."""
    to = place.image.parent / "copy"
    for _ in range(COPIES_MAX):
        before = writes_of(place.loop)
        run("cp", "--sparse=always", place.image, to)
        if writes_of(place.loop) == before and before[1] == "0":
            return to
        time.sleep(0.1)
    told.fail("the disk was never quiet")


class Restarted:
    """The machine runs again: the copy lies at another place, and is mounted there."""

    def __init__(self, image):
        self.image = image

    def __enter__(self):
        self.fs, self.at = HERE / "copy", HERE / "copy-at"
        self.fs.mkdir(exist_ok=True)
        self.at.mkdir(exist_ok=True)
        attach(self.image, self.fs)
        self.lower = self.fs / "lower"
        return self

    def mount(self):
        said = run(PROGRAM, "mount", self.lower, self.at, "--allow-other")
        if "recovered from the log" not in said:
            told.fail(f"the log of before was not replayed: {said}")

    def unmount(self):
        run(PROGRAM, "umount", self.at)
        told.check("a log is left", (self.fs / "lower-oneflush").exists(), False)

    def __exit__(self, kind, error, trace):
        if kind is None:
            run("umount", self.fs)
            is_sound(self.image)
            self.image.unlink()
