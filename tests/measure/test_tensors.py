"""Moving tensors: every method delivers what is right or has no number, and leaves nothing behind."""

import dataclasses
import json
import os
import random
import subprocess
import tempfile
import time
from collections import Counter
from contextlib import contextmanager
from pathlib import Path

import jsonschema
import psutil
import pytest
import torch

from scripts.kinds import array, image
from scripts.measure.tensors import taking
from scripts.measure.tensors.items import RESERVE_BATCHES, RESIDENT_BYTES, Bench
from scripts.measure.tensors.methods import MAPPED, Method, opened
from scripts.measure.tensors.worker_pool import DIED
from scripts.tables import tensors as tensors_table
from scripts.tables.columns import COLUMNS
from scripts.tables.records import read_record
from tests.support.loader_cases import nothing_left_open, write_format
from tests.support.made_corpus import make_corpus
from tests.support.programs import PROJECT, program_line

BATCH_SIZE = 4
PROGRAM = [*program_line("measure_tensors")]
SCHEMA = json.loads((PROJECT / "docs" / "run.schema.json").read_text())


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return make_corpus(tmp_path_factory.mktemp("corpus") / "made", items=30, seconds=0.05)


@pytest.fixture(scope="module")
def memmap(corpus, tmp_path_factory):
    folder = tmp_path_factory.mktemp("memmap")
    write_format(corpus, "memmap", folder, readers=1)
    return folder


def of_file(methods):
    """Those that read the mapped file."""
    return [method for method in methods.values() if method.name.startswith(MAPPED)]


def of_pool(methods):
    """Those that worker processes take part in."""
    return [one for one in methods.values() if "processes" in one.name or (one.operation == "send" and one.delivers)]


@contextmanager
def ways_of(corpus, data=None, workers=2):
    """The methods to operation items of the corpus on the CPU, and their bench."""
    bench = Bench(12, corpus.sample, BATCH_SIZE, [0, 0])
    with opened(bench, corpus, data, workers, "cpu") as methods:
        yield {(method.operation, method.name, method.device): method for method in methods}, bench


def taken(methods, seconds=0.005):
    """What is recorded of these methods."""
    found = taking.take_turns(methods, seconds, random.Random(0), time.perf_counter, lambda _: None)
    return [taking.as_json(item_bytes=3200) for taking in found]


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
    """The program: all methods of this machine have a number, the others a reason; no process or file is left."""
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
    assert (record["item_bytes"], record["workers"]) == (3200, 3)
    found = {
        (operation["operation"], operation["method"], operation["device"]): operation for operation in record["tensors"]
    }
    assert len(found) == len(record["tensors"])
    here = [key for key in found if key[2] == "cpu"]
    assert Counter(operation for operation, _, _ in here) == {"create": 5, "copy": 4, "one": 5, "many": 9, "send": 4}
    assert {found[key]["status"] for key in here} == {"ok"}
    on_gpu = [key for key in found if key[2] == "cuda"]
    assert Counter(operation for operation, _, _ in on_gpu) == {"create": 7, "copy": 4, "one": 1, "many": 1}
    assert {found[key]["reason"] for key in on_gpu} == {"the settings ask for cpu"}
    for key in here:
        operation = found[key]
        assert operation["items"] == (1 if operation["operation"] == "one" else BATCH_SIZE)
        assert sum(operation["seconds"]) >= 0.0199
        moved = operation["items"] * operation["series"] * len(operation["seconds"])
        assert operation["items_per_second"] == pytest.approx(moved / sum(operation["seconds"]), rel=1e-3)
        assert operation["megabytes_per_second"] == pytest.approx(operation["items_per_second"] * 3200 / 1e6)
    still = {key for key, operation in found.items() if not operation["delivers"] and operation["device"] == "cpu"}
    assert {method for _, method, _ in still} == {
        "empty, untouched",
        "torch index, untouched view",
        "not sent, only read",
    }


def pids(processes):
    return {process.pid for process in processes}


def test_without_workers_and_file_there_are_reasons(corpus):
    with ways_of(corpus, None, workers=0) as (methods, _):
        reasons = {
            "no worker processes: --workers is 0": of_pool(methods),
            "no file to map: --data was not given": of_file(methods),
        }
        for reason, lacking in reasons.items():
            assert {method.reason for method in lacking} == {reason}
        lacking = sum(map(len, reasons.values()))
        here = [method for method in methods.values() if method.device == "cpu"]
        assert [method.reason for method in here].count(None) == len(here) - lacking


