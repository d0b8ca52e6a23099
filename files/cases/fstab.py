"""mount(8) and /etc/fstab, by the helper that packages/ installs as mount.fuse.oneflush. A user may mount what root's table lets users mount.

The programs of /usr/sbin and the table are others for this case alone.
"""

import contextlib
import os
import pathlib
import stat
import subprocess

import told
from place import HERE, PROGRAM, Place, run
from scenes import answer, as_user

HELPER = pathlib.Path(__file__).resolve().parent.parent.parent / "packages" / "mount.fuse.oneflush"
# Debian's user `daemon`.
ME = 1
END_S = 60


@contextlib.contextmanager
def installed():
    """As the package does: the helper where mount(8) looks for it, and the program in the PATH."""
    programs, others = HERE / "sbin", HERE / "sbin-of-before"
    programs.mkdir()
    others.mkdir()
    run("mount", "--bind", "/usr/sbin", others)
    for name in os.listdir(others):
        os.symlink(others / name, programs / name)
    for source, name in ((HELPER, "mount.fuse.oneflush"), (PROGRAM, "oneflush")):
        (programs / name).unlink(missing_ok=True)
        run("install", "-m", "755", source, programs / name)
    sbin = "/sbin" if os.path.realpath("/sbin") != "/usr/sbin" else "/usr/sbin"
    run("mount", "--bind", programs, sbin)
    os.environ["PATH"] = f"/usr/local/bin:/usr/bin:/bin:{sbin}"
    yield
    told.wait(END_S, "a daemon has not ended", lambda: not any(name.endswith("sbin/oneflush") for name in running()))
    run("umount", sbin)
    run("umount", others)


def running():
    """The programs of the processes of this case. One that ends meanwhile has none."""
    numbers = [name for name in os.listdir("/proc") if name.isdecimal()]
    return [str(answer(os.readlink, f"/proc/{number}/exe")) for number in numbers]


def table(*lines):
    path = HERE / "fstab"
    is_new = not path.exists()
    path.write_text("".join(f"{line}\n" for line in lines))
    if is_new:
        run("mount", "--bind", path, "/etc/fstab")


def mounts(at):
    """What lies there: (options of the place, type, source), the lowest first."""
    lines = [line.split() for line in open("/proc/self/mountinfo")]
    return [(set(line[5].split(",")), *line[line.index("-") + 1:][:2]) for line in lines if line[4] == str(at)]


def is_mounted(place, *options):
    told.check("how many mounts lie there", len(mounts(place.at)), 1)
    found, kind, source = mounts(place.at)[0]
    told.check("its type and source", (kind, source), ("fuse.oneflush", str(place.lower)))
    if missing := set(options) - found:
        told.fail(f"options that it lacks: {missing} of {found}")


def work(place, name):
    """Synced, so it goes through the log."""
    before = place.stats()
    file = os.open(place.at / name, os.O_CREAT | os.O_WRONLY, 0o644)
    os.write(file, name.encode())
    os.fsync(file)
    os.close(file)
    told.check("its syncs", int(place.stats()["records"]) > int(before["records"]), True)


def ended(place, name):
    """umount(8) does not wait for the daemon, which is not its child."""
    log = place.fs / "lower-oneflush"
    told.wait(END_S, f"{log} is still there", lambda: not log.exists())
    told.check("nothing lies there", mounts(place.at), [])
    told.check(f"{name} in the lower", (place.lower / name).read_text(), name)


def by_mount(place):
    run("mount", "-t", "fuse.oneflush", place.lower, place.at, "-o", "allow_other,log_size=32M,nosuid,noatime")
    is_mounted(place, "nosuid")
    work(place, "by mount")
    run("umount", place.at)
    ended(place, "by mount")
    for options in ("ro", "log_size=1K", "nonsense"):
        done = subprocess.run(["mount", "-t", "fuse.oneflush", place.lower, place.at, "-o", options], capture_output=True, text=True)
        told.check(f"-o {options} is refused, by name", done.returncode != 0 and "oneflush: " in done.stderr, True)
        told.check("nothing lies there", mounts(place.at), [])


def by_table(place):
    table(f"{place.lower} {place.at} fuse.oneflush allow_other,nodev,log_size=32M 0 0")
    run("mount", place.at)
    is_mounted(place, "nodev")
    # At a boot, and when somebody calls it once more.
    run("mount", "--all", "--types", "fuse.oneflush")
    is_mounted(place)
    work(place, "by table")
    run("umount", place.at)
    ended(place, "by table")
    run("mount", "--all", "--types", "fuse.oneflush")
    is_mounted(place, "nodev")
    read_only(place)
    run("umount", "--all", "--types", "fuse.oneflush")
    ended(place, "by table")


def read_only(place):
    """As before a snapshot, and back."""
    for options, is_read_only in (("remount,ro", True), ("remount,rw", False)):
        run("mount", "-o", options, place.at)
        is_mounted(place, "ro" if is_read_only else "rw", "nodev")
        told.check(f"a file after {options}", answer(lambda: open(place.at / "more", "w").close()), "EROFS" if is_read_only else None)
    work(place, "after it")


def by_user(place):
    """The table lets users mount it. mount(8) becomes the user before it calls the helper."""
    os.mknod(HERE / "fuse", stat.S_IFCHR | 0o666, os.makedev(10, 229))
    os.chmod(HERE / "fuse", 0o666)
    run("mount", "--bind", HERE / "fuse", "/dev/fuse")
    lower, at = place.fs / "mine" / "lower", place.fs / "mine" / "at"
    for folder in (lower.parent, lower, at):
        folder.mkdir()
        os.chown(folder, ME, ME)
    table(f"{place.lower} {place.at} fuse.oneflush noauto 0 0", f"{lower} {at} fuse.oneflush noauto,user 0 0")

    def as_me(*command):
        return as_user(ME, ME, [], lambda: subprocess.run([str(word) for word in command], capture_output=True, text=True))

    refused = as_me("mount", place.at)
    told.check("what the table keeps to root", (refused.returncode != 0, mounts(place.at)), (True, []))
    done = as_me("mount", at)
    told.check("a user's mount", (done.returncode, done.stderr), (0, ""))
    told.check("its options", {"nosuid", "nodev", "noexec"} <= mounts(at)[0][0], True)
    told.check("its owner", as_user(ME, ME, [], lambda: (at / "file").write_text("mine")), 4)
    told.check("another", as_user(ME + 1, ME + 1, [], os.listdir, at), "EACCES")
    told.check("another's end of it", as_user(ME + 1, ME + 1, [], lambda: subprocess.run(["umount", at], capture_output=True).returncode) != 0, True)
    done = as_me("umount", at)
    told.check("a user's end of it", (done.returncode, done.stderr), (0, ""))
    told.wait(END_S, "the log is still there", lambda: sorted(os.listdir(lower.parent)) == ["at", "lower"])
    told.check("a user's file", (lower / "file").read_text(), "mine")


def main():
    with Place() as place:
        place.unmount()
        with installed():
            by_mount(place)
            by_table(place)
            by_user(place)
    told.ok("by mount(8), by a line of /etc/fstab, all of them, twice; read-only and back; by a user")


main()
