"""What processes share: mapped files, appended files, files without names, pipes, sockets, programs that run."""

import fcntl
import hashlib
import mmap
import os
import shutil
import signal
import socket
import stat
import struct
import subprocess
import time

import calls
import told
from place import Place
from scenes import answer, apart, as_user, play

PAGE = 4096


def children(count, act):
    """How each of them ended."""
    all = []
    for number in range(count):
        child = os.fork()
        if child == 0:
            try:
                act(number)
            except BaseException as error:
                print(f"child {number}: {error!r}", flush=True)
                os._exit(1)
            os._exit(0)
        all.append(child)
    return [os.waitpid(child, 0)[1] for child in all]


def maps(folder, see):
    file = os.open("file", os.O_RDWR | os.O_CREAT)
    os.ftruncate(file, 8 * PAGE)
    map = mmap.mmap(file, 8 * PAGE)
    # Each has a page, and the number before it.
    see("ends", children(8, lambda number: by_map(number)))
    see("in our map", hashlib.md5(map[:]).hexdigest())
    see("read", hashlib.md5(os.pread(file, 8 * PAGE, 0)).hexdigest())
    os.pwrite(file, b"written", 100)
    see("a write in the map", map[100:107])
    map[200:206] = b"mapped"
    see("the map by a read", os.pread(file, 6, 200))
    see("by another process", apart(lambda: open("file", "rb").read(206)[200:]))
    map.flush()
    os.ftruncate(file, PAGE)
    os.ftruncate(file, 2 * PAGE)
    see("what was cut is zero", map[PAGE:2 * PAGE] == bytes(PAGE))
    map[0:3] = b"own"
    private = mmap.mmap(file, PAGE, flags=mmap.MAP_PRIVATE)
    private[0:7] = b"private"
    see("a private one is not seen", os.pread(file, 7, 0))
    os.unlink("file")
    map[0:4] = b"last"
    see("without a name", os.pread(file, 4, 0))
    reader = os.open("reader", os.O_RDONLY | os.O_CREAT)
    os.truncate("reader", PAGE)
    see("a reader's map to write", answer(mmap.mmap, reader, PAGE))
    see("beyond the end", how_it_dies(lambda: mmap.mmap(file, 4 * PAGE, access=mmap.ACCESS_READ)))
    direct = os.open("reader", os.O_RDWR | os.O_DIRECT)
    page = mmap.mmap(-1, PAGE)
    page[:] = b"d" * PAGE
    shown = mmap.mmap(direct, PAGE)
    shown[0:1] = b"m"
    see("a direct write", os.pwritev(direct, [page], 0))
    see("in the map", shown[0:3])
    see("a direct read", (os.preadv(direct, [page], 0), page[0:3]))


def by_map(number):
    file = os.open("file", os.O_RDWR)
    map = mmap.mmap(file, 8 * PAGE)
    map[number * PAGE:(number + 1) * PAGE] = bytes([65 + number]) * PAGE
    if number % 2:
        map.flush()


def how_it_dies(act):
    """Touches what is not there."""
    child = os.fork()
    if child == 0:
        try:
            map = act()
            bytes(map[3 * PAGE:3 * PAGE + 1])
        except ValueError:
            os._exit(3)
        os._exit(0)
    return os.waitpid(child, 0)[1]


def a_counter_in_a_map(folder, see):
    """Four processes take turns on bytes of one page, as those do that share an index of SQLite."""
    with open("turn", "wb") as file:
        file.write(bytes(PAGE))

    def act(number):
        map = mmap.mmap(os.open("turn", os.O_RDWR), PAGE)
        limit = time.monotonic() + 60
        for _ in range(50):
            while map[0] % 4 != number:
                if time.monotonic() > limit:
                    raise RuntimeError("its turn does not come")
                time.sleep(0)
            map[0] = (map[0] + 1) % 256

    see("ends", children(4, act))
    see("turns", open("turn", "rb").read(1)[0])


