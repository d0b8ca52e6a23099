"""Puts the files of a scratch data set into one that is elsewhere, by pyarrow.fs.

The order is that of docs/dataset.md: a plan, a trace's transactions, its row in `traces`, and then
what an earlier run has left in other folders. So a task that dies can be repeated. Each file comes
under a hidden name and is moved to its place. An object store shows a file only when it is whole,
so there it is put at once.
"""

import os
import shutil
import tempfile
import uuid

import pyarrow as pa
from pyarrow import ArrowException, fs
import pyarrow.parquet as parquet

from places import is_object_store, open_place

MARKER = "oneflush-dataset.json"
# The folder of plans: the names of what comes and of what goes, a line each.
WRITING = ".writing"


def fetch(filesystem: fs.FileSystem, path: str, to: str) -> None:
    with (filesystem.open_input_stream(path, compression=None) as source,
          open(to, "wb") as copy):
        shutil.copyfileobj(source, copy, 1 << 20)


def put(scratch: str, sources: dict[str, str], dataset: str) -> None:
    """`sources`: of each trace's ID, what its row says in place of the copy's path."""
    filesystem, root = open_place(dataset)
    if filesystem.get_file_info(f"{root}/{MARKER}").type == fs.FileType.NotFound:
        put_file(filesystem, os.path.join(scratch, MARKER), f"{root}/{MARKER}")
    planned = filesystem.get_file_info(fs.FileSelector(f"{root}/{WRITING}", allow_not_found=True))
    for trace, source in sources.items():
        name = f"traces/{trace}.parquet"
        row = parquet.read_table(os.path.join(scratch, name))
        files = row["files"][0].as_py()
        plans = plans_left(filesystem, planned, trace)
        before = files_before(filesystem, root, trace).union(*plans.values())
        plan = f"{root}/{WRITING}/{trace}.{uuid.uuid4().hex}.plan"
        put_text(filesystem, scratch, "\n".join({*files, *before}), plan)
        for file in files:
            put_file(filesystem, os.path.join(scratch, file), f"{root}/{file}")
        with tempfile.NamedTemporaryFile(dir=scratch, prefix=".") as named:
            parquet.write_table(with_source(row, source), named.name, compression="zstd")
            put_file(filesystem, named.name, f"{root}/{name}")
        for file in before - set(files):
            remove(filesystem, f"{root}/{file}")
        for done in (*plans, plan):
            remove(filesystem, done)


def with_source(row: pa.Table, source: str) -> pa.Table:
    """The row says the trace's own name. So does its error."""
    path, error = row["source"][0].as_py(), row["error"][0].as_py()
    for name, text in (("source", source), ("error", error and error.replace(path, source))):
        place = row.schema.get_field_index(name)
        field = row.schema.field(place)
        row = row.set_column(place, field, pa.array([text], field.type))
    return row


def files_before(filesystem: fs.FileSystem, root: str, trace: str) -> set[str]:
    """Files in `transactions` that an earlier run of the trace has written."""
    path = f"{root}/traces/{trace}.parquet"
    if filesystem.get_file_info(path).type == fs.FileType.NotFound:
        return set()
    try:
        listed = parquet.read_table(path, columns=["files"], filesystem=filesystem)
        files = listed["files"][0].as_py()
    except ArrowException:
        # The row is damaged, and does not say it.
        selector = fs.FileSelector(f"{root}/transactions", recursive=True, allow_not_found=True)
        files = [info.path[len(root) + 1:] for info in filesystem.get_file_info(selector)]
    return of_trace(files, trace)


def plans_left(filesystem: fs.FileSystem, planned: list[fs.FileInfo],
               trace: str) -> dict[str, set[str]]:
    """Plans of writers of the trace that have not ended well, each with its files."""
    plans = {}
    for info in planned:
        if not (info.base_name.startswith(f"{trace}.") and info.base_name.endswith(".plan")):
            continue
        try:
            with filesystem.open_input_stream(info.path, compression=None) as plan:
                files = plan.read().decode(errors="replace").splitlines()
        except FileNotFoundError:
            # Its writer has ended well meanwhile.
            continue
        plans[info.path] = of_trace(files, trace)
    return plans


def of_trace(files: list[str], trace: str) -> set[str]:
    return {file for file in files
            if file.startswith("transactions/") and file.endswith(f"/{trace}.parquet")}


def put_text(filesystem: fs.FileSystem, scratch: str, text: str, to: str) -> None:
    with tempfile.NamedTemporaryFile("w", dir=scratch, prefix=".") as named:
        named.write(text)
        named.flush()
        put_file(filesystem, named.name, to)


def put_file(filesystem: fs.FileSystem, path: str, to: str) -> None:
    if is_object_store(filesystem):
        copy(filesystem, path, to)
        return
    folder, name = to.rsplit("/", 1)
    filesystem.create_dir(folder, recursive=True)
    hidden = f"{folder}/.{name}.{uuid.uuid4().hex}.part"
    try:
        copy(filesystem, path, hidden)
        if filesystem.type_name == "hdfs":
            # It moves to no name that is there.
            remove(filesystem, to)
        filesystem.move(hidden, to)
    except BaseException:
        remove(filesystem, hidden)
        raise


def copy(filesystem: fs.FileSystem, path: str, to: str) -> None:
    with open(path, "rb") as source, filesystem.open_output_stream(to, compression=None) as sink:
        shutil.copyfileobj(source, sink, 1 << 20)


def remove(filesystem: fs.FileSystem, path: str) -> None:
    """Somebody else may have done it."""
    if filesystem.get_file_info(path).type != fs.FileType.NotFound:
        filesystem.delete_file(path)
