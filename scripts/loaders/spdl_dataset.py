"""SPDL around an existing Dataset: its items made in threads, then collated, as SPDL's migration guide begins.

For those who have a map-style Dataset that threads may share and whose reading releases Python's lock (here soundfile,
one WAV file an item), and who change nothing but the DataLoader around it. Its time goes into decoding, into SPDL's
bookkeeping for each item, and into collating, which one thread does for all; the guide itself goes on from here to
batches without copies, as `spdl` has them. `workers` are threads: set as many as there are cores. The pipeline runs on
from one epoch into the next.
"""

from scripts.common.request import undecoded
from scripts.loaders import _torch
from scripts.loaders._spdl import COLLATED_SNIPPET, DATASET_SNIPPET, SETTINGS, epochs_around  # noqa: F401
from scripts.loaders._torch import simplify_threads as simplify  # noqa: F401

FORMAT = "wav"
REQUIRES = ("torch", "spdl", "soundfile", "numpy")
LIFETIME = "lasting"
STAGES = ("read", "decode")
SNIPPET = (
    DATASET_SNIPPET
    + """
import soundfile


class Items(Dataset):
    def __len__(self):
        return len(target)

    def __getitem__(self, position):
        pcm, _ = soundfile.read(data / f"{position:06d}.wav", frames=samples, dtype="float32", fill_value=0)
        return {"audio": torch.from_numpy(pcm)[None], "target": target[position], "labels": labels[position]}
"""
    + COLLATED_SNIPPET
)


def open_epochs(request):
    """Return what opens the epoch function over numbered WAV files."""
    import soundfile
    import torch

    class Files(_torch.Items):
        def item(self, position):
            path = request.data / f"{position:06d}.wav"
            if "decode" in request.without:
                return undecoded(path, request)
            pcm, _ = soundfile.read(path, frames=request.samples, dtype="float32", fill_value=0)
            return torch.from_numpy(pcm)[None]

    return epochs_around(Files(request), request)
