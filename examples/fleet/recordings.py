"""Recordings for the example fleet: made once by `oneflush trace` and `oneflush bench`.

Each is of a *kind*: of `app.py` on a file system and with a build, or of a laboratory. As root a
recording of `app.py` has a scratch file system of its own, in a mount namespace of its own. So it
is always at `/srv/app`, and nothing is left mounted, however the recording ends.
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
import os
from pathlib import Path
import shutil
import subprocess
import sys
import tempfile

HERE = Path(__file__).resolve().parent
MADE_WITH = [HERE / "app.py", HERE / "recordings.py"]
STRATEGIES = {"A": "stock", "B": "eager"}
FILE_SYSTEMS = {"ext4": "-q -F", "xfs": "-q -f", "btrfs": "-q -f"}
SCRATCH_BYTES = 320 << 20
BENCH_MODES = "delete,truncate,persist,wal,wal:plain,wal:eager,wal:waldio,persist:maw,lsmvbt"
AT_A_TIME = 3

SECONDS = 3
MANY, FEW = "1000000", "60"

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
trap 'kill $!' EXIT
sleep 1
"$oneflush" trace -o "$recording" --dir /srv/app --seconds "$seconds"
kill -0 $!
"""


@dataclass(frozen=True)
class Kind:
    name: str
    file_system: str = ""
    build: str = ""
    is_slow: bool = False


class RecordingError(Exception):
    pass


def kinds(variants: int) -> list[tuple[Kind, int]]:
    """What is recorded here, each with its seed."""
    found = [(Kind("calls", build="A"), 1)]
    if os.geteuid() != 0:
        print("recordings: without root only system calls are recorded", file=sys.stderr)
        return found
    found.append((Kind("bench", "ext4"), 1))
    for file_system in FILE_SYSTEMS:
        if not shutil.which(f"mkfs.{file_system}"):
            print(f"recordings: no {file_system}: there is no mkfs.{file_system}", file=sys.stderr)
            continue
        for build in STRATEGIES:
            kind = Kind("app", file_system, build)
            found += [(kind, seed) for seed in range(1, variants + 1)]
    found.append((Kind("app", "ext4", "A", True), 1))
    found.append((Kind("app", "ext4", "B", True), 1))
    return found


def file_name(kind: Kind, seed: int) -> str:
    parts = [kind.name, kind.file_system, kind.build, "slow" if kind.is_slow else "", str(seed)]
    return "-".join(part for part in parts if part) + (".txt" if kind.name == "calls" else ".zst")


def command(oneflush: Path, kind: Kind, seed: int, path: Path, folder: str) -> list[str]:
    program = str(oneflush)
    if kind.name == "bench":
        return [program, "bench", "--modes", BENCH_MODES, "--txns", "60", "--rounds", "1",
                "--floor-writes", "10", "--keep-trace", str(path)]
    app = [sys.executable, str(HERE / "app.py")]
    if kind.name == "calls":
        calls = [program, "trace", "--vfs", "-o", str(path), "--"]
        return [*calls, *app, folder, kind.build, str(seed), FEW]
    meanwhile = [program, "run", "--strategy", STRATEGIES[kind.build], "--"]
    meanwhile += [*app, "/srv/app", kind.build, str(seed), MANY]
    meanwhile += ["--neighbour"] if kind.is_slow else []
    script = ["unshare", "--mount", "--propagation", "private", "sh", "-c", IN_A_NAMESPACE, "sh"]
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
        last = "\n".join(done.stderr.strip().splitlines()[-5:])
        raise RecordingError(f"{path.name}: `{words[0]} …` ended with {done.returncode}: {last}")
    part.rename(path)


def make(oneflush: Path, folder: Path, variants: int) -> list[tuple[Kind, Path]]:
    """Those that are there already stay, unless what they are made with has changed."""
    folder.mkdir(parents=True, exist_ok=True)
    stamp, now = folder / "stamp", b"".join(path.read_bytes() for path in MADE_WITH)
    if not stamp.exists() or stamp.read_bytes() != now:
        for path in folder.iterdir():
            path.unlink()
        stamp.write_bytes(now)
    wanted = [(kind, seed, folder / file_name(kind, seed)) for kind, seed in kinds(variants)]
    missing = [one for one in wanted if not one[2].exists()]
    if missing:
        print(f"recordings: {len(missing)}, some {len(missing) * 2 + 12} s", file=sys.stderr)
    benches = [one for one in missing if one[0].name == "bench"]
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        running = [pool.submit(record, oneflush, *one) for one in missing if one not in benches]
        for future in running:
            future.result()
    # The benchmark measures, so it runs alone.
    for one in benches:
        record(oneflush, *one)
    return [(kind, path) for kind, _, path in wanted]
