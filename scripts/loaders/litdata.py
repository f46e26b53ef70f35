"""LitData: a StreamingDataset on local chunks, mapped where they lie, batched in each worker.

For data too large for one machine, which it downloads chunk by chunk from object storage; here the chunks are local
and are mapped in place: nothing is copied to a cache. An epoch is made of chunks in random order and of clips shuffled
within each chunk in blocks of 256 (a chunk has some 200 clips of 10 s), as its guide says: clips of one chunk come one
after the other. Its time goes into turning 16-bit samples into a batch: set workers to the number of cores.

Each worker has whole batches, one of them (and one rank) the rest. The rank is told to the data set itself: the
library would read it from torch.distributed, or from the environment of the process.
"""

from contextlib import contextmanager

from scripts.loaders._pcm import STAGES, PcmBatches, first_again  # noqa: F401
from scripts.loaders._torch import in_place_of_counts, simplify, stop_workers, to_device, worker_arguments  # noqa: F401

FORMAT = "litdata"
ENV = "litdata"
REQUIRES = ("torch", "litdata", "numpy")
ORDER = "chunks in random order, clips shuffled within a chunk"
SETTINGS = ("workers", "prefetch", "pin_memory")
SNIPPET = """
from pathlib import Path

import numpy as np
import torch
from litdata import StreamingDataLoader, StreamingDataset

data = Path($data)
samples = $samples  # of a clip; shorter ones are padded, longer ones cut
target = torch.from_numpy(np.load(data / "target.npy"))  # int64 (clips,), the first class of a clip
labels = torch.from_numpy(np.load(data / "labels.npy"))  # float32 (clips, classes)


$empty_batch


def collate(items):
    audio = empty_batch(len(items))
    for item, row in zip(items, audio.numpy()[:, 0], strict=True):
        pcm = item["audio"][:samples]  # int16
        np.multiply(pcm, np.float32(1 / 32768), out=row[: len(pcm)])
        row[len(pcm) :] = 0
    where = torch.tensor([int(item["position"]) for item in items])
    return {"audio": audio, "target": target[where], "labels": labels[where]}


dataset = StreamingDataset(str(data), shuffle=True, seed=$seed, drop_last=False)
loader = StreamingDataLoader(
    dataset,
    batch_size=$batch_size,
    collate_fn=collate,
    $worker_arguments
)

for batch in loader:  # an epoch, each time in a new order
    batch = {name: tensor.to($device, non_blocking=True) for name, tensor in batch.items()}
    # your training step, with batch["audio"], float32 (n, 1, samples), batch["target"] and batch["labels"]
"""


@contextmanager
def open_epochs(request):
    """Yield the epoch function over this rank's clips."""
    from multiprocessing.sharedctypes import RawValue

    from litdata import StreamingDataLoader, StreamingDataset
    from litdata.utilities.env import _DistributedEnv

    number_of_epoch = RawValue("q", 0)  # seen by workers that live for many epochs

    class Split(StreamingDataset):
        def __iter__(self):
            _forget_chunks(self)  # those of the epoch before
            self.set_epoch(number_of_epoch.value + 1)  # the library counts from 1
            items = super().__iter__()
            return first_again(iter(items.__next__, None), request) if "read" in request.without else items

    def dataset():
        found = Split(str(request.data), shuffle=request.shuffle, seed=request.seed, drop_last=False)
        found.distributed_env = _DistributedEnv(request.world, request.rank, num_nodes=1)
        found.set_batch_size(request.batch_size)
        return found

    kept = None
    if "transfer" in request.without:
        first = dataset()
        kept = PcmBatches(request)([next(iter(first))] * request.batch_size)
        _forget_chunks(first)
    split = dataset()
    loader = StreamingDataLoader(
        split,
        batch_size=request.batch_size,
        collate_fn=PcmBatches(request, counted=kept is not None),
        **worker_arguments(request),
    )

    def epoch(number):
        number_of_epoch.value = number
        return to_device(in_place_of_counts(iter(loader), kept) if kept else iter(loader), request)

    try:
        yield epoch
    finally:
        stop_workers(loader)
        _forget_chunks(split)


def _forget_chunks(dataset):
    """Let go of the chunks that a data set has mapped: the library keeps its ten last epochs' in a function's cache."""
    from litdata.streaming.shuffle import FullShuffle, NoShuffle, WindowShuffle

    dataset.cache = dataset.shuffler = None
    for shuffle in (FullShuffle, NoShuffle, WindowShuffle):
        shuffle.get_chunks_and_intervals_per_workers.cache_clear()
