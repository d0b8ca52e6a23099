"""Identifies the SQLite transactions of many traces by Spark, into a data set (docs/dataset.md).

    spark-submit [--master local[2,4]] examples/fleet/spark_identify.py --oneflush PATH
        --traces URI… --dataset URI [--labels URI] [--by device,day] [--begin TIME]

The program `oneflush` is sent along with the job. Traces and data set may be local folders that all
workers see, or at hdfs: or s3a:. Tasks may run twice, and the job may be repeated: the rows are the
same. `local[2]` does not repeat a task that fails; `local[2,4]` tries it four times.

Exit codes: 0 done, 1 a trace could not be read or the job failed, 2 wrong usage, 130 Ctrl-C.
"""

import argparse
from concurrent.futures import ThreadPoolExecutor
from functools import partial
import heapq
import json
import os
from pathlib import Path
import re
import sys
import threading
import time

from py4j.protocol import Py4JError
from pyarrow import ArrowException, fs
import pyarrow.parquet as parquet
from pyspark import SparkContext
from pyspark.errors import PySparkException

import identify_task
import labels_file
import places
from places import PlaceError, Trace
import publish
from session import quiet_session

MODULES = [identify_task, labels_file, places, publish]
# So many for each task that runs at a time. The last ones are then short.
PARTITIONS_A_SLOT = 4
READERS = 16
PYTHON_ERROR = re.compile(r"^((?!org\.|java\.|py4j\.)[\w.]+(?:Error|Exception): .*)$", re.M)
GO_ON = "the same command with --only-new does the rest"
# An application may have several jobs at once, and Spark's driver takes one file at a time.
SENDING = threading.Lock()


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="spark_identify", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--oneflush", type=Path, required=True, metavar="PATH",
                        help="the program, for the processor of the workers")
    parser.add_argument("--traces", action="append", required=True, metavar="URI",
                        help="a trace, or a folder with traces; can be given several times")
    parser.add_argument("--dataset", required=True, metavar="URI")
    parser.add_argument("--labels", metavar="URI", help="CSV as of oneflush identify --labels")
    parser.add_argument("--by", metavar="NAMES", help="as of oneflush identify --by")
    parser.add_argument("--begin", metavar="TIME", help="as of oneflush identify --begin")
    parser.add_argument("--only-new", action="store_true",
                        help="leave out traces whose row is there with the same source and size, "
                             "also if it says an error")
    parser.add_argument("--partitions", type=int, metavar="N",
                        help=f"default: {PARTITIONS_A_SLOT} for each task at a time")
    parser.add_argument("--stage", action="store_true",
                        help="copy traces to the workers first, also local ones")
    options = parser.parse_args(arguments)
    if not os.access(options.oneflush, os.X_OK) or options.oneflush.is_dir():
        parser.error(f"--oneflush: {options.oneflush} is no program; name the file `oneflush`")
    if options.partitions is not None and options.partitions < 1:
        parser.error("--partitions: give 1 or more")
    options.traces = [places.absolute(uri) for uri in options.traces]
    options.dataset = places.absolute(options.dataset)
    options.labels = options.labels and places.absolute(options.labels)
    return options


def listed(options: argparse.Namespace) -> list[Trace]:
    """Each trace once, with its labels."""
    by_source = {trace.source: trace for uri in options.traces for trace in places.list_traces(uri)}
    traces = list(by_source.values())
    if options.only_new:
        known = known_traces(options.dataset)
        traces = [trace for trace in traces if (trace.source, trace.bytes) not in known]
    if options.labels is None:
        return traces
    labels = labels_file.read(options.labels)
    return [labels.of(trace) for trace in traces]


def known_traces(dataset: str) -> set[tuple[str, int]]:
    """Source and size of each. One whose row is damaged is not known."""
    filesystem, root = places.open_place(dataset)
    selector = fs.FileSelector(f"{root}/traces", allow_not_found=True)
    paths = [info.path for info in filesystem.get_file_info(selector)
             if info.path.endswith(".parquet") and not info.base_name.startswith(".")]

    def known(path: str) -> list[tuple[str, int]]:
        columns = ["source", "source_bytes"]
        try:
            rows = parquet.read_table(path, columns=columns, filesystem=filesystem).to_pylist()
        except ArrowException:
            return []
        return [(row["source"], row["source_bytes"]) for row in rows]

    with ThreadPoolExecutor(READERS) as pool:
        return {pair for pairs in pool.map(known, paths) for pair in pairs}