def test_a_file_of_another_corpus_is_caught(tmp_path, memmap):
    """A file of another shape is refused; one of the same shape with other items in it delivers wrong values."""
    longer = make_corpus(tmp_path / "longer", items=30, seconds=0.1)
    with ways_of(longer, memmap, workers=0) as (methods, _):
        reasons = {method.reason for method in of_file(methods)}
    assert reasons == {"audio.npy holds float32 (23, 1, 800), the corpus has float32 (23, 1, 1600)"}
    other = make_corpus(tmp_path / "other", items=30, seconds=0.05, seed=1)
    with ways_of(other, memmap, workers=0) as (methods, _):
        for operation in taken(of_file(methods)):
            assert (operation["status"], operation["items_per_second"], operation["seconds"]) == ("failed", None, [])
            assert operation["reason"].startswith("delivers other values: ")


def test_nothing_is_left_open(corpus, memmap):
    with nothing_left_open():
        take_each(corpus, memmap)


def take_each(corpus, memmap):
    with ways_of(corpus, memmap) as (methods, _):
        assert {operation["status"] for operation in taken(list(methods.values()))} == {"ok", "skipped"}


def test_a_wrong_gather_is_caught(corpus, memmap):
    """Every method that moves items fails and has no number when it delivers others, at once or only later."""
    with ways_of(corpus, memmap) as (methods, _):
        right = [one for one in methods.values() if one.operation != "create" and one.device == "cpu"]
        broken = [
            dataclasses.replace(method, run=run, prepare=prepare) for method in right for run, prepare in wrong(method)
        ]
        found = taken([*right, *broken])
        assert {operation["status"] for operation in found[: len(right)]} == {"ok"}
        for operation in found[len(right) :]:
            assert (operation["status"], operation["items_per_second"], operation["seconds"]) == ("failed", None, [])
            assert operation["reason"].startswith("delivers other values: ")


def wrong(method):
    """What a method does with the items of another turn, or with others after its first check."""
    if method.prepare:
        yield method.run, lambda turn: method.prepare(turn + 1)
        yield method.run, lambda turn: method.prepare(turn + (turn > 0))
    else:
        yield lambda turn: method.run(turn + 1), None
        yield lambda turn: method.run(turn) + (turn > 0), None


def one_value(method, _):
    got = method.run(0).clone()
    got[-1, 0, -1] += 1
    return got


def stale(method, _):
    return method.reused


def halved(method, turn):
    return method.run(turn)[:2]


def doubled(method, turn):
    return method.run(turn).double()


def broken(_, turn):
    raise IndexError(f"turn {turn}\nand more")


FAULTS = {
    one_value: "delivers other values: 1 of 4 items, the first is number 3",
    stale: "delivers other values: 4 of 4 items, the first is number 0",
    halved: "delivers torch.float32 (2, 1, 800), expected is torch.float32 (4, 1, 800)",
    doubled: "delivers torch.float64 (4, 1, 800), expected is torch.float32 (4, 1, 800)",
    broken: "IndexError: turn 0",
}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_a_fault_has_its_reason_and_does_not_end_the_others(corpus, fault):
    with ways_of(corpus, workers=0) as (methods, _):
        right = methods["many", "index_select, reused buffer", "cpu"]
        wrong, after = taken([dataclasses.replace(right, run=lambda turn: fault(right, turn)), right])
    assert (wrong["status"], wrong["reason"], wrong["seconds"]) == ("failed", FAULTS[fault], [])
    assert after["status"] == "ok"


def test_created_values_are_checked(corpus):
    with ways_of(corpus, workers=0) as (methods, bench):
        zeros, rand = (methods["create", name, "cpu"] for name in ("zeros", "rand"))
        operations = taken(
            [
                dataclasses.replace(zeros, run=lambda _: torch.ones(bench.shape)),
                dataclasses.replace(rand, run=lambda _: torch.zeros(bench.shape)),
            ]
        )
    assert [operation["status"] for operation in operations] == ["failed", "failed"]


