"""torchaudio.load in a DataLoader: one WAV file opened and decoded per clip.

`decoder: load` calls `torchaudio.load`, which since torchaudio 2.9 decodes by torchcodec, that is FFmpeg: its time goes
into opening a decoder for each clip. `decoder: torchcodec` calls torchcodec itself, as its own documentation advises;
`decoder: soundfile` reads as torchaudio's backend of that name did before. Set workers to the number of cores.
"""

from contextlib import contextmanager

from scripts.common.request import undecoded
from scripts.loaders import _torch
from scripts.loaders._torch import epochs_of, simplify  # noqa: F401

FORMAT = "wav"
REQUIRES = ("torch", "torchaudio", "torchcodec", "soundfile", "numpy")
SETTINGS = ("workers", "prefetch", "pin_memory")
STAGES = (*_torch.STAGES, "decode")
OPTIONS = {"decoder": {"enum": ["load", "torchcodec", "soundfile"], "default": "load"}}
_PROGRAM = """
from pathlib import Path

import numpy as np
$imports

data = Path($data)
samples = $samples  # of a clip; shorter ones are padded, longer ones cut
target = torch.from_numpy(np.load(data / "target.npy"))  # int64 (clips,), the first class of a clip
labels = torch.from_numpy(np.load(data / "labels.npy"))  # float32 (clips, classes)


class Files(torch.utils.data.Dataset):
    def __len__(self):
        return len(target)

    def __getitem__(self, position):
        path = data / f"{position:06d}.wav"
        audio = $decoded
        audio = torch.nn.functional.pad(audio, (0, samples - audio.shape[1]))
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
"""
SNIPPET = {
    decoder: _PROGRAM.replace("$imports", imports).replace("$decoded", decoded)
    for decoder, imports, decoded in (
        ("load", "import torch\nimport torchaudio", "torchaudio.load(path)[0]"),
        (
            "torchcodec",
            "import torch\nfrom torchcodec.decoders import AudioDecoder",
            "AudioDecoder(path).get_all_samples().data",
        ),
        (
            "soundfile",
            "import soundfile\nimport torch",
            'torch.from_numpy(soundfile.read(path, dtype="float32", always_2d=True)[0].T)',
        ),
    )
}


@contextmanager
def open_epochs(request):
    """Yield the epoch function over numbered WAV files."""
    import torch

    from scripts.common.labels import read_labels

    decode = _decoder(request.options["decoder"])
    clip, target, labels = map(torch.from_numpy, read_labels(request.data))

    def path_of(position):
        return request.data / f"{position:06d}.wav"

    class Files(torch.utils.data.Dataset):
        def files_to_decode(self, positions):  # for the batch timeline
            return map(path_of, positions)

        def __getitem__(self, position):
            path = path_of(position)
            audio = undecoded(path, request) if "decode" in request.without else decode(path)
            audio = torch.nn.functional.pad(audio, (0, request.samples - audio.shape[1]))
            return {"audio": audio, "target": target[position], "labels": labels[position], "clip": clip[position]}

    with epochs_of(request, Files()) as epoch:
        yield epoch


def _decoder(name):
    """Return a function from a path to a clip in its natural length, float32 (1, n)."""
    if name == "load":
        import torchaudio

        return lambda path: torchaudio.load(path)[0]
    if name == "torchcodec":
        from torchcodec.decoders import AudioDecoder

        return lambda path: AudioDecoder(path).get_all_samples().data
    import soundfile
    import torch

    return lambda path: torch.from_numpy(soundfile.read(path, dtype="float32", always_2d=True)[0].T)
