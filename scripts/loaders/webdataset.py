"""WebDataset: tar shards read as streams, WAV members decoded by soundfile, batched in each worker.

The order of an epoch is made of shards in random order and a shuffle buffer of 1,000 clips, as its guide says. Each
worker (and rank) reads its own shards and ends with its own short batch. Its time goes into unpacking and decoding:
set workers to the number of cores. `shuffle_buffer` trades memory for a better shuffle.
"""

from contextlib import contextmanager

import torch_dataloader
from torch_dataloader import (
    count_alone,
    in_place_of_counts,
    simplify,  # noqa: F401
    stop_workers,
    to_device,
    worker_arguments,
)

FORMAT = "webdataset"
ENV = "webdataset"
REQUIRES = ("torch", "webdataset", "soundfile", "numpy")
SETTINGS = ("workers", "prefetch", "pin_memory")
STAGES = (*torch_dataloader.STAGES, "decode")
OPTIONS = {"shuffle_buffer": {"type": "integer", "minimum": 1, "default": 1000}}


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

    def pipeline(collate):
        return wds.DataPipeline(
            wds.SimpleShardList(shards),
            wds.split_by_worker,
            *([in_any_order] if request.shuffle else []),
            _opened,
            tar_file_expander,
            group_by_keys,
            *([through_a_buffer] if request.shuffle and not again else []),
            wds.map(_decoder(request)),
            *([_first_again(request)] if again else []),
            wds.batched(request.batch_size, partial=True, collation_fn=collate),
        )

    kept = next(iter(pipeline(_collate))) if "transfer" in request.without else None
    dataset = pipeline((lambda items: count_alone(_collate(items))) if kept else _collate)
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
        with open(shard["url"], "rb") as stream:
            yield {**shard, "stream": stream}


def _decoder(request):
    """Return a function from a raw tar sample to one item of the loader contract."""
    import io
    import json

    import numpy as np
    import soundfile

    def decode(sample):
        audio = np.zeros((1, request.samples), dtype=np.float32)
        if "decode" not in request.without:
            pcm, _ = soundfile.read(io.BytesIO(sample["wav"]), dtype="float32")
            audio[0, : len(pcm)] = pcm[: request.samples]
        about = json.loads(sample["json"])
        labels = np.zeros(request.classes, dtype=np.float32)
        labels[about["classes"]] = 1.0
        return {"audio": audio, "target": about["classes"][0], "labels": labels, "clip": about["clip"]}

    return decode


def _first_again(request):
    """Return a stage that gives a worker's first item as often as its share has clips: reading is left out."""

    def again(items):
        share = -(-request.clips // (request.world * max(1, request.workers)))
        for item in items:
            yield from (item for _ in range(share))
            return

    return again


def _collate(items):
    """Return a batch of the contract's four tensors, without the keys that WebDataset adds to each sample."""
    import torch

    return torch.utils.data.default_collate([{k: v for k, v in item.items() if k[:2] != "__"} for item in items])
