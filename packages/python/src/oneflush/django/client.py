"""`manage.py dbshell`: the sqlite3 shell, with the database open through Oneflush."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from django.db.backends.sqlite3 import client

from oneflush._platform import program_path


class DatabaseClient(client.DatabaseClient):
    """`oneflush shell`, which takes the options of `sqlite3`."""

    @classmethod
    def settings_to_cmd_args_env(
        cls, settings_dict: dict[str, Any], parameters: Iterable[str]
    ) -> tuple[list[str], None]:
        """Return the command. Nothing is new in its environment."""
        name = os.fspath(settings_dict["NAME"])
        if name == ":memory:" or name.startswith("file:"):
            return super().settings_to_cmd_args_env(settings_dict, parameters)
        strategy = settings_dict.get("OPTIONS", {}).get("strategy")
        chosen = [] if strategy is None else ["--strategy", strategy]
        return [program_path(), "shell", *chosen, name, *parameters], None
