"""WebDataset: tar shards read as streams, a batch of WAV members decoded at a time, in each worker.

The order of an epoch is made of shards in random order and a shuffle buffer of 1,000 clips, as its guide says. Each
worker (and rank) reads its own shards and ends with its own short batch. Its time goes into unpacking, and with workers
into their shared memory: set workers to the number of cores. `decoder: wave` takes the samples out of the WAV member by
Python's own module and writes them straight into the batch; `decoder: soundfile` decodes clip by clip, any codec that
libsndfile knows, and lets torch collate, as most published code does. `shuffle_buffer` trades memory for order.
"""

from contextlib import contextmanager

from scripts.common.request import batches_of
from scripts.loaders import _torch
from scripts.loaders._torch import (
    AgainByBatch,
    count_alone,
    empty_batch,
    in_place_of_counts,
    simplify,  # noqa: F401
    stop_workers,
    to_device,
    worker_arguments,
)

FORMAT = "webdataset"
REQUIRES = ("torch", "webdataset", "soundfile", "numpy")
LIFETIME = "lasting"
ORDER = "shards in random order, then a shuffle buffer"
SETTINGS = ("workers", "prefetch", "pin_memory")
STAGES = (*_torch.STAGES, "decode")
OPTIONS = {
    "decoder": {"enum": ["wave", "soundfile"], "default": "wave"},
    "shuffle_buffer": {"type": "integer", "minimum": 1, "default": 1000},
}
BUFFER_BYTES = 256 * 1024  # of a shard's file; the library reads 10 KiB at a time
SNIPPET = """
import io
import json
import torch
import webdataset as wds
from webdataset.tariterators import group_by_keys, tar_file_expander

$head
shards = sorted(map(str, data.glob("*.tar")))


def opened(shards):
    for shard in shards:
        with open(shard["url"], "rb", buffering=256 * 1024) as stream:  # the library's own opener reads less at once
            yield {**shard, "stream": stream}


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


@contextmanager
def open_epochs(request):
    """Yield the epoch function over the shards of this rank."""
    import webdataset as wds
    from webdataset.tariterators import group_by_keys, tar_file_expander

    shards = sorted(str(path) for path in request.data.glob("*.tar"))[request.rank :: request.world]
    size = request.options["shuffle_buffer"]
    in_any_order = wds.detshuffle(bufsize=len(shards), initial=len(shards), seed=request.seed)
    through_a_buffer = wds.detshuffle(bufsize=size, initial=min(size, 100), seed=request.seed)
    again = "read" in request.without
    collate = _by_clip(request) if request.options["decoder"] == "soundfile" else _by_batch(request)

    def pipeline(collate):
        return wds.DataPipeline(
            wds.SimpleShardList(shards),
            wds.split_by_worker,
            *([in_any_order] if request.shuffle else []),
            _opened,
            tar_file_expander,
            group_by_keys,
            *([through_a_buffer] if request.shuffle and not again else []),
            wds.batched(request.batch_size, partial=True, collation_fn=collate),
            *([_first_again(request)] if again else []),
        )

    kept = next(iter(pipeline(collate))) if "transfer" in request.without else None
    dataset = pipeline((lambda samples: count_alone(collate(samples))) if kept else collate)
    loader = wds.WebLoader(dataset, batch_size=None, **worker_arguments(request))
    torch_loader = loader.pipeline[0]

    def epoch(_number):
        return to_device(in_place_of_counts(iter(loader), kept) if kept else iter(loader), request)

    try:
        yield epoch
    finally:
        stop_workers(torch_loader)


def _opened(shards):
    """Yield each shard with its open stream, and close it: the library's own opener leaves that to the collector."""
    for shard in shards:
        with open(shard["url"], "rb", buffering=BUFFER_BYTES) as stream:
            yield {**shard, "stream": stream}


def _by_batch(request):
    """Return a function from raw samples to a batch: each clip is padded and scaled where it is to be."""
    import io
    import wave

    import numpy as np
    import torch

    def decode(content, row):
        pcm = b""
        if "decode" not in request.without:
            with wave.open(io.BytesIO(content)) as file:
                pcm = file.readframes(request.samples)
        frames = len(pcm) // 2
        np.multiply(np.frombuffer(pcm, dtype="<i2"), np.float32(1 / 32768), out=row[:frames])
        row[frames:] = 0

    def collate(samples):
        audio = empty_batch(len(samples), request.samples)
        for sample, row in zip(samples, audio.numpy()[:, 0], strict=True):
            decode(sample["wav"], row)
        return {"audio": audio, **torch.utils.data.default_collate([_labels(sample, request) for sample in samples])}

    return collate


def _by_clip(request):
    """Return a function from raw samples to a batch: each clip is decoded by itself, and torch collates them."""
    import io

    import numpy as np
    import soundfile
    import torch

    def decode(content):
        audio = np.zeros((1, request.samples), dtype=np.float32)
        if "decode" not in request.without:
            pcm, _ = soundfile.read(io.BytesIO(content), dtype="float32")
            audio[0, : len(pcm)] = pcm[: request.samples]
        return audio

    def collate(samples):
        items = [{"audio": decode(sample["wav"]), **_labels(sample, request)} for sample in samples]
        return torch.utils.data.default_collate(items)

    return collate


def _labels(sample, request):
    """Return what a raw sample's JSON says of its clip, as the loader contract has it."""
    import json

    import numpy as np

    about = json.loads(sample["json"])
    labels = np.zeros(request.classes, dtype=np.float32)
    labels[about["classes"]] = 1.0
    return {"target": about["classes"][0], "labels": labels, "clip": about["clip"]}


def _first_again(request):
    """Return a stage that gives a worker's first batch as often as its share has clips: reading is left out."""

    class First:
        def __init__(self, batch):
            self.batch = batch

        def __getitems__(self, _positions):
            return self.batch

    def again(batches):
        share = -(-request.clips // (request.world * max(1, request.workers)))
        for batch in batches:
            kept = AgainByBatch(First(batch), sent=request.workers > 0)
            yield from map(kept.__getitems__, batches_of(range(share), len(next(iter(batch.values())))))
            return

    return again
