"""The named queries of queries.sql, and DuckDB over a data set."""

from dataclasses import dataclass
from pathlib import Path
import re

import duckdb

FILE = Path(__file__).resolve().with_name("queries.sql")
HEADING = re.compile(r"^-- (view|query): (\w+)\n", re.M)
LABELS = ["device", "build", "model", "region"]


@dataclass(frozen=True)
class Query:
    name: str
    question: str
    sql: str


def pieces(text: str) -> dict[str, list[Query]]:
    """By `view` and `query`."""
    found: dict[str, list[Query]] = {"view": [], "query": []}
    headings = list(HEADING.finditer(text))
    ends = [heading.start() for heading in headings[1:]] + [len(text)]
    for heading, end in zip(headings, ends):
        lines = text[heading.end():end].strip().splitlines()
        first = next(n for n, line in enumerate(lines) if not line.startswith("--"))
        question = " ".join(line[2:].strip() for line in lines[:first])
        sql = "\n".join(lines[first:]).rstrip(";")
        found[heading[1]].append(Query(heading[2], question, sql))
    return found


def queries() -> list[Query]:
    return pieces(FILE.read_text())["query"]


def set_parameters(connection: duckdb.DuckDBPyConnection, values: dict[str, str]) -> None:
    """The view `parameters` with these values in place of its own."""
    kinds = dict(connection.execute(
        "SELECT column_name, column_type FROM (DESCRIBE parameters)").fetchall())
    for name in values:
        if name not in kinds:
            raise KeyError(name)
    given = {name: "'" + value.replace("'", "''") + "'" for name, value in values.items()}
    columns = [f"CAST({given[name]} AS {kind}) AS {name}" if name in given else name
               for name, kind in kinds.items()]
    connection.execute("ALTER VIEW parameters RENAME TO parameters_of_file")
    connection.execute(
        f"CREATE VIEW parameters AS SELECT {', '.join(columns)} FROM parameters_of_file")


def connect(dataset: str, values: dict[str, str] | None = None) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute("SET VARIABLE fleet = $1", [dataset])
    for view in pieces(FILE.read_text())["view"]:
        connection.execute(view.sql)
    if values:
        set_parameters(connection, values)
    return connection


def missing_labels(connection: duckdb.DuckDBPyConnection) -> list[str]:
    columns = ", ".join(f"count({label})" for label in LABELS)
    counts = connection.execute(f"SELECT {columns} FROM traces").fetchone()
    return [label for label, count in zip(LABELS, counts) if count == 0]
