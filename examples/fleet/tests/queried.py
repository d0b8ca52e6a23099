"""Checks of the queries and of spark_report.py."""

from contextlib import redirect_stdout
import io
import json
import math
from pathlib import Path
import shutil
import subprocess
import sys
from typing import Any

import duckdb
from pyspark.sql import functions

import fleet_sql
from session import quiet_session
import spark_report
import told
from world import World, rows

HERE = Path(fleet_sql.__file__).parent


def assert_close(one: Any, other: Any, relative: float) -> None:
    """Whole numbers and texts exactly."""
    if isinstance(one, dict):
        assert one.keys() == other.keys(), (one.keys() ^ other.keys())
        for key in one:
            assert_close(one[key], other[key], relative)
    elif isinstance(one, (list, tuple)):
        assert len(one) == len(other), (one, other)
        for left, right in zip(one, other):
            assert_close(left, right, relative)
    elif isinstance(one, float):
        assert math.isclose(one, other, rel_tol=relative, abs_tol=1e-15), (one, other)
    else:
        assert one == other, (one, other)


def results(dataset: Path, parameters: dict[str, str] | None = None) -> dict[str, list[dict]]:
    """Of each query, by DuckDB."""
    connection = fleet_sql.connect(str(dataset), parameters)
    found = {}
    for query in fleet_sql.queries():
        result = connection.execute(query.sql)
        names = [column[0] for column in result.description]
        found[query.name] = [dict(zip(names, row)) for row in result.fetchall()]
    return found


def the_report_by_spark_is_that_of_oneflush(world: World) -> None:
    for where, words in [(None, []), ("build = 'B' AND day >= '2026-11-09'",
                                      ["--where", "build=B,day>=2026-11-09"])]:
        done = world.run("report", "--json", world.expected, *words)
        assert done.returncode == 0, done.stderr
        theirs = json.loads(done.stdout)["traces"][0]
        said = io.StringIO()
        arguments = [str(world.expected), "--json", *(["--where", where] if where else [])]
        with redirect_stdout(said):
            assert spark_report.main(arguments) == 0
        ours = json.loads(said.getvalue())["traces"][0]
        assert ours["transactions"] > 0
        assert_close(in_order(ours), in_order({name: theirs[name] for name in ours}), 1e-12)


def in_order(report: dict[str, Any]) -> dict[str, Any]:
    """Databases with as many transactions and bytes may change places."""
    databases = sorted(report["databases"], key=lambda row: row["database"])
    return report | {"databases": databases}


def the_queries_give_what_the_traces_say(world: World) -> None:
    found, all_told = results(world.expected), told.of_all(world)
    by_database = {(row["model"], row["database"]): (
        row["devices"], row["transactions"], row["kb_a_transaction"], row["mb_a_day"])
        for row in found["worst_databases"]}
    assert_close(by_database, told.worst_databases(all_told), 1e-9)
    journaling: dict[str, list] = {}
    for row in found["journaling_by_file_system"]:
        share = row["journaling_share"] * row["kb_a_transaction"] * row["transactions"]
        sums = journaling.setdefault(row["journal_mode"], [0, 0.0, 0.0])
        sums[0] += row["transactions"]
        sums[1] += share
        sums[2] += row["kb_a_transaction"] * row["transactions"]
    shares = {mode: (count, part / total) for mode, (count, part, total) in journaling.items()}
    assert_close(shares, told.journaling(all_told), 1e-9)
    effect = {row["model"]: (row["devices"], row["bytes_ratio"], row["bytes_error"],
                             row["flushes_ratio"], row["median_ms_ratio"])
              for row in found["effect_of_build"]}
    assert effect
    assert_close(effect, told.effect_of_build(all_told), 1e-9)
    volumes = told.gb_a_day(all_told)
    life = found["days_of_flash_life"]
    assert {(row["model"], row["build"]) for row in life} == {
        (model, build) for model, build in volumes if model != "lab"}
    for row in life:
        assert_close(row["gb_a_day"], volumes[row["model"], row["build"]], 1e-9)
        assert_close(row["days"], row["endurance_tb"] * 1000 / 3 / row["gb_a_day"], 1e-9)
    slower = {row["device"]: (row["p99_ms_before"], row["p99_ms"])
              for row in results(world.expected, {"slower_by": "0.5"})["slower_devices"]}
    assert slower
    assert_close(slower, told.slower_devices(all_told, 0.5), 1e-9)
    assert found["incomplete_traces"] == []


