"""The contract of the loaders for data that is no audio: images, of bytes and of float32, and arrays of odd types."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from scripts.common import plugins
from scripts.common.request import Share
from scripts.kinds import array, image
from scripts.measure.verify import Verifier
from tests.loaders.test_loaders import skip_where_unsuited
from tests.support.isolated_cases import can_be_tested
from tests.support.loader_cases import BATCH_SIZE, Placed, nothing_left_open, request_for
from tests.support.made_corpus import make_corpus
from tests.support.object_stores import object_store

KINDS = {
    "image": image.Kind((20, 24)),
    "grey float image": image.Kind((16, 16), channels=1, dtype="float32", encoding="png"),
    "float16 array": array.Kind((3, 5), "float16"),
    "int64 array": array.Kind((7,), "int64"),
}


def options_of(loader: str) -> list[dict]:
    """Return the settings by default and, of a loader that is for no audio, each other value of a choice."""
    module = plugins.load("loaders", loader)
    choices = {} if "audio" in plugins.kinds(module) else getattr(module, "OPTIONS", {})
    return [{}] + [{name: value} for name, part in choices.items() for value in part.get("enum", [])[1:]]


CASES = [
    pytest.param(name, loader, workers, options, id=f"{name}-{loader}-{workers}-{'-'.join(map(str, options.values()))}")
    for name, kind in KINDS.items()
    for loader in can_be_tested("loaders")
    if kind.sample.kind in plugins.kinds(plugins.load("loaders", loader))
    for options in options_of(loader)
    for workers in ((0, 2) if name == "image" else (2,))
]
IMAGE_LOADERS = [one for one in can_be_tested("loaders") if plugins.kinds(plugins.load("loaders", one)) == ("image",)]


@pytest.fixture(scope="module")
def placed(tmp_path_factory) -> Iterator[dict[str, Placed]]:
    """A corpus of each kind, in the formats that have been asked for."""
    with ExitStack() as stores:
        yield {
            name: Placed(
                make_corpus(tmp_path_factory.mktemp("corpus") / "made", clips=45, kind=kind),
                tmp_path_factory.mktemp("placed"),
                stores.enter_context(object_store(tmp_path_factory.mktemp("objects"))),
            )
            for name, kind in KINDS.items()
        }


@pytest.mark.parametrize(("name", "loader", "workers", "options"), CASES)
def test_delivers_every_item_once_and_right(placed, name, loader, workers, options):
    """Two epochs through the same gate as a run, with all settings by default; nothing is left open."""
    corpus = placed[name].corpus
    request = request_for(corpus, loader, placed[name].location(loader), workers=workers, options=options)
    skip_where_unsuited(request, loader)
    with nothing_left_open():
        orders = verified_orders(corpus, request, loader)
    assert orders[0] != orders[1]


@pytest.mark.parametrize("loader", IMAGE_LOADERS)
@pytest.mark.parametrize("world", [2, 3])
def test_ranks_deliver_every_image_once_together(placed, loader, world):
    corpus = placed["image"].corpus
    delivered = []
    for rank in range(world):
        share = Share(rank, world)
        request = request_for(corpus, loader, placed["image"].location(loader), workers=2, share=share)
        with plugins.load("loaders", loader).open_epochs(request) as epoch:
            delivered += [index for batch in epoch(0) for index in batch["clip"].tolist()]
    assert sorted(delivered) == [clip.index for clip in corpus.clips("train")]


@pytest.mark.parametrize("loader", IMAGE_LOADERS)
def test_a_stage_that_is_left_out_changes_no_shape(placed, loader):
    corpus, module = placed["image"].corpus, plugins.load("loaders", loader)
    for stage in module.STAGES:
        request = request_for(corpus, loader, placed["image"].location(loader), workers=2, without=frozenset([stage]))
        with module.open_epochs(request) as epoch:
            shapes = {tuple(batch["image"].shape[1:]) for batch in epoch(0)}
        assert shapes == {corpus.sample.shape}, stage


def verified_orders(corpus, request, loader) -> list[list[int]]:
    """Take two epochs through the gate; return the order of items of each."""
    module, orders = plugins.load("loaders", loader), []
    limit = plugins.pixel_limit(module, request.options)
    with module.open_epochs(request) as epoch:
        for number in range(2):
            verifier = Verifier(corpus, "train", BATCH_SIZE, max(1, request.workers), limit=limit)
            order = []
            for batch in epoch(number):
                assert verifier.check(batch), verifier.problems
                order += batch["clip"].tolist()
            assert verifier.problems == []
            assert sorted(order) == [clip.index for clip in corpus.clips("train")]
            orders.append(order)
    return orders
