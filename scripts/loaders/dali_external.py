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

from dataclasses import replace

from scripts.common.request import batches_of, epoch_order
from scripts.loaders import _dali
from scripts.loaders._dali import SETTINGS, epochs_of, simplify  # noqa: F401
from scripts.machine import gpu

FORMAT = "memmap"
REQUIRES = ("torch", "nvidia-dali-cuda120", "numpy")
LIFETIME = "lasting"
STAGES = (*_dali.STAGES, "transfer")  # which is of the parallel form: the serial one has none
OPTIONS = {"source": {"enum": ["serial", "parallel"], "default": "serial"}}
SNIPPET = """
from nvidia.dali import fn, pipeline_def

$head
$labels
# a plain array, of which views are made much faster than of a numpy.memmap
items = np.asarray(np.load(data / "$item.npy", mmap_mode="r"))
$when source=serial


class Epochs:
    random = np.random.default_rng($seed)

    def __iter__(self):  # an epoch in another order: views of items, which DALI's threads copy
        order = self.random.permutation(len(items))
        for start in range(0, len(order), batch_size):
            where = order[start : start + batch_size]
            yield [items[position] for position in where], where[:, None]


@pipeline_def(batch_size=batch_size, num_threads=$workers, prefetch_queue_depth=$prefetch, seed=$seed)
def pipeline():
    $item, where = fn.external_source(source=Epochs(), num_outputs=2, batch=True, cycle="raise", no_copy=True)
    return ($item if device == "cpu" else $item.gpu()), where
$when source=parallel


class Batches:  # gives any batch of any epoch, as several processes are asked for several at once
    epoch = order = None

    def __call__(self, info):
        if info.epoch_idx != self.epoch:  # an epoch in another order, the same in each process
            self.epoch = info.epoch_idx
            self.order = np.random.default_rng([$seed, self.epoch]).permutation(len(items))
        where = self.order[info.iteration * batch_size :][:batch_size]
        if not len(where):
            raise StopIteration
        return [items[position] for position in where], where[:, None]


@pipeline_def(
    batch_size=batch_size,
    num_threads=$workers,
    prefetch_queue_depth=$prefetch,
    seed=$seed,
    py_num_workers=$workers,
    py_start_method="spawn",  # DALI cannot fork once CUDA is in use
)
def pipeline():
    $item, where = fn.external_source(
        source=Batches(),
        num_outputs=2,
        batch=True,
        batch_info=True,
        parallel=True,
        prefetch_queue_depth=$workers * $prefetch,
        bytes_per_sample_hint=$item_bytes + 1024,  # an item and what DALI notes of it
    )
    return ($item if device == "cpu" else $item.gpu()), where
$end


class Loader:
    def __init__(self):
        self.batches = $dali_iterator
        self.target, self.labels = target.to(device), labels.to(device)

    def __iter__(self):
        for [batch] in self.batches:
            where = batch["where"].flatten()
            where = where if device == "cpu" else where.pin_memory().to(device, non_blocking=True)
            yield {"$item": batch["$item"], "target": self.target[where], "labels": self.labels[where]}


$when source=serial
$own_loader
$when source=parallel
if __name__ == "__main__":  # the processes, started again, import this file
    loader = Loader()

    $loop
$end
"""


def open_epochs(request):
    """Return the context that yields the epoch function over the mapped array."""
    return _parallel(request) if request.options["source"] == "parallel" else _serial(request)


def _serial(request):
    import numpy as np
    from nvidia.dali import fn

    # a plain array, of which views are made much faster than of a numpy.memmap
    items = np.asarray(np.load(request.array, mmap_mode="r", allow_pickle=False))

    class Epochs:
        """Each iteration is one epoch of (audio, position) batches."""

        def __init__(self):
            self.number = -1

        def __iter__(self):
            self.number += 1
            for positions in batches_of(epoch_order(request, self.number), request.batch_size):
                yield [items[position] for position in positions], np.ascontiguousarray(positions)[:, None]

    def outputs():
        return tuple(fn.external_source(source=Epochs(), num_outputs=2, batch=True, cycle="raise", no_copy=True))

    return epochs_of(request, outputs)


def _parallel(request):
    from nvidia.dali import fn, types

    from scripts.loaders._dali_source import Batches

    workers, sent = max(1, request.workers), "transfer" not in request.without

    def outputs():
        nodes = fn.external_source(
            source=Batches(request),
            num_outputs=2 if sent else 1,
            batch=True,
            batch_info=True,
            parallel=True,
            prefetch_queue_depth=workers * request.prefetch,
            bytes_per_sample_hint=request.sample.bytes + 1024,  # an item and what DALI notes of it
        )
        if sent:
            return tuple(nodes)
        dtype = types.to_dali_type(request.sample.dtype)
        return fn.constant(idata=0, shape=list(request.sample.shape), dtype=dtype), *nodes

    whole = replace(request, without=request.without & {gpu.COPY})  # what is left out, the workers leave out
    return epochs_of(whole, outputs, py_num_workers=workers, py_start_method="spawn")
