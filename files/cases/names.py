"""Names: long, odd and many ones; directories that change while they are listed; renames by many at once; links up to the limit."""

import errno
import os
import random
import subprocess
import threading
import time

import calls
import told
from place import Place
from scenes import answer, play

MANY = 20_000
LINKS_MAX = 65_000


def odd(folder, see):
    for name in [b"\xff\xfe", b"\x80" * 40, b"new\nline", b" ", b"...", b"-rf", b"a\\b", b"\x01\x7f", b"caf\xc3\xa9", b"cafe\xcc\x81",
                 b"\xed\xa0\x80", "日本".encode() * 40, b"x" * 255, b"x" * 256, b"", b"a" * 200 + b"/" + b"b" * 200]:
        path = os.path.join(os.fsencode(folder), name)
        see(f"make {name}", answer(lambda: os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR))))
        see("look", answer(lambda: os.stat(path).st_size))
        see("move", answer(os.rename, path, path + b"!"))
        see("a directory", answer(os.mkdir, path))
        see("a link", answer(os.symlink, path, path + b"@"))
        see("its target", answer(lambda: os.path.basename(os.readlink(path + b"@"))))
    see("all", sorted(os.listdir(os.fsencode(folder))))
    see("by the root of it", answer(os.listdir, b"."))


def deep(folder, see):
    """Deeper than a path can say."""
    start = os.open(".", os.O_RDONLY)
    name = "d" * 200
    for _ in range(60):
        os.mkdir(name)
        os.chdir(name)
    see("where we are", answer(os.getcwd)[-3000:])
    open("bottom", "w").close()
    see("a path that is too long", answer(os.stat, "/".join([".."] * 3000)))
    os.fchdir(start)
    see("down", answer(os.stat, "/".join([name] * 21)))
    see("moved with all below it", answer(os.rename, name, "short"))
    for _ in range(60):
        os.chdir("short" if _ == 0 else name)
    see("still there", os.listdir("."))
    for _ in range(60):
        see("up", len(os.listdir("..")))
        os.chdir("..")
    see("not empty", answer(os.rmdir, "short"))
    see("removed", subprocess.run(["rm", "-r", "short"]).returncode)


def many(folder, see):
    """A directory of 20,000 files: each is listed once, whatever comes and goes meanwhile."""
    os.mkdir("many")
    for number in range(MANY):
        os.mknod(f"many/stays {number}")
    is_over = threading.Event()

    def change():
        number = 0
        while not is_over.is_set():
            name = f"many/comes and goes {number % 500}"
            os.close(os.open(name, os.O_CREAT | os.O_WRONLY))
            os.rename(name, f"many/moved {number % 500}")
            if number % 3 == 0:
                os.unlink(f"many/moved {number % 500}")
            number += 1

    changing = threading.Thread(target=change)
    changing.start()
    for _ in range(2):
        names = os.listdir("many")
        stay = [name for name in names if name.startswith("stays")]
        see("those that stay", (len(stay), len(set(stay))))
        see("with attributes", sum(entry.stat().st_nlink for entry in os.scandir("many") if entry.name.startswith("stays")))
    is_over.set()
    changing.join()
    with os.scandir("many") as entries:
        removed = 0
        for entry in entries:
            os.unlink(entry.path)
            removed += entry.name.startswith("stays")
    see("removed while it was listed", removed)
    see("empty", answer(os.rmdir, "many"))


def sought(folder, see):
    """rewinddir(3), telldir(3) and seekdir(3)."""
    for number in range(300):
        os.close(os.open(f"name {number}", os.O_CREAT))
    libc = calls.libc
    for call, kind in [("opendir", "c_void_p"), ("readdir64", "c_void_p"), ("telldir", "c_long")]:
        getattr(libc, call).restype = getattr(calls.ctypes, kind)
    pointer = calls.ctypes.c_void_p
    dir = pointer(libc.opendir(b"."))

    def rest():
        names = []
        while entry := libc.readdir64(dir):
            names.append(calls.ctypes.string_at(entry + 19))
        return names

    for _ in range(100):
        libc.readdir64(dir)
    at = libc.telldir(dir)
    first = rest()
    libc.seekdir(dir, calls.ctypes.c_long(at))
    see("again from there", rest() == first)
    see("so many", len(first))
    open("later", "w").close()
    libc.rewinddir(dir)
    see("from the start", (len(rest()), "later" in os.listdir(".")))
    libc.rewinddir(dir)
    see("all", sorted(rest()))
    libc.closedir(dir)


