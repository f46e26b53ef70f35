"""NVIDIA DALI file reader and audio decoder: WAV files read, decoded and padded by DALI's threads.

Its time goes into reading and decoding. Set workers (DALI's threads) to the number of cores.
"""

from contextlib import contextmanager

from scripts.loaders import _dali
from scripts.loaders._dali import SETTINGS, decoded, epochs_of, rank_files, simplify  # noqa: F401

FORMAT = "wav"
REQUIRES = ("torch", "nvidia-dali-cuda120", "numpy")
LIFETIME = "lasting"
STAGES = (*_dali.STAGES, "decode")
SNIPPET = """
from nvidia.dali import fn, pipeline_def

$head
$labels
target, labels = target.to(device), labels.to(device)
order = np.random.default_rng($seed).permutation(len(target)).tolist()  # of the first epoch


@pipeline_def(batch_size=batch_size, num_threads=$workers, prefetch_queue_depth=$prefetch, seed=$seed)
def pipeline():
    encoded, position = fn.readers.file(
        files=[str(data / f"{position:06d}.wav") for position in order],
        labels=order,
        shuffle_after_epoch=True,
        pad_last_batch=True,  # or else it is filled with items of the next epoch
        name="reader",
    )
    $dali_decoded
    return (audio if device == "cpu" else audio.gpu()), position


batches = $dali_iterator


class Loader:
    def __iter__(self):
        for [batch] in batches:
            where = batch["where"].flatten().long()
            where = where if device == "cpu" else where.pin_memory().to(device, non_blocking=True)
            yield {"audio": batch["audio"], "target": target[where], "labels": labels[where]}


$own_loader
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