def spark_runs_the_queries_as_they_stand(world: World) -> None:
    session = quiet_session("queries")
    spark_report.open_dataset(session, str(world.expected), None)
    transactions = (
        session.table("transactions").withColumn("day", functions.to_date("day"))
        .withColumn("journaling_bytes", functions.expr(
            "bytes_journal + coalesce(bytes_fs_journal, 0)")))
    # Both are small, and read by each query.
    transactions.coalesce(1).cache().createOrReplaceTempView("transactions")
    session.table("traces").coalesce(1).cache().createOrReplaceTempView("traces")
    session.sql("""CREATE OR REPLACE TEMPORARY VIEW parameters AS SELECT 'A' AS build_before,
        'B' AS build_after, 3e0 AS write_amplification, CAST(NULL AS DATE) AS last_day,
        2e0 AS slower_by""")
    expected = results(world.expected)
    for query in fleet_sql.queries():
        ours = [row.asDict() for row in session.sql(query.sql).collect()]
        assert_same_rows(ours, expected[query.name])


def assert_same_rows(ours: list[dict], theirs: list[dict]) -> None:
    """Engines differ in where they put null."""
    def key(row: dict) -> str:
        return str([value for value in row.values() if isinstance(value, str | None)])

    def plain(row: dict) -> dict:
        return {name: value if isinstance(value, str | None) else float(value)
                for name, value in row.items()}

    left, right = ([plain(row) for row in sorted(some, key=key)] for some in (ours, theirs))
    assert_close(left, right, 1e-9)


def without_labels_the_queries_run_and_say_what_is_missing(world: World) -> None:
    dataset = world.new("bare")
    world.run("identify", "--dataset", dataset, *world.paths()[:3])
    done = run_queries(dataset)
    assert done.returncode == 0, done.stderr
    for name in fleet_sql.LABELS:
        assert f"no trace has the label {name}" in done.stderr, done.stderr
    assert results(dataset)["effect_of_build"] == []
    assert len(results(dataset)["worst_databases"]) > 0


def run_queries(*words: object) -> subprocess.CompletedProcess:
    command = [sys.executable, str(HERE / "run_queries.py"), *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True)


def what_is_missing_or_damaged_is_named(world: World) -> None:
    dataset = world.new("holes")
    shutil.copytree(world.expected, dataset)
    gone = next((dataset / "transactions").glob("device=*/day=*"))
    expected = {row["trace"]: row["transactions"] for row in rows(dataset)
                if any(file.startswith(str(gone.relative_to(dataset))) for file in row["files"])}
    shutil.rmtree(gone)
    missing = {row["trace"]: row["transactions_missing"]
               for row in results(dataset)["incomplete_traces"]}
    assert expected and missing == expected, (missing, expected)
    cut = next((dataset / "transactions").rglob("*.parquet"))
    content = cut.read_bytes()
    cut.write_bytes(content[:len(content) // 2])
    done = run_queries(dataset, "--query", "worst_databases")
    assert done.returncode == 1 and cut.name in done.stderr, done.stderr
    done = world.run("report", dataset)
    assert cut.name in done.stderr + done.stdout, done


def parameters_and_names_are_checked(world: World) -> None:
    done = run_queries(world.expected, "--query", "slower_devices", "--set", "slower_by=1000000")
    assert done.returncode == 0 and "device-0" not in done.stdout, done
    for words, said in [(["--set", "slower=1"], "'slower'"), (["--set", "slower_by"], "VALUE"),
                        (["--query", "none"], "worst_databases")]:
        done = run_queries(world.expected, *words)
        assert done.returncode == 2 and said in done.stderr, done.stderr
    done = run_queries(world.folder)
    assert done.returncode == 2 and "is no data set" in done.stderr, done.stderr


def csv_files_hold_the_tables(world: World) -> None:
    folder = world.folder / "csv"
    done = run_queries(world.expected, "--csv", folder)
    assert done.returncode == 0, done.stderr
    for name, expected in results(world.expected).items():
        read = duckdb.sql(f"SELECT count(*) FROM read_csv('{folder}/{name}.csv', header=true,"
                          " all_varchar=true)").fetchall()[0][0]
        assert read == len(expected), name


CHECKS = [
    the_report_by_spark_is_that_of_oneflush,
    the_queries_give_what_the_traces_say,
    spark_runs_the_queries_as_they_stand,
    without_labels_the_queries_run_and_say_what_is_missing,
    what_is_missing_or_damaged_is_named,
    parameters_and_names_are_checked,
    csv_files_hold_the_tables,
]
