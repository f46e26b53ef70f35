"""SPDL threads with its own WAV reader: whole batches read at once, each clip converted once, into its batch.

For WAV files as they are, without worker processes: threads share memory, so that a batch is handed over and not
copied. Its time goes into reading files and converting int16. `workers` are threads, each of which makes a whole
batch: a stage of single clips, gathered afterwards, takes nearly twice the processor time, for SPDL's own bookkeeping.
Set workers to the number of cores. `where: subprocess` runs the same threads in one other process, as SPDL's guide
advises for training on a GPU: what Python does there does not hold up the training loop, but each batch lies in new
shared memory, which both processes must map. The pipeline runs on from one epoch into the next.
"""

from contextlib import contextmanager

import torch_dataloader
from spdl_pipeline import (
    SETTINGS,  # noqa: F401
    Batches,
    ReadBatch,
    epochs_of,
    in_subprocess,
    in_threads,
    pinned,
    simplify,  # noqa: F401
    threads_of,
)
from torch_dataloader import to_device

FORMAT = "wav"
ENV = "spdl"
REQUIRES = ("torch", "spdl", "numpy")
STAGES = (*torch_dataloader.STAGES, "decode")
OPTIONS = {"where": {"enum": ["thread", "subprocess"], "default": "thread"}}


@contextmanager
def open_epochs(request):
    """Yield the epoch function over numbered WAV files."""
    import torch
    from spdl.pipeline import PipelineBuilder

    from labels import read_labels

    clip, target, labels = map(torch.from_numpy, read_labels(request.data))
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
            elif sent and pinned(request):
                audio = audio.pin_memory()
            yield {"audio": audio, "target": target[where], "labels": labels[where], "clip": clip[where]}

    with epochs_of(started) as epoch:
        yield lambda number: to_device(batches(epoch(number)), request)
