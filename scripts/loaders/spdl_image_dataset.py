"""SPDL around an existing Dataset of images: made in threads, then collated, as SPDL's migration guide begins.

For those who have a map-style Dataset and change nothing but the DataLoader around it: Pillow lets go of Python's lock
while it decodes. Its time goes into decoding, into SPDL's bookkeeping for each image, and into collating, which one
thread does for all; the guide itself goes on from here to `spdl_images`. `workers` are threads: set as many as there
are cores. The pipeline runs on from one epoch into the next.
"""

from contextlib import contextmanager

from scripts.loaders import _torch
from scripts.loaders._image import content_of, decode_of, path_of
from scripts.loaders._spdl import SETTINGS, Clips, epochs_of, in_threads, simplify, threads_of  # noqa: F401
from scripts.loaders._torch import Again, to_device
from scripts.machine import gpu

FORMAT = "files"
REQUIRES = ("torch", "spdl", "pillow", "numpy")
LIFETIME = "lasting"
STAGES = ("read", "decode")
SNIPPET = """
from PIL import Image
from spdl.pipeline import PipelineBuilder
from torch.utils.data import Dataset, RandomSampler, default_collate

$head
$labels
pin = $pin_memory  # page-locked memory makes the copy to a GPU faster


class Clips(Dataset):
    def __len__(self):
        return len(target)

    def __getitem__(self, position):
        with Image.open(data / f"{position:06d}.$ending") as image:
            pixels = np.asarray(image)
        $item = torch.from_numpy(pixels.transpose(2, 0, 1) if pixels.ndim == 3 else pixels[None])
        $when dtype=float32
        $item = $item * np.float32(1 / 255)
        $end
        return {"$item": $item, "target": target[position], "labels": labels[position]}


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
    """Yield the epoch function over numbered image files."""
    import numpy as np
    import torch
    from spdl.pipeline import PipelineBuilder
    from torch.utils.data import default_collate

    decode = decode_of("pillow", request)

    class Files(_torch.Clips):
        def item(self, position):
            row = np.empty(request.sample.shape, request.sample.dtype)
            decode(content_of(path_of(request, position)), row)
            return torch.from_numpy(row)

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
