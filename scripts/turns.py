#!/usr/bin/env python3
"""turns [--table | --check PAGE]: the stages of CI that take turns, those of this commit, in one line. --table: how often each has its
turn. --check: whether the page has that table between its marks.

CI runs what `make test` runs and the lints, and of the rest as much as fits into SECONDS_MAX. The rest is packed into lots: each stage
is in one, and what room is left takes those that are in the fewest. A commit draws its lot by the seed of random tests (scripts/seed),
so a run can be repeated: ONEFLUSH_TEST_SEED=N scripts/turns.

Invariants:
1. Each stage is in some lot, so none is never run.
2. No lot is longer than SECONDS_MAX by the times below, which are of a machine with two processors.
"""

import pathlib
import subprocess
import sys

SECONDS_MAX = 20 * 60
# What the others of a lot stand on: the program with the laboratory, and what the extension is loaded from.
FIRST = ("built-all", 150)
# Seconds, and what it proves.
STAGES = {
    "slow": (240, "tests of the crates that take longer: failing disks, soaks, whole trials, estimates"),
    "laboratory": (60, "papers, fleets, emulated flash, guests' plans: the laboratory's own tests"),
    "states": (120, "200,000 states of the crash simulator, all strategies and engines"),
    "model": (180, "turns, the group flush, a shared log and closing in many orders of threads"),
    "tsan": (270, "races, by ThreadSanitizer"),
    "all-clients": (600, "drivers in five languages, recipes, versions of the crate's dependents"),
    "compat": (420, "stock SQLite, Litestream, backups, kills, full disks beside ours"),
    "files-turn": (240, "POSIX suites and programs through `oneflush mount`"),
    "fleet": (150, "a fleet by Spark and DuckDB"),
    "bare": (540, "packages where no compiler is"),
    "guest": (330, "F2FS in a guest, and power cuts of one strategy on one file system"),
    "suite-subset": (600, "SQLite's own tests, whole with one strategy"),
    "papers": (60, "the papers' short form"),
    "demo": (200, "SQLite beside both strategies, as the README has it"),
    "targets": (200, "the workspace compiles for aarch64 and i686; licences"),
}


def lots():
    """The longest first, each into the first lot with room; then what room is left takes those that are in the fewest."""
    room = SECONDS_MAX - FIRST[1]
    found = []
    for name in sorted(STAGES, key=lambda name: -STAGES[name][0]):
        fits = next((lot for lot in found if seconds(lot) + STAGES[name][0] <= room), None)
        if fits is None:
            found.append(fits := [])
        fits.append(name)
    while True:
        count = lambda name: sum(name in lot for lot in found)
        more = [(count(name), -STAGES[name][0], at, name) for at, lot in enumerate(found) for name in STAGES
                if name not in lot and seconds(lot) + STAGES[name][0] <= room]
        if not more:
            return found
        _, _, at, name = min(more)
        found[at].append(name)


def table(found):
    lines = ["| turn | in merges, on average once in | proves |", "|---|---:|---|"]
    for name, (_, proves) in STAGES.items():
        lines.append(f"| `make {name}` | {len(found) / sum(name in lot for lot in found):.2g} | {proves} |")
    return "\n".join(lines)


def seconds(lot):
    return sum(STAGES[name][0] for name in lot)


def main():
    found = lots()
    if sys.argv[1:] == ["--table"]:
        print(table(found))
        return 0
    if sys.argv[1:2] == ["--check"] and len(sys.argv) == 3:
        page = pathlib.Path(sys.argv[2])
        _, _, rest = page.read_text().partition("<!-- turns -->\n")
        said, mark, _ = rest.partition("<!-- /turns -->")
        if mark and said.strip() == table(found):
            return 0
        print(f"{page}: the table of turns is another one; `scripts/turns.py --table` prints it", file=sys.stderr)
        return 1
    if sys.argv[1:]:
        print(__doc__.splitlines()[0], file=sys.stderr)
        return 2
    seed = subprocess.run([pathlib.Path(__file__).with_name("seed")], check=True, capture_output=True, text=True)
    lot = found[int(seed.stdout) % len(found)]
    print(FIRST[0], *(name for name in STAGES if name in lot))
    return 0


if __name__ == "__main__":
    sys.exit(main())
