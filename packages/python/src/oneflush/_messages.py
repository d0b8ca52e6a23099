"""Oneflush's own messages: why it has refused an open.

SQLite tells a driver only "unable to open database file". The extension writes the reason to where
ONEFLUSH_LOG says. If the variable says nothing, the messages go to a file of this process in the
folder for temporary files, and the file goes with the process. A message is written at most once a
minute. So what was said in the last minute counts as well.
"""

from __future__ import annotations

import atexit
import contextlib
import datetime
import os
import re
import shutil
import tempfile
from typing import NamedTuple

VARIABLE = "ONEFLUSH_LOG"

_LINE = re.compile(r"^(\S+Z) oneflush\[(\d+)\]: (.*)$")
_READ_BYTES_MAX = 64 << 10
_FILE_BYTES_MAX = 1 << 20
_PAUSE = datetime.timedelta(seconds=61)
# Warnings: after these a database is open (docs/errors.md).
_WARNINGS = re.compile(r"\[OF-(12[2-5]|13[129]|20[1-5]|224|406)\]")
_SAID_AGAIN = re.compile(r" \(said \d+ more times before\)$")


class _Message(NamedTuple):
    time: datetime.datetime
    text: str


class _OwnFile:
    """The file that gets the messages where nobody has chosen another place."""

    def __init__(self) -> None:
        self.folder = ""
        self.made_by = 0

    def path(self) -> str | None:
        """Return the file's name. None: no folder can be made for it."""
        if not self.folder:
            try:
                self.folder = tempfile.mkdtemp(prefix="oneflush-python-")
            except OSError:
                return None
            self.made_by = os.getpid()
            atexit.register(self._remove)
        return os.path.join(self.folder, "messages")

    def keep(self) -> None:
        """Make the folder again if it was tidied away, and bound the file."""
        if not self.folder:
            return
        path = os.path.join(self.folder, "messages")
        try:
            if os.stat(path).st_size > _FILE_BYTES_MAX:
                os.truncate(path, 0)
        except OSError:
            # A folder of this name that is there is somebody else's, or has no message yet.
            with contextlib.suppress(OSError):
                os.mkdir(self.folder, 0o700)
                self.made_by = os.getpid()

    def _remove(self) -> None:
        # A forked child ends too, and its parent goes on.
        if os.getpid() == self.made_by:
            shutil.rmtree(self.folder, ignore_errors=True)


_own = _OwnFile()


def variables() -> dict[str, str]:
    """Return what the environment lacks while the extension is loaded."""
    path = None if os.environ.get(VARIABLE) else _own.path()
    return {} if path is None else {VARIABLE: path}


def _place() -> str | None:
    """Return the file that has the messages. None: they are not in a file."""
    chosen = os.environ.get(VARIABLE)
    if not chosen:
        return _own.path() if _own.folder else None
    is_word = chosen.lower() in ("off", "stderr", "syslog")
    return None if is_word else chosen


def messages() -> list[str]:
    """Return the messages of this process, the oldest first.

    A message says what happened, to which file, why, and the way out. Its code, such as
    `[OF-107]`, stands in the documentation of errors. The list is empty where ONEFLUSH_LOG sends
    the messages to standard error or to the system's log.
    """
    return [message.text for message in _read()]


def _read(start: int = 0) -> list[_Message]:
    place = _place()
    if place is None:
        return []
    try:
        with open(place, "rb") as file:
            end = file.seek(0, os.SEEK_END)
            file.seek(max(start, end - _READ_BYTES_MAX))
            lines = file.read().decode(errors="replace").splitlines()
    except OSError:
        return []
    found = filter(None, map(_LINE.match, lines))
    return [
        _Message(
            datetime.datetime.strptime(line[1], "%Y-%m-%dT%H:%M:%S.%fZ"),
            _SAID_AGAIN.sub("", line[3]),
        )
        for line in found
        if int(line[2]) == os.getpid()
    ]


def mark() -> int:
    """Return where the messages that come now will begin."""
    _own.keep()
    place = _place()
    try:
        return os.stat(place).st_size if place else 0
    except OSError:
        return 0


def reason(database: bytes, start: int) -> str | None:
    """Return why the open of this database was refused, as far as messages say it.

    `database` is the absolute name of the file, and `start` what `mark` said before the open.
    """
    name = _shown(database)

    def about(found: list[_Message]) -> list[_Message]:
        return [it for it in found if name in it.text and not _WARNINGS.search(it.text)]

    said = about(_read(start))
    if not said:
        earliest = datetime.datetime.now(datetime.timezone.utc).replace(tzinfo=None) - _PAUSE
        said = [message for message in about(_read()) if message.time >= earliest]
    return said[-1].text if said else None


def elsewhere() -> str:
    """Return where the reason is to be found, for a message that lacks it."""
    chosen = (os.environ.get(VARIABLE) or "").lower()
    if chosen == "stderr":
        return "Oneflush's reason, if it has one, is on standard error"
    if chosen == "syslog":
        return "Oneflush's reason, if it has one, is in the system's log"
    if chosen == "off":
        return "ONEFLUSH_LOG=off hides Oneflush's reason, if it has one"
    return ""


def _shown(database: bytes) -> str:
    """Return the name as the messages show it."""
    try:
        name = database.decode()
    except UnicodeDecodeError:
        return "(not UTF-8) "
    # A character that would end the line is escaped there. What stands before it has to do.
    return re.split(r"[\x00-\x1f\x7f-\x9f]", name)[0]
