"""NVIDIA DALI file reader and audio decoder: WAV files read, decoded and padded by DALI's threads.

Its time goes into reading and decoding. Set workers (DALI's threads) to the number of cores.
"""

from contextlib import contextmanager

from scripts.loaders import _dali
from scripts.loaders._dali import SETTINGS, decoded, epochs_of, rank_files, simplify  # noqa: F401

FORMAT = "wav"
REQUIRES = ("torch", "nvidia-dali-cuda120", "numpy")
STAGES = (*_dali.STAGES, "decode")
SNIPPET = """
from pathlib import Path

import numpy as np
import torch
from nvidia.dali import fn, pipeline_def, types
from nvidia.dali.plugin.pytorch import DALIGenericIterator, LastBatchPolicy

data = Path($data)
device = $device
samples = $samples  # of a clip; shorter ones are padded, longer ones cut
target = torch.from_numpy(np.load(data / "target.npy")).to(device)  # int64 (clips,), the first class of a clip
labels = torch.from_numpy(np.load(data / "labels.npy")).to(device)  # float32 (clips, classes)
order = np.random.default_rng($seed).permutation(len(target)).tolist()  # of the first epoch


@pipeline_def(
    batch_size=$batch_size,
    num_threads=$workers,
    device_id=None if device == "cpu" else torch.cuda.current_device(),
    prefetch_queue_depth=$prefetch,
    seed=$seed,
)
def pipeline():
    encoded, position = fn.readers.file(
        files=[str(data / f"{position:06d}.wav") for position in order],
        labels=order,
        shuffle_after_epoch=True,
        pad_last_batch=True,  # or else it is filled with clips of the next epoch
        name="reader",
    )
    pcm, _ = fn.decoders.audio(encoded, dtype=types.INT16, downmix=False)  # its own float32 is scaled by 1 / 32767
    flat = fn.reshape(pcm, shape=[-1])
    fixed = fn.slice(flat, start=[0], shape=[samples], axes=[0], out_of_bounds_policy="pad", fill_values=0)
    audio = fn.reshape(fixed * (1 / 32768), shape=[1, samples])
    return (audio if device == "cpu" else audio.gpu()), position


batches = DALIGenericIterator(
    pipeline(),
    ["audio", "position"],
    reader_name="reader",
    last_batch_policy=LastBatchPolicy.PARTIAL,
    auto_reset=True,
)


class Loader:
    def __iter__(self):
        for [batch] in batches:
            where = batch["position"].flatten().long().to(device)
            yield {"audio": batch["audio"], "target": target[where], "labels": labels[where]}


loader = Loader()

for batch in loader:  # an epoch, each time in a new order
    # your training step, with batch["audio"], float32 (n, 1, samples), batch["target"] and batch["labels"]
    audio = batch["audio"]  # on the device already
"""


@contextmanager
def open_epochs(request):
    """Yield the epoch function over numbered WAV files."""
    from nvidia.dali import fn

    files, positions = rank_files(request, "wav")

    def outputs():
        encoded, where = fn.readers.file(
            files=files, labels=positions, shuffle_after_epoch=request.shuffle, pad_last_batch=True, name="reader"
        )
        return decoded(encoded, request), where

    with epochs_of(request, outputs, "reader", lambda where: where.flatten().long()) as epoch:
        yield epoch
