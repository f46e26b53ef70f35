"""What a proof measures of a loader beside its items, whatever the loader says: its order, how long a batch lasts."""

import json
import random
from dataclasses import replace

import pytest

from scripts.common.corpus import Corpus
from scripts.common.files import write_json
from scripts.measure import by_hand, one_run
from scripts.measure.runner import Runner
from tests.support.loader_cases import write_format
from tests.support.made_corpus import make_corpus

OWN = '''"""Delivers the items of memmap in the order that `positions` gives, in memory that `room` returns."""
from contextlib import contextmanager
import numpy as np
import torch
from scripts.common import plugins
from scripts.common.request import batches_of
FORMAT = "memmap"
SETTINGS = ()
{says}

def random(request, number):
    return np.random.default_rng([request.seed, number]).permutation(request.items)

def windows(request, number):
    return np.roll(np.arange(request.items), -17 * number - 5)

def in_turn(request, number):
    return random(request, number % 2) if number % 2 else np.roll(random(request, 0), number)

def random_in_proof(request, number):
    import inspect
    proof = any(frame.function == "proven" for frame in inspect.stack())
    return random(request, number) if proof else windows(request, number)

@contextmanager
def open_epochs(request):
    from dataclasses import replace
    request = replace(request, shuffle=False, workers=0, options={{"gather": "batch", "reuse": False}})
    with plugins.load("loaders", "numpy_memmap").open_epochs(request) as epoch:
        whole = [{{key: value.clone() for key, value in batch.items()}} for batch in epoch(0)]
    whole = {{key: torch.cat([batch[key] for batch in whole]) for key in whole[0]}}
    memory = {{key: value[:request.batch_size].clone() for key, value in whole.items()}}

    def refilled(batch):
        return {{key: memory[key][: len(value)].copy_(value) for key, value in batch.items()}}

    def epoch(number):
        for at in torch.as_tensor({positions}(request, number)).split(request.batch_size):
            batch = {{key: value[at] for key, value in whole.items()}}
            yield {room}(batch)

    yield epoch
'''


@pytest.fixture(scope="module")
def placed(tmp_path_factory):
    """A corpus of which the train split has more than a hundred items, and a format of it."""
    folder = tmp_path_factory.mktemp("proofs")
    write_format(make_corpus(folder / "corpus", items=200, seconds=0.1), "memmap", folder / "memmap", readers=1)
    return folder


@pytest.fixture(scope="module")
def runner(placed):
    """Makes proofs and runs by forks of a warm server, as a session does."""
    with Runner(Corpus(placed / "corpus").sample, random.Random(0)) as found:
        yield found


def made(runner, placed, folder, positions="random", room="dict", says="", mode="proof", more=(), source=OWN) -> dict:
    """Return the record of a proof, or of a run, of such a file."""
    (folder / "mine.py").write_text(source.format(positions=positions, room=room, says=says))
    asked = ["--loader", "mine", "--file", folder / "mine.py", "--data", placed / "memmap", "--mode", mode]
    asked += ["--corpus", placed / "corpus", "--out", folder / f"{mode}.json", "--seconds", "0.2", *more]
    asked += ["--settings", json.dumps({"batch_size": 8})]
    wanted, out = by_hand.run_of(by_hand.run_parser(None).parse_args(list(map(str, asked))))
    wanted = replace(wanted, path=str(out))
    return runner.made(one_run.completed_result(one_run.loader_of(wanted), wanted), fork=True)


def codes(record) -> set[str]:
    return {warning["code"] for warning in record["warnings"]}


@pytest.mark.parametrize(
    ("positions", "says", "measured", "code"),
    [
        ("random", "", "random", set()),
        ("windows", "", "sequential", {"order-not-random"}),
        ("in_turn", "", "repeated", {"order-not-random"}),
        ("windows", 'ORDER = "windows from a start that moves"', "sequential", set()),
    ],
)
def test_a_proof_measures_the_order(runner, placed, tmp_path, positions, says, measured, code):
    record = made(runner, placed, tmp_path, positions, says=says)
    assert (record["status"], record["order"]["measured"], codes(record)) == ("ok", measured, code)
    assert record["declared"]["order"] == ("windows from a start that moves" if says else "random")


@pytest.mark.parametrize(
    ("room", "says", "lasts", "code"),
    [
        ("dict", 'LIFETIME = "lasting"', "lasting", set()),
        ("refilled", 'LIFETIME = "lasting"', "next", {"not-lasting"}),
        ("refilled", "", "next", set()),
    ],
)
def test_a_proof_looks_again_at_batches_that_were_kept(runner, placed, tmp_path, room, says, lasts, code):
    record = made(runner, placed, tmp_path, room=room, says=says)
    assert (record["status"], record["lifetime"], codes(record)) == ("ok", lasts, code)


@pytest.mark.parametrize(("room", "lasts", "code"), [("dict", "lasting", False), ("refilled", "next", True)])
def test_batches_of_own_items_that_were_kept_are_looked_at_too(runner, placed, tmp_path, room, lasts, code):
    says = """LIFETIME = "lasting"
CHECK = "items"
class Batches:
    def __init__(self, request):
        self.request, self.number = request, 0
    def __iter__(self):
        self.number += 1
        with in_file(self.request) as epoch:
            yield from epoch(self.number)
def numbers(batch):
    return batch["item"]
def loader(request):
    return Batches(request)
"""
    source = OWN.replace("def open_epochs", "def in_file")
    record = made(runner, placed, tmp_path, room=room, says=says, source=source)
    assert (record["status"], record["lifetime"], "not-lasting" in codes(record)) == ("ok", lasts, code)


@pytest.mark.parametrize(("positions", "status"), [("random", "ok"), ("random_in_proof", "failed")])
def test_a_run_is_held_to_the_order_that_was_proven(runner, placed, tmp_path, positions, status):
    proof = made(runner, placed, tmp_path, positions)
    write_json(tmp_path / "proof.json", proof)
    record = made(runner, placed, tmp_path, positions, mode="run", more=["--proof", tmp_path / "proof.json"])
    assert (proof["order"]["measured"], record["status"]) == ("random", status)
    assert (record["order"], record["lifetime"]) == (proof["order"], proof["lifetime"])
    assert ("other order than was proven" in (record["reason"] or "")) == (status == "failed")
