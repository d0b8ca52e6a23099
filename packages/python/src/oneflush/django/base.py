"""The engine: Django's own for SQLite, whose connections are open through Oneflush."""

from __future__ import annotations

import sqlite3
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.db.backends.sqlite3 import base

from oneflush._connect import OWN_NAMES, Opening
from oneflush._errors import OptionError
from oneflush._load import load_once
from oneflush.django.client import DatabaseClient
from oneflush.django.creation import DatabaseCreation


class DatabaseWrapper(base.DatabaseWrapper):
    """A database of DATABASES."""

    client_class = DatabaseClient
    creation_class = DatabaseCreation
    opening: Opening

    def get_connection_params(self) -> dict[str, Any]:
        """Return the arguments for `sqlite3.connect`, with a URI that names Oneflush."""
        arguments: dict[str, Any] = super().get_connection_params()
        ours = {name: arguments.pop(name) for name in OWN_NAMES & arguments.keys()}
        fixed = {name: ours.pop(name, None) for name in ("strategy", "journal_mode", "mode")}
        try:
            self.opening = Opening(
                arguments["database"],
                options=ours,
                is_uri=True,
                timeout=arguments.get("timeout", 5.0),
                **fixed,
            )
        except OptionError as error:
            raise ImproperlyConfigured(f"DATABASES[{self.alias!r}]['OPTIONS']: {error}") from error
        if self.opening.uri is not None:
            arguments["database"] = self.opening.uri
        return arguments

    def get_new_connection(self, conn_params: dict[str, Any]) -> sqlite3.Connection:
        """Open the database."""
        if self.opening.uri is not None:
            load_once()
        with self.opening.explaining():
            connection: sqlite3.Connection = super().get_new_connection(conn_params)
            try:
                self.opening.settle(connection)
            except BaseException:
                connection.close()
                raise
        return connection
