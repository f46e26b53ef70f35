"""LitData from a bucket: chunks downloaded into a cache on this machine, mapped there, batched in each worker.

`cache_percent` is the part of the split that the cache may hold. With 100 each chunk is downloaded once, and epochs
after the first read local files: what is measured is the cache. With 50 the library deletes chunks that were read, and
downloads them again. An item is there when its whole chunk is. obstore tries a download again, in ranges where it is
large; the library does not compare what has come with what was placed, and gives a chunk up after two minutes. It has
no setting for an endpoint that is plain http, which its obstore refuses: its client's settings are given `allow_http`.
"""

import os
from contextlib import contextmanager

from scripts.loaders._litdata import ORDER, open_split  # noqa: F401
from scripts.loaders._s3 import READS  # noqa: F401
from scripts.loaders._torch import SETTINGS, simplify  # noqa: F401
from scripts.machine.objects import Getter, bucket_of, read_index

FORMAT = "litdata"
ENV = "litdata"
REQUIRES = ("torch", "litdata", "obstore", "numpy")
LIFETIME = "lasting"
STAGES = ("read", "decode")  # an item for what is sent would be read here, and obstore survives no fork
OPTIONS = {"cache_percent": {"enum": [100, 50], "default": 100}}
SNIPPET = """
import tempfile
from litdata import StreamingDataLoader, StreamingDataset
from litdata.streaming import downloader
from litdata.streaming.resolver import Dir

$head
$labels
$objects


if endpoint and endpoint.startswith("http:"):
    downloader._OBSTORE_CLIENT_OPTIONS["allow_http"] = True
total = sum(size for key, size in sizes.items() if key.endswith(".bin"))
limit = $cache_percent / 100 * total  # bytes of chunks that are kept on this machine
remote = Dir(path=tempfile.mkdtemp(), url=f"s3://{index['bucket']}/{index['prefix']}")


$stored_collate


dataset = StreamingDataset(
    remote,
    storage_options={"endpoint_url": endpoint, "region_name": index["region"]},
    max_cache_size=int(limit) if limit < total else None,
    shuffle=True,
    seed=$seed,
    drop_last=False,
)
$by_streaming_loader
"""


@contextmanager
def _cache_folder():
    """Yield an empty folder, removed afterwards; a thread of the library may write to it for a moment longer."""
    import shutil
    import tempfile
    import time

    folder = tempfile.mkdtemp(prefix="feedrate-")
    try:
        yield folder
    finally:
        for _ in range(50):
            shutil.rmtree(folder, ignore_errors=True)
            if not os.path.exists(folder):
                break
            time.sleep(0.1)


@contextmanager
def open_epochs(request):
    """Yield the epoch function over this rank's items; the cache is gone afterwards."""
    from litdata.streaming import downloader
    from litdata.streaming.resolver import Dir

    index, bucket = read_index(request.location.index), bucket_of(request.location)
    chunks = index.by_key["index.json"]
    with Getter(request.location) as getter:  # storage that is gone is an error at once: the library waits minutes
        getter.read_into(chunks, bytearray(chunks.size))
    size = sum(stored.size for stored in index.objects if stored.key.endswith(".bin"))
    percent = request.options["cache_percent"]
    options = {"endpoint_url": bucket.endpoint, "region_name": bucket.region}
    if bucket.endpoint.startswith("http:"):
        downloader._OBSTORE_CLIENT_OPTIONS["allow_http"] = True
    with _cache_folder() as cache:
        place = Dir(path=cache, url=f"s3://{index.bucket}/{index.prefix}")
        limit = None if percent == 100 else size * percent // 100
        with open_split(request, input_dir=place, storage_options=options, max_cache_size=limit) as epoch:
            yield epoch