def storms(folder, see):
    """Files change places between directories: at each moment each is there once, and at the end none is lost."""
    for number in range(8):
        os.mkdir(f"dir{number}")
    for number in range(40):
        with open(f"dir{number % 8}/file{number}", "w") as file:
            file.write(f"contents of {number}")
    end = time.monotonic() + told.times(1)
    children = []
    for process in range(6):
        child = os.fork()
        if child == 0:
            draw = random.Random(process)
            while time.monotonic() < end:
                one, other = draw.randrange(8), draw.randrange(8)
                name = f"file{draw.randrange(40)}"
                kind = draw.randrange(4)
                try:
                    if kind == 0:
                        calls.rename(f"dir{one}/{name}", f"dir{other}/{name}", calls.RENAME_NOREPLACE)
                    elif kind == 1:
                        calls.rename(f"dir{one}", f"dir{other}", calls.RENAME_EXCHANGE)
                    elif kind == 2:
                        os.rename(f"dir{one}/{name}", f"dir{other}/{name}")
                    else:
                        # Directories within one another and back: this must not hang, and never make a circle.
                        os.rename(f"dir{one}", f"dir{other}/inside{one}")
                        os.rename(f"dir{other}/inside{one}", f"dir{one}")
                except OSError as error:
                    if error.errno not in (errno.ENOENT, errno.EEXIST, errno.EINVAL, errno.ENOTEMPTY, errno.ENOTDIR, errno.EISDIR):
                        os._exit(error.errno)
            os._exit(0)
        children.append(child)
    see("ends", [os.waitpid(child, 0)[1] for child in children])
    found = {}
    for where, _, files in os.walk("."):
        for name in files:
            found.setdefault(name, []).append(open(f"{where}/{name}").read())
    see("each once, with its contents", found == {f"file{number}": [f"contents of {number}"] for number in range(40)})
    see("directories", sum(len(folders) for _, folders, _ in os.walk(".")))


def replaced(folder, see):
    """Who reads a file that is replaced all the time finds it whole."""
    with open("file", "w") as file:
        file.write("0" * 5000)
    child = os.fork()
    if child == 0:
        for number in range(300):
            with open("new", "w") as file:
                file.write(str(number % 10) * 5000)
                if number % 20 == 0:
                    file.flush()
                    os.fsync(file.fileno())
            os.rename("new", "file")
        os._exit(0)
    whole = True
    while os.waitpid(child, os.WNOHANG)[0] == 0:
        text = open("file").read()
        whole = whole and len(text) == 5000 and len(set(text)) == 1
    see("always whole", whole)
    see("the last", open("file").read(3))


def links(folder, see):
    """As many as ext4 takes for a file. Directories may be more."""
    open("file", "w").close()
    os.mkdir("links")
    made = 0
    try:
        while made < LINKS_MAX + 10:
            os.link("file", f"links/{made}")
            made += 1
    except OSError as error:
        see("the limit", (made, errno.errorcode[error.errno]))
    see("links", os.stat("file").st_nlink)
    for number in range(made):
        os.unlink(f"links/{number}")
    see("links", os.stat("file").st_nlink)


SCENES = [odd, deep, many, sought, storms, replaced]


def main():
    scenes = [*SCENES, links] if told.IS_LONG else SCENES
    # Small, so that there are enough inodes.
    with Place(ext4=("-N", "200000")) as place:
        answers, different = play(place, scenes)
    told.ok(f"{answers} answers in {len(scenes)} scenes, {different} other than in a plain directory, with a reason")


main()
