"""The files of the package, and whether they are for this machine.

A folder of packages may be copied to another machine, where the files are there and cannot be
used. The dynamic linker's words for that lead nobody to the cause.
"""

from __future__ import annotations

import os
import struct
import sys
from typing import BinaryIO

from oneflush._built import PLATFORM
from oneflush._errors import PlatformError

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "native")

# ELF specification, "ELF Header" and "Program Header".
_PROCESSORS = {3: "i386", 40: "arm", 62: "x86_64", 183: "aarch64", 243: "riscv"}
_ELF_CLASSES = {1: 32, 2: 64}
_LITTLE_ENDIAN = 1
_PT_INTERP = 3


def library_path() -> str:
    """Return the path of `liboneflush.so`, the loadable extension."""
    return _file("liboneflush.so")


def program_path() -> str:
    """Return the path of the program `oneflush`."""
    return _file("oneflush")


def _file(name: str) -> str:
    here = this_machine()
    if here != PLATFORM:
        raise PlatformError(
            f"the package oneflush in {os.path.dirname(FOLDER)} is for {PLATFORM}, and this "
            f"Python is for {here}; {_way_out(here)}"
        )
    path = os.path.join(FOLDER, name)
    if not os.path.isfile(path):
        raise PlatformError(
            f"{path} is missing, so the package oneflush (for {PLATFORM}, as this machine is) is "
            f"not whole; install it anew: pip install --force-reinstall oneflush"
        )
    return path


def this_machine() -> str:
    """Return what this Python is made for, by the words of `PLATFORM` where they have one."""
    if sys.platform != "linux":
        return sys.platform
    # The program itself tells, and not the kernel: a 32-bit Python runs on a 64-bit kernel.
    return machine_of("/proc/self/exe" if os.path.exists("/proc/self/exe") else sys.executable)


def machine_of(program: str) -> str:
    """Return what a program is made for, such as `x86_64-linux-gnu`."""
    with open(program, "rb") as file:
        header = file.read(64)
        if header[:4] != b"\x7fELF":
            return "no ELF"
        bits, order = _ELF_CLASSES[header[4]], "<" if header[5] == _LITTLE_ENDIAN else ">"
        (machine,) = struct.unpack_from(f"{order}H", header, 18)
        loader = _loader(file, header, bits, order) or os.path.realpath(program)
    processor = _PROCESSORS.get(machine, f"processor {machine}")
    name = os.path.basename(loader)
    library = {"ld-musl": "musl", "ld-linu": "gnu"}.get(name[:7], f"({name})")
    size = "" if bits == 64 else f" ({bits} bits)"
    return f"{processor}-linux-{library}{size}"


def _loader(file: BinaryIO, header: bytes, bits: int, order: str) -> str | None:
    """Return the program that loads this one: each C library has its own.

    None: the program is static, or is such a loader.
    """
    table, at = (
        (f"{order}32xQ14xHH", "IxxxxQ16xQ") if bits == 64 else (f"{order}28xI10xHH", "II8xI")
    )
    start, size, count = struct.unpack_from(table, header)
    for number in range(count):
        file.seek(start + number * size)
        kind, offset, length = struct.unpack_from(f"{order}{at}", file.read(size))
        if kind == _PT_INTERP:
            file.seek(offset)
            return os.fsdecode(file.read(length).rstrip(b"\0"))
    return None


def _way_out(here: str) -> str:
    served = [f"{cpu}-linux-{libc}" for cpu in ("x86_64", "aarch64") for libc in ("gnu", "musl")]
    if here in served:
        return "install it on this machine: pip install --force-reinstall oneflush"
    return f"there are packages for {', '.join(served)}"
