"""Oneflush: durable SQLite commits for one aligned write and one flush.

    import oneflush

    db = oneflush.connect("app.db", strategy="eager")

`connect` gives a `sqlite3.Connection`. `load` serves other drivers, and `enable` libraries that
open databases themselves. SQLAlchemy: `oneflush.sqlalchemy`. Django: `"ENGINE": "oneflush.django"`.
"""

try:
    from oneflush._built import VERSION as __version__
except ModuleNotFoundError as error:
    # The source of a checkout: what the build writes, and the extension, are not here.
    raise ImportError(
        "oneflush is imported from its source, without the extension; `make wheel` in the clone "
        "makes a wheel in some minutes, and says the pip install line for it"
    ) from error
from oneflush._connect import connect
from oneflush._errors import (
    Error,
    JournalModeError,
    LoadError,
    NotInUseError,
    OptionError,
    PlatformError,
    RecoveryError,
)
from oneflush._load import enable, load
from oneflush._messages import messages
from oneflush._options import JournalMode, Mode, Options, Strategy
from oneflush._platform import library_path, program_path
from oneflush._pragmas import checkpoint, stats, strategy
from oneflush._program import recover
from oneflush._uri import uri

__all__ = [
    "Error",
    "JournalMode",
    "JournalModeError",
    "LoadError",
    "Mode",
    "NotInUseError",
    "OptionError",
    "Options",
    "PlatformError",
    "RecoveryError",
    "Strategy",
    "__version__",
    "checkpoint",
    "connect",
    "enable",
    "library_path",
    "load",
    "messages",
    "program_path",
    "recover",
    "stats",
    "strategy",
    "uri",
]
