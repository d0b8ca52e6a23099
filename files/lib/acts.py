"""Random operations on a small tree, as fsstress of xfstests does them: by seed, below the current directory."""

import hashlib
import mmap
import os
import random
import stat

import calls
from scenes import answer

FOLDERS = ["", "a/", "b/", "a/c/", "a/c/d/"]
NAMES = ["p", "q", "r", "s", "a", "b", "c", "d"]
SIZE_MAX = 600_000
OPEN_MAX = 6


def told_of(path):
    seen = os.lstat(path)
    size = seen.st_size if not stat.S_ISDIR(seen.st_mode) else 0
    return stat.filemode(seen.st_mode), seen.st_uid, seen.st_gid, seen.st_nlink, size, seen.st_rdev


def bytes_of(size, kind):
    return (b"%d." % kind * size)[:size]


class Acts:
    def __init__(self, seed, with_space=True):
        self.random = random.Random(seed)
        self.open = []
        self.kinds = [name[len("do_"):] for name in dir(self) if name.startswith("do_") and (with_space or name != "do_space")]

    def step(self):
        """Answers what was done and what came of it."""
        kind = self.random.choice(self.kinds)
        act, *arguments = getattr(self, f"do_{kind}")()
        return (kind, *arguments), answer(act, *arguments)

    def name(self):
        return self.random.choice(FOLDERS) + self.random.choice(NAMES)

    def there(self):
        """A name that is there, mostly."""
        for _ in range(8):
            name = self.name()
            if os.path.lexists(name):
                return name
        return name

    def free(self):
        """A name that is not there, mostly."""
        for _ in range(4):
            name = self.name()
            if not os.path.lexists(name):
                return name
        return name

    def at(self):
        return self.random.choice([0, 1, 4096, self.random.randrange(SIZE_MAX), self.random.randrange(9000)])

    def size(self):
        return self.random.choice([0, 1, 100, 4096, 5000, self.random.randrange(200_000)])

    def on_file(self, act, *arguments):
        """On one that is open, if there is one, or on one by name."""
        index = self.random.randrange(len(self.open)) if self.open else None
        if index is None:
            return self.do_open()
        return (lambda index, *rest: act(self.open[index], *rest)), index, *arguments

    # Each answers a call and its arguments.

    def do_open(self):
        flags = self.random.choice([os.O_RDWR, os.O_RDWR | os.O_CREAT, os.O_RDWR | os.O_CREAT | os.O_TRUNC, os.O_RDWR | os.O_APPEND,
                                    os.O_RDWR | os.O_CREAT | os.O_EXCL, os.O_RDONLY, os.O_WRONLY | os.O_CREAT, os.O_RDWR | os.O_DSYNC,
                                    os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW])
        return self._open, self.random.choice([self.there, self.free])(), flags | os.O_NONBLOCK, self.random.choice([0o644, 0o600, 0o755])

    def _open(self, name, flags, mode):
        if len(self.open) >= OPEN_MAX:
            os.close(self.open.pop(0))
        file = os.open(name, flags, mode)
        if not stat.S_ISREG(os.fstat(file).st_mode):
            os.close(file)
            return "not a file"
        self.open.append(file)
        return len(self.open)

    def do_close(self):
        return (lambda: os.close(self.open.pop()) if self.open else None),

    def do_write(self):
        return self.on_file(lambda file, at, size, kind: os.pwrite(file, bytes_of(size, kind), at), self.at(), self.size(),
                            self.random.randrange(1000))

    do_write_more = do_write

    def do_append(self):
        return self.on_file(self._append, self.size(), self.random.randrange(1000))

    def _append(self, file, size, kind):
        os.lseek(file, 0, os.SEEK_END)
        return os.write(file, bytes_of(min(size, 20_000), kind)), os.lseek(file, 0, os.SEEK_CUR)

    def do_read(self):
        return self.on_file(lambda file, at, size: hashlib.md5(os.pread(file, size, at)).hexdigest(), self.at(), self.size())

    def do_map(self):
        return self.on_file(self._map, self.random.randrange(100_000), self.random.randrange(1, 5000), self.random.random() < 0.5)

    def _map(self, file, at, size, synced):
        length = os.fstat(file).st_size
        if length == 0:
            return "empty"
        at, end = at % length, min(at % length + size, length)
        with mmap.mmap(file, length) as map:
            map[at:end] = bytes(byte ^ 0x55 for byte in map[at:end])
            if synced:
                map.flush()
        return at, end

    def do_cut(self):
        return self.on_file(os.ftruncate, self.at())

    def do_truncate(self):
        return os.truncate, self.there(), self.at()

    def do_space(self):
        mode = self.random.choice([0, calls.KEEP_SIZE, calls.PUNCH_HOLE | calls.KEEP_SIZE, calls.ZERO_RANGE,
                                   calls.ZERO_RANGE | calls.KEEP_SIZE])
        return self.on_file(calls.fallocate, mode, self.at(), self.size())

    def do_copy(self):
        return self.on_file(self._copy, self.random.randrange(OPEN_MAX), self.at(), self.at(), self.size())

    def _copy(self, file, other, from_at, to_at, size):
        return os.copy_file_range(file, self.open[other % len(self.open)], size, from_at, to_at)

    def do_sync(self):
        return self.on_file(os.fsync)

    def do_datasync(self):
        return self.on_file(os.fdatasync)

    def do_fstat(self):
        return self.on_file(told_of_open)

    def do_make_folder(self):
        return os.mkdir, self.random.choice([*FOLDERS[1:], self.free()]), self.random.choice([0o755, 0o1777])

    def do_remove_folder(self):
        return os.rmdir, self.there()

    def do_remove(self):
        return os.unlink, self.there()

    def do_make_node(self):
        kind, device = self.random.choice([(stat.S_IFIFO, 0), (stat.S_IFREG, 0), (stat.S_IFCHR, os.makedev(1, 3)),
                                           (stat.S_IFBLK, os.makedev(259, 300)), (stat.S_IFSOCK, 0)])
        return os.mknod, self.free(), kind | 0o640, device

    def do_symlink(self):
        return os.symlink, self.random.choice(["p", "../q", "a", "nowhere", "a/c", "x" * 300]), self.free()

    def do_readlink(self):
        return os.readlink, self.there()

    def do_link(self):
        return (lambda one, other: os.link(one, other, follow_symlinks=False)), self.there(), self.free()

    def do_rename(self):
        return os.rename, self.there(), self.name()

    do_rename_more = do_rename

    def do_rename_flags(self):
        return calls.rename, self.there(), self.there(), self.random.choice([calls.RENAME_NOREPLACE, calls.RENAME_EXCHANGE])

    def do_mode(self):
        return os.chmod, self.there(), self.random.choice([0o644, 0o700, 0o4755, 0o2711, 0o600])

    def do_owner(self):
        # Not nobody: the kernel does not ask for a change that changes nothing.
        return os.lchown, self.there(), *self.random.choice([(0, -1), (1, -1), (1000, -1), (-1, 0), (-1, 50), (0, 0), (1, 50)])

    def do_times(self):
        return (lambda name, times: os.utime(name, ns=times, follow_symlinks=False)), self.there(), (
            self.random.randrange(10**18), self.random.randrange(10**18))

    def do_modified(self):
        # Only while it is as it was set, which a later change would not leave.
        return self._modified, self.there(), self.random.randrange(10**18)

    def _modified(self, name, time):
        os.utime(name, ns=(time, time), follow_symlinks=False)
        return os.lstat(name).st_mtime_ns

    def do_set_attribute(self):
        return (lambda name, of, value, flags: os.setxattr(name, of, value, flags, follow_symlinks=False)), self.there(), \
            self.random.choice(["user.one", "user.two", "trusted.three"]), bytes_of(self.random.choice([0, 5, 900]), 7), \
            self.random.choice([0, 0, os.XATTR_CREATE, os.XATTR_REPLACE])

    def do_remove_attribute(self):
        return (lambda name, of: os.removexattr(name, of, follow_symlinks=False)), self.there(), self.random.choice(["user.one", "user.two"])

    def do_attributes(self):
        return (lambda name: sorted((of, os.getxattr(name, of, follow_symlinks=False))
                                    for of in os.listxattr(name, follow_symlinks=False))), self.there()

    def do_list(self):
        return (lambda name: sorted(os.listdir(name))), self.random.choice(FOLDERS) or "."

    def do_look(self):
        return told_of, self.there()

    def do_sync_folder(self):
        return sync_folder, self.random.choice(FOLDERS) or "."


def told_of_open(file):
    seen = os.fstat(file)
    return stat.filemode(seen.st_mode), seen.st_nlink, seen.st_size


def sync_folder(name):
    folder = os.open(name, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
