"""dpkg: a small Debian is installed into a chroot inside the mount, checked, used, upgraded in place and taken away again.

dpkg syncs each file that it unpacks, and renames it over the old one. The same is done in a plain directory.
"""

import os
import pathlib
import shutil
import subprocess

import told
from place import Place, run
from tree import differences, tree

DEBS = pathlib.Path(__file__).resolve().parent.parent.parent / "build" / "files" / "debs"
# In an order in which each can be configured: what scripts need comes first.
BASE = ["gcc-12-base", "libc6", "libgcc-s1", "libcrypt1", "libpcre2-8-0", "libselinux1", "libattr1", "libacl1", "libgmp10", "liblzma5",
        "zlib1g", "libbz2-1.0", "libzstd1", "libmd0", "debianutils", "dash", "coreutils", "sed", "grep", "tar", "dpkg"]
if told.IS_LONG:
    BASE += ["libtinfo6", "bash", "perl-base", "diffutils"]
MORE = ["hello", "netbase"] + (["mawk", "gzip"] if told.IS_LONG else [])
# What names times, or is in no order.
VARIES = (b"var/log/", b"var/lib/dpkg/lock", b"var/cache/", b"etc/ld.so.cache", b"var/lib/dpkg/triggers/")


def download():
    DEBS.mkdir(parents=True, exist_ok=True)
    found = {}
    missing = [name for name in BASE + MORE if not list(DEBS.glob(f"{name}_*.deb"))]
    if missing:
        if shutil.which("apt-get") is None:
            told.skip("there is no apt-get")
        subprocess.run(["apt-get", "update", "-qq"], capture_output=True)
        got = subprocess.run(["apt-get", "download", "-qq", *missing], cwd=DEBS, capture_output=True, text=True)
        if got.returncode != 0:
            told.skip(f"packages cannot be had: {got.stderr.strip().splitlines()[-1]}")
    for name in BASE + MORE:
        found[name] = next(iter(sorted(DEBS.glob(f"{name}_*.deb"))), None)
        if found[name] is None:
            told.skip(f"there is no package {name}")
    return found


def prepare(root):
    """As debootstrap does: /bin and its like are links, and scripts find a shell before it is installed."""
    for folder in ("usr/bin", "usr/sbin", "usr/lib", "usr/lib64", "var/lib/dpkg/info", "var/lib/dpkg/updates", "etc", "tmp", "dev", "proc",
                   "root", "var/log"):
        (root / folder).mkdir(parents=True)
    for name in ("bin", "sbin", "lib", "lib64"):
        os.symlink(f"usr/{name}", root / name)
    for name in ("status", "available"):
        (root / "var/lib/dpkg" / name).touch()
    (root / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\n")
    (root / "etc/group").write_text("root:x:0:\nmail:x:8:\n")
    os.mknod(root / "dev/null", 0o20666, os.makedev(1, 3))
    os.chmod(root / "dev/null", 0o666)


def dpkg(root, *words):
    environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C", "SOURCE_DATE_EPOCH": "1"}
    return run("dpkg", f"--root={root}", "--force-depends", "--log=/dev/null", *words, env=environment)


def install(root, debs):
    prepare(root)
    for name in BASE:
        run("dpkg-deb", "-x", debs[name], root)
    if not os.path.lexists(root / "bin/sh"):
        os.symlink("dash", root / "bin/sh")
    dpkg(root, "--install", *(debs[name] for name in BASE))
    dpkg(root, "--unpack", *(debs[name] for name in MORE))
    dpkg(root, "--configure", "-a")
    seen = [run("chroot", root, "/usr/bin/hello"), run("chroot", root, "/bin/sh", "-c", "echo $(ls /usr/bin | wc -l) | sed s/^/n:/"),
            run("dpkg", f"--root={root}", "--verify"), run("dpkg", f"--root={root}", "--audit"),
            sorted(run("dpkg-query", f"--admindir={root}/var/lib/dpkg", "-W", "-f", "${Package} ${Status}\n").splitlines())]
    # Again over itself, and away.
    dpkg(root, "--install", debs["dpkg"], debs["hello"], debs["netbase"])
    dpkg(root, "--purge", "hello")
    seen += [run("dpkg", f"--root={root}", "--verify"), (root / "usr/bin/hello").exists(),
             sorted(os.listdir(root / "var/lib/dpkg/info"))]
    return seen + ([run("chroot", root, "/usr/bin/perl", "-e", "print 6*7")] if told.IS_LONG else [])


def left(root):
    return {name: seen for name, seen in tree(root, with_times=False).items() if not name.startswith(VARIES)}


def main():
    debs = download()
    with Place(mount=("--allow-other",)) as place:
        plain = install(place.control / "root", debs)
        ours = install(place.at / "root", debs)
        told.check("what dpkg and the chroot say", ours, plain)
        if found := differences(left(place.control / "root"), left(place.at / "root")):
            told.fail("what is installed, plain and mounted:\n" + "\n".join(found))
        stats = place.stats()
        files = len(left(place.at / "root"))
    told.ok(f"{len(debs)} packages into a chroot, {files} files as in a plain directory; again over itself, and one away; {stats['syncs']} syncs "
            f"in {stats['records']} records")


main()
