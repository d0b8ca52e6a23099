"""What `oneflush identify --json` says of each trace, and the queries' figures computed from that.

Nothing here reads the data set or knows SQL.
"""

from collections import defaultdict
import csv
from dataclasses import dataclass
import json
import math
from pathlib import Path
import statistics

from world import World, json_lines

SECONDS_A_DAY = 86_400


@dataclass
class Told:
    labels: dict[str, str]
    seconds: float
    has_device: bool
    transactions: list[dict]

    def bytes(self) -> int:
        return sum(volume(transaction) for transaction in self.transactions)


def volume(transaction: dict) -> int:
    return sum(value or 0 for value in transaction["bytes"].values())


def of_all(world: World) -> list[Told]:
    with open(world.labels, newline="") as file:
        labels = {row["trace"]: row for row in csv.DictReader(file)}
    told = []
    for path in world.paths():
        report = json.loads(world.run("report", "--json", path).stdout)["traces"][0]
        transactions = json_lines(world.run("identify", "--json", path).stdout)
        told.append(Told(labels[Path(path).name], report["seconds"], report["flushes"] is not None,
                         transactions))
    return told


def label(told: Told, name: str) -> str | None:
    return told.labels[name] or None


def quantile(values: list[int], share: float) -> int:
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def ns(transaction: dict) -> int:
    return round(transaction["latency_ms"] * 1e6)


def worst_databases(all_told: list[Told]) -> dict[tuple, tuple]:
    """Of model and database: devices, transactions, KB a transaction, MB a day."""
    found: dict[tuple, list] = defaultdict(lambda: [set(), 0, 0, 0.0])
    for told in all_told:
        for database in {transaction["database"] for transaction in told.transactions}:
            some = [one for one in told.transactions if one["database"] == database]
            row = found[label(told, "model"), database]
            row[0].add(told.labels["device"])
            row[1] += len(some)
            row[2] += sum(volume(one) for one in some)
            row[3] += told.seconds
    return {key: (len(devices), count, total / 1024 / count, total / 1e6 / seconds * SECONDS_A_DAY)
            for key, (devices, count, total, seconds) in found.items() if seconds > 0}


def journaling(all_told: list[Told]) -> dict[str, tuple]:
    """Of a journal mode: transactions, and the share of both journals."""
    found: dict[str, list] = defaultdict(lambda: [0, 0, 0])
    for told in all_told:
        for one in told.transactions:
            row = found[one["journal_mode"]]
            row[0] += 1
            row[1] += one["bytes"]["journal"] + (one["bytes"]["fs_journal"] or 0)
            row[2] += volume(one)
    return {mode: (count, part / total) for mode, (count, part, total) in found.items() if total}


def effect_of_build(all_told: list[Told]) -> dict[str, tuple]:
    """Of a model: devices, ratio of bytes and its standard error, ratio of flushes, of medians."""
    by_device: dict[tuple, list[dict]] = defaultdict(list)
    models = {}
    for told in all_told:
        by_device[told.labels["device"], told.labels["build"]] += told.transactions
        models[told.labels["device"]] = label(told, "model")
    logs: dict[str, list[tuple]] = defaultdict(list)
    for device, model in models.items():
        before, after = by_device[device, "A"], by_device[device, "B"]
        if before and after:
            logs[model].append(tuple(math.log(of(after) / of(before)) for of in (
                lambda some: sum(map(volume, some)) / len(some),
                lambda some: sum(one["flushes"] for one in some) / len(some),
                lambda some: quantile([ns(one) for one in some], 0.5))))
    found = {}
    for model, rows in logs.items():
        ratios = [math.exp(statistics.fmean(column)) for column in zip(*rows)]
        spread = statistics.stdev(row[0] for row in rows) if len(rows) > 1 else None
        error = None if spread is None else ratios[0] * spread / math.sqrt(len(rows))
        found[model] = (len(rows), ratios[0], error, ratios[1], ratios[2])
    return found


def gb_a_day(all_told: list[Told]) -> dict[tuple, float]:
    """Of model and build, where a device was recorded."""
    found: dict[tuple, list] = defaultdict(lambda: [0, 0.0])
    for told in all_told:
        if told.has_device and told.transactions:
            row = found[label(told, "model"), label(told, "build")]
            row[0] += told.bytes()
            row[1] += told.seconds
    return {key: total / 1e9 / seconds * SECONDS_A_DAY for key, (total, seconds) in found.items()}


def slower_devices(all_told: list[Told], slower_by: float) -> dict[str, tuple]:
    """99 % of the first seven of two weeks, and of the last seven; the last day is the 13th."""
    weeks: dict[str, tuple[list, list]] = defaultdict(lambda: ([], []))
    for told in all_told:
        is_last = told.labels["begin"][:10] > "2026-11-06"
        weeks[told.labels["device"]][is_last].extend(map(ns, told.transactions))
    found = {}
    for device, (before, last) in weeks.items():
        if min(len(before), len(last)) >= 30:
            old, new = quantile(before, 0.99), quantile(last, 0.99)
            if new >= slower_by * old:
                found[device] = (old / 1e6, new / 1e6)
    return found
