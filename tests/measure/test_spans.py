"""The batch timeline: planted times come back in the right track and order, its table, its figure, and who has one."""

import json
import subprocess
import time
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import ClassVar

import jsonschema
import pytest
import torch
from matplotlib import pyplot as plt

from scripts.common import plugins
from scripts.common.files import read_json, write_json
from scripts.common.plan_file import read_plan
from scripts.loaders import _torch
from scripts.measure import spans
from scripts.measure.sink import Sink
from scripts.measure.step import Stepped
from scripts.report import charts, draw_figures
from scripts.tables import make_tables, spans as span_table
from scripts.tables.columns import read_tables
from tests.support import planted
from tests.support.isolated_cases import can_be_tested
from tests.support.loader_cases import item_order, nothing_left_open, request_for, unsuited, write_format
from tests.support.made_corpus import make_corpus
from tests.support.made_runs import Made, make_results, record_path
from tests.support.programs import PROJECT, program_line

SCHEMA = read_json(PROJECT / "docs" / "run.schema.json")
ITEMS = 160


def noted(workers=2, items=ITEMS, step=0.0, **seconds) -> list[dict]:
    """Return the spans of the first 12 batches, of 8 items, of a planted loader."""
    opened = planted.opener(planted.Planted(**seconds), planted.request(workers, items))
    return spans.timeline(opened, Stepped(Sink("cpu"), step, time.perf_counter) if step else Sink("cpu"), 12)


def by_batch(found, phase) -> dict[int, dict]:
    """Return the one span of a phase that each batch has."""
    ordered = [span for span in found if span["phase"] == phase]
    assert len({span["batch"] for span in ordered}) == len(ordered)
    return {span["batch"]: span for span in ordered}


def assert_main_is_tiled(found, batches) -> None:
    """`wait` and `step` follow one another from the start of the epoch, without a gap."""
    wait, step = by_batch(found, "wait"), by_batch(found, "step")
    assert list(wait) == list(step) == list(range(batches))
    assert {span["track"] for span in (*wait.values(), *step.values())} == {"main"}
    tiles = [span for batch in range(batches) for span in (wait[batch], step[batch])]
    assert tiles[0]["start_seconds"] == 0
    for before, after in pairwise(tiles):
        assert before["start_seconds"] <= before["end_seconds"] == after["start_seconds"]


def within(inner, outer) -> bool:
    return outer["start_seconds"] <= inner["start_seconds"] <= inner["end_seconds"] <= outer["end_seconds"]


def seconds_of(span) -> float:
    return span["end_seconds"] - span["start_seconds"]


def test_workers_have_lanes_of_their_own_in_which_planted_times_come_back():
    found = noted(read=0.1, transfer=0.03)  # so long a read that the first batch is asked for before its end
    assert_main_is_tiled(found, 12)
    read, transfer, wait = (by_batch(found, phase) for phase in ("read", "transfer", "wait"))
    assert set(read) == set(transfer) == set(range(12))
    assert {span["track"] for span in read.values()} == {"worker 0", "worker 1"} and read[0]["track"] == "worker 0"
    assert {span["track"] for span in transfer.values()} == {"main"}
    assert all(seconds_of(span) >= 0.0999 for span in read.values()), "asleep at least so long"
    assert seconds_of(transfer[0]) >= 0.0299, "the first batch was waited for while it was pickled"
    for batch in range(12):
        assert within(transfer[batch], wait[batch])
        assert read[batch]["end_seconds"] <= transfer[batch]["start_seconds"]
    for track in ("worker 0", "worker 1"):
        own = [span for span in found if span["track"] == track]
        assert len(own) >= 3
        for before, after in pairwise(own):
            assert before["end_seconds"] <= after["start_seconds"], "a process reads one batch at a time"
    assert {span["phase"] for span in found} == {"read", "transfer", "wait", "step"}, "it collates as it reads"


