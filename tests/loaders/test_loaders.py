"""The contract of docs/architecture.md, for every file in scripts/loaders: being in the folder is being tested."""

from collections import OrderedDict
from collections.abc import Iterator
from importlib.util import find_spec
from types import SimpleNamespace

import pytest
import torch

from scripts.common import isolated, plugins
from scripts.common.corpus import Corpus
from scripts.common.location import PATH, Location
from scripts.common.request import LoaderRequest, Share
from scripts.common.sample import audio
from scripts.loaders import _torch
from scripts.machine import device_prefetch
from scripts.measure import across
from scripts.measure.bottleneck_trials import stages_of
from scripts.measure.sink import Sink
from scripts.measure.verify import Verifier
from tests.support.isolated_cases import can_be_tested
from tests.support.loader_cases import BATCH_SIZE, Placed, item_order, nothing_left_open, request_for, unsuited
from tests.support.made_corpus import make_corpus
from tests.support.object_stores import object_store_if_installed

# The others: tests/common/test_isolated.py, and, of other data than audio, test_kinds.py.
LOADERS = [one for one in can_be_tested("loaders") if "audio" in plugins.kinds(plugins.load("loaders", one))]
WORKERS = (0, 2)
ITEMS = 45  # with a quarter in validation: 34 in train, so that the last batch of 8 is short


@pytest.fixture(scope="module")
def corpus(tmp_path_factory) -> Corpus:
    """A corpus with items shorter and longer than the fixed length, which is whole disk blocks for O_DIRECT."""
    return make_corpus(tmp_path_factory.mktemp("corpus") / "made", items=ITEMS, seconds=0.064)


@pytest.fixture(scope="module")
def placed(corpus, tmp_path_factory) -> Iterator[Placed]:
    """The formats that have been asked for, and what serves them to loaders that read a bucket."""
    with object_store_if_installed(tmp_path_factory.mktemp("objects")) as store:
        yield Placed(corpus, tmp_path_factory.mktemp("placed"), store)


def ask(corpus, placed, loader, **changes):
    """Return a request for the loader."""
    return request_for(corpus, loader, placed.location(loader), **changes)


def own_settings(loader: str) -> list[dict]:
    """The loader's own settings at their default, and each value of a choice."""
    choices = getattr(plugins.load("loaders", loader), "OPTIONS", {})
    return [{}] + [{name: value} for name, part in choices.items() for value in part.get("enum", [])[1:]]


CASES = [  # the default with and without workers, each other choice with them
    pytest.param(loader, workers, options, id=f"{loader}-{workers}-{'-'.join(map(str, options.values())) or 'default'}")
    for loader in LOADERS
    for options in own_settings(loader)
    for workers in (WORKERS[-1:] if options else WORKERS)
]


@pytest.mark.parametrize(("loader", "workers", "options"), CASES)
def test_delivers_every_item_once_bit_identical_with_its_labels(corpus, placed, loader, workers, options):
    """Three epochs through the same gate as a run; orders differ; lasting batches last; nothing is left open."""
    request = ask(corpus, placed, loader, workers=workers, options=options)
    skip_where_unsuited(request, loader)
    with nothing_left_open():
        orders = verified_orders(corpus, request, loader)
    assert orders[0] != orders[1] != orders[2] != orders[0]
    assert orders[0] != sorted(orders[0])


STARTED = [one for one in LOADERS if "start_method" in plugins.load("loaders", one).SETTINGS]


@pytest.mark.parametrize(
    ("loader", "method", "persistent"),
    [*((loader, "spawn", True) for loader in STARTED), ("npy", "forkserver", True), ("npy", "spawn", False)],
)
def test_workers_that_are_started_otherwise_deliver_the_same(corpus, placed, loader, method, persistent):
    how = {"workers": 1, "start_method": method, "persistent_workers": persistent}
    request = ask(corpus, placed, loader, **how)
    skip_where_unsuited(request, loader)
    orders = verified_orders(corpus, request, loader)
    forked = verified_orders(corpus, ask(corpus, placed, loader, workers=1), loader)
    assert orders == forked


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize("settings", [{}, {"pin_memory": True}, {"pin_memory": True, "device_prefetch": 2}], ids=str)
@pytest.mark.parametrize("loader", LOADERS)
def test_on_a_gpu_every_item_arrives_once_and_right(corpus, placed, loader, settings):
    """Two epochs through the gate, with two workers; `make gpu` has installed what some of the loaders want only."""
    module = plugins.load("loaders", loader)
    skip_what_is_no_gpus_concern(module)
    request = ask(corpus, placed, loader, device="cuda", workers=2, **settings)
    skip_where_unsuited(request, loader)
    with device_prefetch.open_epochs(module, request) as epoch:
        for number in range(2):
            verifier = Verifier(corpus, "train", BATCH_SIZE, 2, "cuda")
            verify(epoch(number), verifier)
            assert verifier.problems == []


