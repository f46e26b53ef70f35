"""The protocols of streams, events and page-locked memory, on a model of a GPU (support/stream_model.py)."""

import ast
import os
import re
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from scripts.common import plugins
from scripts.common.sample import audio
from scripts.loaders._ring.ring_reader import RingReader
from scripts.machine import device_prefetch, gpu
from scripts.measure import bottleneck_trials, ceiling, protocol, window
from scripts.measure.sink import Sink
from scripts.measure.step import Stepped
from scripts.measure.verify import Verifier
from tests.support.loader_cases import request_for, write_format
from tests.support.made_corpus import make_corpus
from tests.support.programs import PROJECT
from tests.support.stream_model import Event, Fault, OnDevice, Stream, stands_in


@pytest.fixture(scope="module")
def scene(tmp_path_factory):
    folder = tmp_path_factory.mktemp("gpu")
    corpus = make_corpus(folder / "corpus", items=45, seconds=0.02)
    for name in ("memmap", "int16"):
        write_format(corpus, name, folder / name, readers=1)
    return corpus, folder


@pytest.fixture
def model(monkeypatch):
    """A device whose bus takes a microsecond a byte, so that copies are what takes time."""
    return stands_in(monkeypatch, bus=1e6)


# Planted mistakes: what the protocols would be without one of their parts

MISTAKES = {
    "a dropped wait": (Stream, "wait_event", "has not waited for that"),
    "a reused buffer": (Event, "synchronize", "page-locked memory was written"),
    "an early release": (OnDevice, "record_stream", "was released while"),
}


def planted(monkeypatch, mistake: str) -> str:
    """Leave out what the mistake is named for; return what is to be said of it."""
    where, name, said = MISTAKES[mistake]
    monkeypatch.setattr(where, name, lambda *_: None)
    return said


# device_prefetch


def lent(count: int, size: int = 5000, pin: bool = True, lasting: bool = False):
    """A loader of `count` batches, in one buffer for all of them, or each in memory of its own."""
    buffer = gpu.empty_pinned((size,)) if pin else torch.empty(size)

    @contextmanager
    def open_epochs(_request):
        def epoch(_number):
            for number in range(count):
                audio = gpu.empty_pinned((size,)) if lasting and pin else torch.empty(size) if lasting else buffer
                yield {"audio": audio.fill_(number), "item": gpu.pinned(torch.tensor([number]))}

        yield epoch

    return SimpleNamespace(open_epochs=open_epochs, LIFETIME="lasting" if lasting else "next")


def ahead(loader, scene, count: int = 2):
    corpus, folder = scene
    request = request_for(corpus, "numpy_memmap", folder / "memmap", device="cuda", device_prefetch=count)
    return device_prefetch.open_epochs(loader, request)


@pytest.mark.parametrize("lasting", [False, True])
@pytest.mark.parametrize("pin", [False, True])
def test_batches_that_are_copied_ahead_are_the_loaders(model, scene, pin, lasting):
    with ahead(lent(7, pin=pin, lasting=lasting), scene) as epoch:
        for number, batch in enumerate(epoch(0)):
            assert batch["audio"].tolist() == [number] * 5000 and batch["item"].tolist() == [number]
    del batch
    model.close()


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_in_copying_ahead_is_caught(monkeypatch, scene, mistake):
    def take():
        model = stands_in(monkeypatch, bus=1e6)
        lasting = mistake != "a reused buffer"  # else the host waits anyway, so that nothing can be too early
        with ahead(lent(7, lasting=lasting), scene) as epoch:
            for batch in epoch(0):
                batch["audio"].sum()
                del batch
        model.close()

    take()
    with pytest.raises(Fault, match=planted(monkeypatch, mistake)):
        take()


def test_a_batch_waits_for_its_own_copy_alone_and_the_host_for_none(model, scene):
    """Each copy takes 20 ms and 8 us; a batch is usable when its own is over, whatever is on its way behind it."""
    with ahead(lent(7, lasting=True), scene) as epoch:
        stream, copy = epoch(0), 0.020008
        next(stream)
        assert torch.cuda.current_stream().end == pytest.approx(copy)
        assert model.engine == pytest.approx(3 * copy), "two more are on their way"
        next(stream)
        assert torch.cuda.current_stream().end == pytest.approx(2 * copy)
        assert model.waited == []


def test_a_lent_buffer_is_waited_for_when_the_next_batch_is_asked_for(model, scene):
    """Steps of 30 ms hide the copies of 20 ms: but for the first batches nothing is waited for."""
    with ahead(lent(7), scene) as epoch:
        for number, _ in enumerate(epoch(0)):
            if number == 0:
                model.waited.clear()
            model.sleep(0.03)
    assert model.waited == []


