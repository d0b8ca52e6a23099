"""The package checks options before an open. The extension has the last word, so both are held
together here: by a plain URI, which the package has not checked."""

import sqlite3
import urllib.parse

import pytest

import oneflush
from oneflush._options import OPTIONS, STRATEGIES

BAD = {"log_size": "64M", "prealloc": "1073741825", "group": "1025", "interval": "0ms"}
GOOD = {
    "durability": ["pragma", "full", "FULL"],
    "group_commit": [True, False, "on"],
    "log_size": [1 << 20, 1 << 40, "+1048576"],
    "prealloc": [0, 1 << 30],
    "keep_wal": [True, False, "off"],
    "checkpoints": ["background", "sqlite"],
    "unsafe_ground": ["refuse", "allow"],
    "layout": ["embed", "pad512", "pad4k", "pad8k"],
    "sync": ["fs", "pd"],
    "group": [0, 1024],
    "interval": [1, 1000, "2ms"],
    "atomic": ["auto", "log"],
}


def of_the_extension(name, value):
    """What the extension says of a parameter."""
    oneflush.enable(default=False)
    file = f"{name}-{value}.db".replace("/", "-")
    query = urllib.parse.urlencode({"vfs": "oneflush", name: value})
    before = len(oneflush.messages())
    with pytest.raises(sqlite3.OperationalError):
        sqlite3.connect(f"file:{file}?{query}", uri=True)
    (said,) = oneflush.messages()[before:]
    return said.partition("URI parameter ")[2]


@pytest.mark.parametrize("name", ["strategy", *OPTIONS])
def test_a_bad_value_is_refused_in_the_extensions_own_words(name):
    for value in (BAD.get(name, "nonsense"), "", "-1"):
        with pytest.raises(oneflush.OptionError) as refused:
            oneflush.connect("never.db", **{name: value})
        assert str(refused.value) == of_the_extension(name, value)


@pytest.mark.parametrize("name", OPTIONS)
def test_every_good_value_is_one_for_the_extension_too(name):
    for value in GOOD[name]:
        options = {name: value}
        strategy = {"sync": "waldio", "layout": "waldio", "atomic": "maw"}.get(name, "eager")
        # pad512 is not possible on every device: for that only the word is of interest.
        try:
            oneflush.connect("app.db", strategy, **options).close()
        except sqlite3.OperationalError as refused:
            assert (name, value) == ("layout", "pad512"), refused
            assert "[OF-140]" in str(refused)


def test_no_option_of_the_extension_is_missing(python):
    # A misspelt variable is said with the one that was meant: so the extension names its options.
    for name in OPTIONS:
        code = """
            import oneflush
            oneflush.enable(default=False)
            print(*oneflush.messages())
        """
        variable = f"ONEFLUSH_{name.upper()}"
        assert f"did you mean {variable}?" in python(code, **{f"{variable}X": "1"}).stdout
    assert STRATEGIES.allowed in of_the_extension("strategy", "fast")


def test_a_misspelt_option_is_said_with_the_one_that_was_meant():
    for wrong, meant in (("prealoc", "prealloc"), ("durabilty", "durability")):
        for call in (oneflush.connect, oneflush.uri):
            with pytest.raises(oneflush.OptionError, match=rf"did you mean {meant}\?"):
                call("app.db", "plain", **{wrong: 1})
        with pytest.raises(oneflush.OptionError, match=rf"did you mean {meant}\?"):
            oneflush.enable(**{wrong: 1})
    with pytest.raises(oneflush.OptionError, match="there are durability, group_commit"):
        oneflush.uri("app.db", colour="red")
    with pytest.raises(TypeError, match="colour"):
        oneflush.connect("app.db", colour="red")


def test_one_except_clause_catches_all_that_an_open_raises():
    assert issubclass(oneflush.OptionError, (sqlite3.Error, ValueError))
    assert issubclass(oneflush.JournalModeError, sqlite3.OperationalError)
    for name in ("OptionError", "JournalModeError", "LoadError", "RecoveryError"):
        assert issubclass(getattr(oneflush, name), oneflush.Error)
