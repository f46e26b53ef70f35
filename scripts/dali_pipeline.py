"""What the DALI loaders share: one pipeline and its PyTorch iterator, labels looked up by position, an orderly end.

DALI runs threads, not processes: the setting `workers` is its `num_threads`, `prefetch` its `prefetch_queue_depth`.
Imports DALI inside functions, since loaders are named where it is not installed.
"""

import gc
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from loading import LoaderRequest, epoch_order

SETTINGS = ("workers", "prefetch")


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
