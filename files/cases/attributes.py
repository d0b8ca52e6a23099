"""Attributes: modes, owners, times, extended ones, access control lists, rights of programs."""

import fcntl
import mmap
import os
import stat
import struct
import subprocess
import time

import calls
import told
from place import Place, run
from scenes import answer, as_user, play

# How the kernel counts times: not finer than this.
TICK_S = 0.012
ACCESS, DEFAULT = "system.posix_acl_access", "system.posix_acl_default"
USER_OBJ, USER, GROUP_OBJ, GROUP, MASK, OTHER = 1, 2, 4, 8, 16, 32
NOBODY = 0xFFFFFFFF
# CAP_NET_RAW, permitted and effective.
CAPABILITY = struct.pack("<IIIII", 0x02000001, 1 << 13, 0, 0, 0)


def acl(*entries):
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)


def usual(user=7, group=5, other=5):
    return acl((USER_OBJ, user, NOBODY), (GROUP_OBJ, group, NOBODY), (OTHER, other, NOBODY))


def stamps(path):
    seen = os.fstat(path) if isinstance(path, int) else os.lstat(path)
    return seen.st_atime_ns, seen.st_mtime_ns, seen.st_ctime_ns


def what_changes_which_time(folder, see):
    """Of each call: which times of the file and of its directory are later than before."""
    os.mkdir("d")
    os.mkdir("e")
    os.mkdir("d/sub")
    file = os.open("d/f", os.O_RDWR | os.O_CREAT)
    os.write(file, b"contents")
    os.symlink("f", "d/l")

    # By descriptors: names change.
    watched = [os.open(path, os.O_RDONLY) for path in ("d", "e", "d/f")]

    def read_of_old():
        os.utime("d/f", ns=(10**9, 2 * 10**9))
        os.pread(file, 3, 0)

    acts = {
        "read": lambda: os.pread(file, 3, 0), "read of what is read for the first time in a day": read_of_old,
        "write": lambda: os.pwrite(file, b"x", 0), "append": lambda: os.pwrite(file, b"x" * 100, os.fstat(file).st_size),
        "write nothing": lambda: os.pwrite(file, b"", 0), "fsync": lambda: os.fsync(file),
        "truncate to its size": lambda: os.truncate("d/f", os.stat("d/f").st_size), "truncate": lambda: os.truncate("d/f", 3),
        "ftruncate to its size": lambda: os.ftruncate(file, 3), "ftruncate": lambda: os.ftruncate(file, 10_000),
        "open with O_TRUNC": lambda: os.close(os.open("d/f", os.O_RDWR | os.O_TRUNC)),
        "open an empty one with O_TRUNC": lambda: os.close(os.open("d/f", os.O_RDWR | os.O_TRUNC)),
        "allocate": lambda: os.posix_fallocate(file, 0, 9000), "chmod": lambda: os.chmod("d/f", 0o600),
        "the same mode": lambda: os.chmod("d/f", 0o600), "chown": lambda: os.chown("d/f", 5, 5),
        "chown to nobody new": lambda: os.chown("d/f", -1, -1), "set an attribute": lambda: os.setxattr("d/f", "user.a", b"1"),
        "remove it": lambda: os.removexattr("d/f", "user.a"), "link": lambda: os.link("d/f", "d/g"),
        "unlink the other": lambda: os.unlink("d/g"), "rename": lambda: os.rename("d/f", "d/h"), "back": lambda: os.rename("d/h", "d/f"),
        "to another directory": lambda: os.rename("d/f", "e/f"), "and back": lambda: os.rename("e/f", "d/f"),
        "set times": lambda: os.utime("d/f", ns=(5 * 10**18, 6 * 10**18)), "set times to now": lambda: os.utime("d/f"),
        "mkdir": lambda: os.mkdir("d/new"), "rmdir": lambda: os.rmdir("d/new"), "list": lambda: os.listdir("d"),
        "symlink": lambda: os.symlink("x", "d/s"), "unlink": lambda: os.unlink("d/s"), "mkfifo": lambda: os.mkfifo("d/p"),
        "rename over": lambda: os.rename("d/p", "d/l"), "move a directory": lambda: os.rename("d/sub", "e/sub"),
        "close": lambda: os.close(file),
    }
    for name, act in acts.items():
        before = [stamps(path) for path in watched]
        time.sleep(TICK_S)
        act()
        after = [stamps(path) for path in watched]
        later = ["".join(letter if new > old else "-" for letter, old, new in zip("amc", one, other))
                 for one, other in zip(before, after)]
        see(name, later)
    now = time.time()
    see("they are of now", all(abs(os.lstat(path).st_ctime - now) < 60 for path in ("d", "e", "d/f")))


