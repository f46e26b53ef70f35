"""int16 numpy.memmap in a DataLoader: half the bytes are read and sent, float32 is made where the batch is used.

For storage, memory or a bus that is too slow for float32: an item takes half of each. Its time goes into copying
memory, as that of `numpy_memmap`. Without workers, on a CPU, one pass reads the mapped items and writes float32.
Workers send int16, since shared memory costs more than converting does; on a GPU the batch is converted after its copy.
Try
`workers: [0]` first. There `reuse: true` converts every batch into one buffer: it is valid until the next one is asked
for.
"""

import warnings

from scripts.loaders._stored import STAGES  # noqa: F401
from scripts.loaders._torch import REUSE, SETTINGS, Batches, empty_batch, epochs_of, lifetime, reused, simplify_reuse  # noqa: F401

FORMAT = "int16"
REQUIRES = ("torch", "numpy")
OPTIONS = REUSE
LIFETIME = lifetime
simplify = simplify_reuse
SCALE = 1 / 32768  # a power of two: the product is exact
SNIPPET = """
import warnings

$head
$labels
workers = $workers
scale = 1 / 32768  # a power of two: the product is exact
warnings.filterwarnings("ignore", "The given NumPy array is not writable")  # nobody writes to it
pcm = np.load(data / "audio.npy", mmap_mode="r").view(np.ndarray)  # int16 (items, 1, samples)
mapped = torch.from_numpy(pcm)
$when reuse=True
buffer = np.empty((batch_size, 1, samples), dtype=np.float32)  # of every batch, until the next one
$end


def gathered(positions):
    if workers:  # sent as int16, in shared memory at once, as torch's own collating does it
        count = len(positions)
        storage = mapped._typed_storage()._new_shared(count * samples, device="cpu")
        shared = mapped.new(storage).resize_(count, 1, samples)
        return torch.index_select(mapped, 0, torch.tensor(positions), out=shared)
    if device != "cpu":
        return torch.from_numpy(pcm[positions])
    $when reuse=None
    batch = np.empty((len(positions), 1, samples), dtype=np.float32)
    $when reuse=True
    batch = buffer[: len(positions)]
    $end
    for position, row in zip(positions, batch, strict=True):
        np.multiply(pcm[position], np.float32(scale), out=row)
    return torch.from_numpy(batch)


$items_class

    def __getitems__(self, positions):  # a batch at once
        return {"audio": gathered(positions), "target": target[positions], "labels": labels[positions]}


batches = $data_loader


class Loader:
    def __iter__(self):  # int16 becomes float32 where it is used
        for batch in batches:
            batch = {name: tensor.to(device, non_blocking=True) for name, tensor in batch.items()}
            if device != "cpu":
                batch["audio"] = batch["audio"] * scale
            elif workers:
                batch["audio"] = torch.from_numpy(np.multiply(batch["audio"].numpy(), np.float32(scale)))
            yield batch


$own_loader
"""


def open_epochs(request):
    """Return what opens the epoch function over the mapped array."""
    import numpy as np
    import torch

    audio = np.load(request.data / "audio.npy", mmap_mode="r", allow_pickle=False).view(np.ndarray)
    with warnings.catch_warnings(action="ignore"):  # torch warns of what cannot be written
        rows = torch.from_numpy(audio)
    here = request.workers == 0 and request.device == "cpu" and "decode" not in request.without
    buffer = reused(request)
    silence = torch.zeros((request.batch_size, 1, request.samples), device=request.device)

    def converted(positions):
        batch = empty_batch(len(positions), request.sample) if buffer is None else buffer[: len(positions)]
        for position, row in zip(positions, batch.numpy(), strict=True):
            np.multiply(audio[position], np.float32(SCALE), out=row)
        return batch

    def gathered(positions):
        if torch.utils.data.get_worker_info() is None:
            return torch.from_numpy(audio[positions])
        batch = empty_batch(len(positions), request.sample, "int16")
        return torch.index_select(rows, 0, torch.tensor(positions), out=batch)

    def convert(batch):
        if "decode" in request.without:
            return {**batch, "audio": silence[: len(batch["audio"])]}
        if request.device == "cpu":  # numpy, whose large arrays are in huge pages
            return {**batch, "audio": torch.from_numpy(np.multiply(batch["audio"].numpy(), np.float32(SCALE)))}
        return {**batch, "audio": batch["audio"] * SCALE}

    dataset = Batches(request)
    dataset.gathered = converted if here else gathered
    return epochs_of(request, dataset, finish=None if here else convert)
