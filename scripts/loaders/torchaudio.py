"""torchaudio.load in a DataLoader: one WAV file opened and decoded per item.

`decoder: load` calls `torchaudio.load`, which since torchaudio 2.9 decodes by torchcodec, that is FFmpeg: its time goes
into opening a decoder for each item. `decoder: torchcodec` calls torchcodec itself, as its own documentation advises;
`decoder: soundfile` reads as torchaudio's backend of that name did before. Set workers to the number of cores.
"""

from scripts.common.request import undecoded
from scripts.common.settings import OF_DATA_LOADER as SETTINGS  # noqa: F401
from scripts.loaders._stored import STAGES  # noqa: F401
from scripts.loaders._torch import Items, epochs_of, simplify  # noqa: F401

FORMAT = "wav"
REQUIRES = ("torch", "torchaudio", "torchcodec", "soundfile", "numpy")
LIFETIME = "lasting"
OPTIONS = {"decoder": {"enum": ["load", "torchcodec", "soundfile"], "default": "load"}}
SNIPPET = """

$head
$labels


$items_class

    def __getitem__(self, position):
        path = data / f"{position:06d}.wav"
$when decoder=load
import torchaudio
        audio = torchaudio.load(path)[0]
$when decoder=torchcodec
from torchcodec.decoders import AudioDecoder
        audio = AudioDecoder(path).get_all_samples().data
$when decoder=soundfile
import soundfile
        audio = torch.from_numpy(soundfile.read(path, dtype="float32", always_2d=True)[0].T)
$end
        if audio.shape[1] != samples:
            audio = torch.nn.functional.pad(audio, (0, samples - audio.shape[1]))
        return {"audio": audio, "target": target[position], "labels": labels[position]}


$by_data_loader
"""


def open_epochs(request):
    """Return what opens the epoch function over numbered WAV files."""
    import torch

    decode = _decoder(request.options["decoder"])

    class Files(Items):
        def files_to_decode(self, positions):  # for the batch timeline
            return [request.data / f"{position:06d}.wav" for position in positions]

        def item(self, position):
            path = request.data / f"{position:06d}.wav"
            audio = undecoded(path, request) if "decode" in request.without else decode(path)
            missing = request.samples - audio.shape[1]
            return torch.nn.functional.pad(audio, (0, missing)) if missing else audio  # a pad of nothing is a copy

    return epochs_of(request, Files(request))


def _decoder(name):
    """Return a function from a path to an item in its natural length, float32 (1, n)."""
    if name == "load":
        import torchaudio

        return lambda path: torchaudio.load(path)[0]
    if name == "torchcodec":
        from torchcodec.decoders import AudioDecoder

        return lambda path: AudioDecoder(path).get_all_samples().data
    import soundfile
    import torch

    return lambda path: torch.from_numpy(soundfile.read(path, dtype="float32", always_2d=True)[0].T)
