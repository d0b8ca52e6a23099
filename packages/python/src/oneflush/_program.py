"""The program `oneflush` that is in the package."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import Any, NoReturn

from oneflush._errors import PlatformError, RecoveryError
from oneflush._platform import program_path
from oneflush._uri import Database


def main() -> NoReturn:
    """Become the program, with the arguments of this process."""
    try:
        program = program_path()
    except PlatformError as error:
        sys.exit(f"oneflush: {error}")
    # What Python has changed for itself would go on to the program, and on to what that starts.
    for name in ("SIGPIPE", "SIGXFSZ"):
        signal.signal(getattr(signal, name), signal.SIG_DFL)
    environment = dict(os.environ)
    if "LC_CTYPE" in environment and not _began_with(b"LC_CTYPE="):
        del environment["LC_CTYPE"]  # PEP 538: in the locale C.
    try:
        os.execve(program, ["oneflush", *sys.argv[1:]], environment)
    except OSError as error:
        sys.exit(f"oneflush: {program}: {error.strerror}; may it be executed? (chmod +x)")


def _began_with(variable: bytes) -> bool:
    with open("/proc/self/environ", "rb") as environment:
        return any(line.startswith(variable) for line in environment.read().split(b"\0"))


def recover(
    database: Database, *, dry_run: bool = False, accept_loss: bool = False
) -> dict[str, Any]:
    """Leave one plain database file, after a kill or a crash with `eager`, `waldio` or `maw`.

    The next open through Oneflush does the same, so this is for going back to SQLite alone. With
    `dry_run` nothing is changed. `accept_loss` is for a log that is lost or damaged: everything is
    copied aside first, and what can be kept is kept. Returns what `oneflush recover --json` says,
    `recovered` among it. Raises `RecoveryError` with the reason and the way out.
    """
    flags = ["--dry-run"] * dry_run + ["--accept-loss"] * accept_loss
    command = [program_path(), "recover", "--json", *flags, "--", os.fsdecode(database)]
    ended = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    if ended.returncode != 0:
        said = ended.stderr.decode(errors="replace").strip()
        raise RecoveryError(said.partition("oneflush: ")[2] or said)
    report: dict[str, Any] = json.loads(ended.stdout)
    return report
