"""The training tasks: the bare loop and Lightning's see the same data, learn the same, and time what they say."""

import itertools
import logging
import math
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import ModuleType

import pytest
import torch

from scripts.common import plugins
from scripts.measure.protocol import Times
from scripts.measure.tasks import infer_tensorrt, train_compiled
from scripts.measure.training import (
    StepTimes,
    Task,
    Training,
    TrainingSink,
    autoencoder,
    reconstruction_loss,
    run_bare,
)
from scripts.measure.training_lightning import run_lightning
from scripts.measure.verify import Verifier
from tests.support.loader_cases import BATCH_SIZE, nothing_left_open, request_for, write_format
from tests.support.made_corpus import make_corpus

EPOCHS = 3
LOOPS = {"bare": run_bare, "lightning": run_lightning}


class Scene:
    """A corpus as a memory map, and what its loader is asked for."""

    def __init__(self, folder: Path) -> None:
        self.corpus = make_corpus(folder / "made", items=56, seconds=0.05)
        self.folder = folder / "memmap"
        write_format(self.corpus, "memmap", self.folder, readers=1)
        self.loader = plugins.load("loaders", "numpy_memmap")

    def opened(self, split: str = "train", workers: int = 0):
        request = request_for(self.corpus, "numpy_memmap", self.folder, split=split, workers=workers)
        return self.loader.open_epochs(request)

    def task(self, **changes) -> Task:
        return Task(**{"inputs": self.corpus.samples, **changes})

    def verifier(self, workers: int = 0) -> Verifier:
        return Verifier(self.corpus, "train", BATCH_SIZE, max(1, workers))

    def train(
        self, loop, task, opened=None, workers=0, validated=None, **more
    ) -> tuple[Times, Training | None, Verifier]:
        """Train, and have the verifier look at everything; `validated` is what each validation passes through."""
        verifier = self.verifier(workers)
        opened = opened or partial(self.opened, workers=workers)
        task = replace(task, **{"epochs": EPOCHS, **more})
        if not validated:
            return *LOOPS[loop](opened, verifier, task), verifier
        with self.opened("validation", workers) as epoch:
            numbers = itertools.count()
            task = replace(task, validation=lambda: validated(epoch(next(numbers))))
            return *LOOPS[loop](opened, verifier, task), verifier


@pytest.fixture(scope="module")
def scene(tmp_path_factory) -> Iterator[Scene]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # more would wait for one another beside other tests, and the model is small
    yield Scene(tmp_path_factory.mktemp("training"))
    torch.set_num_threads(threads)


@contextmanager
def changed(opened: Callable, change: Callable) -> Iterator[Callable]:
    """Open a loader whose epochs pass through `change(number, batches)`."""
    with opened() as epoch:
        yield lambda number: change(number, epoch(number))


both = pytest.mark.parametrize("loop", LOOPS)


# The model


def test_initialisation_is_seeded_and_leaves_the_process_s_random_numbers_alone():
    before = torch.get_rng_state()
    first, again, other = (autoencoder(50, seed).state_dict() for seed in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["0.weight"], other["0.weight"])


def test_only_the_first_inputs_of_the_audio_count():
    audio = torch.rand(4, 1, 80)
    silent_later = audio.clone()
    silent_later[:, :, 50:] = 0
    model = autoencoder(50)
    losses = [reconstruction_loss(model, {"audio": each}, 50) for each in (audio, silent_later)]
    assert losses[0] == losses[1]


# Both loops


@pytest.mark.parametrize("workers", [0, 2])
def test_both_loops_see_each_item_once_an_epoch_and_learn_the_same(scene, workers):
    seen = {loop: [] for loop in LOOPS}
    results = {}

    def noted(loop, number, batches):
        for batch in batches:
            seen[loop].append((number, batch["item"].tolist()))
            yield batch

    for loop in LOOPS:
        phases = []
        opened = partial(changed, partial(scene.opened, workers=workers), partial(noted, loop))
        with nothing_left_open():
            times, training, verifier = scene.train(
                loop, scene.task(), opened, workers=workers, validated=iter, around=phases.append
            )
        assert verifier.ok, verifier.problems
        assert phases == ["before", "after"]
        assert_sound(times, training, scene.corpus.counts["train"])
        results[loop] = training
    assert seen["bare"] == seen["lightning"]
    assert {number for number, _ in seen["bare"]} == {0, 1, *range(2, 2 + EPOCHS)}, "verify, warm-up, timed"
    for name in ("first_loss", "last_loss", "epoch_losses", "validation_losses"):
        bare, lightning = (getattr(results[loop], name) for loop in LOOPS)
        assert bare == pytest.approx(lightning, rel=1e-5), name


