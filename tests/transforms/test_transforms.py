"""Transforms: each file keeps its contract, loaders deliver what they make of their items, wrong ones are caught."""

import json
import math
import random
import subprocess
from dataclasses import replace

import numpy as np
import pytest
import torch

from scripts.common import plugins, transforms
from scripts.common.errors import UserError
from scripts.common.files import read_json
from scripts.common.location import PATH
from scripts.loaders._transformed import Applied
from scripts.measure.sink import data_of
from scripts.measure.transformed import LEFT_OUT, TransformedSink, opened
from tests.support.isolated_cases import is_isolated
from tests.support.loader_cases import request_for, unsuited, write_format
from tests.support.made_corpus import make_corpus
from tests.support.programs import program_line

NAMES = plugins.names("transforms")
OWN = "def item(audio):\n    return audio[:, ::2] * 2\n"
LOADERS = [
    name
    for name in plugins.names("loaders")
    if "audio" in plugins.kinds(module := plugins.load("loaders", name))
    and not is_isolated(module)
    and getattr(module, "READS", (PATH,))[0] == PATH
]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """A corpus of 40 items of half a second."""
    return make_corpus(tmp_path_factory.mktemp("transforms") / "corpus", items=40, seconds=0.5)


@pytest.fixture(scope="module")
def placed(corpus, tmp_path_factory):
    """A function from a loader to the folder of its format."""
    folder, written = tmp_path_factory.mktemp("formats"), set()

    def of(loader):
        name = plugins.load("loaders", loader).FORMAT
        if name not in written:
            write_format(corpus, name, folder / name, 2)
            written.add(name)
        return folder / name

    return of


def applied_to(corpus, name="log_mel", entries=None) -> Applied:
    return Applied(transforms.defined(name, entries or {}), corpus.sample.key, corpus.sample_rate)


def asked(corpus, placed, loader, name="log_mel", entries=None, **changes):
    request = request_for(corpus, loader, placed(loader), transform=name, **changes)
    return replace(request, applied=applied_to(corpus, name, entries))


@pytest.mark.parametrize("name", NAMES)
def test_an_item_by_itself_is_as_in_a_batch(corpus, name):
    item, batch = applied_to(corpus, name).functions("cpu")
    data = torch.stack([torch.from_numpy(corpus.delivered(one)) for one in list(corpus.items("train"))[:5]])
    second = plugins.load("transforms", name).__dict__.get("SECOND", False)
    data = (data, data.roll(1, 0)) if second else (data,)
    together, apart = batch(*data), torch.stack([item(*rows) for rows in zip(*data, strict=True)])
    assert together.shape == apart.shape and together.dtype == torch.float32 and torch.isfinite(together).all()
    if not plugins.load("transforms", name).RANDOM:
        assert torch.allclose(together, apart, rtol=1e-3, atol=1e-4)
        assert torch.equal(together, batch(*data))
    else:
        assert not torch.equal(together, batch(*data))


