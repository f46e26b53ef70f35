"""Hugging Face datasets, streamed: Parquet shards of WAV read front to back, decoded by the worker.

The order of an epoch is made of shards in random order, of which each worker reads up to ten in turn, and a shuffle
buffer of 1,000 items, as the library has it: it fills, then gives half of its items at once. Each worker has its own
shards and its own short batch; with fewer shards than workers the rest of them deliver nothing (`dataset.reshard()`
makes shards of row groups). Ranks have shards of their own where these divide by their number; otherwise each reads
all and keeps its share. Its time goes into copies of the encoded items: out of the file, into the buffer, out of it,
and into Python's bytes. Set workers to the number of cores. `decoder` is that of hf_map.

`IterableDataset.from_parquet` is `load_dataset("parquet", streaming=True)` of local files without its request to the
Hub, which counts loads. The cache folder that the library makes is left empty, and is gone before the first item.
"""

from tempfile import TemporaryDirectory

from datasets import Audio, IterableDataset
from datasets.distributed import split_dataset_by_node
from torch.utils.data import DataLoader

from scripts.loaders._declared import (
    DECODING as STAGES,
    OF_ENCODED_ROWS,
    SETTINGS,
    SHARDS as ORDER,
    SHUFFLE,
    buffered,
    simplify,
)
from scripts.loaders._plain.huggingface import collated, decode_by_soundfile, decode_by_torchcodec

FORMAT = "hf_parquet"
REQUIRES = ("torch", "datasets", "numpy")
LIFETIME = "lasting"
OPTIONS = {**OF_ENCODED_ROWS, **SHUFFLE}


class Loader(DataLoader):
    """Tells the data set the number of each epoch, which then has an order of its own."""

    epoch = 0

    def __iter__(self):
        self.dataset.set_epoch(self.epoch)
        self.epoch += 1
        return super().__iter__()


def make_loader(data, key, shape, dtype, classes, decoder, shuffle_buffer, seed, shuffle=True, rank=0, world=1, **how):
    """Return a DataLoader over Parquet shards."""
    if decoder == "soundfile":
        decode = decode_by_soundfile
    else:
        decode = decode_by_torchcodec
    with TemporaryDirectory() as cache:
        dataset = IterableDataset.from_parquet(sorted(map(str, data.glob("*.parquet"))), cache_dir=cache)
    dataset = dataset.cast_column(key, Audio(decode=False))
    if shuffle:
        dataset = dataset.shuffle(seed=seed, buffer_size=shuffle_buffer)
    if world > 1:
        dataset = split_dataset_by_node(dataset, rank=rank, world_size=world)
    return Loader(dataset, collate_fn=collated(decode, key, shape, dtype, classes), **how)
