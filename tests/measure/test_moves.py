"""Moving tensors: every way delivers what is right or has no number, and leaves nothing behind."""

import dataclasses
import json
import os
import random
import subprocess
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

import jinja2
import jsonschema
import psutil
import pytest
import torch

from scripts.measure import measure_moves
from scripts.measure.tensors.clips import RESERVE_BATCHES, RESIDENT_BYTES, Bench
from scripts.measure.tensors.methods import Method, opened
from scripts.measure.tensors.worker_pool import DIED
from scripts.report import render_report
from scripts.tables import moves as moves_table
from scripts.tables.columns import COLUMNS
from scripts.tables.records import read_record
from tests.support.loader_cases import nothing_left_open, write_format
from tests.support.made_corpus import make_corpus
from tests.support.programs import PROJECT, program_line

BATCH_SIZE = 4
PROGRAM = [*program_line("measure_moves")]
SCHEMA = json.loads((PROJECT / "docs" / "run.schema.json").read_text())

RAM_WAYS = {
    "create": ["empty, untouched", "zeros", "ones", "rand", "zeros, reused buffer"],
    "copy": [
        "torch clone, new tensor",
        "torch copy_, reused buffer",
        "numpy copy, new array",
        "numpy copyto, reused buffer",
    ],
    "one": ["torch index, untouched view", "torch index, clone", "torch index, reused buffer", "numpy index, copy"],
    "many": [
        "index_select, reused buffer",
        "fancy index, new tensor",
        "numpy take, reused buffer",
        "loop and stack",
        "threads, reused buffer",
    ],
    "send": ["not sent, only read"],
}
CREW_WAYS = {
    "many": ["processes, shared buffer", "processes, queue"],
    "send": ["queue, new shared memory", "queue, reused shared memory", "pipe, pickled"],
}
FILE_WAYS = {
    "one": ["mapped file, copy"],
    "many": ["mapped file, numpy take, reused buffer", "mapped file, fancy index, new array"],
}
CUDA_WAYS = {
    "create": [*RAM_WAYS["create"], "zeros on the CPU, copied", "rand on the CPU, copied"],
    "copy": ["pageable", "pinned", "pinned, non_blocking", "pin_memory, no copy"],
    "one": ["torch index, clone"],
    "many": ["index_select, reused buffer"],
}


def named(ways, device="cpu"):
    return {(move, way, device) for move, names in ways.items() for way in names}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return make_corpus(tmp_path_factory.mktemp("corpus") / "made", clips=30, seconds=0.05)


@pytest.fixture(scope="module")
def memmap(corpus, tmp_path_factory):
    folder = tmp_path_factory.mktemp("memmap")
    write_format(corpus, "memmap", folder, readers=1)
    return folder


@contextmanager
def ways_of(corpus, data=None, workers=2):
    """The ways to move clips of the corpus on the CPU, and their bench."""
    bench = Bench(12, corpus.samples, BATCH_SIZE, [0, 0])
    with opened(bench, corpus, data, workers, "cpu") as ways:
        yield {(way.move, way.name, way.device): way for way in ways}, bench


def taken(ways, seconds=0.005):
    """What is recorded of these ways."""
    found = measure_moves.take_turns(ways, seconds, random.Random(0), time.perf_counter, lambda _: None)
    return [taking.as_json(clip_bytes=3200) for taking in found]


def run_program(corpus, out, *more, settings=None):
    told = {"batch_size": BATCH_SIZE} | (settings or {})
    command = [*PROGRAM, "--corpus", corpus.root, "--out", out, "--settings", json.dumps(told), *more]
    return list(map(str, command))