def test_a_batch_that_lies_ready_is_in_no_transfer():
    """Nobody waits for what is made during a step: waiting for it begins where it is asked for."""
    found = noted(step=0.03)
    assert_main_is_tiled(found, 12)
    transfer, wait, step = (by_batch(found, phase) for phase in ("transfer", "wait", "step"))
    assert all(within(transfer[batch], wait[batch]) and seconds_of(step[batch]) >= 0.0299 for batch in range(12))


class SlowFile:
    """A file that takes a while to be read."""

    read: ClassVar[list[int]] = []

    def __init__(self, position) -> None:
        self.position = position

    def read_bytes(self) -> bytes:
        time.sleep(0.002)
        self.read.append(self.position)
        return b""


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("by", ["batch", "item"])
def test_files_that_are_to_be_decoded_are_read_before(workers, by):
    def batch_of(positions):
        count = len(positions)
        known = {"audio": torch.zeros(count, 1, 100), "labels": torch.zeros(count, 3)}
        return {**known, "target": torch.zeros(count, dtype=torch.int64), "item": torch.tensor(positions)}

    class Files(torch.utils.data.Dataset):
        def files_to_decode(self, positions):
            return map(SlowFile, positions)

        def __getitem__(self, position):
            time.sleep(0.004)
            return {name: tensor[0] for name, tensor in batch_of([position]).items()}

    class Batches(Files):
        def __getitems__(self, positions):
            time.sleep(0.004 * len(positions))
            return batch_of(positions)

    asked = planted.request(workers)

    @contextmanager
    def opened(**changes):
        files = Batches() if by == "batch" else Files()
        with _torch.epochs_of(replace(asked, **changes), files) as epoch:
            yield epoch

    SlowFile.read.clear()
    with nothing_left_open():
        found = spans.timeline(opened, Sink("cpu"), 4)
    read, decode = by_batch(found, "read"), by_batch(found, "decode")
    assert set(read) == set(decode) == set(range(4))
    for batch in range(4):
        assert read[batch]["track"] == decode[batch]["track"] == (f"worker {batch % 2}" if workers else "main")
        assert seconds_of(read[batch]) >= 0.0159 and seconds_of(decode[batch]) >= 0.0319, "8 files a batch"
        assert read[batch]["end_seconds"] == decode[batch]["start_seconds"]
    collate = by_batch(found, "collate")
    assert set(collate) == (set() if by == "batch" else set(range(4))), "it collates as it reads"
    assert all(decode[batch]["end_seconds"] <= span["start_seconds"] for batch, span in collate.items())
    assert all(decode[batch]["track"] == span["track"] for batch, span in collate.items())
    assert len(SlowFile.read) == (0 if workers else 4 * 8), "of the batches that are noted alone, where they are made"


def test_decoding_is_part_of_reading_where_the_files_are_not_known():
    assert all(seconds_of(span) >= 0.0399 for span in by_batch(noted(read=0.01, decode=0.03), "read").values())


def test_without_workers_reading_is_part_of_waiting():
    found = noted(workers=0, read=0.005)
    assert_main_is_tiled(found, 12)
    assert {span["track"] for span in found} == {"main"}
    assert {span["phase"] for span in found} == {"read", "wait", "step"}, "nothing is handed over"
    read, wait = by_batch(found, "read"), by_batch(found, "wait")
    assert all(within(read[batch], wait[batch]) and seconds_of(read[batch]) >= 0.0049 for batch in range(12))


class Scene:
    """A loader of its own kind, a sink and a cold cache; and what happened."""

    def __init__(self) -> None:
        self.events = []

    @contextmanager
    def opened(self, spans):
        assert spans is not None
        self.events.append("open")
        yield self.epoch
        self.events.append("close")

    def epoch(self, number):
        for batch in range(3):
            yield f"{number}.{batch}"

    def consume(self, batch):
        self.events.append(batch)

    def finish(self):
        self.events.append("finish")

    def evict(self):
        self.events.append("evict")


def test_any_loader_has_the_track_of_the_main_process():
    scene = Scene()
    found = spans.timeline(scene.opened, scene, 12)
    assert_main_is_tiled(found, 3)
    assert len(found) == 6


