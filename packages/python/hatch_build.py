"""Says which platform a wheel is for: it has programs, and needs no particular Python."""

from __future__ import annotations

import os
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Platform(BuildHookInterface[Any]):
    """Takes the platform's tag from the environment, where `build` has put it."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Set the tag."""
        build_data["tag"] = f"py3-none-{os.environ['ONEFLUSH_WHEEL_TAG']}"
        build_data["pure_python"] = False
