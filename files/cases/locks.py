"""Locks between processes: those of POSIX, of open files, of BSD; what ends them; who waits for whom."""

import fcntl
import os
import select
import signal
import struct
import subprocess
import sys
import time

import told
from place import Place
from scenes import answer, apart, play

F_OFD_GETLK, F_OFD_SETLK, F_OFD_SETLKW = 36, 37, 38
KINDS = {"read": fcntl.F_RDLCK, "write": fcntl.F_WRLCK, "none": fcntl.F_UNLCK}
NAMES = {kind: name for name, kind in KINDS.items()}
FLOCK = "hhqqi4x"
WAITS_S = 0.15


def lock(file, kind, start=0, length=0, command=fcntl.F_SETLK):
    """What is locked, and whether it is ours, for a question; else nothing."""
    asked = struct.pack(FLOCK, KINDS[kind], os.SEEK_SET, start, length, 0)
    told_us = struct.unpack(FLOCK, fcntl.fcntl(file, command, asked))
    if command in (fcntl.F_GETLK, F_OFD_GETLK):
        kind, _, start, length, owner = told_us
        return NAMES[kind], start, length, "none" if kind == fcntl.F_UNLCK else owner > 0
    return None


class Other:
    """Another process, which does what it is told."""

    def __init__(self):
        (theirs, self.to), (self.back, ours) = os.pipe(), os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            # Nobody else keeps this pipe open, so that the end is seen.
            os.close(self.to)
            os.close(self.back)
            self.serve(theirs, ours)
        os.close(theirs)
        os.close(ours)

    def serve(self, orders, said):
        files = {}
        while order := os.read(orders, 1000):
            act, *arguments = eval(order)
            os.write(said, repr(answer(getattr(self, "do_" + act), files, *arguments)).encode())
        os._exit(0)

    def start(self, *order):
        os.write(self.to, repr(order).encode())

    def end(self):
        return eval(os.read(self.back, 1000))

    def __call__(self, *order):
        self.start(*order)
        return self.end()

    def has_answered(self, within=WAITS_S):
        return bool(select.select([self.back], [], [], within)[0])

    def stop(self, how=signal.SIGKILL):
        os.kill(self.pid, how)
        os.waitpid(self.pid, 0)

    @staticmethod
    def do_open(files, name, slot="f"):
        files[slot] = os.open(name, os.O_RDWR | os.O_CREAT, 0o644)

    @staticmethod
    def do_close(files, slot="f"):
        os.close(files.pop(slot))

    @staticmethod
    def do_lock(files, *arguments, slot="f"):
        return lock(files[slot], *arguments)

    @staticmethod
    def do_flock(files, how, slot="f"):
        return fcntl.flock(files[slot], how)


def conflicts(folder, see):
    for command, question in [(fcntl.F_SETLK, fcntl.F_GETLK), (F_OFD_SETLK, F_OFD_GETLK)]:
        for theirs in ("read", "write"):
            other = Other()
            other("open", "file")
            file = os.open("file", os.O_RDWR)
            see("theirs", other("lock", theirs, 100, 100, command))
            for ours in ("read", "write"):
                for start, length in [(0, 0), (0, 100), (0, 101), (150, 10), (199, 1), (200, 0), (100, 100), (1 << 40, 5)]:
                    see(f"{ours} {start} {length} against {theirs}", answer(lock, file, ours, start, length, command))
                    see("who", answer(lock, file, "write", start, length, question))
                    lock(file, "none", 0, 0, command)
            os.close(file)
            other.stop()


def splitting(folder, see):
    other, file = Other(), os.open("file", os.O_RDWR | os.O_CREAT)
    other("open", "file")
    lock(file, "write", 0, 1000)
    lock(file, "none", 400, 100)
    lock(file, "read", 600, 50)
    for start in (0, 399, 400, 499, 500, 600, 649, 650, 999, 1000):
        for kind in ("read", "write"):
            see(f"{kind} at {start}", other("lock", kind, start, 1, fcntl.F_GETLK))
    see("the free piece", other("lock", "write", 400, 100))
    see("all of it", answer(lock, file, "write", 0, 1000))
    other.stop()


