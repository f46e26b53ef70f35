"""SPDL threads with its own WAV reader: whole batches read at once, each item converted once, into its batch.

For WAV files as they are, without worker processes: threads share memory, so that a batch is handed over and not
copied. Its time goes into reading files and converting int16. `workers` are threads, each of which makes a whole
batch: a stage of single items, gathered afterwards, takes nearly twice the processor time, for SPDL's own bookkeeping.
Set workers to the number of cores. `where: subprocess` runs the same threads in one other process, as SPDL's guide
advises for training on a GPU: what Python does there does not hold up the training loop, but each batch is in new
shared memory, which both processes must map. The pipeline runs on from one epoch into the next.
"""

from scripts.loaders._spdl import BATCHES_SNIPPET, READ_SNIPPET, SETTINGS, ReadBatch, epochs_in_batches, in_subprocess  # noqa: F401
from scripts.loaders._stored import STAGES  # noqa: F401
from scripts.loaders._torch import simplify_threads as simplify  # noqa: F401
from scripts.machine import gpu

FORMAT = "wav"
REQUIRES = ("torch", "spdl", "numpy")
LIFETIME = "lasting"
OPTIONS = {"where": {"enum": ["thread", "subprocess"], "default": "thread"}}
SNIPPET = (
    BATCHES_SNIPPET
    + """
import spdl.io


def fill(audio, positions):
    for position, row in zip(positions, audio.numpy()[:, 0], strict=True):
        with open(data / f"{position:06d}.wav", "rb", buffering=0) as file:
            pcm = np.asarray(spdl.io.load_wav(file.read()))[:samples, 0]  # int16, a view
        row[: len(pcm)] = pcm
        row[: len(pcm)] *= np.float32(1 / 32768)
        row[len(pcm) :] = 0


$when where=thread
def read(positions):
    shape = len(positions), 1, samples
    audio = torch.empty(shape, pin_memory=True) if pin else torch.from_numpy(np.empty(shape, dtype=np.float32))
    fill(audio, positions)
    where = torch.from_numpy(positions)
    return {"audio": audio, "target": target[where], "labels": labels[where]}

"""
    + READ_SNIPPET
    + """
$when where=subprocess
from spdl.pipeline import run_pipeline_in_subprocess
def read(positions):
    # in shared memory at once, as torch's own collating does it: sending the batch then copies nothing
    storage = torch.empty(0)._typed_storage()._new_shared(len(positions) * samples, device="cpu")
    audio = torch.empty(0).new(storage).view(len(positions), 1, samples)
    fill(audio, positions)
    return audio, positions


builder = PipelineBuilder().add_source(Batches(), continuous=True)  # goes on with the next epoch by itself
builder.pipe(read, concurrency=$workers, output_order="input").add_sink($prefetch)
batches = run_pipeline_in_subprocess(
    builder.get_config(),
    num_threads=$workers,
    max_failures=0,
    buffer_size=$prefetch,
    mp_context="fork",
)


class Loader:
    def __iter__(self):
        for audio, positions in batches:
            audio = audio.pin_memory() if pin else audio
            where = torch.from_numpy(positions)
            yield {"audio": audio, "target": target[where], "labels": labels[where]}


$own_loader
$end
"""
)


class Files(ReadBatch):
    """Reads numbered WAV files, each converted once, to where it stays."""

    def read(self, positions, rows):
        """Write the items at `positions` into `rows`, float32 (n, 1, samples): padded with zeros, or cut."""
        import numpy as np
        import spdl.io

        for position, row in zip(positions.tolist(), rows[:, 0], strict=True):
            with open(self.request.data / f"{position:06d}.wav", "rb", buffering=0) as file:
                encoded = file.read()
            if "decode" in self.request.without:
                row[:] = 0
                continue
            pcm = np.asarray(spdl.io.load_wav(encoded))[: len(row), 0]  # int16, a view of what was read
            filled = row[: len(pcm)]
            filled[:] = pcm
            filled *= np.float32(1 / 32768)
            row[len(pcm) :] = 0


def open_epochs(request):
    """Return what opens the epoch function over numbered WAV files."""
    import torch

    if request.options["where"] == "thread":
        return epochs_in_batches(Files(request), request)
    unsent = torch.zeros((request.batch_size, 1, request.samples)) if "transfer" in request.without else None

    def arrived(audio, count):
        if audio is None:
            return unsent[:count]
        return gpu.pinned(audio) if request.pin_memory else audio

    return epochs_in_batches(Files(request, sent=True), request, in_subprocess, arrived)
