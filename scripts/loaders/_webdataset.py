"""What the loaders by WebDataset share: its pipeline over tar shards, from whichever streams they are read."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from scripts.common.request import LoaderRequest, batches_of
from scripts.loaders._stored import STAGES  # noqa: F401
from scripts.loaders._torch import (
    AgainByBatch,
    Batch,
    as_is,
    empty_batch,
    received,
    sent_by,
    stop_workers,
    worker_arguments,
)

ORDER = "shards in random order, then a shuffle buffer"
SHUFFLE = {"shuffle_buffer": {"type": "integer", "minimum": 1, "default": 1000}}
OPTIONS = {"decoder": {"enum": ["wave", "soundfile"], "default": "wave"}, **SHUFFLE}
Collate = Callable[[list[dict[str, Any]]], Batch]  # of raw samples: their members by ending
BUFFER_BYTES = 256 * 1024  # of a shard's stream; the library reads 10 KiB at a time


@contextmanager
def open_shards(
    request: LoaderRequest,
    shards: Sequence[str],
    opened: Callable[[Iterator[dict[str, Any]]], Iterator[dict[str, Any]]],
    collate: Collate,
) -> Iterator[Callable[[int], Iterator[Batch]]]:
    """Yield the epoch function over this rank's part of the shards.

    `opened` adds to each of the library's shards, {"url": name}, its open `stream`, and closes it. `collate` makes a
    batch of raw samples.
    """
    import webdataset as wds
    from webdataset.tariterators import group_by_keys, tar_file_expander

    if request.rank >= len(shards):
        raise ValueError(
            f"rank {request.rank} of {request.world} has no shard, there are {len(shards)}. Use fewer ranks, or let "
            "the plan write the format: it makes a shard for each worker of each rank"
        )
    shards = shards[request.rank :: request.world]
    size = request.options["shuffle_buffer"]
    in_any_order = wds.detshuffle(bufsize=len(shards), initial=len(shards), seed=request.seed)
    through_a_buffer = wds.detshuffle(bufsize=size, initial=min(size, 100), seed=request.seed)
    again = "read" in request.without

    def pipeline(*last):
        return wds.DataPipeline(
            wds.SimpleShardList(shards),
            wds.split_by_worker,
            *([in_any_order] if request.shuffle else []),
            opened,
            tar_file_expander,
            group_by_keys,
            *([through_a_buffer] if request.shuffle and not again else []),
            wds.batched(request.batch_size, partial=True, collation_fn=collate),
            *([_first_again(request)] if again else []),
            *last,
        )

    kept = next(iter(pipeline())) if "transfer" in request.without else None
    sending = [partial(map, sent_by(request, as_is, kept))] if request.workers or kept or request.applied else []
    dataset = pipeline(*sending)
    loader = wds.WebLoader(dataset, batch_size=None, **worker_arguments(request))
    torch_loader = loader.pipeline[0]

    def epoch(_number: int) -> Iterator[Batch]:
        return received(iter(loader), request, kept)

    try:
        yield epoch
    finally:
        stop_workers(torch_loader)


def buffered(request: LoaderRequest) -> int:
    """Return the items in the shuffle buffers of all workers: a buffer fills by reading two items for each it gives."""
    return request.options["shuffle_buffer"] * max(1, request.workers) if request.shuffle else 0


def shards_of(request: LoaderRequest) -> list[str]:
    """Return the shards of a split that is on a file system."""
    return sorted(str(path) for path in request.data.glob("*.tar"))


def opened(shards: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield each such shard with its open stream, and close it: the library's own leaves that to the collector."""
    for shard in shards:
        with open(shard["url"], "rb", buffering=BUFFER_BYTES) as stream:
            yield {**shard, "stream": stream}


def of_audio(request: LoaderRequest) -> Collate:
    """Return what makes a batch of items, by the decoder that is asked for."""
    return _by_item(request) if request.options["decoder"] == "soundfile" else _by_batch(request)


def _by_batch(request: LoaderRequest) -> Collate:
    """Return a function from raw samples to a batch: each item is padded and scaled where it is to be."""
    import io
    import wave

    import numpy as np

    def decode(content, row):
        pcm = b""
        if "decode" not in request.without:
            with wave.open(io.BytesIO(content)) as file:
                pcm = file.readframes(request.samples)
        frames = len(pcm) // 2
        np.multiply(np.frombuffer(pcm, dtype="<i2"), np.float32(1 / 32768), out=row[:frames])
        row[frames:] = 0

    def collate(samples):
        audio = empty_batch(len(samples), request.sample)
        for sample, row in zip(samples, audio.numpy()[:, 0], strict=True):
            decode(sample["wav"], row)
        return {"audio": audio, **with_labels(samples, request)}

    return collate


def _by_item(request: LoaderRequest) -> Collate:
    """Return a function from raw samples to a batch: each item is decoded by itself, and torch collates them."""
    import io

    import numpy as np
    import soundfile
    import torch

    def decode(content):
        audio = np.zeros((1, request.samples), dtype=np.float32)
        if "decode" not in request.without:
            pcm, _ = soundfile.read(io.BytesIO(content), dtype="float32")
            audio[0, : len(pcm)] = pcm[: request.samples]
        return {"audio": audio}

    def collate(samples):
        audio = torch.utils.data.default_collate([decode(sample["wav"]) for sample in samples])
        return {**audio, **with_labels(samples, request)}

    return collate


def with_labels(samples: list[dict[str, Any]], request: LoaderRequest) -> Batch:
    """Return target, labels and item of a batch of raw samples."""
    return labels_in([json.loads(sample["json"]) for sample in samples], request)


def labels_in(about: Sequence[Mapping[str, Any]], request: LoaderRequest) -> Batch:
    """Return target, labels and item, as the loader contract has them, of what the JSON of some items says."""
    import torch

    labels = torch.zeros(len(about), request.classes)
    for row, one in zip(labels.numpy(), about, strict=True):
        row[one["classes"]] = 1.0
    target, item = ([one["classes"][0] for one in about], [one["item"] for one in about])
    return {"target": torch.tensor(target), "labels": labels, "item": torch.tensor(item)}


def _first_again(request: LoaderRequest) -> Callable[..., Any]:
    """Return a stage that gives a worker's first batch as often as its share has items: reading is left out."""

    class First:
        def __init__(self, batch):
            self.batch = batch

        def __getitems__(self, _positions):
            return self.batch

    def again(batches):
        share = -(-request.items // (request.world * max(1, request.workers)))
        for batch in batches:
            kept = AgainByBatch(First(batch), sent=request.workers > 0)
            yield from map(kept.__getitems__, batches_of(range(share), len(next(iter(batch.values())))))
            return

    return again
