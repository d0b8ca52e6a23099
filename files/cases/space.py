"""Space: holes, files of many gigabytes, allocation, and a lower that is full."""

import hashlib
import mmap
import os
import random

import calls
import told
from place import LOWER, Place, run
from scenes import answer, play

GIGABYTE = 1 << 30
PAGE = 4096
# What a full lower has again when its filler is gone.
FREE_BYTES = 32 << 20
FREE_S = 60


def data_of(file):
    """Where data are, as a program finds it that skips holes."""
    found, at, size = [], 0, os.fstat(file).st_size
    while at < size:
        start = answer(os.lseek, file, at, os.SEEK_DATA)
        if start == "ENXIO":
            break
        at = os.lseek(file, start, os.SEEK_HOLE)
        found.append((start, at))
    return found


def holes(folder, see):
    file = os.open("file", os.O_RDWR | os.O_CREAT)
    os.ftruncate(file, 100 * PAGE)
    see("only a hole", data_of(file))
    for at in (10, 30, 31, 70):
        os.pwrite(file, b"x" * PAGE, at * PAGE)
    see("written, not synced", data_of(file))
    os.fsync(file)
    see("synced", data_of(file))
    calls.fallocate(file, calls.PUNCH_HOLE | calls.KEEP_SIZE, 30 * PAGE, PAGE)
    see("punched", data_of(file))
    calls.fallocate(file, calls.PUNCH_HOLE | calls.KEEP_SIZE, 31 * PAGE + 10, 20)
    see("a part of a page", data_of(file))
    see("is zero", os.pread(file, 40, 31 * PAGE))
    map = mmap.mmap(file, 100 * PAGE)
    map[50 * PAGE:50 * PAGE + 5] = b"mapped"[:5]
    see("mapped, not synced", data_of(file)[-2:])
    os.ftruncate(file, 60 * PAGE)
    see("cut", data_of(file))
    see("behind the end", answer(os.lseek, file, 60 * PAGE, os.SEEK_DATA))
    see("a hole at the end", answer(os.lseek, file, 59 * PAGE, os.SEEK_HOLE))
    see("far", answer(os.lseek, file, 1 << 50, os.SEEK_HOLE))
    see("negative", answer(os.lseek, file, -1, os.SEEK_DATA))
    os.lseek(file, 5, os.SEEK_SET)
    see("the position", (os.lseek(file, 10, os.SEEK_CUR), os.lseek(file, -3, os.SEEK_END)))
    see("blocks are few", os.fstat(file).st_blocks < 60 * 8)
    see("a copy with holes", run("cp", "--sparse=always", "file", "copy"))
    see("the same", run("cmp", "file", "copy"))


def large(folder, see):
    """Offsets of more than 32 bits."""
    file = os.open("file", os.O_RDWR | os.O_CREAT)
    places = [0, 2 * GIGABYTE - 3, 4 * GIGABYTE - 3, 4 * GIGABYTE + 5000, 100 * GIGABYTE - 7, 1 << 42]
    for number, at in enumerate(places):
        see("write", os.pwrite(file, b"%d" % number * 10, at))
    see("data", len(data_of(file)))
    see("fsync", answer(os.fsync, file))
    for at in places:
        see("read", os.pread(file, 12, at))
    see("size", os.fstat(file).st_size)
    map = mmap.mmap(file, 8192, offset=4 * GIGABYTE)
    map[5003:5006] = b"map"
    see("in the map", map[5000:5010])
    map.close()
    see("copied", answer(os.copy_file_range, file, file, 100, 4 * GIGABYTE + 4990, 50 * GIGABYTE))
    see("the copy", os.pread(file, 30, 50 * GIGABYTE))
    os.ftruncate(file, 4 * GIGABYTE + 5004)
    see("cut", (os.fstat(file).st_size, os.pread(file, 9, 4 * GIGABYTE + 5000)))
    see("allocated", answer(calls.fallocate, file, calls.KEEP_SIZE, 10 * GIGABYTE, 1 << 20))
    see("fsync", answer(os.fsync, file))
    see("larger than ext4 takes", answer(os.ftruncate, file, 1 << 45))
    see("the largest", answer(os.ftruncate, file, (1 << 63) - 1))
    see("negative", answer(os.ftruncate, file, -1))
    # The last of this file: what the kernel has kept of it is no file any more.
    os.unlink("file")
    see("a write there", answer(os.pwrite, file, b"x", 1 << 45))
    see("told by fsync", answer(os.fsync, file))


