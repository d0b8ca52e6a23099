"""What this package raises. Errors of an open are errors of `sqlite3` too."""

import sqlite3


class Error(Exception):
    """All errors of this package."""

    __module__ = "oneflush"


class LoadError(Error):
    """The extension cannot be loaded into this SQLite."""

    __module__ = "oneflush"


class PlatformError(LoadError):
    """The installed package is not whole, or is for another machine than this one."""

    __module__ = "oneflush"


class OptionError(Error, sqlite3.ProgrammingError, ValueError):
    """An option or its value is not known, or two of them contradict each other."""

    __module__ = "oneflush"


class JournalModeError(Error, sqlite3.OperationalError):
    """The database is in a journal mode in which the strategy changes nothing."""

    __module__ = "oneflush"


class NotInUseError(Error):
    """The connection does not use Oneflush, so it has nothing to tell."""

    __module__ = "oneflush"


class RecoveryError(Error):
    """`oneflush recover` has failed. The database and its log are as they were."""

    __module__ = "oneflush"
