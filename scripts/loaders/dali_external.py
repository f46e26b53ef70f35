"""NVIDIA DALI external source: a Python function names items of a memory map, DALI gathers them into batches.

For pipelines that go on in DALI (augmentation on the GPU) with data that none of its readers knows. Two forms of
`source`:

- `serial`: the function runs in the process of the training loop and returns views of the map, which DALI's threads
  copy (`no_copy`). Its time goes into that copy and into Python, once a batch. Set workers (the threads) to the number
  of cores.
- `parallel`: the function runs in `workers` processes, started again (spawn, since DALI cannot fork once CUDA is in
  use), which copy the items into shared memory; as many threads of DALI copy them once more from there. It pays where
  the function itself works, as in decoding; to read a map it is one copy more. A call gives a batch: DALI's guide
  prefers calls for single items, which share a batch among the processes, but DALI takes full batches alone then.
  `prefetch` batches a worker are asked for ahead, since one process makes each of them. They are in shared memory,
  which containers often limit to 64 MB. Starting a worker takes seconds (it imports DALI), and each epoch starts with
  empty queues, as the end of the one before is known by StopIteration.
"""

import math
import warnings

import numpy as np
from nvidia.dali import fn, pipeline_def

from scripts.loaders import _dali
from scripts.loaders._dali import SETTINGS, close, simplify
from scripts.loaders._plain.dali import Pipelined, by_position
from scripts.loaders._plain.dali_source import Batches, mapped, read
from scripts.loaders._plain.epochs import Epochs, in_batches, shuffled
from scripts.loaders._plain.labels import read_labels

FORMAT = "memmap"
REQUIRES = ("torch", "nvidia-dali-cuda120", "numpy")
LIFETIME = "lasting"
STAGES = (*_dali.STAGES, "transfer")  # which is of the parallel form: the serial one has none
OPTIONS = {"source": {"enum": ["serial", "parallel"], "default": "serial"}}


def transfer(source, ahead, item_bytes):
    """Return the nodes of what processes make, `ahead` batches: items and their positions."""
    return fn.external_source(
        source=source,
        num_outputs=2,
        batch=True,
        batch_info=True,
        parallel=True,
        prefetch_queue_depth=ahead,
        bytes_per_sample_hint=item_bytes + 1024,  # an item and what DALI notes of it
    )


def make_loader(data, key, shape, dtype, source, device, batch_size, workers, prefetch, seed, order=None):
    """Return a loader of the mapped array, (items, ...)."""
    labels = read_labels(data)
    order = order or shuffled(len(labels["target"]), seed)
    if source == "serial":
        items = mapped(data / f"{key}.npy")

        def batches(number):
            for where in in_batches(order(number), batch_size):
                yield read(items, where), np.ascontiguousarray(where)[:, None]

        @pipeline_def(batch_size=batch_size, num_threads=workers, prefetch_queue_depth=prefetch, seed=seed)
        def pipeline():
            item, position = fn.external_source(
                source=Epochs(batches),
                num_outputs=2,
                batch=True,
                cycle="raise",  # StopIteration at the end of an epoch
                no_copy=True,
            )
            return (item if device == "cpu" else item.gpu()), position

    else:
        warnings.filterwarnings("ignore", "unclosed <socket", ResourceWarning)  # DALI's own, of starting processes
        batches = Batches(data / f"{key}.npy", read, order, batch_size)
        item_bytes = math.prod(shape) * np.dtype(dtype).itemsize

        @pipeline_def(
            batch_size=batch_size,
            num_threads=workers,
            prefetch_queue_depth=prefetch,
            seed=seed,
            py_num_workers=workers,
            py_start_method="spawn",  # DALI cannot fork once CUDA is in use
        )
        def pipeline():
            item, position = transfer(batches, workers * prefetch, item_bytes)
            return (item if device == "cpu" else item.gpu()), position

    return Pipelined(pipeline, key, device, by_position(labels, device))


def without_read(_read, request):
    """Return a function that gives zeros in RAM: a batch at once, or in each process one item again and again."""
    from scripts.loaders._dali_source import Unread

    if request.options["source"] == "parallel":
        return Unread(np.zeros(request.sample.shape, request.sample.dtype))
    zeros = np.zeros((request.batch_size, *request.sample.shape), request.sample.dtype)
    return lambda _items, where: zeros[: len(where)]


def without_transfer(transfer, request):
    """Return a function that makes nodes of zeros, and of positions: the processes keep the items."""
    from scripts.loaders._dali_source import Unsent

    def unsent(source, *how):
        _, position = transfer(Unsent(source), *how)
        return _dali.zeros(request), position

    return unsent
