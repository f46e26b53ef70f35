"""A memory-mapped tensorclass in a DataLoader: tensordict's files, a batch gathered at a time.

What tensordict's tutorials do with data that does not fit: files mapped by `load_memmap`. `gather: batch` gathers each
of its tensors at once (`__getitems__`), in a worker straight into shared memory: indexing the tensorclass itself is
slower; `gather: clip` indexes clip by clip and lets torch collate. Its time goes into copying memory. Workers need new
shared memory for each batch, which costs more than the copy: try `workers: [0]` first.
"""

from contextlib import contextmanager

from torch_dataloader import STAGES, epochs_of, gathered, simplify  # noqa: F401

FORMAT = "tensordict"
ENV = "tensordict"
REQUIRES = ("torch", "tensordict", "numpy")
SETTINGS = ("workers", "prefetch", "pin_memory")
OPTIONS = {"gather": {"enum": ["batch", "clip"], "default": "batch"}}


@contextmanager
def open_epochs(request):
    """Yield the epoch function over the mapped tensorclass."""
    import torch
    from tensordict import TensorDict, tensorclass

    @tensorclass
    class Clips:
        audio: torch.Tensor
        target: torch.Tensor
        labels: torch.Tensor
        clip: torch.Tensor

    clips = Clips.from_tensordict(TensorDict.load_memmap(request.data, allow_pickle=False))

    tensors = dict(clips.items())

    class ByClip(torch.utils.data.Dataset):
        def __getitem__(self, position):
            return dict(clips[position].items())

    class ByBatch(torch.utils.data.Dataset):
        def __getitems__(self, positions):
            return gathered(tensors, positions)

    dataset = ByBatch() if request.options["gather"] == "batch" else ByClip()
    with epochs_of(request, dataset) as epoch:
        yield epoch