def skip_what_is_no_gpus_concern(module) -> None:
    """Skip the test of a loader that reads a bucket, or of one whose libraries `make gpu` has not installed."""
    absent = [name for name in module.REQUIRES if isolated.version_of(name, isolated.env_of(module)) is None]
    absent += [name for name in plugins.load("formats", module.FORMAT).REQUIRES if not find_spec(name)]
    if absent or getattr(module, "READS", (PATH,))[0] != PATH:
        pytest.skip(f"could not import {', '.join(absent) or 'what serves a bucket'}, or it copies nothing to a device")


def skip_where_unsuited(request, loader) -> None:
    """Skip the test, with the loader's own reason, where it says that these settings cannot run."""
    if reason := unsuited(plugins.load("loaders", loader), request):
        pytest.skip(reason)


def verified_orders(corpus, request, loader) -> list[list[int]]:
    """Take three epochs through the gate; return the order of items of each.

    Where the loader declares that batches last, all are kept, and are what they were when it is closed.
    """
    orders, kept, lasting = [], [], lifetime_of(request, loader) == "lasting"

    def kept_as_they_come(batches):
        for batch in batches:
            if lasting:
                kept.append((batch, {name: tensor.clone() for name, tensor in batch.items()}))
            yield batch

    with plugins.load("loaders", loader).open_epochs(request) as epoch:
        for number in range(3):
            verifier = Verifier(corpus, "train", BATCH_SIZE, max(1, request.workers))
            checksums = verify(kept_as_they_come(epoch(number)), verifier)
            assert verifier.problems == []
            orders.append([index for checksum in checksums for index in checksum.item.tolist()])
    assert all(torch.equal(batch[name], tensor) for batch, before in kept for name, tensor in before.items())
    return orders


def lifetime_of(request, loader) -> str:
    """Return how long a batch lasts, as the loader declares it for the settings of a request."""
    module = plugins.load("loaders", loader)
    asked = {name: getattr(request, name) for name in ("device", "batch_size", "workers", "prefetch", "pin_memory")}
    simplified = getattr(module, "simplify", lambda settings: settings)({**asked, **request.options})
    return plugins.lifetime(module, simplified)


@pytest.mark.parametrize("loader", LOADERS)
def test_declares_how_long_a_batch_lasts(loader):
    assert hasattr(plugins.load("loaders", loader), "LIFETIME")


@pytest.mark.parametrize("loader", ["ring", "ring_int16", "numpy_memmap", "lazy_memmap", "memmap_int16"])
def test_of_a_loader_with_both_forms_one_reuses_its_memory(corpus, placed, loader):
    """What lasts until the next batch is in memory that is used again, and no other form is."""
    module = plugins.load("loaders", loader)
    reused = "copies" not in module.OPTIONS
    for value, last in ((reused, "next"), (not reused, "lasting")):
        request = ask(corpus, placed, loader, options={"reuse" if reused else "copies": value})
        assert lifetime_of(request, loader) == last
        with module.open_epochs(request) as epoch:
            kept = [batch["audio"] for batch in epoch(0)]
        assert (len({audio.data_ptr() for audio in kept}) == 1) == (last == "next")


@pytest.mark.parametrize("loader", LOADERS)
def test_same_seed_same_order_other_seed_other_order(corpus, placed, loader):
    module = plugins.load("loaders", loader)
    orders = []
    for seed in (3, 3, 4):
        with module.open_epochs(ask(corpus, placed, loader, workers=2, seed=seed)) as epoch:
            orders.append([item_order(epoch, number) for number in range(2)])
    assert orders[0] == orders[1]
    assert orders[0] != orders[2]


@pytest.mark.parametrize("loader", LOADERS)
def test_without_shuffling_every_epoch_is_alike(corpus, placed, loader):
    module = plugins.load("loaders", loader)
    with module.open_epochs(ask(corpus, placed, loader, shuffle=False)) as epoch:
        first, second = item_order(epoch, 0), item_order(epoch, 1)
    assert first == second
    assert [index for batch in first for index in batch] == [item.index for item in corpus.items("train")]


@pytest.mark.parametrize(("world", "workers"), [(2, 2), (3, 0)])  # 34 items divide by 2; by 3 they do not
@pytest.mark.parametrize("loader", LOADERS)
def test_ranks_share_an_epoch(corpus, placed, loader, world, workers):
    """Through the gate across ranks: together every item once, or what the loader declares; orders differ by epoch."""
    module = plugins.load("loaders", loader)
    orders = []
    for rank in range(world):
        request = ask(corpus, placed, loader, workers=workers, share=Share(rank, world))
        skip_where_unsuited(request, loader)
        with module.open_epochs(request) as epoch:
            orders.append([[i for batch in item_order(epoch, number) for i in batch] for number in range(2)])
    items = {item.index for item in corpus.items("train")}
    problems, counts = across.check(orders, items, plugins.sharing(module), BATCH_SIZE)
    assert problems == [] and counts["epochs"] == 2


