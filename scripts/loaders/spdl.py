"""SPDL threads with its own WAV reader: whole batches read at once, each item converted once, into its batch.

For WAV files as they are, without worker processes: threads share memory, so that a batch is handed over and not
copied. Its time goes into reading files and converting int16. `workers` are threads, each of which makes a whole
batch: a stage of single items, gathered afterwards, takes nearly twice the processor time, for SPDL's own bookkeeping.
Set workers to the number of cores. `where: subprocess` runs the same threads in one other process, as SPDL's guide
advises for training on a GPU: what Python does there does not hold up the training loop, but each batch is in new
shared memory, which both processes must map. The pipeline runs on from one epoch into the next.
"""

from functools import partial

import numpy as np
import spdl.io
import torch
from spdl.pipeline import PipelineBuilder, run_pipeline_in_subprocess

from scripts.loaders._declared import DECODING as STAGES
from scripts.loaders._plain.data_loader import empty_shared
from scripts.loaders._plain.epochs import Epochs, in_batches, shuffled
from scripts.loaders._plain.labels import rows_of
from scripts.loaders._plain.spdl import Files, Source, by_batch, empty_of, read, running_on
from scripts.loaders._spdl import SETTINGS, simplify, without_read

FORMAT = "wav"
REQUIRES = ("torch", "spdl", "numpy")
LIFETIME = "lasting"
OPTIONS = {"where": {"enum": ["thread", "subprocess"], "default": "thread"}}


def decode(content, row):
    """Write a WAV file's samples into a row of the batch, float32 (1, samples): padded with zeros, or cut."""
    pcm = np.asarray(spdl.io.load_wav(content))[: row.shape[-1], 0]  # int16, a view of what was read
    filled = row[0, : len(pcm)]
    filled[:] = pcm
    filled *= np.float32(1 / 32768)
    row[0, len(pcm) :] = 0


def empty_sent(items, shape, dtype):
    """Return an unfilled batch in shared memory: sending it copies nothing."""
    return empty_shared((items, *shape), getattr(torch, dtype))


def transfer(source, make, workers, prefetch):
    """Return a pipeline that runs in threads of another process, which sends here what `make` gives.

    Not in SPDL's shared-memory arena. That uses a batch's memory again, and takes away at the end what is still held.
    """
    builder = PipelineBuilder().add_source(source, continuous=True)
    builder.pipe(make, concurrency=workers, output_order="input").add_sink(prefetch)
    return run_pipeline_in_subprocess(
        builder.get_config(), num_threads=workers, max_failures=0, buffer_size=prefetch, mp_context="fork"
    )


def stop(passes):
    """End the process of a pipeline. SPDL has no public call for it, and does so when `passes` is collected."""
    passes._shutdown()


def make_loader(data, key, shape, dtype, where, batch_size, workers, prefetch, pin_memory, seed, order=None):
    """Return a loader of numbered WAV files, each converted once, to where it stays."""
    if where == "thread":
        files = Files(data, key, shape, dtype, "wav", partial(read, decode), empty_of(pin_memory))
        return by_batch(files, batch_size, workers, prefetch, seed, order)
    files = Files(data, key, shape, dtype, "wav", partial(read, decode), empty_sent)
    order = order or shuffled(len(files), seed)

    def make(positions):
        return files.batch(positions), positions

    def start(number):
        source = Source(lambda epoch: in_batches(order(epoch), batch_size), number)
        return transfer(source, make, workers, prefetch)

    def batches(number):
        for audio, positions in running.batches(number):
            audio = audio.pin_memory() if pin_memory else audio
            yield {key: audio, **rows_of(files.labels, positions)}

    running = running_on(start, stop)
    return Epochs(batches, running.close)


class Unsent:
    """The passes of a pipeline that sends no data: the same zeros come in its place."""

    def __init__(self, passes, zeros):
        self.passes, self.zeros = passes, zeros

    def __iter__(self):
        return ((self.zeros[: len(positions)], positions) for _, positions in self.passes)

    def _shutdown(self):
        self.passes._shutdown()


def without_transfer(transfer, request):
    """Return a function that runs the same pipeline, but sends nothing of a batch but its positions."""

    def unsent(source, make, *how):
        passes = transfer(source, lambda positions: (None, make(positions)[1]), *how)
        return Unsent(passes, torch.zeros((request.batch_size, *request.sample.shape)))

    return unsent
