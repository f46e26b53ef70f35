"""WebDataset of images: tar shards read as streams, a batch of JPEG or PNG members decoded at a time, in each worker.

The order of an epoch is made of shards in random order and a shuffle buffer of 1,000 images, as its guide says. Each
worker (and rank) reads its own shards and ends with its own short batch. Its time goes into decoding: set workers to
the number of cores. `decoder` is the library, as of `image_files`; `shuffle_buffer` trades memory for order.
"""

from scripts.loaders._declared import (
    DECODER,
    DECODING as STAGES,
    SETTINGS,
    SHARDS as ORDER,
    SHUFFLE,
    buffered,
    never,
    simplify,
)
from scripts.loaders._plain.images import decode_of
from scripts.loaders._plain.webdataset import collated_by_batch, of_rank, opened, web_loader

FORMAT = "webdataset"
KINDS = ("image",)
REQUIRES = ("torch", "webdataset", "numpy", "opencv-python-headless")
LIFETIME = "lasting"
OPTIONS = {**DECODER, **SHUFFLE}


def make_loader(
    data, key, shape, dtype, ending, classes, decoder, shuffle_buffer, shuffle=True, rank=0, world=1, **how
):
    """Return a WebLoader over tar shards of image files."""
    shards = sorted(map(str, data.glob("*.tar")))
    if world > 1:
        shards = of_rank(shards, rank, world)
    collate = collated_by_batch(decode_of(decoder), ending, key, shape, dtype, classes)
    return web_loader(shards, opened, collate, shuffle_buffer, shuffle, **how)
