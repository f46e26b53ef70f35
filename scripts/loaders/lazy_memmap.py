"""TorchRL LazyMemmapStorage in a DataLoader: a TensorDict of memory-mapped tensors, a batch gathered at a time.

`gather: batch` gathers each of its tensors once a batch (`__getitems__`), in a worker straight into shared memory: the
storage's own indexing is slower; `gather: clip` asks the storage clip by clip, and stacks. Its time goes into copying
memory. Workers need new shared memory for each batch, which costs more than the copy: try `workers: [0]` first.
"""

from contextlib import contextmanager

from torch_dataloader import STAGES, epochs_of, gathered, simplify  # noqa: F401

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

    tensors = dict(storage.get(slice(0, request.clips)).items())  # views of the mapped files

    class ByClip(torch.utils.data.Dataset):
        def __getitem__(self, position):
            return dict(storage.get(position).items())

    class ByBatch(torch.utils.data.Dataset):
        def __getitems__(self, positions):
            return gathered(tensors, positions)

    dataset = ByBatch() if request.options["gather"] == "batch" else ByClip()
    with epochs_of(request, dataset) as epoch:
        yield epoch
