"""An epoch of a loader over object storage through the gate, and the objects that it reads."""

from typing import Any

from scripts.common import plugins
from scripts.common.corpus import Corpus
from scripts.measure.sink import Sink
from scripts.measure.verify import Verifier
from tests.support.loader_cases import BATCH_SIZE, Placed, request_for


def objects_of(placed: Placed, loader: str) -> list[str]:
    """Return the keys of the objects of the train split that a loader reads."""
    location = placed.location(loader).split("train")
    name = plugins.load("loaders", loader).FORMAT
    names = {"npy": ["000003.npy", "000004.npy", "000011.npy"], "memmap": ["audio.npy"], "mosaic": ["shard.00000.mds"]}
    names["litdata"] = ["chunk-0-0.bin"]
    return [placed.store.key(location, one) for one in names.get(name, ["shard-000000.tar"])]


def epoch_of(corpus: Corpus, placed: Placed, loader: str, options: dict[str, Any]) -> list[str]:
    """Take one epoch through the gate; return what it finds wrong."""
    request = request_for(corpus, loader, placed.location(loader), options=options)
    sink, verifier = Sink("cpu"), Verifier(corpus, "train", BATCH_SIZE, 1)
    with plugins.load("loaders", loader).open_epochs(request) as epoch:
        checksums = [sink.consume(batch) for batch in epoch(0) if verifier.check(batch)]
    verifier.finish(checksums)
    return verifier.problems