@pytest.mark.parametrize(
    "kind",
    [image.Kind((16, 16)), image.Kind((16, 16), dtype="float32")]
    + [array.Kind((5, 7), dtype) for dtype in ("int8", "int64", "float16", "float64")],
    ids=str,
)
def test_images_and_arrays_are_moved_as_they_are(tmp_path, kind):
    """In their own type and shape, out of their own file; what moves other bytes is caught."""
    corpus = make_corpus(tmp_path / "made", items=30, kind=kind)
    write_format(corpus, "memmap", tmp_path / "memmap", readers=1)
    with ways_of(corpus, tmp_path / "memmap") as (methods, bench):
        assert bench.data[0].nbytes == corpus.sample.bytes and len(bench.data.unique(dim=0)) == bench.count
        here = {key: method for key, method in methods.items() if key[2] == "cpu"}
        assert not [method.reason for method in here.values() if method.reason]
        found = taken(here.values(), seconds=0.001)
        assert {(one["operation"], one["method"], one["reason"]) for one in found if one["status"] != "ok"} == set()
        right = methods["many", "fancy index, new tensor", "cpu"]
        [wrong] = taken([dataclasses.replace(right, run=lambda turn: right.run(turn + 1))])
        assert "delivers other values" in wrong["reason"]


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
        *pool, other = with_a_killed_worker(corpus)
    assert {operation["status"] for operation in pool} == {"failed"}
    assert all(DIED in operation["reason"] or "BrokenPipe" in operation["reason"] for operation in pool)
    assert other["status"] == "ok"


def with_a_killed_worker(corpus):
    with ways_of(corpus) as (methods, bench):
        bench.pool.processes[0].kill()
        return taken([*of_pool(methods), methods["many", "loop and stack", "cpu"]])


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
    """A clock that stands still but for what is done: each operation takes the time of its way; notes who moved."""

    def __init__(self):
        self.now, self.moved = 0.0, []

    def clock(self):
        return self.now

    def method(self, name, seconds, **rest):
        def run(_):
            self.now += seconds
            self.moved.append(name)
            return torch.zeros(1)

        return Method("create", name, BATCH_SIZE, run, lambda _, __: None, **rest)

    def take(self, methods, seconds):
        phases = []
        found = taking.take_turns(methods, seconds, random.Random(0), self.clock, phases.append)
        assert phases == ["before", "after"]
        return {taking.method.name: taking for taking in found}


def moved(seed):
    """Which method moved when, in the timed rounds of three methods."""
    machine, ends = Machine(), []
    methods = [machine.method(name, 1.0) for name in "abc"]
    noted = lambda _: ends.append(len(machine.moved))  # noqa: E731
    taking.take_turns(methods, 5.0, random.Random(seed), machine.clock, noted)
    return machine.moved[slice(*ends)]


def test_ways_take_turns_in_a_seeded_order():
    """Five rounds; in each, each method once, in one piece; the order is that of the seed."""
    names = moved(seed=0)
    assert len(names) == 5 * 3 * 2  # an untimed series, and a time of a second
    assert names[::2] == names[1::2]
    rounds = [names[start : start + 6 : 2] for start in range(0, 30, 6)]
    assert all(sorted(turns) == ["a", "b", "c"] for turns in rounds)
    assert len(set(map(tuple, rounds))) > 1
    assert moved(seed=0) == names != moved(seed=1)


@pytest.mark.parametrize("seconds", [1e-6, 1e-4, 0.003, 0.05, 3.0])
def test_times_are_enough_and_not_too_many(seconds):
    """At least five times and the seconds asked for, at most some hundred times; the rate is that of the operations."""
    machine = Machine()
    taking = machine.take([machine.method("a", seconds)], 0.2)["a"]
    assert 5 <= len(taking.seconds) <= 300
    assert sum(taking.seconds) >= 0.2 - 1e-9
    assert taking.as_json(1)["items_per_second"] == pytest.approx(BATCH_SIZE / seconds, rel=1e-3)


