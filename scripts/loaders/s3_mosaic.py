"""MosaicML Streaming from a bucket: MDS shards downloaded into a cache on this machine, items read from there.

The cache holds the whole split: each shard is downloaded once, and epochs after the first read local files, so that
what is measured is the cache. A smaller one (`cache_limit`) is not measured, since the library can come to a standstill
with it, with workers and without: where a shard is evicted while the thread that says what is ready waits for it,
nobody downloads it again (0.13, `_ready_thread`). An item is there when its whole shard is, so that the order of an
epoch is near to that of its shards. boto3 tries a download again; the library does not compare what has come with what
was placed.
"""

import json
import os
import shutil
import tempfile

from streaming import StreamingDataLoader, StreamingDataset

from scripts.loaders._declared import DECODING as STAGES, NEAR as ORDER, SETTINGS, simplify
from scripts.loaders._plain.mosaic import close as end
from scripts.loaders._plain.stored import Stored
from scripts.loaders._s3 import READS

FORMAT = "mosaic"
ENV = "mosaic"
REQUIRES = ("torch", "mosaicml-streaming", "numpy")
LIFETIME = "lasting"


def never(request):
    """Return why ranks cannot have a cache each; or None."""
    if request.world > 1:
        return "the ranks of a machine share one cache in the library, and here each loader makes its own"
    return None


class Split(StreamingDataset):
    """Says where a shard could not be downloaded: the library ends the epoch, and says nothing."""

    def __iter__(self):
        yield from super().__iter__()
        if self._event.is_set():
            raise OSError(f"{self.streams[0].remote}: a shard could not be downloaded")


def make_loader(data, key, shape, dtype, scale, batch_size, seed, shuffle=True, **how):
    """Return a StreamingDataLoader over the shards of a bucket, with a cache of its own."""
    index = json.loads((data / "index.json").read_text(encoding="utf-8"))  # of what was placed
    endpoint = os.environ.get("AWS_ENDPOINT_URL", "https://s3.amazonaws.com")  # credentials are there too
    os.environ |= {"S3_ENDPOINT_URL": endpoint, "AWS_DEFAULT_REGION": index["region"]}  # what the library asks
    dataset = Split(
        remote=f"s3://{index['bucket']}/{index['prefix']}",
        local=tempfile.mkdtemp(prefix="feedrate-"),
        batch_size=batch_size,
        shuffle=shuffle,
        shuffle_seed=seed,
    )
    collate = Stored(data, key, shape, dtype, scale)
    return StreamingDataLoader(dataset, batch_size=batch_size, collate_fn=collate, **how)


def close(loader):
    """End what the data set has started, and remove its cache."""
    end(loader)
    shutil.rmtree(loader.dataset.streams[0].local, ignore_errors=True)
