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
        comments = [n for n, line in enumerate(lines) if not line.startswith("--")]
        first = comments[0]
        question = " ".join(line[2:].strip() for line in lines[:first])
        sql = "\n".join(lines[first:]).rstrip(";")
        found[heading[1]].append(Query(heading[2], question, sql))
    return found


def queries() -> list[Query]:
    return pieces(FILE.read_text())["query"]


def with_parameters(view: Query, values: dict[str, str]) -> str:
    """The view `parameters` with these values in place of its own."""
    sql = view.sql
    for name, value in values.items():
        quoted = "'" + value.replace("'", "''") + "'"
        sql, count = re.subn(rf"^( +)\S.* AS {name}(,?)$",
                             lambda match: f"{match[1]}CAST({quoted} AS {kind(match[0])}) "
                                           f"AS {name}{match[2]}", sql, flags=re.M)
        if count != 1:
            raise KeyError(name)
    return sql


def kind(line: str) -> str:
    if "DATE" in line:
        return "DATE"
    return "VARCHAR" if "'" in line else "DOUBLE"


def connect(dataset: str, values: dict[str, str] | None = None) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute("SET VARIABLE fleet = $1", [dataset])
    for view in pieces(FILE.read_text())["view"]:
        is_parameters = view.name == "parameters"
        connection.execute(with_parameters(view, values or {}) if is_parameters else view.sql)
    return connection


def missing_labels(connection: duckdb.DuckDBPyConnection) -> list[str]:
    columns = ", ".join(f"count({label})" for label in LABELS)
    counts = connection.execute(f"SELECT {columns} FROM traces").fetchone()
    return [label for label, count in zip(LABELS, counts) if count == 0]
