"""soundfile in a DataLoader: WAV files decoded by libsndfile straight into the batch.

The fast way to read plain WAV in Python. Its time goes into opening and decoding a file for each clip: set workers to
the number of cores. It asks libsndfile for int16 and scales by 1/32768 while copying into the batch's row: the same
bits as `dtype="float32"`, in less time.
"""

from contextlib import contextmanager

from scripts.common.request import undecoded
from scripts.loaders import _torch
from scripts.loaders._torch import empty_batch, epochs_of, simplify  # noqa: F401

FORMAT = "wav"
REQUIRES = ("torch", "soundfile", "numpy")
SETTINGS = ("workers", "prefetch", "pin_memory")
STAGES = (*_torch.STAGES, "decode")
SNIPPET = """
from pathlib import Path

import numpy as np
import soundfile
import torch

data = Path($data)
samples = $samples  # of a clip; shorter ones are padded, longer ones cut
target = torch.from_numpy(np.load(data / "target.npy"))  # int64 (clips,), the first class of a clip
labels = torch.from_numpy(np.load(data / "labels.npy"))  # float32 (clips, classes)


$empty_batch


class Files(torch.utils.data.Dataset):
    def __len__(self):
        return len(target)

    def __getitems__(self, positions):  # a batch at a time
        audio = empty_batch(len(positions))
        pcm = np.empty(samples, dtype=np.int16)
        for position, row in zip(positions, audio.numpy()[:, 0], strict=True):
            decoded, _ = soundfile.read(data / f"{position:06d}.wav", out=pcm)
            np.multiply(decoded, np.float32(1 / 32768), out=row[: len(decoded)])
            row[len(decoded) :] = 0
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
"""


@contextmanager
def open_epochs(request):
    """Yield the epoch function over numbered WAV files."""
    import numpy as np
    import soundfile
    import torch

    from scripts.common.labels import read_labels

    clip, target, labels = map(torch.from_numpy, read_labels(request.data))
    scale = np.float32(1 / 32768)

    def decode(path, row, pcm):
        decoded, _ = soundfile.read(path, out=pcm)  # of a longer file the beginning, of a shorter one all
        np.multiply(decoded, scale, out=row[: len(decoded)])
        row[len(decoded) :] = 0

    def path_of(position):
        return request.data / f"{position:06d}.wav"

    class Files(torch.utils.data.Dataset):
        def files_to_decode(self, positions):  # for the batch timeline
            return map(path_of, positions)

        def __getitems__(self, positions):
            audio = empty_batch(len(positions), request.samples)
            pcm = np.empty(request.samples, dtype=np.int16)
            for position, rows in zip(positions, audio, strict=True):
                path = path_of(position)
                if "decode" in request.without:
                    rows[:] = undecoded(path, request)
                else:
                    decode(path, rows[0].numpy(), pcm)
            return {"audio": audio, "target": target[positions], "labels": labels[positions], "clip": clip[positions]}

    with epochs_of(request, Files()) as epoch:
        yield epoch
