"""SPDL around an existing Dataset: its items made in threads, then collated, as SPDL's migration guide begins.

For those who have a map-style Dataset that threads may share and whose reading releases Python's lock (here soundfile,
one WAV file a clip), and who change nothing but the DataLoader around it. Its time goes into decoding, into SPDL's
bookkeeping for each clip, and into collating, which one thread does for all; the guide itself goes on from here to
batches without copies, as `spdl` has them. `workers` are threads: set as many as there are cores. The pipeline runs on
from one epoch into the next.
"""

from contextlib import contextmanager

from scripts.common.request import undecoded
from scripts.loaders import _torch
from scripts.loaders._spdl import SETTINGS, Clips, epochs_of, in_threads, simplify, threads_of  # noqa: F401
from scripts.loaders._torch import Again, to_device
from scripts.machine import gpu

FORMAT = "wav"
REQUIRES = ("torch", "spdl", "soundfile", "numpy")
LIFETIME = "lasting"
STAGES = ("read", "decode")
SNIPPET = """
import soundfile
from spdl.pipeline import PipelineBuilder
from torch.utils.data import Dataset, RandomSampler, default_collate

$head
$labels
pin = $pin_memory  # page-locked memory makes the copy to a GPU faster


class Clips(Dataset):
    def __len__(self):
        return len(target)

    def __getitem__(self, position):
        pcm, _ = soundfile.read(data / f"{position:06d}.wav", frames=samples, dtype="float32")
        audio = torch.nn.functional.pad(torch.from_numpy(pcm), (0, samples - len(pcm)))[None]
        return {"audio": audio, "target": target[position], "labels": labels[position]}


def collate(items):
    batch = default_collate(items)
    return {name: tensor.pin_memory() for name, tensor in batch.items()} if pin else batch


dataset = Clips()
loader = (
    PipelineBuilder()
    .add_source(RandomSampler(dataset, generator=torch.Generator().manual_seed($seed)), continuous=True)
    .pipe(dataset.__getitem__, concurrency=$workers, output_order="input")
    .aggregate(batch_size)
    .pipe(collate)
    .add_sink($prefetch)
    .build(num_threads=$workers, max_failures=0)
)

$loop
"""


@contextmanager
def open_epochs(request):
    """Yield the epoch function over numbered WAV files."""
    import soundfile
    import torch
    from spdl.pipeline import PipelineBuilder
    from torch.utils.data import default_collate

    class Files(_torch.Clips):
        def item(self, position):
            path = request.data / f"{position:06d}.wav"
            if "decode" in request.without:
                return undecoded(path, request)
            pcm, _ = soundfile.read(path, frames=request.samples, dtype="float32")
            return torch.nn.functional.pad(torch.from_numpy(pcm), (0, request.samples - len(pcm)))[None]

    dataset = Again(Files(request), sent=False) if "read" in request.without else Files(request)

    def collate(items):
        batch = default_collate(items)
        return {key: gpu.pinned(value) for key, value in batch.items()} if request.pin_memory else batch

    def started(number):
        builder = PipelineBuilder().add_source(Clips(request, number), continuous=True)
        builder.pipe(dataset.__getitem__, concurrency=threads_of(request), output_order="input")
        return in_threads(builder.aggregate(request.batch_size).pipe(collate), request)

    with epochs_of(started) as epoch:
        yield lambda number: to_device(epoch(number), request)
