"""The daemon is killed in the middle of a load, again and again. What was fsynced is there afterwards, each file by its checksum.

Two disks are looked at each time. *Mounted again*: the lower as the daemon has left it. *After a loss of power*: a copy of the
image at that moment, which lacks what the kernel had not written yet. There the log must bring back what was acknowledged.
"""

import errno
import hashlib
import json
import os
import random
import shutil
import signal
import time

import told
from place import HERE, Place
from power import Restarted, image_of_now

ROUNDS = 4
WRITERS = 4
LOAD_S = (0.4, 1.6)



def content(name, number, size):
    """The bytes of a file: they say themselves whether they are whole."""
    data = random.Random(f"{name} {number}").randbytes(size)
    return hashlib.blake2b(data, digest_size=16).digest() + data


def is_whole(data):
    return len(data) >= 16 and hashlib.blake2b(data[16:], digest_size=16).digest() == data[:16]


class Writer:
    """Makes, replaces, moves, appends and removes files of its own, syncs them, and notes what was acknowledged.

    The note of an act that may be done or not stands before it, and what is certain behind it.
    """

    def __init__(self, at, name, notes):
        self.at, self.name, self.notes = at / name, name, notes
        self.draw = random.Random(f"{told.SEED} {name} {time.monotonic()}")
        self.there = {}
        self.made = 0

    def note(self, **what):
        os.write(self.notes, json.dumps(what).encode() + b"\n")

    def run(self):
        self.at.mkdir(exist_ok=True)
        self.note(done="all of it before is gone")
        acts = [self.make, self.make, self.replace, self.append, self.move, self.remove, self.large]
        try:
            while True:
                self.draw.choice(acts)()
        except OSError as error:
            # The daemon has died.
            if error.errno not in (errno.ENOTCONN, errno.ECONNABORTED, errno.EIO):
                os._exit(error.errno)
        os._exit(0)

    def data(self, size):
        self.made += 1
        return content(self.name, self.draw.random(), size)

    def write(self, path, data, flags):
        file = os.open(path, flags | os.O_WRONLY, 0o644)
        os.write(file, data)
        (os.fdatasync if self.draw.random() < 0.3 else os.fsync)(file)
        os.close(file)

    def make(self, size=None):
        name = f"{self.name}-{self.made}"
        data = self.data(size or self.draw.choice([10, 100, 5000, 40_000]))
        self.note(may=name, is_=data[:16].hex())
        self.write(self.at / name, data, os.O_CREAT | os.O_EXCL)
        self.there[name] = data
        self.note(certain=name, is_=data[:16].hex(), size=len(data))

    def large(self):
        self.make(self.draw.choice([300_000, 900_000]))

    def some(self):
        return self.draw.choice(list(self.there)) if self.there else None

    def replace(self):
        """As editors do."""
        if name := self.some():
            data = self.data(self.draw.choice([50, 9000, 500_000]))
            self.write(self.at / "new", data, os.O_CREAT | os.O_TRUNC)
            self.note(may=name, is_=data[:16].hex())
            os.rename(self.at / "new", self.at / name)
            folder = os.open(self.at, os.O_RDONLY)
            os.fsync(folder)
            os.close(folder)
            self.there[name] = data
            self.note(certain=name, is_=data[:16].hex(), size=len(data))

    def append(self):
        """What is behind the acknowledged end may be there or not."""
        log = self.at / "log"
        line = f"{self.made} {'x' * self.draw.randrange(300)}\n".encode()
        self.made += 1
        self.note(line=line.decode())
        self.write(log, line, os.O_APPEND | os.O_CREAT)
        self.note(lines=1)

    def move(self):
        if name := self.some():
            to = f"{name}m"
            self.note(may=to, is_=self.there[name][:16].hex(), was=name)
            os.rename(self.at / name, self.at / to)
            # Any sync takes it along.
            self.there[to] = self.there.pop(name)
            self.append()
            self.note(certain=to, is_=self.there[to][:16].hex(), size=len(self.there[to]), gone=name)

    def remove(self):
        if len(self.there) > 20 and (name := self.some()):
            self.note(may=name, is_=None)
            os.unlink(self.at / name)
            del self.there[name]
            self.append()
            self.note(gone=name)


