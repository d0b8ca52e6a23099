"""Files in folders and object stores, by pyarrow.fs, with the names that Spark has for them."""

from dataclasses import dataclass
import os
import re
from urllib.parse import urlsplit

from pyarrow import fs

OBJECT_STORES = ("s3", "gcs", "abfs")
# The files of one recording by blktrace, one a processor.
OF_ONE_TRACE = re.compile(r"(?P<stem>.+\.blktrace)\.(?P<number>\d+)")


class PlaceError(Exception):
    """Says which option or file is wrong, and the way out."""


@dataclass(frozen=True)
class Trace:
    # A local path, or a URI.
    source: str
    bytes: int
    # Paths in its file system: of blktrace's several files all, else one.
    parts: tuple[str, ...]
    # What a labels file says of it, with `begin`.
    labels: tuple[tuple[str, str], ...] = ()


def is_local(uri: str) -> bool:
    return urlsplit(uri).scheme in ("", "file")


def absolute(uri: str) -> str:
    """Workers have other current directories. A name without a scheme is a local path."""
    return os.path.abspath(uri) if urlsplit(uri).scheme == "" else uri


def open_place(uri: str) -> tuple[fs.FileSystem, str]:
    """The file system, and the path in it."""
    if uri.startswith(("s3a://", "s3n://")):
        uri = "s3" + uri[3:]
    try:
        return fs.FileSystem.from_uri(uri)
    except (OSError, ValueError) as error:
        raise PlaceError(f"{uri}: {error}; name a local folder, or file:, hdfs: or s3a:") from error


def is_object_store(filesystem: fs.FileSystem) -> bool:
    base = filesystem.base_fs if isinstance(filesystem, fs.SubTreeFileSystem) else filesystem
    return base.type_name in OBJECT_STORES


def is_part_of_it(path: str, folder: str) -> bool:
    """Neither it nor a folder that it is in has a name that says: not yet, or not for you."""
    names = path[len(folder):].strip("/").split("/")
    return not any(name.startswith(".") for name in names) and not path.endswith(".part")


def list_traces(uri: str) -> list[Trace]:
    filesystem, folder = open_place(uri)
    found = filesystem.get_file_info(folder)
    if found.type == fs.FileType.NotFound:
        raise PlaceError(f"--traces: there is no {uri}")
    if found.type == fs.FileType.File:
        files = [found]
    else:
        inside = filesystem.get_file_info(fs.FileSelector(folder, recursive=True))
        files = [info for info in inside
                 if info.type == fs.FileType.File and is_part_of_it(info.path, folder)]
    return group(files, prefix(uri, folder))


def prefix(uri: str, folder: str) -> str:
    """What stands before a path in the file system to make it a name for people."""
    if is_local(uri):
        return ""
    return uri[:uri.rindex(folder)] if folder in uri else uri.split("://")[0] + "://"


def group(files: list[fs.FileInfo], before: str) -> list[Trace]:
    alone, together = [], {}
    for info in sorted(files, key=lambda info: info.path):
        if match := OF_ONE_TRACE.fullmatch(info.path):
            together.setdefault(match["stem"], []).append((int(match["number"]), info))
        else:
            alone.append(Trace(before + info.path, info.size, (info.path,)))
    for parts in together.values():
        infos = [info for _, info in sorted(parts, key=lambda part: part[0])]
        paths = tuple(info.path for info in infos)
        alone.append(Trace(before + paths[0], sum(info.size for info in infos), paths))
    return alone
