"""WebDataset: tar shards read as streams, a batch of WAV members decoded at a time, in each worker.

The order of an epoch is made of shards in random order and a shuffle buffer of 1,000 items, as its guide says. Each
worker (and rank) reads its own shards and ends with its own short batch. Its time goes into unpacking, and with workers
into their shared memory: set workers to the number of cores. `decoder: wave` takes the samples out of the WAV member by
Python's own module and writes them straight into the batch; `decoder: soundfile` decodes item by item, any codec that
libsndfile knows, and lets torch collate, as most published code does. `shuffle_buffer` trades memory for order.
"""

from scripts.loaders._torch import SETTINGS, simplify  # noqa: F401
from scripts.loaders._webdataset import (
    OPTIONS,  # noqa: F401
    ORDER,  # noqa: F401
    STAGES,  # noqa: F401
    buffered,  # noqa: F401
    of_audio,
    open_shards,
    opened,
    shards_of,
)
from scripts.loaders._webdataset_snippet import OPENED, PIPELINE, WAV

FORMAT = "webdataset"
KINDS = ("audio",)
REQUIRES = ("torch", "webdataset", "soundfile", "numpy")
LIFETIME = "lasting"
SNIPPET = OPENED + WAV + PIPELINE


def open_epochs(request):
    """Return what opens the epoch function over the shards."""
    return open_shards(request, shards_of(request), opened, of_audio(request))