# ring


@pytest.fixture(scope="module")
def arrays(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ring")
    pcm = np.random.default_rng(1).integers(-32768, 32767, (60, 1, 500), dtype=np.int16)
    np.save(folder / "pcm.npy", pcm)
    np.save(folder / "float.npy", pcm / np.float32(32768))
    return folder, pcm / np.float32(32768)


ORDER = np.random.default_rng(2).permutation(60)
BESIDE = torch.arange(60) * 3


def ring(arrays, threads: int = 2, kind: str = "float", **changes) -> RingReader:
    scale = {"float": None, "pcm": 1 / 32768}[kind]
    arguments = {"threads": threads, "device": "cuda", "pin": True, "scale": scale, "source": "map", **changes}
    return RingReader(arrays[0] / f"{kind}.npy", 8, **arguments)


@pytest.mark.parametrize("threads", [0, 1, 2])
@pytest.mark.parametrize("kind", ["float", "pcm"])
@pytest.mark.parametrize("pin", [False, True])
def test_the_rings_batches_arrive_whole_and_may_be_kept(model, arrays, threads, kind, pin):
    with ring(arrays, threads, kind, pin=pin) as reader:
        for order, then in ((ORDER, ORDER[::-1]), (ORDER[::-1], None)):
            kept = list(reader.batches(order, BESIDE, then=then))
            assert np.array_equal(np.concatenate([audio.cpu().numpy() for audio, _ in kept]), arrays[1][order])
            assert [value for _, beside in kept for value in beside.tolist()] == (3 * order).tolist()
            del kept
    model.close()


@pytest.mark.parametrize("threads", [0, 2])
@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_in_the_ring_is_caught(monkeypatch, arrays, mistake, threads):
    def take():
        model = stands_in(monkeypatch, bus=1e6)
        with ring(arrays, threads) as reader:
            for audio, _ in reader.batches(ORDER, BESIDE):
                audio.sum()
                del audio, _
        model.close()

    take()
    with pytest.raises(Fault, match=planted(monkeypatch, mistake)):
        take()


def test_the_ring_copies_beside_what_the_device_computes(model, arrays):
    """The default stream is at work for 10 s; copies of 16 ms and their labels are over long before."""
    with ring(arrays) as reader:
        batches = reader.batches(ORDER, BESIDE)
        next(batches)
        model.default.end = 10.0
        next(batches)
        assert 0.03 < model.engine < 0.04
        batches.close()


def test_the_ring_does_not_wait_for_the_buffer_that_it_has_just_handed_out(model, arrays):
    with ring(arrays, threads=0) as reader:
        batches = reader.batches(ORDER, BESIDE)
        next(batches)
        next(batches)
        assert model.waited == []
        next(batches)
        assert model.waited == pytest.approx([0.016 + 64e-6]), "for the first buffer, while the second one's copy runs"
        batches.close()


# Loaders by their contract


def opened(scene, loader: str, **changes):
    corpus, folder = scene
    module = plugins.load("loaders", loader)
    request = request_for(corpus, loader, folder / module.FORMAT, device="cuda", **changes)
    return device_prefetch.open_epochs(module, request), request


LOADERS = {
    "numpy_memmap": {},
    "memmap_int16": {},
    "ring": {"workers": 2},
    "ring_int16": {"workers": 1},
    "resident": {"options": {"keep": "host"}},
}


@pytest.mark.parametrize("prefetched", [0, 2])
@pytest.mark.parametrize("pin", [False, True])
@pytest.mark.parametrize("loader", LOADERS)
def test_a_loader_keeps_its_contract_on_the_device(model, scene, loader, pin, prefetched):
    epochs, request = opened(scene, loader, pin_memory=pin, device_prefetch=prefetched, **LOADERS[loader])
    sink, checksums = Sink("cuda"), []
    with epochs as epoch:
        for number in range(2):
            verifier = Verifier(scene[0], "train", request.batch_size, 1, "cuda")
            for batch in epoch(number):
                checksums.append(sink.consume(batch))
                assert verifier.check(batch), verifier.problems
                del batch
        sink.finish()
    verifier.finish(checksums[len(checksums) // 2 :])
    assert verifier.ok, verifier.problems
    checksums.clear()
    model.close()


@pytest.mark.parametrize("loader", LOADERS)
def test_with_page_locked_memory_no_part_of_a_batch_is_waited_for(model, scene, loader):
    """Audio, target, labels and item alike: the host runs ahead until a buffer of its own is to be written again."""
    epochs, _ = opened(scene, loader, pin_memory=True, **(LOADERS[loader] | {"workers": 0}))
    with epochs as epoch:
        stream = iter(epoch(0))
        next(stream), next(stream)
        assert model.waited == []
        getattr(stream, "close", lambda: None)()


def test_resident_on_the_device_copies_positions_and_no_audio(model, scene):
    epochs, _ = opened(scene, "resident", options={"keep": "device"})
    with epochs as epoch:
        before = model.engine
        assert len(list(epoch(0))) == 5
        assert model.engine - before < 0.01
    model.close()


# The instrument


def batches(count: int, size: int = 20_000):
    """Batches whose copy, on the stream that computes, takes the microseconds of `size` bytes."""
    for number in range(count):
        yield {
            "audio": gpu.moved(torch.zeros(2, 1, size // 8), "cuda"),
            "target": torch.zeros(2, dtype=torch.int64, device="cuda"),
            "labels": torch.zeros(2, 3, device="cuda"),
            "item": torch.arange(2 * number, 2 * number + 2, device="cuda"),
        }


def stepped(model, step: float, wait=None) -> Stepped:
    waiting = wait or (lambda seconds, _clock: model.sleep(seconds))
    return Stepped(Sink("cuda"), step, model.clock, waiting, gpu.reached("cuda"))


def test_a_step_begins_when_the_batch_is_there(model):
    """Copies of 20 ms and steps of 30 ms on one stream: 60 % of the time is in steps, and no copy hides in one."""
    times: list[protocol.EpochTimes] = []
    clock = gpu.clock_of("cuda", model.clock)
    protocol.time_epochs(lambda _number: batches(10), stepped(model, 0.03), 1, clock, 0.0, times)
    assert protocol.utilisation(protocol.Times(epochs=times)) == pytest.approx(60, abs=0.5)
    assert times[0].seconds == pytest.approx(0.5, rel=0.01)


def test_copies_ahead_hide_in_steps_and_a_step_waits_for_its_own_alone(model, scene):
    """The same with copies on a stream of their own: only the first is waited for."""
    sink = stepped(model, 0.03)
    with ahead(lent(10, lasting=True), scene) as epoch:
        for batch in epoch(0):
            sink.reached()
            model.sleep(0.03)
            del batch
    assert model.now == pytest.approx(0.02 + 10 * 0.03, rel=0.01)


def test_consuming_is_inside_the_step_however_short(monkeypatch):
    model = stands_in(monkeypatch, bus=1e9, kernel=0.001)
    sink = stepped(model, 0.0)
    for batch in batches(3):
        sink.consume(batch)
    computed = sink.computed()
    sink.finish()
    assert computed == pytest.approx(model.now, rel=0.35) and sink.computed() == 0


def test_arrivals_are_when_the_device_has_a_batch(model):
    """The host enqueues all at once; the copies take 20 ms each."""
    times: list[protocol.EpochTimes] = []
    clock = gpu.clock_of("cuda", model.clock)
    protocol.time_epochs(lambda _number: batches(5), Sink("cuda"), 1, clock, 0.0, times)
    assert times[0].arrivals_seconds == pytest.approx([0.02, 0.04, 0.06, 0.08, 0.1], rel=0.02)
    assert times[0].gap_seconds == pytest.approx(0.02, rel=0.02)
    assert gpu.clock_of("cpu", model.clock) == model.clock, "on a CPU the clock is as it was"


def test_a_window_has_the_devices_arrivals(model):
    found = window.timed(
        lambda _number: batches(5), Sink("cuda"), gpu.clock_of("cuda", model.clock), 0.3, warm_up_seconds=0.0
    )
    assert found.interval() == pytest.approx(0.02, rel=0.02)
    first = [part.arrivals_seconds[0] for part, (began, _) in zip(found.parts, found.edges, strict=True) if began]
    assert first and first == pytest.approx([0.02] * len(first), rel=0.02)


def test_nothing_passes_the_ceiling_of_the_device(monkeypatch):
    """It is as high on a slow bus: what sends half the bytes, or none, is held to it too."""
    found = []
    for bus in (1e4, 1e9):
        model = stands_in(monkeypatch, bus=bus, tick=1e-4)
        request = SimpleNamespace(device="cuda", batch_size=4, classes=3, sample=SimpleNamespace(key="audio"))
        pool = ceiling.pool_of(4, audio(500))[:5]
        found.append(ceiling.ceiling(request, pool, model.clock, 0.01))
        model.close()
    assert found[0] == pytest.approx(found[1])


@pytest.mark.parametrize("loader", ["numpy_memmap", "memmap_int16", "ring", "ring_int16"])
def test_the_trial_without_the_copy_leaves_out_the_copy_alone(monkeypatch, scene, loader):
    """Page-locked memory, the sink and what the device converts stay: its speed is that of the sink and the looks.

    The trial without reading keeps the copy, which is what takes time here.
    """
    model = stands_in(monkeypatch, bus=1e6, kernel=1e-6, tick=1e-4)
    monkeypatch.setattr(bottleneck_trials, "LEAST_SECONDS", 0.05)
    monkeypatch.setattr(bottleneck_trials, "WARM_UP_SECONDS", 0.01)
    consumed = []

    class Seen(Sink):
        def consume(self, batch):
            consumed.append({name: (tensor.device.type, tensor.dtype) for name, tensor in batch.items()})
            return super().consume(batch)

    def open_loader(**changes):
        _, request = opened(scene, loader, pin_memory=True, workers=LOADERS[loader].get("workers", 0))
        module = plugins.load("loaders", loader)
        return device_prefetch.open_epochs(module, replace(request, **changes))

    _, request = opened(scene, loader, pin_memory=True)
    parts = bottleneck_trials.Explanation(open_loader, lambda: Seen("cuda"), gpu.clock_of("cuda", model.clock))
    trials = dict(parts._trials(SimpleNamespace(), request, step=False))
    full, without = trials["full"](), trials[gpu.COPY]()
    assert without > 3 * full
    assert parts._speed(Seen("cuda"), without=frozenset({"read"})) == pytest.approx(full, rel=0.2)
    assert all(seen == consumed[0] for seen in consumed) and consumed[0]["audio"] == ("cuda", torch.float32)
    model.close()


# One place for all of it

# The ring's reader and attach stand alone: they are there to be copied.
ALONE = {"machine/gpu.py", "loaders/_ring/ring_reader.py", "attach/feedrate_attach.py"}
MEASURES = {
    "measure/tensors/methods.py": {"non_blocking", "pin_memory", "is_pinned"}
}  # what the copies themselves are measured with
WORDS = {"cuda", "pin_memory", "is_pinned", "record_stream", "wait_event", "wait_stream", "non_blocking"}


def touching(tree: ast.Module) -> set[str]:
    """Return which words of streams and page-locked memory a module uses: as calls, `torch.cuda`, or arguments."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "torch":
            found.add(node.attr)
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Attribute):
                found.add(node.func.attr)
                if ast.unparse(node.func) == "torch.empty":
                    found |= {keyword.arg for keyword in node.keywords}
            found |= {keyword.arg for keyword in node.keywords} & {"non_blocking"}
    return found & WORDS


def test_streams_and_page_locked_memory_are_in_one_module():
    files = {str(path.relative_to(PROJECT / "scripts")): path for path in (PROJECT / "scripts").rglob("*.py")}
    files = {name: path for name, path in files.items() if not re.match(r"loaders/(_plain/|[a-z])", name)}  # programs
    found = {name: touching(ast.parse(path.read_bytes())) - MEASURES.get(name, set()) for name, path in files.items()}
    assert {name: words for name, words in found.items() if words and name not in ALONE} == {}
    assert all(found[name] for name in ALONE)


# With a device

NO_GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")


@NO_GPU
@pytest.mark.parametrize("loader", ["dali_npy", "dali_wav", "ring", "ring_int16", "numpy_memmap"])
@pytest.mark.parametrize("prefetched", [0, 2])
def test_a_slow_consumer_gets_what_was_delivered(scene, loader, prefetched):
    """DALI hands out its own memory (DLPack): it must not be filled again before work enqueued here has read it."""
    corpus, folder = scene
    module = plugins.load("loaders", loader)
    if not (folder / module.FORMAT).exists():
        write_format(corpus, module.FORMAT, folder / module.FORMAT, readers=1)
    workers = 0 if "TORCH_CUDA_SANITIZER" in os.environ else 2  # in a worker, a fork, the sanitizer asks CUDA and fails
    epochs, request = opened(scene, loader, pin_memory=True, workers=workers, device_prefetch=prefetched)
    kept = []
    with epochs as epoch:
        for batch in epoch(0):
            torch.cuda._sleep(200_000_000)  # cycles of the device: some 0.1 s before what is enqueued next
            kept.append({name: tensor.clone() for name, tensor in batch.items()})
            del batch
        torch.cuda.synchronize()
        verifier = Verifier(corpus, "train", request.batch_size, 2, "cuda")
        assert all(verifier.check(batch) for batch in kept), verifier.problems
