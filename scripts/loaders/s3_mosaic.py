"""MosaicML Streaming from a bucket: MDS shards downloaded into a cache on this machine, items read from there.

The cache holds the whole split: each shard is downloaded once, and epochs after the first read local files, so that
what is measured is the cache. A smaller one (`cache_limit`) is not measured, since the library can come to a standstill
with it, with workers and without: where a shard is evicted while the thread that says what is ready waits for it,
nobody downloads it again (0.13, `_ready_thread`). An item is there when its whole shard is, so that the order of an
epoch is near to that of its shards. boto3 tries a download again; the library does not compare what has come with what
was placed.
"""

from contextlib import contextmanager

from scripts.common.errors import UserError
from scripts.loaders._mosaic import ORDER, open_split  # noqa: F401
from scripts.loaders._s3 import READS  # noqa: F401
from scripts.loaders._stored import STAGES  # noqa: F401
from scripts.loaders._torch import SETTINGS, simplify  # noqa: F401
from scripts.machine.objects import bucket_of, read_index

FORMAT = "mosaic"
ENV = "mosaic"
REQUIRES = ("torch", "mosaicml-streaming", "numpy")
LIFETIME = "lasting"
SNIPPET = """
import tempfile
from streaming import StreamingDataLoader, StreamingDataset

$head
$labels
$objects


os.environ["S3_ENDPOINT_URL"] = endpoint or "https://s3.amazonaws.com"
cache = tempfile.mkdtemp()


$stored_collate


dataset = StreamingDataset(
    remote=f"s3://{index['bucket']}/{index['prefix']}",
    local=cache,
    batch_size=batch_size,
    shuffle=True,
    shuffle_seed=$seed,
)
$by_streaming_loader
"""


def never(request):
    """Return why ranks cannot have a cache each; or None."""
    if request.world > 1:
        return "the ranks of a machine share one cache in the library, and here each loader makes its own"
    return None


@contextmanager
def open_epochs(request):
    """Yield the epoch function over this rank's items; the cache is gone afterwards."""
    import tempfile

    index, bucket = read_index(request.location.index), bucket_of(request.location)
    place = {"remote": f"s3://{index.bucket}/{index.prefix}"}
    with (
        tempfile.TemporaryDirectory(prefix="feedrate-") as cache,
        _told(bucket),
        open_split(request, **place, local=cache) as epoch,
    ):
        yield epoch if request.without else lambda number: _whole(epoch(number), request)


def _whole(batches, request):
    """Yield the batches of an epoch; UserError where items are missing, since the library drops what is not there."""
    count = 0
    for batch in batches:
        count += len(batch["item"])
        yield batch
    if count != request.items:
        raise UserError(
            f"{request.location.uri}: found {count} of {request.items} items of an epoch, since an "
            "object could not be downloaded; allowed is all of them. See whether the storage can be reached."
        )


@contextmanager
def _told(bucket):
    """Have in the environment where the bucket is: the library takes it from there, in its workers as well."""
    import os

    told = {"S3_ENDPOINT_URL": bucket.endpoint, "AWS_DEFAULT_REGION": bucket.region}
    before = {name: os.environ[name] for name in told if name in os.environ}
    os.environ.update(told)
    try:
        yield
    finally:
        for name in told:
            os.environ.pop(name)
        os.environ.update(before)
