"""What the DALI loaders share: one pipeline and its PyTorch iterator, labels looked up by position, an orderly end.

DALI runs threads, not processes: the setting `workers` is its `num_threads`, `prefetch` its `prefetch_queue_depth`.
Imports DALI inside functions, since loaders are named where it is not installed.

The stage `read` can be left out of any of them: DALI then takes one batch in RAM, again and again, from an external
source. A loader that decodes adds `decode`, and leaves it out itself.
"""

import gc
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from loading import LoaderRequest, batches_of, epoch_order

SETTINGS = ("workers", "prefetch")
STAGES = ("read",)


def simplify(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings with at least one thread, since DALI cannot do without."""
    return {**settings, "workers": max(1, settings["workers"])}


def rank_files(request: LoaderRequest, suffix: str) -> tuple[list[str], list[int]]:
    """Return (paths, positions) of the numbered files that this rank delivers, in the first epoch's order.

    The share of a rank stays the same in every epoch; DALI's readers shuffle it anew after each (shuffle_after_epoch).
    They must also pad the last batch (pad_last_batch), which the iterator then cuts: otherwise they fill it with clips
    of the next epoch, which go lost there.
    """
    positions = epoch_order(request, 0).tolist()
    return [str(request.data / f"{position:06d}.{suffix}") for position in positions], positions


def resident(request: LoaderRequest) -> tuple[Callable[[], tuple[Any, Any]], None, Callable[[Any], Any]]:
    """Return the (outputs, reader, positions) of `epochs_of` for one batch of zeros in RAM instead of what is read."""
    import numpy as np
    from nvidia.dali import fn

    audio = np.zeros((request.batch_size, 1, request.samples), dtype=np.float32)

    class Batches:
        def __iter__(self) -> Iterator[tuple[Any, Any]]:
            for positions in batches_of(np.arange(request.clips), request.batch_size):
                yield audio[: len(positions)], positions[:, None]

    def outputs() -> tuple[Any, Any]:
        source = Batches()
        return tuple(fn.external_source(source=source, num_outputs=2, batch=True, cycle="raise", no_copy=True))

    return outputs, None, lambda where: where.flatten().long()


@contextmanager
def epochs_of(
    request: LoaderRequest, outputs: Callable[[], tuple[Any, Any]], reader: str | None, positions: Callable[[Any], Any]
) -> Iterator[Callable[[int], Iterator[dict[str, Any]]]]:
    """Build a pipeline from `outputs`, a function that returns its (audio, where) nodes; yield the epoch function.

    `reader` names the node that knows the epoch's size; None for a source that ends an epoch by StopIteration.
    `positions` turns a batch of `where` into positions in the split, int64 (batch,).
    """
    import torch
    from nvidia.dali import pipeline_def
    from nvidia.dali.plugin.pytorch import DALIGenericIterator, LastBatchPolicy

    from labels import read_labels

    if "read" in request.without:
        outputs, reader, positions = resident(request)
    clip, target, labels = (torch.from_numpy(table).to(request.device) for table in read_labels(request.data))

    @pipeline_def(
        batch_size=request.batch_size,
        num_threads=max(1, request.workers),
        device_id=None if request.device == "cpu" else torch.cuda.current_device(),
        prefetch_queue_depth=request.prefetch,
        seed=request.seed,
    )
    def pipeline():
        audio, where = outputs()
        return (audio if request.device == "cpu" else audio.gpu()), where

    built = pipeline()
    built.build()
    size = {"reader_name": reader} if reader else {"size": -1}
    opened = [
        DALIGenericIterator(
            built, ["audio", "where"], last_batch_policy=LastBatchPolicy.PARTIAL, auto_reset=True, **size
        )
    ]
    del built

    def epoch(_number: int) -> Iterator[dict[str, Any]]:
        for [batch] in opened[0]:
            at = positions(batch["where"]).to(request.device)
            yield {"audio": batch["audio"], "target": target[at], "labels": labels[at], "clip": clip[at]}

    try:
        yield epoch
    finally:
        opened.clear()  # DALI ends its threads when the last reference to the pipeline goes
        gc.collect()
