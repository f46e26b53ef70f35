"""WebDataset over HTTP: tar shards of a bucket read as streams, one GET per shard, by each worker.

The pipeline of `webdataset`, whose streams come by presigned URLs. The library's own opener of URLs is a process of
curl, whose command line would show the signature; here it is urllib3, and a stream that breaks off goes on where it
was. A stream pays the storage's latency once a shard and not once an item, and is as fast as one connection: set
workers to as many shards as are to be read at a time.
"""

import io
import json
import os
import time

import boto3
import urllib3
from botocore.config import Config

from scripts.loaders._plain.webdataset import (
    BUFFER_BYTES,
    collated_by_batch,
    collated_by_item,
    decode_by_soundfile,
    decode_by_wave,
    of_rank,
    web_loader,
)
from scripts.loaders._s3 import READS  # noqa: F401
from scripts.loaders._torch import SETTINGS, simplify  # noqa: F401
from scripts.loaders._webdataset import OPTIONS, ORDER, STAGES, buffered  # noqa: F401

FORMAT = "webdataset"
KINDS = ("audio",)
REQUIRES = ("torch", "webdataset", "soundfile", "numpy", "urllib3", "boto3")
LIFETIME = "lasting"
ATTEMPTS = 5
SECONDS = 30  # in which a server must answer


class Stream(io.RawIOBase):
    """An object from its first byte to its last; a connection that breaks off is made again from where it was."""

    def __init__(self, pool, url, stored):
        self.pool, self.url, self.stored = pool, url, stored  # its key, size and ETag when it was placed
        self.at, self.answer = 0, None

    def readable(self):
        return True

    def readinto(self, into):
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return self.read_some(into)
            except (urllib3.exceptions.HTTPError, OSError, EOFError) as error:
                self.drop()
                said = f"{type(error).__name__}: {error}".partition("?")[0]  # without what is signed
            time.sleep(0.05 * 2**attempt)
        raise ValueError(f"object {self.stored['key']}: {said}, in each of {ATTEMPTS} attempts")

    def read_some(self, into):
        if self.at == self.stored["size"]:
            return 0
        if self.answer is None:
            self.ask()
        count = self.answer.readinto(into)
        if not count:
            raise EOFError(f"a body that ends after {self.at} of {self.stored['size']} bytes")
        self.at += count
        return count

    def ask(self):
        headers = {"Range": f"bytes={self.at}-", "Accept-Encoding": "identity"}
        self.answer = answer = self.pool.request("GET", self.url, headers=headers, preload_content=False)
        if answer.status in (429, 500, 502, 503, 504):
            raise OSError(f"status {answer.status}")
        if answer.status not in (200, 206):
            raise ValueError(f"object {self.stored['key']}: status {answer.status}")
        if answer.headers["ETag"].strip('"') != self.stored["etag"]:
            raise ValueError(f"object {self.stored['key']}: its ETag has changed since it was placed")
        if int(answer.headers["Content-Length"]) != self.stored["size"] - self.at:
            raise EOFError(f"an answer of {answer.headers['Content-Length']} bytes")

    def drop(self):
        if self.answer is not None:
            self.answer.close()
            self.answer = None

    def close(self):
        self.drop()
        super().close()


def opener(index):
    """Return a function that yields each shard of a bucket with its open stream, and closes it."""
    config = Config(signature_version="s3v4", s3={"addressing_style": "path" if index["path_style"] else "virtual"})
    endpoint = os.environ.get("AWS_ENDPOINT_URL")  # None: Amazon's; credentials are in the environment too
    client = boto3.client("s3", endpoint_url=endpoint, region_name=index["region"], config=config)  # it signs, no more
    placed = {stored["key"]: stored for stored in index["objects"]}

    def opened(shards):
        with urllib3.PoolManager(timeout=SECONDS, retries=False) as pool:
            for shard in shards:
                wanted = {"Bucket": index["bucket"], "Key": f"{index['prefix']}/{shard['url']}".lstrip("/")}
                url = client.generate_presigned_url("get_object", Params=wanted)
                with Stream(pool, url, placed[shard["url"]]) as stream:
                    yield {**shard, "stream": io.BufferedReader(stream, BUFFER_BYTES)}

    return opened


def make_loader(data, key, shape, dtype, classes, decoder, shuffle_buffer, shuffle=True, rank=0, world=1, **how):
    """Return a WebLoader over the tar shards of a bucket, of WAV files."""
    index = json.loads((data / "index.json").read_text(encoding="utf-8"))  # of what was placed
    shards = sorted(stored["key"] for stored in index["objects"] if stored["key"].endswith(".tar"))
    if world > 1:
        shards = of_rank(shards, rank, world)
    if decoder == "wave":
        collate = collated_by_batch(decode_by_wave, "wav", key, shape, dtype, classes)
    else:
        collate = collated_by_item(decode_by_soundfile, "wav", key, shape, classes)
    return web_loader(shards, opener(index), collate, shuffle_buffer, shuffle, **how)