def test_the_epoch_begins_as_a_timed_one_and_is_left_when_its_first_batches_are_there():
    scene = Scene()
    spans.timeline(scene.opened, scene, 2)
    assert scene.events == ["open", "0.0", "0.1", "0.2", "finish", "1.0", "1.1", "finish", "close"]
    scene = Scene()
    spans.timeline(scene.opened, scene, 2, cold=scene)
    assert scene.events == ["evict", "open", "0.0", "0.1", "finish", "close"]


def test_a_short_epoch_is_noted_whole():
    found = noted(items=20)
    assert_main_is_tiled(found, 3)
    assert set(by_batch(found, "read")) == {0, 1, 2}


def test_as_many_batches_as_are_some_for_each_worker_and_a_bounded_number_of_spans():
    assert [spans.batches_for(workers) for workers in (0, 2, 4, 8, 64)] == [12, 12, 12, 24, 40]
    assert SCHEMA["$defs"]["run"]["properties"]["spans"]["maxItems"] == 6 * spans.MOST_BATCHES


@pytest.fixture(scope="module")
def placed(tmp_path_factory):
    """A corpus and a format of it."""
    folder = tmp_path_factory.mktemp("spans")
    corpus = make_corpus(folder / "corpus", items=40, seconds=0.1)
    write_format(corpus, "memmap", folder / "memmap", readers=1)
    return corpus, folder


@pytest.mark.parametrize("workers", [0, 2])
def test_the_batches_are_the_same_as_without(placed, tmp_path, workers):
    corpus, folder = placed
    notes = spans.Notes(tmp_path / "spans.jsonl", 1, 3)
    plain, watched = (
        request_for(corpus, "numpy_memmap", folder / "memmap", workers=workers, spans=asked) for asked in (None, notes)
    )
    with nothing_left_open():
        orders = three_epochs(watched)
    assert orders == three_epochs(plain)
    assert sorted((one.batch, *one.times) for one in notes.read()) == [
        (batch, phase) for batch in range(3) for phase in ("arrival", "read")
    ], "of epoch 1 alone"


def three_epochs(request) -> list[list[list[int]]]:
    """Return the items of each batch of three epochs."""
    with plugins.load("loaders", "numpy_memmap").open_epochs(request) as epoch:
        return [item_order(epoch, number) for number in range(3)]


FROM_FILES = [
    one
    for one in can_be_tested("loaders")
    if "path" in getattr(plugins.load("loaders", one), "READS", ["path"])
    and "audio" in plugins.kinds(plugins.load("loaders", one))
]


@pytest.mark.parametrize("loader", FROM_FILES)  # those of a bucket have threads of their own, which note nothing
def test_every_loader_has_a_timeline(placed, loader):
    """With two workers or threads, where it has such; being in the folder is being tested."""
    corpus, folder = placed
    module = plugins.load("loaders", loader)
    if not (folder / module.FORMAT).exists():
        write_format(corpus, module.FORMAT, folder / module.FORMAT, readers=2)
    asked = request_for(corpus, loader, folder / module.FORMAT, workers=2)
    if reason := unsuited(module, asked):
        pytest.skip(reason)
    with nothing_left_open():
        found = spans.timeline(lambda **changes: module.open_epochs(replace(asked, **changes)), Sink("cpu"), 3)
    assert_main_is_tiled(found, 3)
    assert {span["batch"] for span in found} == {0, 1, 2}
    if is_a_data_loader(module):
        assert set(by_batch(found, "read")) == {0, 1, 2}
        decoded = {0, 1, 2} if module.FORMAT == "wav" else set()
        assert set(by_batch(found, "decode")) == decoded, "that of other formats is no work of its own"
    else:
        assert {span["phase"] for span in found} == {"wait", "step"}


def is_a_data_loader(module) -> bool:
    """Whether what a loader makes is a DataLoader over a map-style Dataset: such note what their workers do."""
    text = Path(module.__file__).read_text()
    return "data_loader(" in text or "DataLoader(dataset, shuffle=True" in text or hasattr(module, "gathering")


