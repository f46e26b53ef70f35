"""The contract of the loaders of pieces of recordings: each at its place, another one in each epoch."""

import os
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
import torch

from scripts.common import plugins
from scripts.common.request import LoaderRequest, Share, epoch_order, starts_of
from scripts.kinds import crops
from scripts.loaders._plain.crops import Places
from scripts.measure.pieces import Pieces, decoded_by
from scripts.measure.sink import Sink
from scripts.measure.verify import Verifier
from tests.loaders.test_programs import program, run_program, warm  # noqa: F401
from tests.support.isolated_cases import can_be_tested
from tests.support.loader_cases import BATCH_SIZE, Placed, nothing_left_open, request_for
from tests.support.made_corpus import make_corpus

RATE, SECONDS = 48_000, 0.5
LOADERS = [one for one in can_be_tested("loaders") if "crops" in plugins.kinds(plugins.load("loaders", one))]


def tones(sample, random) -> np.ndarray:
    """Return a recording that codecs with loss keep: a chirp with clicks, each channel another."""
    channels, samples = sample.shape
    frames = int(samples * random.uniform(0.8, 6))
    turns = np.cumsum(np.linspace(200, 4000, frames)) / RATE
    rows = [np.sin(2 * np.pi * turns * (1 + 0.1 * channel)) for channel in range(channels)]
    return (np.array(rows) * 12_000 + random.normal(0, 300, (channels, frames))).astype(np.int16)


@pytest.fixture(scope="module", params=[1, 2], ids=["mono", "stereo"])
def placed(request, tmp_path_factory) -> Placed:
    """A corpus of recordings, in the formats that have been asked for."""
    kind = crops.Kind(RATE, SECONDS, 0.0, items="crops", channels=request.param)
    made = make_corpus(tmp_path_factory.mktemp("corpus") / "made", items=28, kind=kind, content=tones)
    return Placed(made, tmp_path_factory.mktemp("placed"), None)


def ask(placed, loader, **changes) -> tuple[LoaderRequest, Pieces]:
    """Return a request for the loader, and what is right of it."""
    placed.corpus.decoded, module = None, plugins.load("loaders", loader)
    request = request_for(placed.corpus, loader, placed.location(loader), **changes)
    placed.corpus.decoded = decoded_by(plugins.format_of(module), request.data, placed.corpus, "train")
    placed.corpus.shift = plugins.time_shift(module, request.options)
    return request, Pieces(request, placed.corpus)


def options_of(loader: str) -> Iterator[dict]:
    yield {}
    for name, part in getattr(plugins.load("loaders", loader), "OPTIONS", {}).items():
        yield from ({name: value} for value in part.get("enum", []) if value != part["default"])


CASES = [
    pytest.param(loader, workers, options, id=f"{loader}-{workers}-{'-'.join(map(str, options.values())) or 'default'}")
    for loader in LOADERS
    for options in options_of(loader)
    for workers in ((0, 2) if not options else (0,))
]


@pytest.mark.parametrize(("loader", "workers", "options"), CASES)
def test_delivers_a_piece_of_every_recording_at_its_place(placed, loader, workers, options):
    request, pieces = ask(placed, loader, workers=workers, options=options)
    with nothing_left_open():
        orders, sums = verified(placed, loader, request, pieces)
    assert orders[0] != orders[1] != orders[2] != orders[0]
    assert sums[0] != sums[1]


def verified(placed, loader, request, pieces) -> tuple[list[list[int]], list[list[int]]]:
    """Take three epochs through the gate, the later ones by their checksums; return orders and sums of each."""
    module, orders, sums = plugins.load("loaders", loader), [], []
    limit = plugins.value_limit(module, {"device": "cpu", **request.options}, request.sample)
    with module.open_epochs(request) as epoch:
        short = max(1, request.workers)
        verifier = Verifier(placed.corpus, "train", BATCH_SIZE, short, limit=limit, pieces=pieces)
        sink = Sink("cpu")
        sink.varies = placed.corpus.decoded is not None
        for number in range(3):
            kept = []
            for batch in epoch(number):
                assert number or verifier.check(batch), verifier.problems
                kept.append(sink.consume(batch))
                places = [pieces.position[item] for item in batch["item"].tolist()]
                assert pieces.starts(number)[places].tolist() == batch["start"].tolist()
            verifier.check_epoch(number, kept) if number else verifier.finish(kept)
            orders.append([index for one in kept for index in one.item.tolist()])
            sums.append([value for one in kept for value in one.data.tolist()])
        assert verifier.problems == []
    return orders, sums


@pytest.mark.parametrize("loader", LOADERS)
@pytest.mark.parametrize("world", [2, 3])
def test_ranks_deliver_a_piece_of_every_recording_once_together(placed, loader, world):
    delivered = []
    for rank in range(world):
        request, pieces = ask(placed, loader, share=Share(rank, world))
        with plugins.load("loaders", loader).open_epochs(request) as epoch:
            for batch in epoch(0):
                delivered += batch["item"].tolist()
                assert batch["start"].tolist() == pieces.starts(0)[batch["item"].numpy()].tolist()
    assert sorted(delivered) == [item.index for item in placed.corpus.items("train")]


