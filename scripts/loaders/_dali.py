"""What measuring adds to the DALI loaders: their settings, parts that are left out, an orderly end.

DALI runs threads, not processes: the setting `workers` is its `num_threads`, `prefetch` its `prefetch_queue_depth`.
Imports DALI inside functions, since loaders are named where it is not installed.
"""

import gc
import multiprocessing
from collections.abc import Callable
from typing import Any

from scripts.common.request import LoaderRequest, batches_of
from scripts.loaders._declared import simplify_threads as simplify  # noqa: F401

SETTINGS = ("workers", "prefetch")
STAGES = ("read",)


def without_read(_read: Callable[..., Any], request: LoaderRequest) -> Callable[..., Any]:
    """Return a function that makes nodes of positions and of the same zeros in RAM, by an external source.

    It takes the place of a reader, and of the decoding that follows.
    """
    import numpy as np
    from nvidia.dali import fn

    data = np.zeros((request.batch_size, *request.sample.shape), dtype=request.sample.dtype)

    class Batches:
        def __iter__(self):
            for positions in batches_of(np.arange(request.items), request.batch_size):
                yield data[: len(positions)], positions[:, None]

    def resident(*_arguments: Any) -> Any:
        return fn.external_source(source=Batches(), num_outputs=2, batch=True, cycle="raise", no_copy=True)

    return resident


def without_decode(_decode: Callable[..., Any], request: LoaderRequest) -> Callable[..., Any]:
    """Return a function that makes a node of zeros of that of whole files, which are copied, so that they are read."""
    from nvidia.dali import fn

    def undecoded(encoded: Any, *_arguments: Any) -> Any:
        fn.copy(encoded, preserve=True)
        return zeros(request)

    return undecoded


def zeros(request: LoaderRequest) -> Any:
    """Return the node of an item of zeros."""
    from nvidia.dali import fn, types

    return fn.constant(idata=0, shape=list(request.sample.shape), dtype=types.to_dali_type(request.sample.dtype))


def close(loader: Any) -> None:
    """End DALI's threads and processes: they go with the pipeline, though an abandoned epoch may keep the iterator."""
    loader.iterator._pipes.clear()
    gc.collect()
    multiprocessing.active_children()  # lets go of processes that took longer than DALI waits for
