"""The options of an open, and what is checked before anything is opened.

SQLite looks the parameters of a URI up by name, so nobody would see a misspelt one.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, NamedTuple, TypedDict

from oneflush._built import VERSION
from oneflush._errors import OptionError

Strategy = Literal["auto", "stock", "plain", "eager", "waldio", "maw"]
"""How commits are made durable."""

JournalMode = Literal["keep", "wal", "delete", "truncate", "persist", "memory", "off"]
"""SQLite's journal mode; `keep` is the mode that the database has."""

Mode = Literal["ro", "rw", "rwc"]
"""For reading only, for reading and writing, and the same with a database that may be new."""


class Options(TypedDict, total=False):
    """The options that strategies have, beside their name.

    Sizes are bytes. What is left out is as the environment says (`ONEFLUSH_DURABILITY`, …), else
    the default.
    """

    durability: Literal["pragma", "full"] | None
    """`full`: every commit is durable, whatever `PRAGMA synchronous` says. Default `pragma`."""
    group_commit: bool | None
    """Whether commits may share a flush. Default True."""
    log_size: int | None
    """What the log of `eager` and `maw` may grow to: 1 MiB to 1 TiB. Default 64 MiB."""
    prealloc: int | None
    """By how much the WAL is extended ahead: 0 (not at all) to 1 GiB. Default 1 MiB."""
    keep_wal: bool | None
    """Whether the WAL of `plain` outlives the last close. Default True."""
    checkpoints: Literal["background", "sqlite"] | None
    """Who runs automatic checkpoints: a thread, or SQLite in a commit. Default `background`."""
    unsafe_ground: Literal["refuse", "allow"] | None
    """Whether file systems that do not keep what a sync promises are refused. Default `refuse`."""
    layout: Literal["embed", "pad512", "pad4k", "pad8k"] | None
    """How a new log of `waldio` aligns frames. Default `embed`."""
    sync: Literal["fs", "pd", "ns"] | None
    """What makes a commit of `waldio` durable; with `ns` nothing does. Default `fs`."""
    group: int | None
    """After how many frames `waldio` writes commits that it has acknowledged. Default 0: before."""
    interval: int | None
    """After how many milliseconds it does, at the latest: 1 to 1000. Default 2."""
    atomic: Literal["auto", "f2fs", "xfs", "log"] | None
    """What makes commits of `maw` atomic. Default `auto`."""


class _Kind(NamedTuple):
    """The values of one option."""

    allowed: str
    """For a message."""
    fits: Callable[[str], bool]


def _words(*words: str) -> _Kind:
    return _Kind(", ".join(words), lambda value: value.lower() in words)


def _number(allowed: str, least: int, most: int, unit: str = "") -> _Kind:
    def fits(value: str) -> bool:
        digits = re.fullmatch(rf"\+?([0-9]+)({unit})?", value)
        return digits is not None and least <= int(digits[1]) <= most

    return _Kind(allowed, fits)


STRATEGIES = _words("auto", "stock", "plain", "eager", "waldio", "maw")
JOURNAL_MODES = _words("keep", "wal", "delete", "truncate", "persist", "memory", "off")
MODES = _words("ro", "rw", "rwc")

# As the extension has them (crates/vfs/src/config.rs). A test holds both together.
OPTIONS: Mapping[str, _Kind] = {
    "durability": _words("pragma", "full"),
    "group_commit": _words("on", "off"),
    "log_size": _number(
        "a number of bytes from 1048576 (1 MiB) to 1099511627776 (1 TiB)", 1 << 20, 1 << 40
    ),
    "prealloc": _number("a number of bytes from 0 (none) to 1073741824 (1 GiB)", 0, 1 << 30),
    "keep_wal": _words("on", "off"),
    "checkpoints": _words("background", "sqlite"),
    "unsafe_ground": _words("refuse", "allow"),
    "layout": _words("embed", "pad512", "pad4k", "pad8k"),
    "sync": _words("fs", "pd", "ns"),
    "group": _number("a number of frames from 0 (off) to 1024", 0, 1024),
    "interval": _number("milliseconds from 1 to 1000, as in 2ms", 1, 1000, "ms"),
    "atomic": _words("auto", "f2fs", "xfs", "log"),
}


def parameters(strategy: str | None, options: Mapping[str, Any]) -> dict[str, str]:
    """Return the URI parameters for what was given, or raise `OptionError`.

    True is "on" and False is "off". What is None was not given.
    """
    given: dict[str, str] = {}
    if strategy is not None:
        given["strategy"] = checked("strategy", strategy, STRATEGIES)
    for name, value in options.items():
        if name not in OPTIONS:
            raise OptionError(_unknown(name, meant(name)))
        if value is not None:
            given[name] = checked(name, value, OPTIONS[name])
    return given


def checked(name: str, value: object, kind: _Kind) -> str:
    """Return the value as a word of that kind, or raise `OptionError`."""
    word = {True: "on", False: "off"}[value] if isinstance(value, bool) else str(value)
    if not kind.fits(word):
        raise OptionError(
            f'{name}: "{word}" is not known to Oneflush {VERSION}; allowed: {kind.allowed} [OF-401]'
        )
    return word.lower()


def refuse_misspelt(names: Iterable[str]) -> None:
    """Raise `OptionError` if one of the names is nearly that of an option."""
    for name in names:
        near = meant(name)
        if near is not None and near != name:
            raise OptionError(_unknown(name, near))


def meant(name: str) -> str | None:
    """Return the option with the nearest name. None: none is near."""
    near = difflib.get_close_matches(name, (*OPTIONS, "strategy", "journal_mode"), n=1, cutoff=0.75)
    return near[0] if near else None


def _unknown(name: str, near: str | None) -> str:
    way_out = f"did you mean {near}?" if near else f"there are {', '.join(OPTIONS)}"
    return f"option {name} is not known to Oneflush {VERSION}; {way_out} [OF-412]"
