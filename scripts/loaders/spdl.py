"""SPDL threads with its own WAV reader: whole batches read at once, each item converted once, into its batch.

For WAV files as they are, without worker processes: threads share memory, so that a batch is handed over and not
copied. Its time goes into reading files and converting int16. `workers` are threads, each of which makes a whole
batch: a stage of single items, gathered afterwards, takes nearly twice the processor time, for SPDL's own bookkeeping.
Set workers to the number of cores. `where: subprocess` runs the same threads in one other process, as SPDL's guide
advises for training on a GPU: what Python does there does not hold up the training loop, but each batch is in new
shared memory, which both processes must map. The pipeline runs on from one epoch into the next.
"""

from contextlib import contextmanager

from scripts.loaders import _torch
from scripts.loaders._spdl import (
    BATCHES_SNIPPET,
    SETTINGS,  # noqa: F401
    Batches,
    ReadBatch,
    epochs_of,
    in_subprocess,
    in_threads,
    simplify,  # noqa: F401
    threads_of,
)
from scripts.loaders._torch import to_device
from scripts.machine import gpu

FORMAT = "wav"
REQUIRES = ("torch", "spdl", "numpy")
LIFETIME = "lasting"
STAGES = (*_torch.STAGES, "decode")
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


loader = (
    PipelineBuilder()
    .add_source(Batches(), continuous=True)  # goes on with the next epoch by itself
    .pipe(read, concurrency=$workers, output_order="input")
    .add_sink($prefetch)
    .build(num_threads=$workers, max_failures=0)
)
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


loader = Loader()
$end

$loop
"""
)


@contextmanager
def open_epochs(request):
    """Yield the epoch function over numbered WAV files."""
    import torch
    from spdl.pipeline import PipelineBuilder

    from scripts.common.labels import read_labels

    item, target, labels = map(torch.from_numpy, read_labels(request.data))
    sent = request.options["where"] == "subprocess"
    read = ReadBatch(request, sent)
    unsent = torch.zeros((request.batch_size, 1, request.samples)) if sent and "transfer" in request.without else None

    def started(number):
        builder = PipelineBuilder().add_source(Batches(request, number), continuous=True)
        builder.pipe(read, concurrency=threads_of(request), output_order="input")
        return (in_subprocess if sent else in_threads)(builder, request)

    def batches(parts):
        for audio, positions in parts:
            where = torch.from_numpy(positions)
            if audio is None:
                audio = unsent[: len(where)]
            elif sent and request.pin_memory:
                audio = gpu.pinned(audio)
            yield {"audio": audio, "target": target[where], "labels": labels[where], "item": item[where]}

    with epochs_of(started) as epoch:
        yield lambda number: to_device(batches(epoch(number)), request)
