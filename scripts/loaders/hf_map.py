"""Hugging Face datasets in a DataLoader: a saved Dataset, mapped Arrow files of WAV, each decoded by the worker.

The library's own order of work: `load_from_disk`, the data set itself as the DataLoader's, a batch's rows taken out of
the mapped table at once. Its time goes there, where each file is copied twice, into a new table and then into Python's
bytes, and into decoding: set workers to the number of cores. `decoder: soundfile` takes the bytes, as with the feature
`Audio(decode=False)`; `decoder: torchcodec` decodes as the feature does by itself, which opens FFmpeg for each item.
"""

import torch
from datasets import Audio, load_from_disk
from torch.utils.data import DataLoader

from scripts.common.settings import OF_DATA_LOADER as SETTINGS
from scripts.loaders._declared import DECODING as STAGES, OF_ENCODED_ROWS as OPTIONS, simplify
from scripts.loaders._plain.huggingface import collated, decode_of

FORMAT = "hf_arrow"
REQUIRES = ("torch", "datasets", "numpy")
LIFETIME = "lasting"


def make_loader(data, key, shape, dtype, classes, decoder, seed, **how):
    """Return a DataLoader over a saved Dataset."""
    dataset = load_from_disk(str(data)).cast_column(key, Audio(decode=False))
    generator = torch.Generator().manual_seed(seed)
    collate = collated(decode_of(decoder), key, shape, dtype, classes)
    return DataLoader(dataset, shuffle=True, generator=generator, collate_fn=collate, **how)
