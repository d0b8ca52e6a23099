"""Pictures of the queries' results, as SVG: small, and readable on light and dark pages."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib
matplotlib.use("svg")
from matplotlib import pyplot
from matplotlib.axes import Axes

Row = dict[str, Any]

GREY, BLUE, ORANGE, GREEN = "#7d7d7d", "#3b82c4", "#d97b29", "#4f9d5d"
SETTINGS = {
    "svg.fonttype": "none",
    "svg.hashsalt": "oneflush",
    "font.family": "sans-serif",
    "font.size": 9,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "savefig.facecolor": "none",
    "text.color": GREY,
    "axes.labelcolor": GREY,
    "axes.edgecolor": GREY,
    "xtick.color": GREY,
    "ytick.color": GREY,
    "axes.spines.top": False,
    "axes.spines.right": False,
}
WIDTH_INCHES, LINE_INCHES, AROUND_INCHES = 6.4, 0.28, 0.8


def worst_databases(axes: Axes, rows: list[Row]) -> None:
    rows = sorted((row for row in rows if row["model"] != "lab"),
                  key=lambda row: row["mb_a_day"])
    names = [f"{row['model']} {row['database'].rsplit('/', 1)[-1]}" for row in rows]
    axes.barh(names, [row["mb_a_day"] / 1000 for row in rows], color=BLUE)
    axes.set_xlabel("GB a day and device")


def journaling_by_file_system(axes: Axes, rows: list[Row]) -> None:
    rows = sorted(rows, key=lambda row: row["journaling_share"])
    names = [f"{row['file_system'] or '–'} {row['journal_mode']}" for row in rows]
    own = [100 * row["journal_share"] for row in rows]
    axes.barh(names, own, color=BLUE, label="SQLite's journal, or a log in its place")
    axes.barh(names, [100 * row["fs_journal_share"] for row in rows], left=own, color=ORANGE,
              label="file system's journal")
    axes.set_xlabel("% of the bytes")
    axes.legend(frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)


def effect_of_build(axes: Axes, rows: list[Row]) -> None:
    measures = [("bytes", BLUE, 0.2), ("flushes", ORANGE, 0.0), ("median_ms", GREEN, -0.2)]
    for name, color, shift in measures:
        places = [number + shift for number in range(len(rows))]
        errors = [row[f"{name}_error"] or 0 for row in rows]
        axes.errorbar([row[f"{name}_ratio"] for row in rows], places, xerr=errors, fmt="o",
                      color=color, label=name.replace("_ms", ""), capsize=3)
    axes.axvline(1, color=GREY, linewidth=0.8, linestyle=":")
    axes.set_yticks(range(len(rows)), [row["model"] for row in rows])
    axes.set_xlim(0, 1.1)
    axes.set_ylim(-0.5, len(rows) - 0.5)
    axes.set_xlabel("build B / build A")
    axes.legend(frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3)


def days_of_flash_life(axes: Axes, rows: list[Row]) -> None:
    rows = sorted(rows, key=lambda row: -row["days"])
    names = [f"{row['model']}, build {row['build']}" for row in rows]
    bars = axes.barh(names, [row["days"] for row in rows], color=BLUE)
    axes.bar_label(bars, fmt="{:,.0f}", padding=3, color=GREY)
    axes.set_xlabel("days")


def slower_devices(axes: Axes, rows: list[Row]) -> None:
    rows = rows[::-1]
    places = range(len(rows))
    axes.hlines(places, [row["p99_ms_before"] for row in rows], [row["p99_ms"] for row in rows],
                color=GREY, linewidth=1)
    axes.plot([row["p99_ms_before"] for row in rows], places, "o", color=BLUE, label="week before")
    axes.plot([row["p99_ms"] for row in rows], places, "o", color=ORANGE, label="last week")
    axes.set_yticks(places, [f"{row['device']}, {row['model']}" for row in rows])
    axes.set_xlim(left=0)
    axes.set_xlabel("99 % quantile of latency, ms")
    axes.legend(frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)


PLOTS: dict[str, Callable[[Axes, list[Row]], None]] = {
    plot.__name__: plot for plot in (worst_databases, journaling_by_file_system, effect_of_build,
                                     days_of_flash_life, slower_devices)}


def draw(name: str, rows: list[Row], path: Path) -> None:
    with matplotlib.rc_context(SETTINGS):
        height = AROUND_INCHES + LINE_INCHES * max(4, len(rows))
        figure, axes = pyplot.subplots(figsize=(WIDTH_INCHES, height), layout="constrained")
        PLOTS[name](axes, rows)
        figure.savefig(path, metadata={"Date": None})
        pyplot.close(figure)