def appends(folder, see):
    """Each line is whole, and of each process all are there in order."""
    open("log", "w").close()

    def act(number):
        file = os.open("log", os.O_WRONLY | os.O_APPEND)
        for line in range(300):
            os.write(file, f"{number} {line} {'x' * (line % 90)}\n".encode())
            if line % 100 == 50:
                os.fsync(file)

    see("ends", children(4, act))
    lines = [line.split(" ") for line in open("log").read().splitlines()]
    see("lines", len(lines))
    see("whole", all(text == "x" * (int(line) % 90) for _, line, text in lines))
    see("in order", all([int(line) for of, line, _ in lines if of == str(number)] == list(range(300)) for number in range(4)))
    file = os.open("log", os.O_RDWR | os.O_APPEND)
    os.truncate("log", 3)
    see("behind a cut", (os.write(file, b"end"), os.pread(file, 10, 0)[1:]))
    see("an offset does not count", (os.pwrite(file, b"!", 0), os.pread(file, 10, 0)[1:]))


def without_names(folder, see):
    file = os.open("gone", os.O_RDWR | os.O_CREAT)
    os.unlink("gone")
    see("write", os.pwrite(file, b"a" * 100_000, 50_000))
    see("read", hashlib.md5(os.pread(file, 200_000, 0)).hexdigest())
    see("fsync", answer(os.fsync, file))
    see("links", os.fstat(file).st_nlink)
    os.ftruncate(file, 70_000)
    os.fchmod(file, 0o600)
    os.fchown(file, 3, 4)
    os.setxattr(file, "user.a", b"b")
    os.utime(file, ns=(5, 6))
    seen = os.fstat(file)
    see("attributes", (seen.st_size, seen.st_mode, seen.st_uid, seen.st_gid, seen.st_mtime_ns, os.getxattr(file, "user.a")))
    see("opened again", answer(lambda: os.pread(os.open(f"/proc/self/fd/{file}", os.O_RDONLY), 3, 50_000)))
    see("named again", answer(calls.link_of, file, "back"))
    os.mkdir("dir")
    dir = os.open("dir", os.O_RDONLY | os.O_DIRECTORY)
    os.rmdir("dir")
    see("list", answer(os.listdir, dir))
    see("make in it", answer(os.open, "x", os.O_CREAT | os.O_RDWR, 0o600, dir_fd=dir))
    see("its links", os.fstat(dir).st_nlink)
    see("its fsync", answer(os.fsync, dir))
    os.mkdir("old")
    os.mkdir("new")
    old = os.open("old", os.O_RDONLY | os.O_DIRECTORY)
    os.rename("new", "old")
    see("a replaced one", (answer(os.listdir, old), os.fstat(old).st_nlink))
    one, other = os.open("one", os.O_RDWR | os.O_CREAT), os.open("other", os.O_RDWR | os.O_CREAT)
    os.write(one, b"one")
    os.write(other, b"other")
    os.rename("one", "other")
    see("a replaced file", (os.pread(other, 9, 0), os.fstat(other).st_nlink, open("other").read()))
    see("of which nobody knows", answer(os.stat, "one"))
    many = [os.open(f"m{number}", os.O_RDWR | os.O_CREAT) for number in range(200)]
    for number, each in enumerate(many):
        os.unlink(f"m{number}")
        os.write(each, b"%d" % number)
    see("many", [os.pread(each, 9, 0) for each in many])


def temporary(folder, see):
    def make():
        file = os.open(".", os.O_TMPFILE | os.O_RDWR, 0o600)
        os.write(file, b"x")
        calls.link_of(file, "named")
        return open("named").read()

    see("O_TMPFILE", answer(make))


def programs(folder, see):
    shutil.copy("/bin/true", "true")
    os.chmod("true", 0o755)
    see("run", subprocess.run(["./true"]).returncode)
    with open("script", "w") as file:
        file.write("#!/bin/sh\necho $0 $1\n")
    os.chmod("script", 0o755)
    see("a script", subprocess.run(["./script", "a"], capture_output=True, text=True).stdout)
    os.chmod("script", 0o644)
    see("without the right", answer(os.execv, "./script", ["script"]))
    shutil.copy("/usr/bin/id", "id")
    os.chmod("id", 0o6755)
    see("as its owner", as_user(9, 9, [], lambda: subprocess.run(["./id", "-u"], capture_output=True, text=True).stdout))
    writes = os.open("true", os.O_WRONLY)
    see("while it is written", answer(subprocess.run, ["./true"]))
    os.close(writes)
    shutil.copy("/bin/sleep", "sleep")
    running = subprocess.Popen(["./sleep", "60"])
    see("written while it runs", answer(os.open, "sleep", os.O_WRONLY))
    see("cut while it runs", answer(os.truncate, "sleep", 0))
    see("replaced while it runs", answer(lambda: os.rename("true", "sleep")))
    see("it still runs", running.poll())
    running.send_signal(signal.SIGTERM)
    see("ended", running.wait())