def times(folder, see):
    open("f", "w").close()
    os.symlink("f", "l")
    for at in (0, 1, -1, -999_999_999, 2**31 * 10**9, 2**32 * 10**9 + 7, 15_032_385_535 * 10**9, 10**18 + 123_456_789):
        see(f"set to {at}", answer(os.utime, "f", ns=(at, at + 5)))
        see("they are", stamps("f")[:2])
        see("of a link", answer(os.utime, "l", ns=(at, at), follow_symlinks=False))
        see("they are", stamps("l")[1])
    see("far away", answer(os.utime, "f", ns=(2**36 * 10**9, 2**36 * 10**9)))
    file = os.open("f", os.O_RDWR)
    os.utime("f", ns=(3, 4))
    os.write(file, b"x")
    os.utime("f", ns=(5, 6))
    see("set after a write", stamps("f")[:2])
    os.fsync(file)
    os.close(file)
    see("and after a sync", stamps("f")[:2])
    os.chown("f", 10, 10)
    os.chmod("f", 0o666)
    for who in (0, 10, 11):
        see(f"{who} sets any", as_user(who, who, [], os.utime, "f", ns=(1, 1)))
        see(f"{who} sets now", as_user(who, who, [], os.utime, "f"))
    os.chmod("f", 0o644)
    see("who may not write", as_user(11, 11, [], os.utime, "f"))


def extended(folder, see):
    open("f", "w").close()
    os.mkdir("d")
    os.symlink("f", "l")
    os.mkfifo("p")
    for path in ("f", "d", "l", "p"):
        for name in ("user.a", "trusted.a", "security.a", "system.a", "nothing.a", "user.", "a"):
            see(f"{path} {name}", answer(os.setxattr, path, name, b"value", follow_symlinks=False))
            see("it is", answer(os.getxattr, path, name, follow_symlinks=False))
        see("all", answer(os.listxattr, path, follow_symlinks=False))
        see("seen by another", as_user(9, 9, [], os.listxattr, path, follow_symlinks=False))
        see("read by another", as_user(9, 9, [], os.getxattr, path, "user.a", follow_symlinks=False))
        see("trusted, by another", as_user(9, 9, [], os.getxattr, path, "trusted.a", follow_symlinks=False))
        see("set by another", as_user(9, 9, [], os.setxattr, path, "user.b", b"", follow_symlinks=False))
    see("made again", answer(os.setxattr, "f", "user.a", b"", os.XATTR_CREATE))
    see("replaced", answer(os.setxattr, "f", "user.none", b"", os.XATTR_REPLACE))
    for size in (0, 1, 1000, 3000, 5000, 65_536, 65_537):
        see(f"of {size}", answer(os.setxattr, "f", "user.large", b"v" * size))
        see("it is", answer(lambda: len(os.getxattr("f", "user.large"))))
    see("removed", answer(os.removexattr, "f", "user.a"))
    see("again", answer(os.removexattr, "f", "user.a"))
    see("a long name", [answer(os.setxattr, "f", "user." + "n" * size, b"") for size in (250, 251)])
    many = [answer(os.setxattr, "d", f"user.{number}", b"%d" % number) for number in range(100)]
    see("many", (many.count(None), len(os.listxattr("d"))))
    see("a strange name", answer(os.setxattr, "d", "user.\n\xff", b""))
    see("by a descriptor", answer(os.getxattr, os.open("d", os.O_RDONLY), "user.5"))


