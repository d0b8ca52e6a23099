"""A package on a machine that it is not for, or one that is not whole."""

import glob
import os
import pathlib
import shutil
import subprocess
import sys
import zipfile

import pytest

import oneflush
from oneflush._platform import machine_of, this_machine

CALLS = ['oneflush.connect("app.db")', "oneflush.enable()", "oneflush.program_path()"]


@pytest.fixture
def copied(tmp_path):
    """The package in a folder of its own."""
    place = tmp_path / "packages"
    shutil.copytree(os.path.dirname(oneflush.__file__), place / "oneflush")
    return place


@pytest.mark.parametrize("call", CALLS)
def test_a_package_for_another_machine_says_what_it_is_for_and_what_this_is(call, copied, python):
    built = copied / "oneflush" / "_built.py"
    other = "aarch64-linux-musl"
    built.write_text(built.read_text().replace(this_machine(), other))
    ended = python(f"import oneflush; {call}", PYTHONPATH=str(copied), check=False)
    assert (
        f"PlatformError: the package oneflush in {copied}/oneflush is for {other}, and this Python "
        f"is for {this_machine()}; install it on this machine: pip install" in ended.stderr
    )


def test_the_source_of_a_clone_names_the_command_that_makes_a_wheel(copied, python):
    # It said "No module named 'oneflush._built'", which is in no document.
    (copied / "oneflush" / "_built.py").unlink()
    ended = python("import oneflush", PYTHONPATH=str(copied), check=False)
    assert "ImportError: oneflush is imported from its source" in ended.stderr
    assert "`make wheel`" in ended.stderr


@pytest.mark.parametrize("wheel", ["manylinux*aarch64", "musllinux*x86_64", "musllinux*aarch64"])
def test_the_wheel_of_another_platform_says_so(wheel, tmp_path, python):
    found = glob.glob(f"{os.environ.get('ONEFLUSH_TEST_DIST', '')}/*{wheel}.whl")
    if not found:
        pytest.skip("ONEFLUSH_TEST_DIST has no such wheel")
    zipfile.ZipFile(found[0]).extractall(tmp_path / "packages")
    code = "import oneflush; oneflush.connect('app.db')"
    ended = python(code, PYTHONPATH=str(tmp_path / "packages"), check=False)
    assert "PlatformError: the package oneflush in" in ended.stderr
    assert f"and this Python is for {this_machine()}" in ended.stderr


@pytest.mark.parametrize("call", CALLS)
def test_a_missing_file_is_named(call, copied, python):
    for file in (copied / "oneflush" / "native").iterdir():
        file.unlink()
    ended = python(f"import oneflush; {call}", PYTHONPATH=str(copied), check=False)
    assert f"PlatformError: {copied}/oneflush/native/" in ended.stderr
    assert "is missing" in ended.stderr
    assert this_machine() in ended.stderr


def test_a_python_of_32_bits_is_told_so(copied):
    """ONEFLUSH_TEST_PYTHON_32 is a command that starts such a Python."""
    other = os.environ.get("ONEFLUSH_TEST_PYTHON_32")
    if not other:
        pytest.skip("ONEFLUSH_TEST_PYTHON_32 does not name a Python of 32 bits")
    code = "import oneflush; oneflush.connect('app.db')"
    ended = subprocess.run(
        [*other.split(), "-c", code],
        env={"PYTHONPATH": str(copied), "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "this Python is for i386-linux-gnu (32 bits); there are packages for" in ended.stderr


def test_a_copied_folder_works_where_the_machine_is_the_same(copied, python):
    code = "import oneflush; print(oneflush.__file__, oneflush.strategy(oneflush.connect('a.db')))"
    ended = python(code, PYTHONPATH=str(copied))
    assert ended.stdout.split() == [f"{copied}/oneflush/__init__.py", "plain"]


@pytest.mark.parametrize(
    ("compiler", "options", "machine"),
    [
        ("musl-gcc", [], "x86_64-linux-musl"),
        ("gcc", [], "x86_64-linux-gnu"),
        ("aarch64-linux-gnu-gcc", [], "aarch64-linux-gnu"),
        ("gcc", ["-static"], "x86_64-linux-(a.out)"),
    ],
)
def test_a_program_tells_processor_and_c_library(compiler, options, machine):
    if shutil.which(compiler) is None or os.uname().machine != "x86_64":
        pytest.skip(f"there is no {compiler}")
    pathlib.Path("a.c").write_text("int main(void) { return 0; }")
    subprocess.run([compiler, *options, "a.c", "-o", "a.out"], check=True)
    assert machine_of("a.out") == machine


def test_the_version_is_the_librarys():
    import ctypes

    version = ctypes.CDLL(oneflush.library_path()).oneflush_version
    version.restype = ctypes.c_char_p
    assert version().decode() == oneflush.__version__
    command = [oneflush.program_path(), "--version"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert said == f"oneflush {oneflush.__version__}\n"


def test_the_package_is_typed_and_every_public_name_has_its_words():
    assert (pathlib.Path(oneflush.__file__).parent / "py.typed").exists()
    for name in oneflush.__all__:
        public = getattr(oneflush, name)
        if callable(public) and not str(public).startswith("typing."):
            assert public.__doc__, name
    assert sys.modules["oneflush"].__doc__
