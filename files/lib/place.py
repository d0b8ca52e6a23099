"""A scratch file system on a loop device, with a directory that is mounted and one beside it that is not.

`control` is a plain directory of the scratch file system. `lower` is mounted at `at`, and its log lies on the same device.
What is mounted is seen by this case alone, and the loop device goes with its last mount.

At the end the mount must show what the lower has after it, and the file system must be sound.
"""

import ctypes
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time

import told
from tree import differences, tree

PROGRAM = os.environ["ONEFLUSH_PROGRAM"]
HERE = pathlib.Path("/mnt")
PR_SET_PDEATHSIG = 1
# ext4 is what CI tries. With the others some answers of the lower itself are other ones.
LOWER = os.environ.get("FILES_LOWER", "ext4")
MAKE = {"ext4": ["mkfs.ext4", "-q", "-F"], "xfs": ["mkfs.xfs", "-q", "-f"], "btrfs": ["mkfs.btrfs", "-q", "-f"]}
CHECK = {"ext4": ["e2fsck", "-f", "-n"], "xfs": ["xfs_repair", "-n"], "btrfs": ["btrfs", "check", "--readonly"]}
READY_S = 60
END_S = 120


def run(*command, **options):
    """What it prints. It must succeed."""
    command = [str(word) for word in command]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, errors="replace", **options)
    if done.returncode != 0:
        told.fail(f"{' '.join(command)[:500]}: exit code {done.returncode}\n{done.stdout[-4000:]}")
    return done.stdout


def dies_with_parent():
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


class Place:
    def __init__(self, megabytes=4096, ext4=(), mount=("--allow-other",)):
        self.megabytes, self.ext4, self.of_mount = megabytes, ext4, mount
        self.daemon = None

    def __enter__(self):
        # Names of sockets are short, and so is this one, which nobody else sees.
        run("mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", HERE)
        self.folder = HERE
        self.fs, self.at = HERE / "fs", HERE / "at"
        self.fs.mkdir()
        self.at.mkdir()
        self.image = pathlib.Path(tempfile.mkdtemp(prefix=f"{told.CASE}-")) / "image"
        with open(self.image, "wb") as image:
            image.truncate(self.megabytes << 20)
        run(*MAKE[LOWER], *(self.ext4 if LOWER == "ext4" else ()), self.image)
        self.loop = attach(self.image, self.fs)
        self.control, self.lower = self.fs / "control", self.fs / "lower"
        self.control.mkdir()
        self.lower.mkdir()
        self.mount()
        return self

    def mount(self, *options):
        """Answers what the daemon says: what it has found."""
        said = open(self.folder / "said", "wb+")
        command = [PROGRAM, "mount", self.lower, self.at, "--foreground", *self.of_mount, *options]
        self.daemon = subprocess.Popen(command, stdout=said, stderr=subprocess.STDOUT, preexec_fn=dies_with_parent)
        deadline = time.monotonic() + READY_S
        while not os.path.ismount(self.at):
            if self.daemon.poll() is not None or time.monotonic() > deadline:
                told.fail(f"it did not mount: {self.said()}")
            time.sleep(0.01)
        self.stats()
        return self.said()

    def said(self):
        return (self.folder / "said").read_text(errors="replace")

    def stats(self):
        lines = run(PROGRAM, "stats", self.at).splitlines()
        return dict(line.split(maxsplit=1) for line in lines[1:])

    def unmount(self):
        """The lower must have what the mount shows."""
        shown = tree(self.at)
        run(PROGRAM, "umount", self.at)
        if self.daemon.wait(END_S) != 0:
            told.fail(f"the daemon's exit code is {self.daemon.returncode}: {self.said()}")
        self.daemon = None
        if found := differences(shown, tree(self.lower)):
            told.fail("through the mount, and the lower after it:\n" + "\n".join(found))

    def kill(self):
        """What the dead mount shows is only errors."""
        self.daemon.kill()
        self.daemon.wait()
        self.daemon = None
        run("umount", "--lazy", self.at)

    def __exit__(self, kind, error, trace):
        if kind is None:
            if self.daemon is not None:
                self.unmount()
            run("umount", self.fs)
            is_sound(self.image)
            run("umount", HERE)
            shutil.rmtree(self.image.parent)
        elif self.daemon is not None:
            print(f"the daemon: {self.said()}", flush=True)
            self.daemon.kill()


def is_sound(image):
    run(*CHECK[LOWER], image)


def attach(image, at):
    """Mounts an image by a loop device, which goes when its last mount does. Answers the device. It may be a copy of another."""
    loop = run("losetup", "--find", "--show", "--direct-io=on", image).strip()
    try:
        run("mount", "-t", LOWER, "-o", "nouuid" if LOWER == "xfs" else "defaults", loop, at)
    finally:
        # While it is mounted this only notes it.
        run("losetup", "--detach", loop)
    return loop
