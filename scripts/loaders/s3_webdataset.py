"""WebDataset over HTTP: tar shards of a bucket read as streams, one GET per shard, by each worker.

The pipeline of `webdataset`, whose streams come by presigned URLs. The library's own opener of URLs is a process of
curl, whose command line would show the signature; here it is urllib3, and a stream that breaks off goes on where it
was. A stream pays the storage's latency once a shard and not once an item, and is as fast as one connection: set
workers to as many shards as are to be read at a time.
"""

import io

import boto3
import urllib3
from botocore.config import Config

from scripts.loaders._declared import (
    DECODING as STAGES,
    OF_WAV_SHARDS as OPTIONS,
    SETTINGS,
    SHARDS as ORDER,
    buffered,
    simplify,
)
from scripts.loaders._plain.objects import SECONDS, Bucket, client_arguments, tried
from scripts.loaders._plain.webdataset import (
    BUFFER_BYTES,
    collated_by_batch,
    collated_by_item,
    decode_by_soundfile,
    decode_by_wave,
    of_rank,
    web_loader,
)
from scripts.loaders._s3 import READS

FORMAT = "webdataset"
KINDS = ("audio",)
REQUIRES = ("torch", "webdataset", "soundfile", "numpy", "urllib3", "boto3")
LIFETIME = "lasting"


class Stream(io.RawIOBase):
    """An object from its first byte to its last; a connection that breaks off is made again from where it was."""

    def __init__(self, pool, url, part):
        self.pool, self.url, self.part, self.at, self.answer = pool, url, part, 0, None

    def readable(self):
        return True

    def readinto(self, into):
        return tried(lambda: self.read_some(into), self.part, (urllib3.exceptions.HTTPError, OSError, EOFError))

    def read_some(self, into):
        if self.at == self.part.length:
            return 0
        try:
            self.answer = self.answer or self.ask()
            count = self.answer.readinto(into)
            if not count:
                raise EOFError(f"a body that ends after {self.at} of {self.part.length} bytes")
        except Exception:
            self.drop()
            raise
        self.at += count
        return count

    def ask(self):
        rest = self.part._replace(first=self.at, length=self.part.length - self.at)
        headers = {"Range": rest.range, "Accept-Encoding": "identity"}
        answer = self.pool.request("GET", self.url, headers=headers, preload_content=False)
        if answer.status not in (200, 206):
            answer.close()
            raise (OSError if answer.status in (429, 500, 502, 503, 504) else ValueError)(f"status {answer.status}")
        self.answer = answer
        rest.check(answer.headers["ETag"], int(answer.headers["Content-Length"]))
        return answer

    def drop(self):
        if self.answer is not None:
            self.answer.close()
            self.answer = None

    def close(self):
        self.drop()
        super().close()


def opener(bucket):
    """Return a function that yields each shard of a bucket with its open stream, and closes it."""
    client = boto3.client(**client_arguments(bucket, Config, 1))  # it signs, no more

    def opened(shards):
        with urllib3.PoolManager(timeout=SECONDS, retries=False) as pool:
            for shard in shards:
                part = bucket.last_bytes(shard["url"])
                url = client.generate_presigned_url("get_object", Params={"Bucket": part.bucket, "Key": part.key})
                with Stream(pool, url, part) as stream:
                    yield {**shard, "stream": io.BufferedReader(stream, BUFFER_BYTES)}

    return opened


def make_loader(data, key, shape, dtype, classes, decoder, shuffle_buffer, shuffle=True, rank=0, world=1, **how):
    """Return a WebLoader over the tar shards of a bucket, of WAV files."""
    bucket = Bucket(data)
    shards = sorted(name for name in bucket.objects if name.endswith(".tar"))
    if world > 1:
        shards = of_rank(shards, rank, world)
    if decoder == "wave":
        collate = collated_by_batch(decode_by_wave, "wav", key, shape, dtype, classes)
    else:
        collate = collated_by_item(decode_by_soundfile, "wav", key, shape, classes)
    return web_loader(shards, opener(bucket), collate, shuffle_buffer, shuffle, **how)
