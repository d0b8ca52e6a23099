"""What all checks share: the program, the traces of the fleet, and how data sets are compared."""

from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
import io
import json
from pathlib import Path
import subprocess
import time
import traceback

import pyarrow as pa
import pyarrow.parquet as parquet

import spark_identify


@dataclass
class World:
    oneflush: Path
    folder: Path
    passed: int = 0
    failed: int = 0

    @property
    def traces(self) -> Path:
        return self.folder / "fleet/traces"

    @property
    def labels(self) -> Path:
        return self.folder / "fleet/labels.csv"

    @property
    def expected(self) -> Path:
        """The data set of all traces and labels by one process."""
        return self.folder / "expected"

    def paths(self) -> list[str]:
        return sorted(str(path) for path in self.traces.rglob("*") if path.is_file())

    def new(self, name: str) -> Path:
        folder = self.folder / "sets" / name
        folder.parent.mkdir(exist_ok=True)
        return folder

    def run(self, *words: object) -> subprocess.CompletedProcess:
        command = [str(self.oneflush), *map(str, words)]
        return subprocess.run(command, capture_output=True, text=True)

    def identify(self, dataset: Path, *words: object, labels: Path | None = None) -> None:
        """By one process."""
        done = self.run("identify", "--dataset", dataset, "--labels", labels or self.labels, *words)
        assert done.returncode in (0, 1), done.stderr

    def words(self, dataset: Path, *words: object, program: Path | None = None,
              labels: Path | None = None) -> list[str]:
        """The command line of spark_identify.py."""
        arguments = ["--oneflush", program or self.oneflush, "--dataset", dataset,
                     "--labels", labels or self.labels, *words]
        return [str(word) for word in arguments]

    def spark(self, dataset: Path, *words: object, program: Path | None = None,
              labels: Path | None = None) -> tuple[int, str]:
        """By spark_identify.py in this application: exit code, and what it said."""
        said = io.StringIO()
        with redirect_stdout(said), redirect_stderr(said):
            try:
                code = spark_identify.main(self.words(dataset, *words, program=program,
                                                      labels=labels))
            except SystemExit as stop:
                code = stop.code
        return code, said.getvalue()

    def wrapper(self, name: str, script: str) -> Path:
        """A program in place of `oneflush`, which is "$oneflush" in the script."""
        path = self.folder / name
        path.write_text(f"#!/bin/sh\noneflush={self.oneflush}\nonce={path}.once\n{script}")
        path.chmod(0o755)
        return path

    def check(self, claim: Callable[["World"], None]) -> None:
        name, began = claim.__name__.replace("_", " "), time.monotonic()
        try:
            claim(self)
        except Exception:
            self.failed += 1
            print(f"FAILED  {name}\n{traceback.format_exc()}", flush=True)
        else:
            self.passed += 1
            print(f"ok      {time.monotonic() - began:5.1f} s  {name}", flush=True)


def files(dataset: Path) -> dict[str, bytes]:
    """All that a reader sees."""
    return {str(path.relative_to(dataset)): path.read_bytes()
            for path in sorted(dataset.rglob("*"))
            if path.is_file() and not any(part.startswith(".") for part in
                                          path.relative_to(dataset).parts)}


def table(content: bytes) -> pa.Table:
    return parquet.ParquetFile(pa.BufferReader(content)).read()


def assert_same(one: Path, other: Path, are_bytes_same: bool = True) -> None:
    """The same files; in them the same columns, types and rows, also bit for bit."""
    left, right = files(one), files(other)
    assert left.keys() == right.keys(), sorted(left.keys() ^ right.keys())[:4]
    for name, content in left.items():
        if content == right[name]:
            continue
        assert not are_bytes_same, f"{name} differs"
        assert table(content).equals(table(right[name])), f"{name} has other rows"


def rows(dataset: Path, name: str = "traces") -> list[dict]:
    return [row for file, content in files(dataset).items() if file.startswith(f"{name}/")
            for row in table(content).to_pylist()]


def json_lines(text: str) -> list[dict]:
    return [json.loads(line) for line in text.splitlines()]
