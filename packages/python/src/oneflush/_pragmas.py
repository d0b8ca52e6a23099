"""What a connection tells of itself."""

from __future__ import annotations

import json
import sqlite3
from typing import Any

from oneflush._errors import NotInUseError


def strategy(connection: Any) -> str | None:
    """Return the strategy that a connection is open with, such as `"eager"`.

    Where the strategy changes nothing now, the answer says why:
    `"eager (inactive: journal_mode=delete)"`. None: the connection is open without Oneflush, or
    its database is in memory. The connection is one of `sqlite3`, APSW, or a module like them.
    """
    return answer(connection, "oneflush_strategy")


def stats(connection: Any) -> dict[str, Any]:
    """Return what the database's connections in this process have done to its files.

    `files` counts reads, writes, bytes and syncs by kind of file; `commits` has their number and
    latency; under the strategy's name stands what it did. Times are nanoseconds. Raises
    `NotInUseError` where `strategy` returns None.
    """
    return _dictionary(connection, "oneflush_stats")


def checkpoint(connection: Any) -> dict[str, Any]:
    """Run a checkpoint now, as the background thread does.

    Returns `held_up` (a reader kept it from copying all), `wal_frames` and `copied_frames`. Raises
    `NotInUseError` where `strategy` returns None.
    """
    return _dictionary(connection, "oneflush_checkpoint")


def answer(connection: Any, pragma: str) -> str | None:
    """Return the first column of a PRAGMA's first row."""
    if isinstance(connection, sqlite3.Connection):
        # The class of the connection may have a cursor() of its own, and rows of its own kind.
        cursor: Any = sqlite3.Connection.cursor(connection)
        cursor.row_factory = None
    else:
        cursor = connection.cursor()
    # A driver takes the name of the column for a key of the row: here that is the whole answer.
    row = cursor.execute(f"PRAGMA {pragma}").fetchone()
    cursor.close()
    if row is None:
        return None
    (value,) = row
    # With text_factory=bytes.
    return value.decode() if isinstance(value, bytes) else str(value)


def _dictionary(connection: Any, pragma: str) -> dict[str, Any]:
    found = answer(connection, pragma)
    if found is None:
        raise NotInUseError(
            "this connection does not use Oneflush: its database is in memory, or it was opened "
            "before the extension was loaded or without vfs=oneflush"
        )
    dictionary: dict[str, Any] = json.loads(found)
    return dictionary
