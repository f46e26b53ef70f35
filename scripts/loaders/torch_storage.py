"""A tensor on a file-backed torch storage in a DataLoader: `torch.from_file`, a batch gathered at a time.

What numpy.memmap is to NumPy, without NumPy in the path of the data. `gather: batch` copies a batch by one
`index_select` (`__getitems__`), on torch's threads in the process of the training, in a worker straight into shared
memory; `gather: clip` takes clip by clip and lets torch collate. Its time goes into copying memory. Workers need new
shared memory for each batch, which costs more than the copy: try `workers: [0]` first.

The file is mapped private, so that nothing can write to it. The kernel refuses to map a file so that is larger than RAM
and swap, unless vm.overcommit_memory is 1.
"""

from contextlib import contextmanager

from scripts.loaders._torch import STAGES, epochs_of, gathered, simplify  # noqa: F401

FORMAT = "memmap"
REQUIRES = ("torch", "numpy")
SETTINGS = ("workers", "prefetch", "pin_memory")
OPTIONS = {"gather": {"enum": ["batch", "clip"], "default": "batch"}}
SNIPPET = {
    "batch": """
from pathlib import Path

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

data = Path($data)
samples = $samples  # of a clip
header = np.load(data / "audio.npy", mmap_mode="r")  # says where its rows begin: a multiple of 64 bytes
skipped = header.offset // header.itemsize
mapped = torch.from_file(str(data / "audio.npy"), shared=False, size=skipped + header.size)
clips = mapped[skipped:].view(header.shape)  # float32 (clips, 1, samples)
target = torch.from_numpy(np.load(data / "target.npy"))  # int64 (clips,), the first class of a clip
labels = torch.from_numpy(np.load(data / "labels.npy"))  # float32 (clips, classes)


$empty_batch


class Clips(Dataset):
    def __len__(self):
        return len(clips)

    def __getitems__(self, positions):  # a batch at once, on torch's threads
        where = torch.tensor(positions)
        audio = torch.index_select(clips, 0, where, out=empty_batch(len(positions)))
        return {"audio": audio, "target": target[where], "labels": labels[where]}


loader = DataLoader(
    Clips(),
    batch_size=$batch_size,
    shuffle=True,
    generator=torch.Generator().manual_seed($seed),
    collate_fn=lambda batch: batch,  # it is gathered already
    $worker_arguments
)

for batch in loader:  # an epoch, each time in another order
    batch = {name: tensor.to($device, non_blocking=True) for name, tensor in batch.items()}
    # your training step, with batch["audio"], float32 (n, 1, samples), batch["target"] and batch["labels"]
""",
    "clip": """
from pathlib import Path

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

data = Path($data)
header = np.load(data / "audio.npy", mmap_mode="r")  # says where its rows begin: a multiple of 64 bytes
skipped = header.offset // header.itemsize
mapped = torch.from_file(str(data / "audio.npy"), shared=False, size=skipped + header.size)
clips = mapped[skipped:].view(header.shape)  # float32 (clips, 1, samples)
target = torch.from_numpy(np.load(data / "target.npy"))  # int64 (clips,), the first class of a clip
labels = torch.from_numpy(np.load(data / "labels.npy"))  # float32 (clips, classes)


class Clips(Dataset):
    def __len__(self):
        return len(clips)

    def __getitem__(self, position):  # mapped: collating copies it
        return {"audio": clips[position], "target": target[position], "labels": labels[position]}


loader = DataLoader(
    Clips(),
    batch_size=$batch_size,
    shuffle=True,
    generator=torch.Generator().manual_seed($seed),
    $worker_arguments
)

for batch in loader:  # an epoch, each time in another order
    batch = {name: tensor.to($device, non_blocking=True) for name, tensor in batch.items()}
    # your training step, with batch["audio"], float32 (n, 1, samples), batch["target"] and batch["labels"]
""",
}


@contextmanager
def open_epochs(request):
    """Yield the epoch function over the mapped tensor."""
    import torch

    from scripts.common.labels import read_labels

    audio = _mapped(request.data / "audio.npy")
    clip, target, labels = map(torch.from_numpy, read_labels(request.data))

    tensors = {"audio": audio, "target": target, "labels": labels, "clip": clip}

    class ByClip(torch.utils.data.Dataset):
        def __getitem__(self, position):
            return {
                "audio": audio[position],  # mapped: collating copies it
                "target": target[position],
                "labels": labels[position],
                "clip": clip[position],
            }

    class ByBatch(torch.utils.data.Dataset):
        def __getitems__(self, positions):
            return gathered(tensors, positions)

    dataset = ByBatch() if request.options["gather"] == "batch" else ByClip()
    with epochs_of(request, dataset) as epoch:
        yield epoch


def _mapped(path):
    """Return the array of a float32 .npy file as a tensor whose storage is the mapped file, beyond its header."""
    import numpy as np
    import torch

    header = np.load(path, mmap_mode="r", allow_pickle=False)
    skipped, count = header.offset // header.itemsize, header.size  # an .npy header is a multiple of 64 bytes
    return torch.from_file(str(path), shared=False, size=skipped + count)[skipped:].view(header.shape)
