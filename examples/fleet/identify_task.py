"""What one Spark task does: identifies its traces by the program `oneflush`.

```
source, data set local   oneflush writes into the data set itself
one of them is not       traces are copied to a scratch folder, oneflush writes a data set there,
                         and publish.py puts its files into their places
```

A task may run twice, or die in its midst: the same trace gives the same files under the same names.
The program goes on after a trace that it cannot read, whose row says why. If the program itself
dies, each trace of that call is tried alone. The others are finished, and then the task fails, so
that Spark tries it again.
"""

from collections.abc import Iterator
import ctypes
from dataclasses import dataclass
import hashlib
import os
import signal
import subprocess
import tempfile
import time

import pyarrow.parquet as parquet
from pyspark import SparkFiles

import labels_file
from places import Trace, is_local, open_place
import publish

# One process for several small traces; a large trace has its own.
TRACES_A_CALL, BYTES_A_CALL = 64, 64 << 20
PR_SET_PDEATHSIG = 1
# An ID has so many digits of the trace's SHA-256, and of its device's.
ID_DIGITS, DEVICE_DIGITS = 16, 8
ROW = ["trace", "source", "transactions", "error"]


class TaskError(Exception):
    """Says which trace, and why."""


@dataclass(frozen=True)
class Job:
    program: str
    dataset: str
    arguments: tuple[str, ...]
    is_staged: bool


@dataclass(frozen=True)
class Found:
    source: str
    # Its ID.
    trace: str
    transactions: int
    error: str | None


@dataclass(frozen=True)
class Done:
    found: list[Found]
    began: float
    ended: float


def run(job: Job, traces: list[Trace]) -> Done:
    began = time.time()
    program = SparkFiles.get(job.program)
    os.chmod(program, 0o755)
    found: list[Found] = []
    dead: list[str] = []
    for call in calls(traces):
        # Spark removes this folder after the job, also if the task cannot.
        with tempfile.TemporaryDirectory(dir=SparkFiles.getRootDirectory()) as scratch:
            found += identify(job, program, call, scratch, dead)
    if dead:
        raise TaskError("; ".join(dead))
    return Done(found, began, time.time())


def calls(traces: list[Trace]) -> Iterator[list[Trace]]:
    some: list[Trace] = []
    for trace in traces:
        is_full = len(some) == TRACES_A_CALL or sum(t.bytes for t in some) > BYTES_A_CALL
        if is_full:
            yield some
            some = []
        some.append(trace)
    if some:
        yield some


def identify(job: Job, program: str, traces: list[Trace], scratch: str,
             dead: list[str]) -> list[Found]:
    """Those that end the program go to `dead`."""
    code, said, found = attempt(job, program, traces, scratch)
    if code >= 0:
        return found
    if len(traces) == 1:
        name = signal.Signals(-code).name
        dead.append(f"{traces[0].source}: oneflush was ended by {name} {said}".strip())
        return []
    found = []
    for trace in traces:
        with tempfile.TemporaryDirectory(dir=scratch) as alone:
            found += identify(job, program, [trace], alone, dead)
    return found


def attempt(job: Job, program: str, traces: list[Trace],
            scratch: str) -> tuple[int, str, list[Found]]:
    paths = [local_path(trace, job, scratch, number) for number, trace in enumerate(traces)]
    dataset = open_place(job.dataset)[1] if not job.is_staged else os.path.join(scratch, "dataset")
    labels = os.path.join(scratch, "labels.csv")
    labels_file.write(labels, [(path, trace.labels) for path, trace in zip(paths, traces)])
    words = [program, "identify", "--dataset", dataset, "--labels", labels, *job.arguments, *paths]
    code, said = call(words)
    if code < 0:
        return code, said, []
    if code not in (0, 1):
        raise TaskError(f"oneflush ended with {code}: {said}")
    rows = rows_of(dataset, traces, paths)
    lacking = [trace.source for trace, row in zip(traces, rows) if row is None]
    if lacking or (code == 1 and not any(row["error"] for row in rows)):
        raise TaskError(f"oneflush ended with {code}, and not all rows are there: {said}")
    if job.is_staged:
        sources = {row["trace"]: trace.source for row, trace in zip(rows, traces)}
        publish.put(dataset, sources, job.dataset)
    found = [Found(trace.source, row["trace"], row["transactions"], why(row["error"], path))
             for trace, row, path in zip(traces, rows, paths)]
    return code, said, found


def why(error: str | None, path: str) -> str | None:
    """Without the path, which may be the copy's."""
    return error and error.removeprefix(f"{path}: ")


def call(words: list[str]) -> tuple[int, str]:
    """Ctrl-C at a terminal is for the driver. The program ends with the task."""
    prctl = ctypes.CDLL(None).prctl
    try:
        done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, start_new_session=True,
                              preexec_fn=lambda: prctl(PR_SET_PDEATHSIG, signal.SIGKILL))
    except OSError as error:
        raise TaskError(f"{words[0]} cannot be run: {error}") from error
    lines = done.stderr.decode(errors="replace").strip().splitlines()
    return done.returncode, " ".join(lines[-5:])


def local_path(trace: Trace, job: Job, scratch: str, number: int) -> str:
    """Where the program finds the trace. A copy keeps its name, by which blktrace's are found."""
    if not job.is_staged:
        return trace.parts[0]
    filesystem = open_place(trace.source)[0]
    folder = os.path.join(scratch, str(number))
    os.mkdir(folder)
    for part in trace.parts:
        to = os.path.join(folder, os.path.basename(part))
        publish.fetch(filesystem, part, to)
    return os.path.join(folder, os.path.basename(trace.parts[0]))


def sha256(trace: Trace, path: str) -> str:
    hashed = hashlib.sha256()
    for part in trace.parts:
        with open(os.path.join(os.path.dirname(path), os.path.basename(part)), "rb") as file:
            while piece := file.read(1 << 20):
                hashed.update(piece)
    return hashed.hexdigest()


def rows_of(dataset: str, traces: list[Trace], paths: list[str]) -> list[dict | None]:
    """The rows that the program has written."""
    folder = os.path.join(dataset, "traces")
    listed: list[str] = []
    rows = []
    for trace, path in zip(traces, paths):
        begin, device = sha256(trace, path)[:ID_DIGITS], dict(trace.labels).get("device")
        if device is not None:
            end = hashlib.sha256(device.encode()).hexdigest()[:DEVICE_DIGITS]
            names = [f"{begin}-{end}.parquet"]
        else:
            # The recording may name a device itself.
            listed = listed or (os.listdir(folder) if os.path.isdir(folder) else [])
            names = [name for name in listed if name.startswith(begin)]
        rows.append(latest_row([os.path.join(folder, name) for name in names], path))
    return rows


def latest_row(names: list[str], path: str) -> dict | None:
    """Of a trace that is in two files, the row may tell the other one, which is as good."""
    there = sorted(filter(os.path.exists, names), key=os.path.getmtime, reverse=True)
    rows = [parquet.read_table(name, columns=ROW).to_pylist()[0] for name in there]
    return next((row for row in rows if row["source"] == path), next(iter(rows), None))


def is_staged(traces: list[str], dataset: str) -> bool:
    return not all(is_local(uri) for uri in [*traces, dataset])
