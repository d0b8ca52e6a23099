"""fsx, the file system exerciser: random reads, writes, cuts, maps, holes and copies, each checked against a model of the file.

With a small threshold some syncs go to the log and some to the lower, as with large files. What the seeds do repeats.
"""

import os
import subprocess
import threading

import told
from crates import crate
from place import Place

WEIGHTS = """
[weights]
close_open = 2
read = 10
write = 12
mapread = 10
mapwrite = 10
invalidate = %(invalidate)s
truncate = 6
fsync = 3
fdatasync = 3
posix_fallocate = %(allocates)s
punch_hole = 3
sendfile = 3
posix_fadvise = 3
copy_file_range = %(copies)s
"""
# The exerciser itself fails where what it rounds is nothing: so nothing is short there, or it allocates no space.
KINDS = {
    "small": "flen = 65536\n[opsize]\nmin = 1\nmax = 9000\n" + WEIGHTS % {"invalidate": 1, "copies": 2, "allocates": 2},
    "usual": "flen = 1048576\n[opsize]\nmin = 1\nmax = 70000\n" + WEIGHTS % {"invalidate": 1, "copies": 2, "allocates": 2},
    "large": "flen = 33554432\n[opsize]\nmin = 1\nmax = 1500000\n" + WEIGHTS % {"invalidate": 0, "copies": 1, "allocates": 1},
    "aligned": "flen = 1048576\n[opsize]\nmax = 65536\nalign = 4096\n" + WEIGHTS % {"invalidate": 1, "copies": 4, "allocates": 0},
}
OPERATIONS = {"small": 3000, "usual": 2500, "large": 200, "aligned": 2000}
FILES = 2


def exercise(program, folder, kind, seed, failures):
    configuration = folder.parent / f"fsx-{kind}.toml"
    file = folder / f"{kind}-{seed}"
    command = [program, "-q", "-q", "-f", configuration, "-N", told.times(OPERATIONS[kind]), "-S", seed, "-P", folder.parent, file]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode != 0:
        failures.append(f"{' '.join(map(str, command))}:\n{(done.stdout + done.stderr)[-3000:]}")


def all_at_once(program, folder, seed):
    failures = []
    threads = [threading.Thread(target=exercise, args=(program, folder, kind, seed + number, failures))
               for kind in KINDS for number in range(FILES)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return failures


def main():
    program = crate("fsx")
    with Place(mount=("--allow-other", "--threshold", "50000", "--log-size", "16M")) as place:
        for kind, text in KINDS.items():
            for folder in (place.folder, place.fs):
                (folder / f"fsx-{kind}.toml").write_text(text)
        # The control says whether the exerciser itself is sound here.
        if failures := all_at_once(program, place.control, told.SEED):
            told.fail(f"in a plain directory: {failures[0]}")
        if failures := all_at_once(program, place.at, told.SEED):
            told.fail(f"{len(failures)} of {len(KINDS) * FILES} files: {failures[0]}")
        stats = place.stats()
        names = os.listdir(place.at)
        told.check("what is there", len(names), len(KINDS) * FILES)
        for name in names:
            told.check(f"the bytes of {name}", (place.at / name).read_bytes(), (place.control / name).read_bytes())
    done = FILES * sum(told.times(operations) for operations in OPERATIONS.values())
    told.ok(f"{done} operations on {len(names)} files at once, {stats['syncs']} syncs, {stats['settled']} of them by the lower")


main()
