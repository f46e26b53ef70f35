"""The gate: loaders broken on purpose, each in one way, must be caught, and told what is wrong."""

import json
import subprocess
import sys
from contextlib import contextmanager

import pytest
import torch

import plugins
from corpus import Corpus
from loader_cases import BATCH_SIZE, request_for, write_format
from made_corpus import make_corpus
from measure import protocol
from measure.sink import Sink
from measure.verify import Verifier


@pytest.fixture(scope="module")
def corpus(tmp_path_factory) -> Corpus:
    return make_corpus(tmp_path_factory.mktemp("corpus") / "made", clips=30, seconds=0.1)


@pytest.fixture(scope="module")
def batches(corpus, tmp_path_factory) -> list[dict]:
    """One right epoch of the train split."""
    folder = tmp_path_factory.mktemp("memmap")
    write_format(corpus, "memmap", folder, readers=1)
    with plugins.load("loaders", "numpy_memmap").open_epochs(request_for(corpus, "numpy_memmap", folder)) as epoch:
        return [{key: value.clone() for key, value in batch.items()} for batch in epoch(0)]


def missing(batches, _corpus):
    batches[1] = {key: value[1:] for key, value in batches[1].items()}


def doubled(batches, _corpus):
    for value in batches[0].values():
        value[1] = value[0]


def swapped_label(batches, _corpus):
    batches[0]["labels"] = batches[0]["labels"].roll(1, dims=1)


def swapped_target(batches, corpus):
    batches[0]["target"][0] = (batches[0]["target"][0] + 1) % corpus.classes


def scaled(batches, _corpus):
    for batch in batches:
        batch["audio"] *= 32768 / 32767


def scaled_down(batches, _corpus):
    for batch in batches:
        batch["audio"] *= 32767 / 32768


def wrapped(batches, _corpus):
    """What int16 arithmetic does to 32768: the loudest positive samples turn negative."""
    for batch in batches:
        batch["audio"][batch["audio"] > 0.999] -= 2


def padded_with_last_sample(batches, corpus):
    lengths = {clip.index: min(clip.frames, corpus.samples) for clip in corpus.clips("train")}
    for batch in batches:
        for row, index in enumerate(batch["clip"].tolist()):
            batch["audio"][row, 0, lengths[index] :] = 0.25


def last_batch_dropped(batches, _corpus):
    batches.pop()


def audio_exchanged(batches, _corpus):
    batches[0]["audio"][[0, 1]] = batches[0]["audio"][[1, 0]]


def clip_of_another_split(batches, corpus):
    batches[0]["clip"][0] = next(corpus.clips("validation")).index


def shifted(batches, _corpus):
    batches[0]["audio"][0] = batches[0]["audio"][0].roll(1, dims=1)


def not_a_number(batches, _corpus):
    batches[0]["audio"][0, 0, 5] = float("nan")


def a_tiny_difference(batches, _corpus):
    batches[0]["audio"][0, 0, 5] += 2**-17


def minus_zero(batches, _corpus):
    batches[0]["audio"][batches[0]["audio"] == 0] *= -1.0


def float64(batches, _corpus):
    batches[0]["audio"] = batches[0]["audio"].double()


def without_channel(batches, _corpus):
    batches[0]["audio"] = batches[0]["audio"][:, 0]


def without_clip(batches, _corpus):
    del batches[0]["clip"]


def too_many_short_batches(batches, _corpus):
    batches[:] = [{key: value[i : i + 2] for key, value in batch.items()} for batch in batches for i in range(0, 8, 2)]


BROKEN = {
    missing: "missing clips: 1 of 23: ",
    doubled: "doubled clips: clip ",
    swapped_label: "wrong labels: clip ",
    swapped_target: "wrong targets: clip ",
    scaled: "is scaled by 1.000031",
    scaled_down: "is scaled by 0.999969",
    wrapped: "wraps around the int16 range at ",
    padded_with_last_sample: "wrong in the padding",
    last_batch_dropped: "missing clips: 7 of 23: ",
    audio_exchanged: "carries the audio of clip ",
    clip_of_another_split: "clips that are not in the split: clip ",
    shifted: "is shifted by 1 samples",
    not_a_number: "not finite",
    a_tiny_difference: "differs at 1 of 1600 samples",
    minus_zero: "altered clips: clip ",
    float64: "audio is torch.float64",
    without_channel: "expected torch.float32 (8, 1, 1600)",
    without_clip: "found the keys audio, target, labels, allowed are audio, target, labels, clip",
    too_many_short_batches: "short batches: ",
}


@pytest.mark.parametrize("breaks", BROKEN, ids=lambda breaks: breaks.__name__)
def test_a_broken_loader_is_caught_and_told(breaks, batches, corpus):
    """The verify epoch fails with the message, and no epoch is timed."""
    broken = [{key: value.clone() for key, value in batch.items()} for batch in batches]
    breaks(broken, corpus)
    verifier = Verifier(corpus, "train", BATCH_SIZE, 1)
    times = protocol.run(always(broken), verifier, Sink("cpu"), 2, Ticks())
    assert not verifier.ok
    assert BROKEN[breaks] in " | ".join(verifier.problems)
    assert times.epochs == []


