"""Copies of trees: cp, tar, rsync, Python's shutil, from and to the mount. What arrives must be what was there, with its times."""

import os
import pathlib
import shutil
import stat
import subprocess

import told
from place import Place, run
from tree import differences, tree

# Part of Python, and so there.
SOURCE = pathlib.Path(os.__file__).parent
FILES_MAX = 120


def make(top):
    """Something of everything."""
    top.mkdir()
    copied = 0
    for folder, folders, files in os.walk(SOURCE):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        to = top / "usual" / os.path.relpath(folder, SOURCE)
        to.mkdir(parents=True, exist_ok=True)
        for name in sorted(files):
            path = os.path.join(folder, name)
            if os.path.isfile(path) and not os.path.islink(path) and copied < told.times(FILES_MAX):
                shutil.copy2(path, to / name)
                copied += 1
    odd = top / "odd"
    odd.mkdir()
    (odd / "empty").touch()
    with open(odd / "holes", "wb") as file:
        file.seek(5 << 20)
        file.write(b"behind a hole")
        file.truncate(20 << 20)
    for number in range(5):
        os.link(odd / "empty", odd / f"link {number}")
    os.symlink("empty", odd / "symlink")
    os.symlink("nowhere/at/all", odd / "dangling")
    os.mkfifo(odd / "pipe")
    os.mknod(odd / "device", stat.S_IFCHR | 0o600, os.makedev(1, 3))
    (odd / os.fsdecode(b"not \xff UTF-8")).write_text("name")
    (odd / "program").write_text("#!/bin/sh\n")
    os.chown(odd / "program", 12, 34)
    os.chmod(odd / "program", 0o6755)
    os.setxattr(odd / "program", "user.note", b"value")
    run("setfacl", "-m", "u:77:rw,g:88:r", odd / "holes")
    run("setfacl", "-d", "-m", "u:77:rwx", odd)
    for number, path in enumerate(sorted(odd.iterdir())):
        if path.is_dir():
            continue
        os.utime(path, ns=(10**18 + number, 10**18 + 123_456_789 * number), follow_symlinks=False)
    (top / "closed").mkdir(mode=0o700)
    (top / "closed" / "file").write_text("x")
    os.chmod(top / "closed", 0o500)


COPIES = {
    "cp": "cp -a {from_} {to}",
    "cp with holes": "cp -a --sparse=always {from_} {to}",
    "tar": "mkdir {to} && tar -C {from_} --xattrs --xattrs-include='*' --acls -cf - . | tar -C {to} --xattrs --xattrs-include='*' --acls -xpf -",
    "tar by a file": "tar -C {from_} --xattrs --xattrs-include='*' --acls -Scf {to}.tar . && mkdir {to} && "
                     "tar -C {to} --xattrs --xattrs-include='*' --acls -Sxpf {to}.tar && rm {to}.tar",
    "rsync": "rsync -aHAXS --numeric-ids --devices --specials {from_}/ {to}",
    "rsync in place": "mkdir -p {to}/odd && touch {to}/odd/empty && rsync -aHAX --inplace --numeric-ids {from_}/ {to}",
    "rsync again": "cp -r {from_}/usual {to}; rm -rf {to}; rsync -aHAX {from_}/ {to} && touch {to}/usual/extra && chmod 700 {to}/usual && "
                   "rsync -aHAX --delete --fsync {from_}/ {to}",
}


def main():
    count = 0
    with Place() as place:
        make(place.control / "tree")
        wanted = tree(place.control / "tree", numbers=False)
        # Into the mount, within it, and out of it.
        ways = [(place.control / "tree", place.at / "into"), (place.at / "into", place.at / "within"), (place.at / "within", place.control / "out")]
        for name, command in COPIES.items():
            for from_, to in ways:
                done = subprocess.run(["bash", "-o", "pipefail", "-c", command.format(from_=from_, to=to)], capture_output=True, text=True,
                                      errors="replace")
                told.check(f"{name} from {from_} to {to}: {(done.stdout + done.stderr)[-1000:]}", done.returncode, 0)
                if found := differences(wanted, tree(to, numbers=False)):
                    told.fail(f"{name} from {from_} to {to}:\n" + "\n".join(found))
                count += 1
            for _, to in ways:
                run("rm", "-rf", to)
        shutil.copytree(place.control / "tree" / "usual", place.at / "by Python", symlinks=True)
        if found := differences(tree(place.control / "tree" / "usual", False), tree(place.at / "by Python", False)):
            told.fail("shutil.copytree:\n" + "\n".join(found))
        run("diff", "-r", place.control / "tree" / "usual", place.at / "by Python")
        shutil.move(place.at / "by Python", place.at / "moved")
        files = len(wanted)
    told.ok(f"{count + 1} copies of {files} files by cp, tar, rsync and Python: all with contents, times, owners, modes, links, holes, "
            f"attributes and lists")


main()