@pytest.fixture
def short_folder():
    """A folder whose path is short enough for sockets, as pytest's own may not be."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        yield Path(folder)


def test_a_temporary_folder_too_long_for_sockets_is_an_error_and_no_endless_wait(tmp_path, corpus):
    long = tmp_path / ("long" * 20)
    long.mkdir()
    environment = {**os.environ, "TMPDIR": str(long)}
    command = run_program(corpus, tmp_path / "0.json")
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert f"TMPDIR: found {long}" in done.stderr and "allowed are at most 75" in done.stderr
    assert not (tmp_path / "0.json").exists()


def test_program_measures_every_way_and_leaves_nothing(tmp_path, short_folder, corpus, memmap):
    """The program itself: all ways of this machine have a number, the others a reason; no process or file is left."""
    out, own = tmp_path / "runs" / "0.json", short_folder
    command = run_program(corpus, out, "--data", memmap, "--workers", "3", "--seconds", "0.02", "--dataset", "made")
    command += ["--limit-minutes", "5"]
    process = subprocess.Popen(command, env={**os.environ, "TMPDIR": str(own)})
    seen = set()
    while process.poll() is None:
        seen |= set(psutil.Process(process.pid).children(recursive=True)) if psutil.pid_exists(process.pid) else set()
        time.sleep(0.01)
    assert process.returncode == 0
    assert len(seen) >= 4  # the child and its three workers
    assert not [child for child in seen if child.is_running()]
    assert not list(own.iterdir())
    assert not [path for path in Path("/dev/shm").glob("torch_*") if int(path.name.split("_")[1]) in pids(seen)]

    record = read_record(out)
    jsonschema.Draft202012Validator(SCHEMA).validate(record)
    assert (record["status"], record["dataset"], record["slug"]) == ("ok", "made", "cpu-b4")
    assert (record["clip_bytes"], record["workers"]) == (3200, 3)
    found = {(move["move"], move["way"], move["device"]): move for move in record["moves"]}
    assert len(found) == len(record["moves"])
    here = named(RAM_WAYS) | named(CREW_WAYS) | named(FILE_WAYS)
    assert set(found) == here | named(CUDA_WAYS, "cuda")
    assert {found[key]["status"] for key in here} == {"ok"}
    assert {found[key]["reason"] for key in named(CUDA_WAYS, "cuda")} == {"the settings ask for cpu"}
    for key in here:
        move = found[key]
        assert move["clips"] == (1 if move["move"] == "one" else BATCH_SIZE)
        assert sum(move["seconds"]) >= 0.0199
        moved = move["clips"] * move["series"] * len(move["seconds"])
        assert move["clips_per_second"] == pytest.approx(moved / sum(move["seconds"]), rel=1e-3)
        assert move["megabytes_per_second"] == pytest.approx(move["clips_per_second"] * 3200 / 1e6)
    still = {key for key, move in found.items() if not move["delivers"] and move["device"] == "cpu"}
    assert {way for _, way, _ in still} == {"empty, untouched", "torch index, untouched view", "not sent, only read"}


def pids(processes):
    return {process.pid for process in processes}


def test_without_workers_and_file_there_are_reasons(corpus):
    with ways_of(corpus, None, workers=0) as (ways, _):
        assert {ways[key].reason for key in named(CREW_WAYS)} == {"no worker processes: --workers is 0"}
        assert {ways[key].reason for key in named(FILE_WAYS)} == {"no file to map: --data was not given"}
        assert {ways[key].reason for key in named(RAM_WAYS)} == {None}


def test_a_file_of_another_corpus_is_caught(tmp_path, memmap):
    """A file of another shape is refused; one of the same shape with other clips in it delivers wrong values."""
    longer = make_corpus(tmp_path / "longer", clips=30, seconds=0.1)
    with ways_of(longer, memmap, workers=0) as (ways, _):
        reasons = {ways[key].reason for key in named(FILE_WAYS)}
    assert reasons == {"audio.npy holds float32 (23, 1, 800), the corpus has float32 (23, 1, 1600)"}
    other = make_corpus(tmp_path / "other", clips=30, seconds=0.05, seed=1)
    with ways_of(other, memmap, workers=0) as (ways, _):
        for move in taken([ways[key] for key in named(FILE_WAYS)]):
            assert (move["status"], move["clips_per_second"], move["seconds"]) == ("failed", None, [])
            assert move["reason"].startswith("delivers other values: ")


def test_nothing_is_left_open(corpus, memmap):
    with nothing_left_open():
        take_each(corpus, memmap)


def take_each(corpus, memmap):
    with ways_of(corpus, memmap) as (ways, _):
        assert {move["status"] for move in taken(list(ways.values()))} == {"ok", "skipped"}


GATHERS = sorted(named(RAM_WAYS) | named(CREW_WAYS) | named(FILE_WAYS))


@pytest.mark.parametrize("key", [key for key in GATHERS if key[0] in ("copy", "one", "many", "send")], ids=str)
def test_a_wrong_gather_is_caught(corpus, memmap, key):
    """Every way that moves clips fails and has no number when it delivers others, at once or only later."""
    with ways_of(corpus, memmap) as (ways, _):
        way = ways[key]
        broken = [dataclasses.replace(way, run=run, prepare=prepare) for run, prepare in wrong(way)]
        for move in taken([way, *broken])[1:]:
            assert (move["status"], move["clips_per_second"], move["seconds"]) == ("failed", None, [])
            assert move["reason"].startswith("delivers other values: ")


def wrong(way):
    """What a way does with the clips of another turn, or with others after its first check."""
    if way.prepare:
        yield way.run, lambda turn: way.prepare(turn + 1)
        yield way.run, lambda turn: way.prepare(turn + (turn > 0))
    else:
        yield lambda turn: way.run(turn + 1), None
        yield lambda turn: way.run(turn) + (turn > 0), None


def one_value(way, _):
    got = way.run(0).clone()
    got[-1, 0, -1] += 1
    return got


def stale(way, _):
    return way.reused


def halved(way, turn):
    return way.run(turn)[:2]


def doubled(way, turn):
    return way.run(turn).double()


def broken(_, turn):
    raise IndexError(f"turn {turn}\nand more")


FAULTS = {
    one_value: "delivers other values: 1 of 4 clips, the first is number 3",
    stale: "delivers other values: 4 of 4 clips, the first is number 0",
    halved: "delivers torch.float32 (2, 1, 800), expected is torch.float32 (4, 1, 800)",
    doubled: "delivers torch.float64 (4, 1, 800), expected is torch.float32 (4, 1, 800)",
    broken: "IndexError: turn 0",
}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_a_fault_has_its_reason_and_does_not_end_the_others(corpus, fault):
    with ways_of(corpus, workers=0) as (ways, _):
        right = ways["many", "index_select, reused buffer", "cpu"]
        wrong, after = taken([dataclasses.replace(right, run=lambda turn: fault(right, turn)), right])
    assert (wrong["status"], wrong["reason"], wrong["seconds"]) == ("failed", FAULTS[fault], [])
    assert after["status"] == "ok"


def test_created_values_are_checked(corpus):
    with ways_of(corpus, workers=0) as (ways, bench):
        zeros, rand = (ways["create", name, "cpu"] for name in ("zeros", "rand"))
        moves = taken(
            [
                dataclasses.replace(zeros, run=lambda _: torch.ones(bench.shape)),
                dataclasses.replace(rand, run=lambda _: torch.zeros(bench.shape)),
            ]
        )
    assert [move["status"] for move in moves] == ["failed", "failed"]


def test_an_error_in_a_worker_is_a_reason(corpus):
    """A worker that cannot do what it is told says why; the next order finds it at work."""
    with ways_of(corpus) as (_, bench):
        far = bench.batch(0) + 1000
        for order in (bench.pool.fill, bench.pool.prepare, lambda where: bench.pool.collect(where, bench.buffer)):
            with pytest.raises(RuntimeError, match=r"a worker: \w+Error: .*out of"):
                order(far)
        assert torch.equal(bench.pool.fill(bench.batch(1)), bench.truth(bench.batch(1)))
        assert torch.equal(bench.pool.collect(bench.batch(2), bench.buffer), bench.truth(bench.batch(2)))


def test_a_killed_worker_is_a_reason(corpus):
    """Ways that need it fail; the others go on, and the end waits for nobody."""
    with nothing_left_open():
        *crew, other = with_a_killed_worker(corpus)
    assert {move["status"] for move in crew} == {"failed"}
    assert all(DIED in move["reason"] or "BrokenPipe" in move["reason"] for move in crew)
    assert other["status"] == "ok"


def with_a_killed_worker(corpus):
    with ways_of(corpus) as (ways, bench):
        bench.pool.processes[0].kill()
        return taken([ways[key] for key in sorted(named(CREW_WAYS))] + [ways["many", "loop and stack", "cpu"]])


def test_a_killed_program_leaves_no_record_and_no_process(tmp_path, corpus):
    """kill -9 while the workers are there: they end as well."""
    out = tmp_path / "0.json"
    process = subprocess.Popen(run_program(corpus, out, "--workers", "2", "--seconds", "30"))
    children = []
    while len(children) < 3:
        children = psutil.Process(process.pid).children(recursive=True)
        time.sleep(0.05)
    process.kill()
    process.wait()
    _, alive = psutil.wait_procs(children, timeout=300)
    assert not alive
    assert not list(tmp_path.glob("*0.json*"))


class Machine:
    """A clock that stands still but for what is done: each move takes the time of its way; notes who moved."""

    def __init__(self):
        self.now, self.moved = 0.0, []

    def clock(self):
        return self.now

    def way(self, name, seconds, **rest):
        def run(_):
            self.now += seconds
            self.moved.append(name)
            return torch.zeros(1)

        return Method("create", name, BATCH_SIZE, run, lambda _, __: None, **rest)

    def take(self, ways, seconds):
        phases = []
        found = measure_moves.take_turns(ways, seconds, random.Random(0), self.clock, phases.append)
        assert phases == ["before", "after"]
        return {taking.way.name: taking for taking in found}


def moved(seed):
    """Which way moved when, in the timed rounds of three ways."""
    machine, ends = Machine(), []
    ways = [machine.way(name, 1.0) for name in "abc"]
    noted = lambda _: ends.append(len(machine.moved))  # noqa: E731
    measure_moves.take_turns(ways, 5.0, random.Random(seed), machine.clock, noted)
    return machine.moved[slice(*ends)]


def test_ways_take_turns_in_a_seeded_order():
    """Five rounds; in each, each way once, in one piece; the order is that of the seed."""
    names = moved(seed=0)
    assert len(names) == 5 * 3 * 2  # an untimed series, and a time of a second
    assert names[::2] == names[1::2]
    rounds = [names[start : start + 6 : 2] for start in range(0, 30, 6)]
    assert all(sorted(turns) == ["a", "b", "c"] for turns in rounds)
    assert len(set(map(tuple, rounds))) > 1
    assert moved(seed=0) == names != moved(seed=1)


@pytest.mark.parametrize("seconds", [1e-6, 1e-4, 0.003, 0.05, 3.0])
def test_times_are_enough_and_not_too_many(seconds):
    """At least five times and the seconds asked for, at most some hundred times; the rate is that of the moves."""
    machine = Machine()
    taking = machine.take([machine.way("a", seconds)], 0.2)["a"]
    assert 5 <= len(taking.seconds) <= 300
    assert sum(taking.seconds) >= 0.2 - 1e-9
    assert taking.as_json(1)["clips_per_second"] == pytest.approx(BATCH_SIZE / seconds, rel=1e-3)


def test_preparing_is_not_timed_and_waiting_is():
    machine = Machine()

    def pass_time(*_):
        machine.now += 7.0

    found = machine.take(
        [
            machine.way("prepared", 1.0, prepare=pass_time),
            machine.way("waited", 1.0, finish=pass_time),
            machine.way("in series", 1.0, finish=pass_time, least=8),
        ],
        1.0,
    )
    assert {name: set(taking.seconds) for name, taking in found.items()} == {
        "prepared": {1.0},
        "waited": {8.0},
        "in series": {15.0},
    }


def test_without_a_gpu_its_moves_are_skipped(tmp_path, corpus):
    out = tmp_path / "0.json"
    hidden = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    subprocess.run(run_program(corpus, out, settings={"device": "cuda"}), check=True, env=hidden)
    record = read_record(out)
    assert (record["status"], record["slug"], record["moves"]) == ("skipped", "cuda-b4", [])
    [row] = moves_table.rows([record])
    assert (row["way"], row["device"], row["status"], row["runs"]) == ("all", "cuda", "skipped", 0)
    assert row["reason"] == "no GPU that torch can use is visible to this process"


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_every_way_on_a_gpu(tmp_path, corpus):
    out = tmp_path / "0.json"
    subprocess.run(run_program(corpus, out, "--seconds", "0.02", settings={"device": "cuda"}), check=True)
    found = {(move["move"], move["way"], move["device"]): move for move in read_record(out)["moves"]}
    wanted = named(RAM_WAYS) | named(CREW_WAYS) | named(CUDA_WAYS, "cuda")
    assert {key: found[key]["reason"] for key in wanted} == dict.fromkeys(wanted)


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        (
            ["--settings", '{"batch": 3}'],
            "found 'batch', allowed are 'device' and 'batch_size'. Did you mean 'batch_size'?",
        ),
        (["--settings", '{"batch_size": 0}'], "--settings: batch_size: found 0, allowed is a whole number"),
        (["--settings", '{"device": "gpu"}'], '--settings: device: found "gpu", allowed is "cpu" and "cuda"'),
        (["--workers", "-1"], "--workers: found -1, allowed is 0 or more"),
        (["--data", "nowhere"], "--data: nowhere/train/audio.npy is not there"),
    ],
)
def test_mistakes_are_told(tmp_path, corpus, more, expected):
    done = subprocess.run(run_program(corpus, tmp_path / "0.json", *more), capture_output=True, text=True)
    assert done.returncode == 2
    assert expected in done.stderr
    assert "Traceback" not in done.stderr


def test_memory_is_bounded():
    """All ways together stay within a quarter of what is available; where a batch does not fit, nothing is measured."""
    clip, batch, gigabytes = 640_000, 32, 10**9
    for available in (3 * gigabytes, 8 * gigabytes, 500 * gigabytes):
        clips = measure_moves.resident_clips(10**6, batch, clip, available)
        assert batch <= clips <= RESIDENT_BYTES // clip
        assert (clips + RESERVE_BATCHES * batch) * clip <= available / 4
    assert measure_moves.resident_clips(461, batch, clip, 500 * gigabytes) == 461
    assert measure_moves.resident_clips(3, batch, clip, 500 * gigabytes) == batch
    assert measure_moves.resident_clips(10**6, batch, clip, 1 * gigabytes) == 0


def made(way, speed, move="many", status="ok", delivers=True, clips=4, device="cpu", reason=None):
    rates = {"clips_per_second": speed, "megabytes_per_second": speed and speed / 100}
    what = {"move": move, "way": way, "device": device, "clips": clips, "delivers": delivers}
    return {**what, **rates, "status": status, "reason": reason}


def test_rows_are_medians_compared_with_the_fastest():
    """Over runs, per move, device and size of a batch; what delivers nothing is the fastest of none."""
    runs = [
        {"moves": [made("take", 200.0), made("stack", speed), made("nothing", 9e9, delivers=False)]}
        for speed in (40.0, 50.0, 100.0)
    ]
    runs.append({"moves": [made("take", 300.0, clips=8), made("send it", 7.0, move="send")]})
    rows = moves_table.rows(runs)
    shown = [(row["way"], row["clips"], row["clips_per_second"], row["runs"], row["times_slower"]) for row in rows]
    assert shown == [
        ("take", 4, 200.0, 3, 1.0),
        ("stack", 4, 50.0, 3, 4.0),
        ("nothing", 4, 9e9, 3, None),
        ("take", 8, 300.0, 1, 1.0),
        ("send it", 4, 7.0, 1, 1.0),
    ]
    assert (rows[1]["lowest"], rows[1]["highest"], rows[1]["megabytes_per_second"]) == (40.0, 100.0, 0.5)
    assert {tuple(row) for row in rows} == {COLUMNS["moves"]}


def test_a_failed_run_takes_the_number_and_a_skipped_one_does_not():
    failed, skipped = (
        made("a", None, status="failed", reason="wrong"),
        made("b", None, status="skipped", reason="no GPU"),
    )
    rows = moves_table.rows([{"moves": [made("a", 1.0), made("b", 2.0)]}, {"moves": [failed, skipped]}])
    assert [(row["way"], row["status"], row["reason"], row["runs"]) for row in rows] == [
        ("b", "ok", "", 1),
        ("a", "failed", "wrong", 0),
    ]


def test_a_crash_is_a_row():
    record = {"moves": [], "status": "failed", "reason": "SIGBUS", "settings": {"device": "cpu", "batch_size": 4}}
    [row] = moves_table.rows([record])
    assert (row["move"], row["way"], row["status"], row["reason"]) == ("all", "all", "failed", "SIGBUS")
    assert "SIGBUS" in page([row])


def page(rows):
    """The part of the report that shows these rows."""
    loader = jinja2.FileSystemLoader(render_report.TEMPLATE)
    environment = jinja2.Environment(loader=loader, autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True)
    environment.filters["number"] = render_report.number_text
    return environment.get_template("moves.html.j2").render(moves=rows)


def test_the_part_of_the_report_shows_every_row():
    hostile = "<script>alert(1)</script>"
    rows = moves_table.rows(
        [
            {
                "moves": [
                    made("take", 1234.0),
                    made("wrong", None, status="failed", reason=hostile),
                    made("x", 5.0, "send"),
                ]
            }
        ]
    )
    html = page(rows)
    assert "<script" not in html
    assert "&lt;script&gt;" in html
    assert html.count("<tbody>") == 2
    assert [text in html for text in ("take", "1,234", "12.3", "failed: ", "1 run")] == [True] * 5
