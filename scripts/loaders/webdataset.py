"""WebDataset: tar shards read as streams, a batch of WAV members decoded at a time, in each worker.

The order of an epoch is made of shards in random order and a shuffle buffer of 1,000 items, as its guide says. Each
worker (and rank) reads its own shards and ends with its own short batch. Its time goes into unpacking, and with workers
into their shared memory: set workers to the number of cores. `decoder: wave` takes the samples out of the WAV member by
Python's own module and writes them straight into the batch; `decoder: soundfile` decodes item by item, any codec that
libsndfile knows, and lets torch collate, as most published code does. `shuffle_buffer` trades memory for order.
"""

from scripts.loaders._declared import (
    DECODING as STAGES,
    OF_WAV_SHARDS as OPTIONS,
    SETTINGS,
    SHARDS as ORDER,
    buffered,
    simplify,
)
from scripts.loaders._plain.webdataset import (
    collated_by_batch,
    collated_by_item,
    decode_by_soundfile,
    decode_by_wave,
    of_rank,
    opened,
    web_loader,
)

FORMAT = "webdataset"
KINDS = ("audio",)
REQUIRES = ("torch", "webdataset", "soundfile", "numpy")
LIFETIME = "lasting"


def make_loader(data, key, shape, dtype, classes, decoder, shuffle_buffer, shuffle=True, rank=0, world=1, **how):
    """Return a WebLoader over tar shards of WAV files."""
    shards = sorted(map(str, data.glob("*.tar")))
    if world > 1:
        shards = of_rank(shards, rank, world)
    if decoder == "wave":
        collate = collated_by_batch(decode_by_wave, "wav", key, shape, dtype, classes)
    else:
        collate = collated_by_item(decode_by_soundfile, "wav", key, shape, classes)
    return web_loader(shards, opened, collate, shuffle_buffer, shuffle, **how)