def lists(folder, see):
    """Access control lists: what they allow, and what they do to modes."""
    open("f", "w").close()
    os.chmod("f", 0o640)
    see("without one", answer(os.getxattr, "f", ACCESS))
    list = acl((USER_OBJ, 6, NOBODY), (USER, 6, 33), (GROUP_OBJ, 4, NOBODY), (GROUP, 4, 44), (MASK, 6, NOBODY), (OTHER, 0, NOBODY))
    see("set", answer(os.setxattr, "f", ACCESS, list))
    see("mode", oct(os.stat("f").st_mode))
    for who, groups in ((33, []), (34, []), (34, [44]), (34, [0])):
        for flags in (os.O_RDONLY, os.O_WRONLY):
            see(f"{who} {groups} {flags}", as_user(who, who, groups, lambda: os.open("f", flags) > 0))
    os.chmod("f", 0o600)
    see("the mask goes with the group's bits", as_user(33, 33, [], lambda: os.open("f", os.O_RDONLY) > 0))
    see("it is", os.getxattr("f", ACCESS))
    see("by another", as_user(50, 50, [], os.setxattr, "f", ACCESS, usual()))
    see("none", answer(os.setxattr, "f", ACCESS, b""))
    see("bad", answer(os.setxattr, "f", ACCESS, b"\x02\0\0\0\x01"))
    see("no owner", answer(os.setxattr, "f", ACCESS, acl((GROUP_OBJ, 4, NOBODY), (OTHER, 0, NOBODY))))
    see("plain bits", answer(os.setxattr, "f", ACCESS, usual(6, 4, 4)))
    see("are the mode", (oct(os.stat("f").st_mode), os.listxattr("f")))
    os.mkdir("d")
    os.chmod("d", 0o777)
    default = acl((USER_OBJ, 7, NOBODY), (USER, 7, 33), (GROUP_OBJ, 5, NOBODY), (MASK, 7, NOBODY), (OTHER, 0, NOBODY))
    see("a default", answer(os.setxattr, "d", DEFAULT, default))
    see("of a file", answer(os.setxattr, "f", DEFAULT, default))
    for umask in (0o022, 0o077, 0):
        os.umask(umask)
        for mode in (0o666, 0o644, 0o777, 0o600, 0o2777):
            path = f"d/{umask:o}-{mode:o}"
            os.close(os.open(path, os.O_CREAT | os.O_RDWR, mode))
            os.mkdir(path + "d", mode)
            os.mknod(path + "p", stat.S_IFIFO | mode)
            os.symlink("x", path + "l")
            for each in (path, path + "d", path + "p", path + "l"):
                see(f"{umask:o} {mode:o}", (oct(os.lstat(each).st_mode), answer(os.getxattr, each, ACCESS, follow_symlinks=False),
                                            answer(os.getxattr, each, DEFAULT, follow_symlinks=False)))
    os.umask(0o022)
    see("another makes in it", as_user(33, 33, [], lambda: os.mkdir("d/by 33")))
    see("it is", (oct(os.stat("d/by 33").st_mode), os.getxattr("d/by 33", ACCESS)))
    see("removed", answer(os.removexattr, "d", DEFAULT))
    see("again", answer(os.removexattr, "d", DEFAULT))
    see("by programs", subprocess.run("setfacl -m u:77:rwx,g:88:r f && getfacl -c f && cp -a f copy && getfacl -c copy",
                                      shell=True, capture_output=True, text=True).stdout)


def rights_of_programs(folder, see):
    """Set-user-ID, set-group-ID and capabilities: who loses them by what."""

    def fresh(mode=0o6777, owner=(70, 71)):
        if os.path.exists("f"):
            os.unlink("f")
        with open("f", "wb") as file:
            file.write(b"program")
        os.chown("f", *owner)
        os.chmod("f", mode)
        os.setxattr("f", "security.capability", CAPABILITY)

    def left(path="f"):
        return oct(os.stat(path).st_mode), answer(os.getxattr, path, "security.capability")

    def write():
        with open("f", "r+b") as file:
            file.write(b"x")

    def mapped():
        file = os.open("f", os.O_RDWR)
        with mmap.mmap(file, 0) as map:
            map[0:1] = b"m"

    acts = {"write": write, "truncate": lambda: os.truncate("f", 3), "truncate to nothing": lambda: os.truncate("f", 0),
            "truncate to its size": lambda: os.truncate("f", 7), "longer": lambda: os.truncate("f", 70),
            "open to cut": lambda: os.close(os.open("f", os.O_WRONLY | os.O_TRUNC)), "map": mapped,
            "allocate": lambda: os.posix_fallocate(os.open("f", os.O_RDWR), 0, 100),
            "append": lambda: os.write(os.open("f", os.O_WRONLY | os.O_APPEND), b"y"),
            "write nothing": lambda: os.write(os.open("f", os.O_WRONLY), b""),
            "write for sure": lambda: os.write(os.open("f", os.O_WRONLY | os.O_SYNC), b"z"),
            "copy into": lambda: os.copy_file_range(os.open("source", os.O_RDONLY), os.open("f", os.O_WRONLY), 3),
            "chmod": lambda: os.chmod("f", 0o6755), "chown": lambda: os.chown("f", 72, -1), "chgrp": lambda: os.chown("f", -1, 73),
            "chown to itself": lambda: os.chown("f", 70, 71), "chown nothing": lambda: os.chown("f", -1, -1),
            "rename": lambda: os.rename("f", "g"), "link": lambda: os.link("f", "h"), "times": lambda: os.utime("f"),
            "an attribute": lambda: os.setxattr("f", "user.x", b"")}
    with open("source", "w") as file:
        file.write("source")
    for mode in (0o6777, 0o6767, 0o2666):
        for name, act in acts.items():
            for who, groups in ((0, []), (70, []), (70, [71, 73]), (99, [])):
                for path in ("f", "g", "h"):
                    if os.path.lexists(path):
                        os.unlink(path)
                fresh(mode)
                see(f"{name} by {who} {groups}", as_user(who, who, groups, act))
                see(f"left by {name} of {oct(mode)} by {who} {groups}", left("g" if os.path.exists("g") else "f"))


