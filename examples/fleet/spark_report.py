"""The figures of `oneflush report` by Spark SQL, over a data set (docs/dataset.md).

    spark-submit examples/fleet/spark_report.py [--where SQL] [--json] DATASET

`--where` is a condition in Spark's SQL over the columns of `transactions`, such as
"build = 'B' AND day >= '2026-11-08'". Only traces of which a transaction is left count.
`--json` has the names of `oneflush report DATASET --json`.

Exit codes: 0 done, 1 the data set could not be read, 2 wrong usage.
"""

import argparse
import json
import sys
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession

import places
from session import quiet_session

CLASSES = ["db", "journal", "fs_journal", "metadata"]
CLASS_NAMES = {"db": "db", "journal": "journal", "fs_journal": "fs journal", "metadata": "metadata"}
# Spark's percentile_disc is the smallest value that at least this share of all do not exceed.
SHARES = {"q25": 0.25, "median": 0.5, "q75": 0.75, "q99": 0.99, "q999": 0.999}
ORDER = ["q25", "median", "average", "q75", "q99", "q999", "max"]
SHOWN = {"median": "median", "average": "average", "q75": "75 %", "q99": "99 %", "q999": "99.9 %",
         "max": "max"}
NS_PER_MS, BYTES_PER_KB = 1e6, 1024.0
# Of modes that are as frequent, the last one in this order is told.
MODES = ["DELETE", "TRUNCATE", "PERSIST", "WAL", "EAGER", "WALDIO", "MAW", "LSMVBT", "UNKNOWN"]
SYNCHRONOUS = ["FULL", "NORMAL", "EXTRA", "UNKNOWN"]
DATABASES_SHOWN = 10
# Why the bytes of a transaction are not its own. From a hundredth of all on, only the average is known.
SHARED = ["nobody synchronized it", "told by SQLite's lock alone", "another thread synchronized it",
          "its bytes are also those of commits before it", "log that was synchronized only for a checkpoint"]
SHARED_PART = 100

TRANSACTIONS = """
CREATE OR REPLACE TEMPORARY VIEW transactions AS SELECT *,
    bytes_db + bytes_journal + coalesce(bytes_fs_journal, 0) + coalesce(bytes_metadata, 0) AS bytes
FROM all_transactions WHERE {where}
"""

COUNTS = """
SELECT count(*) AS transactions, count_if(outcome = 'rolled back') AS rolled_back,
    count_if({shared}) AS shared, sum(flushes) AS flushes, coalesce(sum(bytes_db), 0) AS db,
    coalesce(sum(bytes_journal), 0) AS journal, coalesce(sum(bytes_fs_journal), 0) AS fs_journal,
    coalesce(sum(bytes_metadata), 0) AS metadata
FROM transactions
"""

OF_TRACES = """
SELECT coalesce(sum(events), 0) AS events, coalesce(sum(duration_ns), 0) / 1e9 AS seconds,
    coalesce(sum(transactions_cut), 0) AS cut_off
FROM traces WHERE trace IN (SELECT trace FROM transactions)
"""

# Each transaction gives a row for each measure. Nobody's bytes are 0 bytes.
QUANTILES = """
SELECT measure, {percentiles}, max(value) AS max, CAST(sum(value) AS DOUBLE) / count(*) AS average
FROM (
    SELECT stack(6, 'latency_ns', coalesce(latency_ns, 0), 'bytes', bytes,
        'db', bytes_db, 'journal', bytes_journal, 'fs_journal', coalesce(bytes_fs_journal, 0),
        'metadata', coalesce(bytes_metadata, 0)) AS (measure, value)
    FROM transactions
)
GROUP BY measure
"""

DATABASES = """
SELECT database, count(*) AS transactions, sum(flushes) AS flushes, sum(bytes_db) AS db,
    sum(bytes_journal) AS journal, coalesce(sum(bytes_fs_journal), 0) AS fs_journal,
    coalesce(sum(bytes_metadata), 0) AS metadata,
    percentile_disc(0.5) WITHIN GROUP (ORDER BY coalesce(latency_ns, 0)) AS median_ns,
    percentile_disc(0.5) WITHIN GROUP (ORDER BY bytes) AS median_bytes
FROM transactions
GROUP BY database
ORDER BY count(*) DESC, sum(bytes) DESC, database
"""

DATABASE_MODES = """
SELECT database, journal_mode, synchronous, count(*) AS transactions
FROM transactions
GROUP BY database, journal_mode, synchronous
"""


def open_dataset(session: SparkSession, dataset: str, where: str | None) -> None:
    """Makes the views `transactions` and `traces`."""
    session.conf.set("spark.sql.sources.partitionColumnTypeInference.enabled", "false")
    reader = session.read.option("mergeSchema", "true")
    reader.parquet(f"{dataset}/traces").createOrReplaceTempView("traces")
    reader.parquet(f"{dataset}/transactions").createOrReplaceTempView("all_transactions")
    session.sql(TRANSACTIONS.format(where=f"({where})" if where else "true"))


