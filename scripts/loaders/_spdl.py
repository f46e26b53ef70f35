"""What the loaders on SPDL share: a pipeline that runs on from epoch to epoch, in threads or in a subprocess.

The setting `workers` is SPDL's number of threads (at least one) and `prefetch` its sink's buffer. As SPDL's guide
advises, the source is continuous: the threads go on with the next epoch while the last batches of this one are taken,
and nothing is built again between epochs. What a pipeline is given can be pickled, so that it may run elsewhere.

Imports SPDL inside functions, since loaders are named where it is not installed.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

from scripts.common.request import LoaderRequest, batches_of, epoch_order
from scripts.loaders._torch import SETTINGS, Again, Batch, empty_shared, labels_of, rows_of, to_device  # noqa: F401
from scripts.machine import gpu

# Of the programs whose threads make whole batches: what comes before the function `read`, and what after it.
BATCHES_SNIPPET = """\
from spdl.pipeline import PipelineBuilder

$head
$labels
pin = $pin_memory  # page-locked memory makes the copy to a GPU faster


class Batches:
    def __init__(self):
        self.random = np.random.default_rng($seed)

    def __iter__(self):  # an epoch of positions, each time in a new order
        order = self.random.permutation(len(target))
        yield from (order[start : start + batch_size] for start in range(0, len(order), batch_size))
"""
READ_SNIPPET = """

loader = (
    PipelineBuilder()
    .add_source(Batches(), continuous=True)  # goes on with the next epoch by itself
    .pipe(read, concurrency=$workers, output_order="input")
    .add_sink($prefetch)
    .build(num_threads=$workers, max_failures=0)
)

$loop
"""

# Of the programs around a map-style Dataset: what stands above its class `Items`, and what below.
DATASET_SNIPPET = """\
from spdl.pipeline import PipelineBuilder
from torch.utils.data import Dataset, RandomSampler, default_collate

$head
$labels
pin = $pin_memory  # page-locked memory makes the copy to a GPU faster
"""
COLLATED_SNIPPET = """

def collate(items):
    batch = default_collate(items)
    return {name: tensor.pin_memory() for name, tensor in batch.items()} if pin else batch


dataset = Items()
loader = (
    PipelineBuilder()
    .add_source(RandomSampler(dataset, generator=torch.Generator().manual_seed($seed)), continuous=True)
    .pipe(dataset.__getitem__, concurrency=$workers, output_order="input")
    .aggregate(batch_size)
    .pipe(collate)
    .add_sink($prefetch)
    .build(num_threads=$workers, max_failures=0)
)

$loop
"""

Passes = AbstractContextManager[Iterable[Any]]  # an iterable that gives one epoch each time it is gone through


def threads_of(request: LoaderRequest) -> int:
    """Return the number of SPDL's threads."""
    return max(1, request.workers)


class Items:
    """A source of positions, int, one epoch each time it is iterated, from epoch `number` on."""

    def __init__(self, request: LoaderRequest, number: int) -> None:
        self.request, self.number = request, number

    def __iter__(self) -> Iterator[int]:
        return iter(self._order().tolist())

    def _order(self) -> Any:
        order = epoch_order(self.request, self.number)
        self.number += 1
        return order


class Batches(Items):
    """The same of batches of positions, int64 (batch,)."""

    def __iter__(self) -> Iterator[Any]:
        return batches_of(self._order(), self.request.batch_size)


class ReadBatch(ABC):
    """Reads a batch in a thread, each item straight into its row of the batch's tensor: `read`, of a subclass.

    Called with positions, int64 (batch,), it returns (data (batch, ...), positions). The tensor is in shared memory
    where it is to be `sent` to another process (None comes in its place where that is left out), in page-locked memory
    where that is asked for.
    """

    def __init__(self, request: LoaderRequest, sent: bool = False) -> None:
        self.request, self.sent = request, sent
        self.kept: Any = None  # the first item, where reading is left out

    def __call__(self, positions: Any) -> tuple[Any, Any]:
        batch = self._empty(len(positions))
        rows = batch.numpy()
        if "read" not in self.request.without:
            self.read(positions, rows)
        else:
            if self.kept is None:
                self.read(positions[:1], rows[:1])
                self.kept = rows[0].copy()
            rows[:] = self.kept
        return None if self.sent and "transfer" in self.request.without else batch, positions

    def _empty(self, count: int) -> Any:
        import numpy as np
        import torch

        shape, dtype = (count, *self.request.sample.shape), self.request.sample.dtype
        if self.sent:  # as torch's collate function does in a worker: filled there, it need not be copied there
            return empty_shared(shape, dtype)
        if self.request.pin_memory:
            return gpu.empty_pinned(shape, getattr(torch, dtype))
        return torch.from_numpy(np.empty(shape, dtype))  # NumPy asks for huge pages, torch does not

    @abstractmethod
    def read(self, positions: Any, rows: Any) -> None:
        """Write the items at `positions`, int64 (n,), into `rows`, an array (n, ...)."""


