"""SQLAlchemy 2 on Oneflush.

    from oneflush.sqlalchemy import create_engine

    engine = create_engine("sqlite:///app.db", strategy="eager")

Where only a URL is asked for: `sqlite+oneflush:///app.db?strategy=eager`, and for asyncio
`sqlite+oneflush_async:///app.db?strategy=eager`. All that `oneflush.connect` takes may stand in the
URL. Pools are those of SQLAlchemy for SQLite: a queue for a file, one connection for a database in
memory, which stays SQLite's own.

SQLite forbids a connection to go through a fork. So a connection to a file that a child finds in
its pool is put aside there, and the pool opens a new one. No transaction may be open at the fork.
"""

from __future__ import annotations

import functools
import os
from typing import TYPE_CHECKING, Any, cast

import sqlalchemy
import sqlalchemy.ext.asyncio
from sqlalchemy import event, exc
from sqlalchemy.dialects import registry
from sqlalchemy.dialects.sqlite.aiosqlite import SQLiteDialect_aiosqlite
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite
from sqlalchemy.engine import URL, Engine, make_url

import oneflush
from oneflush._connect import OWN_NAMES, checked_options

if TYPE_CHECKING:
    from sqlalchemy.engine.interfaces import ConnectArgsType, DBAPIConnection
    from sqlalchemy.ext.asyncio import AsyncEngine
    from sqlalchemy.pool import ConnectionPoolEntry, PoolProxiedConnection

# A package without its entry points, as in a copied folder, works too.
registry.register("sqlite.oneflush", __name__, "OneflushDialect")
registry.register("sqlite.oneflush_async", __name__, "OneflushAsyncDialect")

_of_parents: list[Any] = []
"""Connections of parent processes. They are kept, because their end would close them."""


def create_engine(
    url: str | URL, strategy: oneflush.Strategy | None = None, **arguments: Any
) -> Engine:
    """Make an engine whose connections are those of `oneflush.connect`.

    The URL is SQLite's: `sqlite:///app.db`. The options of strategies, `journal_mode` and `mode`
    are keyword arguments, and all others go to `sqlalchemy.create_engine`.
    """
    url = _url("oneflush", url, strategy, arguments)
    return sqlalchemy.create_engine(url, **arguments)


def create_async_engine(
    url: str | URL, strategy: oneflush.Strategy | None = None, **arguments: Any
) -> AsyncEngine:
    """Make the same for asyncio, with the package aiosqlite."""
    url = _url("oneflush_async", url, strategy, arguments)
    return sqlalchemy.ext.asyncio.create_async_engine(url, **arguments)


def _url(driver: str, given: str | URL, strategy: str | None, arguments: dict[str, Any]) -> URL:
    """Return the URL with the options, which are taken out of the arguments."""
    url = make_url(given)
    if url.get_backend_name() != "sqlite":
        raise exc.ArgumentError(f"Oneflush is for SQLite, and the URL is {url!r}")
    ours = {name: arguments.pop(name) for name in OWN_NAMES & arguments.keys()}
    if strategy is not None:
        ours["strategy"] = strategy
    words = {True: "on", False: "off"}
    query = {
        name: words[value] if isinstance(value, bool) else str(value)
        for name, value in ours.items()
        if value is not None
    }
    return url.set(drivername=f"sqlite+{driver}").update_query_dict(query)


class _OneflushArguments(SQLiteDialect_pysqlite):
    """What both dialects have in common."""

    supports_statement_cache = True

    def create_connect_args(self, url: URL) -> ConnectArgsType:
        """Return what `connect` takes: what the URL says to Oneflush goes with it."""
        # With uri=true all else in the query is SQLite's, and `mode` is known to it.
        names = OWN_NAMES - ({"mode"} if "uri" in url.query else set())
        ours = {name: value for name, value in url.query.items() if name in names}
        if ours.get("mode") == "memory":
            del ours["mode"]
        # Said when the engine is made, and not when a thread first wants a connection.
        checked_options(**ours)  # type: ignore[arg-type]
        arguments, options = super().create_connect_args(url.difference_update_query(ours))
        return arguments, {**options, **ours}

    @classmethod
    def engine_created(cls, engine: Engine) -> None:
        """Look out for forks."""
        super().engine_created(engine)
        # A child has a copy of a database in memory, and has to go on with that.
        if cls._is_url_file_db(engine.url):
            event.listen(engine, "connect", _note_process)
            event.listen(engine, "checkout", _replace_after_fork)


class OneflushDialect(_OneflushArguments):
    """`sqlite+oneflush`: the module `sqlite3` on Oneflush."""

    driver = "oneflush"
    supports_statement_cache = True

    def connect(self, *args: Any, **arguments: Any) -> DBAPIConnection:
        """Open the database."""
        connection: Any = oneflush.connect(*args, **arguments)
        return cast("DBAPIConnection", connection)


class OneflushAsyncDialect(_OneflushArguments, SQLiteDialect_aiosqlite):
    """`sqlite+oneflush_async`: the package aiosqlite on Oneflush."""

    driver = "oneflush_async"
    supports_statement_cache = True

    def connect(self, *args: Any, **arguments: Any) -> DBAPIConnection:
        """Open the database in a thread of its own."""
        return super().connect(*args, async_creator_fn=_connect_async, **arguments)


def _connect_async(*args: Any, **arguments: Any) -> Any:
    import aiosqlite

    connection = aiosqlite.Connection(functools.partial(oneflush.connect, *args, **arguments), 64)
    # Older versions are a thread themselves. It must not keep the process.
    thread: Any = getattr(connection, "_thread", connection)
    thread.daemon = True
    return connection


def _note_process(_: DBAPIConnection, record: ConnectionPoolEntry) -> None:
    record.info["oneflush_process"] = os.getpid()


def _replace_after_fork(
    connection: DBAPIConnection, record: ConnectionPoolEntry, proxy: PoolProxiedConnection
) -> None:
    if record.info["oneflush_process"] == os.getpid():
        return
    _of_parents.append(connection)
    record.dbapi_connection = proxy.dbapi_connection = None  # type: ignore[misc]
    raise exc.DisconnectionError("the connection was opened before a fork, by the parent process")
