"""What there is below a directory: everything that a program can see of it, but times of access and of change."""

import hashlib
import os
import stat

PIECE = 1 << 20
# Times of modification differ between two runs. Between a mount and its lower they must not.
SHOWN = 20


def tree(top, with_times=True, numbers=True):
    """By name (bytes). Of hard links: which names are one file."""
    top = os.fsencode(top)
    found, first_names = {}, {}
    for folder, folders, files in os.walk(top):
        for name in [b"", *folders, *files] if folder == top else [*folders, *files]:
            path = os.path.join(folder, name) if name else folder
            seen = os.lstat(path)
            one = [stat.filemode(seen.st_mode), seen.st_uid, seen.st_gid]
            if not stat.S_ISDIR(seen.st_mode):
                one += [seen.st_size, seen.st_rdev]
                if seen.st_nlink > 1:
                    one += ["as", first_names.setdefault(seen.st_ino, os.path.relpath(path, top))]
            one.append(seen.st_nlink)
            if with_times:
                one += [seen.st_mtime_ns, seen.st_ino if path != top and numbers else 0]
            if stat.S_ISLNK(seen.st_mode):
                one.append(os.readlink(path))
            elif stat.S_ISREG(seen.st_mode):
                one.append(digest(path))
            one += attributes(path)
            found[os.path.relpath(path, top)] = one
    return found


def attributes(path):
    names = sorted(os.listxattr(path, follow_symlinks=False))
    # The mark of a mount is not shown by it.
    names = [name for name in names if not name.startswith("trusted.oneflush.")]
    return [(name, os.getxattr(path, name, follow_symlinks=False)) for name in names]


def digest(path):
    """Of the bytes. Holes cost nothing."""
    digest = hashlib.blake2b(digest_size=16)
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOATIME)
    except PermissionError:
        return "this user may not read it"
    try:
        size = os.fstat(file).st_size
        at = 0
        while at < size:
            try:
                start = os.lseek(file, at, os.SEEK_DATA)
            except OSError:
                break
            at = start - start % PIECE
            piece = os.pread(file, PIECE, at)
            if piece.strip(b"\0"):
                digest.update(at.to_bytes(8, "little") + piece.rstrip(b"\0"))
            at += PIECE
    finally:
        os.close(file)
    return digest.hexdigest()


def differences(one, other):
    """A line for each name, up to some."""
    lines = [f"  {name!r}: {one.get(name)} | {other.get(name)}" for name in sorted({*one, *other})
             if one.get(name) != other.get(name)]
    return lines[:SHOWN] + ([f"  and {len(lines) - SHOWN} more"] if len(lines) > SHOWN else [])