def what_ends_them(folder, see):
    file = os.open("file", os.O_RDWR | os.O_CREAT)
    for how in ("close", "close another", "die", "be told to end", "unlock"):
        other = Other()
        other("open", "file")
        other("open", "file", "second")
        see("theirs", other("lock", "write"))
        see("held", answer(lock, file, "read"))
        if how == "close":
            other("close")
        elif how == "close another":
            other("close", "second")
        elif how == "unlock":
            other("lock", "none")
        else:
            other.stop(signal.SIGKILL if how == "die" else signal.SIGTERM)
        see(f"after {how}", answer(lock, file, "write"))
        lock(file, "none")
        if how in ("close", "close another", "unlock"):
            other.stop()
    # A child does not have its parent's locks.
    lock(file, "write")
    see("in a child", apart(lambda: answer(lock, os.open("file", os.O_RDWR), "write")))
    see("still held", apart(lambda: lock(os.open("file", os.O_RDWR), "write", 0, 0, fcntl.F_GETLK)))


def waiting(folder, see):
    file = os.open("file", os.O_RDWR | os.O_CREAT)
    lock(file, "write")
    other = Other()
    other("open", "file")
    other.start("lock", "write", 0, 10, fcntl.F_SETLKW)
    see("it waits", other.has_answered())
    lock(file, "none", 5, 5)
    see("it still waits", other.has_answered())
    lock(file, "none", 0, 5)
    see("it has it", other.end())
    see("so we have not", answer(lock, file, "write"))
    other.stop()
    # A signal ends a wait.
    lock(file, "none")
    third = Other()
    third("open", "file")
    see("the third's", third("lock", "write"))
    began = time.monotonic()
    signal.signal(signal.SIGUSR1, raise_interrupted)
    helper = subprocess.Popen([sys.executable, "-c", f"import os, time; time.sleep(0.3); os.kill({os.getpid()}, 10)"])
    try:
        see("interrupted", answer(lock, file, "write", 0, 0, fcntl.F_SETLKW))
    except InterruptedError:
        see("interrupted", "by a signal")
    see("soon", time.monotonic() - began < 5)
    helper.wait()
    third.stop()


def raise_interrupted(*_):
    raise InterruptedError


def deadlock(folder, see):
    others = [Other() for _ in range(3)]
    for number, other in enumerate(others):
        other("open", "file")
        see("own", other("lock", "write", number, 1))
    others[0].start("lock", "write", 1, 1, fcntl.F_SETLKW)
    others[1].start("lock", "write", 2, 1, fcntl.F_SETLKW)
    see("two wait", (others[0].has_answered(), others[1].has_answered()))
    see("the third", others[2]("lock", "write", 0, 1, fcntl.F_SETLKW))
    others[2].stop()
    see("the second", others[1].end())
    others[1].stop()
    see("the first", others[0].end())
    others[0].stop()