@contextmanager
def in_threads(builder: Any, request: LoaderRequest) -> Iterator[Iterable[Any]]:
    """Run the pipeline in threads of this process; a read that fails is an error, and no item that is left out."""
    pipeline = builder.add_sink(request.prefetch).build(num_threads=threads_of(request), max_failures=0)
    with pipeline.auto_stop():
        yield pipeline


@contextmanager
def in_subprocess(builder: Any, request: LoaderRequest) -> Iterator[Iterable[Any]]:
    """Run the pipeline in threads of another process, from which only finished batches come back.

    Not in SPDL's shared-memory arena: it would reuse a batch's memory, wait for a consumer that keeps batches, and take
    away at the end what is still held.
    """
    from spdl.pipeline import run_pipeline_in_subprocess

    passes = run_pipeline_in_subprocess(
        builder.add_sink(request.prefetch).get_config(),
        num_threads=threads_of(request),
        max_failures=0,
        buffer_size=request.prefetch,
        mp_context="fork",  # given, not inherited: importing torchrl sets it to spawn for the whole process
    )
    try:
        yield passes
    finally:
        passes._shutdown()  # SPDL has no public call for it (it ends the process when `passes` is collected)


@contextmanager
def epochs_of(started: Callable[[int], Passes]) -> Iterator[Callable[[int], Iterator[Any]]]:
    """Yield a function from an epoch's number to an iterator over what the pipeline gives in it.

    `started(number)` runs a pipeline whose passes are epochs number, number + 1, ... It begins with the first epoch
    that is asked for, so that nothing is read before; and again after an epoch that was left before its end.
    """
    with ExitStack() as running:
        passes: Iterable[Any] = ()
        ready: int | None = None  # the epoch whose pass comes next

        def epoch(number: int) -> Iterator[Any]:
            nonlocal passes, ready
            if number != ready:
                running.close()
                passes = running.enter_context(started(number))
            ready = None
            yield from passes
            ready = number + 1

        yield epoch


@contextmanager
def epochs_in_batches(
    read: Callable[[Any], tuple[Any, Any]],
    request: LoaderRequest,
    running: Callable[..., Passes] = in_threads,
    arrived: Callable[[Any, int], Any] | None = None,
) -> Iterator[Any]:
    """Yield the epoch function of threads that make whole batches: `read` of positions returns (data, positions).

    The threads are where `running` has them; `arrived` makes of data, and how many items it is, what is delivered.
    """
    import torch
    from spdl.pipeline import PipelineBuilder

    labels = labels_of(request)

    def started(number):
        builder = PipelineBuilder().add_source(Batches(request, number), continuous=True)
        builder.pipe(read, concurrency=threads_of(request), output_order="input")
        return running(builder, request)

    def batches(parts):
        for data, positions in parts:
            data = arrived(data, len(positions)) if arrived else data
            yield {request.sample.key: data, **rows_of(labels, torch.from_numpy(positions))}

    with epochs_of(started) as epoch:
        yield lambda number: to_device(batches(epoch(number)), request)


@contextmanager
def epochs_around(dataset: Any, request: LoaderRequest) -> Iterator[Callable[[int], Iterator[Batch]]]:
    """Yield the epoch function of a pipeline around a map-style Dataset: items are made in threads, then collated."""
    from spdl.pipeline import PipelineBuilder
    from torch.utils.data import default_collate

    dataset = Again(dataset, sent=False) if "read" in request.without else dataset

    def collate(items):
        batch = default_collate(items)
        return {key: gpu.pinned(value) for key, value in batch.items()} if request.pin_memory else batch

    def started(number):
        builder = PipelineBuilder().add_source(Items(request, number), continuous=True)
        builder.pipe(dataset.__getitem__, concurrency=threads_of(request), output_order="input")
        return in_threads(builder.aggregate(request.batch_size).pipe(collate), request)

    with epochs_of(started) as epoch:
        yield lambda number: to_device(epoch(number), request)
