"""Hugging Face datasets, streamed: Parquet shards of WAV read front to back, decoded by the worker.

The order of an epoch is made of shards in random order, of which each worker reads up to ten at a time, and a shuffle
buffer of 1,000 items, as the library has it: it fills, then gives half of its items. Each worker has its own shards and
its own short batch. With fewer shards than workers the rest of them would deliver nothing: the plan writes one for each
worker of each rank; of your own files `dataset.reshard()` makes shards of row groups. Ranks have shards of their own
where these divide by their number; otherwise each reads all and keeps its share. Its time goes into copies of the
encoded items: out of the file, into the buffer, out of it, into Python's bytes.

In version 5.2, an epoch that reads several shards at a time ends with a pause of 5 s, by which the library avoids a
crash (apache/arrow#45214): set `input_shards: 1` where an epoch is short. `decoder` is that of hf_map.

`IterableDataset.from_parquet` is `load_dataset("parquet", streaming=True)` of local files without its request to the
Hub, which counts loads. The cache folder that the library makes is gone before the first item.
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
from scripts.loaders._plain.huggingface import collated, decode_of

FORMAT = "hf_parquet"
REQUIRES = ("torch", "datasets", "numpy")
LIFETIME = "lasting"
OPTIONS = {**OF_ENCODED_ROWS, **SHUFFLE, "input_shards": {"enum": [10, 1], "default": 10}}


class Loader(DataLoader):
    """Tells the data set the number of each epoch, which then has an order of its own."""

    epoch = 0

    def __iter__(self):
        self.dataset.set_epoch(self.epoch)
        self.epoch += 1
        return super().__iter__()


def make_loader(
    data, key, shape, dtype, classes, decoder, shuffle_buffer, input_shards, seed, shuffle=True, rank=0, world=1, **how
):
    """Return a DataLoader over Parquet shards."""
    with TemporaryDirectory() as cache:
        dataset = IterableDataset.from_parquet(sorted(map(str, data.glob("*.parquet"))), cache_dir=cache)
    dataset = dataset.cast_column(key, Audio(decode=False))
    if shuffle:
        dataset = dataset.shuffle(seed=seed, buffer_size=shuffle_buffer, max_buffer_input_shards=input_shards)
    if world > 1:
        dataset = split_dataset_by_node(dataset, rank=rank, world_size=world)
    return Loader(dataset, collate_fn=collated(decode_of(decoder), key, shape, dtype, classes), **how)
