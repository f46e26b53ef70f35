"""The whole split as one tensor in memory, a batch gathered by index: what "preload" means in other reports.

For data sets that fit: nothing is read once the loader is open, so that storage has no part in its speed. Opening it
reads the array, and `construct_seconds` holds that. It has no worker processes: torch's threads copy a batch.
`keep: host` gathers in RAM, for a GPU straight into page-locked memory with `pin_memory`; `keep: device` holds the
split on the GPU and gathers there. On a CPU the two are one.
"""

from contextlib import contextmanager

from scripts.common.request import batches_of, epoch_order, too_large
from scripts.loaders._torch import to_device, with_labels
from scripts.machine import gpu

FORMAT = "memmap"
REQUIRES = ("torch", "numpy")
LIFETIME = "lasting"
SETTINGS = ("pin_memory",)
STAGES = ("read",)
PRELOADS = True
OPTIONS = {"keep": {"enum": ["host", "device"], "default": "host"}}
SNIPPET = """
$head
$when keep=host
pin_memory = $pin_memory
split = {name: torch.from_numpy(np.load(data / f"{name}.npy")) for name in ("$item", "target", "labels")}  # all in RAM
$when keep=device
split = {  # all on the device, from mapped pages: no copy in RAM on the way
    name: torch.from_numpy(np.load(data / f"{name}.npy", mmap_mode="c")).to(device)
    for name in ("$item", "target", "labels")
}
$end
import numpy as np
import torch

generator = torch.Generator().manual_seed($seed)
$when keep=host


def empty_batch(rows, count):
    shape = (count, *rows.shape[1:])
    if pin_memory:
        return torch.empty(shape, dtype=rows.dtype, pin_memory=True)
    return torch.from_numpy(np.empty(shape, rows.numpy().dtype))  # in huge pages where it is large
$end


class Loader:
    def __iter__(self):
        order = torch.randperm(len(split["$item"]), generator=generator)
        $when keep=host
        for where in order.split(batch_size):
            yield {
                name: torch.index_select(rows, 0, where, out=empty_batch(rows, len(where)))
                for name, rows in split.items()
            }
        $when keep=device
        for where in order.to(device).split(batch_size):
            yield {name: torch.index_select(rows, 0, where) for name, rows in split.items()}
        $end


$own_loader
"""


def simplify(settings):
    """Return settings without a second name for RAM, and without pages locked for a copy that is not made."""
    keep = "host" if settings["device"] == "cpu" else settings["keep"]
    return {**settings, "keep": keep, "pin_memory": settings["pin_memory"] and keep == "host"}


def unsuited(request):
    """Return a reason where the split takes more than half of the memory that is free, else None."""
    where, free = _free(request)
    return too_large(request, free, where)


def _free(request):
    """Return (name, bytes) of the memory that is to hold the split."""
    if _kept_on(request) == "cpu":
        from scripts.machine.devices import available_ram

        return "RAM", available_ram()
    return "the GPU", gpu.free_bytes()


def _kept_on(request):
    return request.device if request.options["keep"] == "device" else "cpu"


@contextmanager
def open_epochs(request):
    """Yield the epoch function over the split, which is read before."""
    import numpy as np
    import torch

    kept_on = _kept_on(request)
    # To a GPU from mapped pages (private: torch wants to be able to write): no copy of the split in RAM on its way.
    data = np.load(request.array, mmap_mode=None if kept_on == "cpu" else "c", allow_pickle=False)
    split = with_labels(request, torch.from_numpy(data))
    split = {name: rows.to(kept_on) for name, rows in split.items()}
    del data
    pinned = request.pin_memory and kept_on == "cpu"

    def new(rows, count):
        shape = (count, *rows.shape[1:])
        if kept_on == "cpu" and not pinned:  # numpy's memory, which is in huge pages where it is large
            return torch.from_numpy(np.empty(shape, rows.numpy().dtype))
        return gpu.empty_pinned(shape, rows.dtype) if pinned else torch.empty(shape, dtype=rows.dtype, device=kept_on)

    def gather(where):
        batch = {}
        for name, rows in split.items():
            out = new(rows, len(where))
            batch[name] = torch.index_select(rows, 0, where, out=out)
        return batch

    take = gather
    if "read" in request.without:
        first = gather(torch.arange(min(request.batch_size, request.items), device=kept_on))
        take = lambda where: {name: rows[: len(where)] for name, rows in first.items()}  # noqa: E731

    def epoch(number):
        order = torch.from_numpy(epoch_order(request, number)).to(kept_on)
        return to_device(map(take, batches_of(order, request.batch_size)), request)

    yield epoch
