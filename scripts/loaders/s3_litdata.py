"""LitData from a bucket: chunks downloaded into a cache on this machine, mapped there, batched in each worker.

`cache_percent` is the part of the split that the cache may hold. With 100 each chunk is downloaded once, and epochs
after the first read local files: what is measured is the cache. With 50 the library deletes chunks that were read, and
downloads them again. An item is there when its whole chunk is. obstore tries a download again, in ranges where it is
large; the library does not compare what has come with what was placed, and gives a chunk up after two minutes. It has
no setting for an endpoint that is plain http, which its obstore refuses: its client's settings are given `allow_http`.
"""

import json
import os
import shutil
import tempfile
import time
from contextlib import closing
from pathlib import Path

import boto3
from litdata import StreamingDataLoader
from litdata.streaming import downloader
from litdata.streaming.resolver import Dir

from scripts.loaders._declared import CHUNKS as ORDER, SETTINGS, simplify
from scripts.loaders._plain.litdata import Split, close as forget, of_rank
from scripts.loaders._plain.stored import Stored
from scripts.loaders._s3 import READS

FORMAT = "litdata"
ENV = "litdata"
REQUIRES = ("torch", "litdata", "obstore", "boto3", "numpy")
LIFETIME = "lasting"
STAGES = ("read", "decode")  # an item for what is sent would be read here, and obstore survives no fork
OPTIONS = {"cache_percent": {"enum": [100, 50], "default": 100}}


def make_loader(data, key, shape, dtype, scale, cache_percent, batch_size, seed, shuffle=True, rank=0, world=1, **how):
    """Return a StreamingDataLoader over the chunks of a bucket, with a cache of its own."""
    index = json.loads((data / "index.json").read_text(encoding="utf-8"))  # of what was placed
    endpoint = os.environ.get("AWS_ENDPOINT_URL")  # None: Amazon's; credentials are in the environment too
    where = {"endpoint_url": endpoint, "region_name": index["region"]}
    with closing(boto3.client("s3", **where)) as client:  # an error at once: the library would wait minutes
        client.head_object(Bucket=index["bucket"], Key=f"{index['prefix']}/index.json")
    if endpoint and endpoint.startswith("http:"):
        downloader._OBSTORE_CLIENT_OPTIONS["allow_http"] = True
    limit = None  # bytes of the cache
    if cache_percent < 100:
        chunks = sum(stored["size"] for stored in index["objects"] if stored["key"].endswith(".bin"))
        limit = chunks * cache_percent // 100
    dataset = Split(
        Dir(path=tempfile.mkdtemp(prefix="feedrate-"), url=f"s3://{index['bucket']}/{index['prefix']}"),
        storage_options=where,
        max_cache_size=limit,
        shuffle=shuffle,
        seed=seed,
        drop_last=False,
    )
    if world > 1:
        of_rank(dataset, rank, world)
    collate = Stored(data, key, shape, dtype, scale)
    return StreamingDataLoader(dataset, batch_size=batch_size, collate_fn=collate, **how)


def close(loader):
    """Remove the cache; a thread of the library may write to it for a moment longer."""
    forget(loader)
    cache = Path(loader.dataset.input_dir.path)
    for _ in range(50):
        shutil.rmtree(cache, ignore_errors=True)
        if not cache.exists():
            break
        time.sleep(0.1)