def pipes_and_sockets(folder, see):
    os.mkfifo("pipe")
    child = os.fork()
    if child == 0:
        with open("pipe", "wb") as pipe:
            pipe.write(b"through the pipe")
        os._exit(0)
    see("a pipe", open("pipe", "rb").read())
    os.waitpid(child, 0)
    see("nobody reads", answer(os.open, "pipe", os.O_WRONLY | os.O_NONBLOCK))
    listener = socket.socket(socket.AF_UNIX)
    listener.bind("socket")
    listener.listen()
    client = socket.socket(socket.AF_UNIX)
    see("connect", answer(client.connect, "socket"))
    server, _ = listener.accept()
    client.send(b"hello")
    see("a socket", server.recv(9))
    see("its kind", stat.S_ISSOCK(os.stat("socket").st_mode))
    see("bound twice", answer(socket.socket(socket.AF_UNIX).bind, "socket"))
    listener.close()
    see("nobody listens", answer(socket.socket(socket.AF_UNIX).connect, "socket"))
    os.mknod("null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
    see("a device", answer(lambda: open("null", "wb").write(b"x")))
    see("a device without a driver", answer(lambda: (os.mknod("none", stat.S_IFCHR | 0o666, os.makedev(250, 77)),
                                                     os.open("none", os.O_RDONLY))))


def watched(folder, see):
    """inotify(7), as those use it who follow logs."""
    watch = calls.checked(calls.libc.inotify_init1(os.O_NONBLOCK))
    calls.checked(calls.libc.inotify_add_watch(watch, b".", 0xFFF))
    with open("file", "w") as file:
        file.write("x")
    os.rename("file", "moved")
    os.chmod("moved", 0o600)
    os.unlink("moved")
    time.sleep(0.05)
    events, bytes = [], os.read(watch, 9000)
    while bytes:
        _, mask, _, length = struct.unpack_from("iIII", bytes)
        events.append((hex(mask), bytes[16:16 + length].rstrip(b"\0")))
        bytes = bytes[16 + length:]
    see("events", events)


def moved_between_descriptors(folder, see):
    with open("source", "wb") as file:
        file.write(bytes(range(256)) * 4000)
    source, target = os.open("source", os.O_RDONLY), os.open("target", os.O_RDWR | os.O_CREAT)
    see("sendfile", os.sendfile(target, source, 100, 500_000))
    (reads, writes) = os.pipe()
    see("to a pipe", os.splice(source, writes, 30_000, 7))
    see("from a pipe", os.splice(reads, target, 30_000, offset_dst=100))
    see("vectors", (os.pwritev(target, [b"one", b"", b"three"], 3), os.preadv(target, [bytearray(4), bytearray(5)], 2)))
    see("synced at once", answer(os.pwritev, target, [b"sync"], 9, os.RWF_DSYNC))
    see("appended", answer(os.pwritev, target, [b"more"], 9, os.RWF_APPEND))
    see("contents", hashlib.md5(open("target", "rb").read()).hexdigest())
    see("what to expect", [answer(os.posix_fadvise, target, 0, 0, advice) for advice in range(6)])
    see("a clone", answer(fcntl.ioctl, target, 0x40049409, source))
    direct = os.open("target", os.O_RDWR | os.O_DIRECT)
    see("direct, behind the end", answer(os.preadv, direct, [mmap.mmap(-1, PAGE)], 1 << 30))
    see("a far offset", answer(os.pwrite, target, b"x", (1 << 63) - 1))
    see("a negative one", answer(os.pread, target, 1, -1))
    see("of a directory", answer(os.read, os.open(".", os.O_RDONLY), 10))


SCENES = [maps, a_counter_in_a_map, appends, without_names, temporary, programs, pipes_and_sockets, watched, moved_between_descriptors]


def main():
    with Place() as place:
        answers, different = play(place, SCENES)
    told.ok(f"{answers} answers in {len(SCENES)} scenes, {different} other than in a plain directory, with a reason")


main()
