"""soundfile in a DataLoader: WAV files decoded by libsndfile straight into the batch.

The fast way to read plain WAV in Python. Its time goes into opening and decoding a file for each item: set workers to
the number of cores. It asks libsndfile for int16 and scales by 1/32768 while copying into the batch's row: the same
bits as `dtype="float32"`, in less time.
"""

from scripts.common.request import undecoded
from scripts.common.settings import OF_DATA_LOADER as SETTINGS  # noqa: F401
from scripts.loaders._stored import STAGES  # noqa: F401
from scripts.loaders._torch import Batches, empty_batch, epochs_of, simplify  # noqa: F401

FORMAT = "wav"
REQUIRES = ("torch", "soundfile", "numpy")
LIFETIME = "lasting"
SNIPPET = """
import soundfile

$head
$labels


$items_class

    def __getitems__(self, positions):  # a batch at a time
        audio = empty_batch(len(positions))
        pcm = np.empty(samples, dtype=np.int16)
        for position, row in zip(positions, audio.numpy()[:, 0], strict=True):
            decoded, _ = soundfile.read(data / f"{position:06d}.wav", out=pcm)
            np.multiply(decoded, np.float32(1 / 32768), out=row[: len(decoded)])
            row[len(decoded) :] = 0
        return {"audio": audio, "target": target[positions], "labels": labels[positions]}


$by_data_loader
"""


def open_epochs(request):
    """Return what opens the epoch function over numbered WAV files."""
    import numpy as np
    import soundfile

    scale = np.float32(1 / 32768)

    def decode(path, row, pcm):
        decoded, _ = soundfile.read(path, out=pcm)  # of a longer file the beginning, of a shorter one all
        np.multiply(decoded, scale, out=row[: len(decoded)])
        row[len(decoded) :] = 0

    class Files(Batches):
        def path_of(self, position):
            return request.data / f"{position:06d}.wav"

        def files_to_decode(self, positions):  # for the batch timeline
            return map(self.path_of, positions)

        def gathered(self, positions):
            audio = empty_batch(len(positions), request.sample)
            pcm = np.empty(request.samples, dtype=np.int16)
            for position, rows in zip(positions, audio, strict=True):
                path = self.path_of(position)
                if "decode" in request.without:
                    rows[:] = undecoded(path, request)
                else:
                    decode(path, rows[0].numpy(), pcm)
            return audio

    return epochs_of(request, Files(request))