def expected(notes):
    """Of each name: what it may be (None: not there). And lines that must be there, and those that may."""
    may, certain_lines, lines = {}, [], []
    for line in notes.read_text().splitlines():
        note = json.loads(line)
        if "line" in note:
            lines.append(note["line"])
        elif "lines" in note:
            certain_lines += lines[len(certain_lines):]
        elif "may" in note:
            may.setdefault(note["may"], {None}).add(note["is_"])
            if "was" in note:
                may[note["was"]] = may.get(note["was"], set()) | {None}
        elif "certain" in note:
            may[note["certain"]] = {note["is_"]}
            if "gone" in note:
                may[note["gone"]] = {None}
        elif "gone" in note:
            may[note["gone"]] = {None}
    return may, certain_lines, lines


def check(top, notes_folder, what):
    """Answers how many files were certain."""
    certain = 0
    for notes in sorted(notes_folder.iterdir()):
        may, certain_lines, lines = expected(notes)
        folder = top / notes.name
        there = {path.name: path.read_bytes() for path in folder.iterdir()} if folder.exists() else {}
        log = there.pop("log", b"").decode()
        there.pop("new", None)
        text = "".join(certain_lines)
        if not log.startswith(text) or not "".join(lines).startswith(log.rstrip("\0")[:len("".join(lines))]):
            told.fail(f"{what}: the log of {notes.name} has {len(log)} bytes, and {len(text)} were acknowledged")
        for name, allowed in may.items():
            data = there.pop(name, None)
            found = None if data is None else data[:16].hex()
            certain += None not in allowed
            if found in allowed and (data is None or is_whole(data)):
                continue
            # What was never acknowledged has no contents to hold.
            if None in allowed and data is not None:
                continue
            told.fail(f"{what}: {notes.name}/{name} is {found}, {'whole' if data and is_whole(data) else 'not whole'}, and not one of {allowed}")
        if there:
            told.fail(f"{what}: {notes.name} has what nobody has made: {sorted(there)}")
    return certain


def missing(top, notes_folder):
    """How many of the files that were certain are not there."""
    count = 0
    for notes in notes_folder.iterdir():
        for name, allowed in expected(notes)[0].items():
            path = top / notes.name / name
            count += None not in allowed and (not path.exists() or path.read_bytes()[:16].hex() not in allowed)
    return count


def after_loss_of_power(place, image, notes):
    """Mounts the copy elsewhere. Answers how many files were certain, and of how many of them only the log had the contents."""
    with Restarted(image) as disk:
        logged = missing(disk.lower, notes)
        disk.mount()
        certain = check(disk.at, notes, "after a loss of power")
        # It goes on.
        (disk.at / "later").write_text("later")
        disk.unmount()
        check(disk.lower, notes, "after a loss of power, without the mount")
    return certain, logged


def load(place, notes, seconds):
    children = []
    for number in range(WRITERS):
        name = f"w{number}"
        child = os.fork()
        if child == 0:
            os.setpgid(0, 0)
            Writer(place.at, name, os.open(notes / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)).run()
        children.append(child)
    time.sleep(seconds)
    place.daemon.send_signal(signal.SIGKILL)
    place.daemon.wait()
    for child in children:
        # Who waits for an answer gets one now.
        how = os.waitpid(child, 0)[1]
        told.check("how a writer ended", how, 0)


def main():
    draw = random.Random(told.SEED)
    certain = recovered = logged = 0
    notes = HERE / "notes"
    with Place(megabytes=1024, mount=("--allow-other", "--threshold", "200K", "--log-size", "16M")) as place:
        notes.mkdir()
        for round in range(told.times(ROUNDS)):
            for folder in place.lower.iterdir():
                told.check("the lower at first", folder.is_dir() or folder.name == "later", True)
            load(place, notes, draw.uniform(*LOAD_S))
            image = image_of_now(place)
            place.kill()
            found, missed = after_loss_of_power(place, image, notes)
            recovered, logged = recovered + found, logged + missed
            said = place.mount()
            if "only the daemon had died" not in said:
                told.fail(f"after a kill the daemon said: {said}")
            certain += check(place.at, notes, "mounted again")
            for name in os.listdir(place.at):
                shutil.rmtree(place.at / name)
    told.check("that the log was needed", logged > 0, True)
    told.ok(f"{told.times(ROUNDS)} kills: {certain} acknowledged files were there when it was mounted again, and {recovered} after a loss of "
            f"power at the same moments, {logged} of them by the log alone")


main()
