"""WebDataset over HTTP: tar shards of a bucket read as streams, one GET a shard, by each worker.

The pipeline of `webdataset`, whose streams come by presigned URLs. The library's own opener of URLs is a process of
curl, whose command line would show the signature; here it is urllib3, and a stream that breaks off goes on where it
was. A stream pays the storage's latency once a shard and not once a clip, and is as fast as one connection: set workers
to as many shards as are to be read at a time.
"""

import io

from scripts.loaders._s3 import ATTEMPTS, READS, SECONDS, Wanted, pause  # noqa: F401
from scripts.loaders._torch import simplify  # noqa: F401
from scripts.loaders._webdataset import BUFFER_BYTES, OPTIONS, ORDER, STAGES, of_audio, open_shards  # noqa: F401

FORMAT = "webdataset"
KINDS = ("audio",)
REQUIRES = ("torch", "webdataset", "soundfile", "numpy", "urllib3", "boto3")
LIFETIME = "lasting"
SETTINGS = ("workers", "prefetch", "pin_memory")
SNIPPET = """
import boto3
import io
import json
import os
import torch
import urllib3
import webdataset as wds
from botocore.config import Config
from webdataset.tariterators import group_by_keys, tar_file_expander

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


def target_of(clip):
    return json.loads(clip["json"])["classes"][0]  # the first class of a clip; others follow it


$empty_batch


import numpy as np
$when decoder=wave
import wave
def collate(clips):
    audio = empty_batch(len(clips))
    for clip, row in zip(clips, audio.numpy()[:, 0], strict=True):
        with wave.open(io.BytesIO(clip["wav"])) as file:
            pcm = np.frombuffer(file.readframes(samples), dtype="<i2")
        np.multiply(pcm, np.float32(1 / 32768), out=row[: len(pcm)])
        row[len(pcm) :] = 0
    return {"audio": audio, "target": torch.tensor([target_of(clip) for clip in clips])}
$when decoder=soundfile
import soundfile
def decode(clip):
    audio = np.zeros((1, samples), dtype=np.float32)
    pcm, _ = soundfile.read(io.BytesIO(clip["wav"]), dtype="float32")
    audio[0, : len(pcm)] = pcm[:samples]
    return {"audio": audio, "target": target_of(clip)}


def collate(clips):
    return torch.utils.data.default_collate([decode(clip) for clip in clips])
$end


dataset = wds.DataPipeline(
    wds.SimpleShardList(shards),
    wds.split_by_worker,
    wds.detshuffle(bufsize=len(shards), initial=len(shards), seed=$seed),
    opened,
    tar_file_expander,
    group_by_keys,
    wds.detshuffle(bufsize=$shuffle_buffer, initial=min($shuffle_buffer, 100), seed=$seed),
    wds.batched(batch_size, partial=True, collation_fn=collate),
)
loader = wds.WebLoader(
    dataset,
    batch_size=None,
    $worker_arguments
)

$loop
"""


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
        import time

        from urllib3.exceptions import HTTPError

        if self.at == self.wanted.bytes:
            return 0
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return self._read(into)
            except Exception as error:
                self._drop()
                seconds = pause(error, self.wanted, attempt, (HTTPError, OSError, EOFError))
            time.sleep(seconds)

    def close(self):
        """Close the connection."""
        self._drop()
        super().close()

    def _read(self, into):
        if self.answer is None:
            self._ask()
        count = self.answer.readinto(into)
        if not count:
            raise EOFError(f"a body that ends after {self.at} of {self.wanted.bytes} bytes")
        self.at += count
        return count

    def _ask(self):
        """Ask for what is left of the object."""
        from scripts.machine.objects import Answer, check, refusal

        url = f"{self._origin()}{self.bucket.target('GET', self.wanted.key)}"
        headers = {"Range": f"bytes={self.at}-{self.wanted.bytes - 1}", "Accept-Encoding": "identity"}
        self.answer = self.pool.request("GET", url, headers=headers, preload_content=False)
        answer = Answer(self.answer.status, {name.lower(): value for name, value in self.answer.headers.items()})
        if answer.status not in (200, 206):
            raise refusal(answer, self.answer.read(), self.wanted.uri)
        check(answer, self.wanted.stored, self.at, self.wanted.bytes)

    def _origin(self):
        return f"{self.bucket.endpoint.partition('://')[0]}://{self.bucket.host}"

    def _drop(self):
        if self.answer is not None:
            self.answer.close()
            self.answer = None
