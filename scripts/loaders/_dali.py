"""What the DALI loaders share: one pipeline and its PyTorch iterator, labels looked up by position, an orderly end.

DALI runs threads, not processes: the setting `workers` is its `num_threads`, `prefetch` its `prefetch_queue_depth`.
Imports DALI inside functions, since loaders are named where it is not installed.

The stage `read` can be left out of any of them: DALI then takes one batch in RAM, again and again, from an external
source. A loader that decodes adds `decode`, which `decoded` leaves out.
"""

import gc
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from scripts.common.request import LoaderRequest, batches_of, epoch_order
from scripts.loaders._torch import Batch, labels_of, rows_of
from scripts.loaders._torch import simplify_threads as simplify  # noqa: F401
from scripts.machine import gpu

SETTINGS = ("workers", "prefetch")
STAGES = ("read",)

# Of the programs that read numbered files: what comes first, what makes nodes of whole files, and what comes last.
HEAD_SNIPPET = """
from nvidia.dali import fn, pipeline_def

$head
$labels
target, labels = target.to(device), labels.to(device)
order = np.random.default_rng($seed).permutation(len(target)).tolist()  # of the first epoch


@pipeline_def(batch_size=batch_size, num_threads=$workers, prefetch_queue_depth=$prefetch, seed=$seed)
def pipeline():
"""
FILES_SNIPPET = (
    HEAD_SNIPPET
    + """\
    encoded, position = fn.readers.file(
        files=[str(data / f"{position:06d}.$ending") for position in order],
        labels=order,
        shuffle_after_epoch=True,
        pad_last_batch=True,  # or else it is filled with items of the next epoch
        name="reader",
    )
"""
)
BATCHES_SNIPPET = """

batches = $dali_iterator


class Loader:
    def __iter__(self):
        for [batch] in batches:
            where = batch["where"].flatten().long()
            where = where if device == "cpu" else where.pin_memory().to(device, non_blocking=True)
            yield {"$item": batch["$item"], "target": target[where], "labels": labels[where]}


$own_loader
"""


def positions_in(where: Any) -> Any:
    """Return a batch of positions, as DALI gives it, as int64 (batch,)."""
    return where.flatten().long()


def rank_files(request: LoaderRequest, suffix: str) -> tuple[list[str], list[int]]:
    """Return (paths, positions) of the numbered files that this rank delivers, in the first epoch's order.

    The share of a rank stays the same in every epoch; DALI's readers shuffle it again after each (shuffle_after_epoch).
    They must also pad the last batch (pad_last_batch), which the iterator then cuts: otherwise they fill it with items
    of the next epoch, which go lost there.
    """
    positions = epoch_order(request, 0).tolist()
    return [str(request.data / f"{position:06d}.{suffix}") for position in positions], positions


def resident(request: LoaderRequest) -> Callable[[], tuple[Any, Any]]:
    """Return the `outputs` of `epochs_of` for one batch of zeros in RAM instead of what is read: it has no reader."""
    import numpy as np
    from nvidia.dali import fn

    data = np.zeros((request.batch_size, *request.sample.shape), dtype=request.sample.dtype)

    class Batches:
        def __iter__(self) -> Iterator[tuple[Any, Any]]:
            for positions in batches_of(np.arange(request.items), request.batch_size):
                yield data[: len(positions)], positions[:, None]

    def outputs() -> tuple[Any, Any]:
        source = Batches()
        return tuple(fn.external_source(source=source, num_outputs=2, batch=True, cycle="raise", no_copy=True))

    return outputs


def decoded(encoded: Any, request: LoaderRequest) -> Any:
    """Return the node float32 (1, samples), padded or cut, of whole 16-bit mono WAV files in memory.

    Decodes to int16 and scales by 1/32768, since DALI's own conversion to float divides by 32767. The samples are
    flattened before they are cut, which DALI does much faster along one dimension. With `decode` left out the file is
    copied, so that it is read, and silence delivered.
    """
    from nvidia.dali import fn, types

    if "decode" in request.without:
        fn.copy(encoded, preserve=True)
        return fn.constant(fdata=0.0, shape=[1, request.samples], dtype=types.FLOAT)
    pcm, _ = fn.decoders.audio(encoded, dtype=types.INT16, downmix=False)
    flat = fn.reshape(pcm, shape=[-1])
    fixed = fn.slice(flat, start=[0], shape=[request.samples], axes=[0], out_of_bounds_policy="pad", fill_values=0)
    return fn.reshape(fixed * (1 / 32768), shape=[1, request.samples])


