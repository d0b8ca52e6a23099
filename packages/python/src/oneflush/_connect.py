"""`connect`: a `sqlite3.Connection` that is open through Oneflush.

The journal mode is part of the open, because a strategy changes nothing in the wrong one:

| database | `journal_mode` not given | given |
|---|---|---|
| new | the mode that the strategy works in | that one |
| in such a mode | stays | that one |
| in another, strategy named | `JournalModeError` | that one |
| in another, strategy `auto` | stays | that one |

For a database that is there the mode is a property of the file, and of all programs that use it.
So it is changed only where the caller says so.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar, overload

from oneflush import _messages
from oneflush._errors import Error, JournalModeError, OptionError
from oneflush._load import load_once
from oneflush._options import (
    JOURNAL_MODES,
    STRATEGIES,
    JournalMode,
    Mode,
    Options,
    Strategy,
    checked,
    refuse_misspelt,
)
from oneflush._pragmas import answer
from oneflush._uri import (
    VFS,
    Database,
    file_of_uri,
    file_parameters,
    parameters_of,
    uri_of_file,
    uri_of_uri,
)

if TYPE_CHECKING:
    from typing_extensions import Unpack

C = TypeVar("C", bound=sqlite3.Connection)

WAL_MODES = frozenset({"wal"})
ROLLBACK_MODES = frozenset({"delete", "truncate", "persist"})

# What `connect` takes beside the arguments of `sqlite3.connect`.
OWN_NAMES = frozenset({"strategy", "journal_mode", "mode", *Options.__annotations__})

_TIMEOUT_SECONDS = 5.0
_RETRY_SECONDS = 0.01


class _Arguments(Options, total=False):
    """The options, and the arguments of `sqlite3.connect`."""

    timeout: float
    detect_types: int
    isolation_level: str | None
    check_same_thread: bool
    cached_statements: int
    uri: bool
    autocommit: bool | int


@overload
def connect(
    database: Database,
    strategy: Strategy | None = None,
    *,
    journal_mode: JournalMode | None = None,
    mode: Mode | None = None,
    **arguments: Unpack[_Arguments],
) -> sqlite3.Connection: ...


@overload
def connect(
    database: Database,
    strategy: Strategy | None = None,
    *,
    factory: Callable[..., C],
    journal_mode: JournalMode | None = None,
    mode: Mode | None = None,
    **arguments: Unpack[_Arguments],
) -> C: ...


def connect(
    database: Database,
    strategy: Strategy | None = None,
    *,
    journal_mode: JournalMode | None = None,
    mode: Mode | None = None,
    **arguments: Any,
) -> sqlite3.Connection:
    """Open a database through Oneflush, and return a `sqlite3.Connection`.

    `strategy` is `plain`, `eager`, `waldio`, `maw`, `stock` or `auto`. None is what
    `oneflush.enable` or ONEFLUSH_STRATEGY says, else `auto`, which always leaves plain SQLite
    files: `plain` in WAL mode. The options of strategies are keyword arguments (`Options`:
    `durability="full"`, `log_size`, …). All others go to `sqlite3.connect`: `timeout`,
    `isolation_level`, `check_same_thread`, `factory`, `uri` and so on.

    `journal_mode`: a new database gets the mode that the strategy works in. That is WAL, and DELETE
    with `maw`. An existing database keeps its own. If the strategy that was named changes nothing
    in that mode, `JournalModeError` says so. `journal_mode="wal"` then changes the database, for
    all programs. `"keep"` takes any database as it is.

    `mode="ro"` opens for reading only; `"rw"` opens no new database. `":memory:"` and `""` give
    SQLite's own databases in memory, without a strategy.

    An open that is refused raises an exception of `sqlite3`, whose message has Oneflush's reason
    and a code such as `[OF-107]`.
    """
    options = {name: arguments.pop(name) for name in OWN_NAMES & arguments.keys()}
    # What remains is for sqlite3, which knows best what it takes.
    refuse_misspelt(arguments)
    is_uri = arguments.get("uri", False)
    timeout = arguments.get("timeout", _TIMEOUT_SECONDS)
    opening = Opening(database, strategy, journal_mode, mode, options, is_uri, timeout)
    if opening.uri is not None:
        load_once()
        database, arguments["uri"] = opening.uri, True
    with opening.explaining():
        connection: sqlite3.Connection = sqlite3.connect(database, **arguments)
        try:
            opening.settle(connection)
        except BaseException:
            connection.close()
            raise
    return connection


def checked_options(
    strategy: str | None = None,
    journal_mode: str | None = None,
    mode: str | None = None,
    **options: Any,
) -> dict[str, str]:
    """Return the parameters of the URI, or raise `OptionError`."""
    if journal_mode is not None:
        checked("journal_mode", journal_mode, JOURNAL_MODES)
    return file_parameters(strategy, mode, options)


class Opening:
    """What was asked for in one open. Nothing is opened before it is found to make sense."""

    def __init__(
        self,
        database: Database,
        strategy: str | None,
        journal_mode: str | None,
        mode: str | None,
        options: Mapping[str, Any],
        is_uri: bool,
        timeout: float,
    ) -> None:
        """`is_uri`: a database that begins with `file:` is a URI."""
        parameters = checked_options(strategy, journal_mode, mode, **options)
        self.journal_mode = journal_mode and journal_mode.lower()
        self.timeout = timeout
        name = os.fsencode(database)
        if is_uri and name.startswith(b"file:"):
            given = os.fsdecode(name)
            query = parameters_of(given)
            if query.get("vfs", VFS) != VFS:
                raise OptionError(
                    f"{given}: the URI says vfs={query['vfs']}, and Oneflush is a VFS itself; "
                    f"leave it out"
                )
            if "strategy" in query:
                checked("strategy", query["strategy"], STRATEGIES)
            name = file_of_uri(given)
            is_in_memory = query.get("mode") == "memory" or name in (b"", b":memory:")
            self.uri = None if is_in_memory else uri_of_uri(given, parameters)
            is_immutable = query.get("immutable", "0") != "0"
            self.is_read_only = is_immutable or "ro" in (mode, query.get("mode"))
            strategy = strategy or query.get("strategy")
        else:
            self.uri = None if name in (b"", b":memory:") else uri_of_file(name, parameters)
            self.is_read_only = mode == "ro"
        self.name = name
        # `auto` may change nothing, and nobody minds.
        self.is_named = strategy is not None and strategy.lower() != "auto"

    @property
    def shown(self) -> str:
        """The name of the database, for a message."""
        return os.fsdecode(self.name).encode(errors="backslashreplace").decode()

    @contextlib.contextmanager
    def explaining(self) -> Iterator[None]:
        """Add Oneflush's reason to what SQLite says of a refused open."""
        if self.uri is None:
            yield
            return
        start = _messages.mark()
        try:
            yield
        except Error:
            raise
        except sqlite3.Error as error:
            reason = _messages.reason(os.path.realpath(self.name), start)
            if reason is None:
                reason = "; ".join(filter(None, (self.shown, _messages.elsewhere())))
            error.args = (f"{error}: {reason}", *error.args[1:])
            raise

    def settle(self, connection: sqlite3.Connection) -> None:
        """See to the journal mode, and to a refusal that comes with the first read."""
        if self.uri is None:
            return
        with _outside_a_transaction(connection):
            # In this order: another process may be making the database, with its mode, just now.
            is_new = answer(connection, "page_count") == "0"
            mode = answer(connection, "journal_mode") or ""
            strategy = (answer(connection, "oneflush_strategy") or "").partition(" ")[0]
            wanted = self._wanted(is_new, strategy, mode)
            if wanted is not None:
                self._set(connection, wanted)

    def _wanted(self, is_new: bool, strategy: str, mode: str) -> str | None:
        """Return the mode that the database is to get. None: it stays as it is."""
        if self.journal_mode is not None:
            return None if self.journal_mode in ("keep", mode) else self.journal_mode
        works_in = {"stock": {mode}, "maw": ROLLBACK_MODES}.get(strategy, WAL_MODES)
        if mode in works_in or self.is_read_only:
            return None
        best = "delete" if strategy == "maw" else "wal"
        if is_new:
            return best
        # Somebody has named `eager` and others, here or by `enable` or in the environment.
        if self.is_named or strategy != "plain":
            raise JournalModeError(
                f"{self.shown} is in journal_mode={mode}, in which strategy {strategy} changes "
                f'nothing; journal_mode="{best}" changes the database to it, for all programs that '
                f'use it, and journal_mode="keep" opens it as it is'
            )
        return None

    def _set(self, connection: sqlite3.Connection, mode: str) -> None:
        """Change the journal mode. Another process may be doing the same."""
        deadline = time.monotonic() + self.timeout
        while True:
            refused: sqlite3.OperationalError | None = None
            try:
                found = answer(connection, f"journal_mode={mode}")
            except sqlite3.OperationalError as error:
                if "locked" not in str(error):
                    raise
                refused, found = error, None
            if found == mode:
                return
            if time.monotonic() >= deadline:
                raise JournalModeError(
                    f"{self.shown}: the journal mode cannot be changed to {mode} now: "
                    f"{refused or f'it stays {found}'}; close the database in other programs, or "
                    f'open it with journal_mode="keep"'
                ) from refused
            time.sleep(_RETRY_SECONDS)


@contextlib.contextmanager
def _outside_a_transaction(connection: Any) -> Iterator[None]:
    """With `autocommit=False` (Python 3.12) there is always a transaction."""
    if getattr(connection, "autocommit", None) is not False:
        yield
        return
    connection.autocommit = True
    try:
        yield
    finally:
        connection.autocommit = False
