"""What counts as different from the baseline: fewer or more tests, or an error that is not known.

The baseline has numbers only: how many tests each file has and how many of them fail on stock SQLite. What a
strategy changes on purpose is in differs-with-STRATEGY.txt, by the names of the tests, so that every other failure in
the same file still counts. Each line there names the options of Oneflush that make its tests pass; with these set in the
environment the line is not in force, so that its reason can be put to the test.
"""

import collections
import fnmatch
import functools
import os
import re

# Files that let one call after the other fail have as many tests as there are calls. The number of reads and writes
# moves with each change of ours at an open (`do_ioerr_test`). The number of allocations hangs on the layout of the heap: stock SQLite itself gives up to 1 % more or fewer from one working directory to
# the next (e_fts3: 86,336 to 87,090).
INJECTS_FAULTS = re.compile(r"malloc_common\.tcl|fts3_common\.tcl|faultsim|do_ioerr_test")
TOLERANCE = 0.02

# What stands in the place of a number of tests.
NO_COUNTS = ["-", "never", "any"]

# `failing` has the names of the tests, as often as they failed.
Result = collections.namedtuple("Result", "file errors tests exit seconds failing")

# One line of differs-with-STRATEGY.txt. `may_pass` are globs of tests that time decides; `tests` is the file's number of
# tests, if it is another than the baseline's; "any" if it is a random one; "-" if the file may break off without a result; "never" if it
# does not end, and so is not run.
Known = collections.namedtuple("Known", "globs may_pass tests options reason")


def parse(log):
    """The number of errors, the number of tests and the names of the tests that failed."""
    summary = re.findall(r"^(\d+) errors out of (\d+) tests", log, re.M)
    errors, tests = map(int, summary[-1]) if summary else (None, None)
    listed = re.findall(r"^!Failures on these tests:(.*)", log, re.M)
    # A file that was ended has no list.
    failing = listed[-1].split() if summary and listed else re.findall(r"^! (\S+) expected", log, re.M)
    return errors, tests, failing


def read_known(path):
    """The known differences by file; none if there is no such list."""
    known = collections.defaultdict(list)
    for line in path.read_text().splitlines() if path.exists() else []:
        line = line.split("#")[0].strip()
        if not line:
            continue
        file, words, options, reason = line.split(None, 3)
        words = words.split(",")
        tests = [word.removeprefix("tests=") for word in words if word.startswith("tests=")]
        tests = [count if count in NO_COUNTS else int(count) for count in tests]
        globs = [word for word in words if not word.startswith("tests=")]
        entry = Known([glob.lstrip("~") for glob in globs], [glob[1:] for glob in globs if glob.startswith("~")],
                      tests[0] if tests else None, options, reason)
        if not are_set(options):
            known[file].append(entry)
    return known


def are_set(options):
    """True if the environment has them all: `keep_wal=off+prealloc=0`."""
    pairs = [option.split("=") for option in options.split("+") if option != "-"]
    return bool(pairs) and all(os.environ.get(f"ONEFLUSH_{name.upper()}") == value for name, value in pairs)


def matches(name, globs):
    return any(fnmatch.fnmatchcase(name, glob) for glob in globs)


class Comparison:
    def __init__(self, baseline, known, script):
        self.baseline, self.known, self.script = baseline, known, script

    def unknown(self, ours):
        """The failing tests that no list has. Those that fail on stock SQLite too are among them: it gave no names."""
        globs = [glob for entry in self.known.get(ours.file, []) for glob in entry.globs]
        return [name for name in ours.failing if not matches(name, globs)]

    def difference(self, ours):
        """Why a file counts as different from the baseline, or None."""
        base = self.baseline[ours.file]
        errors = None if ours.errors is None else ours.errors - (len(ours.failing) - len(self.unknown(ours)))
        if base.tests is None:
            # It crashed, was skipped or ran out of time in the baseline, without counts: it may do so again, or
            # end well, but no test may fail on the way.
            if self.unknown(ours) or errors:
                return f"{errors or len(self.unknown(ours))} errors, the baseline has no counts"
            if ours.tests is None and ours.exit != base.exit:
                return f"exit code {ours.exit}, was {base.exit}"
            return None
        if ours.tests is None:
            if "-" in self.counts(ours.file) and not timed_out(ours) and not self.unknown(ours):
                return None
            return f"timed out after {ours.seconds:.0f} s" if timed_out(ours) else f"no result, exit code {ours.exit}"
        if not any(self.is_count(ours, count) for count in self.counts(ours.file)):
            return f"{ours.tests} tests, were {base.tests}; {errors} errors, were {base.errors}"
        if errors > base.errors:
            return f"{errors} errors, were {base.errors}"
        # A run in the place of the baseline gives names, too.
        if base.failing and (others := set(self.unknown(ours)) - set(base.failing)):
            return f"{len(others)} other tests fail, of {errors}"
        if ours.exit != (1 if ours.errors else 0):
            return f"exit code {ours.exit} after the last test"
        return None

    def counts(self, file):
        others = [entry.tests for entry in self.known.get(file, []) if entry.tests is not None]
        return [self.baseline[file].tests, *others]

    def is_count(self, ours, tests):
        if tests in NO_COUNTS:
            return tests == "any"
        tolerance = TOLERANCE * tests if injects_faults(self.script(ours.file)) else 0
        return abs(ours.tests - tests) <= tolerance

    def stale(self, ours):
        """What the list has and this run has not: globs that no failing test matches."""
        for entry in self.known.get(ours.file, []) if ours.tests is not None else []:
            for glob in entry.globs:
                if glob not in entry.may_pass and not any(fnmatch.fnmatchcase(name, glob) for name in ours.failing):
                    yield glob
        # Of several counts of a file one may be the number with an option.
        counts = [count for count in self.counts(ours.file)[1:] if count not in NO_COUNTS] if ours.tests is not None else []
        if not any(self.is_count(ours, count) for count in counts):
            yield from (f"tests={count}" for count in counts)


def timed_out(result):
    return result.exit == 124


@functools.cache
def injects_faults(script):
    return INJECTS_FAULTS.search(script.read_text(errors="replace")) is not None


def report(results, comparison, not_applicable, list_name, logs):
    """Prints what differs; the answer is the exit code."""
    differing = {f: why for f, r in sorted(results.items()) if (why := comparison.difference(r))}
    if differing:
        print(f"\n{'file':<20} {'difference':<44} failing tests", flush=True)
    for file, why in differing.items():
        failing = list(dict.fromkeys(comparison.unknown(results[file])))
        print(f"{file:<20} {why:<44} {' '.join(failing[:8])}{' …' if len(failing) > 8 else ''}")
    if differing:
        print(f"The full output of each file is in {os.path.relpath(logs)}.\n")
    for file, reason in sorted(not_applicable.items()):
        print(f"not run: {file}: {reason}")
    for file, result in sorted(results.items()):
        if stale := list(comparison.stale(result)):
            print(f"{list_name}: {file} did not differ in: {' '.join(stale)}")
    of_list = {f: len(r.failing) - len(comparison.unknown(r)) for f, r in results.items()}
    tests = sum(r.tests or 0 for r in results.values())
    errors = sum(r.errors or 0 for r in results.values())
    allowed = sum(comparison.baseline[f].errors or 0 for f in results)
    known = f", {sum(of_list.values())} of them known, in {sum(map(bool, of_list.values()))} files" if comparison.known else ""
    print(f"suite: {tests} tests, {errors} errors{known} (stock SQLite: {allowed})")
    print(f"suite: {len(results) - len(differing)} passed, {len(differing)} failed")
    return 1 if differing else 0