def divided_by(options: argparse.Namespace) -> str | None:
    """The first run of a data set decides. A scratch data set must be told."""
    filesystem, root = places.open_place(options.dataset)
    marker = f"{root}/{publish.MARKER}"
    if filesystem.get_file_info(marker).type == fs.FileType.NotFound:
        return options.by
    with filesystem.open_input_stream(marker) as stream:
        there = ",".join(json.loads(stream.read())["by"])
    if options.by not in (None, there):
        raise PlaceError(f"--by {options.by}: {options.dataset} is divided by {there}; leave --by "
                         "out, or name another data set")
    return there


def balanced(traces: list[Trace], count: int) -> list[list[Trace]]:
    """The largest first, each to the partition that has least."""
    heap: list[tuple[int, int, list[Trace]]] = [(0, number, []) for number in range(count)]
    for trace in sorted(traces, key=lambda trace: (-trace.bytes, trace.source)):
        total, number, some = heapq.heappop(heap)
        some.append(trace)
        heapq.heappush(heap, (total + trace.bytes, number, some))
    return [some for _, _, some in sorted(heap, key=lambda part: part[1]) if some]


def run(context: SparkContext, options: argparse.Namespace, by: str | None,
        traces: list[Trace]) -> list[identify_task.Done]:
    with SENDING:
        context.addFile(str(options.oneflush.resolve()))
        for module in MODULES:
            context.addPyFile(module.__file__)
    arguments = ["--by", by] if by else []
    arguments += ["--begin", options.begin] if options.begin else []
    job = identify_task.Job(
        options.oneflush.resolve().name, options.dataset, tuple(arguments),
        options.stage or identify_task.is_staged(options.traces, options.dataset))
    partitions = balanced(traces, options.partitions
                          or context.defaultParallelism * PARTITIONS_A_SLOT)
    megabytes = sum(trace.bytes for trace in traces) / 1e6
    print(f"spark_identify: {len(traces)} traces, {megabytes:,.1f} MB, "
          f"{len(partitions)} partitions", flush=True)
    if not partitions:
        return []
    rdd = context.parallelize(partitions, len(partitions))
    return rdd.map(partial(identify_task.run, job)).collect()


def reason(error: Exception) -> str:
    """What the task said, without Java's and Python's stacks."""
    said = re.search(r"TaskError: (.*)", str(error)) or PYTHON_ERROR.search(str(error))
    lines = [line for line in str(error).splitlines() if line.strip()]
    return said[1] if said else lines[0] if lines else repr(error)


def main(arguments: list[str]) -> int:
    began = time.time()
    options = parse(arguments)
    try:
        traces = listed(options)
        by = divided_by(options)
    except PlaceError as error:
        print(f"spark_identify: {error}", file=sys.stderr)
        return 2
    try:
        done = run(quiet_session("oneflush identify").sparkContext, options, by, traces)
    except (Py4JError, PySparkException) as error:
        print(f"spark_identify: the job failed: {reason(error)}; {GO_ON}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"spark_identify: stopped; {GO_ON}", file=sys.stderr)
        return 130
    tell(done, time.time() - began)
    return 1 if any(one.error for task in done for one in task.found) else 0


def tell(done: list[identify_task.Done], seconds: float) -> None:
    found = sorted((one for task in done for one in task.found), key=lambda one: one.source)
    unreadable = [one for one in found if one.error]
    for one in unreadable:
        print(f"{one.source}: {one.error}")
    by_id = {one.trace: one for one in found}
    if twice := len(found) - len(by_id):
        print(f"spark_identify: {twice} files hold the trace of another file and its device, and "
              "do not count; labels can name other devices")
    in_tasks = (max(task.ended for task in done) - min(task.began for task in done)) if done else 0
    print(f"spark_identify: {len(by_id)} traces, "
          f"{sum(one.transactions for one in by_id.values()):,} transactions, {len(unreadable)} "
          f"could not be read, {seconds:.1f} s, from the first task to the last {in_tasks:.1f} s")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