def test_shapes_follow_from_options(corpus):
    entries = {"wide": {"transform": "log_mel", "bands": 60}, "slow": {"transform": "resample", "by": "soxr"}}
    data = torch.from_numpy(corpus.delivered(next(iter(corpus.items("train")))))[None]
    assert applied_to(corpus, "wide", entries).functions("cpu")[1](data).shape[1:3] == (1, 60)
    assert applied_to(corpus, "slow", entries).functions("cpu")[1](data).shape == (1, 1, data.shape[2] // 2)
    by_torchaudio, by_soxr = (
        applied_to(corpus, name, entries).functions("cpu")[1](data) for name in ("resample", "slow")
    )
    assert torch.corrcoef(torch.stack([by_torchaudio[0, 0], by_soxr[0, 0]]))[0, 1] > 0.9


@pytest.mark.parametrize("where", ["worker", "device"])
@pytest.mark.parametrize("loader", LOADERS)
def test_a_loader_delivers_each_item_transformed(corpus, placed, loader, where):
    request = asked(corpus, placed, loader, transform_in=where, workers=1)
    module = plugins.load("loaders", loader)
    if reason := unsuited(module, request):
        pytest.skip(reason)
    items = {item.index: corpus.delivered(item) for item in corpus.items("train")}
    function, _ = request.applied.functions("cpu")
    found = {}
    with opened(module, request) as epoch:
        sink = TransformedSink("cpu", request.applied, corpus)
        for batch in epoch(0):
            sink.consume(batch)
            for number, row in zip(batch["item"].tolist(), data_of(batch), strict=True):
                assert number not in found
                found[number] = row.clone()
    assert found.keys() == items.keys()
    for number, row in found.items():
        right = function(torch.from_numpy(items[number]))
        assert torch.isclose(row, right, rtol=1e-3, atol=1e-4).float().mean() > 0.99


@pytest.mark.parametrize("name", ["random_gain", "noise"])
def test_what_is_random_is_the_same_whichever_process_does_it(corpus, placed, name):
    """By the epoch and the item: in other workers, in another loader, in the training's process; and held to it."""
    found = {}
    for loader, workers in (("npy", 2), ("npy", 0), ("soundfile", 1), ("ring", 0)):
        if (name, loader) == ("noise", "ring"):
            continue
        request = asked(corpus, placed, loader, name, workers=workers)
        with opened(plugins.load("loaders", loader), request) as epoch:
            for number in range(2):
                sink = TransformedSink("cpu", request.applied, corpus)
                for batch in epoch(number):
                    sink.consume(batch)
                    for item, row in zip(batch["item"].tolist(), data_of(batch), strict=True):
                        found.setdefault((number, item), []).append(row.clone())
    for rows in found.values():
        assert len(rows) == 4 - (name == "noise") and all(torch.allclose(rows[0], row, atol=1e-6) for row in rows)
    assert not any(torch.equal(rows[0], found[1, item][0]) for (number, item), rows in found.items() if number == 0)


OWN_RANDOM = """
import random
import numpy as np
import torch


def item(audio):
    return audio * (1 + random.random()) * float(1 + np.random.rand()) + torch.rand(1)
"""


@pytest.mark.parametrize("text", [OWN_RANDOM, OWN_RANDOM.replace("def item", "def batch")])
def test_what_is_random_in_a_file_of_ones_own_is_seeded_by_seed_epoch_and_item(corpus, placed, tmp_path, text):
    """Whichever process or loader does it; and each of the three changes what comes."""
    (tmp_path / "mine.py").write_text(text)
    entries, found = {"mine": {"file": str(tmp_path / "mine.py")}}, {}
    for loader, workers, seed in (("npy", 2, 0), ("npy", 0, 0), ("ring", 0, 0), ("soundfile", 1, 0), ("npy", 0, 1)):
        request = asked(corpus, placed, loader, "mine", entries, workers=workers)
        request.applied.seed = seed
        with opened(plugins.load("loaders", loader), request) as epoch:
            for number in range(2):
                sink = TransformedSink("cpu", request.applied, corpus)
                for batch in epoch(number):
                    sink.consume(batch)
                    for item, row in zip(batch["item"].tolist(), batch["audio"], strict=True):
                        found.setdefault((seed, number, item), []).append(row.clone())
    assert {len(rows) for (seed, *_), rows in found.items() if not seed} == {4}
    assert all(torch.allclose(rows[0], row, atol=1e-6) for rows in found.values() for row in rows)
    offsets = [rows[0][0, :8].tolist() for rows in found.values()]
    assert len({tuple(one) for one in offsets}) == len(offsets), "other seeds, epochs and items draw otherwise"
    batch["audio"] = batch["audio"] * 1.01
    with pytest.raises(ValueError, match="is not what it makes of that item"):
        TransformedSink("cpu", request.applied, corpus).consume(batch)


@pytest.mark.parametrize(
    ("loader", "how"),
    [
        ("npy", {"start_method": "spawn"}),
        ("npy", {"start_method": "forkserver", "persistent_workers": False}),
        ("webdataset", {}),
        ("torchdata", {"workers": 3}),
        ("torchdata", {"options": {"method": "process"}}),
    ],
)
def test_the_epoch_reaches_whoever_transforms(corpus, placed, loader, how):
    """Workers that are no forks, those of a data set that orders itself, and threads, which share the generators."""
    found = []
    for name, changes in (("npy", {"workers": 0}), (loader, {"workers": 1, **how})):
        request = asked(corpus, placed, name, "random_gain", **changes)
        with opened(plugins.load("loaders", name), request) as epoch:
            items = [
                (number, item, row.clone())
                for number in range(2)
                for batch in epoch(number)
                for item, row in zip(batch["item"].tolist(), data_of(batch), strict=True)
            ]
        found.append({(number, item): row for number, item, row in items})
    right, rows = found
    assert rows.keys() == right.keys() and all(torch.allclose(row, right[key], atol=1e-6) for key, row in rows.items())


def test_what_is_seeded_leaves_the_generators_as_they_were(corpus, placed, tmp_path):
    """Or else a loader that draws its order from them would have the same one in each epoch."""
    (tmp_path / "mine.py").write_text("def item(audio):\n    return audio * 2\n")
    request = asked(corpus, placed, "npy", "mine", {"mine": {"file": str(tmp_path / "mine.py")}}, workers=0)
    with opened(plugins.load("loaders", "npy"), request) as epoch:
        batches = iter(epoch(0))
        before = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist()
        next(batches)
    after = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist()
    assert torch.equal(before[0], after[0]) and before[1:] == after[1:]


def test_another_random_gain_than_that_of_the_item_is_caught(corpus, placed):
    request = asked(corpus, placed, "npy", "random_gain", workers=1)
    with opened(plugins.load("loaders", "npy"), request) as epoch:
        batch = next(iter(epoch(0)))
    TransformedSink("cpu", request.applied, corpus).consume(batch)
    with pytest.raises(ValueError, match="is not what it makes of that item"):
        TransformedSink("cpu", request.applied, corpus).consume({**batch, "audio": batch["audio"] * 1.01})


def test_randomness_that_no_seed_reaches_is_no_fault(corpus, placed, tmp_path):
    text = "import os\n\n\ndef item(audio):\n    return audio * (1 + os.urandom(1)[0] / 100)\n"
    (tmp_path / "mine.py").write_text(text)
    request = asked(corpus, placed, "npy", "mine", {"mine": {"file": str(tmp_path / "mine.py")}}, workers=1)
    with opened(plugins.load("loaders", "npy"), request) as epoch:
        TransformedSink("cpu", request.applied, corpus).consume(next(iter(epoch(0))))


def test_a_second_item_wants_a_data_set_to_read_it_from(corpus, placed):
    with (
        pytest.raises(UserError, match="finds no data set"),
        opened(plugins.load("loaders", "ring"), asked(corpus, placed, "ring", "noise")),
    ):
        pass
    request = asked(corpus, placed, "npy", "noise", workers=1)
    items = {item.index: torch.from_numpy(corpus.delivered(item)) for item in corpus.items("train")}
    with opened(plugins.load("loaders", "npy"), request) as epoch:
        for batch in epoch(0):
            for number, row in zip(batch["item"].tolist(), batch["audio"], strict=True):
                rest = (row - items[number]).flatten()
                alike = [torch.corrcoef(torch.stack([rest, one.flatten()]))[0, 1] for one in items.values()]
                assert max(alike) > 0.999


@pytest.mark.parametrize("loader", ["soundfile", "webdataset", "numpy_memmap", "ring"])
def test_without_workers_and_with_the_transform_left_out(corpus, placed, loader):
    module = plugins.load("loaders", loader)
    whole = asked(corpus, placed, loader, workers=0)
    with opened(module, whole) as epoch:
        assert data_of(next(iter(epoch(0)))).shape[2] == 80
    with opened(module, replace(whole, without=frozenset({LEFT_OUT}))) as epoch:
        assert data_of(next(iter(epoch(0)))).shape[1:] == corpus.sample.shape


def test_with_the_transfer_left_out_the_form_is_the_same(corpus, placed):
    request = asked(corpus, placed, "npy", workers=1, without=frozenset({"transfer"}))
    with opened(plugins.load("loaders", "npy"), request) as epoch:
        assert data_of(next(iter(epoch(0)))).shape[2] == 80


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda data: data.roll(1, 0), "is not what it makes of that item"),
        (lambda data: data + 0.01, "is not what it makes of that item"),
        (lambda data: data[..., :-1], "is not what it makes of that item"),
        (lambda data: data.masked_fill(data == data.max(), math.nan), "not finite"),
    ],
)
def test_wrong_items_are_caught(corpus, placed, spoil, words):
    request = asked(corpus, placed, "npy")
    with opened(plugins.load("loaders", "npy"), request) as epoch:
        batch = dict(next(iter(epoch(0))))
    TransformedSink("cpu", request.applied, corpus).consume(batch)
    batch["audio"] = spoil(batch["audio"])
    with pytest.raises(ValueError, match=words):
        TransformedSink("cpu", request.applied, corpus).consume(batch)


