"""Checks of spark_identify.py: the rows are those of one process, whatever happens to tasks."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stdout
import csv
import io
from pathlib import Path
import shutil
import subprocess
from unittest import mock

import fleet_sql
import publish
import spark_identify
from world import World, assert_same, files, rows


def one_process_and_spark_write_the_same_bytes(world: World) -> None:
    dataset = world.new("spark")
    code, said = world.spark(dataset, "--traces", world.traces)
    assert code == 0, said
    assert_same(dataset, world.expected)
    traces = rows(world.expected)
    total = sum(row["transactions"] for row in traces)
    assert f": {len(traces)} traces, {total:,} transactions, 0 could not be read" in said, said


def what_is_copied_to_the_workers_gives_the_same_rows(world: World) -> None:
    dataset = world.new("staged")
    code, said = world.spark(dataset, "--traces", f"file://{world.traces}", "--stage")
    assert code == 0, said
    assert_same(dataset, world.expected, are_bytes_same=False)
    assert not [path for path in dataset.rglob(".*") if path.is_file()]


def an_object_store_gets_the_same_files(world: World) -> None:
    dataset = world.new("store")
    sources = {row["trace"]: row["source"] for row in rows(world.expected)[:10]}
    known = publish.is_object_store
    publish.is_object_store = lambda _: True
    try:
        for path in (*files(world.expected), ".writing/plan"):
            (dataset / path).parent.mkdir(parents=True, exist_ok=True)
        publish.put(str(world.expected), sources, str(dataset))
    finally:
        publish.is_object_store = known
    there = files(dataset)
    assert len(there) >= 1 + 2 * len(sources), sorted(there)
    assert all(content == files(world.expected)[name] for name, content in there.items()
               if not name.startswith("traces/"))


class Killed(BaseException):
    pass


def is_killed_before(step: int, put: Callable[[], None]) -> bool:
    """Steps are files that are put or removed."""
    left = step

    def counted(known):
        def call(*arguments):
            nonlocal left
            if left == 0:
                raise Killed
            left -= 1
            known(*arguments)
        return call

    with (mock.patch.object(publish, "put_file", counted(publish.put_file)),
          mock.patch.object(publish, "remove", counted(publish.remove))):
        try:
            put()
        except Killed:
            return True
    return False


def a_copy_that_breaks_off_anywhere_is_mended_by_the_next(world: World) -> None:
    """The trace begins on another day there, and so its rows are in other folders."""
    first, other = world.new("breaks-first"), world.new("breaks-other")
    changed, path = relabelled(world)
    world.identify(first, path)
    world.identify(other, path, labels=changed)
    sources = {row["trace"]: path for row in rows(first)}
    for step in range(100):
        dataset = world.new(f"breaks-{step}")
        publish.put(str(first), sources, str(dataset))
        is_killed = is_killed_before(step, lambda: publish.put(str(other), sources, str(dataset)))
        if not is_killed:
            assert_same(dataset, other, are_bytes_same=False)
        publish.put(str(first), sources, str(dataset))
        assert_same(dataset, first, are_bytes_same=False)
        assert not list((dataset / ".writing").iterdir())
        if not is_killed:
            break
    assert step > 4, step


def a_run_that_is_repeated_changes_nothing(world: World) -> None:
    dataset = world.new("spark")
    for words in ([], ["--stage"]):
        assert world.spark(dataset, "--traces", world.traces, *words)[0] == 0
        assert_same(dataset, world.expected, are_bytes_same=not words)


def only_new_traces_are_identified(world: World) -> None:
    dataset, first = world.new("new"), world.paths()[:5]
    world.identify(dataset, *first)
    code, said = world.spark(dataset, "--traces", world.traces, "--only-new")
    assert code == 0 and f": {len(world.paths()) - 5} traces, " in said, said
    assert_same(dataset, world.expected)
    code, said = world.spark(dataset, "--traces", world.traces, "--only-new")
    assert code == 0 and ": 0 traces, 0 transactions" in said, said


def other_labels_may_divide_the_rows(world: World) -> None:
    """A later run need not say so again, also where it fills the data set from elsewhere."""
    folder = max(world.traces.iterdir())
    expected, dataset = world.new("by-1"), world.new("by")
    world.identify(expected, "--by", "region,build", *folder.iterdir())
    assert world.spark(dataset, "--traces", folder, "--by", "region,build")[0] == 0
    assert_same(dataset, expected)
    assert world.spark(dataset, "--traces", folder, "--stage")[0] == 0
    assert_same(dataset, expected, are_bytes_same=False)


def bad_traces_have_rows_that_say_why(world: World) -> None:
    folder, dataset = world.folder / "bad", world.new("bad")
    folder.mkdir()
    recording = Path(next(path for path in world.paths() if path.endswith(".zst")))
    whole = recording.read_bytes()
    (folder / "good.zst").write_bytes(whole)
    (folder / "cut.zst").write_bytes(whole[:len(whole) * 2 // 3])
    (folder / "head.zst").write_bytes(whole[:300])
    (folder / "empty.txt").touch()
    (folder / "letter.txt").write_text("Dear Sir or Madam\n")
    (folder / "newer.txt").write_text("# tracer: nop\n#\n# oneflush: format 2\n")
    (folder / ".hidden.zst").write_bytes(b"no")
    (folder / "growing.zst.part").write_bytes(b"no")
    code, said = world.spark(dataset, "--traces", folder)
    assert code == 1 and ": 6 traces, " in said, said
    found = {Path(row["source"]).name: row for row in rows(dataset)}
    assert sorted(found) == ["cut.zst", "empty.txt", "good.zst", "head.zst", "letter.txt",
                             "newer.txt"]
    assert found["good.zst"]["error"] is None and found["good.zst"]["transactions"] > 0
    assert found["cut.zst"]["cut_off"] and found["cut.zst"]["error"] is None
    for name, reason in (("head.zst", "end early"), ("empty.txt", "is empty"),
                         ("letter.txt", "no known format"), ("newer.txt", "format 2")):
        assert found[name]["error"] and reason in found[name]["error"], found[name]
        assert f"{folder / name}: " in said and reason in said, said
    world.identify(world.new("bad-1"), *(folder / name for name in found))
    assert_same(dataset, world.new("bad-1"))
    world.spark(world.new("bad-2"), "--traces", folder, "--stage")
    assert_same(dataset, world.new("bad-2"), are_bytes_same=False)


def a_program_that_is_killed_is_started_again(world: World) -> None:
    """It has written a part of its traces by then."""
    dataset = world.new("killed-program")
    script = ('mkdir "$once" 2>/dev/null || exec "$oneflush" "$@"\n'
              'for last; do :; done\n'
              '"$oneflush" identify --dataset "$3" "$last"\nkill -9 $$\n')
    program = world.wrapper("oneflush-killed", script)
    code, said = world.spark(dataset, "--traces", world.traces, program=program)
    assert code == 0 and Path(f"{program}.once").exists(), said
    # The killed one had no labels. Its rows are those of another device.
    for path in list(dataset.rglob("*-e3b0c442.parquet")):
        path.unlink()
    assert_same(dataset, world.expected)


def a_task_whose_python_dies_is_tried_again(world: World) -> None:
    dataset = world.new("killed-worker")
    script = ('mkdir "$once" 2>/dev/null || exec "$oneflush" "$@"\n'
              '"$oneflush" "$@" & sleep 0.1\nkill -9 $PPID\nwait\n')
    program = world.wrapper("oneflush-orphan", script)
    code, said = world.spark(dataset, "--traces", world.traces, program=program)
    assert code == 0 and Path(f"{program}.once").exists(), said
    assert_same(dataset, world.expected)


def a_trace_that_ends_the_program_is_named_and_hurts_no_other(world: World) -> None:
    dataset, expected = world.new("culprit"), world.new("culprit-1")
    folder = max(world.traces.iterdir())
    paths = [path for path in world.paths() if path.startswith(f"{folder}/")]
    culprit = paths[0]
    script = f'case "$*" in *{culprit}*) kill -9 $$;; esac\nexec "$oneflush" "$@"\n'
    program = world.wrapper("oneflush-culprit", script)
    code, said = world.spark(dataset, "--traces", folder, "--partitions", 1, program=program)
    assert code == 1 and culprit in said and "SIGKILL" in said, said
    assert len(rows(dataset)) == len(paths) - 1
    code, said = world.spark(dataset, "--traces", folder, "--only-new")
    assert code == 0 and ": 1 traces, " in said, said
    world.identify(expected, *paths)
    assert_same(dataset, expected)


def relabelled(world: World) -> tuple[Path, str]:
    """A file of labels, and the trace whose build and begin, and so its folder, are others there.
    Its device, and so its ID, stay."""
    changed = world.folder / "changed.csv"
    with open(world.labels, newline="") as file:
        lines = list(csv.DictReader(file))
    lines[4] |= {"build": "C", "begin": "2026-12-24T18:00:00Z"}
    with open(changed, "w", newline="") as file:
        writer = csv.DictWriter(file, list(lines[0]))
        writer.writeheader()
        writer.writerows(lines)
    return changed, next(path for path in world.paths() if path.endswith("/" + lines[4]["trace"]))


def other_labels_of_one_trace_replace_its_rows_only(world: World) -> None:
    changed, trace = relabelled(world)
    for way in ([], ["--stage"]):
        dataset = world.new(f"relabelled{len(way)}")
        shutil.copytree(world.expected, dataset)
        code, said = world.spark(dataset, "--traces", trace, *way, labels=changed)
        assert code == 0, said
        before, after = files(world.expected), files(dataset)
        gone, come = before.keys() - after.keys(), after.keys() - before.keys()
        assert len(gone) == len(come) == 1, (gone, come)
        assert "day=2026-12-24" in come.pop()
        different = [name for name in before.keys() & after.keys() if before[name] != after[name]]
        assert len(different) == 1 and different[0].startswith("traces/"), different


def a_trace_that_is_in_two_files_counts_once(world: World) -> None:
    folder = world.folder / "twice"
    folder.mkdir()
    for name in ("one.zst", "other.zst"):
        shutil.copyfile(world.paths()[-1], folder / name)
    for way in ([], ["--stage"]):
        dataset = world.new(f"twice{len(way)}")
        code, said = world.spark(dataset, "--traces", folder, "--partitions", 2, *way)
        assert code == 0 and "1 files hold the trace of another" in said, said
        assert ": 1 traces, " in said and len(rows(dataset)) == 1, said


def names_may_have_any_character(world: World) -> None:
    """Of files, folders and devices."""
    folder, labels = world.folder / "odd names % ü", world.folder / "odd.csv"
    folder.mkdir()
    shutil.copyfile(world.paths()[-1], folder / "a trace=1%2F.zst")
    labels.write_text('trace,device,build\na trace=1%2F.zst,"a/b=c, 7%",B\n')
    one, spark, staged = (world.new(f"odd {way}") for way in ("one", "spark", "staged"))
    world.identify(one, *folder.iterdir(), labels=labels)
    assert rows(one)[0]["device"] == "a/b=c, 7%"
    assert world.spark(spark, "--traces", folder, labels=labels)[0] == 0
    assert_same(spark, one)
    assert world.spark(staged, "--traces", folder, "--stage", labels=labels)[0] == 0
    assert_same(staged, one, are_bytes_same=False)
    devices = fleet_sql.connect(str(staged)).execute("SELECT DISTINCT device FROM transactions")
    assert devices.fetchall() == [("a/b=c, 7%",)]


def two_jobs_at_once_write_one_data_set(world: World) -> None:
    """Both write all traces; one more process does, too."""
    dataset = world.new("two")
    process = subprocess.Popen(
        [world.oneflush, "identify", "--dataset", dataset, "--labels", world.labels,
         *world.paths()], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    words = world.words(dataset, "--traces", world.traces)
    # Standard output belongs to both.
    with redirect_stdout(io.StringIO()) as output, ThreadPoolExecutor(2) as pool:
        codes = list(pool.map(spark_identify.main, [words, words]))
    said = process.communicate()[1]
    assert codes == [0, 0] and process.returncode == 0, (codes, said, output.getvalue())
    assert_same(dataset, world.expected)


def what_is_wrong_on_the_command_line_is_said_before_spark_works(world: World) -> None:
    dataset, traces = world.new("spark"), ["--traces", world.traces]
    for words, said in [
        (["--traces", world.folder / "none"], "there is no"),
        ([*traces, "--by", "region"], "is divided by device,day"),
        ([*traces, "--partitions", "0"], "--partitions"),
    ]:
        code, output = world.spark(dataset, *words)
        assert code == 2 and said in output, (code, output)
    code, output = world.spark(dataset, *traces, labels=world.paths()[0])
    assert code == 2 and "--labels" in output, output
    code, output = world.spark(dataset, *traces, program=world.labels)
    assert code == 2 and "--oneflush" in output, output


CHECKS = [
    one_process_and_spark_write_the_same_bytes,
    what_is_copied_to_the_workers_gives_the_same_rows,
    an_object_store_gets_the_same_files,
    a_copy_that_breaks_off_anywhere_is_mended_by_the_next,
    a_run_that_is_repeated_changes_nothing,
    only_new_traces_are_identified,
    other_labels_may_divide_the_rows,
    bad_traces_have_rows_that_say_why,
    a_program_that_is_killed_is_started_again,
    a_task_whose_python_dies_is_tried_again,
    a_trace_that_ends_the_program_is_named_and_hurts_no_other,
    other_labels_of_one_trace_replace_its_rows_only,
    a_trace_that_is_in_two_files_counts_once,
    names_may_have_any_character,
    two_jobs_at_once_write_one_data_set,
    what_is_wrong_on_the_command_line_is_said_before_spark_works,
]