@pytest.mark.parametrize("loader", LOADERS)
def test_a_split_smaller_than_a_batch(corpus, placed, loader):
    """The validation split, with a batch larger than it."""
    module = plugins.load("loaders", loader)
    verifier = Verifier(corpus, "validation", 64, 1)
    with module.open_epochs(ask(corpus, placed, loader, split="validation", batch_size=64)) as epoch:
        verify(epoch(0), verifier)
    assert verifier.problems == []


@pytest.mark.parametrize("loader", LOADERS)
def test_an_abandoned_epoch_leaves_nothing(corpus, placed, loader):
    """A consumer that stops after the first batch, with workers running."""
    with nothing_left_open():
        take_one_batch(ask(corpus, placed, loader, workers=2), loader)


def verify(batches, verifier) -> list:
    """Pass an epoch through the gate and the sink; return the checksums."""
    sink = Sink("cpu")
    checksums = [sink.consume(batch) for batch in batches if verifier.check(batch)]
    verifier.finish(checksums)
    return checksums


def take_one_batch(request, loader) -> None:
    """Open a loader and ask it for one batch only."""
    with plugins.load("loaders", loader).open_epochs(request) as epoch:
        next(iter(epoch(0)))


def test_workers_send_no_more_tensors_than_those_of_a_program(corpus, placed):
    request = ask(corpus, placed, "npy", workers=2)
    pair = {"target": torch.tensor([5, 3]), "item": torch.tensor([8, 1])}
    batch = OrderedDict({"audio": torch.rand(2, 1, 9), "labels": torch.rand(2, 4), **pair})  # a type of its own
    sent = _torch.sent_by(request, _torch.as_is, None)(batch)
    assert len(sent) == len(("audio", "target", "labels")) and type(sent) is type(batch)
    [got] = _torch.received(iter([sent]), request, None)
    assert got.keys() == batch.keys() and all(torch.equal(got[name], tensor) for name, tensor in batch.items())
    [own] = _torch.received(iter([batch]), request, None)
    assert own is batch, "of a loader that sends them apart"


def test_on_a_cpu_nothing_holds_a_batch_until_the_next_one(corpus, placed):
    batches = iter([{}])
    assert _torch.received(batches, ask(corpus, placed, "npy", workers=0), None) is batches


STAGES = [  # each alone without workers, the way between processes and all together with them
    pytest.param(loader, workers, without, id=f"{loader}-{workers}-{'-'.join(without)}")
    for loader in LOADERS
    for workers in WORKERS
    for stages in [
        stages_of(
            plugins.load("loaders", loader), LoaderRequest(Location("file:///nowhere"), 0, audio(0), 0, workers=workers)
        )
    ]
    for without in [*((stage,) for stage in stages if not workers or stage == "transfer"), stages]
]


@pytest.mark.parametrize(("loader", "workers", "without"), STAGES)
def test_a_stage_that_is_left_out_leaves_batches_of_the_same_form(corpus, placed, loader, workers, without):
    """As many items an epoch, give or take each worker's rounding; the data is void."""
    request = ask(corpus, placed, loader, workers=workers, without=frozenset(without))
    sink, verifier = Sink("cpu"), Verifier(corpus, "train", BATCH_SIZE, max(1, workers))
    with nothing_left_open():
        sizes = sizes_of_epochs(request, loader, sink, verifier)
    assert all(abs(sum(epoch) - corpus.counts["train"]) <= max(0, workers - 1) for epoch in sizes)
    assert "wrong batch" not in verifier.faults


def sizes_of_epochs(request, loader, sink, verifier) -> list[list[int]]:
    """Return the sizes of the batches of two epochs, each of which the sink and the verifier can take."""
    with plugins.load("loaders", loader).open_epochs(request) as epoch:
        return [
            [len(sink.consume(batch).item) for batch in epoch(number) if verifier.check(batch)] for number in range(2)
        ]


@pytest.mark.parametrize("loader", plugins.names("loaders"))
def test_says_what_it_is(loader):
    """The file names an existing format, and its docstring is a report's line."""
    module = plugins.load("loaders", loader)
    assert module.FORMAT in plugins.names("formats")
    assert 20 < len(plugins.describe(module)) < 120


def test_a_loader_that_keeps_items_in_a_shuffle_buffer_says_how_many():
    """Each worker has its own; DALI's holds places in mapped shards, and no item."""
    names = [name for name in plugins.names("loaders") if name != "dali_webdataset"]
    modules = [
        module for name in names if "shuffle_buffer" in getattr(module := plugins.load("loaders", name), "OPTIONS", {})
    ]
    assert len(modules) >= 3
    for module in modules:
        for workers, shuffle, items in ((0, True, 40), (3, True, 120), (3, False, 0)):
            request = SimpleNamespace(workers=workers, shuffle=shuffle, options={"shuffle_buffer": 40})
            assert module.buffered(request) == items
