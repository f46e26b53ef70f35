"""SPDL threads with its own image I/O: each image decoded by FFmpeg without Python's lock, whole batches at a time.

Without worker processes: threads share memory, so that a batch is handed over and not copied. `workers` are threads,
each of which makes a whole batch; set them to the number of cores. Its time goes into decoding. FFmpeg's decoder scales
the colours of JPEG up in another way than libjpeg-turbo does: values differ (PIXEL_LIMIT), and the record of the proof
says by how much.
"""

from collections import deque
from contextlib import contextmanager

from scripts.loaders._image import content_of, path_of, put
from scripts.loaders._spdl import SETTINGS, Batches, epochs_of, in_threads, simplify, threads_of  # noqa: F401
from scripts.loaders._torch import to_device
from scripts.machine import gpu

FORMAT = "files"
REQUIRES = ("torch", "spdl", "numpy")
LIFETIME = "lasting"
STAGES = ("read", "decode")
PIXEL_LIMIT = 48  # of 255; 27 was the most of 120 made images, 163 of noise of pure colours, which is refused
SNIPPET = """
import spdl.io
from spdl.pipeline import PipelineBuilder

$head
$labels
pin = $pin_memory  # page-locked memory makes the copy to a GPU faster
colours = spdl.io.get_video_filter_desc(pix_fmt="gray" if shape[0] == 1 else "rgb24")


class Batches:
    def __init__(self):
        self.random = np.random.default_rng($seed)

    def __iter__(self):  # an epoch of positions, each time in a new order
        order = self.random.permutation(len(target))
        yield from (order[start : start + batch_size] for start in range(0, len(order), batch_size))


def frames_of(position):
    content = (data / f"{position:06d}.$ending").read_bytes()
    return spdl.io.decode_packets(spdl.io.demux_image(content), filter_desc=colours)


def read(positions):  # a batch at a time: all its frames, then one copy
    pixels = spdl.io.to_numpy(spdl.io.convert_frames([frames_of(position) for position in positions.tolist()]))
    first = pixels.transpose(0, 3, 1, 2) if pixels.ndim == 4 else pixels[:, None]
    $item = torch.empty(first.shape, dtype=torch.$dtype, pin_memory=pin)
    $when dtype=uint8
    $item.numpy()[...] = first
    $when dtype=float32
    np.multiply(first, np.float32(1 / 255), out=$item.numpy())
    $end
    where = torch.from_numpy(positions)
    return {"$item": $item, "target": target[where], "labels": labels[where]}


loader = (
    PipelineBuilder()
    .add_source(Batches(), continuous=True)  # goes on with the next epoch by itself
    .pipe(read, concurrency=$workers, output_order="input")
    .add_sink($prefetch)
    .build(num_threads=$workers, max_failures=0)
)

$loop
"""


class ReadBatch:
    """Reads and decodes the numbered files of a batch: SPDL keeps the frames apart until one copy makes a batch."""

    def __init__(self, request):
        self.request = request
        self.kept = None  # the first image, where reading is left out

    def __call__(self, positions):
        """Return (data (batch, channels, height, width), positions)."""
        batch = self._empty(len(positions))
        rows = batch.numpy()
        if "read" not in self.request.without:
            self._read(positions, rows)
        else:
            if self.kept is None:
                self._read(positions[:1], rows[:1])
                self.kept = rows[0].copy()
            rows[:] = self.kept
        return batch, positions

    def _empty(self, count):
        import numpy as np
        import torch

        shape, dtype = (count, *self.request.sample.shape), self.request.sample.dtype
        if self.request.pin_memory:
            return gpu.empty_pinned(shape, getattr(torch, dtype))
        return torch.from_numpy(np.empty(shape, dtype))

    def _read(self, positions, rows):
        import spdl.io

        contents = (content_of(path_of(self.request, position)) for position in positions.tolist())
        if "decode" in self.request.without:
            deque(contents, maxlen=0)
            rows.fill(0)
            return
        colours = spdl.io.get_video_filter_desc(pix_fmt="gray" if self.request.sample.shape[0] == 1 else "rgb24")
        frames = [spdl.io.decode_packets(spdl.io.demux_image(one), filter_desc=colours) for one in contents]
        pixels = spdl.io.to_numpy(spdl.io.convert_frames(frames))
        put(pixels.transpose(0, 3, 1, 2) if pixels.ndim == 4 else pixels[:, None], rows)


@contextmanager
def open_epochs(request):
    """Yield the epoch function over numbered image files."""
    import torch
    from spdl.pipeline import PipelineBuilder

    from scripts.common.labels import read_labels

    clip, target, labels = map(torch.from_numpy, read_labels(request.data))
    read = ReadBatch(request)

    def started(number):
        builder = PipelineBuilder().add_source(Batches(request, number), continuous=True)
        builder.pipe(read, concurrency=threads_of(request), output_order="input")
        return in_threads(builder, request)

    def batches(parts):
        for data, positions in parts:
            where = torch.from_numpy(positions)
            yield {
                request.sample.key: data,
                "target": target[where],
                "labels": labels[where],
                "clip": clip[where],
            }

    with epochs_of(started) as epoch:
        yield lambda number: to_device(batches(epoch(number)), request)