@pytest.mark.parametrize("loader", LOADERS)
@pytest.mark.parametrize("workers", [0, 2])
def test_a_stage_that_is_left_out_changes_no_shape(placed, loader, workers):
    module = plugins.load("loaders", loader)
    for stage in module.STAGES:
        request, _ = ask(placed, loader, workers=workers, without=frozenset([stage]))
        with module.open_epochs(request) as epoch:
            found = [(tuple(batch["audio"].shape[1:]), len(batch["item"])) for batch in epoch(0)]
        assert {shape for shape, _ in found} == {placed.corpus.sample.shape}, stage
        assert sum(count for _, count in found) == request.items


SPOILED = {
    "pieces of other places": lambda batch: {**batch, "start": batch["start"] + 1},
    "begins +3 samples": lambda batch: {**batch, "audio": batch["audio"].roll(-3, 2)},
    "begins -1105 samples": "late",
    "is scaled by 0.9": lambda batch: {**batch, "audio": batch["audio"] * 0.9},
    "values that are not finite": lambda batch: {**batch, "audio": batch["audio"] / 0},
    "differs at": lambda batch: {**batch, "audio": batch["audio"].sign() / 2},
    "wrong batch": lambda batch: {name: value for name, value in batch.items() if name != "start"},
    "channels exchanged": lambda batch: {**batch, "audio": batch["audio"].flip(1)},
}


@pytest.mark.parametrize("said", SPOILED)
def test_the_gate_sees_what_is_wrong_with_a_piece(placed, said):
    spoil = SPOILED[said]
    if said == "channels exchanged" and placed.corpus.sample.shape[0] == 1:
        pytest.skip("one channel")
    request, pieces = ask(placed, "crops_memmap")
    with plugins.load("loaders", "crops_memmap").open_epochs(request) as epoch:
        batch = next(epoch(0))
    if spoil == "late":
        rows = [placed.corpus.stored(pieces.items[pieces.position[item]]) for item in batch["item"].tolist()]
        starts = batch["start"].tolist()
        late = [
            crops.piece(r, s - 1105, placed.corpus.sample) if s > 1105 else None
            for r, s in zip(rows, starts, strict=True)
        ]
        assert any(one is not None for one in late)
        shifted = [row if one is None else torch.from_numpy(one) for row, one in zip(batch["audio"], late, strict=True)]
        batch = {**batch, "audio": torch.stack(shifted)}
    else:
        batch = spoil(batch)
    verifier = Verifier(placed.corpus, "train", BATCH_SIZE, 1, pieces=pieces)
    verifier.check(batch)
    assert said in " | ".join(f"{kind}: {case}" for kind, cases in verifier.faults.items() for case in cases)


def test_a_timed_epoch_with_the_pieces_of_another_is_seen(placed):
    """What a loader delivers that forgets the epoch, or the place: its proof is right, and a later epoch is not."""
    request, pieces = ask(placed, "crops_memmap")
    sink = Sink("cpu")
    with plugins.load("loaders", "crops_memmap").open_epochs(request) as epoch:
        rows = [row for batch in epoch(0) for row in zip(*map(torch.Tensor.tolist, sink.consume(batch)), strict=True)]
    assert pieces.differing(rows, 0) == []
    longer = [item.index for item in pieces.items if item.frames > request.samples + 100]
    assert set(pieces.differing(rows, 1)) >= set(longer)
    assert set(pieces.differing(rows, 0, seed=1)) >= set(longer)


def test_the_places_of_a_program_are_those_that_are_measured(placed):
    request, pieces = ask(placed, "crops_memmap")
    places = Places(request.frames, request.samples, request.seed)
    for epoch in range(3):
        assert list(places) == epoch_order(request, epoch).tolist()
        starts = starts_of(request, epoch)
        assert (starts >= 0).all() and (starts <= np.maximum(request.frames - request.samples, 0)).all()
    assert (starts_of(request, 0) != starts_of(replace(request, seed=1), 0)).any()
    assert [item.frames for item in pieces.items] == request.frames.tolist()


CHECK = """
import sys as _sys

import numpy as _numpy

if __name__ == "__main__":
    _found = {}
    for _epoch in range(2):
        _batches = [{name: rows.numpy().copy() for name, rows in _batch.items()} for _batch in loader]
        _found |= {f"{_name}{_epoch}": _numpy.concatenate([_one[_name] for _one in _batches]) for _name in _batches[0]}
    _numpy.savez(_sys.argv[1], **_found)
"""


@pytest.mark.parametrize("loader", LOADERS)
def test_a_program_delivers_the_pieces_that_are_measured(placed, warm, tmp_path, loader):  # noqa: F811
    """In the same order and at the same places as what is measured; two epochs."""
    if placed.corpus.sample.shape[0] == 1:
        pytest.skip("stereo is enough")
    request, pieces = ask(placed, loader, workers=2, seed=3)
    text = program(loader, request.data, 3, sample=placed.corpus.sample, workers=2) + CHECK
    out = tmp_path / "found.npz"
    done = run_program(text, "loaders", tmp_path, out, environment=os.environ, warm=warm)
    assert done.returncode == 0, done.stderr[-3000:]
    limit = plugins.value_limit(plugins.load("loaders", loader), request.options, request.sample)
    with np.load(out) as found:
        for epoch in range(2):
            places = epoch_order(request, epoch + 1).tolist()  # the program has had one
            assert found[f"start{epoch}"].tolist() == [start for _, start in places]
            for (position, start), row in zip(places, found[f"audio{epoch}"], strict=True):
                recording = placed.corpus.stored(pieces.items[position])
                right = crops.piece(recording, start + placed.corpus.shift, request.sample)
                assert np.abs(right - row).max() * 32768 <= limit
