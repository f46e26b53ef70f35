"""Numbered .npy files in a DataLoader: one file a clip, read straight into the batch.

For float32 that must lie in a file a clip. `gather: batch` reads each file's data into its row of the batch, beyond a
header that is of one length in all of them; `gather: clip` calls `numpy.load` for each clip and lets torch collate, as
most published code does. Its time goes into opening files and copying memory. Set workers to the number of cores.
"""

from contextlib import contextmanager

from scripts.loaders._torch import STAGES, empty_batch, epochs_of, simplify  # noqa: F401

FORMAT = "npy"
REQUIRES = ("torch", "numpy")
SETTINGS = ("workers", "prefetch", "pin_memory")
OPTIONS = {"gather": {"enum": ["batch", "clip"], "default": "batch"}}
SNIPPET = {
    "batch": """
from pathlib import Path

import numpy as np
import torch

data = Path($data)
samples = $samples
target = torch.from_numpy(np.load(data / "target.npy"))  # int64 (clips,), the first class of a clip
labels = torch.from_numpy(np.load(data / "labels.npy"))  # float32 (clips, classes)
header_bytes = np.load(data / "000000.npy", mmap_mode="r").offset  # of one length in all files


$empty_batch


class Files(torch.utils.data.Dataset):
    def __len__(self):
        return len(target)

    def __getitems__(self, positions):  # a batch at a time
        audio = empty_batch(len(positions))
        for position, row in zip(positions, audio.numpy(), strict=True):
            with open(data / f"{position:06d}.npy", "rb", buffering=0) as file:
                file.seek(header_bytes)
                if file.readinto(row) != row.nbytes:
                    raise EOFError(f"{file.name} ends within the clip")
        return {"audio": audio, "target": target[positions], "labels": labels[positions]}


loader = torch.utils.data.DataLoader(
    Files(),
    batch_size=$batch_size,
    shuffle=True,
    generator=torch.Generator().manual_seed($seed),
    collate_fn=lambda batch: batch,  # Files has collated already
    $worker_arguments
)

for batch in loader:  # an epoch, each time in a new order
    batch = {name: tensor.to($device, non_blocking=True) for name, tensor in batch.items()}
    # your training step, with batch["audio"], float32 (n, 1, samples), batch["target"] and batch["labels"]
""",
    "clip": """
from pathlib import Path

import numpy as np
import torch

data = Path($data)
target = torch.from_numpy(np.load(data / "target.npy"))  # int64 (clips,), the first class of a clip
labels = torch.from_numpy(np.load(data / "labels.npy"))  # float32 (clips, classes)


class Files(torch.utils.data.Dataset):
    def __len__(self):
        return len(target)

    def __getitem__(self, position):
        audio = torch.from_numpy(np.load(data / f"{position:06d}.npy"))
        return {"audio": audio, "target": target[position], "labels": labels[position]}


loader = torch.utils.data.DataLoader(
    Files(),
    batch_size=$batch_size,
    shuffle=True,
    generator=torch.Generator().manual_seed($seed),
    $worker_arguments
)

for batch in loader:  # an epoch, each time in a new order
    batch = {name: tensor.to($device, non_blocking=True) for name, tensor in batch.items()}
    # your training step, with batch["audio"], float32 (n, 1, samples), batch["target"] and batch["labels"]
""",
}


@contextmanager
def open_epochs(request):
    """Yield the epoch function over numbered .npy files."""
    import numpy as np
    import torch

    from scripts.common.labels import read_labels

    clip, target, labels = map(torch.from_numpy, read_labels(request.data))

    def path_of(position):
        return request.data / f"{position:06d}.npy"

    header_bytes = np.load(path_of(0), mmap_mode="r", allow_pickle=False).offset

    def read_into(row, path):
        with open(path, "rb", buffering=0) as file:
            file.seek(header_bytes)
            if file.readinto(row) != row.nbytes:
                raise EOFError(f"{path} is shorter than its header of {header_bytes} and a clip of {row.nbytes} bytes")

    def labelled(audio, where):
        return {"audio": audio, "target": target[where], "labels": labels[where], "clip": clip[where]}

    class ByClip(torch.utils.data.Dataset):
        def __getitem__(self, position):
            return labelled(torch.from_numpy(np.load(path_of(position), allow_pickle=False)), position)

    class ByBatch(torch.utils.data.Dataset):
        def __getitems__(self, positions):
            audio = empty_batch(len(positions), request.samples)
            for position, row in zip(positions, audio.numpy(), strict=True):
                read_into(row, path_of(position))
            return labelled(audio, positions)

    dataset = ByBatch() if request.options["gather"] == "batch" else ByClip()
    with epochs_of(request, dataset) as epoch:
        yield epoch
