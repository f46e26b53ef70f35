"""The whole split as one tensor in memory, a batch gathered by index: what "preload" means in other reports.

For data sets that fit: nothing is read once the loader is open, so that storage has no part in its speed. Opening it
reads the array, and `construct_seconds` holds that. It has no worker processes: torch's threads copy a batch.
`keep: host` gathers in RAM, for a GPU straight into page-locked memory with `pin_memory`; `keep: device` holds the
split on the GPU and gathers there. On a CPU the two are one.
"""

import numpy as np
import torch

from scripts.common.request import too_large
from scripts.loaders._plain.epochs import Epochs, in_batches, shuffled
from scripts.loaders._plain.labels import read_labels
from scripts.machine import gpu

FORMAT = "memmap"
REQUIRES = ("torch", "numpy")
LIFETIME = "lasting"
SETTINGS = ("pin_memory",)
STAGES = ("read",)
PRELOADS = True
OPTIONS = {"keep": {"enum": ["host", "device"], "default": "host"}}


def simplify(settings):
    """Return settings without a second name for RAM, and without pages locked for a copy that is not made."""
    keep = "host" if settings["device"] == "cpu" else settings["keep"]
    return {**settings, "keep": keep, "pin_memory": settings["pin_memory"] and keep == "host"}


def unsuited(request):
    """Return a reason where the split takes more than half of the memory that is free, else None."""
    if request.options["keep"] == "device" and request.device != "cpu":
        return too_large(request, gpu.free_bytes(), "the GPU")
    from scripts.machine.devices import available_ram

    return too_large(request, available_ram(), "RAM")


def read(rows, where, pin_memory):
    """Return the rows of a tensor at the positions `where`, gathered by torch's threads."""
    shape = (len(where), *rows.shape[1:])
    if pin_memory:
        batch = torch.empty(shape, dtype=rows.dtype, pin_memory=True)
    elif rows.device.type == "cpu":
        batch = torch.from_numpy(np.empty(shape, rows.numpy().dtype))  # in huge pages where it is large
    else:
        batch = torch.empty(shape, dtype=rows.dtype, device=rows.device)
    return torch.index_select(rows, 0, where, out=batch)


def make_loader(data, key, keep, device, pin_memory, batch_size, seed, order=None):
    """Return a loader of the whole split, which is read before."""
    if keep == "host":
        kept_on, items = "cpu", np.load(data / f"{key}.npy")
    else:  # from mapped pages (private: torch wants to be able to write): no copy in RAM on the way
        kept_on, items = device, np.load(data / f"{key}.npy", mmap_mode="c")
    split = {key: torch.from_numpy(items), **read_labels(data)}
    split = {name: rows.to(kept_on) for name, rows in split.items()}
    order = order or shuffled(len(split["target"]), seed)

    def epoch(number):
        for where in in_batches(torch.from_numpy(order(number)).to(kept_on), batch_size):
            yield {name: read(rows, where, pin_memory) for name, rows in split.items()}

    return Epochs(epoch)


def without_read(read, _request):
    """Return a function that gives the first rows of each tensor again and again."""
    kept = {}

    def again(rows, where, pin_memory):
        if rows.data_ptr() not in kept or len(kept[rows.data_ptr()]) < len(where):
            kept[rows.data_ptr()] = read(rows, where, pin_memory)
        return kept[rows.data_ptr()][: len(where)]

    return again
