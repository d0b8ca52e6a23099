"""Recordings of `app.py` for the example fleet, made once by `oneflush trace`.

Each is of a *kind*: a file system, a journal mode and a strategy. As root a recording has a scratch
file system of its own, in a mount namespace of its own. So it is always at `/srv/app`, and nothing
is left mounted, however the recording ends.
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
import hashlib
import os
from pathlib import Path
import shutil
import subprocess
import sys
import tempfile

HERE = Path(__file__).resolve().parent
MADE_WITH = [HERE / "app.py", HERE / "recordings.py"]
# What `oneflush run` is told, and SQLite's journal mode.
MODES = {
    "delete": ("--strategy stock", "DELETE"),
    "truncate": ("--strategy stock", "TRUNCATE"),
    "persist": ("--strategy stock", "PERSIST"),
    "wal": ("--strategy stock", "WAL"),
    "plain": ("--strategy plain", "WAL"),
    "eager": ("--strategy eager", "WAL"),
    "waldio": ("--strategy waldio", "WAL"),
    "maw": ("--strategy maw", "PERSIST"),
    "lsmvbt": ("--engine lsmvbt", "DELETE"),
}
BUILDS = {"A": "delete", "B": "eager"}
FILE_SYSTEMS = {"ext4": "-q -F", "xfs": "-q -f", "btrfs": "-q -f"}
SCRATCH_BYTES = 320 << 20

SECONDS = 3
MANY, FEW = "1000000", "60"

NAMESPACE = ["unshare", "--mount", "--propagation", "private", "sh", "-c"]
# $1 bytes and $2 path of the image, $3 file system, $4 options of its mkfs, $5 this program, $6 the
# recording, $7 its seconds; the rest: what runs meanwhile. It has been running for a second.
IN_A_NAMESPACE = """
set -e
truncate -s "$1" "$2"
mkfs.$3 $4 "$2" >&2
mount -t tmpfs none /srv
mkdir /srv/app
mount -o loop "$2" /srv/app
rm "$2"
oneflush=$5 recording=$6 seconds=$7
shift 7
"$@" &
trap 'kill $! 2>/dev/null' EXIT
sleep 1
"$oneflush" trace -o "$recording" --dir /srv/app --seconds "$seconds"
kill -0 $! 2>/dev/null || { echo "the program that is recorded ended too soon" >&2; exit 1; }
"""


# The rest: what runs.
CALLS_IN_A_NAMESPACE = """
set -e
mount -t tmpfs none /srv
mkdir /srv/app
exec "$@"
"""


@dataclass(frozen=True)
class Kind:
    """Without a file system: a trace of system calls, which needs no root."""
    file_system: str
    mode: str
    is_slow: bool = False


CALLS = Kind("", "delete")


class RecordingError(Exception):
    pass


def kinds(variants: int) -> list[tuple[Kind, int]]:
    """What can be recorded here, each with its seed."""
    if os.geteuid() != 0:
        print("recordings: without root only system calls are recorded", file=sys.stderr)
        return [(CALLS, 1)]
    found = [(Kind("ext4", mode, True), 1) for mode in BUILDS.values()]
    for file_system in FILE_SYSTEMS:
        if not shutil.which(f"mkfs.{file_system}"):
            print(f"recordings: no {file_system}: there is no mkfs.{file_system}", file=sys.stderr)
            continue
        for mode in BUILDS.values():
            found += [(Kind(file_system, mode), seed) for seed in range(1, variants + 1)]
    found += [(Kind("ext4", mode), 1) for mode in MODES if mode not in BUILDS.values()]
    return [*found, (CALLS, 1)]


def file_name(kind: Kind, seed: int) -> str:
    parts = [kind.file_system or "calls", kind.mode, "slow" if kind.is_slow else "", str(seed)]
    return "-".join(part for part in parts if part) + (".zst" if kind.file_system else ".txt")


def command(oneflush: Path, kind: Kind, seed: int, path: Path, folder: str) -> list[str]:
    program, app = str(oneflush), [sys.executable, str(HERE / "app.py")]
    options, journal_mode = MODES[kind.mode]
    if not kind.file_system:
        is_root = os.geteuid() == 0
        script = [*NAMESPACE, CALLS_IN_A_NAMESPACE, "sh"] if is_root else []
        calls = [*script, program, "trace", "--vfs", "-o", str(path), "--"]
        return [*calls, *app, "/srv/app" if is_root else folder, journal_mode, str(seed), FEW]
    meanwhile = [program, "run", *options.split(), "--"]
    meanwhile += [*app, "/srv/app", journal_mode, str(seed), MANY]
    meanwhile += ["--neighbour"] if kind.is_slow else []
    script = [*NAMESPACE, IN_A_NAMESPACE, "sh"]
    scratch = [str(SCRATCH_BYTES), f"{folder}/image"]
    scratch += [kind.file_system, FILE_SYSTEMS[kind.file_system]]
    return [*script, *scratch, program, str(path), str(SECONDS), *meanwhile]


def record(oneflush: Path, kind: Kind, seed: int, path: Path) -> None:
    environment = {name: value for name, value in os.environ.items()
                   if not name.startswith("ONEFLUSH_")}
    part = path.with_name(path.name + ".part")
    with tempfile.TemporaryDirectory(prefix="oneflush-fleet-") as folder:
        words = command(oneflush, kind, seed, part, folder)
        done = subprocess.run(words, capture_output=True, text=True, env=environment)
    if done.returncode != 0:
        last = "\n".join(done.stderr.strip().splitlines()[-8:])
        raise RecordingError(f"{path.name}: `{words[0]} …` ended with {done.returncode}: {last}")
    part.rename(path)


def make(oneflush: Path, folder: Path, variants: int,
         at_a_time: int) -> list[tuple[Kind, Path]]:
    """Those that are there already stay, unless what they are made with has changed."""
    folder.mkdir(parents=True, exist_ok=True)
    stamp, now = folder / "stamp", hashlib.sha256()
    for path in [*MADE_WITH, oneflush]:
        now.update(path.read_bytes())
    if not stamp.exists() or stamp.read_text() != now.hexdigest():
        for path in folder.iterdir():
            path.unlink()
        stamp.write_text(now.hexdigest())
    wanted = [(kind, seed, folder / file_name(kind, seed)) for kind, seed in kinds(variants)]
    missing = [one for one in wanted if not one[2].exists()]
    if missing:
        seconds = (len(missing) // at_a_time + 1) * (SECONDS + 4)
        print(f"recordings: {len(missing)}, some {seconds} s", file=sys.stderr)
    with ThreadPoolExecutor(at_a_time) as pool:
        running = [pool.submit(record, oneflush, *one) for one in missing]
        for future in running:
            future.result()
    return [(kind, path) for kind, _, path in wanted]
