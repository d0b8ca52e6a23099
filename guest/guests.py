"""What the programs of this folder share."""

import os
import pathlib
import subprocess
import sys

LACKS = 77
# What is tested: where `make build` leaves it, or where ONEFLUSH_BUILT says.
BUILT = pathlib.Path(os.environ.get("ONEFLUSH_BUILT", pathlib.Path(__file__).resolve().parent.parent / "target/release"))


def run(command, name):
    """Runs a command that boots a guest, and returns its exit code. Where the machine lacks something, all ends here: the
    line `NAME: skipped, REASON` says what."""
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    last = ""
    for line in process.stderr:
        last = line
        sys.stderr.write(line)
        sys.stderr.flush()
    code = process.wait()
    if code == LACKS:
        print(f"{name}: skipped, {last.strip().removeprefix('guest/run: skipped: ')}")
        sys.exit(0)
    return code
