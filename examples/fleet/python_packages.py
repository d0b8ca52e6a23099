"""The Python environment of this example, in build/fleet-venv, as requirements.txt says it."""

from pathlib import Path
import shutil
import subprocess
import sys

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
VENV = ROOT / "build/fleet-venv"


class Missing(Exception):
    """What cannot be installed here."""


def need(*packages: str) -> None:
    """Debian's."""
    if subprocess.run([ROOT / "scripts/need", *packages]).returncode != 0:
        raise Missing(f"{' and '.join(packages)} cannot be installed")


def make() -> Path:
    """Its folder. It is made anew when requirements.txt has changed."""
    wanted, stamp = HERE / "requirements.txt", VENV / "stamp"
    if stamp.exists() and stamp.read_bytes() == wanted.read_bytes():
        return VENV
    need("python3-venv")
    print("fleet: installing Python packages in build/fleet-venv, some minutes", file=sys.stderr)
    subprocess.run([sys.executable, "-m", "venv", "--clear", VENV], check=True)
    pip = [VENV / "bin/pip", "install", "--quiet", "--disable-pip-version-check", "-r", wanted]
    if subprocess.run(pip).returncode != 0:
        raise Missing("pip cannot install the packages of examples/fleet/requirements.txt")
    shutil.copyfile(wanted, stamp)
    return VENV