def test_preparing_is_not_timed_and_waiting_is():
    machine = Machine()

    def pass_time(*_):
        machine.now += 7.0

    found = machine.take(
        [
            machine.method("prepared", 1.0, prepare=pass_time),
            machine.method("waited", 1.0, finish=pass_time),
            machine.method("in series", 1.0, finish=pass_time, least=8),
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
    assert (record["status"], record["slug"], record["tensors"]) == ("skipped", "cuda-b4", [])
    [row] = tensors_table.rows([record])
    assert (row["method"], row["device"], row["status"], row["runs"]) == ("all", "cuda", "skipped", 0)
    assert row["reason"] == "no GPU that torch can use is visible to this process"


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_every_way_on_a_gpu(tmp_path, corpus):
    out = tmp_path / "0.json"
    subprocess.run(run_program(corpus, out, "--seconds", "0.02", settings={"device": "cuda"}), check=True)
    found = read_record(out)["tensors"]
    assert [one["reason"] for one in found if one["reason"] and not one["method"].startswith(MAPPED)] == []


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        (["--settings", '{"batch_size": 0}'], "--settings: batch_size: "),
        (["--data", "nowhere"], "--data: nowhere/train/audio.npy"),
    ],
)
def test_mistakes_are_told(tmp_path, corpus, more, expected):
    done = subprocess.run(run_program(corpus, tmp_path / "0.json", *more), capture_output=True, text=True)
    assert done.returncode == 2
    assert expected in done.stderr
    assert "Traceback" not in done.stderr


def test_memory_is_bounded():
    """All methods together stay within a quarter of what is free; where a batch does not fit, nothing is measured."""
    item, batch, gigabytes = 640_000, 32, 10**9
    for available in (3 * gigabytes, 8 * gigabytes, 500 * gigabytes):
        items = taking.resident_items(10**6, batch, item, available)
        assert batch <= items <= RESIDENT_BYTES // item
        assert (items + RESERVE_BATCHES * batch) * item <= available / 4
    assert taking.resident_items(461, batch, item, 500 * gigabytes) == 461
    assert taking.resident_items(3, batch, item, 500 * gigabytes) == batch
    assert taking.resident_items(10**6, batch, item, 1 * gigabytes) == 0


def made(method, speed, operation="many", status="ok", delivers=True, items=4, device="cpu", reason=None):
    rates = {"items_per_second": speed, "megabytes_per_second": speed and speed / 100}
    what = {"operation": operation, "method": method, "device": device, "items": items, "delivers": delivers}
    return {**what, **rates, "status": status, "reason": reason}


def test_rows_are_medians_compared_with_the_fastest():
    """Over runs, per operation, device and size of a batch; what delivers nothing is the fastest of none."""
    runs = [
        {"tensors": [made("take", 200.0), made("stack", speed), made("nothing", 9e9, delivers=False)]}
        for speed in (40.0, 50.0, 100.0)
    ]
    runs.append({"tensors": [made("take", 300.0, items=8), made("send it", 7.0, operation="send")]})
    rows = tensors_table.rows(runs)
    shown = [(row["method"], row["items"], row["items_per_second"], row["runs"], row["times_slower"]) for row in rows]
    assert shown == [
        ("take", 4, 200.0, 3, 1.0),
        ("stack", 4, 50.0, 3, 4.0),
        ("nothing", 4, 9e9, 3, None),
        ("take", 8, 300.0, 1, 1.0),
        ("send it", 4, 7.0, 1, 1.0),
    ]
    assert (rows[1]["lowest"], rows[1]["highest"], rows[1]["megabytes_per_second"]) == (40.0, 100.0, 0.5)
    assert all(row.keys() >= {*COLUMNS["tensors"]} for row in rows)


def test_a_failed_run_takes_the_number_and_a_skipped_one_does_not():
    failed, skipped = (
        made("a", None, status="failed", reason="wrong"),
        made("b", None, status="skipped", reason="no GPU"),
    )
    rows = tensors_table.rows([{"tensors": [made("a", 1.0), made("b", 2.0)]}, {"tensors": [failed, skipped]}])
    assert [(row["method"], row["status"], row["reason"], row["runs"]) for row in rows] == [
        ("b", "ok", "", 1),
        ("a", "failed", "wrong", 0),
    ]


def test_a_crash_is_a_row():
    record = {"tensors": [], "status": "failed", "reason": "SIGBUS", "settings": {"device": "cpu", "batch_size": 4}}
    [row] = tensors_table.rows([record])
    assert (row["operation"], row["method"], row["status"], row["reason"]) == ("all", "all", "failed", "SIGBUS")
