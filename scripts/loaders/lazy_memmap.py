"""TorchRL LazyMemmapStorage in a DataLoader: a TensorDict of memory-mapped tensors, a batch indexed at a time.

`gather: batch` indexes the storage once a batch (`__getitems__`); `gather: clip` once a clip, and stacks. Its time goes
into copying memory. Worker processes copy each batch once more, through shared memory: try `workers: [0]` first.
"""

from contextlib import contextmanager

from torch_dataloader import STAGES, epochs_of, simplify  # noqa: F401

FORMAT = "tensordict"
ENV = "tensordict"
REQUIRES = ("torch", "tensordict", "torchrl", "numpy")
SETTINGS = ("workers", "prefetch", "pin_memory")
OPTIONS = {"gather": {"enum": ["batch", "clip"], "default": "batch"}}


@contextmanager
def open_epochs(request):
    """Yield the epoch function over the storage."""
    import torch
    from torchrl.data import LazyMemmapStorage

    # scratch_dir must be the folder itself: elsewhere `loads` would copy every byte away from the tier.
    storage = LazyMemmapStorage(request.clips, scratch_dir=request.data, existsok=True, auto_cleanup=False)
    storage.loads(request.data)

    class ByClip(torch.utils.data.Dataset):
        def __getitem__(self, position):
            return dict(storage.get(position).items())

    class ByBatch(torch.utils.data.Dataset):
        def __getitems__(self, positions):
            return dict(storage.get(torch.as_tensor(positions)).items())

    dataset = ByBatch() if request.options["gather"] == "batch" else ByClip()
    with epochs_of(request, dataset) as epoch:
        yield epoch