@pytest.mark.parametrize(
    "text", [OWN, OWN.replace("item", "batch").replace("[:, ::2]", "[:, :, ::2]"), f"RANDOM = False\n{OWN}"]
)
def test_a_file_of_ones_own(corpus, placed, tmp_path, text):
    (tmp_path / "mine.py").write_text(text)
    request = asked(corpus, placed, "npy", "mine", {"mine": {"file": str(tmp_path / "mine.py")}}, workers=1)
    with opened(plugins.load("loaders", "npy"), request) as epoch:
        batch = next(iter(epoch(0)))
    TransformedSink("cpu", request.applied, corpus).consume(batch)
    right = {item.index: corpus.delivered(item)[:, ::2] * 2 for item in corpus.items("train")}
    for number, row in zip(batch["item"].tolist(), batch["audio"], strict=True):
        assert np.array_equal(row.numpy(), right[number])


def test_what_is_no_transform_is_refused(tmp_path):
    with pytest.raises(UserError, match=r"found 'logmel', allowed are none, .*log_mel.* Did you mean 'log_mel'"):
        transforms.defined("logmel", {})
    with pytest.raises(UserError, match="found no file"):
        transforms.defined("mine", {"mine": {"file": str(tmp_path / "mine.py")}})
    assert transforms.unsuited(transforms.defined("log_mel", {}), "image")
    assert transforms.defined("none", {}) is transforms.defined(None, {}) is None


