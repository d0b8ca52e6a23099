"""All of it: `case.py NODE`, where NODE is a folder with better-sqlite3, or why there is none.

The control comes first: stock SQLite must be harmed by the load, or the load proves nothing.
"""

import os
import subprocess
import sys

import belt
import compat
import fork
import load
import pairs

CONTROL_RUNS = 10
NODE = sys.argv[1]


def by_apsw():
    """The load by the other SQLite, in its Python."""
    command = [os.environ["PYTHON_APSW"], load.__file__, "--runs", "1", "--mode", compat.STRATEGY]
    said = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    print(said, end="")
    return said.splitlines()[-1]


def two_libraries():
    """What is wrong with several SQLites in one process."""
    path = os.pathsep.join([os.environ["PYTHONPATH"], os.environ["TWO"]])
    command = [os.environ["PYTHON_APSW"], os.path.join(load.HERE, "two.py"), compat.STRATEGY]
    ran = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False,
                         env={**os.environ, "PYTHONPATH": path})
    print(ran.stdout, end="")
    return [] if "two: ok (" in ran.stdout else ["several SQLites in one process"]


harmful, count, _ = load.runs("stock", CONTROL_RUNS, until_harm=True)
compat.check(f"stock SQLite was harmed in {count} runs", harmful > 0, True)
harmful, _, rows = load.runs(compat.STRATEGY, 1)
found = [f"{harmful} of 1 runs did harm by {belt.LIBRARY}"] if harmful else []
apsw = by_apsw()
found += [apsw] if " 0 of 1 " not in apsw else []
if os.path.isdir(NODE):
    harmful, _, _ = load.runs(compat.STRATEGY, 1, node=NODE)
    found += ["the load by Node did harm"] if harmful else []
    node = "and Node"
else:
    print(f"Node: skipped, {NODE}")
    node = "without Node"
scenes = fork.main([compat.STRATEGY])
found += [f"{scenes} of {len(fork.SCENES)} scenes with a fork went wrong"] if scenes else []
found += two_libraries()
answers, different, worse, control = pairs.main(compat.STRATEGY)
compat.check("stock SQLite which closes the files differs", control > 0, True)
found += [f"{worse} of {answers} answers of pairs differ from stock SQLite's"] if worse else []
if found:
    compat.fail("; ".join(found))
print(f"seatbelt: ok ({compat.STRATEGY}, {belt.LIBRARY}, APSW {node}: {rows} rows, {scenes} of "
      f"{len(fork.SCENES)} forks wrong; {answers} answers of pairs, {different} excused; stock "
      f"SQLite was harmed in run {count}, and differs in {control} answers)")
