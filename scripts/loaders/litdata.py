"""LitData: a StreamingDataset on local chunks, mapped where they are, batched in each worker.

For data too large for one machine, which it downloads chunk by chunk from object storage; here the chunks are local
and are mapped in place: nothing is copied to a cache. An epoch is made of chunks in random order and of clips shuffled
within each chunk in blocks of 256 (a chunk has some 200 clips of 10 s), as its guide says: clips of one chunk come one
after the other. Its time goes into turning 16-bit samples into a batch: set workers to the number of cores.

Each worker has whole batches, one of them (and one rank) the rest. The rank is told to the data set itself: the
library would read it from torch.distributed, or from the environment of the process.
"""

from contextlib import contextmanager

from scripts.loaders._stored import STAGES, StoredBatches, first_again  # noqa: F401
from scripts.loaders._torch import epochs_from, simplify, worker_arguments  # noqa: F401

FORMAT = "litdata"
ENV = "litdata"
REQUIRES = ("torch", "litdata", "numpy")
LIFETIME = "lasting"
ORDER = "chunks in random order, clips shuffled within a chunk"
SETTINGS = ("workers", "prefetch", "pin_memory")
SNIPPET = """
from litdata import StreamingDataLoader, StreamingDataset

$head
$labels


$empty_batch


$stored_collate


dataset = StreamingDataset(str(data), shuffle=True, seed=$seed, drop_last=False)
loader = StreamingDataLoader(
    dataset,
    batch_size=batch_size,
    collate_fn=collate,
    $worker_arguments
)

$loop
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
        kept = StoredBatches(request)([next(iter(first))] * request.batch_size)
        _forget_chunks(first)
    split = dataset()
    loader = StreamingDataLoader(
        split,
        batch_size=request.batch_size,
        collate_fn=StoredBatches(request, counted=kept is not None),
        **worker_arguments(request),
    )

    def begin(number):
        number_of_epoch.value = number

    try:
        with epochs_from(loader, request, begin, kept) as epoch:
            yield epoch
    finally:
        _forget_chunks(split)


def _forget_chunks(dataset):
    """Let go of the chunks that a data set has mapped: the library keeps its ten last epochs' in a function's cache."""
    from litdata.streaming.shuffle import FullShuffle, NoShuffle, WindowShuffle

    dataset.cache = dataset.shuffler = None
    for shuffle in (FullShuffle, NoShuffle, WindowShuffle):
        shuffle.get_chunks_and_intervals_per_workers.cache_clear()
