"""LitData: a StreamingDataset on local chunks, mapped where they are, batched in each worker.

For data too large for one machine, which it downloads chunk by chunk from object storage; here the chunks are local
and are mapped in place: nothing is copied to a cache. An epoch is made of chunks in random order and of items shuffled
within each chunk in blocks of 256 (a chunk has some 200 items of 10 s), as its guide says: items of one chunk come one
after the other. Its time goes into turning 16-bit samples into a batch: set workers to the number of cores.

Each worker has whole batches, one of them (and one rank) the rest. The rank is told to the data set itself: the
library would read it from torch.distributed, or from the environment of the process.
"""

from scripts.loaders._litdata import ORDER, open_split  # noqa: F401
from scripts.loaders._stored import STAGES  # noqa: F401
from scripts.loaders._torch import SETTINGS, simplify  # noqa: F401

FORMAT = "litdata"
ENV = "litdata"
REQUIRES = ("torch", "litdata", "numpy")
LIFETIME = "lasting"
SNIPPET = """
from litdata import StreamingDataLoader, StreamingDataset

$head
$labels


$stored_collate


dataset = StreamingDataset(str(data), shuffle=True, seed=$seed, drop_last=False)
$by_streaming_loader
"""


def open_epochs(request):
    """Return what opens the epoch function over this rank's items."""
    return open_split(request, input_dir=str(request.data))
