"""Loads the extension into a SQLite. It stays loaded for as long as the process runs.

A process may contain several SQLites: that of the module `sqlite3`, APSW's own, and others. Each
has to load the extension, through a connection of its own. Each load reads ONEFLUSH_* anew, for
databases that are opened afterwards.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from oneflush import _messages
from oneflush._built import VERSION
from oneflush._errors import LoadError
from oneflush._options import Strategy, parameters
from oneflush._platform import library_path
from oneflush._uri import VFS

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from oneflush._options import Options

_lock = threading.RLock()
_is_in_sqlite3 = False

WITHOUT_LOADING = (
    "this {what} cannot load extensions; use another one (pip install apsw, or pip install "
    "pysqlite3) with oneflush.load, or start the program with: oneflush run -- python …"
)


def load(
    connection: Any,
    *,
    default: bool | None = None,
    strategy: Strategy | None = None,
    **options: Unpack[Options],
) -> None:
    """Load Oneflush into the SQLite of a connection: `sqlite3`, APSW, or a module like them.

    It serves databases that this SQLite opens *afterwards*, by `oneflush.uri`, or by any name with
    `default=True`. The connection itself goes on as before; one to `:memory:` will do. `strategy`
    and the options become the defaults of databases whose URI says nothing else. Extension loading
    is off again for the connection afterwards.
    """
    with _lock, _environment(_variables(default, strategy, options)):
        _load_through(connection, _library())


def enable(
    default: bool = True, strategy: Strategy | None = None, **options: Unpack[Options]
) -> None:
    """Load Oneflush into the SQLite of the module `sqlite3`, for libraries that open databases.

    With `default` every database that this process opens from here on goes through Oneflush, with
    this strategy and these options, unless its URI names another VFS. Connections that are open
    stay as they are. The journal mode is the library's: `plain` and `eager` want
    `PRAGMA journal_mode=WAL`, once for each database.
    """
    global _is_in_sqlite3
    with _lock, _environment(_variables(default, strategy, options)):
        _load_into_sqlite3(_library())
        _is_in_sqlite3 = True


def load_once() -> None:
    """Load Oneflush into the SQLite of the module `sqlite3`, if it is not there yet."""
    global _is_in_sqlite3
    if _is_in_sqlite3:
        return
    with _lock:
        # `oneflush run` may have loaded it, with options that are to stay.
        if not _is_in_sqlite3 and not _is_registered():
            with _environment(_variables(None, None, {})):
                _load_into_sqlite3(_library())
        _is_in_sqlite3 = True


def _variables(
    default: bool | None, strategy: str | None, options: Mapping[str, Any]
) -> dict[str, str]:
    given = parameters(strategy, options)
    variables = {f"ONEFLUSH_{name.upper()}": value for name, value in given.items()}
    if default is not None:
        variables["ONEFLUSH_DEFAULT"] = "1" if default else "0"
    return {**variables, **_messages.variables()}


@contextlib.contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _library() -> str:
    """Return the library to load: the copy that this process has already, else the package's.

    Two copies would put one VFS over the other.
    """
    own = library_path()
    for path in _mapped():
        if os.path.samefile(path, own):
            continue
        found = _version(path)
        if found != VERSION:
            raise LoadError(
                f"this process has loaded Oneflush {found} from {path}, and the package is "
                f"{VERSION}; start the program without the other one, or with the same version"
            )
        return path
    return own


def _mapped() -> list[str]:
    with open("/proc/self/maps", encoding=None, errors="surrogateescape") as maps:
        paths = {line.rstrip("\n").partition("/")[2] for line in maps if "/liboneflush.so" in line}
    return [f"/{path}" for path in sorted(paths) if os.path.isfile(f"/{path}")]


def _version(path: str) -> str:
    import ctypes

    version = ctypes.CDLL(path).oneflush_version
    version.restype = ctypes.c_char_p
    said: bytes = version()
    return said.decode()


def _load_through(connection: Any, path: str) -> None:
    allow = getattr(connection, "enable_load_extension", None)
    load_extension = getattr(connection, "load_extension", None)
    if allow is None or load_extension is None:
        if isinstance(connection, sqlite3.Connection):
            return _load_by_ctypes(path)
        if callable(getattr(connection, "cursor", None)):
            raise LoadError(WITHOUT_LOADING.format(what=f"{type(connection).__module__}"))
        raise TypeError(f"a connection of sqlite3 or apsw is wanted, not {type(connection)}")
    allow(True)
    try:
        load_extension(path)
    except Exception as error:
        # What the extension says has its name already.
        raise LoadError(f"{path}: {str(error).partition('oneflush: ')[2] or error}") from error
    finally:
        allow(False)


def _load_into_sqlite3(path: str) -> None:
    connection = sqlite3.connect(":memory:")
    try:
        _load_through(connection, path)
    finally:
        connection.close()


def _load_by_ctypes(path: str) -> None:
    """Load the extension for a module `sqlite3` that was built without `enable_load_extension`.

    The module lacks the method; the library that it links usually has the function.
    """
    what = "Python's module sqlite3"
    try:
        import _sqlite3
        import ctypes

        library = ctypes.CDLL(getattr(_sqlite3, "__file__", None))
        functions = [
            getattr(library, f"sqlite3_{name}")
            for name in ("open", "enable_load_extension", "load_extension", "free", "close")
        ]
    except (ImportError, OSError, AttributeError) as error:
        raise LoadError(WITHOUT_LOADING.format(what=what)) from error
    open_, allow, load_extension, free, close = functions
    database, message = ctypes.c_void_p(), ctypes.c_void_p()
    try:
        if open_(b":memory:", ctypes.byref(database)) or allow(database, 1):
            raise LoadError(WITHOUT_LOADING.format(what=what))
        if load_extension(database, os.fsencode(path), None, ctypes.byref(message)):
            said = ctypes.string_at(message.value or b"").decode(errors="replace")
            free(message)
            raise LoadError(f"{path}: {said.partition('oneflush: ')[2] or said}")
    finally:
        close(database)
    if not _is_registered():
        raise LoadError(WITHOUT_LOADING.format(what=what))


def _is_registered() -> bool:
    """Whether the SQLite of the module `sqlite3` has the VFS."""
    try:
        sqlite3.connect(f"file::memory:?vfs={VFS}", uri=True).close()
    except sqlite3.OperationalError:
        return False  # no such vfs: oneflush
    return True