def figures(session: SparkSession) -> dict[str, Any]:
    shared = " OR ".join("startswith(reason, '{}')".format(words.replace("'", "\\'")) for words in SHARED)
    counts = session.sql(COUNTS.format(shared=shared)).first().asDict()
    is_shared = counts.pop("shared") * SHARED_PART >= max(counts["transactions"], 1)
    bytes_by_class = {name: counts.pop(name) for name in CLASSES}
    counts |= session.sql(OF_TRACES).first().asDict()
    percentiles = ", ".join(f"percentile_disc({share}) WITHIN GROUP (ORDER BY value) AS {name}"
                            for name, share in SHARES.items())
    measures = {row["measure"]: row
                for row in session.sql(QUANTILES.format(percentiles=percentiles)).collect()}

    def quantiles(measure: str, unit: float, is_known: bool) -> dict[str, float | None]:
        row = measures.get(measure)
        return {name: None if not is_known and name != "average" else row[name] / unit if row else 0.0
                for name in ORDER}

    return {
        **{name: counts[name] for name in ("seconds", "events", "transactions", "rolled_back",
                                           "cut_off", "flushes")},
        "latency_ms": quantiles("latency_ns", NS_PER_MS, True),
        "kb": quantiles("bytes", BYTES_PER_KB, not is_shared),
        "kb_by_class": {name: quantiles(name, BYTES_PER_KB, not is_shared) for name in CLASSES},
        "bytes": bytes_by_class,
        "databases": databases(session, counts["transactions"], sum(bytes_by_class.values()), is_shared),
    }


def databases(session: SparkSession, transactions: int, all_bytes: int, is_shared: bool) -> list[dict[str, Any]]:
    modes: dict[str, tuple] = {}
    for row in session.sql(DATABASE_MODES).collect():
        places_in_order = MODES.index(row.journal_mode), SYNCHRONOUS.index(row.synchronous)
        rank = (row.transactions, places_in_order)
        modes[row.database] = max(modes.get(row.database, rank), rank)
    rows = []
    for row in session.sql(DATABASES).collect():
        by_class = {name: row[name] for name in CLASSES}
        mode, synchronous = modes[row.database][1]
        rows.append({
            "database": row.database,
            "transactions": row.transactions,
            "share_of_transactions": row.transactions / transactions,
            "bytes": by_class,
            "share_of_bytes": sum(by_class.values()) / all_bytes if all_bytes else 0.0,
            "flushes": row.flushes,
            "median_ms": row.median_ns / NS_PER_MS,
            "median_kb": None if is_shared else row.median_bytes / BYTES_PER_KB,
            "mode": f"{MODES[mode]} {SYNCHRONOUS[synchronous]}",
        })
    return rows


def number(value: float | None) -> str:
    return "–" if value is None else "0" if value == 0 else f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def line(name: str, cells: list[str]) -> str:
    return f"{name:<26}" + "".join(cell.rjust(9) for cell in cells)


def text(report: dict[str, Any], dataset: str) -> str:
    lines = [dataset, f"  {report['transactions']:,} transactions of {len(report['databases']):,} "
             f"databases in {report['seconds']:,.1f} s; {report['rolled_back']:,} rolled back, "
             f"{report['cut_off']:,} more cut off"]
    shown = list(SHOWN.values())
    lines += ["", line("Latency, ms", shown)]
    lines += [line("  all", [number(report["latency_ms"][name]) for name in SHOWN])]
    lines += ["", line("KB a transaction", shown)]
    lines += [line("  all", [number(report["kb"][name]) for name in SHOWN])]
    lines += [line(f"  {CLASS_NAMES[of]}", [number(quantiles[name]) for name in SHOWN])
              for of, quantiles in report["kb_by_class"].items()]
    lines += ["", line("MB of all", list(CLASS_NAMES.values()))]
    lines += [line("  all", [number(report["bytes"][name] / 1e6) for name in CLASSES])]
    lines += ["", line("Databases", ["txns", "db MB", "jrnl MB", "fs MB", "flushes"])]
    for row in report["databases"][:DATABASES_SHOWN]:
        megabytes = [number(row["bytes"][name] / 1e6) for name in CLASSES[:3]]
        flushes = row["flushes"]
        each = "–" if flushes is None else f"{flushes / row['transactions']:.2f}"
        lines.append(f"  {row['database']}")
        lines.append(line(f"    {row['mode']}", [f"{row['transactions']:,}", *megabytes, each]))
    more = len(report["databases"]) - DATABASES_SHOWN
    return "\n".join(lines + ([f"  and {more} with fewer transactions"] if more > 0 else []))


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="spark_report", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset", metavar="DATASET")
    parser.add_argument("--where", metavar="SQL")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    dataset = places.absolute(options.dataset)
    session = quiet_session("oneflush report")
    try:
        open_dataset(session, dataset, options.where)
        report = figures(session)
    except AnalysisException as error:
        print(f"spark_report: {dataset}: {str(error).splitlines()[0]}", file=sys.stderr)
        return 2
    except (Py4JError, PySparkException) as error:
        print(f"spark_report: {dataset}: {str(error).splitlines()[0]}", file=sys.stderr)
        return 1
    print(json.dumps({"traces": [report]}) if options.json else text(report, dataset))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
