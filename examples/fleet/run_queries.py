#!/usr/bin/env python3
"""Runs the queries of queries.sql by DuckDB over a data set, and prints their tables.

    run_queries.py [--query NAME]… [--set PARAMETER=VALUE]… [--csv DIR] DATASET

Needs the packages of requirements.txt.
"""

import argparse
import csv
from pathlib import Path
import sys

try:
    import duckdb
except ImportError:
    sys.exit("run_queries: there is no duckdb; pip install -r examples/fleet/requirements.txt")

import fleet_sql


def shown(value: object) -> str:
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return str(value)


def table(columns: list[str], rows: list[tuple]) -> str:
    texts = [columns] + [[shown(value) for value in row] for row in rows]
    widths = [max(len(text[n]) for text in texts) for n in range(len(columns))]
    is_text = [any(isinstance(row[n], str) for row in rows) for n in range(len(columns))]
    lines = []
    for text in texts:
        cells = [cell.ljust(width) if left else cell.rjust(width)
                 for cell, width, left in zip(text, widths, is_text)]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def write_csv(folder: Path, name: str, columns: list[str], rows: list[tuple]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / f"{name}.csv", "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(rows)


def run(options: argparse.Namespace, values: dict[str, str]) -> None:
    connection = fleet_sql.connect(str(options.dataset), values)
    for label in fleet_sql.missing_labels(connection):
        print(f"run_queries: no trace has the label {label}, and its column is null; "
              "give it to oneflush identify by --labels", file=sys.stderr)
    for query in fleet_sql.queries():
        if options.query and query.name not in options.query:
            continue
        result = connection.execute(query.sql)
        columns = [column[0] for column in result.description]
        rows = result.fetchall()
        print(f"{query.name}: {query.question}\n\n{table(columns, rows)}\n")
        if options.csv:
            write_csv(options.csv, query.name, columns, rows)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [query.name for query in fleet_sql.queries()]
    parser.add_argument("dataset", metavar="DATASET", type=Path)
    parser.add_argument("--query", action="append", choices=names, metavar="NAME",
                        help=f"only this: {', '.join(names)}")
    parser.add_argument("--set", action="append", default=[], metavar="PARAMETER=VALUE",
                        help="in place of the value in the view `parameters`")
    parser.add_argument("--csv", type=Path, metavar="DIR", help="also write DIR/NAME.csv")
    options = parser.parse_args()
    if not (options.dataset / "traces").is_dir():
        parser.error(f"{options.dataset} is no data set: there is no {options.dataset}/traces; "
                     "oneflush identify --dataset makes one")
    for word in options.set:
        if "=" not in word:
            parser.error(f"--set {word}: it has the form PARAMETER=VALUE")
    try:
        run(options, dict(word.split("=", 1) for word in options.set))
    except KeyError as error:
        parser.error(f"--set: there is no parameter {error}; see the view `parameters` in "
                     f"{fleet_sql.FILE.name}")
    except duckdb.Error as error:
        print(f"run_queries: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
