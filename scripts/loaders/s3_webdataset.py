"""WebDataset over HTTP: tar shards of a bucket read as streams, one GET per shard, by each worker.

The pipeline of `webdataset`, whose streams come by presigned URLs. The library's own opener of URLs is a process of
curl, whose command line would show the signature; here it is urllib3, and a stream that breaks off goes on where it
was. A stream pays the storage's latency once a shard and not once an item, and is as fast as one connection: set
workers to as many shards as are to be read at a time.
"""

import io

from scripts.loaders._s3 import READS, SECONDS, Wanted, tried  # noqa: F401
from scripts.loaders._torch import SETTINGS, simplify  # noqa: F401
from scripts.loaders._webdataset import BUFFER_BYTES, OPTIONS, ORDER, STAGES, buffered, of_audio, open_shards  # noqa: F401
from scripts.loaders._webdataset_snippet import PIPELINE, WAV

FORMAT = "webdataset"
KINDS = ("audio",)
REQUIRES = ("torch", "webdataset", "soundfile", "numpy", "urllib3", "boto3")
LIFETIME = "lasting"
SNIPPET = (
    """
import boto3
import io
import json
import os
import urllib3
from botocore.config import Config

$head
index = json.loads((data / "index.json").read_text(encoding="utf-8"))  # of what was placed
shards = sorted(entry["key"] for entry in index["objects"] if entry["key"].endswith(".tar"))
endpoint = os.environ.get("AWS_ENDPOINT_URL")  # None: Amazon's; credentials are in the environment too


def opened(shards):
    config = Config(signature_version="s3v4", s3={"addressing_style": "path" if index["path_style"] else "virtual"})
    client = boto3.client("s3", endpoint_url=endpoint, region_name=index["region"], config=config)  # it signs, no more
    pool = urllib3.PoolManager()
    for shard in shards:
        wanted = {"Bucket": index["bucket"], "Key": f"{index['prefix']}/{shard['url']}"}
        url = client.generate_presigned_url("get_object", Params=wanted)
        with pool.request("GET", url, preload_content=False) as stream:
            if stream.status != 200:
                raise OSError(f"{shard['url']}: status {stream.status}")
            yield {**shard, "stream": io.BufferedReader(stream, 256 * 1024)}
"""
    + WAV
    + PIPELINE
)


def open_epochs(request):
    """Return what opens the epoch function over the shards."""
    from scripts.machine.objects import read_index

    index = read_index(request.location.index)
    shards = sorted(key for key in index.by_key if key.endswith(".tar"))

    def opened(shards):
        """Yield each shard with its open stream, and close it."""
        import urllib3

        from scripts.machine.objects import bucket_of

        bucket, pool = bucket_of(request.location), urllib3.PoolManager(timeout=SECONDS, retries=False)
        try:
            for shard in shards:
                stored = index.by_key[shard["url"]]
                key = f"{index.prefix}/{stored.key}".lstrip("/")
                with Stream(pool, bucket, Wanted(index.bucket, key, stored, 0, stored.size)) as stream:
                    yield {**shard, "stream": io.BufferedReader(stream, BUFFER_BYTES)}
        finally:
            pool.clear()

    return open_shards(request, shards, opened, of_audio(request))


class Stream(io.RawIOBase):
    """An object read from its first byte to its last; a connection that breaks off is made again from where it was."""

    def __init__(self, pool, bucket, wanted):
        self.pool, self.bucket, self.wanted = pool, bucket, wanted
        self.at, self.answer = 0, None

    def readable(self):
        """Return that it can be read."""
        return True

    def readinto(self, into):
        """Read some bytes; return how many, 0 at the end. Raises UserError, which names the object."""
        from urllib3.exceptions import HTTPError

        if self.at == self.wanted.bytes:
            return 0
        return tried(lambda: self._read(into), self.wanted, (HTTPError, OSError, EOFError))

    def close(self):
        """Close the connection."""
        self._drop()
        super().close()

    def _read(self, into):
        try:
            if self.answer is None:
                self._ask()
            count = self.answer.readinto(into)
            if not count:
                raise EOFError(f"a body that ends after {self.at} of {self.wanted.bytes} bytes")
        except Exception:
            self._drop()
            raise
        self.at += count
        return count

    def _ask(self):
        """Ask for what is left of the object."""
        from scripts.machine.objects import Answer, check, refusal

        url = f"{self.bucket.origin}{self.bucket.target('GET', self.wanted.key)}"
        headers = {"Range": f"bytes={self.at}-{self.wanted.bytes - 1}", "Accept-Encoding": "identity"}
        self.answer = self.pool.request("GET", url, headers=headers, preload_content=False)
        answer = Answer(self.answer.status, {name.lower(): value for name, value in self.answer.headers.items()})
        if answer.status not in (200, 206):
            raise refusal(answer, self.answer.read(), self.wanted.uri)
        check(answer, self.wanted.stored, self.at, self.wanted.bytes)

    def _drop(self):
        if self.answer is not None:
            self.answer.close()
            self.answer = None