def assert_sound(times: Times, training: Training, items: int) -> None:
    sizes = [BATCH_SIZE] * (items // BATCH_SIZE) + [items % BATCH_SIZE] * bool(items % BATCH_SIZE)
    assert [epoch.batch_items for epoch in times.epochs] == [sizes] * EPOCHS
    for epoch in times.epochs:
        assert 0 < epoch.compute_seconds < epoch.seconds
        assert epoch.arrivals_seconds == sorted(epoch.arrivals_seconds)
        assert epoch.gap_seconds == pytest.approx(epoch.arrivals_seconds[0])
        assert epoch.validation_seconds > 0
    assert training.validation_seconds == pytest.approx(sum(epoch.validation_seconds for epoch in times.epochs))
    losses = [training.first_loss, *training.epoch_losses, training.last_loss, *training.validation_losses]
    assert all(map(math.isfinite, losses))
    assert training.epoch_losses == sorted(training.epoch_losses, reverse=True)
    assert training.validation_losses == sorted(training.validation_losses, reverse=True)
    assert len(training.epoch_losses) == len(training.validation_losses) == EPOCHS
    assert (training.inputs, training.parameters) == (800, 107_456)


@pytest.mark.filterwarnings("ignore")  # of torch's own compiler, about itself
def test_the_compiled_model_learns_the_same(scene):
    """Its shapes are those of a whole batch and of the last one; each is compiled before anything is timed."""
    lacking = train_compiled.unsuited(request_for(scene.corpus, "numpy_memmap", scene.folder))
    if lacking:
        pytest.skip(lacking)
    with nothing_left_open():
        plain = scene.train("bare", scene.task(), validated=iter)[1]
    made = scene.task(make=train_compiled.compiled)
    times, training, verifier = scene.train("bare", made, validated=iter)
    assert verifier.ok and len(times.epochs) == EPOCHS
    assert training.epoch_losses == pytest.approx(plain.epoch_losses, rel=1e-3)
    assert training.validation_losses == pytest.approx(plain.validation_losses, rel=1e-3)
    assert training.parameters == plain.parameters


@pytest.mark.filterwarnings("ignore")  # of torch's own compiler, about itself
def test_tensorrt_compiles_whole_batches_and_the_last_one_before_any_comes(scene, monkeypatch):
    """What counts how often something is compiled stands in for its backend."""
    compiled, compiles = [], torch.compile

    def counting(model: torch.nn.Module, backend: str, **more) -> Callable:
        assert backend == "torch_tensorrt"
        return compiles(model, backend=lambda graph, inputs: compiled.append(len(inputs)) or graph.forward, **more)

    monkeypatch.setitem(sys.modules, "torch_tensorrt", ModuleType("torch_tensorrt"))
    monkeypatch.setattr(torch, "compile", counting)
    request = request_for(scene.corpus, "numpy_memmap", scene.folder, split="train")
    inference = infer_tensorrt.sink(request)
    assert len(compiled) == 2
    with scene.opened() as epoch:
        sizes = [len(inference.consume(batch).item) for batch in epoch(0)]
    assert set(sizes) == {BATCH_SIZE, request.items % BATCH_SIZE} - {0} and len(set(sizes)) == 2
    assert len(compiled) == 2


def test_what_compiling_lacks_is_the_reason_of_a_row(scene, monkeypatch):
    request = request_for(scene.corpus, "numpy_memmap", scene.folder)
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert "no-such-compiler is not there: apt-get install g++" in train_compiled.unsuited(request)
    monkeypatch.setenv("CC", "no-c-compiler")
    on_a_gpu = train_compiled.unsuited(replace(request, device="cuda"))
    assert on_a_gpu == "torch.compile needs a C compiler, and no-c-compiler is not there: apt-get install gcc"


# What is in an epoch's time, and what is not


class PlantedClock:
    """Stands still but for the sleeps that are planted: what else a step costs on this machine is none of it."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def slowed(scene: Scene, sleep: Callable, loading: float = 0.0, first: float = 0.0) -> Callable:
    """Return what opens a loader that sleeps before each batch of a timed epoch, and `first` seconds before epoch 1."""

    def change(number, batches):
        sleep(first if number == 1 else 0)
        for batch in batches:
            sleep(loading if number > 1 else 0)
            yield batch

    return partial(changed, scene.opened, change)


class Sleeping(torch.nn.Module):
    """A model whose forward pass takes a known time, and in its first `late` passes `more`."""

    def __init__(
        self, inputs: int, seed: int, sleep: Callable, seconds: float = 0.0, late: int = 0, more: float = 0.0
    ) -> None:
        super().__init__()
        self.model = autoencoder(inputs, seed)
        self.seconds, self.late, self.more, self.sleep = seconds, late, more, sleep

    def forward(self, audio: torch.Tensor) -> torch.Tensor:
        self.sleep(self.seconds + (self.more if self.late > 0 else 0.0))
        self.late -= 1
        return self.model(audio)


@both
def test_epochs_go_on_until_the_least_time_has_passed(scene, loop):
    clock = PlantedClock()
    slow = slowed(scene, clock.sleep, loading=1.0)
    times, training, _ = scene.train(loop, scene.task(), slow, epochs=1, least_seconds=15.0, clock=clock)
    batches = -(-scene.corpus.counts["train"] // BATCH_SIZE)
    assert [epoch.seconds for epoch in times.epochs] == [batches] * 3, "two epochs of six batches are too little"
    assert len(training.epoch_losses) == 3


@both
def test_a_slow_validation_is_not_in_the_time_of_an_epoch(scene, loop):
    clock = PlantedClock()

    def slow(batches):
        for batch in batches:
            clock.sleep(100.0)
            yield batch

    opened = slowed(scene, clock.sleep, loading=1.0)
    times, _, _ = scene.train(loop, scene.task(), opened, epochs=2, validated=slow, clock=clock)
    for epoch in times.epochs:
        assert epoch.validation_seconds == 100 * -(-scene.corpus.counts["validation"] // BATCH_SIZE)
        assert epoch.seconds == len(epoch.batch_items)
        assert epoch.gap_seconds == 1


@both
def test_a_slow_start_is_not_in_the_time_of_an_epoch(scene, loop):
    """Neither of the loader's first epoch after the verify epoch, nor of the model's first step."""
    clock = PlantedClock()
    task = scene.task(make=partial(Sleeping, sleep=clock.sleep, late=1, more=100.0))
    opened = slowed(scene, clock.sleep, loading=1.0, first=100.0)
    times, training, _ = scene.train(loop, task, opened, epochs=2, clock=clock)
    assert [epoch.validation_seconds for epoch in times.epochs] == [None] * 2, "there is no such split"
    assert (training.validation_losses, training.validation_seconds) == ([], 0.0)
    timed = [len(epoch.batch_items) for epoch in times.epochs]
    assert [epoch.seconds for epoch in times.epochs] == timed
    assert clock.now == 200 + sum(timed), "both were slow"
    assert times.construct_seconds + times.verify_seconds + times.teardown_seconds == 0


@both
def test_utilisation_is_what_was_planted(scene, loop):
    clock, loading, computing = PlantedClock(), 0.3, 0.1
    task = scene.task(make=partial(Sleeping, seconds=computing, sleep=clock.sleep))
    times, training, _ = scene.train(loop, task, slowed(scene, clock.sleep, loading), epochs=2, clock=clock)
    assert training.au_percent == pytest.approx(100 * computing / (loading + computing))
    for epoch in times.epochs:
        batches = len(epoch.batch_items)
        assert epoch.compute_seconds == pytest.approx(batches * computing)
        assert epoch.seconds == pytest.approx(batches * (loading + computing))


# What is wrong is caught


def lost_item(number, batches):
    for index, batch in enumerate(batches):
        lost = number == 3 and index == 2
        yield {name: tensor[1:] for name, tensor in batch.items()} if lost else batch


def lost_batch(number, batches):
    yield from itertools.islice(batches, 4 if number == 3 else None)


def doubled_batch(number, batches):
    for index, batch in enumerate(batches):
        yield batch
        if number == 3 and index == 0:
            yield batch


@pytest.mark.parametrize(("loop", "fault"), [("bare", lost_item), ("lightning", lost_batch)])
def test_items_lost_in_a_timed_epoch_are_caught(scene, loop, fault):
    """Epoch 3 of the loader is the second timed one."""
    times, _, verifier = scene.train(loop, scene.task(), partial(changed, scene.opened, fault), validated=iter)
    assert not verifier.ok
    assert any("missing items in timed epoch 2" in problem for problem in verifier.problems), verifier.problems
    lost = [scene.corpus.counts["train"] - epoch.items for epoch in times.epochs]
    assert lost == [0, 1 if fault is lost_item else lost[1], 0] and lost[1] > 0


def test_items_doubled_in_a_timed_epoch_are_caught(scene):
    opened = partial(changed, scene.opened, doubled_batch)
    _, _, verifier = scene.train("bare", scene.task(), opened)
    assert any("doubled items in timed epoch 2" in problem for problem in verifier.problems)
    with nothing_left_open(), pytest.raises(RuntimeError, match="more batches than the 6 of the first"):
        scene.train("lightning", scene.task(), opened)


@both
def test_nothing_is_trained_when_the_verify_epoch_was_wrong(scene, loop):
    def scaled(_number, batches):
        for batch in batches:
            yield {**batch, "audio": batch["audio"] * 0.5}

    phases = []
    opened = partial(changed, scene.opened, scaled)
    times, training, verifier = scene.train(loop, scene.task(), opened, around=phases.append)
    assert (times.epochs, training, phases, verifier.ok) == ([], None, [], False)


@both
def test_a_model_that_breaks_is_an_error_and_leaves_nothing_open(scene, loop):
    class Broken(Sleeping):
        def forward(self, _audio):
            raise RuntimeError("broken on purpose")

    with nothing_left_open(), pytest.raises(RuntimeError, match="broken on purpose"):
        scene.train(loop, scene.task(make=partial(Broken, sleep=time.sleep)), workers=2)


def test_lightning_takes_a_batch_only_when_the_one_before_is_done_with(scene):
    """A batch is valid until the next one is asked for: a loader with one buffer must train like any other."""

    def one_buffer(_number, batches):
        held = None
        for batch in batches:
            held = held or {name: torch.empty_like(tensor) for name, tensor in batch.items()}
            kept = {name: held[name][: len(tensor)].copy_(tensor) for name, tensor in batch.items()}
            yield kept
            for tensor in kept.values():
                tensor.zero_()

    _, plain, _ = scene.train("lightning", scene.task())
    _, reused, verifier = scene.train("lightning", scene.task(), partial(changed, scene.opened, one_buffer))
    assert verifier.ok, verifier.problems
    assert reused.epoch_losses == pytest.approx(plain.epoch_losses, rel=1e-6)


# The terminal and the logs


@pytest.fixture
def cluster(tmp_path_factory, monkeypatch):
    """A login node of a cluster, as Lightning sees it: `srun` is on the path."""
    folder = tmp_path_factory.mktemp("slurm")
    (folder / "srun").write_text("#!/bin/sh\nexit 1\n")
    (folder / "srun").chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize("job", [True, False], ids=["in a job", "on the login node"])
def test_nothing_is_told_on_the_terminal(scene, job, tmp_path, capfd, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if job:
        monkeypatch.setenv("SLURM_NTASKS", "4")  # which Lightning would take for four processes
        monkeypatch.setenv("SLURM_JOB_NAME", "feedrate")
    import lightning.pytorch  # sets the level when it is first imported

    level = logging.getLogger(lightning.pytorch.__name__).level
    scene.train("lightning", scene.task(logs=tmp_path / "logs"), validated=iter)
    scene.train("lightning", scene.task())
    assert capfd.readouterr() == ("", "")
    assert logging.getLogger("lightning.pytorch").level == level
    assert [path.name for path in tmp_path.iterdir()] == ["logs"]


@both
def test_logs_hold_the_curves_of_this_run_alone(scene, loop, tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    logs = tmp_path / "deep" / loop
    logs.mkdir(parents=True)
    (logs / "events.out.tfevents.0.older").write_text("of another run")
    with nothing_left_open():
        times, training, _ = scene.train(loop, scene.task(logs=logs), validated=iter)
    assert len(list(logs.glob("events.out.tfevents.*"))) == 1
    curves = EventAccumulator(str(logs))
    curves.Reload()
    expected = {
        "loss/train": training.epoch_losses,
        "loss/validation": training.validation_losses,
        "items_per_second": [epoch.items / epoch.seconds for epoch in times.epochs],
        "au_percent": [100 * epoch.compute_seconds / epoch.seconds for epoch in times.epochs],
    }
    assert sorted(curves.Tags()["scalars"]) == sorted(expected)
    for tag, values in expected.items():
        events = curves.Scalars(tag)
        assert [event.step for event in events] == list(range(1, EPOCHS + 1)), tag
        assert [event.value for event in events] == pytest.approx(values, rel=1e-6), tag


# The instrument on a GPU, with a stand-in for torch.cuda


class FakeCuda:
    """Events on a device whose time is turned by hand, and a list of what was asked of it."""

    def __init__(self) -> None:
        self.now_ms = 0.0
        self.asked: list[str] = []

    def Event(self, enable_timing=False):
        assert enable_timing
        cuda = self

        class Event:
            def record(self):
                cuda.asked.append("record")
                self.at = cuda.now_ms

            def elapsed_time(self, later):
                assert cuda.asked[-1] == "synchronize", "resolved before the device was done"
                return later.at - self.at

        return Event()

    def synchronize(self):
        self.asked.append("synchronize")


def test_steps_on_a_gpu_are_timed_by_events_and_never_waited_for(monkeypatch):
    cuda = FakeCuda()
    monkeypatch.setattr(torch.cuda, "Event", cuda.Event)
    monkeypatch.setattr(torch.cuda, "synchronize", cuda.synchronize)
    sink = TrainingSink(Task(inputs=50))
    sink.device = sink.steps.device = "cuda"  # the tensors stay where they are
    for number in range(3):
        sink.consume({"audio": torch.rand(2, 1, 60), "item": torch.arange(2), "target": torch.arange(2)})
        cuda.now_ms += 1000 * number  # between steps: none of it is computing
    assert cuda.asked == ["record", "record"] * 3
    sink.finish()
    assert sink.computed() == 0
    assert len(sink.losses()) == 3 and sink.losses() == []


def test_the_time_of_steps_on_a_gpu_is_that_between_their_events(monkeypatch):
    cuda = FakeCuda()
    monkeypatch.setattr(torch.cuda, "Event", cuda.Event)
    steps = StepTimes("cuda", clock=lambda: pytest.fail("the host's clock says nothing of a GPU"))
    for milliseconds in (5, 7):
        with steps:
            cuda.now_ms += milliseconds
        cuda.now_ms += 100
    cuda.synchronize()
    assert steps.taken() == pytest.approx(0.012)
    assert steps.taken() == 0


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@both
def test_on_a_gpu(scene, loop):
    def opened():
        return scene.loader.open_epochs(
            request_for(scene.corpus, "numpy_memmap", scene.folder, device="cuda", pin_memory=True)
        )

    verifier = Verifier(scene.corpus, "train", BATCH_SIZE, 1, "cuda")
    times, training = LOOPS[loop](opened, verifier, scene.task(device="cuda", epochs=EPOCHS))
    assert verifier.ok, verifier.problems
    assert all(0 < epoch.compute_seconds <= epoch.seconds for epoch in times.epochs)
    assert training.epoch_losses == sorted(training.epoch_losses, reverse=True)
