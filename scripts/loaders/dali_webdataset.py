"""NVIDIA DALI WebDataset reader: tar shards mapped, WAV members decoded and padded by DALI's threads.

For data in shards that is to be decoded by DALI. Its time goes into decoding: set workers (DALI's threads) to the
number of cores. An epoch's order is made of shards in random order and a shuffle buffer (`initial_fill`) of
`shuffle_buffer` items, which it fills before the first batch; the buffer holds places in the mapped shards, so that it
costs little memory. Ranks take equal parts of all items, which change with the order of the shards.

DALI wants an index of each shard, or else goes through the shards at construction, after which all their pages are in
the cache and no epoch is cold. The index is made here at construction, in a temporary folder, from the headers of the
members alone: 2 small reads an item. Labels come from the JSON members, parsed in Python. From a disk the kernel reads
around each place that is touched (its read_ahead_kb), which is other items of the buffer: a cold run wants many more
items than `shuffle_buffer`.
"""

import json
import os
import tarfile
import tempfile
from pathlib import Path

from nvidia.dali import fn, pipeline_def

from scripts.loaders import _dali
from scripts.loaders._dali import SETTINGS, close, simplify, without_decode
from scripts.loaders._plain.dali import Pipelined, decode, moved
from scripts.loaders._plain.labels import labels_in

FORMAT = "webdataset"
KINDS = ("audio",)
REQUIRES = ("torch", "nvidia-dali-cuda120", "numpy")
LIFETIME = "lasting"
ORDER = "shards in random order, then a shuffle buffer"
STAGES = (*_dali.STAGES, "decode")
OPTIONS = {"shuffle_buffer": {"type": "integer", "minimum": 1, "default": 1000}}


def samples_in(shard):
    """Return a line for each sample of a shard, of its headers: extension, offset, size and name of each member."""
    samples = {}
    with open(shard, "rb", buffering=0) as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)  # no reading ahead
        start = 0
        while header := os.pread(file.fileno(), tarfile.BLOCKSIZE, start).rstrip(b"\0"):
            member = tarfile.TarInfo.frombuf(header.ljust(tarfile.BLOCKSIZE, b"\0"), "utf-8", "strict")
            stem, _, extension = member.name.partition(".")
            content = start + tarfile.BLOCKSIZE
            samples.setdefault(stem, []).append(f"{extension} {content} {member.size} {member.name}")
            start = content + -(-member.size // tarfile.BLOCKSIZE) * tarfile.BLOCKSIZE
    return [" ".join(members) for members in samples.values()]


def write_indices(shards, folder):
    """Write the index of each shard as DALI's wds2idx does; return their paths, and how many samples there are."""
    indices, items = [], 0
    for shard in shards:
        lines = samples_in(shard)
        indices.append(str(Path(folder, f"{shard.stem}.idx")))
        Path(indices[-1]).write_text("\n".join([f"v1.2 {len(lines)}", *lines, ""]))
        items += len(lines)
    return indices, items


def read(shards, indices, samples, buffer, seed, shuffle, rank, world):
    """Return the nodes of decoded WAV members, and of the JSON members as padded bytes."""
    encoded, about = fn.readers.webdataset(
        paths=[str(shard) for shard in shards],
        index_paths=indices,
        ext=["wav", "json"],
        missing_component_behavior="error",
        random_shuffle=shuffle,
        initial_fill=buffer,
        shuffle_after_epoch=shuffle,  # and before the first one
        shuffle_after_epoch_seed=seed,
        shard_id=rank,
        num_shards=world,
        pad_last_batch=True,  # or else it is filled with items of the next epoch
        name="reader",
    )
    return decode(encoded, samples), fn.pad(about, fill_value=0)


def read_by_json(members, classes):
    """Return the labels of a batch by its JSON members, padded bytes."""
    return labels_in([json.loads(bytes(member).rstrip(b"\0")) for member in members.numpy()], classes)


def make_loader(
    data,
    shape,
    shuffle_buffer,
    device,
    batch_size,
    workers,
    prefetch,
    seed,
    shuffle=True,
    rank=0,
    world=1,
    classes=None,
):
    """Return a loader of the tar shards in a folder."""
    shards = sorted(data.glob("*.tar"))

    def labels_of(members):
        return {name: moved(rows, device) for name, rows in read_by_json(members, classes).items()}

    with tempfile.TemporaryDirectory() as folder:  # for DALI to read as it starts
        indices, items = write_indices(shards, folder)
        buffer = min(shuffle_buffer, max(1, items // world))  # a larger one would hold items twice

        @pipeline_def(batch_size=batch_size, num_threads=workers, prefetch_queue_depth=prefetch, seed=seed)
        def pipeline():
            audio, about = read(shards, indices, shape[-1], buffer, seed, shuffle, rank, world)
            return (audio if device == "cpu" else audio.gpu()), about

        return Pipelined(pipeline, "audio", device, labels_of)


def without_read(read, request):
    """Return a function that gives one batch of zeros in RAM, and labels of the right form by positions."""
    import torch

    def void(where, classes):
        item = where.flatten().long()
        return {"target": torch.zeros_like(item), "labels": torch.zeros(len(item), classes), "item": item}

    return void if read.__name__ == "read_by_json" else _dali.without_read(read, request)
