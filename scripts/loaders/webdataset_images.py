"""WebDataset of images: tar shards read as streams, a batch of JPEG or PNG members decoded at a time, in each worker.

The order of an epoch is made of shards in random order and a shuffle buffer of 1,000 images, as its guide says. Each
worker (and rank) reads its own shards and ends with its own short batch. Its time goes into decoding: set workers to
the number of cores. `decoder` is the library, as of `image_files`; `shuffle_buffer` trades memory for order.
"""

from scripts.loaders._image import DECODE_SNIPPET, DECODER, decode_of, never  # noqa: F401
from scripts.loaders._stored import STAGES  # noqa: F401
from scripts.loaders._torch import SETTINGS, empty_batch, simplify  # noqa: F401
from scripts.loaders._webdataset import ORDER, SHUFFLE, buffered, open_shards, opened, shards_of, with_labels  # noqa: F401
from scripts.loaders._webdataset_snippet import OPENED, PIPELINE, TARGET

FORMAT = "webdataset"
KINDS = ("image",)
REQUIRES = ("torch", "webdataset", "numpy", "opencv-python-headless")
LIFETIME = "lasting"
OPTIONS = {**DECODER, **SHUFFLE}
SNIPPET = (
    OPENED
    + TARGET
    + "\n\nimport numpy as np\n"
    + DECODE_SNIPPET
    + """


def collate(items):
    $item = empty_batch(len(items))
    for item, row in zip(items, $item.numpy(), strict=True):
        decode(item["$ending"], row)
    return {"$item": $item, "target": torch.tensor([target_of(item) for item in items])}


"""
    + PIPELINE
)


def open_epochs(request):
    """Return what opens the epoch function over the shards."""
    decode = decode_of(request)

    def collate(samples):
        images = empty_batch(len(samples), request.sample)
        for sample, row in zip(samples, images.numpy(), strict=True):
            decode(sample[request.sample.ending], row)
        return {request.sample.key: images, **with_labels(samples, request)}

    return open_shards(request, shards_of(request), opened, collate)
