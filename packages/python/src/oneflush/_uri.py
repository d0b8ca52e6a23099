"""Database files as URIs that SQLite opens through Oneflush."""

from __future__ import annotations

import os
import urllib.parse
from collections.abc import Mapping
from typing import TYPE_CHECKING, Union

from oneflush._errors import OptionError
from oneflush._options import MODES, Mode, Strategy, checked, parameters

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from oneflush._options import Options

Database = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]

VFS = "oneflush"


def uri(
    database: Database,
    strategy: Strategy | None = None,
    *,
    mode: Mode | None = None,
    **options: Unpack[Options],
) -> str:
    """Return the URI by which any driver opens a database file through Oneflush.

    The driver's SQLite must have loaded the extension (`load`), and must take URIs: `uri=True` for
    `sqlite3` and aiosqlite, `SQLITE_OPEN_URI` for APSW. The name may have any character. The
    journal mode is the program's own business here; `connect` takes care of it.
    """
    return uri_of_file(os.fsencode(database), file_parameters(strategy, mode, options))


def file_parameters(
    strategy: str | None, mode: str | None, options: Mapping[str, object]
) -> dict[str, str]:
    """Return the checked parameters of a URI."""
    given = {"vfs": VFS, **parameters(strategy, options)}
    if mode is not None:
        given["mode"] = checked("mode", mode, MODES)
    return given


def uri_of_file(name: bytes, given: Mapping[str, str]) -> str:
    """Return the URI of the file with this name, with these parameters."""
    if b"\0" in name:
        raise ValueError("the name of a database has no null byte")
    # With an authority, which is empty: a path may begin with two slashes.
    authority = "//" if name.startswith(b"/") else ""
    return f"file:{authority}{urllib.parse.quote(name)}?{urllib.parse.urlencode(given)}"


def uri_of_uri(given_uri: str, given: Mapping[str, str]) -> str:
    """Return the caller's own URI, with these parameters added."""
    beginning, _, _ = given_uri.partition("#")
    query = parameters_of(beginning)
    for name, value in given.items():
        if query.get(name, value) != value:
            raise OptionError(
                f"{given_uri}: the URI says {name}={query[name]}, and {name}={value} was asked "
                f"for; leave one of them out"
            )
    added = urllib.parse.urlencode({name: given[name] for name in given if name not in query})
    joint = "&" if "?" in beginning else "?"
    return f"{beginning}{joint}{added}" if added else beginning


def parameters_of(given_uri: str) -> dict[str, str]:
    """Return the parameters of a URI. As with SQLite the first of a name counts."""
    query = given_uri.partition("#")[0].partition("?")[2]
    # SQLite takes a plus sign for itself.
    pairs = [pair.partition("=")[::2] for pair in query.split("&") if pair]
    unquote = urllib.parse.unquote
    return {unquote(name): unquote(value) for name, value in reversed(pairs)}


def file_of_uri(given_uri: str) -> bytes:
    """Return the name of the file that a URI names. Empty: a temporary database."""
    path = given_uri[len("file:") :].partition("#")[0].partition("?")[0]
    if path.startswith("//"):
        path = "/" + path[2:].partition("/")[2]
    return urllib.parse.unquote_to_bytes(path)