@contextmanager
def epochs_of(
    request: LoaderRequest,
    outputs: Callable[[], tuple[Any, Any]],
    reader: str | None = None,
    positions: Callable[[Any], Any] = positions_in,
    **arguments: Any,
) -> Iterator[Callable[[int], Iterator[Batch]]]:
    """Open a pipeline over a format with label arrays; yield the epoch function.

    As `labelled_epochs_of`, but `positions` turns a batch of `where` into positions in the split, int64 (batch,), by
    which the labels are looked up.
    """
    if "read" in request.without:
        outputs, reader, positions = resident(request), None, positions_in
    labels = {name: rows.to(request.device) for name, rows in labels_of(request).items()}

    def labelled(where: Any) -> Batch:
        return rows_of(labels, gpu.moved(positions(where), request.device))

    with labelled_epochs_of(request, outputs, reader, labelled, **arguments) as epoch:
        yield epoch


def epochs_of_files(
    request: LoaderRequest, suffix: str, node: Callable[[Any], Any]
) -> AbstractContextManager[Callable[[int], Iterator[Batch]]]:
    """Return what opens the epoch function over numbered files; `node` makes an item's node of that of whole files."""
    from nvidia.dali import fn

    files, positions = rank_files(request, suffix)

    def outputs() -> tuple[Any, Any]:
        encoded, where = fn.readers.file(
            files=files, labels=positions, shuffle_after_epoch=request.shuffle, pad_last_batch=True, name="reader"
        )
        return node(encoded), where

    return epochs_of(request, outputs, "reader")


@contextmanager
def labelled_epochs_of(
    request: LoaderRequest,
    outputs: Callable[[], tuple[Any, Any]],
    reader: str | None,
    labelled: Callable[[Any], Batch],
    **arguments: Any,
) -> Iterator[Callable[[int], Iterator[Batch]]]:
    """Build a pipeline from `outputs`, a function that returns its (data, where) nodes; yield the epoch function.

    `reader` names the node that knows the epoch's size; None for a source that ends an epoch by StopIteration.
    `labelled` turns a batch of `where` into target, labels and item on the asked device. `arguments` are further ones
    of DALI's pipeline.
    """
    from nvidia.dali import pipeline_def
    from nvidia.dali.plugin.pytorch import DALIGenericIterator, LastBatchPolicy

    copied = request.device != "cpu" and gpu.COPY not in request.without

    @pipeline_def(
        batch_size=request.batch_size,
        num_threads=max(1, request.workers),
        device_id=None if request.device == "cpu" else gpu.current(),
        prefetch_queue_depth=request.prefetch,
        seed=request.seed,
        **arguments,
    )
    def pipeline():
        data, where = outputs()
        return (data.gpu() if copied else data), where

    built = pipeline()
    with warnings.catch_warnings():
        # of processes that DALI starts: it leaves the sockets by which it sets them up to the collector
        warnings.simplefilter("ignore", ResourceWarning)
        built.build()
    size = {"reader_name": reader} if reader else {"size": -1}
    opened = [
        DALIGenericIterator(
            built, [request.sample.key, "where"], last_batch_policy=LastBatchPolicy.PARTIAL, auto_reset=True, **size
        )
    ]
    del built

    def epoch(_number: int) -> Iterator[Batch]:
        # no `for`: an epoch that is abandoned and kept would refer to the iterator, and keep its processes alive
        while (batches := next(opened[0], None)) is not None:
            [batch] = batches
            if len(batch["where"]):  # none: the padding of a rank whose share is an item smaller than another's
                yield {request.sample.key: batch[request.sample.key], **labelled(batch["where"])}

    def unsent(number: int) -> Iterator[Batch]:
        return gpu.uncopied(epoch(number), request)

    try:
        yield unsent if gpu.COPY in request.without else epoch
    finally:
        opened.clear()  # DALI ends its threads when the last reference to the pipeline goes
        gc.collect()
