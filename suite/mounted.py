"""Where stock SQLite runs through `oneflush mount`, and beside it in the lower alone: on a scratch ext4, as the cases of files/ do.

The run has namespaces of its own for mounts and processes: whatever happens, its daemon, mounts and loop device are gone after it.
"""

import contextlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

LIBRARY = pathlib.Path(__file__).resolve().parent.parent / "files" / "lib"
# Set in the namespaces. The tests do not see it.
APART = "SUITE_APART"
PACKAGES = ["e2fsprogs", "util-linux", "fuse3"]


# What the largest share writes to the scratch file system.
FREE_BYTES = 1 << 30


def missing(folder):
    """Why there can be no mount here, or None. The scratch file system lies in `folder`, or where temporary files are."""
    if os.getuid() != 0:
        return "only root may make loop devices"
    absent = [device for device in ("/dev/fuse", "/dev/loop-control") if not os.path.exists(device)]
    if absent:
        return f"there is no {absent[0]}"
    folder = folder or tempfile.gettempdir()
    free = shutil.disk_usage(folder).free
    return f"{folder} needs {FREE_BYTES >> 20} MiB, and has {free >> 20}" if free < FREE_BYTES else None


def is_apart():
    return APART in os.environ


def apart(program, memory):
    """Runs the same command in namespaces of its own, and answers its exit code. All files lie in `memory`, if there is any."""
    with tempfile.TemporaryDirectory(prefix="onef-", dir=memory) as folder:
        # A copy: others may build meanwhile.
        copy = shutil.copy2(program, folder)
        command = ["unshare", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child", "--mount-proc",
                   sys.executable, *sys.argv]
        return subprocess.run(command, env={**os.environ, APART: "1", "ONEFLUSH_PROGRAM": copy, "TMPDIR": folder}).returncode


@contextlib.contextmanager
def places():
    """How the names of the tests' directories begin, in the lower alone and in the mount.

    Both are of the same length, with the same number of names: faults are injected by number of allocation and call.
    """
    sys.path.insert(0, str(LIBRARY))
    from place import Place

    with Place(mount=()) as place:
        (place.at / "mounted").mkdir()
        control, mount = f"{place.control}/", f"{place.at}/mounted/"
        assert len(control) == len(mount), (control, mount)
        yield control, mount
        syncs = place.stats()
        print(f"suite: {syncs['syncs']} syncs in {syncs['records']} records", flush=True)