def of_bsd(folder, see):
    file = os.open("file", os.O_RDWR | os.O_CREAT)
    for theirs in (fcntl.LOCK_SH, fcntl.LOCK_EX):
        for ours in (fcntl.LOCK_SH, fcntl.LOCK_EX):
            other = Other()
            other("open", "file")
            see("theirs", other("flock", theirs))
            see(f"{ours} against {theirs}", answer(fcntl.flock, file, ours | fcntl.LOCK_NB))
            # They are no locks of POSIX.
            see("of POSIX", answer(lock, file, "write"))
            lock(file, "none")
            fcntl.flock(file, fcntl.LOCK_UN)
            other.stop()
            see("after its death", answer(fcntl.flock, file, fcntl.LOCK_EX | fcntl.LOCK_NB))
            fcntl.flock(file, fcntl.LOCK_UN)
    # The lock belongs to what was opened, and so to a child, too.
    fcntl.flock(file, fcntl.LOCK_EX)
    see("a child unlocks", apart(lambda: fcntl.flock(file, fcntl.LOCK_UN)))
    other = Other()
    other("open", "file")
    see("so it is free", other("flock", fcntl.LOCK_EX | fcntl.LOCK_NB))
    waits = Other()
    waits("open", "file")
    waits.start("flock", fcntl.LOCK_SH)
    see("it waits", waits.has_answered())
    other("close")
    see("it has it", waits.end())
    see("made stricter", waits("flock", fcntl.LOCK_EX | fcntl.LOCK_NB))
    copy = os.dup(file)
    waits("close")
    fcntl.flock(file, fcntl.LOCK_EX)
    os.close(file)
    see("a copy keeps it", waits("open", "file") or waits("flock", fcntl.LOCK_SH | fcntl.LOCK_NB))
    os.close(copy)
    see("the last one does not", waits("flock", fcntl.LOCK_SH | fcntl.LOCK_NB))
    waits.stop()
    other.stop()


def rights(folder, see):
    open("file", "w").close()
    reader, writer = os.open("file", os.O_RDONLY), os.open("file", os.O_WRONLY)
    see("a reader's write lock", answer(lock, reader, "write"))
    see("a writer's read lock", answer(lock, writer, "read"))
    see("a reader's lock of BSD", answer(fcntl.flock, reader, fcntl.LOCK_EX))
    see("of a directory", answer(fcntl.flock, os.open(".", os.O_RDONLY), fcntl.LOCK_EX | fcntl.LOCK_NB))
    see("a bad kind", answer(fcntl.fcntl, writer, fcntl.F_SETLK, struct.pack(FLOCK, 77, 0, 0, 0, 0)))
    see("a bad range", answer(lock, writer, "write", -5, 3))


def names_do_not_matter(folder, see):
    file = os.open("file", os.O_RDWR | os.O_CREAT)
    os.link("file", "second")
    lock(file, "write")
    other = Other()
    other("open", "second")
    see("by another name", other("lock", "write"))
    os.rename("file", "moved")
    other("close")
    other("open", "moved")
    see("after a rename", other("lock", "write"))
    os.unlink("moved")
    os.unlink("second")
    see("without a name", other("lock", "write"))
    other("open", "moved", "f")
    see("another of that name", other("lock", "write"))
    other.stop()


def leases(folder, see):
    file = os.open("file", os.O_RDONLY | os.O_CREAT)
    see("a lease", answer(fcntl.fcntl, file, fcntl.F_SETLEASE, fcntl.F_RDLCK))
    see("which", answer(fcntl.fcntl, file, fcntl.F_GETLEASE))
    see("given back", answer(fcntl.fcntl, file, fcntl.F_SETLEASE, fcntl.F_UNLCK))


def many_at_once(folder, see):
    """Each adds to a counter under a lock: none may be lost."""
    with open("count", "wb") as file:
        file.write(bytes(8))
    children = []
    for _ in range(6):
        child = os.fork()
        if child == 0:
            file = os.open("count", os.O_RDWR)
            for _ in range(200):
                lock(file, "write", 0, 8, fcntl.F_SETLKW)
                value = int.from_bytes(os.pread(file, 8, 0), "little")
                os.pwrite(file, (value + 1).to_bytes(8, "little"), 0)
                lock(file, "none", 0, 8)
            os._exit(0)
        children.append(child)
    see("ends", [os.waitpid(child, 0)[1] for child in children])
    see("the count", int.from_bytes(open("count", "rb").read(), "little"))


SCENES = [conflicts, splitting, what_ends_them, waiting, deadlock, of_bsd, rights, names_do_not_matter, leases, many_at_once]


def main():
    with Place() as place:
        answers, different = play(place, SCENES)
    told.ok(f"{answers} answers in {len(SCENES)} scenes, {different} other than in a plain directory, with a reason")


main()
