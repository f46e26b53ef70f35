"""torchaudio.load in a DataLoader: one WAV file opened and decoded per clip.

Since torchaudio 2.9 `load` decodes by torchcodec, that is FFmpeg: its time goes into opening a decoder for each clip.
Set workers to the number of cores.
"""

from contextlib import contextmanager

import torch_dataloader
from loading import undecoded
from torch_dataloader import epochs_of, simplify  # noqa: F401

FORMAT = "wav"
ENV = "torch"
REQUIRES = ("torch", "torchaudio", "torchcodec", "numpy")
SETTINGS = ("workers", "prefetch", "pin_memory")
STAGES = (*torch_dataloader.STAGES, "decode")


@contextmanager
def open_epochs(request):
    """Yield the epoch function over numbered WAV files."""
    import torch
    import torchaudio

    from labels import read_labels

    clip, target, labels = map(torch.from_numpy, read_labels(request.data))

    class Files(torch.utils.data.Dataset):
        def __getitem__(self, position):
            path = request.data / f"{position:06d}.wav"
            audio = undecoded(path, request) if "decode" in request.without else torchaudio.load(path)[0]
            audio = torch.nn.functional.pad(audio, (0, request.samples - audio.shape[1]))
            return {"audio": audio, "target": target[position], "labels": labels[position], "clip": clip[position]}

    with epochs_of(request, Files()) as epoch:
        yield epoch
