"""The contract of the loaders for data that is no audio: images, of bytes and of float32, and arrays of odd types."""

import os
import re
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
import torch

from scripts.common import plugins
from scripts.common.request import Share
from scripts.kinds import array, image
from scripts.measure.verify import Verifier
from tests.loaders.test_loaders import skip_what_is_no_gpus_concern, skip_where_unsuited
from tests.support.isolated_cases import can_be_tested
from tests.support.loader_cases import BATCH_SIZE, Placed, nothing_left_open, request_for, write_format
from tests.support.made_corpus import make_corpus
from tests.support.object_stores import object_store_if_installed

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
ON_A_GPU = [
    pytest.param(name, loader, options, id=f"{name}-{loader}-{'-'.join(map(str, options.values()))}")
    for name, kind in KINDS.items()
    for loader in can_be_tested("loaders")
    if kind.sample.kind in plugins.kinds(plugins.load("loaders", loader))
    for options in options_of(loader)
]
IMAGE_LOADERS = [one for one in can_be_tested("loaders") if plugins.kinds(plugins.load("loaders", one)) == ("image",)]


@pytest.fixture(scope="module")
def placed(tmp_path_factory) -> Iterator[dict[str, Placed]]:
    """A corpus of each kind, in the formats that have been asked for."""
    with ExitStack() as stores:
        yield {
            name: Placed(
                make_corpus(tmp_path_factory.mktemp("corpus") / "made", items=45, kind=kind),
                tmp_path_factory.mktemp("placed"),
                stores.enter_context(object_store_if_installed(tmp_path_factory.mktemp("objects"))),
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


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize(("name", "loader", "options"), ON_A_GPU)
def test_on_a_gpu_every_item_arrives_once_and_right(placed, name, loader, options):
    """As on a CPU, with page-locked memory where the loader has it; what nvJPEG decodes within its own limit."""
    corpus = placed[name].corpus
    skip_what_is_no_gpus_concern(plugins.load("loaders", loader))
    location = placed[name].location(loader)
    asked = {"device": "cuda", "workers": 2, "pin_memory": True}
    request = request_for(corpus, loader, location, options=options, **asked)
    skip_where_unsuited(request, loader)
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
            delivered += [index for batch in epoch(0) for index in batch["item"].tolist()]
    assert sorted(delivered) == [item.index for item in corpus.items("train")]


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
    limit = plugins.pixel_limit(module, {"device": request.device, **request.options}, corpus.sample)
    with module.open_epochs(request) as epoch:
        for number in range(2):
            verifier = Verifier(corpus, "train", BATCH_SIZE, max(1, request.workers), request.device, limit=limit)
            order = []
            for batch in epoch(number):
                assert verifier.check(batch), verifier.problems
                order += batch["item"].tolist()
            assert verifier.problems == []
            assert sorted(order) == [item.index for item in corpus.items("train")]
            orders.append(order)
    return orders


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (
            lambda content: content[: len(content) // 2],
            " images in 1 tar shards, the split has 15: a shard is not there",
        ),
        (lambda content: b"no tar" + content, "shard-000000.tar: it cannot be read as a tar shard"),
        (lambda content: content.replace(b"000000003.json", b"000000003.text"), "000000003: "),
    ],
    ids=["cut", "no tar", "without labels"],
)
def test_a_tar_shard_that_cannot_be_indexed_is_named(tmp_path, spoil, said):
    corpus = make_corpus(tmp_path / "made", items=20, kind=image.Kind((20, 24)))
    write_format(corpus, "webdataset", tmp_path / "tar", readers=1)
    shard = tmp_path / "tar" / "train" / "shard-000000.tar"
    shard.write_bytes(spoil(shard.read_bytes()))
    loader = plugins.load("loaders", "ring_image_shards")
    with (
        nothing_left_open(),
        pytest.raises(ValueError, match=re.escape(said)),
        loader.open_epochs(request_for(corpus, "ring_image_shards", tmp_path / "tar", workers=2)),
    ):
        pass


def test_a_tar_shard_that_is_cut_while_it_is_open_is_named(tmp_path):
    corpus = make_corpus(tmp_path / "made", items=20, kind=image.Kind((20, 24)))
    write_format(corpus, "webdataset", tmp_path / "tar", readers=1)
    shard = tmp_path / "tar" / "train" / "shard-000000.tar"
    loader = plugins.load("loaders", "ring_image_shards")
    with loader.open_epochs(request_for(corpus, "ring_image_shards", tmp_path / "tar", workers=2)) as epoch:
        os.truncate(shard, shard.stat().st_size // 2)
        with pytest.raises(EOFError, match=r"shard-000000.tar: .*it was cut short while it was open"):
            list(epoch(0))