def run(placed, tmp_path, *options, name="numpy_memmap") -> subprocess.CompletedProcess:
    command = [*program_line("run_loader"), "--loader", name]
    command += ["--data", placed[1] / "memmap", "--corpus", placed[1] / "corpus", "--out", tmp_path / "run.json"]
    return subprocess.run([*command, "--seconds", "0.05", *options], capture_output=True, text=True)


@pytest.mark.parametrize(("cache", "more"), [("warm", []), ("cold", ["--bottlenecks"])])
def test_a_record_holds_them_and_keeps_to_the_schema(placed, tmp_path, cache, more):
    settings = json.dumps({"workers": 1, "batch_size": 8})
    done = run(placed, tmp_path, "--timeline", *more, "--cache", cache, "--settings", settings)
    assert done.returncode == 0, done.stderr
    record = read_json(tmp_path / "run.json")
    jsonschema.validate(record, SCHEMA)
    if cache == "cold" and record["status"] == "skipped":
        pytest.skip(record["reason"])
    assert record["status"] == "ok", record["reason"]
    assert not [warning for warning in record["warnings"] if warning["code"] in ("no-timeline", "no-bottleneck-trials")]
    batches = -(-record["items"] // 8)
    assert_main_is_tiled(record["spans"], batches)
    assert {span["track"] for span in record["spans"]} == {"main", "worker 0"}
    assert set(by_batch(record["spans"], "read")) == set(range(batches))


def test_a_limited_cache_has_none(placed, tmp_path):
    done = run(placed, tmp_path, "--timeline", "--cache", "limited")
    assert done.returncode != 0 and "--timeline: found --cache limited" in done.stderr
    assert not (tmp_path / "run.json").exists()


def test_the_number_stands_where_the_loader_breaks_in_that_epoch_or_when_a_stage_is_left_out(placed, tmp_path):
    (tmp_path / "mine.py").write_text('''"""Breaks when it is looked at, or is to leave out what it says it can."""
from contextlib import contextmanager
from scripts.common import plugins
FORMAT = "memmap"
OPTIONS = {"gather": {"enum": ["batch", "item"], "default": "item"}}
STAGES = ("read",)

@contextmanager
def open_epochs(request):
    if request.spans:
        raise ValueError("not again")
    if request.without:
        raise KeyError("read")
    with plugins.load("loaders", "numpy_memmap").open_epochs(request) as epoch:
        yield epoch
''')
    done = run(placed, tmp_path, "--timeline", "--bottlenecks", "--file", tmp_path / "mine.py", name="mine")
    assert done.returncode == 0, done.stderr
    record = read_json(tmp_path / "run.json")
    assert record["status"] == "ok" and record["items_per_second"] > 0
    assert record["spans"] is None and record["bottleneck_trials"] is None
    seen = {warning["code"]: warning["seen"] for warning in record["warnings"]}
    assert seen["no-timeline"] == "opened once more for the batch timeline it broke: ValueError: not again"
    assert seen["no-bottleneck-trials"] == "with parts of its work left out it broke: KeyError: 'read'"


def span(track, batch, phase, start, end) -> dict:
    """A span of a record, from `start` to `end` ms."""
    times = {"start_seconds": start / 1000, "end_seconds": end / 1000}
    return {"track": track, "batch": batch, "phase": phase, **times}


ALONE = [span("main", 0, "wait", 0, 4), span("main", 0, "read", 1, 3.5), span("main", 0, "step", 4, 5.25)]
HANDED = [
    *(span("main", 0, "wait", 0, 10), span("worker 0", 0, "read", 1, 4), span("worker 1", 1, "read", 1, 12)),
    *(span("worker 0", 0, "collate", 4, 5), span("main", 0, "transfer", 5, 10), span("main", 0, "step", 10, 11)),
    *(span("main", 1, "wait", 11, 13), span("main", 1, "transfer", 12, 13), span("main", 1, "step", 13, 20)),
]


def test_rows_are_those_of_the_first_run_of_each_result_that_has_spans():
    row = {"loader": "a", "tier": "ram", "slug": "cpu-b8", "status": "ok", "repeat": 0}
    pairs = [
        ({**row, "slug": "none"}, None),
        ({**row, "slug": "old"}, {}),
        ({**row, "slug": "failed", "status": "failed"}, {"spans": ALONE}),
        (row, {"spans": None}),
        ({**row, "repeat": 1}, {"spans": ALONE}),
        ({**row, "repeat": 2}, {"spans": HANDED}),
    ]
    named = {"loader": "a", "tier": "ram", "slug": "cpu-b8", "track": "main", "batch": 0}
    assert list(span_table.rows(pairs)) == [
        {**named, "phase": "wait", "start_ms": 0, "end_ms": 4},
        {**named, "phase": "read", "start_ms": 1, "end_ms": 3.5},
        {**named, "phase": "step", "start_ms": 4, "end_ms": 5.25},
    ]


@pytest.fixture
def drawn(tmp_path):
    """Draw made results, each with its spans; return the figure's titles and the figure."""

    def draw(*made_and_spans):
        path = make_results(tmp_path, [made for made, _ in made_and_spans])
        plan = read_plan(path)
        for made, found in made_and_spans:
            entry = next(run for run in plan["results"] if (run["loader"], run["slug"]) == (made.loader, made.slug))
            record = read_json(record_path(tmp_path, entry))
            write_json(record_path(tmp_path, entry), {**record, "spans": found})
        make_tables.make_tables(plan, tmp_path, tmp_path / "tables")
        figure = draw_figures.picture(charts.load("timeline"), read_tables(tmp_path / "tables"))
        return [axis.get_title() for axis in figure.axes], figure

    yield draw
    plt.close("all")


def test_the_results_that_are_drawn_are_chosen_by_a_rule(drawn):
    direct = [one for one in HANDED if one["phase"] != "transfer"]
    titles, figure = drawn(
        (Made("quick", "ram", [900.0], workers=2), direct),
        (Made("middle", "ram", [500.0], workers=2), direct),
        (Made("costly", "ram", [400.0], workers=2), HANDED),
        (Made("slow", "ram", [100.0], workers=2), direct),
        (Made("bare", "ram", [2000.0], workers=0), [one for one in ALONE if one["phase"] != "read"]),
        (Made("alone", "ram", [1000.0], workers=0), ALONE),
        (Made("none", "ram", [3000.0], workers=0), None),
        (Made("other", "tape", [5000.0], workers=2), HANDED),
        (Made("cold", "ram", [5000.0], workers=2, cache="cold"), HANDED),
    )
    assert [title.partition("\n")[0] for title in titles] == [
        "The safest of the leaders: other on tape",
        "Slowest with a timeline: slow on ram",
    ]
    assert "2 of 8 runs are drawn here" in figure.get_supxlabel()


def test_lanes_end_where_a_worker_is_through_with_what_was_noted(drawn):
    [title], figure = drawn((Made("a", "ram", [900.0], workers=2), HANDED))
    axis = figure.axes[0]
    assert title == "To use: a on ram\nbatch 32, 2 workers, prefetch 2"
    assert [label.get_text() for label in axis.get_yticklabels()] == ["main process", "worker 0", "worker 1"]
    assert axis.get_xlim() == (0, 5), "worker 0 has read and collated its only batch"
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert [label.split()[0].rstrip(":") for label in labels] == ["wait", "read", "collate"]
    assert figure.get_supxlabel().startswith("CPU.")


def test_without_workers_the_axis_ends_with_the_main_process(drawn):
    [title], figure = drawn((Made("a", "ram", [900.0], workers=0), ALONE))
    assert title.startswith("To use: a on ram")
    assert figure.axes[0].get_xlim() == (0, 5.25)


def test_without_spans_it_says_what_it_would_need(drawn):
    _, figure = drawn((Made("a", "ram", [900.0]), None))
    [text] = figure.axes[0].texts
    assert "timeline: candidates below measure" in " ".join(text.get_text().split())