def test_a_right_loader_passes(batches, corpus):
    verifier = Verifier(corpus, "train", BATCH_SIZE, 1)
    times = protocol.run(always(batches), verifier, Sink("cpu"), 2, Ticks())
    assert verifier.problems == []
    assert verifier.as_json() == {"ok": True, "expected": 23, "delivered": 23, "problems": []}
    assert [epoch.clips for epoch in times.epochs] == [23, 23]


def test_a_loader_that_cheats_after_the_verify_epoch_is_caught(batches, corpus):
    """Right in the verify epoch, short in the second timed one."""

    @contextmanager
    def opened():
        yield lambda number: iter(batches[:-1] if number == 2 else batches)

    verifier = Verifier(corpus, "train", BATCH_SIZE, 1)
    protocol.run(opened, verifier, Sink("cpu"), 3, Ticks())
    assert len(verifier.problems) == 1
    assert verifier.problems[0].startswith("missing clips in timed epoch 2: 7 of 23")


class Ticks:
    """A clock that says 0, 1, 2, ... and notes nothing else."""

    def __init__(self) -> None:
        self.now = -1.0

    def __call__(self) -> float:
        self.now += 1
        return self.now


def always(batches):
    """Return an `opened` for the protocol that gives the same batches in every epoch."""

    @contextmanager
    def opened():
        yield lambda number: iter(batches)  # noqa: ARG005

    return opened


BROKEN_FILE = '''"""A loader broken on purpose: it leaves the sign of the loudest samples to chance."""

from contextlib import contextmanager

import {library}

FORMAT = "memmap"
ENV = "torch"
REQUIRES = {requires}
SETTINGS = ()


@contextmanager
def open_epochs(request):
    {body}
    yield lambda number: iter([])
'''


@pytest.mark.parametrize(
    ("body", "requires", "status", "reason"),
    [
        ("pass", ("torch",), "failed", "verification: missing clips: 23 of 23: "),
        ("raise OSError('the disk is gone')", ("torch",), "failed", "OSError: the disk is gone"),
        ("os.kill(os.getpid(), 11)", ("torch",), "failed", "the process crashed (SIGSEGV)"),
        ("pass", ("no-such-library",), "skipped", "not installed: no-such-library"),
    ],
)
def test_run_loader_records_what_happened(tmp_path, corpus, broken_project, body, requires, status, reason):
    """The program itself: a broken loader is a record with its reason and without a speed; exit status 0."""
    text = BROKEN_FILE.format(library="os", requires=repr(requires), body=body)
    (broken_project / "loaders" / "broken.py").write_text(text)
    write_format(corpus, "memmap", tmp_path / "memmap", readers=1)
    out = tmp_path / "run.json"
    command = [sys.executable, broken_project / "run_loader.py", "--loader", "broken", "--data", tmp_path / "memmap"]
    subprocess.run([*command, "--corpus", corpus.root, "--out", out], check=True, capture_output=True)
    record = json.loads(out.read_text())
    assert (record["status"], record["clips_per_second"]) == (status, None)
    assert record["reason"].startswith(reason)


@pytest.fixture
def broken_project(tmp_path):
    """A copy of scripts/ to plant a loader in."""
    import shutil

    return shutil.copytree(plugins.SCRIPTS, tmp_path / "scripts", ignore=shutil.ignore_patterns("__pycache__"))


def test_a_killed_run_leaves_no_record_and_no_process(tmp_path, corpus, broken_project):
    """kill -9 of the program in the middle of a run: nothing that looks finished, and its child ends as well."""
    import time

    import psutil

    (broken_project / "loaders" / "broken.py").write_text(
        BROKEN_FILE.format(library="time", requires=("torch",), body="time.sleep(60)")
    )
    write_format(corpus, "memmap", tmp_path / "memmap", readers=1)
    out = tmp_path / "run.json"
    command = [sys.executable, broken_project / "run_loader.py", "--loader", "broken", "--data", tmp_path / "memmap"]
    process = subprocess.Popen([*command, "--corpus", corpus.root, "--out", out])
    children = []
    while not children:
        children = psutil.Process(process.pid).children()
        time.sleep(0.05)
    process.kill()
    process.wait()
    _, alive = psutil.wait_procs(children, timeout=10)
    assert not alive
    assert not list(tmp_path.glob("*run.json*"))


def test_sink_reads_every_tensor_once(batches):
    """The sum of every tensor of the contract is taken."""
    seen = []

    class Counted(torch.Tensor):
        def sum(self, *args, **kwargs):
            seen.append(tuple(self.shape))
            return super().sum(*args, **kwargs)

    Sink("cpu").consume({key: value.as_subclass(Counted) for key, value in batches[0].items()})
    assert sorted(seen) == sorted(tuple(value.shape) for value in batches[0].values())
