"""Test programs of crates.io, which cargo builds once."""

import pathlib
import shutil
import subprocess
import sys

import told

VERSIONS = {"pjdfstest": "0.2.2", "fsx": "0.3.2"}

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TOOLS = ROOT / "build" / "files" / "tools"


def crate(name):
    """The program of a crate."""
    version = VERSIONS[name]
    program = TOOLS / f"{name}-{version}" / "bin" / name
    if program.exists():
        return program
    if shutil.which("cargo") is None:
        told.skip("there is no cargo")
    command = ["cargo", "install", "--quiet", "--locked", "--root", program.parent.parent, f"{name}@{version}"]
    # Outside of the project its settings do not count.
    built = subprocess.run(command, cwd="/", capture_output=True, text=True)
    if built.returncode != 0:
        told.skip(f"{name} {version} cannot be built: {built.stderr.strip().splitlines()[-1]}")
    return program


if __name__ == "__main__":
    crate(sys.argv[1])