def owners(folder, see):
    """chown(2) and chmod(2) by everybody, of everything."""
    for kind in ("file", "dir", "link"):
        for who, groups in ((0, []), (20, []), (20, [30, 31]), (21, [])):
            for to in ((20, -1), (21, -1), (-1, 30), (-1, 31), (-1, 40), (20, 30), (21, 30), (-1, -1)):
                if os.path.lexists("x"):
                    (os.rmdir if kind == "dir" else os.unlink)("x")
                {"file": lambda: open("x", "w").close(), "dir": lambda: os.mkdir("x"), "link": lambda: os.symlink("y", "x")}[kind]()
                os.lchown("x", 20, 30)
                if kind != "link":
                    os.chmod("x", 0o6755)
                see(f"{kind}: {who} {groups} to {to}", as_user(who, who, groups, os.lchown, "x", *to))
                seen = os.lstat("x")
                see("it is", (seen.st_uid, seen.st_gid, oct(seen.st_mode)))
                if kind != "link":
                    see("chmod", as_user(who, who, groups, os.chmod, "x", 0o2750))
                    see("it is", oct(os.lstat("x").st_mode))
        (os.rmdir if kind == "dir" else os.unlink)("x")
    open("f", "w").close()
    see("a large number", answer(os.chown, "f", 2**32 - 2, 2**31))
    see("it is", (os.stat("f").st_uid, os.stat("f").st_gid))


def of_linux(folder, see):
    """What Linux has beyond POSIX, and programs ask for here and there."""
    open("f", "w").close()
    file = os.open("f", os.O_RDWR)
    see("time of birth", calls.has_birth("f"))
    see("flags of the inode", answer(lambda: len(fcntl.ioctl(file, 0x80086601, bytes(8)))))
    see("set flags", answer(fcntl.ioctl, file, 0x40086602, bytes(8)))
    see("where it lies", subprocess.run(["filefrag", "f"], capture_output=True).returncode)
    see("a handle", answer(calls.handle_of, "f"))
    seen = os.statvfs(".")
    see("the file system", (seen.f_bsize, seen.f_frsize, seen.f_blocks, seen.f_files, seen.f_namemax))
    see("its limits", [answer(os.pathconf, ".", name) for name in ("PC_NAME_MAX", "PC_PATH_MAX", "PC_PIPE_BUF", "PC_NO_TRUNC")])
    see("blocks of a file", (os.pwrite(file, b"x" * 10_000, 0), os.fsync(file), os.fstat(file).st_blocks, os.fstat(file).st_blksize))


def set_by_chattr(folder, see):
    """Files that were made immutable or append-only before it was mounted."""
    for name in ("immutable", "append-only"):
        acts = {"read": lambda: open(name).read(), "write": lambda: os.close(os.open(name, os.O_WRONLY)),
                "append": lambda: os.write(os.open(name, os.O_WRONLY | os.O_APPEND), b"more"), "truncate": lambda: os.truncate(name, 0),
                "cut": lambda: os.close(os.open(name, os.O_WRONLY | os.O_TRUNC)), "chmod": lambda: os.chmod(name, 0o600),
                "chown": lambda: os.chown(name, 1, 1), "times": lambda: os.utime(name, ns=(1, 1)), "now": lambda: os.utime(name),
                "link": lambda: os.link(name, "link"), "rename": lambda: os.rename(name, "moved"), "unlink": lambda: os.unlink(name),
                "attribute": lambda: os.setxattr(name, "user.a", b"b"), "rename over": lambda: os.rename("other", name),
                "make in a directory": lambda: os.mkdir(f"{name} dir/new"), "remove from it": lambda: os.unlink(f"{name} dir/f"),
                "rename in it": lambda: os.rename(f"{name} dir/f", f"{name} dir/g"), "rmdir": lambda: os.rmdir(f"{name} dir")}
        for act, do in acts.items():
            open("other", "w").close()
            see(f"{name}: {act}", answer(do))


def chattr(place, sign):
    for top in (place.control, place.lower):
        for name, flag in (("immutable", "i"), ("append-only", "a")):
            folder = top / "set_by_chattr"
            if sign == "+":
                folder.mkdir(exist_ok=True)
                (folder / name).write_text("text")
                (folder / f"{name} dir").mkdir()
                (folder / f"{name} dir" / "f").write_text("")
            run("chattr", f"{sign}{flag}", folder / name, folder / f"{name} dir")


SCENES = [what_changes_which_time, times, extended, lists, rights_of_programs, owners, of_linux]


def main():
    with Place() as place:
        answers, different = play(place, SCENES)
        place.unmount()
        chattr(place, "+")
        place.mount()
        more, others = play(place, [set_by_chattr])
        answers, different = answers + more, different + others
        place.unmount()
        chattr(place, "-")
        place.mount()
    told.ok(f"{answers} answers in {len(SCENES) + 1} scenes, {different} other than in a plain directory, with a reason")


main()
