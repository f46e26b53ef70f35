"""WebDataset's pipeline over tar shards, whose batches are decoded by a worker: shards, a shuffle buffer, labels."""

import io
import json
import wave

import numpy as np
import webdataset as wds
from torch.utils.data import default_collate
from webdataset.tariterators import group_by_keys, tar_file_expander

from scripts.loaders._plain.data_loader import empty_batch
from scripts.loaders._plain.labels import labels_in

BUFFER_BYTES = 256 * 1024  # of a shard's stream: the library reads 10 KiB at a time


def opened(shards):
    """Yield each shard with its open stream, and close it: the library's own leaves that to the collector."""
    for shard in shards:
        with open(shard["url"], "rb", buffering=BUFFER_BYTES) as stream:
            yield {**shard, "stream": stream}


def of_rank(shards, rank, world):
    """Return the shards of one rank."""
    if rank >= len(shards):
        raise ValueError(
            f"rank {rank} of {world} has no shard, there are {len(shards)}. Use fewer ranks, or let the plan write the "
            "format: it makes a shard for each worker of each rank"
        )
    return shards[rank::world]


def labels_of(items, classes):
    """Return the labels of a batch of items, each with its member .json."""
    return labels_in([json.loads(item["json"]) for item in items], classes)


def decode_by_wave(content, row):
    """Decode a WAV file into a row of the batch, (1, samples): padded with zeros or cut."""
    with wave.open(io.BytesIO(content)) as file:
        pcm = np.frombuffer(file.readframes(row.shape[1]), "<i2")
    np.multiply(pcm, np.float32(1 / 32768), out=row[0, : len(pcm)])
    row[0, len(pcm) :] = 0


def decode_by_soundfile(content):
    """Return the samples of a file, float32 (n,)."""
    import soundfile

    return soundfile.read(io.BytesIO(content), dtype="float32")[0]


def collated_by_batch(decode, ending, key, shape, dtype, classes):
    """Return a function that makes a batch of items, each decoded into its row."""

    def collate(items):
        batch = empty_batch(len(items), shape, dtype)
        for item, row in zip(items, batch.numpy(), strict=True):
            decode(item[ending], row)
        return {key: batch, **labels_of(items, classes)}

    return collate


def collated_by_item(decode, ending, key, shape, classes):
    """Return a function that makes a batch of items, each decoded by itself: torch collates them."""

    def padded(audio):
        row = np.zeros(shape, np.float32)
        row[0, : len(audio)] = audio[: row.shape[1]]
        return row

    def collate(items):
        batch = default_collate([padded(decode(item[ending])) for item in items])
        return {key: batch, **labels_of(items, classes)}

    return collate


def web_loader(shards, open_shards, collate, shuffle_buffer, shuffle, batch_size, seed, **how):
    """Return a WebLoader over shards in random order, whose items go through a shuffle buffer."""
    dataset = wds.DataPipeline(
        wds.SimpleShardList(shards),
        wds.split_by_worker,
        wds.detshuffle(bufsize=len(shards), initial=len(shards), seed=seed) if shuffle else None,
        open_shards,
        tar_file_expander,
        group_by_keys,
        wds.detshuffle(bufsize=shuffle_buffer, initial=min(shuffle_buffer, 100), seed=seed) if shuffle else None,
        wds.batched(batch_size, partial=True, collation_fn=collate),
    )
    return wds.WebLoader(dataset, batch_size=None, **how)