def allocation(folder, see):
    file = os.open("file", os.O_RDWR | os.O_CREAT)
    draw = random.Random(7)
    modes = {"all": 0, "kept": calls.KEEP_SIZE, "punched": calls.PUNCH_HOLE | calls.KEEP_SIZE, "zeroed": calls.ZERO_RANGE,
             "zeroed and kept": calls.ZERO_RANGE | calls.KEEP_SIZE}
    for number in range(150):
        name = draw.choice([*modes, "write", "cut"])
        at, size = draw.randrange(300_000), draw.randrange(1, 60_000)
        if name == "write":
            os.pwrite(file, bytes([number]) * size, at)
        elif name == "cut":
            os.ftruncate(file, at)
        else:
            see(name, answer(calls.fallocate, file, modes[name], at, size))
        if number % 10 == 0:
            os.fsync(file)
        see("size", os.fstat(file).st_size)
        see("contents", hashlib.md5(os.pread(file, 400_000, 0)).hexdigest())
    for name, mode in {"punched without its size": calls.PUNCH_HOLE, "nothing": 0, "unknown": 128}.items():
        see(name, answer(calls.fallocate, file, mode, 0, 0 if name == "nothing" else PAGE))
    see("moved", [answer(calls.fallocate, file, mode, PAGE, PAGE) for mode in (calls.COLLAPSE_RANGE, calls.INSERT_RANGE)])
    see("a reader's", answer(calls.fallocate, os.open("file", os.O_RDONLY), 0, 0, 10))
    os.mkfifo("pipe")
    see("of a pipe", answer(calls.fallocate, os.open("pipe", os.O_RDWR), 0, 0, 10))


def direct(folder, see):
    file = os.open("file", os.O_RDWR | os.O_CREAT | os.O_DIRECT)
    usual = os.open("file", os.O_RDWR)
    page = mmap.mmap(-1, 8 * PAGE)
    page[:] = bytes(range(256)) * 128
    see("write", os.pwritev(file, [page], 0))
    see("by the usual way", hashlib.md5(os.pread(usual, 8 * PAGE, 0)).hexdigest())
    os.pwrite(usual, b"usual", 100)
    see("read", (os.preadv(file, [page], 0), page[98:107]))
    see("behind the end", os.preadv(file, [page], 16 * PAGE))
    see("a hole", (os.pwritev(file, [page], 100 * PAGE), os.fstat(file).st_size))
    see("appended", answer(lambda: os.writev(os.open("file", os.O_WRONLY | os.O_APPEND | os.O_DIRECT), [page])))
    see("synced", answer(lambda: os.pwritev(os.open("file", os.O_WRONLY | os.O_DIRECT | os.O_SYNC), [page], PAGE)))
    see("all", hashlib.md5(os.pread(usual, 1 << 20, 0)).hexdigest())


def full(place):
    """The lower is full: errors come to who must know, and what was synced stays."""
    place.unmount()
    place.mount()
    kept = {}
    for number in range(20):
        path = place.at / f"kept {number}"
        data = os.urandom(50_000)
        with open(path, "wb") as file:
            file.write(data)
            os.fsync(file.fileno())
        kept[path.name] = data
    filler = os.open(place.at / "filler", os.O_WRONLY | os.O_CREAT)
    seen = set()
    # The kernel keeps what is written, and fsync tells that there was no room for it.
    for _ in range(40):
        for _ in range(100):
            seen.add(answer(os.write, filler, b"f" * 100_000))
        seen.add(answer(os.fsync, filler))
    # In small pieces, until nothing is left.
    for _ in range(300):
        seen.update([answer(os.pwrite, filler, b"g" * 4096, 0), answer(os.fsync, filler), answer(place.at.joinpath("small").write_bytes, b"s")])
    if "ENOSPC" not in seen or seen - {"ENOSPC", None, 1, 4096, 100_000}:
        told.fail(f"a full file system is told by {seen}")
    for name, data in kept.items():
        told.check(f"{name} of a full file system", (place.at / name).read_bytes() == data, True)
    answer(os.close, filler)
    os.unlink(place.at / "filler")
    if place.stats()["poisoned"] != "0":
        told.fail(f"nothing is acknowledged any more after ENOSPC: {place.said()}")
    # There is space again, when the daemon has let go of what was removed, and everything works.
    answer(os.unlink, place.at / "small")
    told.wait(FREE_S, "what was removed still takes its space",
              lambda: os.statvfs(place.at).f_bavail * os.statvfs(place.at).f_frsize >= FREE_BYTES)
    with open(place.at / "after", "wb") as file:
        file.write(b"a" * 3_000_000)
        os.fsync(file.fileno())
    told.check("after there is space again", (place.at / "after").read_bytes() == b"a" * 3_000_000, True)


SCENES = [holes, large, allocation, direct]


def main():
    with Place() as place:
        answers, different = play(place, SCENES)
    # The log has 16 MiB of it at most.
    with Place(megabytes=96 if LOWER == "ext4" else 320, mount=("--allow-other", "--log-size", "16M")) as place:
        full(place)
    told.ok(f"{answers} answers in {len(SCENES)} scenes, {different} other than in a plain directory, with a reason; "
            f"a full lower lost nothing")


main()
