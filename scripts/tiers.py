"""How often a test runs: with each change, or in the turn that scripts/tests.tsv names. Used by scripts/tests and scripts/guarantees."""

import collections
import pathlib

TABLE = pathlib.Path(__file__).with_name("tests.tsv")
# All tests of these crates are a turn's.
CRATES_OF_LABORATORY = {"flash", "fleet", "powercut"}

Line = collections.namedtuple("Line", "crate test runs seconds why")


def table():
    lines = [text.split("\t") for text in TABLE.read_text().splitlines()[1:]]
    return [Line(crate, test, runs, float(seconds), why) for crate, test, runs, seconds, why in lines]


def fits(line, crate, test):
    return line.crate == crate and (test + "::").startswith(line.test + "::")


def runs(lines, crate, test):
    """The most exact line decides."""
    usual = Line(crate, "", "laboratory" if crate in CRATES_OF_LABORATORY else "each", 0, "")
    return max((line for line in lines if fits(line, crate, test)), key=lambda line: len(line.test), default=usual).runs
