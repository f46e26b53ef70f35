"""A tensorclass of the whole split in RAM, in a DataLoader: a batch gathered at a time (tensordict).

For data sets that fit and code that is written against tensorclasses. Opening it reads the split. Its time goes into
copying memory. It has no worker processes, which would copy each batch twice more.
"""

from contextlib import contextmanager
from dataclasses import replace

from loading import too_large
from torch_dataloader import epochs_of, gathered

FORMAT = "tensordict"
ENV = "tensordict"
REQUIRES = ("torch", "tensordict", "numpy")
SETTINGS = ("pin_memory",)
STAGES = ("read",)
READS_ONCE = True


def unsuited(request):
    """Return a reason where the split takes more than half of the RAM that is free, else None."""
    from devices import available_ram

    return too_large(request, available_ram(), "RAM")


@contextmanager
def open_epochs(request):
    """Yield the epoch function over the split, which is read before."""
    import torch
    from tensordict import TensorDict, tensorclass

    @tensorclass
    class Clips:
        audio: torch.Tensor
        target: torch.Tensor
        labels: torch.Tensor
        clip: torch.Tensor

    clips = Clips.from_tensordict(TensorDict.load_memmap(request.data, allow_pickle=False).clone())

    tensors = dict(clips.items())

    class ByBatch(torch.utils.data.Dataset):
        def __getitems__(self, positions):
            return gathered(tensors, positions)

    with epochs_of(replace(request, workers=0), ByBatch()) as epoch:
        yield epoch
