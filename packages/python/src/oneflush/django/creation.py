"""Databases for tests.

In memory they are as Django makes them. A file that is in use has commits in its WAL or log. So a
copy for a worker is made by SQLite's backup, and what lies beside a file goes with it.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from typing import Any

from django.db.backends.sqlite3 import creation

# Names of files beside a database (docs/choose.md, "Go back").
_BESIDE = ("-journal", "-wal", "-shm", "-oneflush-kept")
_BESIDE_LOGS = ("-oneflush", "-oneflush-wal", "-oneflush-shm", "-waldio", "-maw")


class DatabaseCreation(creation.DatabaseCreation):
    """Makes, clones and removes databases for tests."""

    def _create_test_db(self, verbosity: int, autoclobber: bool, keepdb: bool = False) -> str:
        name: str = super()._create_test_db(verbosity, autoclobber, keepdb)  # type: ignore[misc]
        if not keepdb and not os.path.exists(name):
            self._remove_beside(name)
        return name

    def _clone_test_db(self, suffix: str, verbosity: int, keepdb: bool = False) -> None:
        source = self.connection.settings_dict["NAME"]
        target: Any = self.get_test_db_clone_settings(suffix)["NAME"]
        if self.is_in_memory_db(source):
            super()._clone_test_db(suffix, verbosity, keepdb)  # type: ignore[misc]
            return
        if keepdb and os.path.exists(target):
            return
        with contextlib.suppress(FileNotFoundError):
            os.remove(target)
        self._remove_beside(target)
        self.connection.ensure_connection()
        copy = sqlite3.connect(target)
        try:
            self.connection.connection.backup(copy)
        finally:
            copy.close()

    def _destroy_test_db(self, test_database_name: str, verbosity: int) -> None:
        super()._destroy_test_db(test_database_name, verbosity)  # type: ignore[misc]
        self._remove_beside(test_database_name)

    def _remove_beside(self, name: str) -> None:
        """Remove what lies beside a database for tests that is gone."""
        if not name or self.is_in_memory_db(name):
            return
        for suffix in (*_BESIDE, *_BESIDE_LOGS):
            with contextlib.suppress(FileNotFoundError):
                os.remove(f"{name}{suffix}")
