"""Calls that Python has not."""

import ctypes
import os

libc = ctypes.CDLL(None, use_errno=True)
RENAME_NOREPLACE, RENAME_EXCHANGE = 1, 2
KEEP_SIZE, PUNCH_HOLE, COLLAPSE_RANGE, ZERO_RANGE, INSERT_RANGE = 1, 2, 8, 16, 32
AT_FDCWD, AT_SYMLINK_FOLLOW = -100, 0x400


def checked(value, *path):
    if value < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), *path)
    return value


def rename(one, other, flags):
    """renameat2(2)."""
    one, other = os.fsencode(one), os.fsencode(other)
    return checked(libc.renameat2(AT_FDCWD, one, AT_FDCWD, other, flags), one)


def link_of(file, name):
    """Gives what is open a name. Python's own call follows no link."""
    path = f"/proc/self/fd/{file}".encode()
    return checked(libc.linkat(AT_FDCWD, path, AT_FDCWD, os.fsencode(name), AT_SYMLINK_FOLLOW), name)


def fallocate(file, mode, offset, length):
    return checked(libc.fallocate(file, mode, ctypes.c_int64(offset), ctypes.c_int64(length)))


def msync(address, length, flags):
    return checked(libc.msync(ctypes.c_void_p(address), ctypes.c_size_t(length), flags))


def has_birth(path):
    """statx(2)."""
    seen = ctypes.create_string_buffer(256)
    checked(libc.statx(AT_FDCWD, os.fsencode(path), 0, 0x800, seen))
    return bool(int.from_bytes(seen.raw[:4], "little") & 0x800)


def handle_of(path):
    """How long the handle is that name_to_handle_at(2) gives."""
    handle = ctypes.create_string_buffer((128).to_bytes(4, "little"), 136)
    checked(libc.name_to_handle_at(AT_FDCWD, os.fsencode(path), handle, ctypes.byref(ctypes.c_int()), 0))
    return int.from_bytes(handle.raw[:4], "little")