@pytest.mark.parametrize(
    ("loader", "changes", "place"),
    [
        ("npy", {"workers": 1}, "worker"),
        ("npy", {"workers": 0}, "process"),
        ("npy", {"workers": 1, "transform_in": "device"}, "process"),
        ("memmap_int16", {"workers": 1}, "process"),
        ("tensorclass", {}, "process"),
        ("ring", {}, "process"),
    ],
)
def test_where_it_is_at_work(corpus, placed, loader, changes, place):
    request = asked(corpus, placed, loader, **changes)
    with opened(plugins.load("loaders", loader), request) as epoch:
        assert data_of(next(iter(epoch(0)))).shape[2] == 80
    assert request.applied.place(request) == place


def test_a_run_by_hand_is_measured_and_explained(corpus, placed, tmp_path):
    settings = {"batch_size": 8, "workers": 1, "transform": "log_mel"}
    words = [
        "--loader",
        "soundfile",
        "--data",
        placed("soundfile"),
        "--corpus",
        corpus.root,
        "--out",
        tmp_path / "run.json",
    ]
    words += ["--settings", json.dumps(settings), "--seconds", "0.1", "--bottlenecks"]
    done = subprocess.run([*program_line("run_loader"), *map(str, words)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    record = read_json(tmp_path / "run.json")
    assert record["status"] == "ok", record["reason"]
    assert (
        record["transformed"]["in"] == "worker"
        and not record["transformed"]["random"]
        and record["items_per_second"] > 0
    )
    assert LEFT_OUT in record["bottleneck_trials"]["without"]
