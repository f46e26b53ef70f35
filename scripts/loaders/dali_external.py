"""NVIDIA DALI external source: a Python function gathers batches from a numpy.memmap and hands them to DALI.

The function runs in series, in the process of the training loop, so DALI adds its queue and one more copy to what a
memory map costs. It is here for pipelines that must go on in DALI (augmentation on the GPU).
"""

from contextlib import contextmanager

from dali_pipeline import SETTINGS, STAGES, epochs_of, simplify  # noqa: F401
from loading import batches_of, epoch_order

FORMAT = "memmap"
ENV = "dali"
REQUIRES = ("torch", "nvidia-dali-cuda120", "numpy")


@contextmanager
def open_epochs(request):
    """Yield the epoch function over the mapped array."""
    import numpy as np
    from nvidia.dali import fn

    mapped = np.load(request.data / "audio.npy", mmap_mode="r", allow_pickle=False)

    class Epochs:
        """Each iteration is one epoch of (audio, position) batches."""

        def __init__(self):
            self.number = -1

        def __iter__(self):
            self.number += 1
            for positions in batches_of(epoch_order(request, self.number), request.batch_size):
                yield mapped[positions], np.ascontiguousarray(positions)[:, None]

    def outputs():
        return tuple(fn.external_source(source=Epochs(), num_outputs=2, batch=True, cycle="raise"))

    with epochs_of(request, outputs, None, lambda where: where.flatten().long()) as epoch:
        yield epoch
