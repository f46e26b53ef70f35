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

from contextlib import contextmanager

from scripts.loaders import _dali
from scripts.loaders._dali import SETTINGS, decoded, labelled_epochs_of, positions_in, resident, simplify  # noqa: F401
from scripts.loaders._webdataset import labels_in
from scripts.machine import gpu

FORMAT = "webdataset"
KINDS = ("audio",)
REQUIRES = ("torch", "nvidia-dali-cuda120", "numpy")
LIFETIME = "lasting"
ORDER = "shards in random order, then a shuffle buffer"
STAGES = (*_dali.STAGES, "decode")
OPTIONS = {"shuffle_buffer": {"type": "integer", "minimum": 1, "default": 1000}}
SNIPPET = r"""
import json
import tarfile

from nvidia.dali import fn, pipeline_def

$head
shards = sorted(map(str, data.glob("*.tar")))
items = 0
for shard in shards:
    with tarfile.open(shard) as tar:
        items += len(tar.getnames()) // 2  # a .wav and a .json each


@pipeline_def(batch_size=batch_size, num_threads=$workers, prefetch_queue_depth=$prefetch, seed=$seed)
def pipeline():
    encoded, about = fn.readers.webdataset(
        paths=shards,  # index_paths: what DALI's wds2idx writes spares it a look at every shard when it starts
        ext=["wav", "json"],
        missing_component_behavior="error",
        random_shuffle=True,
        initial_fill=min($shuffle_buffer, items),  # a larger one would hold items twice
        shuffle_after_epoch=True,
        shuffle_after_epoch_seed=$seed,
        pad_last_batch=True,  # or else it is filled with items of the next epoch
        name="reader",
    )
    $dali_decoded
    return (audio if device == "cpu" else audio.gpu()), fn.pad(about, fill_value=0)


batches = $dali_iterator


class Loader:
    def __iter__(self):
        for [batch] in batches:
            about = [json.loads(bytes(member).rstrip(b"\0")) for member in batch["where"].numpy()]
            target = torch.tensor([each["classes"][0] for each in about], device=device)  # others follow the first
            yield {"audio": batch["audio"], "target": target}


$own_loader
"""


@contextmanager
def open_epochs(request):
    """Yield the epoch function over the shards."""
    import tempfile
    from pathlib import Path

    if "read" in request.without:
        with labelled_epochs_of(request, resident(request), None, _void(request)) as epoch:
            yield epoch
        return
    with tempfile.TemporaryDirectory() as folder:
        shards = sorted(request.data.glob("*.tar"))
        indices = [Path(folder, f"{shard.stem}.idx") for shard in shards]
        for shard, index in zip(shards, indices, strict=True):
            index.write_text(_index(shard))
        nodes = _nodes(request, list(map(str, shards)), list(map(str, indices)))
        with labelled_epochs_of(request, nodes, "reader", _labelled(request)) as epoch:
            yield epoch


def _nodes(request, shards, indices):
    """Return the function that makes the pipeline's nodes: audio, and the JSON members as padded bytes."""
    from nvidia.dali import fn

    shuffled = {
        "random_shuffle": True,
        # a larger buffer than a share would be filled with the same items again
        "initial_fill": min(request.options["shuffle_buffer"], max(1, request.items // request.world)),
        "shuffle_after_epoch": True,  # and before the first one
        "shuffle_after_epoch_seed": request.seed,
    }

    def outputs():
        encoded, about = fn.readers.webdataset(
            paths=shards,
            index_paths=indices,
            ext=["wav", "json"],
            missing_component_behavior="error",
            shard_id=request.rank,
            num_shards=request.world,
            pad_last_batch=True,
            **(shuffled if request.shuffle else {}),
            name="reader",
        )
        return decoded(encoded, request), fn.pad(about, fill_value=0)

    return outputs


def _index(shard):
    """Return a shard's index as DALI's wds2idx writes it, having read its headers and nothing else.

    A line a sample: extension, offset, size and name of each member.
    """
    import os
    import tarfile

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
    return "".join(f"{line}\n" for line in (f"v1.2 {len(samples)}", *map(" ".join, samples.values())))


def _labelled(request):
    """Return a function from a batch of JSON members, uint8 (batch, longest), to target, labels and item."""
    import json

    def labelled(members):
        about = [json.loads(bytes(member).rstrip(b"\0")) for member in members.numpy()]
        return gpu.all_moved(labels_in(about, request), request.device, True)

    return labelled


def _void(request):
    """Return a function from positions to labels of the right form: their reading is left out with the audio's."""
    import torch

    def labelled(where):
        item = positions_in(where)
        labels = torch.zeros(len(item), request.classes)
        return gpu.all_moved({"target": torch.zeros_like(item), "labels": labels, "item": item}, request.device, True)

    return labelled
