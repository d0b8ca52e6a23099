"""What the programs of this folder share."""

import subprocess
import sys

LACKS = 77


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
