"""The file of `--labels`: which of its lines is a trace's (docs/dataset.md, Labels).

Each task gets the labels of its own traces only, so that no process reads the labels of a fleet.
"""

import csv
from dataclasses import dataclass, field, replace
import io

from places import PlaceError, Trace, open_place

Pairs = tuple[tuple[str, str], ...]


@dataclass
class Labels:
    uri: str
    by_path: dict[str, list[Pairs]] = field(default_factory=dict)
    by_name: dict[str, list[Pairs]] = field(default_factory=dict)

    def of(self, trace: Trace) -> Trace:
        """By its path, or else by its file name."""
        name = trace.source.rsplit("/", 1)[-1]
        rows = self.by_path.get(trace.source) or self.by_name.get(name) or [()]
        if len(rows) > 1:
            raise PlaceError(f"--labels {self.uri}: there are {len(rows)} lines for "
                             f"{trace.source}; give its whole path in the column trace")
        return replace(trace, labels=rows[0])


def read(uri: str) -> Labels:
    filesystem, path = open_place(uri)
    try:
        with filesystem.open_input_stream(path) as stream:
            text = stream.read().decode()
    except OSError as error:
        raise PlaceError(f"--labels {uri}: {error}") from error
    lines = [line for line in io.StringIO(text, newline="") if not line.startswith("#")]
    reader = csv.reader(lines)
    head = [name.strip() for name in next(reader, [])]
    if "trace" not in head:
        raise PlaceError(f"--labels {uri}: has no column trace in its first line, such as: "
                         "trace,device,build")
    labels = Labels(uri)
    for fields in filter(None, reader):
        if len(fields) != len(head):
            raise PlaceError(f"--labels {uri}: line {reader.line_num} has {len(fields)} fields, "
                             f"and the first line has {len(head)}")
        row = {name: value.strip() for name, value in zip(head, fields)}
        trace = row.pop("trace")
        pairs = tuple((name, value) for name, value in row.items() if value)
        labels.by_path.setdefault(trace, []).append(pairs)
        labels.by_name.setdefault(trace.rsplit("/", 1)[-1], []).append(pairs)
    return labels


def write(path: str, named: list[tuple[str, Pairs]]) -> None:
    """Those of some traces, each under the path that `oneflush` is given."""
    columns = sorted({name for _, pairs in named for name, _ in pairs})
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, ["trace", *columns], lineterminator="\n")
        writer.writeheader()
        for trace, pairs in named:
            writer.writerow({"trace": trace, **dict(pairs)})
